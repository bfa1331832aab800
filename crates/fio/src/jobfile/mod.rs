//! Job files and job options on the command line.
//!
//! Both are parsed into a [`JobSet`] of validated jobs, or fail with the first error and its origin.
//! Options of fio that Zonal does not implement are never dropped silently: the set lists them, and
//! [`JobSet::notices`] refuses those that would change the job.
//!
//! ```text
//! text -> lines -> sections (include) -> build (expand, options) -> JobSet
//! args ------------^
//! ```
//!
//! ```
//! use zonal_fio::jobfile::{MemoryEnvironment, parse_str};
//!
//! let text = "[global]\nbs=64k\n[fill]\nrw=write\nzonemode=zbd\n";
//! let set = parse_str("fill.fio", text, &MemoryEnvironment::default())?;
//! assert_eq!(set.jobs[0].name, "fill");
//! assert_eq!(set.jobs[0].bs, [65536; 3]);
//! # Ok::<(), zonal_fio::jobfile::JobError>(())
//! ```
mod args;
mod build;
mod environment;
mod error;
mod sections;

pub use args::{command_line, parse_args, parse_variants};
pub use environment::{Environment, MemoryEnvironment, SystemEnvironment, WithText};
pub use error::{JobError, Origin};

use crate::job::Job;
use crate::options::Effect;
use build::Builder;
use std::path::Path;

/// All jobs of a run, in the order of the report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobSet {
    /// The jobs; `numjobs` clones of each run.
    pub jobs: Vec<Job>,
    /// Unsupported options of fio that were given, each once.
    pub ignored: Vec<IgnoredOption>,
    /// Remarks for the user about jobs that run differently than their options say, as in fio.
    pub remarks: Vec<String>,
    /// The options of `[global]` sections and of the command line that apply to all jobs, by fio's
    /// names, with the values as written.
    pub global_options: Vec<(String, String)>,
}

/// An unsupported option of fio, where it was first given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoredOption {
    /// fio's name.
    pub name: &'static str,
    /// Where it was given.
    pub origin: Origin,
    /// The effect of its absence.
    pub effect: Effect,
}

impl IgnoredOption {
    /// Whether the job runs differently than in fio.
    pub fn changes_workload(&self) -> bool {
        self.effect != Effect::None
    }
}

impl JobSet {
    /// Notices about options: one line for all that have no effect here, one for each that changes
    /// the job and is not implemented, and the remarks.
    ///
    /// # Errors
    /// The first option that changes the job, unless they are allowed.
    pub fn notices(&self, allow_unsupported: bool) -> Result<Vec<String>, JobError> {
        let mut harmless = Vec::new();
        let mut changes = Vec::new();
        for IgnoredOption { name, origin, effect } in &self.ignored {
            match *effect {
                Effect::None => harmless.push(format!("{name} ({origin})")),
                Effect::Changes(instead) if allow_unsupported => changes.push(format!(
                    "{origin}: {name} is not supported, the job runs differently: {instead}"
                )),
                Effect::Changes(instead) => {
                    return Err(JobError::Unsupported { origin: origin.clone(), name, instead });
                }
            }
        }
        let line = format!("without effect here: {}", harmless.join(", "));
        Ok((!harmless.is_empty())
            .then_some(line)
            .into_iter()
            .chain(changes)
            .chain(self.remarks.iter().cloned())
            .collect())
    }
}

/// Parses the job file `text`, called `name` in errors. Included files and `${VARIABLE}` come from
/// `env`.
pub fn parse_str(name: &str, text: &str, env: &dyn Environment) -> Result<JobSet, JobError> {
    let mut builder = Builder::new(env);
    builder.add_all(sections::read(name, text, env)?)?;
    builder.finish(&[name.to_owned()])
}

/// Parses the job file at `path`, `-` for standard input.
pub fn parse_file(path: &Path, env: &dyn Environment) -> Result<JobSet, JobError> {
    let mut builder = Builder::new(env);
    builder.add_all(sections::read_file(path, env)?)?;
    builder.finish(&[path.display().to_string()])
}
