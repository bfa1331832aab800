//! Errors in job files and job options, with their origin.
use crate::options::{Conflict, ValueError};
use std::fmt;
use std::io;
use std::sync::Arc;
use thiserror::Error;

/// Where an option was given.
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

/// An error in job files or options. The message includes that of the cause.
#[derive(Debug, Error)]
pub enum JobError {
    /// The file cannot be read.
    #[error("{file}: {error}")]
    Read {
        /// The file.
        file: String,
        /// The cause.
        error: io::Error,
    },
    /// An included file cannot be read.
    #[error("{origin}: include {file}: {error}")]
    Include {
        /// Where it is included.
        origin: Origin,
        /// The file.
        file: String,
        /// The cause.
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
    /// Includes are nested too deeply.
    #[error("{origin}: include {file}: includes are nested more than {limit} deep")]
    IncludeDepth {
        /// Where the limit is exceeded.
        origin: Origin,
        /// The file.
        file: String,
        /// The limit.
        limit: usize,
    },
    /// An included file contains a section.
    #[error("{origin}: an included file cannot have [sections]")]
    SectionInInclude {
        /// Where it is.
        origin: Origin,
    },
    /// Not a valid section header.
    #[error("{origin}: expected a section such as [job], found {found:?}")]
    Section {
        /// Where it is.
        origin: Origin,
        /// The line.
        found: String,
    },
    /// An option before the first section.
    #[error("{origin}: {found:?} is before the first [section]")]
    OutsideSection {
        /// Where it is.
        origin: Origin,
        /// The line.
        found: String,
    },
    /// No such option.
    #[error("{origin}: unknown option {}{}", spelled(.origin, .name), suggestion(.origin, *.nearest))]
    UnknownOption {
        /// Where it is.
        origin: Origin,
        /// The name.
        name: String,
        /// The closest known name.
        nearest: Option<&'static str>,
    },
    /// The value is invalid.
    #[error("{origin}: {option}: {error}")]
    Value {
        /// Where it is.
        origin: Origin,
        /// The option, as it was written.
        option: String,
        /// The error.
        error: ValueError,
    },
    /// Options conflict with each other.
    #[error("{origin}: {option}: {conflict}")]
    Conflict {
        /// Where the option was given, or the section if it was not.
        origin: Origin,
        /// The option at fault.
        option: &'static str,
        /// The error.
        conflict: Conflict,
    },
    /// The file of a scheme of data placement cannot be read.
    #[error("{origin}: dp_scheme: {file}: {error}")]
    SchemeFile {
        /// Where it is named.
        origin: Origin,
        /// The file.
        file: String,
        /// The cause.
        error: io::Error,
    },
    /// A line of a scheme of data placement is something else.
    #[error(
        "{origin}: dp_scheme: {file}:{line}: found {found:?}, expected start, end and index, such as \
         0,1048576,2"
    )]
    SchemeLine {
        /// Where the file is named.
        origin: Origin,
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The line's text.
        found: String,
    },
    /// An option of fio that changes the job and is not implemented.
    #[error(
        "{origin}: {name} is not supported: {instead}; --allow-unsupported runs the job without it"
    )]
    Unsupported {
        /// Where it was given.
        origin: Origin,
        /// fio's name.
        name: &'static str,
        /// The behaviour without it.
        instead: &'static str,
    },
    /// An option of fio's command line that is about its program.
    #[error("command line: --{option} is not supported: {instead}")]
    OfProgram {
        /// The option.
        option: String,
        /// What to use instead.
        instead: &'static str,
    },
    /// An argument is not Unicode.
    #[error("command line: {0} is not valid UTF-8")]
    Argument(String),
    /// `--section` names a section that does not exist.
    #[error("command line: --section={name}: the job files have no such section")]
    NoSuchSection {
        /// The name.
        name: String,
    },
    /// No jobs in the files, if there are any, nor on the command line.
    #[error(
        "{}no job is defined: a job file needs a [section], the command line needs --name",
        files.iter().map(|file| format!("{file}: ")).collect::<String>()
    )]
    NoJobs {
        /// Names of the job files.
        files: Vec<String>,
    },
}

/// The name as it is written at the origin.
fn spelled(origin: &Origin, name: &str) -> String {
    match origin {
        Origin::File { .. } => format!("{name:?}"),
        Origin::CommandLine => format!("--{name}"),
    }
}

fn suggestion(origin: &Origin, nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!(", did you mean {}?", spelled(origin, name)))
}
