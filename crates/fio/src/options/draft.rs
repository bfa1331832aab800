//! A job being built from option values.
//!
//! [`Draft::finish`] runs the checks that involve more than one option and fills in the values that
//! depend on others.
use super::number::format_size;
use crate::job::{
    AddressOptions, BlockSizes, DataDir, Extent, FIXED_SEED, FileService, Fraction, Job,
    LimitOptions, PatternProgram, RateProcess, Rw, VerifyMethod, ZoneMode, ioprio,
};
use crate::verify::header_fits;
use thiserror::Error;
use zonal_blk::{Nanos, Prio};

/// The values set so far. A section of a job file starts with a copy of those of `[global]`.
#[derive(Clone, Debug)]
pub struct Draft {
    /// Values that need no further processing.
    pub(super) job: Job,
    pub(super) randseed: Option<u64>,
    pub(super) randrepeat: bool,
    pub(super) allrandrepeat: bool,
    /// `prioclass`, in the numbers of the kernel.
    pub(super) prio_class: Option<u8>,
    pub(super) prio_level: Option<u8>,
    pub(super) fill_device: bool,
    /// By direction, smallest and largest block size.
    pub(super) bsrange: [Option<(u64, u64)>; 3],
    /// By direction, sizes with percentages; empty if not set.
    pub(super) bssplit: [Vec<(u64, u8)>; 3],
}

/// Options that contradict each other.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Conflict {
    /// fio does not combine the two limits.
    #[error("cannot be combined with rate")]
    RateAndRateIops,
    /// The region does not hold one block.
    #[error("{} is less than the block size, {}", format_size(*.size), format_size(*.block))]
    SizeBelowBlock {
        /// Bytes of the region.
        size: u64,
        /// Bytes of a block.
        block: u64,
    },
    /// A zone option without `zonemode=zbd`.
    #[error("needs zonemode=zbd")]
    NeedsZbd,
    /// A file option without a file system.
    #[error("needs filesystem, such as filesystem=xfs: other jobs use a device, not files")]
    NeedsFileSystem,
    /// Two options that exclude each other.
    #[error("cannot be combined with {with}")]
    Combined {
        /// The option at fault.
        option: &'static str,
        /// The other one.
        with: &'static str,
    },
    /// An option that has no meaning without another one.
    #[error("needs {other}")]
    Needs {
        /// The option at fault.
        option: &'static str,
        /// What it needs.
        other: &'static str,
    },
    /// `verify_interval` does not divide the block size.
    #[error("{interval} does not divide the block size, {}", format_size(*.block))]
    BadInterval {
        /// Bytes of an interval.
        interval: u32,
        /// Bytes of a block.
        block: u64,
    },
    /// The verify header does not fit at its offset.
    #[error(
        "the header of verify={method} does not fit at offset {at} of {}: it must not overlap its \
         place at the start or exceed the end",
        format_size(*.len)
    )]
    NoRoomForHeader {
        /// The verification method.
        method: &'static str,
        /// Offset of the header.
        at: u32,
        /// Bytes of a block or interval.
        len: u64,
    },
    /// An engine that does no I/O to storage.
    #[error("{engine} does no block I/O: it {what}")]
    NoStorage {
        /// The engine.
        engine: &'static str,
        /// What it does.
        what: &'static str,
    },
    /// fio has no such engine.
    #[error(
        "expected one of {}, found {found:?}{}",
        ENGINES.replace(' ', ", "),
        zonal_blk::meant(.found, ENGINES.split(' '))
    )]
    UnknownEngine {
        /// The engine.
        found: String,
    },
    /// Offsets can only be aligned to powers of two.
    #[error("expected a power of two, found {0}")]
    NotPowerOfTwo(u64),
}

impl Conflict {
    /// The option at fault.
    pub fn option(&self, job: &Job) -> &'static str {
        match self {
            Conflict::RateAndRateIops => "rate_iops",
            Conflict::SizeBelowBlock { .. } => "size",
            Conflict::NeedsZbd => zone_option(job).unwrap_or("zonemode"),
            Conflict::NeedsFileSystem => job.fs.needs_kind().unwrap_or("filesystem"),
            Conflict::Combined { option, .. } | Conflict::Needs { option, .. } => option,
            Conflict::BadInterval { .. } => "verify_interval",
            Conflict::NoRoomForHeader { at: 0, .. } => "verify",
            Conflict::NoRoomForHeader { .. } => "verify_offset",
            Conflict::NoStorage { .. } | Conflict::UnknownEngine { .. } => "ioengine",
            Conflict::NotPowerOfTwo(_) => "replay_align",
        }
    }
}

