//! What a job says of the file system it runs on, and what the file system counted.
use zonal_blk::Nanos;

/// A file system (`filesystem=`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FsKind {
    /// btrfs on zones.
    Btrfs,
    /// XFS with its zoned allocator.
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

/// Which of its open files a process goes on with (`file_service_type=`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Service {
    /// One after another, one I/O each.
    #[default]
    RoundRobin,
    /// The first one, until it is done.
    Sequential,
}

/// What a job says of its file system and files. Parameters that it does not give are those of
/// its model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FsOptions {
    /// `filesystem=`; `None` for I/O on the device itself.
    pub kind: Option<FsKind>,
    /// `filesize=`: least and greatest size in bytes.
    pub filesize: Option<(u64, u64)>,
    /// `nrfiles=`: files of a clone.
    pub nrfiles: Option<u32>,
    /// `openfiles=`: files that a clone has open at a time.
    pub openfiles: Option<u32>,
    /// `file_service_type=`.
    pub service: Service,
    /// `fs_shared=`: all clones work on the same files.
    pub shared: bool,
    /// `fs_disks=`: disks alike, over which data are spread.
    pub disks: u32,
    /// `fs_warm_runs=`: how often all is done before the run that is measured.
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
            filesize: None,
            nrfiles: None,
            openfiles: None,
            service: Service::default(),
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

impl FsOptions {
    /// The first option that has a meaning only with `filesystem=`, if one is given.
    pub fn needs_kind(&self) -> Option<&'static str> {
        let plain = FsOptions::default();
        [
            ("filesize", self.filesize.is_some()),
            ("nrfiles", self.nrfiles.is_some_and(|files| files != 1)),
            ("fs_shared", self.shared),
            ("fs_disks", self.disks != plain.disks),
            ("fs_warm_runs", self.warm_runs != plain.warm_runs),
            ("fs_memory", self.memory.is_some()),
            ("fs_dirty", self.dirty.is_some()),
            ("fs_dirty_background", self.background.is_some()),
            ("fs_chunk", self.chunk.is_some()),
            ("fs_open_zones", self.open_zones.is_some()),
            ("fs_block", self.block.is_some()),
            ("fs_commit", self.commit.is_some()),
            ("fs_queue_depth", self.queue_depth.is_some()),
            ("fs_op_cost", self.op_cost.is_some()),
            ("fs_byte_rate", self.byte_rate.is_some()),
            ("fs_issue_cost", self.issue_cost.is_some()),
        ]
        .into_iter()
        .find_map(|(name, given)| given.then_some(name))
    }
}

/// What a file system has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FsCounters {
    /// Its name.
    pub name: &'static str,
    /// Bytes that processes read and wrote.
    pub file_bytes: [u64; 2],
    /// Of the bytes read, those that needed no I/O.
    pub cached_bytes: u64,
    /// Block reads and writes of file data.
    pub data_ios: [u64; 2],
    /// Their bytes.
    pub data_bytes: [u64; 2],
    /// Block reads and writes of the file system's own.
    pub metadata_ios: [u64; 2],
    /// Their bytes.
    pub metadata_bytes: [u64; 2],
    /// Of the block writes, those that were zone appends.
    pub appends: u64,
    /// Whether the device did the appends, or the block layer by writes.
    pub native_appends: bool,
    /// Zone resets.
    pub zone_resets: u64,
    /// Flushes of the disks' write caches.
    pub flushes: u64,
}
