//! Runs jobs side by side, one kind disturbing the other.
//!
//! Zone management is rare: a load runs for long enough that some of it completes, and its rate is
//! computed from its latency, not from a handful of completions.
use super::figures::{Figures, Predicted};
use super::interference::{Action, DriveZones, SideJob, SideLoad};
use super::turns::{self, Phase};
use crate::devices::DeviceOptions;
use crate::executor::Executor;
use crate::experiment::{self, RunLength};
use anyhow::{Context, Result};
use zonal_blk::QueueOptions;
use zonal_blk::ZoneWrite;
use zonal_device::device_spec::DeviceSpec;
use zonal_fio::job::DataDir;
use zonal_fio::stats::IoStats;

/// Seconds before anything is measured: the write buffer fills.
const RAMP: f64 = 0.2;
/// Seconds that are measured where no zones are managed.
const MEASURED: f64 = 0.5;
/// Resets that a load should include, of each job that resets, and the longest time that it runs for them,
/// in seconds.
const RESETS: f64 = 8.0;
const LONGEST: f64 = 20.0;
/// Seconds that a reset takes at most: of several jobs, they may be executed one after another.
const RESET: f64 = 0.025;

/// Finishes a second, at least, for the latency of a job that finishes zones: of fewer there are none in
/// [`LONGEST`]. Between two of them the job is idle for longer than a thread polls, as it is with fewer.
const FINISHES: f64 = 0.4;

/// Runs a load on a device with these options and the zones that it needs written. `times` are the
/// seconds of ramp and of measurement, where they are given; it is measured for `least` seconds.
pub(super) fn run(
    load: &SideLoad,
    spec: &DeviceSpec,
    options: DeviceOptions,
    times: [Option<f64>; 2],
    least: f64,
    executor: &mut Executor,
) -> Result<Predicted> {
    let drive = DriveZones::of(spec)?;
    let device_options = DeviceOptions {
        spec: Some(spec.clone().with_written(&load.written(drive))?),
        queue: QueueOptions { zone_write: Some(ZoneWrite::Off), ..QueueOptions::default() },
        scheduler: Some("none".to_owned()),
        ..options
    };
    let [ramp, measured] = times;
    let length =
        RunLength { ramp: ramp.unwrap_or(RAMP), measured: seconds(load, measured).max(least) };
    let mut stats = |load: &SideLoad| -> Result<Vec<IoStats>> {
        let options = load.options(drive)?;
        let mut by_job = experiment::stats_by_job(&options, &device_options, length, executor)?;
        let of_line = |line: usize| by_job.remove(&line.to_string());
        let stats = (0..load.jobs.len()).map(of_line).collect::<Option<_>>();
        stats.context("a job has no results")
    };
    if let Some(phases) = load.phases(drive) {
        let [padding, idle] = phases;
        let jobs = add_up(load, [stats(&padding)?, stats(&idle)?], drive);
        return Ok(Predicted { jobs, ..Predicted::default() });
    }
    let mut by_line = stats(load)?;
    let often = load.with_finishes(FINISHES, drive);
    if often != *load {
        for (line, stats) in stats(&often)?.into_iter().enumerate() {
            if load.jobs[line] != often.jobs[line] {
                by_line[line] = stats;
            }
        }
    }
    let jobs = load.jobs.iter().zip(&by_line).map(|(job, stats)| of_job(job, stats, drive));
    Ok(Predicted { jobs: jobs.collect(), ..Predicted::default() })
}

/// The figures of jobs beside one that pads zones in bursts, from those beside a burst and between two. A
/// burst takes a second or so: far longer than an I/O.
fn add_up(load: &SideLoad, phases: [Vec<IoStats>; 2], drive: DriveZones) -> Vec<Figures> {
    let pads = load.jobs.iter().position(|job| job.is_in_bursts(drive));
    let pads = pads.expect("the load has a job with bursts");
    let asked = load.jobs[pads].most_zones(drive).unwrap_or(0.0);
    let fastest = of_job(&load.jobs[pads], &phases[0][pads], drive).iops;
    let share = (asked / fastest).min(1.0);
    let of_line = |(line, job): (usize, &SideJob)| {
        let phase = |stats: &Vec<IoStats>| Phase {
            figures: of_job(job, &stats[line], drive),
            clat: stats[line].clat_histogram(job.action.direction()).clone(),
        };
        turns::by_time(&[phase(&phases[0]), phase(&phases[1])], share)
    };
    load.jobs.iter().enumerate().map(of_line).collect()
}

