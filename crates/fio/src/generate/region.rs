//! The region of the device that a clone of a job uses, and the amount of I/O. A region lies on the
//! device and is aligned to its LBA and, with `zonemode=zbd`, to zones.
use super::layout::Layout;
use crate::job::{BlockSizes, DataDir, Distribution, Extent, Job, Rw, ZoneMode};
use zonal_blk::{Bytes, Limits};

/// A clone's region of the device, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First byte.
    pub start: u64,
    /// End (exclusive).
    pub end: u64,
    /// Bytes of `size`, which with `zonemode=zbd` may be more than the whole zones of the region.
    pub size: u64,
    /// Bytes to read and write in one loop.
    pub io_size: u64,
    /// Bytes of the device's logical block.
    pub lba: u64,
    /// End of the device, or of the file that the region is in: as in fio, a sequential block that begins
    /// in the region may end beyond it.
    pub limit: u64,
}

/// A file on a device, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePlace {
    /// First byte.
    pub start: u64,
    /// Length.
    pub len: u64,
}

/// Why a job cannot run on a device.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("job {job}: {option}: {problem}")]
pub struct RegionError {
    /// The job's name.
    pub job: String,
    /// The option that does not fit the device.
    pub option: &'static str,
    /// Says what was found and what was expected.
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

/// The smallest block size of all directions.
fn smallest_block(job: &Job) -> u64 {
    DataDir::ALL.map(|dir| job.min_bs(dir)).into_iter().min().expect("three of them")
}

/// Checks that block sizes and alignments are whole logical blocks.
fn check_lengths(job: &Job, lba: u64) -> Result<(), (&'static str, String)> {
    match lengths(job).find(|(_, bytes)| *bytes == 0 || bytes % lba != 0) {
        None => Ok(()),
        Some((option, bytes)) => {
            Err((option, format!("{bytes} bytes is not a multiple of the device's LBA of {lba}")))
        }
    }
}

/// Checks that the region has all blocks of a sequence.
fn check_sequence(job: &Job, region: &Region) -> Result<(), RegionError> {
    for dir in DataDir::ALL.into_iter().filter(|&dir| job.random && job.uses(dir)) {
        let Distribution::Sequence(order) = &job.address.distribution[dir as usize] else {
            continue;
        };
        let blocks = region.blocks(job, dir);
        if let Some(block) = order.iter().find(|&&block| block >= blocks) {
            let problem = format!(
                "found block {block} in the sequence, expected at most {}: there are {blocks} blocks",
                blocks - 1
            );
            let option = "random_distribution";
            return Err(RegionError { job: job.name.clone(), option, problem });
        }
    }
    Ok(())
}

/// Aligns the start of a region upwards if part of it is in percent (`offset_align`).
fn aligned(at: u64, job: &Job) -> Option<u64> {
    let is_percent = |extent| matches!(extent, Extent::Percent(1..));
    if !is_percent(job.offset) && !is_percent(job.offset_increment) {
        return Some(at);
    }
    let align = match job.address.offset_align {
        0 => smallest_block(job),
        align => align,
    };
    at.checked_next_multiple_of(align)
}

/// A length or position of something with `whole` bytes, on a device with zones of `zone` bytes.
fn in_bytes(extent: Extent, whole: u64, zone: u64) -> Option<u64> {
    match extent {
        Extent::Bytes(bytes) => Some(bytes),
        Extent::Percent(percent) => {
            let part = u128::from(whole) * u128::from(percent) / 100;
            u64::try_from(part).ok()
        }
        Extent::Zones(zones) => zones.checked_mul(zone),
    }
}

/// The size of a region that begins at `start`. As in fio, a size in percent of the device ends where
/// the device does, and is a number of whole blocks.
fn size(job: &Job, start: u64, device: u64, zone: u64) -> Option<u64> {
    let left = device - start;
    match job.size {
        None | Some(Extent::Percent(100)) => Some(left),
        Some(extent @ Extent::Percent(_)) => {
            let bytes = in_bytes(extent, device, zone)?.min(left);
            Some(bytes - bytes % smallest_block(job))
        }
        Some(extent) => in_bytes(extent, device, zone),
    }
}

/// Whether the region begins with a zone. As in fio, one of sequential reads need not, but like all others it
/// ends with a zone.
fn begins_with_a_zone(job: &Job) -> bool {
    job.zonemode == ZoneMode::Zbd && (job.random || job.rw != Rw::Read)
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
    if let Some(wanted) = job.address.zonerange.filter(|&range| range != 0 && range != zone) {
        let problem = format!("{wanted} bytes, but with zonemode=zbd it is the zone size {zone}");
        return Err(("zonerange", problem));
    }
    let trim = job.bs[DataDir::Trim as usize];
    if job.uses(DataDir::Trim) && (trim != zone || job.min_bs(DataDir::Trim) != zone) {
        let problem = format!(
            "{trim} bytes, but with zonemode=zbd a trim resets a zone: expected the zone size {zone}"
        );
        return Err(("bs", problem));
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

/// Bytes of a clone's file or files: of what lies before its region in the file, and of the region.
///
/// # Errors
/// The size is not known, or larger than any device.
pub(crate) fn file_bytes(job: &Job, clone: u32, limits: &Limits) -> Result<u64, RegionError> {
    let fail = |problem: &str| RegionError {
        job: job.name.clone(),
        option: "size",
        problem: problem.to_owned(),
    };
    let zone = limits.zone_size.to_bytes().0;
    let is_relative = |extent| matches!(extent, Extent::Percent(1..));
    if [job.offset, job.offset_increment].into_iter().any(is_relative) {
        return Err(fail("offsets of files are in bytes or zones, not in percent"));
    }
    let before = in_bytes(job.offset, 0, zone)
        .zip(in_bytes(job.offset_increment, 0, zone))
        .and_then(|(at, step)| at.checked_add(step.checked_mul(clone.into())?));
    let bytes = match (Layout::new(job, clone), job.size, job.fs.filesize) {
        (Some(files), ..) => files.len(),
        (None, _, Some((_, most))) => Some(most),
        (None, Some(extent @ (Extent::Bytes(_) | Extent::Zones(_))), None) => {
            in_bytes(extent, 0, zone)
        }
        (None, None | Some(Extent::Percent(_)), None) => {
            return Err(fail("files need a size in bytes or zones, or filesize"));
        }
    };
    let whole = before.zip(bytes).and_then(|(before, bytes)| before.checked_add(bytes));
    whole.ok_or_else(|| fail("the file is larger than any device"))
}

/// What is wrong with a region without a block, or of `size` bytes without a whole zone.
fn holds_nothing(size: Option<u64>, zone: Option<u64>) -> String {
    match (size, zone) {
        (Some(size), Some(zone)) => format!(
            "the region of {size} bytes does not hold one whole zone; expected at least {zone}, or 1z; \
             io_size says how much of it is done"
        ),
        (None, Some(_)) => "the region does not hold one whole zone".to_owned(),
        (_, None) => "the region does not hold one block".to_owned(),
    }
}

impl Region {
    /// The region of clone number `clone` of `job`.
    ///
    /// # Errors
    /// The option that does not fit the device.
    pub fn new(job: &Job, clone: u32, limits: &Limits) -> Result<Self, RegionError> {
        let region = Self::after(job, clone, clone, limits)?;
        check_sequence(job, &region)?;
        Ok(region)
    }

    /// The region of a clone in a file of its own, or of its job.
    ///
    /// # Errors
    /// The file is beyond the device, or an option does not fit the device.
    pub fn in_file(
        job: &Job,
        clone: u32,
        file: FilePlace,
        limits: &Limits,
    ) -> Result<Self, RegionError> {
        let FilePlace { start, len } = file;
        let device = limits.capacity.to_bytes().0;
        if start.checked_add(len).is_none_or(|end| end > device) {
            let problem = format!(
                "clone {clone} has no room for its file: it begins at {start} and has {len} bytes, \
                 the device {device}"
            );
            return Err(RegionError { job: job.name.clone(), option: "size", problem });
        }
        let limits = Limits { capacity: Bytes(len).to_sectors(), ..limits.clone() };
        let inside = Self::after(job, clone, 0, &limits)?;
        check_sequence(job, &inside)?;
        Ok(Region {
            start: start + inside.start,
            end: start + inside.end,
            limit: start + inside.limit,
            ..inside
        })
    }

    /// In how many bytes random offsets are: those of the region, or of a zone of its stride.
    pub(super) fn window(&self, job: &Job) -> u64 {
        if job.zonemode != ZoneMode::Strided {
            return self.len();
        }
        let range = job.address.zonerange.or(job.zonesize).unwrap_or(self.len());
        range.min(self.limit - self.start)
    }

    /// The number of blocks of a direction there.
    pub(super) fn blocks(&self, job: &Job, dir: DataDir) -> u64 {
        let (window, min) = (self.window(job), job.min_bs(dir));
        let align = job.address.align[dir as usize].unwrap_or(min);
        // As in fio: of another alignment than the block size, whole ones.
        match align > min {
            true => (window / align).max(1),
            false => window.saturating_sub(min) / align + 1,
        }
    }

    /// The region of a clone, after the files of `before` others.
    fn after(job: &Job, clone: u32, before: u32, limits: &Limits) -> Result<Self, RegionError> {
        let fail =
            |option, problem: String| Err(RegionError { job: job.name.clone(), option, problem });
        // In zones a job writes whole units of the device's granularity.
        let zbd = job.zonemode == ZoneMode::Zbd;
        let unit = if zbd { limits.zone_write_granularity() } else { limits.lba_size };
        let lba = u64::from(unit);
        if let Err((option, problem)) = check_lengths(job, lba) {
            return fail(option, problem);
        }
        let device = limits.capacity.to_bytes().0;
        let zone = limits.zone_size.to_bytes().0;
        if zbd && let Err((option, problem)) = check_zones(job, limits) {
            return fail(option, problem);
        }
        let position = in_bytes(job.offset, device, zone)
            .zip(in_bytes(job.offset_increment, device, zone))
            .and_then(|(at, step)| at.checked_add(step.checked_mul(u64::from(clone))?));
        let Some(mut start) = position.and_then(|at| aligned(at, job)).filter(|&at| at < device)
        else {
            return fail(
                "offset",
                format!("clone {clone} begins beyond the device's {device} bytes"),
            );
        };
        let mut size = size(job, start, device, zone);
        let mut amount = None;
        if let Some(files) = Layout::new(job, clone) {
            amount = Some(size.map_or(files.total(), |size| size.min(files.total())));
            let Some(first) = files.place(start, before).filter(|&at| at < device) else {
                let problem = format!("clone {clone} has no room on the device's {device} bytes");
                return fail("nrfiles", problem);
            };
            (start, size) = (first, files.len());
        } else if let Some((_, file)) = job.fs.filesize.filter(|_| job.fs.kind.is_none()) {
            // As in fio: the I/O goes anywhere in the file, and `size` is its amount.
            (amount, size) = (size.map(|size| size.min(file)), Some(file.min(device - start)));
        }
        let end = size.map_or(u64::MAX, |size| start.saturating_add(size));
        let Some(mut end) = Some(end).filter(|&end| end <= device) else {
            let problem = format!("the region ends at {end}, beyond the device's {device} bytes");
            return fail("size", problem);
        };
        start = start.next_multiple_of(if begins_with_a_zone(job) { zone } else { lba });
        if end < device {
            // The last zone may be shorter than the others: it belongs to the region if all of it
            // does.
            end -= end % if zbd { zone } else { lba };
        }
        let used = DataDir::ALL.into_iter().filter(|&dir| job.uses(dir));
        let smallest = used.map(|dir| job.min_bs(dir)).min().expect("a direction");
        if start >= end || smallest > end - start {
            return fail("size", holds_nothing(size, zbd.then_some(zone)));
        }
        // As in fio the amount of I/O is that before the region was rounded to zones.
        let in_zones = zbd && (job.random || !job.reads_anywhere());
        let whole = size.filter(|_| in_zones).unwrap_or(end - start);
        let amount = amount.unwrap_or(whole);
        let Some(io_size) = job.io_size.map_or(Some(amount), |e| in_bytes(e, amount, zone)) else {
            return fail("io_size", "is larger than 2^64 bytes".into());
        };
        if io_size < smallest_block(job) && matches!(job.io_size, Some(Extent::Percent(_))) {
            let problem = format!("{io_size} bytes of {amount}, less than a block");
            return fail("io_size", problem);
        }
        // As in fio, a run of a random job ends the pass at the end of the region, but not at that of the device.
        let limit = if in_zones && !(job.random && job.rw_modifier > 1) { end } else { device };
        Ok(Region { start, end, size: amount, io_size, lba, limit })
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

    /// The region of a job on a device of 10 MiB.
    fn region(offset: Extent, size: Extent) -> Region {
        let limits = Limits::regular(Bytes(10 << 20).to_sectors());
        let job = Job { offset, size: Some(size), ..Job::default() };
        Region::new(&job, 0, &limits).expect("it fits")
    }

    #[test]
    fn sizes_in_percent_are_multiplied_before_they_are_divided() {
        let blocks = |percent| region(Extent::Bytes(0), Extent::Percent(percent)).len() / 4096;
        // As fio 3.41 does in a file of 10 MiB.
        assert_eq!([25, 33, 99, 100].map(blocks), [640, 844, 2534, 2560]);
        let zones = Limits {
            zone_size: Bytes(1 << 20).to_sectors(),
            nr_zones: 8,
            ..Limits::regular(Bytes(8 << 20).to_sectors())
        };
        let zoned = |percent| {
            let zonemode = ZoneMode::Zbd;
            let job = Job { size: Some(Extent::Percent(percent)), zonemode, ..Job::default() };
            Region::new(&job, 0, &zones).expect("it fits").len() >> 20
        };
        assert_eq!([25, 30, 50, 100].map(zoned), [2, 2, 4, 8]);
    }

    #[test]
    fn sequential_reads_begin_anywhere_and_end_with_a_zone() {
        let zones = Limits {
            zone_size: Bytes(64 << 10).to_sectors(),
            nr_zones: 16,
            ..Limits::regular(Bytes(1 << 20).to_sectors())
        };
        let region = |job: &Job| Region::new(job, 0, &zones).map(|region| region.start..region.end);
        for read_beyond_wp in [false, true] {
            let mut job = Job { zonemode: ZoneMode::Zbd, ..Job::default() };
            job.zbd.read_beyond_wp = read_beyond_wp;
            (job.offset, job.size) = (Extent::Bytes(4096), Some(Extent::Bytes(135_168)));
            // As fio 3.41 does in zones of 64 KiB.
            assert_eq!(region(&job), Ok(4096..131_072));
            assert_eq!(region(&Job { random: true, ..job.clone() }), Ok(65_536..131_072));
            assert_eq!(region(&Job { rw: Rw::Write, ..job.clone() }), Ok(65_536..131_072));
            job.size = Some(Extent::Bytes(57_344));
            assert!(region(&job).is_err(), "it ends before the first zone does");
        }
    }

    #[test]
    fn a_region_holds_the_smallest_block_of_a_direction_and_a_part_of_it_one_of_any() {
        let limits = Limits::regular(Bytes(10 << 20).to_sectors());
        let job = |size: u64, io_size| Job {
            rw: Rw::Mixed,
            bs: [4096, 8192, 8192],
            size: Some(Extent::Bytes(size)),
            io_size: Some(io_size),
            ..Job::default()
        };
        let all = Extent::Percent(100);
        assert!(Region::new(&job(4096, all), 0, &limits).is_ok());
        assert_eq!(Region::new(&job(2048, all), 0, &limits).unwrap_err().option, "size");
        // As fio 3.41: "blocksize is larger than data set range".
        let error = Region::new(&job(40_960, Extent::Percent(9)), 0, &limits).unwrap_err();
        assert_eq!(error.option, "io_size");
        assert!(Region::new(&job(40_960, Extent::Bytes(3686)), 0, &limits).is_ok());
    }

    #[test]
    fn sizes_in_percent_end_where_the_device_does() {
        let after = |offset, size| {
            let region = region(Extent::Percent(offset), Extent::Percent(size));
            (region.start / 4096, region.len() / 4096)
        };
        assert_eq!(after(80, 20), (2048, 512));
        assert_eq!(after(53, 60), (1357, 1203));
        assert_eq!(after(50, 100), (1280, 1280));
    }

    #[test]
    fn increments_in_percent_are_aligned_as_offsets_are() {
        let limits = Limits::regular(Bytes(10 << 20).to_sectors());
        let job = Job { offset_increment: Extent::Percent(7), ..Job::default() };
        assert_eq!(Region::new(&job, 1, &limits).expect("it fits").start, 180 * 4096);
    }

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

    #[test]
    fn blocks_of_a_sequence_are_in_the_region() {
        let limits = Limits::regular(Bytes(10 << 20).to_sectors());
        let mut job = Job { random: true, size: Some(Extent::Bytes(96 << 12)), ..Job::default() };
        let mut problem = |order: &[u64]| {
            job.address.distribution = [0; 3].map(|_| Distribution::Sequence(order.to_vec()));
            Region::new(&job, 0, &limits).err().map(|error| error.problem)
        };
        assert_eq!(problem(&[2, 0, 95]), None);
        let told = "found block 99 in the sequence, expected at most 95: there are 96 blocks";
        assert_eq!(problem(&[2, 0, 99]).as_deref(), Some(told));
    }
}
