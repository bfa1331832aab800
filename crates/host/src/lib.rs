//! Real time: the clock, one thread for each job, sockets, and images in files.
//!
//! The one crate that may use `unsafe`: `uring` does, to lend buffers to the kernel.
#![warn(clippy::undocumented_unsafe_blocks)]

mod clock;
pub mod image;
pub mod nvme_tcp;
mod threads;
pub mod uring;

pub use clock::RealClock;
pub use threads::{Thread, online_cpus, run};
