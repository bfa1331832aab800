//! NVMe/TCP without a socket: protocol data units to bytes and back, and what a connection is.
//!
//! ```text
//!  bytes as they come -> decode -> Pdu          header and data digests checked, lengths bounded
//!  Pdu                -> encode -> bytes
//!  both               -> connection             initialization, R2T, data: commands with all their data
//! ```
//!
//! Takes bytes in pieces of any size; gives PDUs, or the first thing that is wrong, as a termination
//! request would name it. Keeps true: what is encoded is decoded as it was, however the bytes are
//! cut; no more memory is taken than the limits allow, whatever the peer announces.
mod connection;
mod decode;
mod encode;
mod error;
pub mod pdu;

pub use connection::{
    CloseReason, HostConfig, HostConnection, HostEvent, SubmitError, TargetConfig,
    TargetConnection, TargetEvent,
};
pub use decode::{DataLimits, Decoder};
pub use encode::encode;
pub use error::{FatalError, PduError};
pub use pdu::{Digests, Format, Initialize, Payload, Pdu, Role};
