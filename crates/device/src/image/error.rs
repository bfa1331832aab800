//! Why a file is no image, or one that cannot be used.
use super::superblock::{MAX_PROFILE, VERSION};
use std::io;
use zonal_blk::ZoneNo;

/// What is wrong with an image.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The file has other contents.
    #[error("not an image: found neither copy of a superblock, expected `ZONALIMG` at byte 0")]
    NotAnImage,
    /// Both copies are damaged.
    #[error("both copies of the superblock are damaged, expected one with the right checksum")]
    Superblock,
    /// The format is that of another version of the program.
    #[error("found format version {found}, expected {VERSION}")]
    Version {
        /// The version.
        found: u32,
    },
    /// The file ends too early.
    #[error("the file is truncated: found {found} bytes, expected at least {expected} ({what})")]
    Truncated {
        /// Its length.
        found: u64,
        /// The least that it must have.
        expected: u64,
        /// What should be there.
        what: String,
    },
    /// A geometry that no image can have.
    #[error("found {0}")]
    Geometry(String),
    /// A profile that the superblock has no room for.
    #[error("found a profile of {len} bytes, expected at most {MAX_PROFILE}")]
    LongProfile {
        /// Its length.
        len: usize,
    },
    /// Both copies of a block are damaged.
    #[error("both copies of {what} are damaged, at bytes {first} and {second}; {lost}")]
    Block {
        /// Which block.
        what: String,
        /// Where the first copy is.
        first: u64,
        /// Where the second one is.
        second: u64,
        /// What that means.
        lost: String,
    },
    /// A block is whole and says something impossible.
    #[error("{what} says of entry {entry} what no zone can be")]
    Entry {
        /// Which block.
        what: String,
        /// Which of its entries.
        entry: usize,
    },
    /// Two zones have the same place.
    #[error("zones {first} and {second} both have slot {slot} of the file")]
    SharedSlot {
        /// A zone.
        first: ZoneNo,
        /// Another.
        second: ZoneNo,
        /// The slot.
        slot: u32,
    },
    /// The file could not be read or written.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl ImageError {
    pub(super) fn io(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| ImageError::Io { doing, source }
    }
}
