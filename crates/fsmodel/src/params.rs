//! The parameters of a file system model.
use zonal_blk::Nanos;
use zonal_fio::job::{FsKind, FsOptions};

/// A file system's parameters. Where each value comes from is in `docs/filesystems.md`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    /// Bytes of file data that memory holds: page cache, buffer cache or ARC.
    pub memory: u64,
    /// Bytes written by processes and not yet on the device at which writers have to wait.
    pub dirty: u64,
    /// Dirty bytes from which write-back begins.
    pub background: u64,
    /// Bytes that write-back takes of a file before it turns to the next.
    pub chunk: u64,
    /// Zones open for data at a time.
    pub open_zones: u32,
    /// Bytes of a block (UFS) or record (ZFS).
    pub block: u64,
    /// Between two commits of metadata, or transaction groups.
    pub commit: Nanos,
    /// Commands of the file system in flight on each disk.
    pub queue_depth: u32,
    /// CPU time of a file operation, whatever its length.
    pub op_cost: Nanos,
    /// Bytes a second at which the CPU passes over the data of an operation.
    pub byte_rate: u64,
    /// CPU time of issuing a block command, in the context that issues it.
    pub issue_cost: Nanos,
}

impl Params {
    /// The parameters of a file system, as far as `given` does not say.
    pub fn new(kind: FsKind, given: &FsOptions) -> Self {
        let base = Params::default_for(kind, given.memory);
        Params {
            memory: base.memory,
            dirty: given.dirty.unwrap_or(base.dirty),
            background: given.background.unwrap_or(base.background),
            chunk: given.chunk.unwrap_or(base.chunk),
            open_zones: given.open_zones.unwrap_or(base.open_zones),
            block: given.block.unwrap_or(base.block),
            commit: given.commit.unwrap_or(base.commit),
            queue_depth: given.queue_depth.unwrap_or(base.queue_depth),
            op_cost: given.op_cost.unwrap_or(base.op_cost),
            byte_rate: given.byte_rate.unwrap_or(base.byte_rate),
            issue_cost: given.issue_cost.unwrap_or(base.issue_cost),
        }
    }

    fn default_for(kind: FsKind, memory: Option<u64>) -> Self {
        let memory = memory.unwrap_or(match kind {
            FsKind::Btrfs | FsKind::Xfs => 4 << 30,
            FsKind::Ufs => 1536 << 20,
            FsKind::Zfs => 640 << 20,
        });
        let linux = Params {
            memory,
            // vm.dirty_ratio and vm.dirty_background_ratio.
            dirty: memory / 100 * 20,
            background: memory / 100 * 10,
            chunk: 120 << 20,
            open_zones: 128,
            block: 4 << 10,
            commit: Nanos(30_000_000_000),
            queue_depth: 32,
            op_cost: Nanos(2_000),
            byte_rate: 4 << 30,
            issue_cost: Nanos(2_000),
        };
        match kind {
            FsKind::Xfs => linux,
            FsKind::Btrfs => {
                Params { open_zones: 1, op_cost: Nanos(8_390), byte_rate: 8 << 30, ..linux }
            }
            FsKind::Ufs => Params {
                dirty: 28 << 20,
                background: 28 << 20,
                chunk: 1 << 20,
                block: 16 << 10,
                op_cost: Nanos(20_000),
                byte_rate: 1 << 30,
                ..linux
            },
            FsKind::Zfs => Params {
                dirty: memory / 8,
                block: 128 << 10,
                queue_depth: 35,
                op_cost: Nanos(50_000),
                byte_rate: 500 << 20,
                ..linux
            },
        }
    }

    /// CPU time of an operation on so many bytes.
    pub fn cost(&self, bytes: u64) -> Nanos {
        let pass = u128::from(bytes) * 1_000_000_000 / u128::from(self.byte_rate);
        // At least one, so that no process does infinitely many operations in no time.
        Nanos((self.op_cost.0 + u64::try_from(pass).unwrap_or(u64::MAX)).max(1))
    }
}
