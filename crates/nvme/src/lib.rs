//! NVMe without I/O, for hosts and targets.
//!
//! ```text
//!  Request  -> ns          a namespace's path and head; commands for requests     -> Sqe
//!  Sqe      -> wire        structures of the specifications, to the byte          -> bytes
//!  data     -> pi          end-to-end protection information
//!  ports    -> ana         asymmetric namespace access
//!  secrets  -> auth        DH-HMAC-CHAP, both sides
//!  keys     -> tls         pre-shared keys of TLS 1.3, and their identities
//!  PDUs     -> tcp         NVMe/TCP, both sides                                   -> commands
//!  commands -> controller  an emulated subsystem over a Zonal queue               -> responses
//!  bytes    -> Session     a target's connection: tcp and controller together     -> bytes
//! ```
//!
//! The types to know first: [`wire::Sqe`], a command; [`ns::Namespace`], which [`ns::setup`] makes
//! commands for; [`controller::Subsystem`], the namespaces and controllers of a target; [`Session`], a
//! target's connection; [`tcp::HostConnection`], a host's.
//!
//! Nothing here reads a clock, starts a thread or opens a socket: time and bytes are arguments.
//!
//! ```
//! use zonal_nvme::tcp::{DataLimits, Decoder, Format, Payload, Pdu, Role, encode};
//! use zonal_nvme::wire::Sqe;
//!
//! let flush = Pdu::Command { sqe: Sqe::new(0x00, 7, 1), data: Payload::default() };
//! let mut bytes = Vec::new();
//! encode(&flush, Format::default(), &mut bytes);
//!
//! let mut decoder = Decoder::new(Role::Host, DataLimits { in_capsule: 8192, data: 65536 });
//! assert_eq!(decoder.decode(&mut &bytes[..]), Ok(Some(flush)));
//! ```
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation)]

pub mod ana;
pub mod auth;
pub mod controller;
mod key_file;
pub mod ns;
pub mod pi;
mod session;
pub mod status;
pub mod tcp;
pub mod tls;
pub mod wire;

pub use session::{Admission, QueueIdentity, Refusal, Session, SessionConfig, SessionError};
pub use status::NvmeStatus;
