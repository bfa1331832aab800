//! One load, measured on devices of its own, and many loads in parallel.
//!
//! Invariants: no two measurements share a device; in virtual time the result depends on the load
//! and the seed alone.
use crate::devices::{DeviceOptions, Devices};
use crate::executor::{Executor, FinishedTask};
use crate::run::{Run, jobs_without_io, jobs_without_zones};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use zonal_backend::Stack;
use zonal_blk::{Failure, Nanos, Status, ZoneCounters, ZoneNo};
use zonal_device::control::{DeviceStats, TranslationStats};
use zonal_fio::job::{DataDir, Job};
use zonal_fio::jobfile::{self, SystemEnvironment};
use zonal_fio::plan::{self, PlanError, Task};
use zonal_fio::stats::{Histogram, IoStats};

/// The percentiles of completion latencies that sweeps and tables keep.
pub const PERCENTILES: [f64; 3] = [50.0, 99.0, 99.9];

/// The name of a job that prepares the device for the others and is not measured.
pub const PREPARATION: &str = "preparation";

/// The part of a load's time that is not measured.
const RAMP_SHARE: f64 = 0.1;

/// The same where what follows is not steady.
const LONG_RAMP_SHARE: f64 = 0.5;

/// By how much the halves of the measured time may differ if a load is steady.
const STEADY: f64 = 0.1;

/// Why a load that ran has no outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// An I/O failed.
    #[error("job {job}: {status}{}{}", because(.failures), hints.concat())]
    Failed {
        /// The job.
        job: String,
        /// The status of its first I/O that failed.
        status: Status,
        /// The first failure of a zone of each device.
        failures: Vec<Failure>,
        /// What would help, each after a semicolon.
        hints: Vec<String>,
    },
    /// There is nothing to measure.
    #[error("no I/O completed in the time that is measured{}", because(.jobs))]
    Nothing {
        /// Jobs that did no I/O, and why.
        jobs: Vec<String>,
    },
}

/// The causes, in parentheses; nothing if none is known.
fn because(causes: &[impl ToString]) -> String {
    match causes {
        [] => String::new(),
        _ => {
            let causes: Vec<String> = causes.iter().map(ToString::to_string).collect();
            format!(" ({})", causes.join("; "))
        }
    }
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Millions of bytes a second.
    MegabytesPerSecond,
    /// Thousands of I/Os a second.
    Kiops,
    /// Millions of I/Os a second.
    Miops,
    /// Requests a second, as raidtest counts them.
    Tps,
    /// Bytes written to the flash for each that was written to the drive; not a unit of measured jobs.
    WriteAmplification,
}

impl Unit {
    const ALL: [Unit; 4] = [Unit::MegabytesPerSecond, Unit::Kiops, Unit::Miops, Unit::Tps];

    /// The unit as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Unit::MegabytesPerSecond => "MB/s",
            Unit::Kiops => "KIOPS",
            Unit::Miops => "MIOPS",
            Unit::Tps => "tps",
            Unit::WriteAmplification => "WAF",
        }
    }

    /// The names of the units of measured jobs.
    pub fn names() -> [&'static str; 4] {
        Self::ALL.map(Unit::name)
    }

    /// The unit of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.name() == name)
    }

    /// The unit of a figure of any kind by its name.
    ///
    /// # Errors
    /// There is none.
    pub fn of_figure(name: &str) -> Result<Self> {
        let own = Unit::WriteAmplification;
        let unit = Self::from_name(name).or((name == own.name()).then_some(own));
        unit.with_context(|| {
            let names = Self::names().join(", ");
            format!("unit: found `{name}`, expected {names} or {}", own.name())
        })
    }

    /// The figure of `ios` I/Os and `bytes` bytes a second, with this write amplification.
    pub fn of(self, ios: f64, bytes: f64, write_amplification: f64) -> f64 {
        match self {
            Unit::MegabytesPerSecond => bytes / 1e6,
            Unit::Kiops => ios / 1e3,
            Unit::Miops => ios / 1e6,
            Unit::Tps => ios,
            Unit::WriteAmplification => write_amplification,
        }
    }
}

