//! File systems, their files and their parameters.
use super::{ANY_U32, OptionSpec, ValueKind, narrow};
use crate::file_system::{FsKind, Service};
use zonal_blk::Nanos;

/// Disks that one file system can lie on.
const MAX_DISKS: u64 = 64;
/// Greatest cost in nanoseconds: a second.
const MAX_COST: u64 = 1_000_000_000;

pub(super) const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        "filesystem",
        ValueKind::Word(&[
            ("none", Ok(|draft| draft.job.fs.kind = None)),
            ("btrfs", Ok(|draft| draft.job.fs.kind = Some(FsKind::Btrfs))),
            ("xfs", Ok(|draft| draft.job.fs.kind = Some(FsKind::Xfs))),
            ("ufs", Ok(|draft| draft.job.fs.kind = Some(FsKind::Ufs))),
            ("zfs", Ok(|draft| draft.job.fs.kind = Some(FsKind::Zfs))),
        ]),
        "none",
        "File system that is made on the device and that all clones work on. Zonal's own.",
    ),
    OptionSpec::new(
        "filesize",
        ValueKind::SizeRange(|draft, least, most| draft.job.fs.filesize = Some((least, most))),
        "",
        "Size of a file, or the range that sizes are drawn from.",
    ),
    OptionSpec::new(
        "nrfiles",
        ValueKind::Number {
            min: 1,
            max: ANY_U32,
            set: |draft, n| draft.job.fs.nrfiles = Some(narrow(n)),
        },
        "1",
        "Files of each clone.",
    )
    .or(&["nr_files"]),
    OptionSpec::new(
        "openfiles",
        ValueKind::Number {
            min: 1,
            max: ANY_U32,
            set: |draft, n| draft.job.fs.openfiles = Some(narrow(n)),
        },
        "nrfiles",
        "Files that a clone has open at a time.",
    ),
    OptionSpec::new(
        "file_service_type",
        ValueKind::Word(&[
            ("roundrobin", Ok(|draft| draft.job.fs.service = Service::RoundRobin)),
            ("sequential", Ok(|draft| draft.job.fs.service = Service::Sequential)),
            ("random", Err("use roundrobin or sequential")),
        ]),
        "roundrobin",
        "Whether a clone's open files take turns or are done one after another.",
    ),
    OptionSpec::new(
        "fs_shared",
        ValueKind::Flag(|draft, on| draft.job.fs.shared = on),
        "0",
        "All clones work on the same files.",
    ),
    OptionSpec::new(
        "fs_disks",
        ValueKind::Number {
            min: 1,
            max: MAX_DISKS,
            set: |draft, n| draft.job.fs.disks = narrow(n),
        },
        "1",
        "Devices like the job's own that the file system lies on; zfs only.",
    ),
    OptionSpec::new(
        "fs_warm_runs",
        ValueKind::Number {
            min: 0,
            max: ANY_U32,
            set: |draft, n| draft.job.fs.warm_runs = narrow(n),
        },
        "0",
        "Times that all clones do all their I/O before the run that is measured.",
    ),
    OptionSpec::new(
        "fs_memory",
        ValueKind::Size(|draft, bytes| draft.job.fs.memory = Some(bytes)),
        "btrfs, xfs 4g, ufs 1536m, zfs 640m",
        "Memory for file data: page cache, buffer cache, ARC.",
    ),
    OptionSpec::new(
        "fs_dirty",
        ValueKind::Size(|draft, bytes| draft.job.fs.dirty = Some(bytes)),
        "btrfs, xfs 20% of fs_memory, zfs an eighth",
        "Bytes written and not yet on the device at which writers wait.",
    ),
    OptionSpec::new(
        "fs_dirty_background",
        ValueKind::Size(|draft, bytes| draft.job.fs.background = Some(bytes)),
        "btrfs, xfs 10% of fs_memory, ufs 28m",
        "Dirty bytes from which they are written back.",
    ),
    OptionSpec::new(
        "fs_chunk",
        ValueKind::Size(|draft, bytes| draft.job.fs.chunk = Some(bytes.max(1))),
        "btrfs, xfs 120m, ufs 1m",
        "Bytes written back of a file before it is the next one's turn; for ufs, bytes being written.",
    ),
    OptionSpec::new(
        "fs_block",
        ValueKind::Size(|draft, bytes| draft.job.fs.block = Some(bytes)),
        "ufs 16k, zfs 128k",
        "Bytes of a block (ufs) or record (zfs).",
    ),
    OptionSpec::new(
        "fs_queue_depth",
        ValueKind::Number {
            min: 1,
            max: ANY_U32,
            set: |draft, n| draft.job.fs.queue_depth = Some(narrow(n)),
        },
        "zfs 35",
        "Commands of zfs in flight on each disk.",
    ),
    OptionSpec::new(
        "fs_open_zones",
        ValueKind::Number {
            min: 1,
            max: ANY_U32,
            set: |draft, n| draft.job.fs.open_zones = Some(narrow(n)),
        },
        "xfs 128, btrfs 1",
        "Zones open for data at a time.",
    ),
    OptionSpec::new(
        "fs_commit",
        ValueKind::Seconds(|draft, time| draft.job.fs.commit = Some(time)),
        "30s",
        "Time between commits of metadata, when dirty data are written back as well.",
    ),
    OptionSpec::new(
        "fs_op_cost",
        ValueKind::Number {
            min: 0,
            max: MAX_COST,
            set: |draft, n| draft.job.fs.op_cost = Some(Nanos(n)),
        },
        "xfs 2000, btrfs 8390, ufs 20000, zfs 50000",
        "Nanoseconds of CPU for a file operation, whatever its length.",
    ),
    OptionSpec::new(
        "fs_byte_rate",
        ValueKind::Size(|draft, bytes| draft.job.fs.byte_rate = Some(bytes.max(1))),
        "xfs 4g, btrfs 8g, ufs 1g, zfs 500m",
        "Bytes a second at which the CPU passes over an operation's data.",
    ),
    OptionSpec::new(
        "fs_issue_cost",
        ValueKind::Number {
            min: 0,
            max: MAX_COST,
            set: |draft, n| draft.job.fs.issue_cost = Some(Nanos(n)),
        },
        "2000",
        "Nanoseconds of CPU to issue a block command, in the context that issues it.",
    ),
];
