//! Real time: the clock, one thread for each job, sockets, and files.
//!
//! The one crate that may use `unsafe`; so far it needs none.
#![warn(clippy::undocumented_unsafe_blocks)]

mod clock;
pub mod control;
pub mod nvme_tcp;
mod threads;
pub mod zonefs;

pub use clock::RealClock;
pub use threads::{Thread, online_cpus, run};
