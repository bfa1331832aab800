//! NVMe/TCP without a socket: protocol data units to bytes and back, and connections.
//!
//! ```text
//!  received bytes -> decode -> Pdu              header and data digests checked, lengths bounded
//!  Pdu            -> encode -> bytes
//!  both           -> connection                 initialization, R2T, data: commands with all their data
//!  connection     -> output -> bytes            long data are sent from where they are
//! ```
//!
//! Bytes may be received in pieces of any size. An invalid PDU is an error with the fields of the
//! termination request for it. Memory is bounded by the limits, whatever the peer announces.
mod connection;
mod decode;
mod digest;
mod encode;
mod output;
pub mod pdu;

pub use connection::{
    CloseReason, CommandData, HostConfig, HostConnection, HostEvent, NotSubmitted, ReceivedCommand,
    SubmitError, TargetConfig, TargetConnection,
};
pub use decode::{DataLimits, Decoder};
pub use encode::encode;
pub use pdu::{Digests, FatalError, Format, Initialize, Payload, Pdu, PduError, Role};
