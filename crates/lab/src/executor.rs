//! Runs phases of tasks, in real or in virtual time.
use crate::devices::Devices;
use crate::independent::{Simulations, independent_sets};
use crate::jobs::{self, JobThread};
use crate::progress::{JobProgress, PhaseProgress};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use zonal_backend::Stack;
use zonal_blk::{Clock, Device, Nanos, Status};
use zonal_fio::generate::{Region, ZbdTable};
use zonal_fio::job::{DataDir, Job, ZoneMode};
use zonal_fio::logs::Logs;
use zonal_fio::plan::{self, Task};
use zonal_fio::runner::{ClockedRunner, Flow, FlowTotals, Outcome};
use zonal_fsmodel as fs;
use zonal_os::RealClock;
use zonal_sim::CostModel;

/// The time in which jobs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockKind {
    /// Real threads in real time.
    Real,
    /// Discrete events in virtual time.
    Virtual,
}

impl ClockKind {
    /// As reports write it.
    pub fn name(self) -> &'static str {
        match self {
            ClockKind::Real => "real",
            ClockKind::Virtual => "virtual",
        }
    }

    /// The time of day in milliseconds since 1970; none in virtual time.
    pub fn timestamp_ms(self) -> Option<u64> {
        match self {
            ClockKind::Virtual => None,
            ClockKind::Real => unix_ms(),
        }
    }
}

/// A clone that has run.
pub struct FinishedTask {
    /// The clone.
    pub task: Task,
    /// Its measurements.
    pub outcome: Outcome,
    /// Seconds from the start of the executor to the end of the clone's phase.
    pub elapsed: u64,
}

/// A clock, and what runs jobs by it. The clock goes on from one phase to the next.
pub enum Executor {
    /// Real threads.
    Real {
        /// The clock.
        clock: RealClock,
        /// Set to stop the jobs.
        stop: Arc<AtomicBool>,
        /// Shows how far the jobs of a phase are.
        progress: Box<dyn JobProgress>,
    },
    /// Discrete events.
    Virtual {
        /// The clock.
        now: Nanos,
        /// The cost of an I/O for the thread that submits it.
        costs: CostModel,
        /// The most processors for jobs that share nothing.
        workers: usize,
        /// Set to stop the jobs.
        stop: Arc<AtomicBool>,
        /// Shows how far the jobs of a phase are.
        progress: Box<dyn JobProgress>,
    },
}

impl Executor {
    /// An executor whose virtual clock stands at 0.
    pub fn virtual_time(costs: CostModel) -> Self {
        Executor::interruptible(costs, Arc::default(), Box::new(()))
    }

    /// An executor whose virtual clock stands at 0. Its jobs run until they are done or `stop` is set.
    pub fn interruptible(
        costs: CostModel,
        stop: Arc<AtomicBool>,
        progress: Box<dyn JobProgress>,
    ) -> Self {
        Executor::Virtual { now: Nanos(0), costs, workers: 1, stop, progress }
    }

    /// The same with this many processors for jobs that share nothing in virtual time. Their number changes
    /// no result.
    #[must_use]
    pub fn on_processors(mut self, processors: usize) -> Self {
        if let Executor::Virtual { workers, .. } = &mut self {
            *workers = processors;
        }
        self
    }

    /// An executor whose real clock begins now. Its jobs run until they are done or `stop` is set.
    pub fn real_time(stop: Arc<AtomicBool>, progress: Box<dyn JobProgress>) -> Self {
        Executor::Real { clock: RealClock::start(), stop, progress }
    }

