//! Secrets for authentication and keys for TLS, from files, and the system's random numbers for it.
use crate::text_file;
use std::error::Error;
use std::io;
use std::path::Path;
use std::str::FromStr;

/// Why a file of secrets cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SecretsFileError {
    /// It cannot be read.
    #[error("{file}: cannot read the secrets")]
    Read {
        /// The file.
        file: String,
        /// Why not.
        source: io::Error,
    },
    /// It is not the list that it is taken for.
    #[error("{file} is not a list of {expected}")]
    Content {
        /// The file.
        file: String,
        /// The kind of text that it is taken for.
        expected: &'static str,
        /// The error in it.
        source: Box<dyn Error + Send + Sync>,
    },
}

/// Reads a file with a list of secrets; `expected` says which, for errors.
///
/// # Errors
/// The file cannot be read or parsed.
pub fn load<T: FromStr<Err: Error + Send + Sync + 'static>>(
    path: &Path,
    expected: &'static str,
) -> Result<T, SecretsFileError> {
    let file = path.display().to_string();
    let text = match text_file::read_string(path) {
        Ok(text) => text,
        Err(source) => return Err(SecretsFileError::Read { file, source }),
    };
    let failed = |source| SecretsFileError::Content { file, expected, source: Box::new(source) };
    text.parse().map_err(failed)
}

/// Fills `bytes` with random numbers of the system.
///
/// # Panics
/// If the system has none.
pub fn random(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("getrandom(2)");
}
