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
mod finding;
mod header;
mod log;
mod options;
mod pattern;
mod stamp;
mod sum;

pub use finding::{Dump, Finding, Findings, Mismatch};
pub use header::HEADER_LEN;
pub(crate) use log::{Log, Record};
pub use options::{ErrorKind, ErrorOptions, Method, SyncOptions, VerifyOptions};
pub use pattern::{BadPattern, FillPattern};
pub(crate) use stamp::{Expected, Place, Stamp, header_fits};
pub use sum::Sum;

#[cfg(test)]
mod tests;