impl Default for Draft {
    fn default() -> Self {
        let unset = 0;
        let job = Job { iodepth_low: unset, iodepth_batch_complete_max: unset, ..Job::default() };
        Draft {
            job,
            randseed: None,
            randrepeat: true,
            allrandrepeat: false,
            prio_class: None,
            prio_level: None,
            fill_device: false,
            bsrange: [None; 3],
            bssplit: Default::default(),
        }
    }
}

impl Draft {
    /// The base of size suffixes.
    pub(super) fn kb_base(&self) -> u32 {
        self.job.kb_base
    }

    /// Begins a section: names the job and forgets the options of the section before.
    pub fn begin_section(&mut self, name: &str) {
        self.job.name = name.to_owned();
        self.job.own_options.clear();
    }

    /// Records an option of the job's own section.
    pub fn note_own_option(&mut self, name: &str, value: &str) {
        note(&mut self.job.own_options, name, value);
    }

    /// Whether `time_based` has no effect, as in fio: there is no time to run for.
    pub fn lacks_runtime(&self) -> bool {
        self.job.time_based && self.job.runtime.is_none()
    }

    /// Checks the job and returns it. `random_seed` is called only if the job wants a new seed for
    /// each run.
    ///
    /// # Errors
    /// The conflict, with the job as far as it is known.
    pub fn finish(self, random_seed: impl FnOnce() -> u64) -> Result<Job, (Conflict, Box<Job>)> {
        let mut job = self.job;
        job.randseed = match self.randseed {
            Some(seed) => seed,
            None if self.randrepeat || self.allrandrepeat => FIXED_SEED,
            None => random_seed(),
        };
        if self.prio_class.is_some() || self.prio_level.is_some() {
            // As in fio, the one that is not set is 0.
            let (class, level) = (self.prio_class.unwrap_or(0), self.prio_level.unwrap_or(0));
            job.prio = Prio::from_ioprio(class, level).expect("the table limits the class to 3");
            job.logs.ioprio = ioprio(class, level);
        }
        for dir in 0..3 {
            let split = &self.bssplit[dir];
            if let Some(largest) = split.iter().map(|(size, _)| *size).max() {
                job.bs[dir] = largest;
                job.address.sizes[dir] = BlockSizes::Split(split.clone());
            } else if let Some((min, max)) = self.bsrange[dir] {
                job.bs[dir] = max;
                let sizes = if min < max { BlockSizes::Range { min } } else { BlockSizes::Fixed };
                job.address.sizes[dir] = sizes;
            }
        }
        if job.address.seq_rand {
            let kind = if job.random { DataDir::Write } else { DataDir::Read } as usize;
            job.bs = [job.bs[kind]; 3];
            job.address.sizes = std::array::from_fn(|_| job.address.sizes[kind].clone());
        }
        job.time_based &= job.runtime.is_some();
        if self.fill_device {
            (job.size, job.io_size) = (None, None);
        }
        fill_depths(&mut job);
        if job.pattern.program.is_some() {
            (job.rw, job.random) = (Rw::Mixed, true);
        }
        match check(&job) {
            Ok(()) => Ok(job),
            Err(conflict) => Err((conflict, Box::new(job))),
        }
    }
}

/// Appends an option, or replaces its value if it is there already.
pub(crate) fn note(options: &mut Vec<(String, String)>, name: &str, value: &str) {
    match options.iter_mut().find(|(known, _)| known == name) {
        Some((_, known_value)) => value.clone_into(known_value),
        None => options.push((name.to_owned(), value.to_owned())),
    }
}

/// Sets the directions that have a value.
pub(super) fn assign<T, const N: usize>(target: &mut [T; N], values: [Option<T>; N]) {
    for (target, value) in target.iter_mut().zip(values) {
        if let Some(value) = value {
            *target = value;
        }
    }
}

