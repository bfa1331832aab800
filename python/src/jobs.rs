//! Jobs as Python gives them: arguments as on the command line, or the text of a job file.
use anyhow::{Context, Result};
use pyo3::prelude::*;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use zonal_fio::job::Job;
use zonal_fio::jobfile::{Environment, JobSet, SystemEnvironment, parse_variants};

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

/// The system, with a job file that is no file.
struct WithText<'a>(Option<&'a str>);

impl Jobs {
    /// Parses them. Returns what there is to say about options that have no effect, too.
    ///
    /// # Errors
    /// As the command line.
    pub fn parse(&self, allow_unsupported: bool) -> Result<(JobSet, Vec<String>)> {
        let mut args = self.args.clone();
        args.extend(self.text.is_some().then(|| NAME.into()));
        let replace = self.replace.iter().map(|(option, value)| (&**option, &**value)).collect();
        let mut sets = parse_variants(args, &[replace], &WithText(self.text.as_deref()))?;
        let set = sets.pop().context("one variant has one set of jobs")?;
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

impl Environment for WithText<'_> {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        match self.0 {
            Some(text) if path == Path::new(NAME) => Ok(text.as_bytes().to_owned()),
            _ => SystemEnvironment.read(path),
        }
    }

    fn variable(&self, name: &str) -> Option<String> {
        SystemEnvironment.variable(name)
    }

    fn page_size(&self) -> u64 {
        SystemEnvironment.page_size()
    }

    fn mb_memory(&self) -> u64 {
        SystemEnvironment.mb_memory()
    }

    fn cpus(&self) -> u64 {
        SystemEnvironment.cpus()
    }

    fn random_seed(&self) -> u64 {
        SystemEnvironment.random_seed()
    }
}
