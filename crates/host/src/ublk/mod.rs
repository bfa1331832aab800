//! A device of Zonal as a block device of this machine: the server's side of ublk.
//!
//! ```text
//!  Server    makes the device, has it go on after a server that was killed, deletes it
//!  Control     /dev/ublk-control
//!  worker    one thread for each queue, with a Channel of the block layer
//!  Ring        /dev/ublkcN: commands, descriptors, data (UBLK_F_USER_COPY)
//!  Queue       ends of commands -> bios -> commits; no system call
//!  Tags        whose turn it is with each tag
//! ```
//!
//! A request's data are copied between the kernel and the bio's buffer with `pread` and `pwrite`:
//! a bio owns its buffer, and zoned devices have no other way for their reports.
#[allow(missing_docs, reason = "the kernel's names")]
mod abi;
mod control;
mod params;
mod queue;
mod request;
mod ring;
mod server;
mod tags;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod worker;

pub use abi::MAX_QUEUE_DEPTH;
pub use control::ControlError;
pub use params::Unsuitable;
pub use server::{Server, ServerConfig, UblkError};
