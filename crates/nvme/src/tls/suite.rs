//! Cipher suites of NVMe/TCP.
use crate::auth::Hash;

/// A cipher suite of NVMe/TCP, by the identifier of its hash function in PSK identities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CipherSuite {
    /// TLS_AES_128_GCM_SHA256.
    Aes128GcmSha256 = 1,
    /// TLS_AES_256_GCM_SHA384.
    Aes256GcmSha384 = 2,
}

impl CipherSuite {
    /// All of them.
    pub const ALL: [CipherSuite; 2] = [CipherSuite::Aes128GcmSha256, CipherSuite::Aes256GcmSha384];

    /// Its hash function.
    pub const fn hash(self) -> Hash {
        match self {
            CipherSuite::Aes128GcmSha256 => Hash::Sha256,
            CipherSuite::Aes256GcmSha384 => Hash::Sha384,
        }
    }

    /// Its name in TLS (RFC 8446, appendix B.4).
    pub const fn name(self) -> &'static str {
        match self {
            CipherSuite::Aes128GcmSha256 => "TLS_AES_128_GCM_SHA256",
            CipherSuite::Aes256GcmSha384 => "TLS_AES_256_GCM_SHA384",
        }
    }

    /// Its value in TLS (RFC 8446, appendix B.4).
    pub const fn value(self) -> [u8; 2] {
        match self {
            CipherSuite::Aes128GcmSha256 => [0x13, 0x01],
            CipherSuite::Aes256GcmSha384 => [0x13, 0x02],
        }
    }

    /// That with hashes of this length in bytes.
    pub fn with_hash_size(size: usize) -> Option<Self> {
        CipherSuite::ALL.into_iter().find(|suite| suite.hash().size() == size)
    }
}
