//! A validated job: a section of a job file with defaults filled in and every value checked. Field
//! names are fio's option names (fio 3.41, HOWTO).
mod address;
mod contents;
mod data;
mod file_system;
mod left_out;
mod limits;
mod logs;
mod priority;
mod report;
mod streams;
mod think;
mod trace;

pub use address::{AddressOptions, BlockSizes, Distribution};
pub use contents::ContentOptions;
pub use data::{
    Checksum, ErrorKind, ErrorOptions, FillPattern, ParsePatternError, SyncOptions, TrimOptions,
    VerifyMethod, VerifyOptions,
};
pub use file_system::{FileService, FsKind, FsOptions};
pub use left_out::LeftOut;
pub use limits::{
    ExitWhat, GivenDepths, LatencyOptions, LimitOptions, OrderOptions, SteadyCriterion,
    SteadyOptions,
};
pub use logs::{LogKind, LogOptions, WindowValue};
pub(crate) use logs::{ioprio, is_realtime};
pub use priority::{CommandPrioOptions, PrioShare};
pub use report::{PERCENTILES, ReportOptions, UnifiedReporting};
#[cfg(test)]
pub(crate) use streams::tests::layout as placement_layout;
pub use streams::{SchemeRange, StreamError, StreamOptions, StreamSelect, parse_scheme};
pub use think::ThinkOptions;
pub use trace::{
    BlkparseAction, Fraction, ParseFractionError, PatternOptions, PatternProgram, RecordFormat,
    RecordOptions, ReplayOptions,
};

use zonal_blk::{Nanos, Prio};

/// The default seed, as in fio: a job file runs the same each time.
pub const FIXED_SEED: u64 = 0x89;

/// The directions of a job's I/O (`rw=`).
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
    /// Blocks are trimmed, then written.
    TrimWrite,
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
    /// Bytes.
    Bytes(u64),
    /// Percentage of the size of the device or region, 0 to 100.
    Percent(u8),
    /// Zones of the device (fio's `z` suffix).
    Zones(u64),
}

/// Zone handling (`zonemode=`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ZoneMode {
    /// Zones are ignored.
    #[default]
    None,
    /// I/O goes to parts of the region, one after another (`zonesize`, `zonerange`, `zoneskip`).
    Strided,
    /// Zoned block device: writes go to write pointers, full zones are reset before they are
    /// written again, reads stay below write pointers.
    Zbd,
}

/// The options of `zonemode=zbd`, besides writing at write pointers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZbdOptions {
    /// `read_beyond_wp=`: reads go anywhere in a zone.
    pub read_beyond_wp: bool,
    /// `zone_reset_threshold=`: the part of the region that has to hold data before zones are reset
    /// that are not full.
    pub reset_threshold: Fraction,
    /// `zone_reset_frequency=`: such resets per write; 0 for none.
    pub reset_frequency: Fraction,
    /// `ignore_zone_limits=`: `max_open_zones` alone limits the zones being written.
    pub ignore_limits: bool,
    /// `write_zone_remainder=`: the room of a zone that is less than a block is written, not finished.
    pub write_remainder: bool,
    /// `recover_zbd_write_error=`: after a failed write the write pointer is that of the device.
    pub recover_errors: bool,
    /// `zonecapacity=`: the capacity that each zone must have, in bytes.
    pub capacity: Option<u64>,
    /// `zone_finish=` (Zonal's own): each zone is finished after its first write.
    pub finish: bool,
}

/// When the I/Os of a rate are submitted (`rate_process=`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RateProcess {
    /// Evenly spaced.
    #[default]
    Linear,
    /// The times between them are exponentially distributed, with the same mean.
    Poisson,
}

/// How the CPUs of `cpus_allowed` are assigned to clones (`cpus_allowed_policy=`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CpusPolicy {
    /// Each clone may run on all of them.
    #[default]
    Shared,
    /// Each clone runs on one of them, in turn.
    Split,
}

