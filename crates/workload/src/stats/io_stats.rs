//! All statistics of one job (one clone), or of a group of them merged.
//!
//! Takes: completions, submissions and errors from the runner as they happen, and the time where it
//! matters. Gives: what the report prints. Keeps true: latencies are of successful I/Os only; what
//! happened before [`IoStats::reset`] is forgotten; time is what the caller says it is.
//!
//! I/Os often come in runs of one size and latency, from a null device or in virtual time. Such a
//! run is held back and entered at once with its count when a different I/O ends it.
use super::depth::{BatchSizes, DepthLevels};
use super::errors::Errors;
use super::histogram::{Histogram, bucket_of};
use super::lat_stat::LatStat;
use super::latency_bands::LatencyBands;
use super::samples::Samples;
use crate::job::DataDir;
use std::mem;
use zonal_blk::{Nanos, Status};

/// Time between bandwidth and IOPS samples (fio's `bwavgtime` and `iopsavgtime` defaults).
pub const SAMPLE_PERIOD: Nanos = Nanos(500_000_000);
/// A sample may come so much early: real timers are not exact, and one taken a moment too soon
/// should not be lost.
const SAMPLE_TOLERANCE: Nanos = Nanos(10_000_000);

/// What the operating system says a job used. All zero in virtual time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time in user mode.
    pub user: Nanos,
    /// CPU time in the kernel.
    pub system: Nanos,
    /// Context switches, voluntary or not.
    pub context_switches: u64,
    /// Page faults that needed I/O.
    pub major_faults: u64,
    /// Page faults that did not.
    pub minor_faults: u64,
}

/// Counts so far, for a progress line, by [`DataDir`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Live {
    /// Successful I/Os.
    pub ios: [u64; 3],
    /// Bytes moved by them.
    pub bytes: [u64; 3],
}

/// I/Os alike in everything, not yet entered.
#[derive(Clone, Copy, Debug)]
struct Run {
    dir: DataDir,
    bytes: u64,
    slat: Nanos,
    clat: Nanos,
    count: u64,
}

impl Run {
    const EMPTY: Self = Self {
        dir: DataDir::Read,
        bytes: 0,
        slat: Nanos(0),
        clat: Nanos(0),
        count: 0,
    };
}

/// Statistics of one direction.
#[derive(Clone, Debug, Default)]
struct DirStats {
    bytes: u64,
    slat: LatStat,
    clat: LatStat,
    lat: LatStat,
    clat_histogram: Histogram,
    bandwidth: Samples,
    iops: Samples,
    runtime: Nanos,
}

impl DirStats {
    /// Successful I/Os: each has a latency.
    fn ios(&self) -> u64 {
        self.clat.count()
    }

    fn merge(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.slat.merge(&other.slat);
        self.clat.merge(&other.clat);
        self.lat.merge(&other.lat);
        self.clat_histogram.merge(&other.clat_histogram);
        self.bandwidth.merge(&other.bandwidth);
        self.iops.merge(&other.iops);
        self.runtime = self.runtime.max(other.runtime);
    }
}

/// The statistics of a job. Figures read from it are complete after [`IoStats::finish`], or in
/// another `IoStats` that it was [merged](IoStats::merge) into.
#[derive(Clone, Debug)]
pub struct IoStats {
    run: Run,
    dirs: [DirStats; 3],
    bands: LatencyBands,
    depths: DepthLevels,
    submit: BatchSizes,
    complete: BatchSizes,
    errors: Errors,
    zone_resets: u64,
    usage: Usage,
    started: Option<Nanos>,
    elapsed: Nanos,
    sampled: Nanos,
    at_sample: Live,
}

impl Default for IoStats {
    fn default() -> Self {
        Self::new()
    }
}

impl IoStats {
    /// Statistics of a job that did nothing yet. Allocates the histograms.
    pub fn new() -> Self {
        Self {
            run: Run::EMPTY,
            dirs: Default::default(),
            bands: LatencyBands::default(),
            depths: DepthLevels::default(),
            submit: BatchSizes::default(),
            complete: BatchSizes::default(),
            errors: Errors::default(),
            zone_resets: 0,
            usage: Usage::default(),
            started: None,
            elapsed: Nanos(0),
            sampled: Nanos(0),
            at_sample: Live::default(),
        }
    }

