//! TLS 1.3 with pre-shared keys, under NVMe/TCP, by OpenSSL: the feature `tls`.
//!
//! ```text
//!  Acceptor, connect   settings of a target, of a host; the key is found, or offered, by its identity
//!  TlsStream           a connection: handshake, then bytes in both directions
//! ```
//!
//! Nothing lower than TLS 1.3, no certificates, no tickets, no early data: a peer that does not prove
//! that it has the key gets no further than the handshake. Nothing here blocks; a call reads a bounded
//! number of bytes from the socket.
//!
//! Without the feature the types are there, and none can be made.
#[cfg(not(feature = "tls"))]
mod absent;
#[cfg(feature = "tls")]
mod context;
#[cfg(feature = "tls")]
mod session;
#[cfg(feature = "tls")]
mod stream;

#[cfg(not(feature = "tls"))]
pub use absent::connect;
#[cfg(not(feature = "tls"))]
pub use absent::{Acceptor, TlsStream};
#[cfg(feature = "tls")]
pub use context::Acceptor;
#[cfg(feature = "tls")]
pub use context::connect;
#[cfg(feature = "tls")]
pub use stream::TlsStream;

use std::fmt;
use std::io;
use std::time::Duration;
use zeroize::Zeroizing;

/// A key that both sides have before they connect.
#[derive(Clone)]
pub struct Psk {
    /// The identity by which a host offers it.
    pub identity: String,
    /// The cipher suite that it is for, by its name in TLS (RFC 8446, appendix B.4).
    pub suite: &'static str,
    /// The same by its value in TLS.
    pub suite_value: [u8; 2],
    /// The key.
    pub key: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for Psk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Psk").field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// The version of OpenSSL, if the program has TLS.
pub fn version() -> Option<&'static str> {
    #[cfg(feature = "tls")]
    return Some(openssl::version::version());
    #[cfg(not(feature = "tls"))]
    None
}

/// Why there is no connection with TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The program has no TLS.
    #[error(
        "this program was built without TLS; `cargo build --release --features tls` builds one with it"
    )]
    NotBuilt,
    /// OpenSSL cannot be set up.
    #[error("OpenSSL: {0}")]
    Setup(String),
    /// The socket failed.
    #[error("TLS handshake: {0}")]
    Io(#[from] io::Error),
    /// The peer closed the connection.
    #[error("the other side closed the connection during the TLS handshake")]
    Closed,
    /// The peer sent something else than TLS.
    #[error("the other side does not use TLS")]
    NotTls,
    /// The host offers no key that the target has.
    #[error("the host offers no PSK identity that is known")]
    UnknownIdentity,
    /// The target does not know the identity that the host offers.
    #[error(
        "the target has no key of this host, or another one: it does not know the PSK identity"
    )]
    IdentityRefused,
    /// The peer has another key with the same identity.
    #[error("the target and the host have different keys for the PSK identity")]
    WrongKey,
    /// The peer did not use a key.
    #[error("the other side does not use a pre-shared key")]
    NoPsk,
    /// Anything else, in OpenSSL's words.
    #[error("TLS handshake: {0}")]
    Failed(String),
    /// It took too long.
    #[error("no TLS handshake within {0:?}")]
    Timeout(Duration),
}

impl TlsError {
    /// Whether another attempt may succeed with the same keys.
    pub fn is_transient(&self) -> bool {
        matches!(self, TlsError::Io(_) | TlsError::Closed | TlsError::Timeout(_))
    }
}