/// One job. `numjobs` clones of it run.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Section name (`name=`).
    pub name: String,
    /// `description=`.
    pub description: String,
    /// Directions (`rw=`).
    pub rw: Rw,
    /// Whether offsets are random.
    pub random: bool,
    /// `rw=...:N`: for random I/O, a new random offset every N I/Os, sequential between; for
    /// sequential I/O, this many bytes are added to the offset after each I/O.
    pub rw_modifier: i64,
    /// Block size in bytes by [`DataDir`]; the largest if there are several.
    pub bs: [u64; 3],
    /// Lengths, offsets and data placement (`bssplit`, `random_distribution`, ...).
    pub address: AddressOptions,
    /// Percentage of reads in a mixed job.
    pub rwmixread: u8,
    /// I/Os in flight.
    pub iodepth: u32,
    /// I/Os submitted at a time (`iodepth_batch`, `iodepth_batch_submit`), at least 1.
    pub iodepth_batch: u32,
    /// Completions to wait for at a time; 0 polls.
    pub iodepth_batch_complete_min: u32,
    /// Most completions to reap at a time; 0 if the job does not say, see [`Job::most_completions`].
    pub iodepth_batch_complete_max: u32,
    /// Depth to drain to before refilling; `iodepth` by default.
    pub iodepth_low: u32,
    /// An I/O waits for those in flight that it overlaps (`serialize_overlap=`).
    pub serialize_overlap: bool,
    /// Number of clones.
    pub numjobs: u32,
    /// Region size; the rest of the device if not set.
    pub size: Option<Extent>,
    /// Amount of I/O to do; `size` if not set.
    pub io_size: Option<Extent>,
    /// Start of the region.
    pub offset: Extent,
    /// Added to `offset` for each clone after the first.
    pub offset_increment: Extent,
    /// Time limit.
    pub runtime: Option<Nanos>,
    /// Runs for `runtime` even if all I/O is done.
    pub time_based: bool,
    /// Time before measurements start.
    pub ramp_time: Nanos,
    /// Time before the job starts.
    pub startdelay: Nanos,
    /// Stop after this many I/Os.
    pub number_ios: Option<u64>,
    /// Repetitions of the whole amount of I/O.
    pub loops: u64,
    /// Zone handling.
    pub zonemode: ZoneMode,
    /// Limit of zones being written by all jobs; 0 for the device's limit.
    pub max_open_zones: u32,
    /// Limit of zones being written by one clone; 0 for no limit.
    pub job_max_open_zones: u32,
    /// Reads beyond write pointers and resets of zones that are not full.
    pub zbd: ZbdOptions,
    /// Sequential zones are written by zone appends.
    pub zone_append: bool,
    /// Weight of each clone among those of its flow (`flow=`); 0 for no flow.
    pub flow: u32,
    /// The flow that the job belongs to, with `flow`.
    pub flow_id: u32,
    /// Zone size in bytes with `zonemode=zbd`, which must be the device's; bytes to transfer in each
    /// zone with `zonemode=strided`.
    pub zonesize: Option<u64>,
    /// One report for all clones and jobs of the group.
    pub group_reporting: bool,
    /// Starts a new reporting group.
    pub new_group: bool,
    /// Waits for all jobs before it in the file.
    pub stonewall: bool,
    /// Other jobs, rates and latencies that decide when it begins and ends.
    pub limits: LimitOptions,
    /// Seed of the random numbers; clones derive theirs.
    pub randseed: u64,
    /// Random offsets may repeat before all blocks have been visited.
    pub norandommap: bool,
    /// Pauses between I/Os (`thinktime`, ...).
    pub think: ThinkOptions,
    /// Bytes per second by [`DataDir`]; 0 for no limit.
    pub rate: [u64; 3],
    /// I/Os per second by [`DataDir`]; 0 for no limit.
    pub rate_iops: [u64; 3],
    /// When the I/Os of a rate are submitted.
    pub rate_process: RateProcess,
    /// The priority of the job's I/O (`prioclass=`, `prio=`).
    pub prio: Prio,
    /// Priorities of single I/Os (`cmdprio_*`).
    pub cmdprio: CommandPrioOptions,
    /// Weight of each clone with the scheduler bfq (`weight=`, Zonal's own); `None` derives it from
    /// the priority.
    pub weight: Option<u16>,
    /// The I/O scheduler of the job's device (`ioscheduler=`).
    pub ioscheduler: Option<String>,
    /// Attributes of that scheduler, comma-separated `name=value` (`sched_opt=`, Zonal's own).
    pub sched_opt: Option<String>,
    /// The trace to replay (`read_iolog`, `replay_*`).
    pub replay: ReplayOptions,
    /// The benchmark's pattern to replay (`pattern`, `pattern_*`, Zonal's own).
    pub pattern: PatternOptions,
    /// The trace to record (`write_iolog`).
    pub record: RecordOptions,
    /// Logs (`write_bw_log`, `log_avg_msec`, ...).
    pub logs: LogOptions,
    /// The contents of the report (`percentile_list`, `unified_rw_reporting`, ...).
    pub report: ReportOptions,
    /// Verification (`verify`, `verify_*`).
    pub verify: VerifyOptions,
    /// The contents of writes that are not verified.
    pub contents: ContentOptions,
    /// Durability (`fsync`, `sync`, ...).
    pub sync: SyncOptions,
    /// Non-fatal errors (`continue_on_error`, `ignore_error`).
    pub errors: ErrorOptions,
    /// CPUs that the job may run on; empty for all.
    pub cpus_allowed: Vec<usize>,
    /// How they are assigned to clones.
    pub cpus_allowed_policy: CpusPolicy,
    /// `ioengine=`, only reported: all engines are Zonal's own.
    pub ioengine: String,
    /// Device spec of this job (`filename=`).
    pub filename: Option<String>,
    /// `direct=`: I/O bypasses the cache of the file system. Only reported without one, as there is
    /// no page cache.
    pub direct: bool,
    /// The file system and its files.
    pub fs: FsOptions,
    /// Unit prefixes for reports (`kb_base=`): 1024 or 1000.
    pub kb_base: u32,
    /// Whether reports count bytes (8), bits (1) or either (0) (`unit_base=`).
    pub unit_base: u32,
    /// The options of the job's own section, by fio's names and in order, with the values as
    /// written. Options of `[global]` are in `JobSet::global_options`.
    pub own_options: Vec<(String, String)>,
}

