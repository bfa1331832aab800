//! Real time: the clock, threads, sockets and files. Devices that are reached through the operating
//! system ([`backend`]), and ways to offer a device to other programs ([`frontend`]).
//!
//! The one crate that may use `unsafe`, for io_uring and memory that is shared with the kernel.
#![warn(clippy::undocumented_unsafe_blocks)]

pub mod backend;
mod blk_zone;
mod clock;
pub mod control;
pub mod frontend;
mod jobs;
pub mod poll;
pub mod secrets;

pub use clock::RealClock;
pub use jobs::{JobThread, allowed_cpus, run};

/// Is told what happens, in words for people.
pub type Notify = std::sync::Arc<dyn Fn(&str) + Send + Sync>;