    /// Runs all clones of a phase at the same time; none once `stop` is set. `seed` is mixed with the jobs'
    /// own. With `one_clock` all have the same time even if they share nothing, for a trace of all devices.
    ///
    /// # Errors
    /// A clone cannot be made ready, or all wait for one another.
    pub fn run(
        &mut self,
        phase: Vec<Task>,
        devices: &Devices,
        seed: u64,
        one_clock: bool,
    ) -> Result<Vec<FinishedTask>> {
        if self.is_stopped() {
            return Ok(Vec::new());
        }
        let (outcomes, now) = match self {
            Executor::Virtual { now, costs, workers, stop, progress } => {
                let runners = make_runners(&phase, devices, seed)?;
                let start = *now;
                progress.start(phase_progress(&runners, start));
                let simulations = Simulations {
                    start,
                    costs: *costs,
                    steps: progress.steps(),
                    is_stopped: &|| stop.load(Ordering::Relaxed),
                };
                let together = one_clock || progress.has_one_clock();
                let sets = match together || costs.are_too_many(runners.len()) {
                    true => vec![(0..phase.len()).collect()],
                    false => independent_sets(&phase, devices),
                };
                let leaders = (0..).zip(&phase).filter(|(_, task)| leads(task)).map(|(at, _)| at);
                let runners = leaders.zip(runners).collect();
                let update = |elapsed| progress.update(elapsed);
                let (outcomes, end) = simulations.run(runners, &sets, *workers, update)?;
                progress.finish();
                *now = end;
                (outcomes, end.0)
            }
            Executor::Real { clock, stop, progress } => {
                let runners = make_runners(&phase, devices, seed)?;
                let allowed = zonal_os::allowed_cpus();
                let start = Clock::now(clock);
                progress.start(phase_progress(&runners, start));
                let leaders = phase.iter().filter(|task| leads(task));
                let threads = runners
                    .into_iter()
                    .zip(leaders)
                    .map(|(runner, task)| JobThread {
                        runner,
                        cpus: task.cpus(&allowed),
                        name: task.job.report.comm.clone(),
                    })
                    .collect();
                let outcomes = jobs::run(threads, clock, stop, || {
                    progress.update(Clock::now(clock) - start);
                })
                .context("cannot start the threads of the jobs")?;
                progress.finish();
                (outcomes, Clock::now(clock).0)
            }
        };
        let elapsed = now.div_ceil(1_000_000_000);
        let finished = phase.into_iter().zip(outcomes);
        Ok(finished.map(|(task, outcome)| FinishedTask { task, outcome, elapsed }).collect())
    }

    /// Sets a virtual clock to 0, for jobs on devices of their own. Returns whether it is virtual.
    pub fn rewind(&mut self) -> bool {
        match self {
            Executor::Real { .. } => false,
            Executor::Virtual { now, .. } => {
                *now = Nanos(0);
                true
            }
        }
    }

    /// Whether `stop` is set.
    pub fn is_stopped(&self) -> bool {
        match self {
            Executor::Real { stop, .. } | Executor::Virtual { stop, .. } => {
                stop.load(Ordering::Relaxed)
            }
        }
    }
}

/// The time of day in milliseconds since 1970.
pub(crate) fn unix_ms() -> Option<u64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).ok()
}

/// State that jobs on the same zoned device share.
fn zbd_table(device: &dyn Device, jobs: &[&Job]) -> Result<ZbdTable, Status> {
    let limit = plan::max_open_zones(jobs.iter().copied());
    let mut table = ZbdTable::new(device, limit)?;
    if jobs.iter().any(|job| job.zbd.ignore_limits) {
        table = table.ignoring_device_limit(limit);
    }
    if jobs.iter().any(|job| job.zbd.reset_frequency.millionths() > 0) {
        table = table.counting_data();
    }
    Ok(table)
}

/// Checks that the zones have the capacity that the job gives, and that jobs with `zone_reset_threshold`
/// count the data of the same zones.
fn check_zones(job: &Job, zbd: &ZbdTable, region: Region) -> Result<()> {
    let capacities = job.zbd.capacity.zip(zbd.zone_capacity(region));
    if let Some((wanted, found)) = capacities.filter(|(wanted, found)| wanted != found) {
        bail!(
            "job {}: zonecapacity: {wanted} bytes, but that of the device's zones is {found}",
            job.name
        );
    }
    let resets = job.zbd.reset_frequency.millionths() > 0 && job.uses(DataDir::Write);
    if resets && !zbd.has_one_reset_region(region) {
        bail!(
            "job {}: zone_reset_threshold: found bytes {} to {}, expected the region of the job or clone \
             before that has it too",
            job.name,
            region.start,
            region.end
        );
    }
    Ok(())
}

