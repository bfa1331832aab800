//! Runs jobs on either clock.
//!
//! Takes phases of tasks and the devices that they use; gives what each clone measured. The clock
//! goes on from one phase to the next.
mod progress;

use crate::cli::{ClockKind, Eta};
use crate::devices::{AttachedDevice, Devices};
use anyhow::{Context, Result, bail};
use progress::ProgressLine;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use zonal_blk::{Clock, Nanos};
use zonal_fio::generate::ZbdTable;
use zonal_fio::job::ZoneMode;
use zonal_fio::plan::{self, Task};
use zonal_fio::runner::{Outcome, SteppedBy};
use zonal_fsmodel as fs;
use zonal_host::{RealClock, Thread};
use zonal_sim::CostModel;

/// A clone that has run.
pub struct FinishedTask {
    /// What it was.
    pub task: Task,
    /// What it measured.
    pub outcome: Outcome,
    /// Seconds from the start of the machine to the end of the clone's phase.
    pub elapsed: u64,
}

/// The clock, and what belongs to it.
pub enum Executor {
    /// Real threads.
    Real { clock: RealClock, stop: Arc<AtomicBool>, eta: Eta },
    /// Discrete events.
    Virtual { now: Nanos, costs: CostModel },
}

impl Executor {
    /// A machine whose clock begins now. In virtual time I/Os cost their threads what
    /// `costs` says.
    ///
    /// # Errors
    /// Interrupts cannot be handled; with the real clock they end the jobs, so there can be only
    /// one such machine in a process.
    pub fn new(clock: ClockKind, costs: CostModel, eta: Eta) -> Result<Self> {
        if clock == ClockKind::Virtual {
            return Ok(Executor::Virtual { now: Nanos(0), costs });
        }
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))
            .context("cannot handle interrupts")?;
        Ok(Executor::Real { clock: RealClock::start(), stop, eta })
    }

    /// Runs all clones of a phase at once; none after an interrupt. `seed` is mixed with the jobs'
    /// own.
    ///
    /// # Errors
    /// A clone cannot be made ready, or all wait for one another.
    pub fn run(
        &mut self,
        phase: Vec<Task>,
        devices: &Devices,
        seed: u64,
    ) -> Result<Vec<FinishedTask>> {
        if self.is_stopped() {
            return Ok(Vec::new());
        }
        let (outcomes, now) = match self {
            Executor::Virtual { now, costs } => {
                let runners = make_runners(&phase, devices, seed)?;
                let (outcomes, end) = zonal_sim::run(runners, *now, *costs)?;
                *now = end;
                (outcomes, end.0)
            }
            Executor::Real { clock, stop, eta } => {
                let runners = make_runners(&phase, devices, seed)?;
                let online = zonal_host::online_cpus();
                let mut live = ProgressLine::new(*eta, &runners);
                let leaders = phase.iter().filter(|task| leads(task));
                let threads = runners
                    .into_iter()
                    .zip(leaders)
                    .map(|(runner, task)| Thread { runner, cpus: task.cpus(&online) })
                    .collect();
                let outcomes = zonal_host::run(threads, clock, stop, || live.show());
                live.clear();
                (outcomes, Clock::now(clock).0)
            }
        };
        let elapsed = now.div_ceil(1_000_000_000);
        let done = phase.into_iter().zip(outcomes);
        Ok(done.map(|(task, outcome)| FinishedTask { task, outcome, elapsed }).collect())
    }

    /// Whether there was an interrupt.
    pub fn is_stopped(&self) -> bool {
        match self {
            Executor::Real { stop, .. } => stop.load(Ordering::Relaxed),
            Executor::Virtual { .. } => false,
        }
    }

    /// The time of day in milliseconds since 1970; none in virtual time.
    pub fn timestamp_ms(&self) -> Option<u64> {
        match self {
            Executor::Virtual { .. } => None,
            Executor::Real { .. } => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                u64::try_from(since.as_millis()).ok()
            }
        }
    }
}

/// Whether a task has a runner: of the clones on a file system, the first has that of all.
fn leads(task: &Task) -> bool {
    task.clone == 0 || task.job.fs.kind.is_none()
}

/// The runners of a phase; their clones, in order, are its tasks.
fn make_runners<C: Clock>(
    phase: &[Task],
    devices: &Devices,
    seed: u64,
) -> Result<Vec<Box<dyn SteppedBy<C>>>> {
    let mut tables: BTreeMap<&str, Arc<ZbdTable>> = BTreeMap::new();
    let mut runners: Vec<Box<dyn SteppedBy<C>>> = Vec::with_capacity(phase.len());
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
            let disk = |disk: &AttachedDevice| fs::Disk {
                queue: Arc::clone(&disk.queue),
                keeps_data: disk.keeps_data,
            };
            let disks: Vec<fs::Disk> = devices.disks_of(task).iter().map(disk).collect();
            let runner = fs::mount(&task.job, task.index, &disks, seed)?;
            runners.push(Box::new(runner));
            continue;
        }
        let queue = &device.queue;
        let zone_report = || format!("device {}: zone report", device.name);
        let zbd = match tables.get(device.name.as_str()) {
            _ if task.job.zonemode != ZoneMode::Zbd => None,
            // What it writes is written already: it knows nothing of the zones' state now.
            _ if task.job.verify.only => {
                let limit = plan::max_open_zones(std::iter::once(&*task.job));
                let table =
                    ZbdTable::all_empty(&**queue.device(), limit).with_context(zone_report)?;
                Some(Arc::new(table))
            }
            Some(table) => Some(Arc::clone(table)),
            None => {
                let same = |other: &&Task| devices.of(other).name == device.name;
                let jobs = phase.iter().filter(same).map(|task| &*task.job);
                let limit = plan::max_open_zones(jobs);
                let table = ZbdTable::new(&**queue.device(), limit).with_context(zone_report)?;
                let table = Arc::new(table);
                tables.insert(&device.name, Arc::clone(&table));
                Some(table)
            }
        };
        let region = task.region(queue.limits())?;
        let channel = queue.channel().with_context(|| format!("job {}", task.job.name))?;
        let runner = task.runner(region, channel, zbd, id, seed, device.keeps_data);
        runners.push(Box::new(runner));
    }
    Ok(runners)
}
