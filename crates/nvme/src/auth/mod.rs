//! In-band authentication: DH-HMAC-CHAP (Base section 8.13), without I/O.
//!
//! ```text
//!  host                                  controller
//!    Negotiate: hashes, groups ----------->
//!    <------------- Challenge: C1, S1, [g^x]     the chosen hash and group
//!    Reply: R1, [C2, S2], [g^y] ---------->      R1 proves that the host has its secret
//!    <------------------- Success1: [R2]         R2 proves that the controller has its own
//!    [Success2] -------------------------->
//! ```
//!
//! Messages, secrets and random bytes are arguments. A secret is never sent. Responses are compared,
//! and powers computed, in a time that does not depend on the secret.
//!
//! It authenticates the peer at that moment. It does not encrypt or protect what follows.
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

/// Fills a buffer with unpredictable random bytes.
pub type Random = Arc<dyn Fn(&mut [u8]) + Send + Sync>;

/// Configuration of one side.
#[derive(Clone)]
pub struct AuthConfig {
    /// Secrets, by host.
    pub secrets: Secrets,
    /// Hash functions that may be used, the preferred first.
    pub hashes: Vec<Hash>,
    /// Diffie-Hellman groups that may be used, the preferred first.
    pub groups: Vec<Group>,
    /// The source of challenges and exponents.
    pub random: Random,
}

impl AuthConfig {
    /// All hash functions and groups: the shorter ones first, the NULL group last. Secrets are random
    /// bits, of which 256 are enough for any of them.
    pub fn new(secrets: Secrets, random: Random) -> Self {
        let (hashes, groups) = (Hash::ALL.to_vec(), Group::ALL.to_vec());
        AuthConfig { secrets, hashes, groups, random }
    }

    /// `len` random bytes.
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