/// How long a load runs, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunLength {
    /// Time at the beginning that is not measured.
    pub ramp: f64,
    /// Time that is measured.
    pub measured: f64,
}

impl RunLength {
    /// `seconds` in all, of which the first tenth is the ramp.
    pub fn of(seconds: f64) -> Self {
        RunLength { ramp: seconds * RAMP_SHARE, measured: seconds * (1.0 - RAMP_SHARE) }
    }
}

/// One line about loads that are not steady even in the second half of their time, by their names.
pub(crate) fn unsteady(names: &[String]) -> Option<String> {
    (!names.is_empty()).then(|| {
        format!(
            "not steady, so that the figures depend on --time: {} (rate or mean latency differ by \
             more than 10% between the halves of the time that is measured)",
            some_of(names)
        )
    })
}

/// The remarks about loads, each once, with the names of the loads that it is about unless it is about all.
pub(crate) fn remarks<'a>(loads: impl Iterator<Item = (String, Vec<&'a String>)>) -> Vec<String> {
    let mut about: Vec<(&String, Vec<String>)> = Vec::new();
    let mut count = 0;
    for (name, remarks) in loads {
        count += 1;
        for remark in remarks {
            match about.iter_mut().find(|(known, _)| *known == remark) {
                Some((_, names)) if names.last() == Some(&name) => {}
                Some((_, names)) => names.push(name.clone()),
                None => about.push((remark, vec![name.clone()])),
            }
        }
    }
    let line = |(remark, names): (&String, Vec<String>)| match names.len() == count {
        true => remark.clone(),
        false => format!("{remark} ({})", some_of(&names)),
    };
    about.into_iter().map(line).collect()
}

/// Jobs that did no I/O in some measurement of a load, and why.
pub(crate) fn without_io(outcomes: &[Outcome]) -> Vec<&String> {
    outcomes.iter().flat_map(|outcome| &outcome.without_io).collect()
}

/// Whether a job that did no I/O in one load did none in any of them. An item is what [`jobs_without_io`] says
/// of a load.
pub(crate) fn is_idle_in_all<'a>(mut loads: impl Iterator<Item = Vec<&'a String>>) -> bool {
    let Some(mut idle) = loads.next() else { return false };
    loads.for_each(|other| idle.retain(|job| other.contains(job)));
    !idle.is_empty()
}

/// The first few names, and how many more there are.
fn some_of(names: &[String]) -> String {
    const SHOWN: usize = 4;
    let more = match names.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let shown = names[..names.len().min(SHOWN)].join("; ");
    shown + &more
}

/// The results of the jobs of a load together.
pub struct Outcome {
    /// I/Os a second.
    pub ios: f64,
    /// Bytes a second.
    pub bytes: f64,
    /// Completion latencies in nanoseconds.
    pub latencies: Histogram,
    /// The same by job and direction, in the order of the jobs; none where it does not matter.
    pub parts: Vec<Part>,
    /// How the beginning was left out, if it was.
    pub settling: Option<Settling>,
    /// Jobs that did no I/O in the time that is measured, and why: the figures are those of the others.
    pub without_io: Vec<String>,
    /// Remarks about jobs that read what was never written, whose figures say nothing of the drive.
    pub reads_of_nothing: Vec<String>,
    /// The devices, in the order of their names.
    pub devices: Vec<DeviceOutcome>,
}

/// The results of one direction of a job, all clones together.
#[derive(Clone)]
pub struct Part {
    /// The job.
    pub job: String,
    /// The direction.
    pub dir: DataDir,
    /// I/Os a second.
    pub ios: f64,
    /// Bytes a second.
    pub bytes: f64,
    /// Completion latencies in nanoseconds.
    pub latencies: Histogram,
    /// The rate as a part of that which the job is limited to (`rate`, `rate_iops`); `None` if it is not limited.
    pub reached: Option<f64>,
}

impl Part {
    /// `readers read`.
    pub fn name(&self) -> String {
        format!("{} {}", self.job, self.dir.name())
    }
}

