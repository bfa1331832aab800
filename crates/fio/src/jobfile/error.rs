//! What is wrong with a job, and where.
use crate::options::{Conflict, ValueError};
use std::fmt;
use std::io;
use std::sync::Arc;
use thiserror::Error;

/// Where an option stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In a file.
    File {
        /// Name of the file.
        file: Arc<str>,
        /// Line, from 1.
        line: u32,
    },
    /// On the command line.
    CommandLine,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Origin::File { file, line } => write!(f, "{file}:{line}"),
            Origin::CommandLine => f.write_str("command line"),
        }
    }
}

/// Why jobs cannot be read. The message is whole: it has that of its cause in it.
#[derive(Debug, Error)]
pub enum JobError {
    /// The file cannot be read.
    #[error("{file}: {error}")]
    Read {
        /// The file.
        file: String,
        /// What the system said.
        error: io::Error,
    },
    /// An included file cannot be read.
    #[error("{origin}: include {file}: {error}")]
    Include {
        /// Where it is included.
        origin: Origin,
        /// The file.
        file: String,
        /// What the system said.
        error: io::Error,
    },
    /// A file includes itself.
    #[error("{origin}: include {file}: the file includes itself")]
    IncludeCycle {
        /// Where it is included again.
        origin: Origin,
        /// The file.
        file: String,
    },
    /// Files include files include files.
    #[error("{origin}: include {file}: more than {limit} files inside one another")]
    IncludeDepth {
        /// Where the limit is passed.
        origin: Origin,
        /// The file.
        file: String,
        /// The limit.
        limit: usize,
    },
    /// An included file begins a section.
    #[error("{origin}: an included file cannot have [sections]")]
    SectionInInclude {
        /// Where it begins.
        origin: Origin,
    },
    /// A line in brackets is no section.
    #[error("{origin}: expected a section such as [job], found {found:?}")]
    Section {
        /// Where it stands.
        origin: Origin,
        /// The line.
        found: String,
    },
    /// An option before the first section.
    #[error("{origin}: {found:?} stands before the first [section]")]
    OutsideSection {
        /// Where it stands.
        origin: Origin,
        /// The line.
        found: String,
    },
    /// No such option.
    #[error("{origin}: unknown option {}{}", spelled(.origin, .name), suggestion(.origin, *.nearest))]
    UnknownOption {
        /// Where it stands.
        origin: Origin,
        /// The name.
        name: String,
        /// The known name most like it.
        nearest: Option<&'static str>,
    },
    /// The value is wrong.
    #[error("{origin}: {option}: {error}")]
    Value {
        /// Where it stands.
        origin: Origin,
        /// The option, as it was written.
        option: String,
        /// What is wrong.
        error: ValueError,
    },
    /// Options contradict each other.
    #[error("{origin}: {option}: {conflict}")]
    Conflict {
        /// Where the option stands, or the section if nothing gives the option.
        origin: Origin,
        /// The option to blame.
        option: &'static str,
        /// What is wrong.
        conflict: Conflict,
    },
    /// An argument is not Unicode.
    #[error("command line: {0} is not valid UTF-8")]
    Argument(String),
    /// `--section` names none of the sections.
    #[error("command line: --section={name}: the job files have no such section")]
    NoSuchSection {
        /// The name.
        name: String,
    },
    /// Nothing to do.
    #[error("no job is defined: a job file needs a [section], the command line needs --name")]
    NoJobs,
}

/// The name as it is to be typed at the origin.
fn spelled(origin: &Origin, name: &str) -> String {
    match origin {
        Origin::File { .. } => format!("{name:?}"),
        Origin::CommandLine => format!("--{name}"),
    }
}

fn suggestion(origin: &Origin, nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!(", did you mean {}?", spelled(origin, name)))
}
