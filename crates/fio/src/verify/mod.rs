//! Data verification: what a job writes into its blocks, and whether it comes back.
//!
//! The bytes of a write depend on the clone's seed and on the write's offset, number and time alone.
//! A block is verified only if it is known which write it holds.
//!
//! ```text
//!  write       --> BlockFormat::fill  --> header (fio's), checksum, data or pattern
//!  completion  --> Log                --> which blocks hold which write
//!  read        --> BlockFormat::check --> Finding
//! ```
//!
//! When and what to read is up to [`crate::runner`].
mod block_format;
mod finding;
mod header;
mod inspect;
mod log;
mod state;

pub(crate) use block_format::{BlockFormat, Expected, WriteId, header_fits};
pub use finding::{Dump, Finding, Findings, Mismatch};
pub use header::HEADER_LEN;
pub use inspect::BlockHeader;
pub(crate) use log::{Log, Record};
pub use state::{ParseStateError, StateTracker, VerifyState};

#[cfg(test)]
mod tests;
