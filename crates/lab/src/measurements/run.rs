//! Runs one load on a device of its own, in virtual time.
use super::figures::{Figures, Predicted, percentiles};
use super::side_by_side;
use super::turns::{self, Phase};
use super::{JobLoad, Load, LoadKind, NamedLoad, SideLoad};
use crate::devices::DeviceOptions;
use crate::executor::Executor;
use crate::experiment::{self, RunLength};
use crate::zone::{ScriptStep, SyncChannel};
use anyhow::{Context, Result, ensure};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use zonal_backend::Stack;
use zonal_blk::{Bytes, Nanos, Op, QueueOptions, ZoneNo, ZoneWrite};
use zonal_device::device_spec::{DeviceSpec, WrittenZones};
use zonal_fio::job::{DataDir, Job, Rw};
use zonal_fio::jobfile::{self, MemoryEnvironment};
pub use zonal_fio::stats::PERCENTILES;
use zonal_fio::stats::{Histogram, IoStats};
use zonal_sim::{CostModel, HostCost};

/// How often a zone management operation is measured, each time in another zone.
const REPEATS: u32 = 20;
/// Time before a zone management operation, in which the flash programs what is left in the buffer.
const SETTLE: Nanos = Nanos(20_000_000);

/// How loads run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The name of the device.
    pub device: String,
    /// The cost of I/O for the host; `None` for the costs of the host that a load names.
    pub costs: Option<CostModel>,
    /// Virtual seconds that are measured per load, at least; `None` for those that suit the device.
    pub seconds: Option<f64>,
    /// Virtual seconds before that, at least; `None` for those that suit the device.
    pub ramp: Option<f64>,
    /// The seed of the jobs and of the device.
    pub seed: u64,
    /// Set to end early, with [`Interrupted`].
    pub stop: Arc<AtomicBool>,
}

/// A load was ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

impl RunOptions {
    /// An executor that runs jobs until they are done or the run is ended early.
    fn executor(&self, costs: CostModel) -> Executor {
        Executor::interruptible(costs, Arc::clone(&self.stop), Box::new(()))
    }
}

/// How long a device takes to become steady.
struct Pace {
    /// Seconds at the beginning that are not measured: the write buffer fills.
    ramp: f64,
    /// Seconds that are measured, unless told otherwise.
    measured: f64,
    /// Bytes per second that it takes at least: what is in flight at the start has to pass before
    /// anything is measured.
    slow: f64,
    /// Seconds that are measured at least, whatever is asked for.
    least: f64,
}

/// Units of each zone that sequential reads go past while they are measured: zones that meet on a
/// die slow each other down until one of them is past its unit there.
const UNITS: f64 = 100.0;
/// Sequential reads a second of one zone, where short ones are many.
const READS_OF_A_ZONE: f64 = 40e3;

/// Times that a drive writes for itself while it is measured: the writes that wait for it are rare.
const LOGS: f64 = 3.0;
/// Bytes per second that a flash drive writes at least.
const FLASH_RATE: f64 = 1e9;

/// Seconds in which a drive that is written all the time writes for itself [`LOGS`] times.
fn seconds_of_logs(spec: &DeviceSpec) -> f64 {
    LOGS * spec.config().log_interval().0 as f64 / FLASH_RATE
}

impl Pace {
    fn of(spec: &DeviceSpec, writes: bool) -> Self {
        if spec.is_rotational() {
            Pace { ramp: 6.0, measured: 60.0, slow: 50e6, least: 0.0 }
        } else {
            let least = if writes { seconds_of_logs(spec) } else { 0.0 };
            Pace { ramp: 0.3, measured: 1.0, slow: FLASH_RATE, least }
        }
    }