impl Job {
    /// Whether a job that verifies does so after each pass even if it runs for a time. As in fio, a job
    /// with a depth of 1 does not notice that it has done its amount, unless its zones end: its pass is over where
    /// the next block does not fit in the region.
    pub fn verifies_each_pass(&self) -> bool {
        self.verify.method.is_some() && (self.iodepth > 1 || self.zonemode == ZoneMode::Zbd)
    }

    /// Whether it reads a device with zones as if that had none: as in fio, a job that only reads with
    /// `read_beyond_wp`.
    pub fn reads_anywhere(&self) -> bool {
        self.zonemode == ZoneMode::Zbd && self.zbd.read_beyond_wp && self.rw == Rw::Read
    }

    /// Whether `blockalign`, if it is given, is the smallest block size: as in fio of all directions, those
    /// that the job does not use included. Else there is no random map.
    pub fn is_aligned_to_blocks(&self) -> bool {
        let is_block = |dir: DataDir| {
            self.address.align[dir as usize].is_none_or(|align| align == self.min_bs(dir))
        };
        DataDir::ALL.into_iter().all(is_block)
    }

    /// Whether what the job does next depends on which of its I/Os have completed: it verifies what it writes, or
    /// pauses.
    pub fn goes_by_completions(&self) -> bool {
        let verifies = self.uses(DataDir::Write) && self.verify.method.is_some();
        verifies || self.think.time > Nanos(0)
    }

