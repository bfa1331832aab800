//! Persistent images: a zoned device in a file, which is still there tomorrow and after a crash.
//!
//! Takes requests through its hardware queues; gives them back with their data from the file. Keeps
//! true: after a loss of power at any moment, whatever a completed flush covers is there, every
//! zone's write pointer is where its data end, and what was reset does not come back.
//!
//! ```text
//!   superblock  what the image is          block, entry   checksummed blocks, a zone's record
//!   place       where things are           recover        file -> zones, after anything
//!   journal     zones -> file              tail           the end of a zone's data
//!   device      commands, and their order  queue          hardware queues
//!   check       what is wrong, for people  store          what is needed of a file
//! ```
//!
//! The format is described in `docs/images.md`. Files are opened in `zonal-host`.
mod block;
mod check;
mod device;
mod entry;
mod error;
mod file_layout;
mod journal;
mod queue;
mod recover;
mod store;
mod superblock;
mod tail;

pub use check::{Finding, check};
pub use device::ImageDevice;
pub use entry::{CoveredData, ZoneEntry};
pub use error::ImageError;
pub use recover::{Recovered, read_superblock, recover};
pub use store::{ImageStore, ReadAt, Ring, Transfer};
pub use superblock::{ImageGeometry, MAX_PROFILE, MAX_ZONES, Profile, Superblock, VERSION};