/// fio's rules for depths that are not set or too large.
fn fill_depths(job: &mut Job) {
    let at_most_iodepth = |depth: u32| {
        if depth == 0 { job.iodepth } else { depth.min(job.iodepth) }
    };
    job.iodepth_batch = at_most_iodepth(job.iodepth_batch);
    job.iodepth_low = at_most_iodepth(job.iodepth_low);
    // Waiting for more completions than can be in flight would never end.
    job.iodepth_batch_complete_min = job.iodepth_batch_complete_min.min(job.iodepth);
    // fio's default is one at a time, as each costs it a call anyway. Here one call returns all
    // completions.
    job.iodepth_batch_complete_max =
        at_most_iodepth(job.iodepth_batch_complete_max).max(job.iodepth_batch_complete_min);
}

/// The engines of fio 3.41 whose jobs read and write storage, separated by blanks.
const ENGINES: &str = "psync sync vsync pvsync pvsync2 io_uring io_uring_cmd libaio posixaio \
    solarisaio windowsaio mmap splice sg libzbc null xnvme libblkio nbd libiscsi rbd rados http \
    gfapi gfapi_async libhdfs mtd libpmem pmemblk dev-dax ime_psync ime_psyncv ime_aio libcufile \
    dfs nfs guasi cpp_null external";

/// Engines of fio whose jobs do no I/O that a block device would see, and what they do.
const NO_STORAGE: [(&str, &str); 18] = [
    ("cpuio", "burns CPU time"),
    ("exec", "runs a program"),
    ("net", "sends data over a network"),
    ("netsplice", "sends data over a network"),
    ("rdma", "sends data over a network"),
    ("librpma_apm_client", "sends data over a network"),
    ("librpma_apm_server", "sends data over a network"),
    ("librpma_gpspm_client", "sends data over a network"),
    ("librpma_gpspm_server", "sends data over a network"),
    ("filecreate", "creates files"),
    ("filestat", "reads the attributes of files"),
    ("filedelete", "removes files"),
    ("dircreate", "creates directories"),
    ("dirstat", "reads the attributes of directories"),
    ("dirdelete", "removes directories"),
    ("falloc", "allocates space of files"),
    ("ftruncate", "changes the sizes of files"),
    ("e4defrag", "moves the blocks of files"),
];

fn check(job: &Job) -> Result<(), Conflict> {
    if job.rate != [0; 3] && job.rate_iops != [0; 3] {
        return Err(Conflict::RateAndRateIops);
    }
    let rated = [job.rate, job.rate_iops] != [[0; 3]; 2];
    if job.rate_process == RateProcess::Poisson && !rated {
        return Err(Conflict::Needs { option: "rate_process", other: "rate or rate_iops" });
    }
    check_engine(&job.ioengine)?;
    check_think(job)?;
    check_limits(job)?;
    check_trace(job)?;
    check_verify(job)?;
    check_data(job)?;
    if job.zonemode != ZoneMode::Zbd && zone_option(job).is_some() {
        return Err(Conflict::NeedsZbd);
    }
    check_address(job)?;
    check_files(job)?;
    if job.fs.kind.is_none() && job.fs.needs_kind().is_some() {
        return Err(Conflict::NeedsFileSystem);
    }
    let block = min_block_size(job);
    match job.size {
        Some(Extent::Bytes(size)) if size < block => Err(Conflict::SizeBelowBlock { size, block }),
        _ => Ok(()),
    }
}

/// An engine is one of fio's, or `external:FILE` or the path of a file.
fn check_engine(found: &str) -> Result<(), Conflict> {
    if let Some(&(engine, what)) = NO_STORAGE.iter().find(|(name, _)| *name == found) {
        return Err(Conflict::NoStorage { engine, what });
    }
    let name = found.split(':').next().unwrap_or(found);
    if found.contains('/') || ENGINES.split(' ').any(|known| known == name) {
        return Ok(());
    }
    Err(Conflict::UnknownEngine { found: found.to_owned() })
}

