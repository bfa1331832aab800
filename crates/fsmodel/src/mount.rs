//! Creates the file system of a job on its disks, new each time.
use super::disk::{Disk, MountError};
use super::process::ProcessSpec;
use super::ufs::Ufs;
use super::zfs::Zfs;
use super::zoned::{BTRFS, XFS, ZonedFs};
use super::{FileId, FileSystem, FsKind, FsRunner, Params};
use std::sync::Arc;
use zonal_blk::{Limits, Queue, Status, Zone, ZoneNo};
use zonal_fio::job::{Extent, Job, PatternProgram, Rw, ZoneMode};

/// Largest block of UFS and record of ZFS in bytes.
const MAX_BLOCK: u64 = 128 << 10;

/// Most files of a job.
const MAX_FILES: u64 = 1 << 20;

/// Files with their sizes that exist before the processes start, created without I/O.
pub(crate) type Layout = Vec<(FileId, u64)>;

/// Checks that the file system of a job fits disks with these limits.
///
/// # Errors
/// The option that does not fit.
pub fn check(job: &Job, limits: &Limits) -> Result<FsKind, MountError> {
    let Some(kind) = job.fs.kind else {
        return Err(MountError::new(job, "filesystem", "none given"));
    };
    check_disks(job, kind, limits)?;
    check_files(job, kind, limits)?;
    check_pattern(job)?;
    Ok(kind)
}

fn check_disks(job: &Job, kind: FsKind, limits: &Limits) -> Result<(), MountError> {
    let fail = |option, problem: String| Err(MountError::new(job, option, problem));
    let name = kind.name();
    if kind.is_zoned() != (limits.nr_zones > 0) {
        let (needs, has) =
            if kind.is_zoned() { ("zones", "has none") } else { ("no zones", "has some") };
        return fail("filesystem", format!("{name} needs a device with {needs}, this one {has}"));
    }
    if job.fs.disks > 1 && kind != FsKind::Zfs {
        return fail("fs_disks", format!("{name} uses one disk, only zfs can use several"));
    }
    let block = Params::new(kind, &job.fs).block;
    if !block.is_power_of_two() || block < u64::from(limits.lba_size) || block > MAX_BLOCK {
        let expected = format!("a power of two from {} to {MAX_BLOCK}", limits.lba_size);
        return fail("fs_block", format!("found {block} bytes, expected {expected}"));
    }
    if job.zonemode == ZoneMode::Zbd {
        return fail("zonemode", "the file system manages the zones".to_owned());
    }
    Ok(())
}

fn check_files(job: &Job, kind: FsKind, limits: &Limits) -> Result<(), MountError> {
    let fail = |option, problem: String| Err(MountError::new(job, option, problem));
    if job.rw == Rw::Trim {
        return fail("rw", "files are read and written, not trimmed".to_owned());
    }
    if kind.is_zoned() && is_random(job) {
        return fail("rw", format!("the model of {} is for sequential I/O only", kind.name()));
    }
    let Some((min_size, _)) = job.fs.filesize else {
        return fail("filesize", "a job on a file system needs it".to_owned());
    };
    let block = if job.rw == Rw::Read { job.bs[0] } else { job.bs[1] };
    if min_size < block {
        return fail("filesize", format!("{min_size} bytes is less than the block size {block}"));
    }
    let files = u64::from(job.fs.nrfiles.unwrap_or(1)) * u64::from(job.numjobs);
    if files > MAX_FILES {
        let problem = format!("{files} files of all clones, expected at most {MAX_FILES}");
        return fail("nrfiles", problem);
    }
    if job.offset != Extent::Bytes(0) || job.offset_increment != Extent::Bytes(0) {
        return fail("offset", "files are read and written from the start".to_owned());
    }
    if !is_random(job) && job.rw_modifier != 0 {
        return fail("rw", "files are read and written without gaps".to_owned());
    }
    let lba = u64::from(limits.lba_size);
    if let Some(bs) = job.bs.into_iter().find(|bs| bs % lba != 0) {
        return fail("bs", format!("{bs} bytes is not a multiple of the disk's LBA of {lba}"));
    }
    if is_random(job) && job.fs.nrfiles.is_some_and(|files| files > 1) {
        return fail("nrfiles", "random I/O uses one file".to_owned());
    }
    Ok(())
}

