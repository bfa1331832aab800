//! The statistics of one clone of a job, or of a group of clones merged.
//!
//! Latencies are of successful I/Os only. I/Os often come in [runs](super::runs) of equal size and
//! latency, which are recorded together.
use super::counts::{BatchSizes, DepthLevels, Errors};
use super::halves::{Half, Halves};
use super::histogram::{Histogram, LatencyBands, bucket_of};
use super::moments::{LatStat, Samples};
use super::runs::{PendingRuns, Run};
use super::steady_state::SteadyState;
use crate::job::{DataDir, Job, LeftOut};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use zonal_blk::{Nanos, Status};

/// Default time between bandwidth and IOPS samples (`bwavgtime`, `iopsavgtime`).
pub const SAMPLE_PERIOD: Nanos = Nanos(500_000_000);
/// A sample may be this much early, but no more than a tenth of its period: real timers are not exact.
const SAMPLE_TOLERANCE: Nanos = Nanos(10_000_000);

/// Resource usage of a job as counted by the operating system. All zero in virtual time.
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

/// I/Os and bytes so far, by [`DataDir`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoCounts {
    /// Successful I/Os.
    pub ios: [u64; 3],
    /// Bytes moved by them.
    pub bytes: [u64; 3],
}

/// Statistics of one direction.
#[derive(Clone, Debug, Default)]
struct DirStats {
    bytes: u64,
    /// Latencies that do not count.
    early: LatStat,
    slat: LatStat,
    clat: LatStat,
    lat: LatStat,
    clat_histogram: Histogram,
    /// Of submission and total latencies, if they are wanted.
    others: Option<Box<OtherHistograms>>,
    bandwidth: Samples,
    iops: Samples,
    runtime: Nanos,
}

/// Histograms that few jobs want.
#[derive(Clone, Debug, Default)]
struct OtherHistograms {
    slat: Histogram,
    lat: Histogram,
}

impl DirStats {
    /// Successful I/Os.
    fn ios(&self) -> u64 {
        self.clat.count() + self.early.count()
    }

    fn merge(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.early.merge(&other.early);
        self.slat.merge(&other.slat);
        self.clat.merge(&other.clat);
        self.lat.merge(&other.lat);
        self.clat_histogram.merge(&other.clat_histogram);
        if let Some(theirs) = &other.others {
            let mine = self.others.get_or_insert_default();
            mine.slat.merge(&theirs.slat);
            mine.lat.merge(&theirs.lat);
        }
        self.bandwidth.merge(&other.bandwidth);
        self.iops.merge(&other.iops);
        self.runtime = self.runtime.max(other.runtime);
    }
}

/// Flushes that a job waited for (`fsync`, `fdatasync`).
#[derive(Clone, Debug, Default)]
pub struct SyncStats {
    /// How long they took.
    pub lat: LatStat,
    /// Their histogram.
    pub histogram: Histogram,
}

/// Completion latencies of the I/Os of one priority.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrioStats {
    /// In nanoseconds.
    pub clat: LatStat,
    /// Their histogram.
    pub histogram: Histogram,
}

/// The statistics of a job, complete after [`IoStats::finish`] or in another `IoStats` that they were
/// [merged](IoStats::merge) into.
#[derive(Clone, Debug)]
pub struct IoStats {
    runs: PendingRuns,
    dirs: [DirStats; 3],
    /// Samples of the bandwidth and of the I/Os of all directions together.
    all: [Samples; 2],
    bands: LatencyBands,
    depths: DepthLevels,
    submit: BatchSizes,
    complete: BatchSizes,
    errors: Errors,
    zone_resets: u64,
    /// `None` without flushes, as in most jobs.
    sync: Option<Box<SyncStats>>,
    /// By direction and priority as in ioprio_set(2); empty unless I/Os have priorities of their own.
    prios: BTreeMap<(DataDir, u16), PrioStats>,
    usage: Usage,
    /// The depth that `latency_target` has found.
    latency_depth: Option<u32>,
    steady: Option<Box<SteadyState>>,
    /// When the job first started.
    begun: Option<Nanos>,
    started: Option<Nanos>,
    /// I/Os before the phase that began at `started`.
    ios_before_phase: [u64; 3],
    elapsed: Nanos,
    /// Latencies of I/Os that were submitted earlier do not count (`ramp_submitted`).
    latencies_from: Nanos,
    /// With `ramp_submitted` and a runtime.
    halves: Option<Box<Halves>>,
    /// For bandwidth and for IOPS.
    samplings: [Sampling; 2],
    /// The measurements that are not shown.
    left_out: LeftOut,
    /// `ramp_submitted`.
    by_submission: bool,
}

