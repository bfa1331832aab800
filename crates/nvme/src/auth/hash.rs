//! Hash functions, and keyed hashes with them.
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256, Sha384, Sha512};
use std::fmt;
use std::str::FromStr;

/// A hash function, by its identifier (Base section 8.13, HashID; also of a secret's transformation).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Hash {
    /// SHA-256.
    Sha256 = 1,
    /// SHA-384.
    Sha384 = 2,
    /// SHA-512.
    Sha512 = 3,
}

fn keyed<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> M {
    let mut mac = <M as KeyInit>::new_from_slice(key).expect("HMAC takes keys of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac
}

impl Hash {
    /// All hash functions.
    pub const ALL: [Hash; 3] = [Hash::Sha256, Hash::Sha384, Hash::Sha512];

    /// The value with this identifier.
    pub fn from_id(id: u8) -> Option<Self> {
        Hash::ALL.into_iter().find(|hash| *hash as u8 == id)
    }

    /// Length of a hash in bytes.
    pub const fn size(self) -> usize {
        match self {
            Hash::Sha256 => 32,
            Hash::Sha384 => 48,
            Hash::Sha512 => 64,
        }
    }

    /// [`Hash::size`], as in messages.
    #[allow(clippy::cast_possible_truncation)]
    pub(super) const fn size_byte(self) -> u8 {
        self.size() as u8
    }

    /// The hash of `data`.
    pub fn digest(self, data: &[u8]) -> Vec<u8> {
        match self {
            Hash::Sha256 => Sha256::digest(data).to_vec(),
            Hash::Sha384 => Sha384::digest(data).to_vec(),
            Hash::Sha512 => Sha512::digest(data).to_vec(),
        }
    }

    /// The HMAC (RFC 2104) of the concatenated `parts`.
    pub fn hmac(self, key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
        match self {
            Hash::Sha256 => keyed::<Hmac<Sha256>>(key, parts).finalize().into_bytes().to_vec(),
            Hash::Sha384 => keyed::<Hmac<Sha384>>(key, parts).finalize().into_bytes().to_vec(),
            Hash::Sha512 => keyed::<Hmac<Sha512>>(key, parts).finalize().into_bytes().to_vec(),
        }
    }

    /// Whether the HMAC of `parts` is `expected`, in constant time.
    pub fn verify(self, key: &[u8], parts: &[&[u8]], expected: &[u8]) -> bool {
        match self {
            Hash::Sha256 => keyed::<Hmac<Sha256>>(key, parts).verify_slice(expected).is_ok(),
            Hash::Sha384 => keyed::<Hmac<Sha384>>(key, parts).verify_slice(expected).is_ok(),
            Hash::Sha512 => keyed::<Hmac<Sha512>>(key, parts).verify_slice(expected).is_ok(),
        }
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Hash::Sha256 => "sha256",
            Hash::Sha384 => "sha384",
            Hash::Sha512 => "sha512",
        })
    }
}

impl FromStr for Hash {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Hash::ALL.into_iter().find(|hash| hash.to_string() == name);
        found.ok_or_else(|| format!("found `{name}`, expected sha256, sha384 or sha512"))
    }
}
