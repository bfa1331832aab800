//! Options for file systems.
use super::Distribution;
use zonal_blk::Nanos;

/// The file systems that are modelled (`filesystem=`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FsKind {
    /// btrfs on a zoned device.
    Btrfs,
    /// XFS with the zoned allocator.
    Xfs,
    /// FreeBSD's UFS.
    Ufs,
    /// ZFS.
    Zfs,
}

impl FsKind {
    /// The name in `filesystem=`.
    pub const fn name(self) -> &'static str {
        match self {
            FsKind::Btrfs => "btrfs",
            FsKind::Xfs => "xfs",
            FsKind::Ufs => "ufs",
            FsKind::Zfs => "zfs",
        }
    }

    /// Whether it needs a device with zones; the others need one without.
    pub const fn is_zoned(self) -> bool {
        matches!(self, FsKind::Btrfs | FsKind::Xfs)
    }
}

/// How a process chooses among its open files (`file_service_type=`).
#[derive(Clone, Debug, Default, PartialEq)]
pub enum FileService {
    /// One I/O to each in turn.
    #[default]
    RoundRobin,
    /// The first one until it is finished.
    Sequential,
    /// Any of them; not with `filesystem=`.
    Random,
    /// Any of them, some more often: Zipf's law, Pareto's or a bell curve; not with `filesystem=`.
    Drawn(Distribution),
}

/// Options for a file system and its files. Parameters that are `None` have the default of their
/// file system.
#[derive(Clone, Debug, PartialEq)]
pub struct FsOptions {
    /// `filesystem=`; `None` for I/O on the device itself.
    pub kind: Option<FsKind>,
    /// The names of all `filename` options, of `[global]` and of the job, each a list separated by
    /// colons: with `--files`, the files.
    pub names: Vec<String>,
    /// `filename_format=`: the names of a clone's files if there are none; one of its own if not set.
    pub name_format: Option<String>,
    /// `filesize=`: smallest and largest size in bytes.
    pub filesize: Option<(u64, u64)>,
    /// `nrfiles=`: files per clone.
    pub nrfiles: Option<u32>,
    /// `openfiles=`: files that a clone keeps open at a time.
    pub openfiles: Option<u32>,
    /// `file_service_type=`.
    pub service: FileService,
    /// I/Os of a turn, at least 1.
    pub turn: u32,
    /// `fs_shared=`: all clones use the same files.
    pub shared: bool,
    /// `fs_disks=`: number of identical disks in the pool.
    pub disks: u32,
    /// `fs_warm_runs=`: unmeasured runs before the measured one.
    pub warm_runs: u32,
    /// `fs_memory=`.
    pub memory: Option<u64>,
    /// `fs_dirty=`.
    pub dirty: Option<u64>,
    /// `fs_dirty_background=`.
    pub background: Option<u64>,
    /// `fs_chunk=`.
    pub chunk: Option<u64>,
    /// `fs_open_zones=`.
    pub open_zones: Option<u32>,
    /// `fs_block=`.
    pub block: Option<u64>,
    /// `fs_commit=`.
    pub commit: Option<Nanos>,
    /// `fs_queue_depth=`.
    pub queue_depth: Option<u32>,
    /// `fs_op_cost=`.
    pub op_cost: Option<Nanos>,
    /// `fs_byte_rate=`.
    pub byte_rate: Option<u64>,
    /// `fs_issue_cost=`.
    pub issue_cost: Option<Nanos>,
}

impl Default for FsOptions {
    fn default() -> Self {
        FsOptions {
            kind: None,
            names: Vec::new(),
            name_format: None,
            filesize: None,
            nrfiles: None,
            openfiles: None,
            service: FileService::default(),
            turn: 1,
            shared: false,
            disks: 1,
            warm_runs: 0,
            memory: None,
            dirty: None,
            background: None,
            chunk: None,
            open_zones: None,
            block: None,
            commit: None,
            queue_depth: None,
            op_cost: None,
            byte_rate: None,
            issue_cost: None,
        }
    }
}
