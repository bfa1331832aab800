//! Waiting: sockets and io_uring.
pub mod socket;
pub mod uring;

pub use socket::WaitPolicy;