/// How the beginning of a load was left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settling {
    /// Seconds at the beginning that are not measured. Latencies are of I/Os that were submitted later.
    pub left_out: f64,
    /// Whether rate and mean latency are the same in both halves of what was measured, within 10 %.
    pub is_steady: bool,
}

impl Settling {
    /// How loads that took `seconds` each were settled, in one line; `None` for none.
    pub fn line(seconds: f64, all: impl Iterator<Item = Settling>) -> Option<String> {
        let left_out = sorted(all.map(|settling| settling.left_out));
        let (least, most) = (left_out.first()?, left_out.last()?);
        let seconds_of = |time: f64| (time * 1e6).round() / 1e6;
        let (seconds, least, most) = (seconds_of(seconds), seconds_of(*least), seconds_of(*most));
        Some(if least == most {
            format!("each for {seconds} s, the first {least} s left out")
        } else {
            format!(
                "each for {seconds} s, the first {least} s left out, {most} s where it took longer to settle"
            )
        })
    }
}

/// The counts of a device and the plugs of its zones from the start of a load to its end.
pub struct DeviceOutcome {
    /// The model's counts.
    pub activity: DeviceStats,
    /// Statistics of its translation layer, if it has one, without the preparation.
    pub translation: Option<TranslationStats>,
    /// Writes that went through plugs.
    pub plugged: u64,
    /// The sum of the times that they waited there.
    pub parked: Nanos,
    /// Writes that were merged into another in their plug.
    pub merged: u64,
    /// Zones that were open at the end.
    pub open_zones: usize,
}

impl Outcome {
    /// Bytes written to the flash for each that was written to drives with translation layers; 1
    /// without any.
    pub fn write_amplification(&self) -> f64 {
        let stats = self.devices.iter().filter_map(|device| device.translation);
        let sum = stats.fold(TranslationStats::default(), |sum, stats| TranslationStats {
            host: sum.host + stats.host,
            media: sum.media + stats.media,
            ..sum
        });
        sum.write_amplification()
    }
}

impl DeviceOutcome {
    fn of(device: &Stack) -> Result<Self> {
        let mut outcome = DeviceOutcome {
            activity: device.model.stats(),
            translation: device.model.translation(),
            plugged: 0,
            parked: Nanos(0),
            merged: 0,
            open_zones: 0,
        };
        let queue = &device.queue;
        if queue.limits().nr_zones == 0 {
            return Ok(outcome);
        }
        for plug in queue.dump_plugs(true) {
            let ZoneCounters { writes, appends, merges, parked_ns } = plug.counters;
            outcome.plugged += u64::from(writes) + u64::from(appends);
            outcome.merged += u64::from(merges);
            outcome.parked += Nanos(parked_ns);
        }
        let mut zones = Vec::new();
        queue.report_zones(ZoneNo(0), queue.limits().nr_zones as usize, &mut zones)?;
        outcome.open_zones = zones.iter().filter(|zone| zone.cond.is_open()).count();
        Ok(outcome)
    }
}

/// Runs jobs given as options, on devices of their own, for `length` or as long as they say.
///
/// # Errors
/// A bad option or device, or [`LoadError`].
pub fn run(
    jobs: &[String],
    device_options: &DeviceOptions,
    length: Option<RunLength>,
    executor: &mut Executor,
) -> Result<Outcome> {
    run_jobs(jobfile::parse_args(jobs, &SystemEnvironment)?.jobs, device_options, length, executor)
}

/// [`run`] for jobs that have been parsed.
///
/// # Errors
/// As [`run`].
pub fn run_jobs(
    jobs: Vec<Job>,
    device_options: &DeviceOptions,
    length: Option<RunLength>,
    executor: &mut Executor,
) -> Result<Outcome> {
    run_phases(jobs, device_options, length, executor)?.outcome()
}