/// Shown in place of what is left out.
static NOTHING: LazyLock<DirStats> = LazyLock::new(DirStats::default);
static NO_BANDS: LazyLock<LatencyBands> = LazyLock::new(LatencyBands::default);

/// When samples are taken.
#[derive(Clone, Copy, Debug)]
struct Sampling {
    period: Nanos,
    /// Time of the last sample, and the counts at that time.
    at: Nanos,
    counts: IoCounts,
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling { period: SAMPLE_PERIOD, at: Nanos(0), counts: IoCounts::default() }
    }
}

impl Default for IoStats {
    fn default() -> Self {
        Self::new()
    }
}

impl IoStats {
    /// Empty statistics.
    pub fn new() -> Self {
        Self {
            runs: PendingRuns::new(),
            dirs: Default::default(),
            all: Default::default(),
            bands: LatencyBands::default(),
            depths: DepthLevels::default(),
            submit: BatchSizes::default(),
            complete: BatchSizes::default(),
            errors: Errors::default(),
            zone_resets: 0,
            sync: None,
            prios: BTreeMap::new(),
            usage: Usage::default(),
            latency_depth: None,
            steady: None,
            begun: None,
            started: None,
            ios_before_phase: [0; 3],
            elapsed: Nanos(0),
            latencies_from: Nanos(0),
            halves: None,
            samplings: Default::default(),
            left_out: LeftOut::default(),
            by_submission: false,
        }
    }

    /// Empty statistics that keep what a job's report shows.
    pub fn of_job(job: &Job) -> Self {
        let mut stats = Self::new();
        stats.left_out = job.report.left_out;
        stats.set_periods([job.report.bandwidth_period, job.report.iops_period]);
        if job.report.slat_percentiles || job.report.lat_percentiles {
            stats.keep_all_histograms();
        }
        stats.by_submission = job.limits.ramp_submitted;
        let runtime = job.runtime.filter(|_| stats.by_submission);
        stats.halves = runtime.map(|runtime| Box::new(Halves::of(runtime)));
        stats
    }

    /// Keeps histograms of submission and total latencies, too (`slat_percentiles`, `lat_percentiles`).
    fn keep_all_histograms(&mut self) {
        self.dirs.iter_mut().for_each(|dir| dir.others = Some(Box::default()));
    }

    /// Records `count` I/Os of `dir`, `bytes` each, submitted together and completed together: `slat`
    /// is the time to submit them, `clat` the time from there to their completion.
    #[inline]
    pub fn record(&mut self, dir: DataDir, bytes: u64, slat: Nanos, clat: Nanos, count: u64) {
        if let Some(run) = self.runs.add(Run { dir, bytes, slat, clat, count }) {
            self.record_run(run);
        }
    }

    /// Whether the latency of an I/O that was submitted at this time does not count.
    #[inline]
    pub fn is_early(&self, submitted: Nanos) -> bool {
        submitted < self.latencies_from
    }

    /// Records an I/O whose latency does not count.
    #[cold]
    pub fn record_early(&mut self, dir: DataDir, bytes: u64, clat: Nanos) {
        let stats = &mut self.dirs[dir as usize];
        stats.bytes += bytes;
        stats.early.record(clat.0, 1);
    }

