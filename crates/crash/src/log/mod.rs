//! The log of a recording: what changed a device, in order, with the data.
//!
//! ```text
//!  header   what the device was, and its zones at the beginning
//!  frame    blocks, or events that refer to blocks of frames before     compressed where that
//!                                                                       shortens it, checksummed
//!  ...
//!  footer   how many events and blocks there are: the log is whole
//! ```
//!
//! A block that was written before is not stored again, as far as a table of the last
//! [`DEDUP_BLOCKS`] blocks knows. A log that has no footer can be used up to its last intact frame.
mod batch;
mod event;
mod frame;
mod header;
mod reader;
mod writer;

pub use batch::{DEDUP_BLOCKS, Totals};
pub use event::{BlockRun, Command, Event};
pub use header::{Header, ZoneStart};
pub use reader::{Blocks, End, Events, Log};
pub use writer::Writer;

use std::io;

/// Why a log cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file cannot be read.
    #[error("cannot read it: {0}")]
    Io(#[from] io::Error),
    /// It is something else.
    #[error(
        "found another kind of file, expected a log that `--record` of `zonal run` or `zonal serve` wrote"
    )]
    NotALog,
    /// It was written by a newer version.
    #[error("found version {0}, expected one up to {VERSION}")]
    Version(u32),
    /// Its header is damaged.
    #[error("the header: {0}")]
    Header(String),
    /// A frame of blocks is damaged.
    #[error("block {0} is missing or damaged")]
    Block(u64),
}

/// Version of the format. In version 1 all frames are compressed.
pub const VERSION: u32 = 2;
