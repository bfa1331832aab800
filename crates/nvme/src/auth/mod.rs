//! In-band authentication: DH-HMAC-CHAP (Base section 8.13), without I/O.
//!
//! ```text
//!  host                                  controller
//!    Negotiate: hashes, groups ----------->
//!    <------------- Challenge: C1, S1, [g^x]     which hash, which group
//!    Reply: R1, [C2, S2], [g^y] ---------->      R1 proves that the host has its secret
//!    <------------------- Success1: [R2]         R2 proves that the controller has its own
//!    [Success2] -------------------------->
//! ```
//!
//! Takes messages, secrets and random bytes; gives messages, and whether the peer is who it says.
//! Keeps true: a secret is never sent; who does not have it is not let through; responses are
//! compared, and powers made, in a time that does not depend on the secret.
//!
//! It proves who is there when it is done. It does not encrypt or protect what comes after.
mod controller;
mod group;
mod hash;
mod host;
mod response;
mod secret;

pub use controller::{AuthState, ControllerAuth};
pub use group::{Group, KeyPair};
pub use hash::Hash;
pub use host::{AwaitChallenge, AwaitSuccess, HostAuthError};
pub use secret::{Secret, SecretError, Secrets, SecretsError};

use std::fmt;
use std::sync::Arc;

/// Fills a buffer with random bytes that nobody can foresee.
pub type Random = Arc<dyn Fn(&mut [u8]) + Send + Sync>;

/// What one side has to authenticate with.
#[derive(Clone)]
pub struct AuthConfig {
    /// Secrets, by host.
    pub secrets: Secrets,
    /// Hash functions that may be used, the best first.
    pub hashes: Vec<Hash>,
    /// Diffie-Hellman groups that may be used, the best first.
    pub groups: Vec<Group>,
    /// Where challenges and exponents come from.
    pub random: Random,
}

impl AuthConfig {
    /// With all hash functions and groups: the shorter ones first, the NULL group last. Secrets are
    /// random bits, of which 256 are enough for any of them.
    pub fn new(secrets: Secrets, random: Random) -> Self {
        let (hashes, groups) = (Hash::ALL.to_vec(), Group::ALL.to_vec());
        AuthConfig { secrets, hashes, groups, random }
    }

    /// As many random bytes.
    fn bytes(&self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        (self.random)(&mut bytes);
        bytes
    }

    /// A sequence number, which is not 0.
    fn sequence(&self) -> u32 {
        let mut bytes = [0; 4];
        (self.random)(&mut bytes);
        u32::from_le_bytes(bytes).max(1)
    }
}

impl fmt::Debug for AuthConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AuthConfig { secrets, hashes, groups, .. } = self;
        f.debug_struct("AuthConfig")
            .field("secrets", secrets)
            .field("hashes", hashes)
            .field("groups", groups)
            .finish_non_exhaustive()
    }
}