    /// The same for a load by name: reads fill no buffer.
    fn of_named(spec: &DeviceSpec, load: &NamedLoad) -> Self {
        let pace = Pace::of(spec, !matches!(load.kind, LoadKind::Read { .. }));
        match (spec.config().program_unit(), &load.kind) {
            (Some(unit), LoadKind::Read { random, .. }) => {
                let reads = UNITS * unit.0 as f64 / load.block as f64;
                let least = reads / READS_OF_A_ZONE;
                Pace { ramp: 0.02, least: if *random { 0.0 } else { least }, ..pace }
            }
            _ => pace,
        }
    }

    /// A device takes the longer to become steady the more is in flight.
    fn length(&self, options: &RunOptions, bytes_in_flight: u64) -> RunLength {
        let turn = 2.0 * bytes_in_flight as f64 / self.slow;
        RunLength {
            ramp: options.ramp.unwrap_or(self.ramp) + turn,
            measured: options.seconds.unwrap_or(self.measured).max(self.least) + turn,
        }
    }
}

/// Runs a load.
///
/// # Errors
/// The host is not known, the load cannot run on the device, or it was [`Interrupted`].
pub fn run(load: &Load, spec: &DeviceSpec, options: &RunOptions) -> Result<Predicted> {
    let costs = match options.costs {
        Some(costs) => costs,
        None => HostCost::named(load.driver()).map(CostModel::Host).with_context(|| {
            let (found, known) = (load.driver(), HostCost::names());
            let hint = zonal_blk::did_you_mean_of(found, &known);
            format!("driver: found `{found}`, expected {known}, or give --host-cost{hint}")
        })?,
    };
    let stats = match load {
        Load::Named(load) => {
            let spec = spec.clone().with_lba(load.lba)?;
            match load.kind {
                LoadKind::Management(_) => return manage(load, spec),
                _ if load.merges_in_turns() => return run_in_turns(load, &spec, costs, options),
                _ => run_named(load, spec, costs, options, load.merges()),
            }
        }
        Load::Jobs(load) => run_jobs(load, spec, costs, options),
        Load::SideBySide(load) => return run_side_by_side(load, spec, costs, options),
    };
    ensure!(!options.stop.load(Ordering::Relaxed), Interrupted);
    let stats = stats?;
    let [read, write, trim] =
        [DataDir::Read, DataDir::Write, DataDir::Trim].map(|dir| Figures::of(&stats, dir));
    let figures = [read, write, trim, Figures::of_all(&stats)];
    Ok(Predicted { figures, ..Predicted::default() })
}

fn run_side_by_side(
    load: &SideLoad,
    spec: &DeviceSpec,
    costs: CostModel,
    options: &RunOptions,
) -> Result<Predicted> {
    let device = Some(options.device.clone());
    let own = DeviceOptions { device, seed: options.seed, ..DeviceOptions::default() };
    let times = [options.ramp, options.seconds];
    let done = side_by_side::run(
        load,
        spec,
        own,
        times,
        seconds_of_logs(spec),
        &mut options.executor(costs),
    );
    ensure!(!options.stop.load(Ordering::Relaxed), Interrupted);
    done
}

fn run_named(
    load: &NamedLoad,
    spec: DeviceSpec,
    costs: CostModel,
    options: &RunOptions,
    merge: bool,
) -> Result<IoStats> {
    let scheduled = load.is_scheduled();
    let length = Pace::of_named(&spec, load).length(options, load.bytes_in_flight());
    let device_options = DeviceOptions {
        device: Some(options.device.clone()),
        spec: Some(spec.with_written(&WrittenZones::all())?),
        queue: QueueOptions {
            zone_write: scheduled.then_some(ZoneWrite::Lock),
            merge,
            ..QueueOptions::default()
        },
        scheduler: Some(if scheduled { "mq-deadline" } else { "none" }.to_owned()),
        seed: options.seed,
        ..DeviceOptions::default()
    };
    experiment::stats(&load.jobs(), &device_options, length, &mut options.executor(costs))
}

