//! The parameters of the file-system models.
use zonal_blk::Nanos;
use zonal_fio::job::{FsKind, FsOptions};

/// The parameters of a model. The sources of the defaults are in `docs/filesystems.md`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    /// Size of the page cache, buffer cache or ARC in bytes.
    pub memory: u64,
    /// Dirty and in-flight bytes at which writers are throttled.
    pub dirty: u64,
    /// Dirty bytes at which write-back starts.
    pub background: u64,
    /// Bytes that write-back takes from a file before the next one; for UFS, limit of bytes in flight.
    pub chunk: u64,
    /// Limit of zones open for data.
    pub open_zones: u32,
    /// Size of a block (UFS) or record (ZFS) in bytes.
    pub block: u64,
    /// Interval of metadata commits or transaction groups.
    pub commit: Nanos,
    /// Limit of commands in flight on each disk (ZFS).
    pub queue_depth: u32,
    /// CPU time of a file operation of any length.
    pub op_cost: Nanos,
    /// Bytes per second at which the CPU processes the data of an operation.
    pub byte_rate: u64,
    /// CPU time to issue a block command.
    pub issue_cost: Nanos,
}

impl Params {
    /// The parameters of a file system: those of `options`, and defaults for the others.
    pub fn new(kind: FsKind, options: &FsOptions) -> Self {
        let base = Params::default_for(kind, options.memory);
        Params {
            memory: base.memory,
            dirty: options.dirty.unwrap_or(base.dirty),
            background: options.background.unwrap_or(base.background),
            chunk: options.chunk.unwrap_or(base.chunk),
            open_zones: options.open_zones.unwrap_or(base.open_zones),
            block: options.block.unwrap_or(base.block),
            commit: options.commit.unwrap_or(base.commit),
            queue_depth: options.queue_depth.unwrap_or(base.queue_depth),
            op_cost: options.op_cost.unwrap_or(base.op_cost),
            byte_rate: options.byte_rate.unwrap_or(base.byte_rate),
            issue_cost: options.issue_cost.unwrap_or(base.issue_cost),
        }
    }

    fn default_for(kind: FsKind, memory: Option<u64>) -> Self {
        let memory = memory.unwrap_or(match kind {
            FsKind::Btrfs | FsKind::Xfs => 4 << 30,
            FsKind::Ufs => 1536 << 20,
            FsKind::Zfs => 200 << 20,
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
                background: 21 << 20,
                chunk: 1 << 20,
                block: 16 << 10,
                op_cost: Nanos(20_000),
                byte_rate: 1 << 30,
                ..linux
            },
            FsKind::Zfs => Params {
                dirty: (memory / 2).min(256 << 20),
                block: 128 << 10,
                queue_depth: 35,
                op_cost: Nanos(1_500_000),
                byte_rate: 500 << 20,
                ..linux
            },
        }
    }

    /// CPU time of an operation on `bytes`.
    pub fn cost(&self, bytes: u64) -> Nanos {
        let pass = u128::from(bytes) * 1_000_000_000 / u128::from(self.byte_rate);
        // At least 1 ns, so that no process does infinitely many operations in no time.
        Nanos((self.op_cost.0 + u64::try_from(pass).unwrap_or(u64::MAX)).max(1))
    }
}
