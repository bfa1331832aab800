//! One validated job: what a section of a job file asks for, after defaults, with every value
//! checked. Field names are fio's option names (fio 3.33, HOWTO).
use crate::file_system::FsOptions;
use crate::trace::{PatternOptions, RecordOptions, ReplayOptions};
use crate::verify::{ErrorOptions, SyncOptions, VerifyOptions};
use zonal_blk::Nanos;
use zonal_blk::sched::Prio;

/// The seed of a job that names none: fio's default, so that a job file runs the same each time.
pub const FIXED_SEED: u64 = 0x89;

/// What a job's I/Os do (`rw=`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rw {
    /// Reads only.
    Read,
    /// Writes only.
    Write,
    /// Trims only; in `zonemode=zbd` a trim resets a zone.
    Trim,
    /// Reads and writes mixed by `rwmixread`.
    Mixed,
}

/// A direction, and an index into per-direction arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum DataDir {
    /// Read.
    Read = 0,
    /// Write.
    Write = 1,
    /// Trim.
    Trim = 2,
}

/// A length or position that may depend on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// So many bytes.
    Bytes(u64),
    /// So many percent of the device's (or region's) size, 0 to 100.
    Percent(u8),
    /// So many zones of the device (fio's `z` suffix).
    Zones(u64),
}

/// How the job treats zones (`zonemode=`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ZoneMode {
    /// Zones are ignored: offsets are as on a regular disk.
    #[default]
    None,
    /// Zoned block device: writes go to write pointers, full zones are reset before they are
    /// written again, reads stay below write pointers.
    Zbd,
}

/// How the CPUs of `cpus_allowed` are given out to the clones of a job (`cpus_allowed_policy=`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CpusPolicy {
    /// Each clone may run on all of them.
    #[default]
    Shared,
    /// Each clone gets one, in turn.
    Split,
}

/// One job. `numjobs` clones of it run.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Section name (`name=`).
    pub name: String,
    /// `description=`.
    pub description: String,
    /// Kind of I/O.
    pub rw: Rw,
    /// Whether offsets are random.
    pub random: bool,
    /// `rw=...:N`: for random I/O, a new random offset every N I/Os, sequential between; for
    /// sequential I/O, this many bytes are added to the offset after each I/O.
    pub rw_modifier: i64,
    /// Block size in bytes by [`DataDir`].
    pub bs: [u64; 3],
    /// Percent of a mixed job that are reads.
    pub rwmixread: u8,
    /// I/Os in flight.
    pub iodepth: u32,
    /// I/Os submitted at a time (`iodepth_batch`, `iodepth_batch_submit`), at least 1.
    pub iodepth_batch: u32,
    /// Completions waited for at a time, at least 0.
    pub iodepth_batch_complete_min: u32,
    /// Completions taken at a time at the most.
    pub iodepth_batch_complete_max: u32,
    /// Depth to drain to before filling up again; equals `iodepth` by default.
    pub iodepth_low: u32,
    /// Number of clones.
    pub numjobs: u32,
    /// Region size; the rest of the device if not given.
    pub size: Option<Extent>,
    /// Amount of I/O to do; `size` if not given.
    pub io_size: Option<Extent>,
    /// Start of the region.
    pub offset: Extent,
    /// Added to `offset` for each further clone.
    pub offset_increment: Extent,
    /// Time limit.
    pub runtime: Option<Nanos>,
    /// Goes on for `runtime` even if all I/O is done.
    pub time_based: bool,
    /// Time before measurements begin.
    pub ramp_time: Nanos,
    /// Time before the job begins.
    pub startdelay: Nanos,
    /// Stop after so many I/Os.
    pub number_ios: Option<u64>,
    /// Times the whole amount of I/O is done.
    pub loops: u64,
    /// Zone handling.
    pub zonemode: ZoneMode,
    /// Write-target zones at once over all jobs; 0 for the device's limit.
    pub max_open_zones: u32,
    /// Write-target zones at once of this job; 0 for no limit.
    pub job_max_open_zones: u32,
    /// Zone size in bytes: checked against a zoned device's.
    pub zonesize: Option<u64>,
    /// Bytes of a zone that are used in `zonemode=none` (fio: strided).
    pub zonerange: Option<u64>,
    /// One summary for all clones and jobs of the group.
    pub group_reporting: bool,
    /// Starts a new reporting group.
    pub new_group: bool,
    /// Waits for all jobs before it in the file.
    pub stonewall: bool,
    /// Seed of the random numbers; clones derive theirs.
    pub randseed: u64,
    /// Random offsets may repeat before all blocks were visited.
    pub norandommap: bool,
    /// Pause after each `thinktime_blocks` I/Os.
    pub thinktime: Nanos,
    /// I/Os between pauses.
    pub thinktime_blocks: u32,
    /// Bytes per second by [`DataDir`]; 0 for no limit.
    pub rate: [u64; 3],
    /// I/Os per second by [`DataDir`]; 0 for no limit.
    pub rate_iops: [u64; 3],
    /// The priority of the job's I/O (`prioclass=`, `prio=`).
    pub prio: Prio,
    /// The share of the device that the scheduler bfq gives each clone (`weight=`, Zonal's own);
    /// `None` for what the priority gives.
    pub weight: Option<u16>,
    /// The I/O scheduler of the job's device (`ioscheduler=`).
    pub ioscheduler: Option<String>,
    /// Attributes of that scheduler, `name=value` between commas (`sched_opt=`, Zonal's own).
    pub sched_opt: Option<String>,
    /// A trace instead of I/O of the job's own (`read_iolog`, `replay_*`).
    pub replay: ReplayOptions,
    /// Another program's requests instead (`pattern`, `pattern_*`, Zonal's own).
    pub pattern: PatternOptions,
    /// The trace to make of the run (`write_iolog`).
    pub record: RecordOptions,
    /// How what is written is checked (`verify`, `verify_*`).
    pub verify: VerifyOptions,
    /// When it is made durable (`fsync`, `sync`, ...).
    pub sync: SyncOptions,
    /// Which errors the job survives (`continue_on_error`, `ignore_error`).
    pub errors: ErrorOptions,
    /// CPUs that the job may run on; empty for all.
    pub cpus_allowed: Vec<usize>,
    /// How they are given out.
    pub cpus_allowed_policy: CpusPolicy,
    /// `ioengine=`, kept for the report: all engines are Zonal's own.
    pub ioengine: String,
    /// Device spec for this job, if it names one (`filename=`).
    pub filename: Option<String>,
    /// `direct=`: I/O of a file system goes past its cache. Without one kept for the report: there
    /// is no page cache.
    pub direct: bool,
    /// The file system and its files.
    pub fs: FsOptions,
    /// `thread=`, kept for the report: clones are always threads.
    pub thread: bool,
    /// Unit prefixes for reports (`kb_base=`): 1024 or 1000.
    pub kb_base: u32,
    /// Reports count bytes (8), bits (1) or what fits best (0) (`unit_base=`).
    pub unit_base: u32,
    /// The options that the job's own section gives, in fio's names and in their order, with the
    /// values as written. Options of `[global]` are in
    /// [`JobSet::global_options`](crate::jobfile::JobSet::global_options).
    pub given: Vec<(String, String)>,
}