    /// Records the I/Os of a run.
    #[inline(never)]
    fn record_run(&mut self, run: Run) {
        let Run { dir, bytes, slat, clat, count } = run;
        let stats = &mut self.dirs[dir as usize];
        let bucket = bucket_of(clat.0);
        stats.bytes += bytes * count;
        stats.slat.record(slat.0, count);
        stats.clat.record(clat.0, count);
        stats.lat.record(slat.0 + clat.0, count);
        stats.clat_histogram.add(bucket, count);
        if let Some(others) = &mut stats.others {
            others.slat.add(bucket_of(slat.0), count);
            others.lat.add(bucket_of(slat.0 + clat.0), count);
        }
        self.bands.add(bucket, clat.0, count);
    }

    /// Records the pending runs.
    fn record_runs(&mut self) {
        for run in self.runs.take().iter() {
            self.record_run(run);
        }
    }

    /// Counts a failed I/O, which is in no other statistic.
    pub fn error(&mut self, dir: DataDir, status: Status) {
        self.errors.add(dir, status);
    }

    /// Counts zone resets of `zonemode=zbd` that precede writes, not trims.
    pub fn zone_resets(&mut self, count: u64) {
        self.zone_resets += count;
    }

    /// Counts a flush that took `lat`.
    pub fn synced(&mut self, lat: Nanos) {
        let sync = self.sync.get_or_insert_default();
        sync.lat.record(lat.0, 1);
        sync.histogram.add(bucket_of(lat.0), 1);
    }

