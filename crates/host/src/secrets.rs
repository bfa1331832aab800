//! Secrets for authentication, from a file, and the system's random numbers for it.
use std::io;
use std::path::Path;
use std::sync::Arc;
use zonal_fio::text_file;
use zonal_nvme::auth::{AuthConfig, SecretsError};

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
    /// It is not a list of secrets.
    #[error("{file} is not a list of secrets")]
    Content {
        /// The file.
        file: String,
        /// What is wrong with it.
        source: SecretsError,
    },
}

/// Reads a file of secrets. Challenges and exponents will be random numbers of the system.
///
/// # Errors
/// The file cannot be read or parsed.
pub fn load_secrets(path: &Path) -> Result<AuthConfig, SecretsFileError> {
    let file = || path.display().to_string();
    let text = text_file::read_string(path);
    let text = text.map_err(|source| SecretsFileError::Read { file: file(), source })?;
    let secrets = text.parse();
    let secrets = secrets.map_err(|source| SecretsFileError::Content { file: file(), source })?;
    let random = |bytes: &mut [u8]| getrandom::fill(bytes).expect("getrandom(2)");
    Ok(AuthConfig::new(secrets, Arc::new(random)))
}
