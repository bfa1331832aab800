//! A block device of this machine: the server's side of ublk.
//!
//! ```text
//!  Server     adds the device, or recovers it after a server was killed; deletes it
//!  Control    /dev/ublk-control
//!  Queue      the frontend of one queue, on a thread of its own: fetched requests -> bios -> commits
//!  Tags       the owner of each tag: the driver or the server
//!  Ring       /dev/ublkcN: commands, request descriptors
//!  IoBuffers  the data of requests: copied (UBLK_F_USER_COPY) or as external buffers
//! ```
//!
//! The data of a request are copied between the kernel and the bio's buffer with `pread` and
//! `pwrite`, as zone reports always are, or the device moves them to and from the request's pages
//! with an io_uring of its own (`UBLK_F_SUPPORT_ZERO_COPY`).
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
pub(super) mod tests;

pub use abi::MAX_QUEUE_DEPTH;
pub use control::{ControlError, PATH as CONTROL_PATH};
pub use params::ParamsError;
pub(super) use params::append_max;
pub use server::{Server, ServerConfig, UblkError};
