//! Secrets in their text form, and files of them.
//!
//! No secret appears in an error or in debug output, and memory that held one is overwritten.
use super::Hash;
use crate::key_file::{KeyFormError, check_host, decode_key, lines_of_words};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use zeroize::Zeroizing;

/// A secret in the form `DHHC-1:hh:base64:` (Base section 8.13.5.8): hh says with which hash it is
/// transformed (00 for none), the base64 is of the key and of its CRC-32.
#[derive(Clone)]
pub struct Secret {
    transformation: Option<Hash>,
    key: Zeroizing<Vec<u8>>,
}

/// Why a text is not a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Not of this form.
    #[error("expected DHHC-1:hh:base64: with hh 00, 01, 02 or 03")]
    Form,
    /// Not base64.
    #[error("its third part is not base64")]
    Base64,
    /// Not a length of secrets.
    #[error("a key of {0} bytes and a checksum, expected 32, 48 or 64")]
    Length(usize),
    /// The CRC does not match.
    #[error("its checksum does not match: it is damaged or mistyped")]
    Checksum,
}

impl Secret {
    /// The key of responses, for the host or subsystem `nqn`.
    pub fn key(&self, nqn: &str) -> Zeroizing<Vec<u8>> {
        match self.transformation {
            None => self.key.clone(),
            Some(hash) => {
                let parts = [nqn.as_bytes(), b"NVMe-over-Fabrics"];
                Zeroizing::new(hash.hmac(&self.key, &parts))
            }
        }
    }
}

impl FromStr for Secret {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<Self, SecretError> {
        let hashes = |hash: &str| match hash {
            "00" => Some(None),
            "01" => Some(Some(Hash::Sha256)),
            "02" => Some(Some(Hash::Sha384)),
            "03" => Some(Some(Hash::Sha512)),
            _ => None,
        };
        let (transformation, key) = decode_key(text, "DHHC-1", hashes, &[32, 48, 64])?;
        Ok(Secret { transformation, key })
    }
}

impl From<KeyFormError> for SecretError {
    fn from(error: KeyFormError) -> Self {
        match error {
            KeyFormError::Form => SecretError::Form,
            KeyFormError::Base64 => SecretError::Base64,
            KeyFormError::Length(length) => SecretError::Length(length),
            KeyFormError::Checksum => SecretError::Checksum,
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The secrets of a host.
#[derive(Clone, Debug)]
pub(super) struct HostSecrets {
    /// Authenticates the host.
    pub host: Secret,
    /// Authenticates the controller to the host; `None` if it cannot.
    pub controller: Option<Secret>,
}

/// Secrets by host NQN: lines of `HOSTNQN SECRET` or `HOSTNQN SECRET CONTROLLER-SECRET`, and `#` for
/// comments.
#[derive(Clone, Debug, Default)]
pub struct Secrets(BTreeMap<String, HostSecrets>);

/// Why a list of secrets is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretsError {
    /// A line without two or three words.
    #[error("line {0}: found {1} words, expected HOSTNQN SECRET [CONTROLLER-SECRET]")]
    Words(usize, usize),
    /// Not an NQN.
    #[error("line {0}: found `{1}`, expected the NVMe Qualified Name of a host, nqn. and more")]
    Name(usize, String),
    /// A host with two lines.
    #[error("line {0}: {1} has a secret already")]
    Twice(usize, String),
    /// An invalid secret; it is not shown.
    #[error("line {0}: the {1}: {2}")]
    Secret(usize, &'static str, SecretError),
    /// No lines.
    #[error("no secret in it, expected lines of HOSTNQN SECRET [CONTROLLER-SECRET]")]
    Empty,
}

impl Secrets {
    pub(super) fn get(&self, host: &str) -> Option<&HostSecrets> {
        self.0.get(host)
    }

    /// Whether there is one for this host.
    pub fn has(&self, host: &str) -> bool {
        self.0.contains_key(host)
    }

    /// Whether this host has a secret that the controller must have too.
    pub fn requires_bidirectional(&self, host: &str) -> bool {
        self.get(host).is_some_and(|pair| pair.controller.is_some())
    }

    fn add(&mut self, number: usize, words: &[&str]) -> Result<(), SecretsError> {
        let (name, host, controller) = match *words {
            [name, host] => (name, host, None),
            [name, host, controller] => (name, host, Some(controller)),
            _ => return Err(SecretsError::Words(number, words.len())),
        };
        // There may be a secret where the name should be.
        check_host(name, &["DHHC"])
            .map_err(|shown| SecretsError::Name(number, shown.to_owned()))?;
        let parse = |what, text: &str| {
            text.parse().map_err(|error| SecretsError::Secret(number, what, error))
        };
        let pair = HostSecrets {
            host: parse("host's secret", host)?,
            controller: controller.map(|text| parse("controller's secret", text)).transpose()?,
        };
        match self.0.insert(name.to_owned(), pair) {
            None => Ok(()),
            Some(_) => Err(SecretsError::Twice(number, name.to_owned())),
        }
    }
}

impl FromStr for Secrets {
    type Err = SecretsError;

    fn from_str(text: &str) -> Result<Self, SecretsError> {
        let mut secrets = Secrets::default();
        for (number, words) in lines_of_words(text) {
            secrets.add(number, &words)?;
        }
        if secrets.0.is_empty() { Err(SecretsError::Empty) } else { Ok(secrets) }
    }
}
