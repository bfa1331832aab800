//! Waiting: sockets and io_uring.
pub(crate) mod fixed_buffers;
pub mod socket;
pub(crate) mod uring;

pub use socket::WaitPolicy;