/// Seconds for which a load is measured.
fn seconds(load: &SideLoad, asked: Option<f64>) -> f64 {
    let least = |job: &SideJob| match (job.action, job.limit) {
        (Action::Reset, Some(limit)) => (RESETS / limit).min(LONGEST),
        (Action::Reset, None) => RESETS * RESET * f64::from(job.jobs),
        (Action::Finish, _) => LONGEST,
        _ => 0.0,
    };
    let least = load.jobs.iter().map(least).fold(0.0, f64::max);
    asked.unwrap_or(MEASURED).max(least)
}

/// The figures of the jobs of a line.
fn of_job(job: &SideJob, stats: &IoStats, drive: DriveZones) -> Figures {
    let of = |dir| Figures::of(stats, dir);
    let write = of(DataDir::Write);
    // Each job manages one zone after the other.
    let by_latency = |micros: f64| {
        let most = job.most_zones(drive).unwrap_or(f64::INFINITY);
        if micros > 0.0 {
            most.min(f64::from(job.jobs) * 1e6 / micros)
        } else {
            job.most_zones(drive).unwrap_or(0.0)
        }
    };
    match job.action {
        Action::Read => of(DataDir::Read),
        Action::Write | Action::Append => write,
        Action::Reset => {
            let reset = of(DataDir::Trim);
            Figures { iops: by_latency(reset.mean), ..reset }
        }
        Action::Finish => Figures { iops: by_latency(of(DataDir::Trim).mean), ..write },
        Action::Pad => Figures { iops: write.bytes / drive.capacity(), ..write },
    }
}

#[cfg(test)]
mod tests {
    use crate::measurements::{self, Assume, RunOptions};
    use std::sync::Arc;

    fn writes_beside(rows: &str) -> f64 {
        first_rate(&format!("a,reset-on-write,write,8k,4,1,4,,,,1,1,1,1,1,us\n{rows}"))
    }

    /// I/Os a second of the first of these lines.
    fn first_rate(rows: &str) -> f64 {
        let header = "load,kind,op,block,jobs,depth,number,rate,offset,size,iops,mb_s,lat_mean,\
                      lat_p50,lat_p99,unit";
        let cells = format!("{header}\n{rows}");
        let cells = measurements::parse("x", &cells, &Assume::default()).unwrap();
        let spec = zonal_backend::load("zn540").unwrap();
        let (device, stop) = ("zn540".to_owned(), Arc::default());
        let seconds = Some(0.1);
        let run = RunOptions { device, costs: None, seconds, ramp: None, seed: 0, stop };
        let done = measurements::run(&cells.loads[0], &spec, &run).unwrap();
        done.figure(&cells.cells[0])
    }

    #[test]
    fn resets_cost_writes_in_other_zones_a_third_at_thirty_a_second() {
        let alone = writes_beside("");
        let beside = writes_beside("a,reset-on-write,reset,zone,4,1,4,,,,30,1,1,,,us\n");
        assert!((0.55..0.75).contains(&(beside / alone)), "{beside} of {alone}");
    }

    /// A zone is padded for somewhat less than a second, and half a zone a second was asked for.
    #[test]
    fn reads_beside_bursts_of_padding_are_undisturbed_for_half_of_the_time() {
        let read = "a,softfinish-on-read,randread,8k,1,2,2,,,,100,1,1,1,1,us\n";
        let beside = |asked: &str, zones: &str| {
            let pads =
                format!("a,softfinish-on-read,write,4k,1,1,2,\",{asked},\",,,{zones},1,1,1,1,us\n");
            first_rate(&format!("{read}{pads}"))
        };
        let alone = first_rate(read);
        let [always, half] = [beside("2000000000", "1.1"), beside("564000000", "0.5")];
        assert!(always < 0.6 * alone, "{always} of {alone}");
        assert!(
            (half / ((alone + always) / 2.0) - 1.0).abs() < 0.08,
            "{half} of {alone} and {always}"
        );
    }
}
