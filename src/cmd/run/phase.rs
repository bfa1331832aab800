//! Runs the clones of one phase, on either clock.
use super::Finished;
use super::progress::Live;
use crate::cli::{ClockKind, RunArgs};
use crate::cmd::devices::Attached;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use zonal_blk::Nanos;
use zonal_host::{RealClock, Thread};
use zonal_sim::Costs;
use zonal_workload::generate::ZbdTable;
use zonal_workload::job::ZoneMode;
use zonal_workload::plan::{self, Task};
use zonal_workload::runner::{Clock, Runner};

/// The clock and what goes on from phase to phase.
pub enum Machine<'a> {
    Real { args: &'a RunArgs, clock: RealClock, stop: Arc<AtomicBool> },
    Virtual { args: &'a RunArgs, now: Nanos },
}

impl<'a> Machine<'a> {
    /// A machine whose clock begins now.
    pub fn new(args: &'a RunArgs) -> Result<Self> {
        if args.clock == ClockKind::Virtual {
            return Ok(Machine::Virtual { args, now: Nanos(0) });
        }
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))
            .context("cannot handle interrupts")?;
        Ok(Machine::Real { args, clock: RealClock::start(), stop })
    }

    /// Runs all clones of a phase at once and adds what they measured to `finished`.
    pub fn run<'d>(
        &mut self,
        phase: Vec<Task>,
        device_of: impl Fn(&Task) -> &'d Attached,
        finished: &mut Vec<Finished>,
    ) -> Result<()> {
        let seed = self.args().seed;
        let runners = make_runners(&phase, device_of, seed)?;
        let (outcomes, now) = match self {
            Machine::Virtual { args, now } => {
                let costs = Costs { io: Nanos(args.io_cost) };
                let (outcomes, end) = zonal_sim::run(runners, *now, costs)?;
                *now = end;
                (outcomes, end)
            }
            Machine::Real { args, clock, stop } => {
                if stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let online = zonal_host::online_cpus();
                let mut live = Live::new(args.eta, &runners);
                let threads = runners
                    .into_iter()
                    .zip(&phase)
                    .map(|(runner, task)| Thread { runner, cpus: task.cpus(&online) })
                    .collect();
                let outcomes = zonal_host::run(threads, clock, stop, || live.show());
                live.clear();
                (outcomes, clock.now())
            }
        };
        let elapsed = now.0.div_ceil(1_000_000_000);
        let done = phase.into_iter().zip(outcomes);
        finished.extend(done.map(|(task, outcome)| Finished { task, outcome, elapsed }));
        Ok(())
    }

    fn args(&self) -> &'a RunArgs {
        match self {
            Machine::Real { args, .. } | Machine::Virtual { args, .. } => args,
        }
    }

    /// The time of day in milliseconds since 1970; none in virtual time.
    pub fn timestamp_ms(&self) -> Option<u64> {
        match self {
            Machine::Virtual { .. } => None,
            Machine::Real { .. } => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                u64::try_from(since.as_millis()).ok()
            }
        }
    }
}

fn make_runners<'d>(
    phase: &[Task],
    device_of: impl Fn(&Task) -> &'d Attached,
    seed: u64,
) -> Result<Vec<Runner>> {
    let mut tables: BTreeMap<&str, Arc<ZbdTable>> = BTreeMap::new();
    let mut runners = Vec::with_capacity(phase.len());
    for (id, task) in (0..).zip(phase) {
        let device = device_of(task);
        let queue = &device.queue;
        let zbd = match tables.get(device.name.as_str()) {
            _ if task.job.zonemode != ZoneMode::Zbd => None,
            Some(table) => Some(Arc::clone(table)),
            None => {
                let same = |other: &&Task| device_of(other).name == device.name;
                let jobs = phase.iter().filter(same).map(|task| &*task.job);
                let limit = plan::max_open_zones(jobs);
                let table = ZbdTable::new(&**queue.device(), limit)
                    .with_context(|| format!("device {}: zone report", device.name))?;
                let table = Arc::new(table);
                tables.insert(&device.name, Arc::clone(&table));
                Some(table)
            }
        };
        let region = task.region(queue.limits())?;
        let channel = queue.channel().with_context(|| format!("job {}", task.job.name))?;
        runners.push(task.runner(region, channel, zbd, id, seed, device.keeps_data));
    }
    Ok(runners)
}
