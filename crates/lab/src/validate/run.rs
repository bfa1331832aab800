//! Runs one load on a device of its own, in virtual time.
use super::ValidateOptions;
use super::cells::Metric;
use super::load::{Load, LoadKind};
use crate::devices::{self, DeviceOptions};
use crate::executor::Executor;
use crate::experiment::{self, RunLength};
use crate::zone::{Step, SyncChannel};
use anyhow::{Context, Result};
use zonal_blk::{Bytes, Nanos, Op, QueueOptions, ZoneNo, ZoneWrite};
use zonal_device::device_spec::{DeviceSpec, Written};
use zonal_fio::job::DataDir;
use zonal_fio::stats::{Histogram, IoStats};
use zonal_sim::{CostModel, HostCost};

/// Time at the beginning that is not measured: the write buffer fills.
const RAMP: f64 = 0.2;
/// Bytes per second that a drive takes at least: what is in flight at the start has to pass before
/// anything is measured.
const SLOW_DRIVE: f64 = 1e9;
/// How often a zone management operation is measured, each time in another zone.
const REPEATS: u32 = 20;
/// Time between two zone management operations.
const SETTLE: Nanos = Nanos(1_000_000);

/// What the model did in one direction, in the unit of each metric.
#[derive(Clone, Debug, Default)]
struct Figures {
    iops: f64,
    mean: f64,
    percentiles: [f64; 3],
}

/// What the model did under a load.
#[derive(Clone, Debug, Default)]
pub(super) struct Predicted {
    read: Figures,
    write: Figures,
}

impl Predicted {
    /// A figure; 0 in a direction in which nothing was done.
    pub(super) fn figure(&self, dir: DataDir, metric: Metric) -> f64 {
        let figures = if dir == DataDir::Read { &self.read } else { &self.write };
        match metric {
            Metric::Iops => figures.iops,
            Metric::LatMean => figures.mean,
            Metric::LatP50 => figures.percentiles[0],
            Metric::LatP99 => figures.percentiles[1],
            Metric::LatP999 => figures.percentiles[2],
        }
    }
}

fn percentiles(histogram: &Histogram) -> [f64; 3] {
    let found = histogram.percentiles(&[50.0, 99.0, 99.9]);
    std::array::from_fn(|at| found[at] as f64 / 1e3)
}

/// Runs a load.
pub(super) fn run(load: &Load, spec: &DeviceSpec, options: &ValidateOptions) -> Result<Predicted> {
    let host = match options.host {
        Some(host) => host,
        None => HostCost::named(&load.driver).with_context(|| {
            let (found, known) = (&load.driver, HostCost::names());
            format!("driver: found `{found}`, expected {known}, or give --host-cost")
        })?,
    };
    let spec = spec.clone().with_lba(load.lba)?;
    match load.kind {
        LoadKind::Management(_) => manage(load, spec),
        _ => run_jobs(load, spec, host, options),
    }
}

fn run_jobs(
    load: &Load,
    spec: DeviceSpec,
    host: HostCost,
    options: &ValidateOptions,
) -> Result<Predicted> {
    let scheduled = load.is_scheduled();
    let device_options = DeviceOptions {
        device: Some(options.device.clone()),
        spec: Some(spec.with_written(Written::all())?),
        queue: QueueOptions {
            zone_write: scheduled.then_some(ZoneWrite::Lock),
            merge: load.merges(),
            ..QueueOptions::default()
        },
        scheduler: Some(if scheduled { "mq-deadline" } else { "none" }.to_owned()),
        seed: options.seed,
        ..DeviceOptions::default()
    };
    let turn = load.bytes_in_flight() as f64 / SLOW_DRIVE;
    let length = RunLength { ramp: RAMP + 2.0 * turn, measured: options.seconds + 2.0 * turn };
    let mut executor = Executor::virtual_time(CostModel::Host(host));
    let stats = experiment::stats(&load.jobs(), &device_options, length, &mut executor)?;
    Ok(Predicted { read: figures(&stats, DataDir::Read), write: figures(&stats, DataDir::Write) })
}

fn figures(stats: &IoStats, dir: DataDir) -> Figures {
    if stats.ios(dir) == 0 {
        return Figures::default();
    }
    Figures {
        iops: stats.ios(dir) as f64 * 1e9 / stats.runtime(dir).0.max(1) as f64,
        mean: stats.lat(dir).mean() / 1e3,
        percentiles: percentiles(stats.clat_histogram(dir)),
    }
}

/// Measures a zone management operation in several zones, one after the other.
fn manage(load: &Load, spec: DeviceSpec) -> Result<Predicted> {
    let (&op, before) = load.kind.steps().split_last().expect("an operation has a step");
    let device = devices::create("device", &spec)?.attach(QueueOptions::default(), 1)?;
    let limits = device.queue.limits().clone();
    let mut channel = SyncChannel::new(&device)?;
    let mut latencies = Histogram::new();
    let mut sum = Nanos(0);
    for zone in 0..REPEATS.min(limits.nr_zones) {
        let sector = limits.zone_start(ZoneNo(zone));
        for &op in before {
            let length =
                if op == Op::Write { Bytes(load.block.max(4096)).to_sectors().0 } else { 0 };
            channel.run_step(&Step { op, sector, length })?;
        }
        channel.pass(SETTLE);
        let start = channel.now();
        channel.run_step(&Step { op, sector, length: 0 })?;
        let took = channel.now() - start;
        latencies.record(took.0, 1);
        sum += took;
        if op != Op::ZoneReset {
            channel.run_step(&Step { op: Op::ZoneReset, sector, length: 0 })?;
        }
    }
    let mean = sum.0 as f64 / latencies.total() as f64 / 1e3;
    let write = Figures { iops: 1e6 / mean, mean, percentiles: percentiles(&latencies) };
    Ok(Predicted { write, read: Figures::default() })
}