impl Default for Job {
    /// fio's defaults: sequential reads of 4 KiB, one at a time, over the whole device.
    fn default() -> Self {
        Job {
            name: String::new(),
            description: String::new(),
            rw: Rw::Read,
            random: false,
            rw_modifier: 0,
            bs: [4096; 3],
            rwmixread: 50,
            iodepth: 1,
            iodepth_batch: 1,
            iodepth_batch_complete_min: 1,
            iodepth_batch_complete_max: 1,
            iodepth_low: 1,
            numjobs: 1,
            size: None,
            io_size: None,
            offset: Extent::Bytes(0),
            offset_increment: Extent::Bytes(0),
            runtime: None,
            time_based: false,
            ramp_time: Nanos(0),
            startdelay: Nanos(0),
            number_ios: None,
            loops: 1,
            zonemode: ZoneMode::None,
            max_open_zones: 0,
            job_max_open_zones: 0,
            zonesize: None,
            zonerange: None,
            group_reporting: false,
            new_group: false,
            stonewall: false,
            randseed: FIXED_SEED,
            norandommap: false,
            thinktime: Nanos(0),
            thinktime_blocks: 1,
            rate: [0; 3],
            rate_iops: [0; 3],
            prio: Prio::default(),
            weight: None,
            ioscheduler: None,
            sched_opt: None,
            replay: ReplayOptions::default(),
            pattern: PatternOptions::default(),
            record: RecordOptions::default(),
            verify: VerifyOptions::default(),
            sync: SyncOptions::default(),
            errors: ErrorOptions::default(),
            cpus_allowed: Vec::new(),
            cpus_allowed_policy: CpusPolicy::Shared,
            ioengine: "psync".to_owned(),
            filename: None,
            direct: false,
            fs: FsOptions::default(),
            thread: false,
            kb_base: 1024,
            unit_base: 0,
            given: Vec::new(),
        }
    }
}
