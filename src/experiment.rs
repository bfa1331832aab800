//! Single loads, each on a device of its own, and many of them side by side.
//!
//! Takes what `zonal run` would be given; gives what all jobs did together. Keeps true: every
//! measurement has its own devices; in virtual time it depends on its setup and seed alone.
use crate::devices::{AttachedDevice, DeviceOptions, Devices};
use crate::machine::{Executor, FinishedTask};
use anyhow::{Result, bail};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use zonal_blk::{Nanos, ZoneCounters, ZoneNo};
use zonal_device::control::DeviceStats;
use zonal_fio::job::{DataDir, Job};
use zonal_fio::jobfile::{self, SystemEnvironment};
use zonal_fio::plan::{self, Task};
use zonal_fio::stats::{Histogram, IoStats};

/// The name of a job that prepares the device for others and does not count.
pub const PREPARATION: &str = "preparation";

/// Of a load's time, what is not measured.
const RAMP_SHARE: f64 = 0.1;

/// What figures are in.
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
        }
    }

    /// All of them, as they are written.
    pub fn names() -> [&'static str; 4] {
        Self::ALL.map(Unit::name)
    }

    /// The unit that is written so.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.name() == name)
    }

    /// The figure of so many I/Os and bytes a second.
    pub fn of(self, ios: f64, bytes: f64) -> f64 {
        match self {
            Unit::MegabytesPerSecond => bytes / 1e6,
            Unit::Kiops => ios / 1e3,
            Unit::Miops => ios / 1e6,
            Unit::Tps => ios,
        }
    }
}

/// How long a load runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunLength {
    /// Seconds at the beginning that are not measured.
    pub ramp: f64,
    /// Seconds that are.
    pub measured: f64,
}

impl RunLength {
    /// So many seconds, of which the first tenth is not measured.
    pub fn of(seconds: f64) -> Self {
        RunLength { ramp: seconds * RAMP_SHARE, measured: seconds * (1.0 - RAMP_SHARE) }
    }
}

/// What the jobs of a load did together.
pub struct Outcome {
    /// I/Os a second.
    pub ios: f64,
    /// Bytes a second.
    pub bytes: f64,
    /// Completion latencies in nanoseconds.
    pub latencies: Histogram,
    /// What became of the devices, by name.
    pub devices: Vec<DeviceOutcome>,
}

/// What a device and the plugs of its zones did from the start of a load to its end.
pub struct DeviceOutcome {
    /// What the model tells.
    pub activity: DeviceStats,
    /// Writes that went through plugs.
    pub plugged: u64,
    /// Time that they waited there, summed.
    pub parked: Nanos,
    /// Of these writes, those that went out merged behind another.
    pub merged: u64,
    /// Zones that are open at the end.
    pub open_zones: usize,
}

impl DeviceOutcome {
    fn of(device: &AttachedDevice) -> Result<Self> {
        let mut outcome = DeviceOutcome {
            activity: device.model.stats(),
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

/// Runs job options for a while, or as long as they say themselves, on devices made as `device_options` say.
///
/// # Errors
/// What is wrong with options or devices, an I/O that failed, or that none completed.
pub fn run(
    jobs: &[String],
    device_options: &DeviceOptions,
    span: Option<RunLength>,
    executor: &mut Executor,
) -> Result<Outcome> {
    run_jobs(jobfile::parse_args(jobs, &SystemEnvironment)?.jobs, device_options, span, executor)
}

/// The same with jobs that have been read.
///
/// # Errors
/// What is wrong with jobs or devices, an I/O that failed, or that none completed.
pub fn run_jobs(
    jobs: Vec<Job>,
    device_options: &DeviceOptions,
    span: Option<RunLength>,
    executor: &mut Executor,
) -> Result<Outcome> {
    let phases = phases(jobs, span);
    let devices = Devices::attach(device_options, &phases)?;
    let mut finished = Vec::new();
    for phase in phases {
        finished.extend(executor.run(phase, &devices, device_options.seed)?);
    }
    let devices = devices.iter().map(DeviceOutcome::of).collect::<Result<_>>()?;
    finished.retain(|done| done.task.job.name != PREPARATION);
    together(&finished, devices)
}

/// The clones of jobs that run for a while, or as long as they say themselves.
pub fn phases(mut jobs: Vec<Job>, span: Option<RunLength>) -> Vec<Vec<Task>> {
    if let Some(RunLength { ramp, measured }) = span {
        for job in &mut jobs {
            job.ramp_time = Nanos((ramp * 1e9) as u64);
            job.runtime = Some(Nanos((measured * 1e9) as u64));
            job.time_based = true;
        }
    }
    let jobs: Vec<Arc<Job>> = jobs.into_iter().map(Arc::new).collect();
    plan::phases(&jobs)
}

/// The I/O of all clones, over the time of the longest.
fn together(finished: &[FinishedTask], devices: Vec<DeviceOutcome>) -> Result<Outcome> {
    let mut all = IoStats::new();
    for FinishedTask { task, outcome, .. } in finished {
        if let Some(status) = outcome.error {
            bail!("job {}: {status}", task.job.name);
        }
        all.merge(&outcome.stats);
    }
    let (mut ios, mut bytes, mut time) = (0, 0, Nanos(0));
    let mut latencies = Histogram::new();
    for dir in [DataDir::Read, DataDir::Write] {
        ios += all.ios(dir);
        bytes += all.bytes(dir);
        time = time.max(all.runtime(dir));
        latencies.merge(all.clat_histogram(dir));
    }
    if ios == 0 {
        bail!("no I/O completed in the time that is measured");
    }
    let per_second = |count: u64| count as f64 * 1e9 / time.0.max(1) as f64;
    Ok(Outcome { ios: per_second(ios), bytes: per_second(bytes), latencies, devices })
}

/// The processors that this process may use.
pub fn processors() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Does something with each of `items` on so many threads; gives the outcomes in their order.
///
/// # Errors
/// The first item's, of those that fail; what was not begun by then is not done.
pub fn side_by_side<T: Sync, R: Send>(
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

/// The value in the middle, or between the two in the middle.
///
/// # Panics
/// If there is none.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let values = sorted(values);
    let (lower, upper) = ((values.len() - 1) / 2, values.len() / 2);
    (values[lower] + values[upper]) / 2.0
}

/// In rising order.
pub fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn outcomes_are_in_the_order_of_the_items_however_many_threads_there_are() {
        let items: Vec<u64> = (0..50).collect();
        let squares: Vec<u64> = items.iter().map(|item| item * item).collect();
        for workers in [0, 1, 3, 100] {
            let outcomes = side_by_side(workers, &items, |item| Ok(item * item)).unwrap();
            assert_eq!(outcomes, squares);
        }
        assert_eq!(side_by_side(2, &[0_u8; 0], |_| Ok(())).unwrap(), []);
    }

    #[test]
    fn failure_ends_the_work_and_is_told() {
        let items: Vec<u64> = (0..1000).collect();
        let begun = AtomicUsize::new(0);
        let outcome = side_by_side(1, &items, |&item| {
            begun.fetch_add(1, Ordering::Relaxed);
            if item == 3 { Err(anyhow!("three")) } else { Ok(item) }
        });
        assert_eq!(outcome.unwrap_err().to_string(), "three");
        assert_eq!(begun.into_inner(), 4);
    }
}
