//! File systems: files and model parameters.
use super::{ANY_U32, OptionSpec, ValueKind, number, to_u32};
use crate::job::FsKind;
use zonal_blk::Nanos;

/// Most disks of a file system.
const MAX_DISKS: u64 = 64;
/// Most files of a clone: their state fits in memory.
const MAX_FILES: u64 = 1 << 20;
/// Highest cost in nanoseconds: a second.
const MAX_COST: u64 = 1_000_000_000;

options! {
    pub(super) const OPTIONS;
    "filesystem": ValueKind::Word(&[
        ("none", Ok(|draft| draft.job.fs.kind = None)),
        ("btrfs", Ok(|draft| draft.job.fs.kind = Some(FsKind::Btrfs))),
        ("xfs", Ok(|draft| draft.job.fs.kind = Some(FsKind::Xfs))),
        ("ufs", Ok(|draft| draft.job.fs.kind = Some(FsKind::Ufs))),
        ("zfs", Ok(|draft| draft.job.fs.kind = Some(FsKind::Zfs))),
    ]),
        "none", "File system model to create on the device; all clones share it. Zonal's own.";
    "create_only": ValueKind::Bool(|draft, on| draft.create_only = on),
        "0", "Do no I/O: devices exist, and so do the files on them.";
    "filesize": ValueKind::SizeRange(|draft, min, max| draft.job.fs.filesize = Some((min, max))),
        "",
        "File size, or a range to draw sizes from. Without filesystem a job's files lie one after \
         another on the device.";
    "filename_format": ValueKind::Text(|draft, text| {
        draft.job.fs.name_format = Some(text.to_owned()).filter(|text| !text.is_empty());
    }),
        "$jobname.$jobnum.$filenum",
        "Names of a clone's files where filename gives none; clones with the same share a file, with \
         --files or without a device.";
    "nrfiles" or "nr_files": number(1, MAX_FILES, |draft, n| draft.job.fs.nrfiles = Some(to_u32(n))),
        "1", "Files per clone.";
    "openfiles": number(1, ANY_U32, |draft, n| draft.job.fs.openfiles = Some(to_u32(n))),
        "nrfiles", "Files that a clone keeps open at a time.";
    "file_service_type": ValueKind::FileService(|draft, (service, turn)| {
        (draft.job.fs.service, draft.job.fs.turn) = (service, turn);
    }),
        "roundrobin",
        "Whether a clone's open files take turns, are finished one after another, or are drawn for \
         each turn, some more often with zipf, pareto or normal; after a colon the I/Os of a turn, or \
         the shape as in random_distribution.";
    "fs_shared": ValueKind::Flag(|draft, on| draft.job.fs.shared = on),
        "0", "All clones use the same files.";
    "fs_disks": number(1, MAX_DISKS, |draft, n| draft.job.fs.disks = to_u32(n)),
        "1", "Number of identical devices in the pool; zfs only.";
    "fs_warm_runs": number(0, ANY_U32, |draft, n| draft.job.fs.warm_runs = to_u32(n)),
        "0", "Unmeasured runs of all I/O before the measured one.";
    "fs_memory": ValueKind::Size(|draft, bytes| draft.job.fs.memory = Some(bytes)),
        "btrfs, xfs 4g, ufs 1536m, zfs 200m",
        "Memory for file data: page cache, buffer cache, ARC.";
    "fs_dirty": ValueKind::Size(|draft, bytes| draft.job.fs.dirty = Some(bytes)),
        "btrfs, xfs 20% of fs_memory, ufs 28m, zfs half, at most 256m",
        "Dirty and in-flight bytes at which writers are throttled.";
    "fs_dirty_background": ValueKind::Size(|draft, bytes| draft.job.fs.background = Some(bytes)),
        "btrfs, xfs 10% of fs_memory, ufs 21m", "Dirty bytes at which write-back starts.";
    "fs_chunk": ValueKind::Size(|draft, bytes| draft.job.fs.chunk = Some(bytes.max(1))),
        "btrfs, xfs 120m, ufs 1m",
        "Bytes to write back of a file before the next one's turn; for ufs, limit of bytes in \
         flight.";
    "fs_block": ValueKind::Size(|draft, bytes| draft.job.fs.block = Some(bytes)),
        "ufs 16k, zfs 128k", "Block size (ufs) or record size (zfs).";
    "fs_queue_depth": number(1, ANY_U32, |draft, n| draft.job.fs.queue_depth = Some(to_u32(n))),
        "zfs 35", "Commands in flight per disk; zfs only.";
    "fs_open_zones": number(1, ANY_U32, |draft, n| draft.job.fs.open_zones = Some(to_u32(n))),
        "xfs 128, btrfs 1", "Limit of zones open for data.";
    "fs_commit": ValueKind::Seconds(|draft, time| draft.job.fs.commit = Some(time)),
        "30s", "Interval of metadata commits, which also write back dirty data.";
    "fs_op_cost": number(0, MAX_COST, |draft, n| draft.job.fs.op_cost = Some(Nanos(n))),
        "xfs 2000, btrfs 8390, ufs 20000, zfs 1500000",
        "CPU time of a file operation of any length, in nanoseconds.";
    "fs_byte_rate": ValueKind::Size(|draft, bytes| draft.job.fs.byte_rate = Some(bytes.max(1))),
        "xfs 4g, btrfs 8g, ufs 1g, zfs 500m",
        "Bytes per second at which the CPU processes an operation's data.";
    "fs_issue_cost": number(0, MAX_COST, |draft, n| draft.job.fs.issue_cost = Some(Nanos(n))),
        "2000", "CPU time to issue a block command, in nanoseconds.";
}
