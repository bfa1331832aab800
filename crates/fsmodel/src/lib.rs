//! File-system models: what a file operation becomes below, as block I/O.
//!
//! Each is a small model of how one file system writes and reads data: where it puts them, when,
//! in which order and in what pieces. None keeps names, directories or a format on the medium.
//! `docs/filesystems.md` has their sources, parameters and what they leave out.
//!
//! ```text
//!  Process      one for each clone: what it does next, its statistics    (process)
//!    | FileOp     read or write so much of a file, or close it
//!    v
//!  FileSystem   btrfs, xfs, ufs, zfs: a state machine without clock or I/O
//!    | BlockIo    what goes to which disk
//!    v
//!  Channel      one for each disk: the block layer
//! ```
//!
//! The processes of a job share one file system, and all of it is stepped together: on either
//! clock it is one thread's work, and what its processes and kernel threads would need of a CPU is
//! modelled time. So one run is the same on both clocks, but for what the devices do.
#![forbid(unsafe_code)]

mod bioq;
mod btrfs;
mod cache;
mod cpu;
mod extents;
mod metadata;
mod mount;
mod params;
mod payload;
mod process;
mod runner;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod ufs;
mod writeback;
mod xfs;
mod zfs;
mod zoned;
mod zones;

pub use mount::{Disk, Layout, MountError, check, mount};
pub use params::Params;
pub use runner::FsRunner;
use zonal_blk::{BioFlags, Completion, Nanos, Op, Sector, Status};
pub use zonal_fio::job::{FsKind, FsOptions};
pub use zonal_fio::stats::FsCounters;

/// A file: the clone that it belongs to, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// The clone; 0 for files that all clones share.
    pub owner: u32,
    /// From 0.
    pub number: u32,
}

/// An operation in progress: the process and the place of the operation among its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId {
    /// The process.
    pub process: u32,
    /// The operation, below the process's depth.
    pub slot: u32,
}

/// What a process does to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOp {
    /// Makes the file empty, or makes an empty file, before its first write.
    Create,
    /// Reads so many bytes.
    Read {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// Writes so many bytes.
    Write {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// Closes the file.
    Close,
}

/// What a block I/O carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A file's bytes.
    Data {
        /// The file.
        file: FileId,
        /// First byte.
        offset: u64,
    },
    /// Bytes of files that lie next to each other on the disk: the file, the first byte, and how
    /// many, of each.
    Multiple(Vec<(FileId, u64, u64)>),
    /// The file system's own.
    Metadata,
    /// Nothing.
    None,
}

/// A block I/O that a file system wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockIo {
    /// The disk, from 0.
    pub disk: usize,
    /// The operation.
    pub op: Op,
    /// Its modifiers.
    pub flags: BioFlags,
    /// First sector; of a zone append, the zone's start.
    pub sector: Sector,
    /// Length in sectors.
    pub nr_sectors: u32,
    /// What it carries.
    pub content: Content,
    /// Comes back with the completion.
    pub id: u64,
}

/// What a file system has to say to the outside.
#[derive(Debug, Default)]
pub struct Effects {
    /// Block I/O to do, in this order.
    pub ios: Vec<BlockIo>,
    /// Operations that have ended.
    pub ended: Vec<(OpId, Status)>,
    /// The file system cannot go on.
    pub failed: Option<Status>,
}

/// A mounted file system.
pub trait FileSystem: Send {
    /// A process begins an operation on a file. It ends in these or later effects.
    fn start(&mut self, now: Nanos, id: OpId, file: FileId, op: FileOp, effects: &mut Effects);

    /// A block I/O has ended.
    fn complete(&mut self, now: Nanos, end: &Completion, effects: &mut Effects);

    /// Does what is due.
    fn wake(&mut self, now: Nanos, effects: &mut Effects);

    /// When to wake it next; `None` if nothing is due before an I/O ends or an operation begins.
    fn next_event(&self) -> Option<Nanos>;

    /// The processes are done: what is under way is finished, and nothing more is begun.
    fn stop(&mut self);

    /// Whether its disks' drivers sort what they cannot send yet.
    fn sorts(&self) -> bool {
        false
    }

    /// Bytes read without I/O since it was mounted.
    fn cached_bytes(&self) -> u64 {
        0
    }
}