/// Runs a load that is merged in every second zone.
fn run_in_turns(
    load: &NamedLoad,
    spec: &DeviceSpec,
    costs: CostModel,
    options: &RunOptions,
) -> Result<Predicted> {
    let capacity = spec.config().zone_capacity();
    let ios = u64::from(load.zones) * (capacity.0 / load.block);
    let phase = |merge| -> Result<Phase> {
        let stats = run_named(load, spec.clone(), costs, options, merge)?;
        let clat = stats.clat_histogram(DataDir::Write).clone();
        Ok(Phase { figures: Figures::of(&stats, DataDir::Write), clat })
    };
    let write = turns::in_turns([phase(false)?, phase(true)?], ios as f64);
    let figures = [Figures::default(), write.clone(), Figures::default(), write];
    Ok(Predicted { figures, ..Predicted::default() })
}

fn run_jobs(
    load: &JobLoad,
    spec: &DeviceSpec,
    costs: CostModel,
    options: &RunOptions,
) -> Result<IoStats> {
    let jobs = jobfile::parse_args(&load.options, &MemoryEnvironment::default())?.jobs;
    let in_flight = |job: &Job| {
        let block = job.bs.into_iter().max().unwrap_or(0);
        block.saturating_mul(u64::from(job.iodepth)).saturating_mul(u64::from(job.numjobs))
    };
    let in_flight = jobs.iter().map(in_flight).fold(0, u64::saturating_add);
    let writes = jobs.iter().any(|job| job.rw != Rw::Read);
    let length = Pace::of(spec, writes).length(options, in_flight);
    // There has to be something to read.
    let reads = jobs.iter().any(|job| matches!(job.rw, Rw::Read | Rw::Mixed));
    let spec = if reads { spec.clone().with_data()? } else { spec.clone() };
    let device_options = DeviceOptions {
        device: Some(options.device.clone()),
        spec: Some(spec),
        queue: QueueOptions { zone_write: load.zone_write, ..QueueOptions::default() },
        scheduler: load.scheduler.clone(),
        seed: options.seed,
        ..DeviceOptions::default()
    };
    experiment::stats(&load.options, &device_options, length, &mut options.executor(costs))
}

/// Measures a zone management operation in several zones, one after the other.
fn manage(load: &NamedLoad, spec: DeviceSpec) -> Result<Predicted> {
    let (&op, before) = load.kind.steps().split_last().expect("an operation has a step");
    // How much is written before a close is not said; an empty zone is finished and reset, too.
    let written = if op == Op::ZoneClose { load.block.max(4096) } else { load.block };
    let device = Stack::create("device", &spec, 1)?.attach(QueueOptions::default())?;
    let limits = device.queue.limits().clone();
    let mut channel = SyncChannel::new(&device)?;
    let mut latencies = Histogram::new();
    let mut sum = Nanos(0);
    for zone in 0..REPEATS.min(limits.nr_zones) {
        let sector = limits.zone_start(ZoneNo(zone));
        for step in before.iter().filter(|step| **step != Op::Write || written > 0) {
            let length = if *step == Op::Write { Bytes(written).to_sectors().0 } else { 0 };
            channel.run_step(&ScriptStep { op: *step, sector, length })?;
        }
        channel.pass(SETTLE);
        let start = channel.now();
        channel.run_step(&ScriptStep { op, sector, length: 0 })?;
        let took = channel.now() - start;
        latencies.record(took.0, 1);
        sum += took;
        if op != Op::ZoneReset {
            channel.run_step(&ScriptStep { op: Op::ZoneReset, sector, length: 0 })?;
        }
    }
    let mean = sum.0 as f64 / latencies.total() as f64 / 1e3;
    let percentiles = percentiles(&latencies);
    let write = Figures { iops: 1e6 / mean, bytes: 0.0, mean, percentiles };
    let mut figures: [Figures; 4] = Default::default();
    figures[DataDir::Write as usize] = write;
    Ok(Predicted { figures, ..Predicted::default() })
}
