//! Data that can be checked: what a job writes into its blocks, and whether that comes back.
//!
//! Takes the options of a job and the place, number and time of each write; gives the bytes to
//! write, remembers where they are, and says what is wrong with what was read. Keeps true: the
//! bytes depend on the clone's seed and on the write's place, number and time alone; a block is
//! judged only if what it must hold is known.
//!
//! ```text
//!  write  --> Stamp::fill  --> header (fio's), checksum, data or pattern
//!  its end -> Log          --> which blocks hold which write
//!  read   --> Stamp::check --> Finding
//! ```
//!
//! The runner's part, when what is read, is in [`crate::runner`].
mod checksum;
mod finding;
mod header;
mod log;
mod options;
mod pattern;
mod stamp;

pub use checksum::Checksum;
pub use finding::{Dump, Finding, Findings, Mismatch};
pub use header::HEADER_LEN;
pub(crate) use log::{Log, Record};
pub use options::{ErrorKind, ErrorOptions, SyncOptions, VerifyMethod, VerifyOptions};
pub use pattern::{FillPattern, ParsePatternError};
pub(crate) use stamp::{Expected, Stamp, WriteId, header_fits};

#[cfg(test)]
mod tests;