/// Conflicts of pauses, and of what only jobs on a device do.
fn check_think(job: &Job) -> Result<(), Conflict> {
    let on_device = [
        ("ramp_size", job.limits.ramp_size > 0),
        ("serialize_overlap", job.serialize_overlap),
        ("flow", job.flow > 0),
    ];
    if let Some((option, _)) = on_device.into_iter().find(|(_, given)| *given)
        && job.fs.kind.is_some()
    {
        return Err(Conflict::Combined { option, with: "filesystem" });
    }
    if job.think.cycles > 0 && job.think.cycles_per_usec == 0 {
        let other = "cycles_per_usec, such as 3000 for 3 GHz: virtual time has no cycles";
        return Err(Conflict::Needs { option: "thinkcycles", other });
    }
    Ok(())
}

/// Conflicts of several files on a device.
fn check_files(job: &Job) -> Result<(), Conflict> {
    if job.fs.kind.is_some() {
        let random = job.fs.service == FileService::Random;
        let conflict = Conflict::Combined { option: "file_service_type", with: "filesystem" };
        return if random { Err(conflict) } else { Ok(()) };
    }
    if job.fs.nrfiles.is_none_or(|files| files == 1) {
        return Ok(());
    }
    let is_bytes = |extent| matches!(extent, None | Some(Extent::Bytes(_)));
    let others = [
        ("zonemode", job.zonemode != ZoneMode::None),
        ("read_iolog", job.replay.read_iolog.is_some()),
        ("pattern_file", job.pattern.file.is_some()),
        ("pattern", job.pattern.program.is_some()),
        ("a size in % or zones", !is_bytes(job.size)),
    ];
    if let Some((with, _)) = others.into_iter().find(|(_, given)| *given) {
        return Err(Conflict::Combined { option: "nrfiles", with });
    }
    let sized = job.fs.filesize.is_some() || job.size.is_some();
    if sized {
        Ok(())
    } else {
        Err(Conflict::Needs { option: "nrfiles", other: "filesize or size" })
    }
}

