//! NVMe without I/O: what host and controller say to each other, and what each makes of it.
//!
//! ```text
//!  Request  -> ns       a namespace's path and head; read, write, append commands  -> Sqe
//!  Sqe      -> wire     structures of the specifications, to the byte              -> bytes
//!  data     -> pi       end-to-end protection information
//!  secrets  -> auth     who host and controller are, and whether that is so
//! ```
//!
//! Nothing here reads a clock, starts a thread or opens a socket: time and bytes are arguments.
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation)]

pub mod auth;
mod buffer_pool;
pub mod controller;
pub mod ns;
pub mod pi;
mod session;
mod slab;
pub mod status;
pub mod tcp;
pub mod wire;

pub use session::{Admission, Refusal, Session, SessionConfig, SessionError};
pub use status::NvmeStatus;
