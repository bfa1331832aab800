//! Real time: the clock, and one thread for each job.
//!
//! The one crate that may use `unsafe`; so far it needs none.
#![warn(clippy::undocumented_unsafe_blocks)]

mod clock;
mod threads;

pub use clock::RealClock;
pub use threads::{Thread, online_cpus, run};