/// Conflicts of options for lengths and offsets.
fn check_address(job: &Job) -> Result<(), Conflict> {
    let (address, strided) = (&job.address, job.zonemode == ZoneMode::Strided);
    if strided && job.zonesize.is_none() {
        return Err(Conflict::Needs { option: "zonemode", other: "zonesize" });
    }
    if !strided && address.zoneskip != 0 {
        return Err(Conflict::Needs { option: "zoneskip", other: "zonemode=strided" });
    }
    let unset = AddressOptions::default();
    let is_mixed = address.percentage_random != unset.percentage_random || job.rw_modifier != 0;
    if address.seq_rand && job.random && is_mixed {
        let with = "percentage_random or I/Os per random offset: a random job has one block size";
        return Err(Conflict::Combined { option: "bs_is_seq_rand", with });
    }
    let trimwrite = job.rw == Rw::TrimWrite;
    let options = [
        ("rw", trimwrite),
        ("zonemode", strided),
        ("percentage_random", address.percentage_random != unset.percentage_random),
        ("rw_sequencer", address.identical),
        ("blockalign", address.align != unset.align),
        ("random_distribution", address.distribution != unset.distribution),
        ("bssplit", address.sizes.iter().any(|sizes| matches!(sizes, BlockSizes::Split(_)))),
        ("bsrange", address.sizes.iter().any(|sizes| matches!(sizes, BlockSizes::Range { .. }))),
    ];
    let first = |options: &[(&'static str, bool)]| {
        options.iter().find_map(|&(option, given)| given.then_some(option))
    };
    let source = [
        ("filesystem", job.fs.kind.is_some()),
        ("read_iolog", job.replay.read_iolog.is_some()),
        ("pattern_file", job.pattern.file.is_some()),
        ("pattern", job.pattern.program.is_some()),
    ];
    if let Some((option, with)) = first(&options).zip(first(&source)) {
        return Err(Conflict::Combined { option, with });
    }
    let zbd = job.zonemode == ZoneMode::Zbd;
    match first(&options[..5]).filter(|_| zbd) {
        Some(option) => Err(Conflict::Combined { option, with: "zonemode=zbd" }),
        None => Ok(()),
    }
}

/// Conflicts of traces and patterns.
fn check_trace(job: &Job) -> Result<(), Conflict> {
    let (replay, pattern) = (&job.replay, &job.pattern);
    let sources = [
        ("read_iolog", replay.read_iolog.is_some()),
        ("pattern_file", pattern.file.is_some()),
        ("pattern", pattern.program.is_some()),
    ];
    let mut given = sources.into_iter().filter_map(|(name, given)| given.then_some(name));
    if let Some(with) = given.next() {
        let others = [
            ("zonemode", job.zonemode == ZoneMode::Zbd),
            ("rate_iops", job.rate_iops != [0; 3]),
            ("offset_increment", job.offset_increment != Extent::Bytes(0)),
        ];
        let other = others.into_iter().find_map(|(name, given)| given.then_some(name));
        if let Some(option) = given.next().or(other) {
            return Err(Conflict::Combined { option, with });
        }
    }
    let [raidtest, randomio] =
        [PatternProgram::Raidtest, PatternProgram::Randomio].map(|it| pattern.program == Some(it));
    let needs = [
        ("replay_devices", replay.devices.is_some(), replay.read_iolog.is_some(), "read_iolog"),
        ("pattern_requests", pattern.requests.is_some(), raidtest, "pattern=raidtest"),
        ("pattern_max_size", pattern.max_size.is_some(), raidtest, "pattern=raidtest"),
        ("pattern_fsyncs", pattern.fsyncs.is_some(), randomio, "pattern=randomio"),
        ("pattern_align", pattern.align.is_some(), pattern.program.is_some(), "pattern"),
        ("pattern_writes", pattern.writes.is_some(), pattern.program.is_some(), "pattern"),
    ];
    for (option, given, has_it, other) in needs {
        if given && !has_it {
            return Err(Conflict::Needs { option, other });
        }
    }
    if replay.align != 0 && !replay.align.is_power_of_two() {
        return Err(Conflict::NotPowerOfTwo(replay.align));
    }
    Ok(())
}

/// Why limits do not apply to file systems.
const IN_MEMORY: &str =
    "filesystem: its jobs write to memory, at rates and latencies that are not the device's";
/// Why priorities of single I/Os do not.
const WRITTEN_BACK: &str = "filesystem: data in memory is written back later, for all jobs alike";
/// Why they are not verified by a job.
const VERIFIES: &str = "filesystem: it verifies what is read of files, if the device keeps data";
/// Why flushes do not.
const COMMITS: &str = "filesystem: it flushes when it commits (fs_commit)";
/// Why errors cannot be passed over.
const SHUTS_DOWN: &str = "filesystem: it shuts down at the first error";

/// Conflicts of limits, of steady states and of priorities.
fn check_limits(job: &Job) -> Result<(), Conflict> {
    let unset = LimitOptions::default();
    let LimitOptions { rate_min, rate_iops_min, max_latency, latency, steady, .. } = &job.limits;
    let (has_steady, has_target) = (steady.criterion.is_some(), latency.target != Nanos(0));
    let options = [
        ("rate_min", *rate_min != [0; 3], IN_MEMORY),
        ("rate_iops_min", *rate_iops_min != [0; 3], IN_MEMORY),
        ("max_latency", *max_latency != [Nanos(0); 3], IN_MEMORY),
        ("latency_target", has_target, IN_MEMORY),
        ("steadystate", has_steady, IN_MEMORY),
        ("cmdprio_percentage", job.cmdprio.percentage != [0; 2], WRITTEN_BACK),
        ("cmdprio_bssplit", job.cmdprio.is_used(), WRITTEN_BACK),
    ];
    if let Some((option, _, with)) = options.into_iter().find(|(_, given, _)| *given)
        && job.fs.kind.is_some()
    {
        return Err(Conflict::Combined { option, with });
    }
    let logs = &job.logs;
    if logs.issue_time && (logs.lat.is_none() || !logs.offset) {
        let other = "write_lat_log and log_offset";
        return Err(Conflict::Needs { option: "log_issue_time", other });
    }
    let prios = &job.cmdprio;
    if prios.percentage != [0; 2] && prios.shares.iter().any(|shares| !shares.is_empty()) {
        let (option, with) = ("cmdprio_percentage", "cmdprio_bssplit");
        return Err(Conflict::Combined { option, with });
    }
    let too_short = has_steady && steady.duration < steady.interval;
    let window = "a steadystate_duration of at least steadystate_check_interval";
    let needs = [
        ("steadystate", too_short || steady.interval == Nanos(0) && has_steady, window),
        ("steadystate_duration", !has_steady && steady.duration != Nanos(0), "steadystate"),
        ("latency_window", !has_target && latency.window != Nanos(0), "latency_target"),
        ("latency_percentile", !has_target && latency.percentile < 100.0, "latency_target"),
        ("latency_run", !has_target && *latency != unset.latency, "latency_target"),
    ];
    match needs.into_iter().find(|(_, lacking, _)| *lacking) {
        Some((option, _, other)) => Err(Conflict::Needs { option, other }),
        None => Ok(()),
    }
}

/// Conflicts of details of verification.
fn check_verify(job: &Job) -> Result<(), Conflict> {
    let verify = &job.verify;
    let (is_verified, reads) = (verify.method.is_some(), job.rw == Rw::Read);
    let wanted = [
        ("verify_write_sequence", verify.write_sequence),
        ("verify_header_seed", verify.header_seed),
    ];
    let is_wanted = |(_, wanted): &(_, Option<bool>)| *wanted == Some(true);
    if let Some((option, _)) = wanted.into_iter().find(is_wanted).filter(|_| is_verified && reads) {
        let with = "rw=read: what was written is not known";
        return Err(Conflict::Combined { option, with });
    }
    if verify.trim.percentage == 0 {
        return Ok(());
    }
    let option = "trim_percentage";
    if !is_verified || !verify.do_verify || verify.trim.backlog == 0 {
        let other = "verify and trim_backlog: trimmed is what is to be verified";
        return Err(Conflict::Needs { option, other });
    }
    let zbd = job.zonemode == ZoneMode::Zbd;
    let conflicts = [("zonemode=zbd", zbd), ("verify_only", verify.only)];
    match conflicts.into_iter().find(|(_, given)| *given) {
        Some((with, _)) => Err(Conflict::Combined { option, with }),
        None => Ok(()),
    }
}

/// Conflicts of verification, flushes and error handling.
fn check_data(job: &Job) -> Result<(), Conflict> {
    let (verify, sync, errors) = (&job.verify, &job.sync, &job.errors);
    let with_fs = [
        ("verify", verify.method.is_some(), VERIFIES),
        ("fsync", sync.fsync > 0, COMMITS),
        ("fdatasync", sync.fdatasync > 0, COMMITS),
        ("end_fsync", sync.end_fsync, COMMITS),
        ("fsync_on_close", sync.on_close, COMMITS),
        ("sync", sync.sync, COMMITS),
        ("write_barrier", sync.barrier > 0, COMMITS),
        ("continue_on_error", errors.continue_on_error != [false; 3], SHUTS_DOWN),
        ("ignore_error", errors.ignored.iter().any(|list| !list.is_empty()), SHUTS_DOWN),
    ];
    if let Some((option, _, with)) = with_fs.into_iter().find(|(_, given, _)| *given)
        && job.fs.kind.is_some()
    {
        return Err(Conflict::Combined { option, with });
    }
    let Some(method) = verify.method else {
        let needs = Conflict::Needs { option: "verify_only", other: "verify" };
        return if verify.only { Err(needs) } else { Ok(()) };
    };
    if method == VerifyMethod::Pattern && verify.pattern.is_none() {
        return Err(Conflict::Needs { option: "verify", other: "verify_pattern" });
    }
    let random_zbd = job.random && job.zonemode == ZoneMode::Zbd;
    let is_trace = job.replay.read_iolog.is_some() || job.pattern.file.is_some();
    let conflicts = [
        ("verify_only", verify.only && job.time_based, "time_based"),
        ("verify_only", verify.only && random_zbd, "random writes and zonemode=zbd"),
        ("verify_interval", verify.interval.is_some() && is_trace, "a trace"),
        ("verify_interval", verify.interval.is_some() && job.pattern.program.is_some(), "pattern"),
        ("verify_offset", verify.offset > 0 && is_trace, "a trace"),
    ];
    if let Some((option, _, with)) = conflicts.into_iter().find(|(_, given, _)| *given) {
        return Err(Conflict::Combined { option, with });
    }
    let block = match job.rw {
        Rw::Trim => return Ok(()),
        Rw::Read => job.min_bs(DataDir::Read),
        Rw::Write | Rw::Mixed | Rw::TrimWrite => job.min_bs(DataDir::Write),
    };
    let interval = verify.interval.map_or(block, u64::from);
    if let Some(interval) = verify.interval
        && !block.is_multiple_of(interval.into())
    {
        return Err(Conflict::BadInterval { interval, block });
    }
    if !header_fits(method, verify.offset.into(), interval) {
        let (method, at) = (method.name(), verify.offset);
        return Err(Conflict::NoRoomForHeader { method, at, len: interval });
    }
    Ok(())
}

/// The first option that needs `zonemode=zbd`.
fn zone_option(job: &Job) -> Option<&'static str> {
    let zones = |extent| matches!(extent, Some(Extent::Zones(_)));
    [
        ("zonesize", job.zonesize.is_some() && job.zonemode == ZoneMode::None),
        ("zone_append", job.zone_append),
        ("read_beyond_wp", job.zbd.read_beyond_wp),
        ("ignore_zone_limits", job.zbd.ignore_limits),
        ("zone_reset_threshold", job.zbd.reset_threshold != Fraction::default()),
        ("zone_reset_frequency", job.zbd.reset_frequency != Fraction::default()),
        ("size", zones(job.size)),
        ("io_size", zones(job.io_size)),
        ("offset", zones(Some(job.offset))),
        ("offset_increment", zones(Some(job.offset_increment))),
    ]
    .into_iter()
    .find_map(|(name, given)| given.then_some(name))
}