    /// Records the latency of an I/O under its priority, as in ioprio_set(2).
    pub fn record_prio(&mut self, dir: DataDir, ioprio: u16, clat: Nanos) {
        let prio = self.prios.entry((dir, ioprio)).or_default();
        prio.clat.record(clat.0, 1);
        prio.histogram.add(bucket_of(clat.0), 1);
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

    /// Takes samples of the bandwidth and of the IOPS of each direction with I/O since the last one, if
    /// their times have come; it may be called at any time.
    pub fn sample(&mut self, now: Nanos) {
        for kind in 0..2 {
            let Sampling { period, at, counts: before } = self.samplings[kind];
            let spent = Nanos(now.0.saturating_sub(at.0));
            let tolerance = SAMPLE_TOLERANCE.min(Nanos(period.0 / 10));
            if self.started.is_some() && spent + tolerance >= period {
                self.take_sample(kind, before, spent);
                self.samplings[kind].at = now;
            }
        }
    }

    /// Takes a sample of the bandwidth (0) or of the IOPS (1) since the counts were these.
    fn take_sample(&mut self, kind: usize, before: IoCounts, spent: Nanos) {
        let counts = self.counts();
        let rate = |bytes: u64, ios: u64| match kind {
            0 => per_second(bytes, spent) / 1024,
            _ => per_second(ios, spent),
        };
        let sum = |all: [u64; 3]| all.iter().sum::<u64>();
        let ios = sum(counts.ios) - sum(before.ios);
        if ios > 0 {
            self.all[kind].add(rate(sum(counts.bytes) - sum(before.bytes), ios));
        }
        for (dir, stats) in self.dirs.iter_mut().enumerate() {
            let ios = counts.ios[dir] - before.ios[dir];
            if ios > 0 {
                let samples = if kind == 0 { &mut stats.bandwidth } else { &mut stats.iops };
                samples.add(rate(counts.bytes[dir] - before.bytes[dir], ios));
            }
        }
        self.samplings[kind].counts = counts;
    }

    fn set_periods(&mut self, periods: [Nanos; 2]) {
        for (sampling, period) in self.samplings.iter_mut().zip(periods) {
            sampling.period = period;
        }
    }

    /// The interval at which [`IoStats::sample`] has to be called: the greatest common divisor of the periods.
    pub fn sample_period(&self) -> Nanos {
        let [bandwidth, iops] = self.samplings.map(|sampling| sampling.period.0);
        let (mut a, mut b) = (bandwidth, iops);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        Nanos(a)
    }

    /// Discards everything so far: the job's `ramp_time` ends at `now`.
    pub fn reset(&mut self, now: Nanos) {
        let (keeps_all, begun) = (self.dirs[0].others.is_some(), self.begun);
        let periods = self.samplings.map(|sampling| sampling.period);
        let (left_out, by_submission) = (self.left_out, self.by_submission);
        let halves = self.halves.take();
        *self = Self { begun, halves, left_out, by_submission, ..Self::new() };
        if by_submission {
            self.latencies_from = now;
        }
        self.set_periods(periods);
        if keeps_all {
            self.keep_all_histograms();
        }
        self.start(now);
    }

    /// The job starts its I/O at `now`.
    pub fn start(&mut self, now: Nanos) {
        self.begun.get_or_insert(now);
        self.started = Some(now);
        self.samplings.iter_mut().for_each(|sampling| sampling.at = now);
        if let Some(halves) = &mut self.halves {
            halves.start(now);
        }
    }

    /// When [`IoStats::halve`] has to be called, unless it has been.
    pub fn halfway(&self) -> Option<Nanos> {
        self.halves.as_ref().and_then(|halves| halves.halfway())
    }

    /// Takes the first half of the measured time, if that has passed.
    pub fn halve(&mut self, now: Nanos) {
        if self.halfway().is_some_and(|end| now >= end) {
            let so_far = self.so_far();
            self.halves.iter_mut().for_each(|halves| halves.end_first(now, so_far));
        }
    }

    /// All since the measurement began, without its time.
    fn so_far(&mut self) -> Half {
        self.record_runs();
        self.dirs.iter().fold(Half::default(), |sum, dir| Half {
            ios: sum.ios + dir.ios(),
            latency: sum.latency + dir.clat.sum() + dir.early.sum(),
            ..sum
        })
    }

    /// Whether both halves of the measured time had the same rate and the same mean latency, within
    /// this share; `None` if they were not kept.
    pub fn is_steady(&self, share: f64) -> Option<bool> {
        self.halves.as_ref().map(|halves| halves.are_alike(share))
    }

    /// A phase of the job ends at `now` and the next one begins: as in fio, writes and the reads that
    /// verify them have runtimes of their own.
    pub fn end_phase(&mut self, now: Nanos) {
        self.record_runs();
        let Some(started) = self.started.replace(now) else {
            return;
        };
        let ran = now - started;
        self.elapsed += ran;
        for (stats, before) in self.dirs.iter_mut().zip(&mut self.ios_before_phase) {
            if stats.ios() > *before {
                stats.runtime += ran;
            }
            *before = stats.ios();
        }
    }

    /// The job's I/O ends at `now`.
    pub fn finish(&mut self, now: Nanos) {
        let all = self.so_far();
        self.halves.iter_mut().for_each(|halves| halves.finish(now, all));
        if self.started.is_some() {
            self.end_phase(now);
        }
        self.record_runs();
        self.started = None;
    }

    /// Adds the statistics of a job that ran at the same time (`group_reporting`): counts and CPU times
    /// are added, the runtime of a direction is the maximum.
    pub fn merge(&mut self, other: &Self) {
        self.left_out = self.left_out.or(other.left_out);
        if let Some(theirs) = &other.halves {
            self.halves.get_or_insert_default().merge(theirs);
        }
        self.record_runs();
        for run in other.runs.iter() {
            self.record_run(run);
        }
        for (mine, theirs) in self.dirs.iter_mut().zip(&other.dirs) {
            mine.merge(theirs);
        }
        self.all.iter_mut().zip(&other.all).for_each(|(mine, theirs)| mine.merge(theirs));
        self.bands.merge(&other.bands);
        self.depths.merge(&other.depths);
        self.submit.merge(&other.submit);
        self.complete.merge(&other.complete);
        self.errors.merge(&other.errors);
        self.zone_resets += other.zone_resets;
        if let Some(theirs) = &other.sync {
            let mine = self.sync.get_or_insert_default();
            mine.lat.merge(&theirs.lat);
            mine.histogram.merge(&theirs.histogram);
        }
        for (of, theirs) in &other.prios {
            let mine = self.prios.entry(*of).or_default();
            mine.clat.merge(&theirs.clat);
            mine.histogram.merge(&theirs.histogram);
        }
        self.latency_depth = self.latency_depth.or(other.latency_depth);
        if self.steady.is_none() {
            self.steady.clone_from(&other.steady);
        }
        self.begun = self.begun.into_iter().chain(other.begun).min();
        self.elapsed += other.elapsed;
        self.usage.user += other.usage.user;
        self.usage.system += other.usage.system;
        self.usage.context_switches += other.usage.context_switches;
        self.usage.major_faults += other.usage.major_faults;
        self.usage.minor_faults += other.usage.minor_faults;
    }

    /// Sets the depth that `latency_target` has found, and the steady state of the job.
    pub fn set_limits(&mut self, latency_depth: Option<u32>, steady: Option<SteadyState>) {
        self.latency_depth = latency_depth;
        self.steady = steady.map(Box::new);
    }

    /// The depth that `latency_target` has found.
    pub fn latency_depth(&self) -> Option<u32> {
        self.latency_depth
    }

    /// When the job first started; of merged jobs, the first.
    pub fn begun(&self) -> Option<Nanos> {
        self.begun
    }

    /// The measurements of `steadystate`: of all clones of a group with `group_reporting`, else of the
    /// first clone.
    pub fn steady(&self) -> Option<&SteadyState> {
        self.steady.as_deref()
    }

    /// Class and level of each priority that I/Os of a direction had, with their latencies; nothing if
    /// they all had the same.
    pub fn prios(&self, dir: DataDir) -> Vec<(u16, u16, &PrioStats)> {
        let split = |ioprio: u16| (ioprio >> 13, ioprio & 0x7);
        let of_dir = self.prios.range((dir, 0)..=(dir, u16::MAX)).map(|(&(_, ioprio), stats)| {
            let (class, level) = split(ioprio);
            (class, level, stats)
        });
        let all: Vec<_> = of_dir.collect();
        if all.len() > 1 { all } else { Vec::new() }
    }

    /// The same I/Os, as if all were reads (`unified_rw_reporting`).
    pub fn unified(&self) -> Self {
        let mut unified = self.clone();
        unified.record_runs();
        let [mut all, write, trim] = std::mem::take(&mut unified.dirs);
        [write, trim].iter().for_each(|dir| all.merge(dir));
        [all.bandwidth, all.iops] = self.all.clone();
        unified.dirs[DataDir::Read as usize] = all;
        unified.errors = self.errors.unified();
        unified
    }

    /// Sets the resource usage of the job.
    pub fn set_usage(&mut self, usage: Usage) {
        self.usage = usage;
    }

    /// I/Os and bytes so far, including those of pending runs.
    pub fn counts(&self) -> IoCounts {
        let mut counts = IoCounts {
            ios: [0, 1, 2].map(|dir: usize| self.dirs[dir].ios()),
            bytes: [0, 1, 2].map(|dir: usize| self.dirs[dir].bytes),
        };
        for Run { dir, bytes, count, .. } in self.runs.iter() {
            counts.ios[dir as usize] += count;
            counts.bytes[dir as usize] += bytes * count;
        }
        counts
    }

    fn of(&self, dir: DataDir) -> &DirStats {
        &self.dirs[dir as usize]
    }
}

/// `amount` in `time` as a rate per second, rounded down; 0 in no time.
pub(crate) fn per_second(amount: u64, time: Nanos) -> u64 {
    let rate = u128::from(amount) * 1_000_000_000 / u128::from(time.0.max(1));
    if time.0 == 0 { 0 } else { u64::try_from(rate).unwrap_or(u64::MAX) }
}

impl IoStats {
    /// Successful I/Os of `dir`.
    pub fn ios(&self, dir: DataDir) -> u64 {
        self.of(dir).ios()
    }