/// [`run_jobs`] for `seconds`, of which the beginning is left out: a tenth, or half if what follows the
/// tenth is not steady. Only real time is not spent twice for that.
///
/// # Errors
/// As [`run`].
pub fn run_settled(
    mut jobs: Vec<Job>,
    device_options: &DeviceOptions,
    seconds: f64,
    executor: &mut Executor,
) -> Result<Outcome> {
    jobs.iter_mut().for_each(|job| job.limits.ramp_submitted = true);
    let first = settled(jobs.clone(), device_options, seconds, RAMP_SHARE, executor)?;
    let is_done = first.settling.is_none_or(|settling| settling.is_steady) || executor.is_stopped();
    if is_done || !executor.rewind() {
        return Ok(first);
    }
    settled(jobs, device_options, seconds, LONG_RAMP_SHARE, executor)
}

/// Runs jobs for `seconds`, of which this share at the beginning is left out.
fn settled(
    jobs: Vec<Job>,
    device_options: &DeviceOptions,
    seconds: f64,
    share: f64,
    executor: &mut Executor,
) -> Result<Outcome> {
    let length = RunLength { ramp: seconds * share, measured: seconds * (1.0 - share) };
    let measured = run_phases(jobs, device_options, Some(length), executor)?;
    let stats = merged(&measured.finished, &measured.devices)?;
    let is_steady = stats.is_steady(STEADY).unwrap_or(true);
    let settling = Some(Settling { left_out: length.ramp, is_steady });
    Ok(Outcome { settling, ..measured.outcome()? })
}

/// Refuses jobs that read what was never written: an answer would not be one about the drive.
///
/// # Errors
/// There is such a job, or the jobs cannot run on the device.
pub fn check_something_is_read(jobs: &[Job], device: &str) -> Result<()> {
    let jobs: Vec<Arc<Job>> = jobs.iter().cloned().map(Arc::new).collect();
    let options = DeviceOptions { device: Some(device.to_owned()), ..DeviceOptions::default() };
    match Run::prepare(&jobs, &options)?.reads_of_nothing().into_iter().next() {
        Some(remark) => bail!(remark),
        None => Ok(()),
    }
}

/// The results of clones that have run.
///
/// # Errors
/// [`LoadError`].
pub(crate) fn outcome(finished: &[FinishedTask], devices: &Devices) -> Result<Outcome> {
    let all = merged(finished, devices)?;
    let outcomes = devices.iter().map(DeviceOutcome::of).collect::<Result<_>>()?;
    let summary = summarize(&all, outcomes, jobs_without_io(finished, devices))?;
    Ok(Outcome { parts: parts(finished), ..summary })
}

/// The results of each job in each of its directions.
fn parts(finished: &[FinishedTask]) -> Vec<Part> {
    let mut jobs: Vec<(&Job, u32, IoStats)> = Vec::new();
    for FinishedTask { task, outcome, .. } in finished {
        match jobs.iter_mut().find(|(job, ..)| job.name == task.job.name) {
            Some((_, clones, stats)) => {
                *clones += 1;
                stats.merge(&outcome.stats);
            }
            None => jobs.push((&task.job, 1, outcome.stats.clone())),
        }
    }
    let part = |job: &Job, clones: u32, stats: &IoStats, dir: DataDir| {
        let per_second = |count: u64| count as f64 * 1e9 / stats.runtime(dir).0.max(1) as f64;
        let (ios, bytes) = (per_second(stats.ios(dir)), per_second(stats.bytes(dir)));
        let share = |rate: f64, limit: u64| rate / (limit * u64::from(clones)) as f64;
        let limits = [(bytes, job.rate[dir as usize]), (ios, job.rate_iops[dir as usize])];
        let reached = limits.into_iter().find(|(_, limit)| *limit > 0);
        let reached = reached.map(|(rate, limit)| share(rate, limit));
        let latencies = stats.clat_histogram(dir).clone();
        Part { job: job.name.clone(), dir, ios, bytes, latencies, reached }
    };
    let directions = [DataDir::Read, DataDir::Write];
    let of_job = |(job, clones, stats): &(&Job, u32, IoStats)| {
        let used = directions.into_iter().filter(|&dir| job.uses(dir) || stats.ios(dir) > 0);
        used.map(|dir| part(job, *clones, stats, dir)).collect::<Vec<_>>()
    };
    jobs.iter().flat_map(of_job).collect()
}