    /// Enters `count` I/Os of `dir`, `bytes` each, submitted together and completed together:
    /// `slat` is the time to submit them, `clat` from there to their completion.
    #[inline]
    pub fn record(&mut self, dir: DataDir, bytes: u64, slat: Nanos, clat: Nanos, count: u64) {
        let run = &mut self.run;
        if run.clat == clat && run.slat == slat && run.bytes == bytes && run.dir == dir {
            run.count += count;
        } else {
            self.enter_run();
            self.run = Run {
                dir,
                bytes,
                slat,
                clat,
                count,
            };
        }
    }

    /// Moves the run that was held back into the sums, and leaves none of it.
    #[inline]
    fn enter_run(&mut self) {
        let Run {
            dir,
            bytes,
            slat,
            clat,
            ref mut count,
        } = self.run;
        // Only the count is cleared: writing and copying the whole run cost 1 ns more.
        let count = mem::take(count);
        if count == 0 {
            return;
        }
        let stats = &mut self.dirs[dir as usize];
        let bucket = bucket_of(clat.0);
        stats.bytes += bytes * count;
        stats.slat.record(slat.0, count);
        stats.clat.record(clat.0, count);
        stats.lat.record(slat.0 + clat.0, count);
        stats.clat_histogram.add(bucket, count);
        self.bands.add(bucket, clat.0, count);
    }

    /// Counts one failed I/O. It is in no other statistic.
    pub fn error(&mut self, dir: DataDir, status: Status) {
        self.errors.add(dir, status);
    }

    /// Counts `count` zone resets done on the way to writing (`zonemode=zbd`), not as trims.
    pub fn zone_resets(&mut self, count: u64) {
        self.zone_resets += count;
    }

    /// Counts a submission of `count` I/Os, with `depth` in flight after it.
    #[inline]
    pub fn submitted(&mut self, count: u32, depth: u32) {
        self.submit.add(count);
        self.depths.add(count, depth);
    }

    /// Counts `count` completions that were reaped together.
    #[inline]
    pub fn completed(&mut self, count: u32) {
        self.complete.add(count);
    }

    /// Takes a bandwidth and an IOPS sample of each direction that moved since the last one. Calls
    /// that come sooner than [`SAMPLE_PERIOD`] after the last sample do nothing, so it may be
    /// called at any time.
    pub fn sample(&mut self, now: Nanos) {
        let spent = Nanos(now.0.saturating_sub(self.sampled.0));
        if self.started.is_none() || spent + SAMPLE_TOLERANCE < SAMPLE_PERIOD {
            return;
        }
        let live = self.live();
        for (dir, stats) in self.dirs.iter_mut().enumerate() {
            let ios = live.ios[dir] - self.at_sample.ios[dir];
            if ios > 0 {
                let bytes = live.bytes[dir] - self.at_sample.bytes[dir];
                stats.bandwidth.add(per_second(bytes, spent) / 1024);
                stats.iops.add(per_second(ios, spent));
            }
        }
        self.sampled = now;
        self.at_sample = live;
    }

    /// Forgets everything so far: the job's `ramp_time` ends at `now`.
    pub fn reset(&mut self, now: Nanos) {
        *self = Self::new();
        self.start(now);
    }

    /// The job begins its I/O at `now`.
    pub fn start(&mut self, now: Nanos) {
        self.started = Some(now);
        self.sampled = now;
    }

    /// The job's I/O has ended at `now`.
    pub fn finish(&mut self, now: Nanos) {
        self.enter_run();
        let Some(started) = self.started.take() else {
            return;
        };
        let ran = now - started;
        self.elapsed += ran;
        for stats in self.dirs.iter_mut().filter(|stats| stats.ios() > 0) {
            stats.runtime += ran;
        }
    }

    /// Adds the statistics of a job that ran beside this one (`group_reporting`): counts and CPU
    /// times are added, the runtime of a direction is the longest.
    pub fn merge(&mut self, other: &Self) {
        let Run {
            dir,
            bytes,
            slat,
            clat,
            count,
        } = other.run;
        self.record(dir, bytes, slat, clat, count);
        self.enter_run();
        for (mine, theirs) in self.dirs.iter_mut().zip(&other.dirs) {
            mine.merge(theirs);
        }
        self.bands.merge(&other.bands);
        self.depths.merge(&other.depths);
        self.submit.merge(&other.submit);
        self.complete.merge(&other.complete);
        self.errors.merge(&other.errors);
        self.zone_resets += other.zone_resets;
        self.elapsed += other.elapsed;
        self.usage.user += other.usage.user;
        self.usage.system += other.usage.system;
        self.usage.context_switches += other.usage.context_switches;
        self.usage.major_faults += other.usage.major_faults;
        self.usage.minor_faults += other.usage.minor_faults;
    }