    /// Bytes moved by `dir`.
    pub fn bytes(&self, dir: DataDir) -> u64 {
        self.of(dir).bytes
    }

    /// Runtime of `dir`, zero without I/O; of merged jobs the maximum.
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
        if runtime == 0 { 0.0 } else { self.ios(dir) as f64 * 1e9 / runtime as f64 }
    }

    /// The statistics of `dir`, unless those that are wanted are left out.
    fn unless(&self, left_out: bool, dir: DataDir) -> &DirStats {
        if left_out { &NOTHING } else { self.of(dir) }
    }

    /// Submission latencies of `dir`.
    pub fn slat(&self, dir: DataDir) -> &LatStat {
        &self.unless(self.left_out.slat, dir).slat
    }

    /// Completion latencies of `dir`: from submission to completion.
    pub fn clat(&self, dir: DataDir) -> &LatStat {
        &self.unless(self.left_out.clat, dir).clat
    }

    /// Total latencies of `dir`.
    pub fn lat(&self, dir: DataDir) -> &LatStat {
        &self.unless(self.left_out.lat, dir).lat
    }

    /// Histogram of the completion latencies of `dir`.
    pub fn clat_histogram(&self, dir: DataDir) -> &Histogram {
        &self.unless(self.left_out.clat, dir).clat_histogram
    }