    /// Most completions to reap at a time. fio's default is one, as each costs it a call anyway. Here one call
    /// returns all completions, but where the job does something else after each, or its zones do.
    pub fn most_completions(&self, zones_go_by_completions: bool) -> u32 {
        match self.iodepth_batch_complete_max {
            0 if self.goes_by_completions() || zones_go_by_completions => {
                self.iodepth_batch_complete_min.max(1)
            }
            0 => self.iodepth,
            most => most,
        }
    }

    /// Whether the job remembers which random blocks of a pass it has visited (with `random_generator=lfsr` the
    /// order of the blocks says that).
    pub fn has_random_map(&self) -> bool {
        let may_have = self.is_uniform() && self.is_aligned_to_blocks();
        self.random && !self.norandommap && may_have
    }

    /// The smallest block size of a direction in bytes.
    pub fn min_bs(&self, dir: DataDir) -> u64 {
        self.address.sizes[dir as usize].min(self.bs[dir as usize])
    }

    /// Whether the job uses a direction.
    pub fn uses(&self, dir: DataDir) -> bool {
        match self.rw {
            Rw::Read => dir == DataDir::Read,
            Rw::Write => dir == DataDir::Write,
            Rw::Trim => dir == DataDir::Trim,
            Rw::Mixed => dir != DataDir::Trim,
            Rw::TrimWrite => dir != DataDir::Read,
        }
    }

    /// Whether the job chooses no block more often than another one. As in fio, any other distribution implies
    /// `norandommap`.
    pub fn is_uniform(&self) -> bool {
        let mut used = DataDir::ALL.into_iter().filter(|&dir| self.uses(dir));
        used.all(|dir| self.address.distribution[dir as usize] == Distribution::Uniform)
    }
}

impl DataDir {
    /// All directions, in the order of arrays.
    pub const ALL: [DataDir; 3] = [DataDir::Read, DataDir::Write, DataDir::Trim];

    /// `read`, `write` or `trim`.
    pub fn name(self) -> &'static str {
        match self {
            DataDir::Read => "read",
            DataDir::Write => "write",
            DataDir::Trim => "trim",
        }
    }
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
            address: AddressOptions::default(),
            rwmixread: 50,
            iodepth: 1,
            iodepth_batch: 1,
            iodepth_batch_complete_min: 1,
            iodepth_batch_complete_max: 0,
            iodepth_low: 1,
            serialize_overlap: false,
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
            zbd: ZbdOptions::default(),
            zone_append: false,
            flow: 0,
            flow_id: 0,
            zonesize: None,
            group_reporting: false,
            new_group: false,
            stonewall: false,
            limits: LimitOptions::default(),
            randseed: FIXED_SEED,
            norandommap: false,
            think: ThinkOptions::default(),
            rate: [0; 3],
            rate_iops: [0; 3],
            rate_process: RateProcess::Linear,
            prio: Prio::default(),
            cmdprio: CommandPrioOptions::default(),
            weight: None,
            ioscheduler: None,
            sched_opt: None,
            replay: ReplayOptions::default(),
            pattern: PatternOptions::default(),
            record: RecordOptions::default(),
            logs: LogOptions::default(),
            report: ReportOptions::default(),
            verify: VerifyOptions::default(),
            contents: ContentOptions::default(),
            sync: SyncOptions::default(),
            errors: ErrorOptions::default(),
            cpus_allowed: Vec::new(),
            cpus_allowed_policy: CpusPolicy::Shared,
            ioengine: "psync".to_owned(),
            filename: None,
            direct: false,
            fs: FsOptions::default(),
            kb_base: 1024,
            unit_base: 0,
            own_options: Vec::new(),
        }
    }
}
