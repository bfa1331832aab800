//! Secrets for authentication and keys for TLS, from files, and the system's random numbers for it.
use std::io;
use std::path::Path;
use std::sync::Arc;
use zonal_fio::text_file;
use zonal_nvme::auth::{AuthConfig, SecretsError};
use zonal_nvme::tls::{Psks, PsksError};

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
    /// It is not a list of pre-shared keys.
    #[error("{file} is not a list of pre-shared keys")]
    Keys {
        /// The file.
        file: String,
        /// What is wrong with it.
        source: PsksError,
    },
}

fn read(path: &Path) -> Result<(String, String), SecretsFileError> {
    let file = path.display().to_string();
    match text_file::read_string(path) {
        Ok(text) => Ok((file, text)),
        Err(source) => Err(SecretsFileError::Read { file, source }),
    }
}

/// Reads a file of secrets. Challenges and exponents will be random numbers of the system.
///
/// # Errors
/// The file cannot be read or parsed.
pub fn load_secrets(path: &Path) -> Result<AuthConfig, SecretsFileError> {
    let (file, text) = read(path)?;
    let secrets = text.parse();
    let secrets = secrets.map_err(|source| SecretsFileError::Content { file, source })?;
    let random = |bytes: &mut [u8]| getrandom::fill(bytes).expect("getrandom(2)");
    Ok(AuthConfig::new(secrets, Arc::new(random)))
}

/// Reads a file of pre-shared keys for TLS.
///
/// # Errors
/// The file cannot be read or parsed.
pub fn load_psks(path: &Path) -> Result<Psks, SecretsFileError> {
    let (file, text) = read(path)?;
    text.parse().map_err(|source| SecretsFileError::Keys { file, source })
}