/// As [`run`], but returns the statistics of all jobs, also of directions that did nothing.
///
/// # Errors
/// As [`run`].
pub fn stats(
    jobs: &[String],
    device_options: &DeviceOptions,
    length: RunLength,
    executor: &mut Executor,
) -> Result<IoStats> {
    let jobs = jobfile::parse_args(jobs, &SystemEnvironment)?.jobs;
    let Measured { finished, devices, .. } =
        run_phases(jobs, device_options, Some(length), executor)?;
    merged(&finished, &devices)
}

/// As [`stats`], for the clones of each job by its name.
///
/// # Errors
/// As [`run`].
pub fn stats_by_job(
    jobs: &[String],
    device_options: &DeviceOptions,
    length: RunLength,
    executor: &mut Executor,
) -> Result<BTreeMap<String, IoStats>> {
    let jobs = jobfile::parse_args(jobs, &SystemEnvironment)?.jobs;
    let Measured { finished, devices, .. } =
        run_phases(jobs, device_options, Some(length), executor)?;
    merged(&finished, &devices)?;
    let mut by_job: BTreeMap<String, IoStats> = BTreeMap::new();
    for FinishedTask { task, outcome, .. } in finished {
        let name = task.job.name.clone();
        by_job.entry(name).or_default().merge(&outcome.stats);
    }
    Ok(by_job)
}

/// Jobs that have run.
struct Measured {
    /// The clones that are measured.
    finished: Vec<FinishedTask>,
    devices: Devices,
    /// By device, statistics of its translation layer before the first of these clones.
    before: Vec<Option<TranslationStats>>,
    reads_of_nothing: Vec<String>,
}

impl Measured {
    fn outcome(&self) -> Result<Outcome> {
        let mut outcome = outcome(&self.finished, &self.devices)?;
        outcome.reads_of_nothing.clone_from(&self.reads_of_nothing);
        for (device, before) in outcome.devices.iter_mut().zip(&self.before) {
            let stats = device.translation.zip(*before);
            device.translation = stats.map(|(stats, before)| stats.since(&before));
        }
        Ok(outcome)
    }
}

/// Runs jobs on devices of their own.
fn run_phases(
    jobs: Vec<Job>,
    device_options: &DeviceOptions,
    length: Option<RunLength>,
    executor: &mut Executor,
) -> Result<Measured> {
    let mut run = Run::prepare(&limited(jobs, length), device_options)?;
    let reads_of_nothing = run.reads_of_nothing();
    let mut before = Vec::new();
    let mut finished = run.execute_phases(executor, device_options.seed, |phase, devices| {
        if before.is_empty() && phase.iter().any(|task| task.job.name != PREPARATION) {
            before = devices.iter().map(|device| device.model.translation()).collect();
        }
    })?;
    finished.retain(|finished| finished.task.job.name != PREPARATION);
    Ok(Measured { finished, devices: run.into_devices(), before, reads_of_nothing })
}

/// Checks that the jobs whose I/O is counted together run at the same time.
///
/// # Errors
/// They run one after another.
pub fn check_one_phase(jobs: &[Job]) -> Result<()> {
    let phases = jobs.chunk_by(|_, next| !next.stonewall);
    let is_measured = |phase: &&[Job]| phase.iter().any(|job| job.name != PREPARATION);
    let count = phases.filter(is_measured).count();
    ensure!(
        count <= 1,
        "the jobs run in {count} phases, one after another (stonewall), expected one that is \
         measured, besides `{PREPARATION}`: choose one with --section=NAME"
    );
    Ok(())
}

/// The clones of jobs, phase by phase, limited to `length` if there is one.
///
/// # Errors
/// The jobs are too many or too deep.
pub fn phases(jobs: Vec<Job>, length: Option<RunLength>) -> Result<Vec<Vec<Task>>, PlanError> {
    plan::phases(&limited(jobs, length))
}

