//! Real time: the clock, one thread for each job, sockets, files, and block devices of this machine,
//! both ways.
//!
//! The one crate that may use `unsafe`: [`ublk`], [`linux`] and [`uring`] need it, for io_uring and
//! memory that is shared with the kernel.
#![warn(clippy::undocumented_unsafe_blocks)]

mod blk_zone;
mod clock;
pub mod control;
pub mod image;
pub mod linux;
pub mod nvme_tcp;
mod threads;
pub mod ublk;
pub mod uring;
pub mod zonefs;

pub use clock::RealClock;
pub use threads::{Thread, online_cpus, run};