/// The smallest block size of the directions that the job uses.
fn min_block_size(job: &Job) -> u64 {
    let used = DataDir::ALL.into_iter().filter(|&dir| job.uses(dir));
    used.map(|dir| job.min_bs(dir)).min().expect("a direction")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{FioOption, find};

    fn draft(options: &[(&str, &str)]) -> Draft {
        let mut draft = Draft::default();
        for (name, value) in options {
            let Some(FioOption::Supported(spec)) = find(name) else { panic!("{name}") };
            spec.kind.apply(Some(value), &mut draft).expect(name);
        }
        draft
    }

    fn job(options: &[(&str, &str)]) -> Job {
        draft(options).finish(|| 7).expect("no conflict")
    }

    fn conflict(options: &[(&str, &str)]) -> String {
        let (conflict, job) = draft(options).finish(|| 7).expect_err("a conflict");
        format!("{}: {conflict}", conflict.option(&job))
    }

    #[test]
    fn no_options_make_the_default_job() {
        assert_eq!(job(&[]), Job::default());
    }

    #[test]
    fn batches_are_at_most_the_depth() {
        let job = job(&[
            ("iodepth", "16"),
            ("iodepth_batch", "32"),
            ("iodepth_low", "64"),
            ("iodepth_batch_complete_min", "99"),
        ]);
        assert_eq!((job.iodepth_batch, job.iodepth_low), (16, 16));
        assert_eq!((job.iodepth_batch_complete_min, job.iodepth_batch_complete_max), (16, 16));
    }

    #[test]
    fn depths_that_are_zero_or_not_set_follow_iodepth() {
        let job =
            job(&[("iodepth", "16"), ("iodepth_batch", "0"), ("iodepth_batch_complete", "0")]);
        assert_eq!((job.iodepth_batch, job.iodepth_low), (16, 16));
        assert_eq!((job.iodepth_batch_complete_min, job.iodepth_batch_complete_max), (0, 16));
    }

    #[test]
    fn of_rwmixread_and_rwmixwrite_the_last_counts() {
        assert_eq!(job(&[("rwmixread", "30"), ("rwmixwrite", "80")]).rwmixread, 20);
        assert_eq!(job(&[("rwmixwrite", "80"), ("rwmixread", "30")]).rwmixread, 30);
    }

    #[test]
    fn block_sizes_may_be_those_of_sequential_and_random_io() {
        let sizes = [("bs", "4k,64k"), ("bs_is_seq_rand", "1")];
        let of = |rw| job(&[&sizes[..], &[("rw", rw)]].concat());
        assert_eq!((of("write").bs, of("randread").bs), ([4096; 3], [65536; 3]));
        let split = [("bssplit", "4k,1k/50:2k/50"), ("bs_is_seq_rand", "1"), ("rw", "randread")];
        assert_eq!(job(&split).min_bs(DataDir::Read), 1024);
        let mixed = [("bs_is_seq_rand", "1"), ("rw", "randread"), ("percentage_random", "50")];
        assert!(conflict(&mixed).starts_with("bs_is_seq_rand: cannot be combined with perc"));
    }

    #[test]
    fn a_new_seed_is_drawn_only_with_randrepeat_0() {
        assert_eq!(job(&[]).randseed, FIXED_SEED);
        assert_eq!(job(&[("randrepeat", "0")]).randseed, 7);
        assert_eq!(job(&[("randrepeat", "0"), ("allrandrepeat", "1")]).randseed, FIXED_SEED);
        assert_eq!(job(&[("randrepeat", "0"), ("randseed", "5")]).randseed, 5);
    }

    #[test]
    fn conflicts_name_the_option_at_fault() {
        assert_eq!(
            conflict(&[("rate", "1m"), ("rate_iops", "100")]),
            "rate_iops: cannot be combined with rate"
        );
        assert_eq!(conflict(&[("size", "512")]), "size: 512 is less than the block size, 4k");
        assert_eq!(conflict(&[("zonesize", "1m")]), "zonesize: needs zonemode=zbd");
        assert_eq!(conflict(&[("offset", "2z")]), "offset: needs zonemode=zbd");
        assert_eq!(conflict(&[("nrfiles", "2")]), "nrfiles: needs filesize or size");
        assert!(conflict(&[("fs_memory", "1m")]).starts_with("fs_memory: needs filesystem"));
    }

    #[test]
    fn conflicts_of_limits_name_the_option_at_fault() {
        for (options, told) in [
            (&[("rate_process", "poisson")][..], "rate_process: needs rate or rate_iops"),
            (&[("latency_window", "1s")], "latency_window: needs latency_target"),
            (&[("latency_run", "1")], "latency_run: needs latency_target"),
            (&[("ss_dur", "5")], "steadystate_duration: needs steadystate"),
            (
                &[("max_latency", "5"), ("filesystem", "xfs")],
                "max_latency: cannot be combined with filesystem: its jobs write to memory, at \
                 rates and latencies that are not the device's",
            ),
            (&[("read_beyond_wp", "1")], "read_beyond_wp: needs zonemode=zbd"),
            (
                &[("verify", "md5"), ("verify_header_seed", "1")],
                "verify_header_seed: cannot be combined with rw=read: what was written is not known",
            ),
        ] {
            assert_eq!(conflict(options), told);
        }
    }

    #[test]
    fn conflicts_of_verification_name_the_option_at_fault() {
        let crc = ("verify", "crc32c");
        assert_eq!(conflict(&[("verify_only", "1")]), "verify_only: needs verify");
        assert_eq!(conflict(&[("verify", "pattern")]), "verify: needs verify_pattern");
        assert_eq!(
            conflict(&[crc, ("verify_only", "1"), ("time_based", "1"), ("runtime", "1")]),
            "verify_only: cannot be combined with time_based"
        );
        assert_eq!(
            conflict(&[crc, ("filesystem", "xfs")]),
            "verify: cannot be combined with filesystem: it verifies what is read of files, if the \
             device keeps data"
        );
        assert_eq!(
            conflict(&[crc, ("verify_interval", "1000")]),
            "verify_interval: 1000 does not divide the block size, 4k"
        );
        for at in ["42", "4090"] {
            let text = conflict(&[crc, ("verify_offset", at)]);
            assert!(text.starts_with("verify_offset: the header of verify=crc32c does"), "{text}");
        }
        let small = conflict(&[("verify", "sha256"), ("bs", "64"), ("rw", "write")]);
        assert!(small.starts_with("verify: the header of verify=sha256"), "{small}");
    }

    #[test]
    fn only_blocks_of_used_directions_must_fit() {
        assert_eq!(job(&[("size", "4k"), ("bs", "4k,64k")]).bs, [4096, 65536, 65536]);
        assert!(conflict(&[("rw", "write"), ("size", "4k"), ("bs", "4k,64k")]).contains("64k"));
    }
}