/// The jobs, limited to `length` if there is one.
pub(crate) fn limited(mut jobs: Vec<Job>, length: Option<RunLength>) -> Vec<Arc<Job>> {
    if let Some(RunLength { ramp, measured }) = length {
        for job in &mut jobs {
            job.ramp_time = Nanos((ramp * 1e9) as u64);
            job.runtime = Some(Nanos((measured * 1e9) as u64));
            job.time_based = true;
        }
    }
    jobs.into_iter().map(Arc::new).collect()
}

/// The statistics of all clones together.
fn merged(finished: &[FinishedTask], devices: &Devices) -> Result<IoStats> {
    let mut all = IoStats::new();
    for FinishedTask { task, outcome, .. } in finished {
        if let Some(status) = outcome.error {
            let failures = devices.iter().filter_map(|device| device.queue.first_failure());
            let (job, failures) = (task.job.name.clone(), failures.cloned().collect());
            let hints = jobs_without_zones(finished, devices);
            let hints = hints.into_iter().map(|hint| format!("; {hint}")).collect();
            return Err(LoadError::Failed { job, status, failures, hints }.into());
        }
        all.merge(&outcome.stats);
    }
    Ok(all)
}

/// The I/O of all clones, over the time of the longest.
fn summarize(
    all: &IoStats,
    devices: Vec<DeviceOutcome>,
    without_io: Vec<String>,
) -> Result<Outcome> {
    let (mut ios, mut bytes, mut time) = (0, 0, Nanos(0));
    let mut latencies = Histogram::new();
    for dir in [DataDir::Read, DataDir::Write] {
        ios += all.ios(dir);
        bytes += all.bytes(dir);
        time = time.max(all.runtime(dir));
        latencies.merge(all.clat_histogram(dir));
    }
    if ios == 0 {
        return Err(LoadError::Nothing { jobs: without_io }.into());
    }
    let per_second = |count: u64| count as f64 * 1e9 / time.0.max(1) as f64;
    Ok(Outcome {
        ios: per_second(ios),
        bytes: per_second(bytes),
        latencies,
        parts: Vec::new(),
        settling: None,
        without_io,
        reads_of_nothing: Vec::new(),
        devices,
    })
}

