//! Configured keys in the PSK interchange format, and files of them.
//!
//! No key appears in an error or in debug output, and memory that held one is overwritten.
use super::suite::CipherSuite;
use crate::key_file::{KeyFormError, check_host, decode_key, lines_of_words};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use zeroize::Zeroizing;

/// A configured PSK in the form `NVMeTLSkey-1:hh:base64:` (TCP, PSK interchange format): hh says with
/// which hash it becomes a retained PSK (00 for none), the base64 is of the key and of its CRC-32.
#[derive(Clone)]
pub struct ConfiguredPsk {
    /// The hash function of the retained PSK; `None` if that is the configured one.
    pub(super) transformation: Option<CipherSuite>,
    pub(super) key: Zeroizing<Vec<u8>>,
}

/// Why a text is not a configured PSK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PskError {
    /// Not of this form.
    #[error("expected NVMeTLSkey-1:hh:base64: with hh 00, 01 or 02")]
    Form,
    /// Not base64.
    #[error("its third part is not base64")]
    Base64,
    /// Not a length of keys.
    #[error("a key of {0} bytes and a checksum, expected 32 or 48")]
    Length(usize),
    /// A length that the hash does not go with.
    #[error("a key of {0} bytes, expected 32 with hash 01, and 48 with hash 02")]
    HashLength(usize),
    /// The CRC does not match.
    #[error("its checksum does not match: it is damaged or mistyped")]
    Checksum,
}

impl From<KeyFormError> for PskError {
    fn from(error: KeyFormError) -> Self {
        match error {
            KeyFormError::Form => PskError::Form,
            KeyFormError::Base64 => PskError::Base64,
            KeyFormError::Length(length) => PskError::Length(length),
            KeyFormError::Checksum => PskError::Checksum,
        }
    }
}

impl ConfiguredPsk {
    /// The cipher suite of its connections, which has the hash of the retained PSK. Without one the
    /// length decides, as with Linux.
    pub fn suite(&self) -> CipherSuite {
        let by_length = || CipherSuite::with_hash_size(self.key.len());
        self.transformation.or_else(by_length).expect("checked when it was parsed")
    }
}

impl FromStr for ConfiguredPsk {
    type Err = PskError;

    fn from_str(text: &str) -> Result<Self, PskError> {
        let hashes = |hash: &str| match hash {
            "00" => Some(None),
            "01" => Some(Some(CipherSuite::Aes128GcmSha256)),
            "02" => Some(Some(CipherSuite::Aes256GcmSha384)),
            _ => None,
        };
        let (transformation, key) = decode_key(text, "NVMeTLSkey-1", hashes, &[32, 48])?;
        if transformation.is_some_and(|suite| suite.hash().size() != key.len()) {
            return Err(PskError::HashLength(key.len()));
        }
        Ok(ConfiguredPsk { transformation, key })
    }
}

impl fmt::Debug for ConfiguredPsk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConfiguredPsk(..)")
    }
}

/// Configured PSKs by host NQN: lines of `HOSTNQN PSK`, and `#` for comments.
#[derive(Clone, Debug, Default)]
pub struct Psks(BTreeMap<String, ConfiguredPsk>);

/// Why a list of keys is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PsksError {
    /// A line without two words.
    #[error("line {0}: found {1} words, expected HOSTNQN NVMeTLSkey-1:hh:base64:")]
    Words(usize, usize),
    /// Not an NQN.
    #[error("line {0}: found `{1}`, expected the NVMe Qualified Name of a host, nqn. and more")]
    Name(usize, String),
    /// A host with two lines.
    #[error("line {0}: {1} has a key already")]
    Twice(usize, String),
    /// An invalid key; it is not shown.
    #[error("line {0}: the key: {1}")]
    Key(usize, PskError),
    /// No lines.
    #[error("no key in it, expected lines of HOSTNQN NVMeTLSkey-1:hh:base64:")]
    Empty,
}

impl Psks {
    /// The key of this host.
    pub fn get(&self, host: &str) -> Option<&ConfiguredPsk> {
        self.0.get(host)
    }

    /// All hosts with their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ConfiguredPsk)> {
        self.0.iter().map(|(host, key)| (&**host, key))
    }
}

impl FromStr for Psks {
    type Err = PsksError;

    fn from_str(text: &str) -> Result<Self, PsksError> {
        let mut psks = BTreeMap::new();
        for (number, words) in lines_of_words(text) {
            let [name, key] = words[..] else {
                return Err(PsksError::Words(number, words.len()));
            };
            // There may be a key where the name should be.
            check_host(name, &["NVMeTLSkey", "DHHC"])
                .map_err(|shown| PsksError::Name(number, shown.to_owned()))?;
            let key = key.parse().map_err(|error| PsksError::Key(number, error))?;
            if psks.insert(name.to_owned(), key).is_some() {
                return Err(PsksError::Twice(number, name.to_owned()));
            }
        }
        if psks.is_empty() { Err(PsksError::Empty) } else { Ok(Psks(psks)) }
    }
}