    /// Histogram of the submission latencies of `dir`, if it is kept.
    pub fn slat_histogram(&self, dir: DataDir) -> Option<&Histogram> {
        self.unless(self.left_out.slat, dir).others.as_ref().map(|others| &others.slat)
    }

    /// Histogram of the total latencies of `dir`, if it is kept.
    pub fn lat_histogram(&self, dir: DataDir) -> Option<&Histogram> {
        self.unless(self.left_out.lat, dir).others.as_ref().map(|others| &others.lat)
    }

    /// Sampled bandwidth of `dir` in KiB/s.
    pub fn bandwidth_samples(&self, dir: DataDir) -> &Samples {
        &self.unless(self.left_out.samples, dir).bandwidth
    }

    /// Sampled I/Os per second of `dir`.
    pub fn iops_samples(&self, dir: DataDir) -> &Samples {
        &self.unless(self.left_out.samples, dir).iops
    }

    /// Completion latencies of all directions in fio's coarse bands.
    pub fn latency_bands(&self) -> &LatencyBands {
        if self.left_out.clat { &NO_BANDS } else { &self.bands }
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

    /// Zone resets that preceded writes.
    pub fn zone_reset_count(&self) -> u64 {
        self.zone_resets
    }

    /// Flushes that the job waited for, if there were any.
    pub fn syncs(&self) -> Option<&SyncStats> {
        self.sync.as_deref()
    }

    /// Time from start to finish, summed over merged jobs.
    pub fn elapsed(&self) -> Nanos {
        self.elapsed
    }

    /// Resource usage.
    pub fn usage(&self) -> Usage {
        self.usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{LimitOptions, ReportOptions};

    const MSEC: u64 = 1_000_000;

    fn started() -> IoStats {
        let mut stats = IoStats::new();
        stats.start(Nanos(0));
        stats
    }

    fn read(stats: &mut IoStats, clat: u64, count: u64) {
        stats.record(DataDir::Read, 4096, Nanos(5), Nanos(clat), count);
    }

    #[test]
    fn a_run_of_equal_ios_equals_its_single_ios() {
        let (mut single, mut batch) = (started(), started());
        (0..7).for_each(|_| read(&mut single, 100, 1));
        read(&mut single, 200, 1);
        read(&mut batch, 100, 7);
        read(&mut batch, 200, 1);
        for stats in [&mut single, &mut batch] {
            stats.finish(Nanos(MSEC));
            assert_eq!((stats.ios(DataDir::Read), stats.bytes(DataDir::Read)), (8, 8 * 4096));
            let (slat, lat) = (stats.slat(DataDir::Read), stats.lat(DataDir::Read));
            assert_eq!((slat.mean(), lat.min(), lat.max()), (5.0, 105, 205));
        }
        assert_eq!(single.clat(DataDir::Read), batch.clat(DataDir::Read));
        assert_eq!(single.clat_histogram(DataDir::Read), batch.clat_histogram(DataDir::Read));
        assert_eq!(single.latency_bands(), batch.latency_bands());
    }

    #[test]
    fn live_counts_and_merges_see_ios_that_are_held_back() {
        let mut stats = started();
        read(&mut stats, 100, 3);
        assert_eq!((stats.counts().ios[0], stats.counts().bytes[0]), (3, 3 * 4096));
        let mut sum = IoStats::new();
        sum.merge(&stats);
        assert_eq!(sum.ios(DataDir::Read), 3);
    }

    #[test]
    fn samples_are_taken_every_period_of_directions_that_moved() {
        let mut stats = started();
        for i in 1..=20 {
            read(&mut stats, 100, 10);
            stats.sample(Nanos(i * 100 * MSEC));
        }
        let (bandwidth, iops) =
            (stats.bandwidth_samples(DataDir::Read), stats.iops_samples(DataDir::Read));
        assert_eq!((bandwidth.count(), bandwidth.min(), bandwidth.max()), (4, 400, 400));
        assert_eq!((iops.count(), iops.min(), iops.max()), (4, 100, 100));
        assert_eq!(stats.bandwidth_samples(DataDir::Write).count(), 0);
    }

    #[test]
    fn bandwidth_and_iops_may_have_periods_of_their_own() {
        let report = crate::job::ReportOptions {
            bandwidth_period: Nanos(200 * MSEC),
            iops_period: Nanos(300 * MSEC),
            ..Default::default()
        };
        let mut stats = IoStats::of_job(&Job { report, ..Job::default() });
        assert_eq!(stats.sample_period(), Nanos(100 * MSEC));
        stats.start(Nanos(0));
        for i in 1..=12 {
            read(&mut stats, 100, 10);
            stats.sample(Nanos(i * 100 * MSEC));
        }
        assert_eq!(stats.bandwidth_samples(DataDir::Read).count(), 6);
        assert_eq!(stats.iops_samples(DataDir::Read).count(), 4);
        stats.reset(Nanos(2000 * MSEC));
        assert_eq!(stats.sample_period(), Nanos(100 * MSEC), "after the ramp");
    }

    #[test]
    fn a_sample_a_little_early_is_not_lost() {
        let mut stats = started();
        read(&mut stats, 100, 1);
        stats.sample(Nanos(489 * MSEC));
        assert_eq!(stats.iops_samples(DataDir::Read).count(), 0);
        stats.sample(Nanos(490 * MSEC));
        assert_eq!(stats.iops_samples(DataDir::Read).count(), 1);
    }

    #[test]
    fn the_end_of_the_ramp_discards_earlier_io() {
        let mut stats = started();
        read(&mut stats, 100, 5);
        stats.submitted(5, 5);
        stats.reset(Nanos(10 * MSEC));
        read(&mut stats, 300, 1);
        stats.finish(Nanos(12 * MSEC));
        assert_eq!((stats.ios(DataDir::Read), stats.clat(DataDir::Read).min()), (1, 300));
        assert_eq!(stats.depth_levels(), &DepthLevels::default());
        assert_eq!(stats.runtime(DataDir::Read), Nanos(2 * MSEC));
        assert_eq!(stats.runtime(DataDir::Write), Nanos(0));
        assert_eq!(stats.ios_per_second(DataDir::Read), 500.0);
        assert_eq!(stats.bytes_per_second(DataDir::Read), 2_048_000);
    }

    #[test]
    fn latencies_by_submission_leave_out_what_began_in_the_ramp() {
        let limits = LimitOptions { ramp_submitted: true, ..LimitOptions::default() };
        let mut stats = IoStats::of_job(&Job { limits, ..Job::default() });
        stats.start(Nanos(0));
        assert!(!stats.is_early(Nanos(0)), "there is no ramp");
        stats.reset(Nanos(10 * MSEC));
        assert!(stats.is_early(Nanos(10 * MSEC - 1)) && !stats.is_early(Nanos(10 * MSEC)));
        stats.record_early(DataDir::Read, 4096, Nanos(9_000));
        read(&mut stats, 300, 1);
        stats.finish(Nanos(12 * MSEC));
        assert_eq!((stats.ios(DataDir::Read), stats.bytes(DataDir::Read)), (2, 8192));
        assert_eq!((stats.clat(DataDir::Read).count(), stats.clat(DataDir::Read).max()), (1, 300));
        let mut all = IoStats::new();
        all.merge(&stats);
        assert_eq!((all.ios(DataDir::Read), all.clat(DataDir::Read).count()), (2, 1));
    }

    #[test]
    fn a_measurement_is_steady_if_its_halves_are_alike() {
        let limits = LimitOptions { ramp_submitted: true, ..LimitOptions::default() };
        let runtime = Some(Nanos(20 * MSEC));
        let job = Job { limits, runtime, ..Job::default() };
        let of = |first: [u64; 2], second: [u64; 2]| {
            let mut stats = IoStats::of_job(&job);
            stats.start(Nanos(0));
            read(&mut stats, 5, 1000);
            stats.reset(Nanos(5 * MSEC));
            assert_eq!(stats.halfway(), Some(Nanos(15 * MSEC)));
            read(&mut stats, first[0], first[1]);
            stats.halve(Nanos(14 * MSEC));
            stats.halve(Nanos(15 * MSEC));
            assert_eq!(stats.halfway(), None);
            read(&mut stats, second[0], second[1]);
            stats.finish(Nanos(25 * MSEC));
            stats
        };
        let is_steady = |first, second| of(first, second).is_steady(0.1);
        assert_eq!(is_steady([300, 10], [300, 10]), Some(true));
        assert_eq!(is_steady([300, 10], [300, 12]), Some(false), "the rate");
        assert_eq!(is_steady([300, 10], [400, 10]), Some(false), "the latency");
        let mut both = of([300, 10], [300, 12]);
        both.merge(&of([300, 12], [300, 10]));
        assert_eq!(both.is_steady(0.1), Some(true), "together they are steady");
        assert_eq!(started().is_steady(0.1), None, "nobody asked");
    }

    #[test]
    fn a_ramp_keeps_what_the_report_leaves_out() {
        let mut report = ReportOptions::default();
        report.left_out.clat = true;
        let mut stats = IoStats::of_job(&Job { report, ..Job::default() });
        stats.start(Nanos(0));
        stats.reset(Nanos(MSEC));
        read(&mut stats, 300, 1);
        stats.finish(Nanos(2 * MSEC));
        assert_eq!(stats.clat(DataDir::Read).count(), 0);
    }

    #[test]
    fn each_phase_has_its_own_runtime() {
        let mut stats = started();
        stats.record(DataDir::Write, 4096, Nanos(5), Nanos(100), 4);
        stats.end_phase(Nanos(3 * MSEC));
        read(&mut stats, 100, 4);
        stats.finish(Nanos(5 * MSEC));
        assert_eq!(stats.runtime(DataDir::Write), Nanos(3 * MSEC));
        assert_eq!(stats.runtime(DataDir::Read), Nanos(2 * MSEC));
        assert_eq!(stats.elapsed(), Nanos(5 * MSEC));
    }

    #[test]
    fn flushes_of_merged_jobs_are_counted_together() {
        let (mut one, mut other) = (started(), started());
        one.synced(Nanos(100));
        other.synced(Nanos(300));
        one.merge(&other);
        let sync = one.syncs().expect("flushes");
        assert_eq!((sync.lat.count(), sync.lat.min(), sync.lat.max()), (2, 100, 300));
        assert!(started().syncs().is_none());
    }

    #[test]
    fn merged_jobs_add_up_but_ran_side_by_side() {
        let (mut short, mut long) = (started(), started());
        read(&mut short, 100, 1);
        read(&mut long, 100, 3);
        short.finish(Nanos(MSEC));
        long.finish(Nanos(2 * MSEC));
        short.merge(&long);
        assert_eq!(short.ios(DataDir::Read), 4);
        assert_eq!(short.runtime(DataDir::Read), Nanos(2 * MSEC));
        assert_eq!(short.elapsed(), Nanos(3 * MSEC));
    }
}