    /// Sets what the operating system counted for this job.
    pub fn set_usage(&mut self, usage: Usage) {
        self.usage = usage;
    }

    /// Counts so far. Cheap, and complete at any time.
    pub fn live(&self) -> Live {
        let mut live = Live {
            ios: [0, 1, 2].map(|dir: usize| self.dirs[dir].ios()),
            bytes: [0, 1, 2].map(|dir: usize| self.dirs[dir].bytes),
        };
        live.ios[self.run.dir as usize] += self.run.count;
        live.bytes[self.run.dir as usize] += self.run.bytes * self.run.count;
        live
    }

    fn of(&self, dir: DataDir) -> &DirStats {
        &self.dirs[dir as usize]
    }

    /// Successful I/Os of `dir`.
    pub fn ios(&self, dir: DataDir) -> u64 {
        self.of(dir).ios()
    }

    /// Bytes moved by `dir`.
    pub fn bytes(&self, dir: DataDir) -> u64 {
        self.of(dir).bytes
    }

    /// Time from start to finish if the job did I/O of `dir`; of merged jobs the longest.
    pub fn runtime(&self, dir: DataDir) -> Nanos {
        self.of(dir).runtime
    }

    /// Bytes per second of `dir` over its runtime, rounded down.
    pub fn bytes_per_second(&self, dir: DataDir) -> u64 {
        per_second(self.bytes(dir), self.runtime(dir))
    }

    /// I/Os per second of `dir` over its runtime.
    pub fn ios_per_second(&self, dir: DataDir) -> f64 {
        let runtime = self.runtime(dir).0;
        if runtime == 0 {
            0.0
        } else {
            self.ios(dir) as f64 * 1e9 / runtime as f64
        }
    }

    /// Submission latencies of `dir`.
    pub fn slat(&self, dir: DataDir) -> &LatStat {
        &self.of(dir).slat
    }

    /// Completion latencies of `dir`: from submission to completion.
    pub fn clat(&self, dir: DataDir) -> &LatStat {
        &self.of(dir).clat
    }

    /// Total latencies of `dir`.
    pub fn lat(&self, dir: DataDir) -> &LatStat {
        &self.of(dir).lat
    }

    /// Histogram of the completion latencies of `dir`.
    pub fn clat_histogram(&self, dir: DataDir) -> &Histogram {
        &self.of(dir).clat_histogram
    }

    /// Sampled bandwidth of `dir` in KiB/s.
    pub fn bandwidth_samples(&self, dir: DataDir) -> &Samples {
        &self.of(dir).bandwidth
    }

    /// Sampled I/Os per second of `dir`.
    pub fn iops_samples(&self, dir: DataDir) -> &Samples {
        &self.of(dir).iops
    }

    /// Completion latencies of all directions in fio's coarse bands.
    pub fn latency_bands(&self) -> &LatencyBands {
        &self.bands
    }

    /// Depths at which I/Os were submitted.
    pub fn depth_levels(&self) -> &DepthLevels {
        &self.depths
    }

    /// Sizes of submitted batches.
    pub fn submit_sizes(&self) -> &BatchSizes {
        &self.submit
    }

    /// Sizes of reaped batches.
    pub fn complete_sizes(&self) -> &BatchSizes {
        &self.complete
    }

    /// Failed I/Os.
    pub fn errors(&self) -> &Errors {
        &self.errors
    }

    /// Zones reset on the way to writing.
    pub fn zone_reset_count(&self) -> u64 {
        self.zone_resets
    }

    /// Time from start to finish, summed over merged jobs.
    pub fn elapsed(&self) -> Nanos {
        self.elapsed
    }

    /// What the operating system counted.
    pub fn usage(&self) -> Usage {
        self.usage
    }
}

/// `amount` in `time` as a rate per second, rounded down; 0 in no time.
pub(crate) fn per_second(amount: u64, time: Nanos) -> u64 {
    let rate = u128::from(amount) * 1_000_000_000 / u128::from(time.0.max(1));
    if time.0 == 0 {
        0
    } else {
        u64::try_from(rate).unwrap_or(u64::MAX)
    }
}
