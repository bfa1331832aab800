//! Why states cannot be checked.
use crate::image::MakeError;
use crate::journal::JournalError;
use crate::process::ProcessError;
use std::path::PathBuf;

/// Why states cannot be checked.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// An image cannot be made.
    #[error(transparent)]
    Make(#[from] MakeError),
    /// The command cannot be run.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// No state had anything to judge.
    #[error("{0}")]
    Nothing(String),
    /// The file for resuming cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A file cannot be written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
}
