//! The region of the device that a clone of a job uses, and the amount of I/O. A region lies on the
//! device and is aligned to its LBA and, with `zonemode=zbd`, to zones.
use super::layout::Layout;
use crate::job::{BlockSizes, DataDir, Extent, Job, ZoneMode};
use zonal_blk::Limits;

/// A clone's region of the device, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First byte.
    pub start: u64,
    /// End (exclusive).
    pub end: u64,
    /// Bytes to read and write in one loop.
    pub io_size: u64,
    /// Bytes of the device's logical block.
    pub lba: u64,
}

/// Why a job cannot run on a device.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("job {job}: {option}: {problem}")]
pub struct RegionError {
    /// The job's name.
    pub job: String,
    /// The option that does not fit the device.
    pub option: &'static str,
    /// What was found and what was expected.
    pub problem: String,
}

/// The block sizes and alignments of a job, each with its option.
fn lengths(job: &Job) -> impl Iterator<Item = (&'static str, u64)> {
    let of = |dir: DataDir| {
        let (largest, align) = (job.bs[dir as usize], job.address.align[dir as usize]);
        let (option, sizes) = match &job.address.sizes[dir as usize] {
            BlockSizes::Fixed => ("bs", vec![largest]),
            BlockSizes::Range { min } => ("bsrange", vec![*min, largest]),
            BlockSizes::Split(sizes) => ("bssplit", sizes.iter().map(|(size, _)| *size).collect()),
        };
        let align = align.map(|align| ("blockalign", align));
        sizes.into_iter().map(move |size| (option, size)).chain(align)
    };
    DataDir::ALL.into_iter().flat_map(of)
}

/// Aligns the start of a region upwards if it is in percent (`offset_align`).
fn aligned(at: u64, job: &Job) -> Option<u64> {
    let smallest = DataDir::ALL.map(|dir| job.min_bs(dir)).into_iter().min();
    match (job.offset, job.address.offset_align) {
        (Extent::Percent(0) | Extent::Bytes(_) | Extent::Zones(_), _) => Some(at),
        (Extent::Percent(_), 0) => at.checked_next_multiple_of(smallest.expect("three of them")),
        (Extent::Percent(_), align) => at.checked_next_multiple_of(align),
    }
}

/// Checks that `zonemode=zbd` fits a device with zones of this many bytes.
fn check_zones(job: &Job, limits: &Limits) -> Result<(), (&'static str, String)> {
    let zone = limits.zone_size.to_bytes().0;
    if zone == 0 {
        return Err(("zonemode", "zbd needs a zoned device, this one has no zones".into()));
    }
    if let Some(wanted) = job.zonesize.filter(|&size| size != 0 && size != zone) {
        return Err(("zonesize", format!("{wanted} bytes, but the device's zones have {zone}")));
    }
    if let Some(wanted) = job.zonerange.filter(|&range| range != 0 && range != zone) {
        let problem = format!("{wanted} bytes, but with zonemode=zbd it is the zone size {zone}");
        return Err(("zonerange", problem));
    }
    let most = limits.max_open_zones;
    if !job.zbd.ignore_limits && most > 0 && job.max_open_zones > most {
        let problem = format!(
            "found {}, but the device allows {most} open zones; ignore_zone_limits=1 tries more",
            job.max_open_zones
        );
        return Err(("max_open_zones", problem));
    }
    Ok(())
}

impl Region {
    /// The region of clone number `clone` of `job`.
    ///
    /// # Errors
    /// The option that does not fit the device.
    pub fn new(job: &Job, clone: u32, limits: &Limits) -> Result<Self, RegionError> {
        let fail =
            |option, problem: String| Err(RegionError { job: job.name.clone(), option, problem });
        let lba = u64::from(limits.lba_size);
        if let Some((option, bytes)) =
            lengths(job).find(|(_, bytes)| *bytes == 0 || bytes % lba != 0)
        {
            let problem = format!("{bytes} bytes is not a multiple of the device's LBA of {lba}");
            return fail(option, problem);
        }
        let device = limits.capacity.to_bytes().0;
        let zone = limits.zone_size.to_bytes().0;
        let zbd = job.zonemode == ZoneMode::Zbd;
        if zbd && let Err((option, problem)) = check_zones(job, limits) {
            return fail(option, problem);
        }
        let in_bytes = |extent, whole: u64| match extent {
            Extent::Bytes(bytes) => Some(bytes),
            Extent::Percent(percent) => Some(whole / 100 * u64::from(percent)),
            Extent::Zones(zones) => zones.checked_mul(zone),
        };
        let position = in_bytes(job.offset, device)
            .zip(in_bytes(job.offset_increment, device))
            .and_then(|(at, step)| at.checked_add(step.checked_mul(u64::from(clone))?));
        let Some(mut start) = position.and_then(|at| aligned(at, job)).filter(|&at| at < device)
        else {
            return fail(
                "offset",
                format!("clone {clone} begins beyond the device's {device} bytes"),
            );
        };
        let mut size = match job.size {
            None => Some(device - start),
            Some(extent) => in_bytes(extent, device),
        };
        let mut amount = None;
        if let Some(files) = Layout::new(job, clone) {
            amount = Some(size.map_or(files.total(), |size| size.min(files.total())));
            let Some(first) = files.place(start, clone).filter(|&at| at < device) else {
                let problem = format!("clone {clone} has no room on the device's {device} bytes");
                return fail("nrfiles", problem);
            };
            (start, size) = (first, files.len());
        } else if let Some((_, file)) = job.fs.filesize.filter(|_| job.fs.kind.is_none()) {
            size = size.map(|size| size.min(file));
        }
        let end = size.map_or(u64::MAX, |size| start.saturating_add(size));
        let Some(mut end) = Some(end).filter(|&end| end <= device) else {
            let problem = format!("the region ends at {end}, beyond the device's {device} bytes");
            return fail("size", problem);
        };
        let unit = if zbd { zone } else { lba };
        start = start.next_multiple_of(unit);
        if end < device {
            // The last zone may be shorter than the others: it belongs to the region if all of it
            // does.
            end -= end % unit;
        }
        let largest = job.bs.into_iter().max().expect("three block sizes");
        if start >= end || largest > end - start {
            let what = if zbd { "one whole zone" } else { "one block" };
            return fail("size", format!("the region does not hold {what}"));
        }
        let amount = amount.unwrap_or(end - start);
        let Some(io_size) = job.io_size.map_or(Some(amount), |e| in_bytes(e, amount)) else {
            return fail("io_size", "is larger than 2^64 bytes".into());
        };
        Ok(Region { start, end, io_size, lba })
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Always false: a region holds at least one block.
    pub fn is_empty(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::AddressOptions;
    use zonal_blk::Bytes;

    #[test]
    fn offsets_in_percent_are_aligned_upwards() {
        let limits = Limits::regular(Bytes(10 << 20).to_sectors());
        let start = |offset, offset_align, bs: u64| {
            let address = AddressOptions { offset_align, ..AddressOptions::default() };
            let job = Job { offset, address, bs: [bs; 3], ..Job::default() };
            Region::new(&job, 0, &limits).expect("it fits").start
        };
        // 7 % of 10 MiB are 733964 bytes.
        assert_eq!(start(Extent::Percent(7), 0, 4096), 180 * 4096);
        assert_eq!(start(Extent::Percent(7), 1 << 20, 4096), 1 << 20);
        assert_eq!(start(Extent::Percent(7), 0, 65536), 12 * 65536);
        assert_eq!(start(Extent::Bytes(512), 1 << 20, 4096), 512, "not in percent");
    }
}
