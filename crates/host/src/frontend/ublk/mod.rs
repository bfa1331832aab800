//! A device of Zonal as a block device of this machine: the server's side of ublk.
//!
//! ```text
//!  Server    makes the device, has it go on after a server that was killed, deletes it
//!  Control     /dev/ublk-control
//!  worker    one thread for each queue, with a Channel of the block layer
//!  Ring        /dev/ublkcN: commands, descriptors
//!  IoBuffers       the data of requests, to copy (UBLK_F_USER_COPY) or to lend
//!  Queue       ends of commands -> bios -> commits; no system call
//!  Tags        whose turn it is with each tag
//! ```
//!
//! A request's data are copied between the kernel and the bio's buffer with `pread` and `pwrite`,
//! as those of reports always are, or lent to a device that moves them with an io_uring of its own
//! (`UBLK_F_SUPPORT_ZERO_COPY`).
#[allow(missing_docs, reason = "the kernel's names")]
mod abi;
mod control;
mod io_buffers;
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
pub use params::ParamsError;
pub use server::{Server, ServerConfig, UblkError};
