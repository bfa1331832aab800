//! Jobs as Python gives them: arguments as on the command line, or the text of a job file.
use anyhow::{Context, Result};
use pyo3::prelude::*;
use std::ffi::OsString;
use zonal_fio::job::Job;
use zonal_fio::jobfile::{JobSet, WithText, parse_variants};

/// What errors call the text of a job file.
const NAME: &str = "<jobs>";

/// Jobs.
#[derive(Clone, Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub struct Jobs {
    /// As on the command line.
    args: Vec<OsString>,
    /// The text of a job file besides.
    text: Option<String>,
    /// Options that replace those of every job.
    replace: Vec<(String, String)>,
}

impl Jobs {
    /// Parses them. Returns what there is to say about options that have no effect, too.
    ///
    /// # Errors
    /// As the command line.
    pub fn parse(&self, allow_unsupported: bool) -> Result<(JobSet, Vec<String>)> {
        let mut args = self.args.clone();
        args.extend(self.text.is_some().then(|| NAME.into()));
        let replace = self.replace.iter().map(|(option, value)| (&**option, &**value)).collect();
        let environment = WithText { name: NAME, text: self.text.as_deref() };
        let mut sets = parse_variants(args, &[replace], &environment)?;
        let set = sets.pop().context("one variant has one set of jobs")??;
        let notices = set.notices(allow_unsupported)?;
        Ok((set, notices))
    }

    /// The jobs alone.
    ///
    /// # Errors
    /// As [`Jobs::parse`].
    pub fn jobs(&self) -> Result<(Vec<Job>, Vec<String>)> {
        self.parse(false).map(|(set, notices)| (set.jobs, notices))
    }
}
