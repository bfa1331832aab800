//! Job files and job options on the command line.
//!
//! Takes text and what surrounds it (other files, environment, machine); gives a [`JobSet`] of
//! validated jobs, or the first error with its place. Keeps true: every job comes from the same
//! table of [`options`](crate::options), wherever it was written; what fio has and Zonal does
//! without is never dropped in silence.
//!
//! ```text
//! text -> lexer -> sections (include) -> build (expand, options) -> JobSet
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
mod expand;
mod lexer;
mod sections;

pub use args::parse_args;
pub use environment::{Environment, MemoryEnvironment, SystemEnvironment};
pub use error::{JobError, Origin};

use crate::job::Job;
use crate::options::Effect;
use build::Builder;
use std::fmt;
use std::path::Path;

/// All jobs of a run, in the order in which they are to be reported.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobSet {
    /// The jobs; each says how many clones of it run.
    pub jobs: Vec<Job>,
    /// Options of fio that were given and are not used, each once.
    pub ignored: Vec<IgnoredOption>,
    /// The options that `[global]` sections and the command line give to all jobs, in fio's names,
    /// with the values as written.
    pub global_options: Vec<(String, String)>,
}

/// An option that fio has and Zonal does without, where it was first given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoredOption {
    /// fio's name for it.
    pub name: &'static str,
    /// Where it stands.
    pub origin: Origin,
    /// What its absence means.
    pub effect: Effect,
}

impl IgnoredOption {
    /// Whether the job runs differently than it would in fio.
    pub fn changes_workload(&self) -> bool {
        self.effect != Effect::None
    }
}

impl fmt::Display for IgnoredOption {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let IgnoredOption { name, origin, effect } = self;
        match effect {
            Effect::None => write!(f, "{origin}: {name} has no effect here"),
            Effect::Changes(instead) => {
                write!(f, "{origin}: {name} is not supported, the job runs differently: {instead}")
            }
        }
    }
}

/// Reads the job file `text`, called `name` in errors. `include` and `${VARIABLE}` are answered by
/// `source`.
pub fn parse_str(name: &str, text: &str, source: &dyn Environment) -> Result<JobSet, JobError> {
    let mut builder = Builder::new(source);
    builder.add_all(sections::read(name, text, source)?)?;
    builder.finish()
}

/// Reads the job file at `path`, `-` for standard input.
pub fn parse_file(path: &Path, source: &dyn Environment) -> Result<JobSet, JobError> {
    let mut builder = Builder::new(source);
    builder.add_all(sections::read_file(path, source)?)?;
    builder.finish()
}

/// The options that the job's own section gives, as fio's JSON report has them in "job options":
/// fio's names, the values as written, `1` for a flag without one.
pub fn to_options(job: &Job) -> Vec<(String, String)> {
    job.given.clone()
}
