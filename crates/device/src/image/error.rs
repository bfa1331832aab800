//! Why a file is not an image, or one that cannot be used.
use std::io;
use zonal_blk::ZoneNo;

/// An error in an image.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The file is something else.
    #[error("not an image: found neither copy of a superblock, expected `ZONALIMG` at byte 0")]
    NotAnImage,
    /// Its creation was interrupted.
    #[error(
        "its creation was interrupted, so it holds nothing: remove it and create the image again"
    )]
    Unfinished,
    /// Both copies are damaged.
    #[error("both copies of the superblock are damaged, expected one with the right checksum")]
    Superblock,
    /// The format version is not supported.
    #[error("found format version {found}, expected 1 to {expected}")]
    Version {
        /// The version of the file.
        found: u32,
        /// The newest version that can be read.
        expected: u32,
    },
    /// The image has features that are not supported.
    #[error("found features {found:#x} that this version of zonal does not know")]
    Features {
        /// Their bits.
        found: u32,
    },
    /// The file is truncated.
    #[error("the file is truncated: found {found} bytes, expected at least {expected} ({what})")]
    Truncated {
        /// Its length.
        found: u64,
        /// The shortest valid length.
        expected: u64,
        /// The data that should be there.
        what: String,
    },
    /// An image cannot have this geometry.
    #[error("found {0}")]
    Geometry(String),
    /// The profile does not fit in the superblock.
    #[error("found a profile of {len} bytes, expected at most {max}")]
    LongProfile {
        /// Its length.
        len: usize,
        /// The longest profile.
        max: usize,
    },
    /// Both copies of a block are damaged.
    #[error("both copies of {what} are damaged, at bytes {first} and {second}; {lost}")]
    Block {
        /// Which block.
        what: String,
        /// Address of the first copy.
        first: u64,
        /// Address of the second copy.
        second: u64,
        /// The data that are lost with it.
        lost: String,
    },
    /// A block has the right checksum and invalid contents.
    #[error("{what}: entry {entry} is not a valid zone state")]
    Entry {
        /// Which block.
        what: String,
        /// Which of its entries.
        entry: usize,
    },
    /// The list of regions has the right checksum and an invalid region.
    #[error("list of overwritten regions: entry {entry} is not a region of a conventional zone")]
    Region {
        /// Which of its entries.
        entry: usize,
    },
    /// Two zones have the same slot.
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
        /// The operation that failed.
        doing: &'static str,
        /// The error of the system.
        source: io::Error,
    },
}

impl ImageError {
    pub(super) fn io(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| ImageError::Io { doing, source }
    }
}
