#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod bioq;
mod cache;
mod cpu;
mod disk;
mod extents;
mod metadata;
mod mount;
mod params;
mod process;
mod runner;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod ufs;
mod writeback;
mod zfs;
mod zoned;
mod zones;

pub use disk::{Disk, MountError};
use mount::Layout;
pub use mount::{check, mount};
pub use params::Params;
pub use runner::FsRunner;
use zonal_blk::{BioFlags, Completion, Nanos, Op, Sector, Status};
pub use zonal_fio::job::{FsKind, FsOptions};
pub use zonal_fio::stats::FsCounters;

/// Identifies a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FileId {
    /// The clone that it belongs to; 0 for shared files.
    pub owner: u32,
    /// Number in the clone, from 0.
    pub number: u32,
}

/// Identifies an operation in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct OpId {
    /// The process.
    pub process: u32,
    /// Slot of the operation, below the depth of the process.
    pub slot: u32,
}

/// An operation on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileOp {
    /// Creates or truncates the file, before its first write.
    Create,
    /// Reads from the file.
    Read {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// Writes to the file.
    Write {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// Closes the file.
    Close,
}

/// The contents of a block I/O.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// A file's bytes.
    Data {
        /// The file.
        file: FileId,
        /// First byte.
        offset: u64,
    },
    /// Data of several files, contiguous on the disk: file, first byte and length of each part.
    Multiple(Vec<(FileId, u64, u64)>),
    /// Metadata.
    Metadata,
    /// Nothing.
    None,
}

/// A block I/O issued by a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlockIo {
    /// The disk, from 0.
    pub disk: usize,
    /// The operation.
    pub op: Op,
    /// Its flags.
    pub flags: BioFlags,
    /// First sector; of a zone append, the zone's start.
    pub sector: Sector,
    /// Length in sectors.
    pub nr_sectors: u32,
    /// Its contents.
    pub content: Content,
    /// User data of the bio.
    pub id: u64,
}

/// The requests of a file system.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// Block I/O to submit, in this order.
    pub ios: Vec<BlockIo>,
    /// Operations that have completed.
    pub completed: Vec<(OpId, Status)>,
    /// The file system cannot go on.
    pub failed: Option<Status>,
}

/// A mounted file system.
pub(crate) trait FileSystem: Send {
    /// Starts an operation on a file. It completes in these or later effects.
    fn start(&mut self, now: Nanos, id: OpId, file: FileId, op: FileOp, effects: &mut Effects);

    /// A block I/O has completed.
    fn complete(&mut self, now: Nanos, completion: &Completion, effects: &mut Effects);

    /// Does what is due.
    fn wake(&mut self, now: Nanos, effects: &mut Effects);

    /// When [`FileSystem::wake`] is next due; `None` if only I/O or operations can change that.
    fn next_event(&self) -> Option<Nanos>;

    /// The processes are done: completes what is in flight and starts nothing more.
    fn stop(&mut self);

    /// Whether its disk drivers sort I/O that they cannot send yet.
    fn sorts(&self) -> bool {
        false
    }

    /// Bytes read from the cache since it was mounted.
    fn cached_bytes(&self) -> u64 {
        0
    }
}