/// The CPUs that this process may use.
pub fn available_cpus() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Calls `work` for each item, on `workers` threads. Returns the results in the order of the items.
///
/// # Errors
/// The error of the first item that failed. Items that were not begun by then are skipped.
pub fn parallel_map<T: Sync, R: Send>(
    workers: usize,
    items: &[T],
    work: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(items.len()));
    let worker = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { break };
            let outcome = work(item);
            if outcome.is_err() {
                next.store(items.len(), Ordering::Relaxed);
            }
            done.lock().unwrap_or_else(PoisonError::into_inner).push((at, outcome));
        }
    };
    thread::scope(|scope| {
        for _ in 0..workers.clamp(1, items.len().max(1)) {
            scope.spawn(worker);
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|&(at, _)| at);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

/// The median; of an even number of values, the mean of the two in the middle.
///
/// # Panics
/// There are no values.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let values = sorted(values);
    let (lower, upper) = ((values.len() - 1) / 2, values.len() / 2);
    (values[lower] + values[upper]) / 2.0
}

/// The values in ascending order.
pub fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;
    use zonal_sim::CostModel;

    #[test]
    fn results_are_in_the_order_of_the_items_for_any_number_of_threads() {
        let items: Vec<u64> = (0..50).collect();
        let squares: Vec<u64> = items.iter().map(|item| item * item).collect();
        for workers in [0, 1, 3, 100] {
            let outcomes = parallel_map(workers, &items, |item| Ok(item * item)).unwrap();
            assert_eq!(outcomes, squares);
        }
        assert_eq!(parallel_map(2, &[0_u8; 0], |_| Ok(())).unwrap(), []);
    }

    #[test]
    fn first_error_stops_the_work_and_is_returned() {
        let items: Vec<u64> = (0..1000).collect();
        let started = AtomicUsize::new(0);
        let outcome = parallel_map(1, &items, |&item| {
            started.fetch_add(1, Ordering::Relaxed);
            if item == 3 { Err(anyhow!("three")) } else { Ok(item) }
        });
        assert_eq!(outcome.unwrap_err().to_string(), "three");
        assert_eq!(started.into_inner(), 4);
    }

    /// The settled outcome of jobs.
    fn measured(jobs: &[&str], device: &str, seconds: f64) -> Outcome {
        let jobs: Vec<String> = jobs.iter().map(|&option| option.to_owned()).collect();
        let jobs = jobfile::parse_args(&jobs, &SystemEnvironment).unwrap().jobs;
        let device = DeviceOptions { device: Some(device.to_owned()), ..DeviceOptions::default() };
        let mut executor = Executor::virtual_time("1000".parse().unwrap());
        run_settled(jobs, &device, seconds, &mut executor).unwrap()
    }

    #[test]
    fn tail_latency_does_not_depend_on_how_long_a_load_is_measured() {
        // With QD=1 a zone is written until it is full: each job but the first begins a second late, or
        // several, which the ramp leaves out although these writes complete after it.
        let jobs = ["--name=w", "--rw=write", "--bs=1m", "--zonemode=zbd", "--iodepth=2"];
        let each = ["--numjobs=8", "--size=20g", "--offset_increment=20g"];
        let jobs = [&jobs[..], &each].concat();
        for seconds in [10.0, 40.0] {
            let outcome = measured(&jobs, "smr-30t", seconds);
            let p99 = outcome.latencies.percentiles(&[99.0])[0] / 1_000_000;
            assert!((10..30).contains(&p99), "{seconds} s: {p99} ms");
            assert!((240e6..250e6).contains(&outcome.bytes), "{} B/s", outcome.bytes);
        }
    }

    #[test]
    fn load_that_is_steady_is_measured_after_a_tenth() {
        let device = "null:zones=8,zone_size=1M,latency=100us";
        let outcome = measured(&["--rw=randread", "--bs=4k", "--name=a"], device, 0.1);
        let settling = Settling { left_out: 0.1 * RAMP_SHARE, is_steady: true };
        assert_eq!(outcome.settling, Some(settling));
    }

    #[test]
    fn load_that_is_not_steady_after_a_tenth_is_measured_after_half() {
        // From the rim of the disk inwards.
        let jobs = ["--name=r", "--rw=read", "--bs=1m", "--iodepth=2"];
        let slows_down = measured(&jobs, "hdd:size=4G", 20.0);
        assert_eq!(slows_down.settling, Some(Settling { left_out: 10.0, is_steady: true }));
        let begins_again = measured(&jobs, "hdd:size=3G", 20.0);
        assert_eq!(begins_again.settling, Some(Settling { left_out: 10.0, is_steady: false }));
        let notice = unsteady(&["a".to_owned(), "b".to_owned()]).unwrap();
        assert!(notice.starts_with("not steady, so that the figures depend on --time: a; b ("));
        assert_eq!(unsteady(&[]), None);
    }

    #[test]
    fn what_a_preparation_did_to_the_flash_is_not_counted() {
        let job = |name: &str, written: &str| {
            let drive = "ssd:size=16M,dies=4,channels=2,block=48K,overprovision=50%,gc_buffer=1M,\
                         buffer=3M";
            format!("--name={name} --filename={drive} --rw=randwrite --bs=4k --io_size={written}")
        };
        let jobs = [job(PREPARATION, "40m"), job("measured", "20m"), "--stonewall".to_owned()];
        let jobs: Vec<String> = jobs.join(" ").split(' ').map(str::to_owned).collect();
        let mut executor =
            Executor::interruptible(CostModel::Flat(Nanos(1)), Arc::default(), Box::new(()));
        let outcome = run(&jobs, &DeviceOptions::default(), None, &mut executor).unwrap();
        let stats = outcome.devices[0].translation.expect("the drive has a translation layer");
        // Data in the buffer, 2 MiB at most, are counted when they get their places.
        let mebibytes = stats.host.0 >> 20;
        assert!((17..23).contains(&mebibytes), "{stats:?}");
        assert!(outcome.write_amplification() > 1.2, "{stats:?}");
    }
}