fn check_pattern(job: &Job) -> Result<(), MountError> {
    let fail = |option, problem: &str| Err(MountError::new(job, option, problem));
    if job.pattern.program == Some(PatternProgram::Randomio) {
        return fail("pattern", "only raidtest is supported on file systems");
    }
    if job.replay.read_iolog.is_some() {
        return fail("read_iolog", "traces are of devices, not of file systems");
    }
    if job.pattern.file.is_some() {
        return fail("pattern_file", "use pattern=raidtest");
    }
    if job.record.write_iolog.is_some() {
        return fail("write_iolog", "traces are of devices, not of file systems");
    }
    if job.fs.warm_runs > 0 && job.time_based {
        return fail("fs_warm_runs", "warm runs never end with time_based");
    }
    for (option, extent) in [("size", job.size), ("io_size", job.io_size)] {
        if !matches!(extent, None | Some(Extent::Bytes(_))) {
            return fail(option, "expected bytes: files are not part of a device");
        }
    }
    Ok(())
}

/// Creates the file system of a job on `disks`, with the files that its processes read or overwrite.
/// `index` is that of the job in the job file; `seed` is mixed with that of the job.
///
/// # Errors
/// The option that does not fit the disks.
pub fn mount(
    job: &Arc<Job>,
    index: u32,
    disks: &[Disk],
    seed: u64,
) -> Result<FsRunner, MountError> {
    let limits = disks[0].queue.limits();
    let kind = check(job, limits)?;
    let params = Params::new(kind, &job.fs);
    let spec = ProcessSpec::new(job, index, seed)
        .map_err(|error| MountError::new(job, "pattern", error.to_string()))?;
    let spec = |clone| spec.of_clone(clone);
    let clones = if job.fs.shared { 1 } else { job.numjobs };
    // UFS overwrites in place: every file is allocated from the start.
    let exists = is_random(job) || job.rw != Rw::Write || kind == FsKind::Ufs;
    let layout: Layout = if exists {
        (0..clones).flat_map(|clone| spec(clone).files().collect::<Vec<_>>()).collect()
    } else {
        Layout::new()
    };
    let no_space = |bytes: u64| {
        MountError::new(job, "filesize", format!("no room for {bytes} bytes of files on the disk"))
    };
    let zoned_params = params.clone();
    let zoned = |variant| -> Result<Box<dyn FileSystem>, MountError> {
        let queue = &disks[0].queue;
        let zones = report(job, queue)?;
        let policy = queue.zone_write();
        let fs = ZonedFs::new(zoned_params, variant, limits, policy, &zones, job, &layout);
        Ok(Box::new(fs.map_err(no_space)?))
    };
    let fs = match kind {
        FsKind::Btrfs => zoned(BTRFS)?,
        FsKind::Xfs => zoned(XFS)?,
        FsKind::Ufs => Box::new(Ufs::new(params, limits, job, &layout).map_err(no_space)?),
        FsKind::Zfs => {
            let disks: Vec<&Limits> = disks.iter().map(|disk| disk.queue.limits()).collect();
            Box::new(Zfs::new(params, &disks, job, &layout, seed).map_err(no_space)?)
        }
    };
    FsRunner::new(Arc::clone(job), fs, (0..job.numjobs).map(spec), disks, kind.name())
}

/// Whether the I/O is to random offsets of one file.
fn is_random(job: &Job) -> bool {
    job.random || job.rw == Rw::Mixed || job.pattern.program.is_some()
}

fn report(job: &Job, queue: &Queue) -> Result<Vec<Zone>, MountError> {
    let mut zones = Vec::new();
    let all = queue.limits().nr_zones as usize;
    let failed =
        |status: Status| MountError::new(job, "filesystem", format!("zone report: {status}"));
    queue.report_zones(ZoneNo(0), all, &mut zones).map_err(failed)?;
    Ok(zones)
}