/// The progress of runners that are about to run.
fn phase_progress<C: Clock>(runners: &[Box<dyn ClockedRunner<C>>], begin: Nanos) -> PhaseProgress {
    PhaseProgress {
        begin,
        jobs: runners.iter().map(|runner| runner.progress()).collect(),
        total: runners.iter().try_fold(0, |sum, runner| Some(sum + runner.total()?)),
        time_limit: runners.iter().map(|runner| runner.time_limit()).max().flatten(),
    }
}

/// Whether a task has a runner of its own: the clones on a file system share that of the first.
fn leads(task: &Task) -> bool {
    task.clone == 0 || task.job.fs.kind.is_none()
}

/// The runners of a phase; their clones, in order, are its tasks.
fn make_runners<C: Clock>(
    phase: &[Task],
    devices: &Devices,
    seed: u64,
) -> Result<Vec<Box<dyn ClockedRunner<C>>>> {
    let mut tables: BTreeMap<&str, Arc<ZbdTable>> = BTreeMap::new();
    let mut flows: BTreeMap<u32, Arc<FlowTotals>> = BTreeMap::new();
    let standstill = Arc::default();
    let mut runners: Vec<Box<dyn ClockedRunner<C>>> = Vec::with_capacity(phase.len());
    for (id, task) in (0..).zip(phase).filter(|(_, task)| leads(task)) {
        let device = devices.of(task);
        if task.job.fs.kind.is_some() {
            let name = &device.name;
            let same = |other: &&Task| devices.of(other).name == *name && other.index != task.index;
            if let Some(other) = phase.iter().find(same) {
                bail!(
                    "job {}: filesystem: job {} uses the device {name} at the same time",
                    task.job.name,
                    other.job.name
                );
            }
            let disk = |disk: &Stack| fs::Disk {
                queue: Arc::clone(&disk.queue),
                keeps_data: disk.keeps_data,
            };
            let disks: Vec<fs::Disk> = devices.disks_of(task).iter().map(disk).collect();
            let mut runner = fs::mount(&task.job, task.index, &disks, seed)?;
            let clones = phase.iter().filter(|other| other.index == task.index);
            runner.set_logs(clones.map(|clone| Logs::new(&clone.job, &clone.logs)));
            runners.push(Box::new(runner));
            continue;
        }
        let queue = &device.queue;
        let zone_report = || format!("device {}: zone report", device.name);
        let zbd = match tables.get(device.name.as_str()) {
            _ if task.job.zonemode != ZoneMode::Zbd => None,
            // Verification replays the writes from empty zones, whatever the zones hold by now.
            _ if task.job.verify.only => {
                let limit = plan::max_open_zones(std::iter::once(&*task.job));
                let table =
                    ZbdTable::all_empty(&**queue.device(), limit).with_context(zone_report)?;
                Some(Arc::new(table))
            }
            Some(table) => Some(Arc::clone(table)),
            None => {
                let same = |other: &&Task| devices.of(other).name == device.name;
                let jobs: Vec<&Job> = phase.iter().filter(same).map(|task| &*task.job).collect();
                let table = zbd_table(&**queue.device(), &jobs).with_context(zone_report)?;
                let table = devices.zones_after_last_phase(&device.name, table);
                tables.insert(&device.name, Arc::clone(&table));
                Some(table)
            }
        };
        let region = task.region(queue.limits())?;
        if let Some(zbd) = &zbd {
            check_zones(&task.job, zbd, region)?;
        }
        let channel = queue.channel().with_context(|| format!("job {}", task.job.name))?;
        let mut runner = task.runner(region, channel, zbd, id, seed, device.keeps_data);
        runner.set_standstill(&standstill);
        if task.job.flow > 0 {
            let totals = flows.entry(task.job.flow_id).or_default();
            runner.set_flow(Flow::join(totals, task.job.flow));
        }
        runners.push(Box::new(runner));
    }
    Ok(runners)
}
