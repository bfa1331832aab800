//! Secrets for authentication and keys for TLS, from files.
use std::path::Path;
use std::sync::Arc;
use zonal_nvme::auth::AuthConfig;
use zonal_nvme::tls::Psks;
use zonal_os::secrets::{SecretsFileError, load, random};

/// Reads a file of secrets. Challenges and exponents will be random numbers of the system.
///
/// # Errors
/// The file cannot be read or parsed.
pub fn load_secrets(path: &Path) -> Result<AuthConfig, SecretsFileError> {
    Ok(AuthConfig::new(load(path, "secrets")?, Arc::new(random)))
}

/// Reads a file of pre-shared keys for TLS.
///
/// # Errors
/// The file cannot be read or parsed.
pub fn load_psks(path: &Path) -> Result<Psks, SecretsFileError> {
    load(path, "pre-shared keys")
}
