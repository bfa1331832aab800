//! Pre-shared keys of NVMe/TCP over TLS 1.3 (TCP, Transport Layer Security), without TLS.
//!
//! ```text
//!  configured PSK   what an administrator gives both sides: NVMeTLSkey-1:hh:base64:
//!    HKDF, HostNQN
//!  retained PSK     of one host
//!    HKDF, identity
//!  TLS PSK          of one host and one subsystem; its identity is sent in the clear
//! ```
//!
//! [`Psks`] are the configured keys, by host. A host uses [`ConfiguredPsk::tls_psk`]; a target has a
//! [`PskTable`] of all that its hosts may offer, and finds in it what a ClientHello does.
mod derive;
mod offered;
mod psk;
mod suite;

pub use derive::{IdentityVersion, TlsPsk};
pub use offered::PskTable;
pub use psk::{ConfiguredPsk, PskError, Psks, PsksError};
pub use suite::CipherSuite;
