//! Any job over any axes: queue depths, block sizes, schedulers, policies, devices.
//!
//! ```text
//!  axes (--vary, or a file) ---> points ---> a load for each point and seed ---> samples ---> Sweep
//!                                                   |       ^                                   |
//!                                                   +-- journal (--resume)      text, CSV, JSON, page, plots
//! ```
//!
//! Each sample has devices of its own. In virtual time it depends on the load and the seed alone, so
//! samples are taken in parallel; in real time one after another.
mod axis;
mod export;
pub mod file;
mod journal;
mod metric;
mod search;
mod text;

pub use crate::experiment::PERCENTILES;
pub use axis::{Axis, Target};
pub use export::{csv, html, json, plots};
pub use metric::Metric;
pub use search::{MAX_POINTS, Search, points};
pub use text::text;

use crate::devices::DeviceOptions;
use crate::estimate::Estimate;
use crate::executor::{ClockKind, Executor};
use crate::experiment::{self, LoadError, Outcome, Part, Settling, available_cpus, parallel_map};
use crate::progress::StepProgress;
use anyhow::{Context, Result, bail, ensure};
use journal::Journal;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use zonal_backend::Notices;
use zonal_blk::{QueueOptions, ZoneWrite};
use zonal_fio::job::Job;
use zonal_fio::jobfile::{self, WithText};
use zonal_fio::stats::Histogram;
use zonal_sim::CostModel;

/// The name of a job file that is a text of [`SweepOptions`].
pub const JOBS: &str = "<jobs>";

/// The options to vary, and the ones that stay.
#[derive(Clone, Debug)]
pub struct SweepOptions {
    /// The axes; the last axis changes fastest.
    pub axes: Vec<Axis>,
    /// The device of all jobs; `None` for their own, or an axis.
    pub device: Option<String>,
    /// The scheduler of all devices; `None` for that of the jobs, or an axis.
    pub scheduler: Option<String>,
    /// The zone-write policy; `None` for the device's default, or an axis.
    pub zone_write: Option<ZoneWrite>,
    /// Samples of each point.
    pub seeds: u32,
    /// The seed of the first sample; each further one has the next.
    pub seed: u64,
    /// Seconds of the clock for each sample, the beginning of which is left out; `None` to run as the
    /// jobs say.
    pub seconds: Option<f64>,
    /// The clock.
    pub clock: ClockKind,
    /// The cost of an I/O for its thread in virtual time.
    pub io_cost: CostModel,
    /// Which combinations are measured.
    pub search: Search,
    /// By what they are compared.
    pub metric: Option<Metric>,
    /// The text of the job file [`JOBS`], if the arguments name it.
    pub job_text: Option<String>,
    /// An error at one point is its result, as is an I/O that fails.
    pub goes_on: bool,
    /// A file that keeps the samples.
    pub resume: Option<PathBuf>,
    /// Receives notices about devices.
    pub notices: Notices,
}

/// The measurements at a point with a seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The seed.
    pub seed: u64,
    /// I/Os a second.
    pub iops: f64,
    /// Bytes a second.
    pub bytes: f64,
    /// [`PERCENTILES`] of the completion latencies in nanoseconds.
    pub latencies: [u64; PERCENTILES.len()],
    /// The same of each job and direction.
    pub jobs: Vec<JobFigures>,
    /// How the beginning was left out, if it was.
    pub settling: Option<Settling>,
    /// Jobs that did no I/O, and why: the figures are those of the others, and the point has failed.
    pub without_io: Vec<String>,
    /// Remarks about jobs that read what was never written, whose figures say nothing of the drive.
    pub reads_of_nothing: Vec<String>,
}

/// The figures of a job in one direction, as those of a [`Sample`].
#[derive(Clone, Debug, PartialEq)]
pub struct JobFigures {
    /// The job.
    pub job: String,
    /// `read` or `write`.
    pub direction: String,
    /// I/Os a second.
    pub iops: f64,
    /// Bytes a second.
    pub bytes: f64,
    /// [`PERCENTILES`] of the completion latencies in nanoseconds.
    pub latencies: [u64; PERCENTILES.len()],
}

/// A sample, or why there is none: an I/O failed, or there was none.
type Measured = Result<Sample, String>;

/// A combination of values.
#[derive(Clone, Debug)]
pub struct Point {
    /// For each axis, the index of its value.
    pub at: Vec<usize>,
    /// The measurements.
    pub samples: Vec<Sample>,
    /// Why a sample failed, or which jobs did no I/O in one.
    pub failure: Option<String>,
}

/// A sweep that was measured, or that was interrupted.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// How it was measured.
    pub options: SweepOptions,
    /// All points; those that were not reached have no samples.
    pub points: Vec<Point>,
    /// The jobs as arguments; `None` if they were read from standard input.
    pub jobs: Option<String>,
    /// It was interrupted.
    pub is_interrupted: bool,
}

impl Sample {
    fn to_json(&self) -> Value {
        json!({
            "seed": self.seed,
            "iops": self.iops,
            "bytes_per_second": self.bytes,
            "clat_ns": self.latencies,
            "jobs": self.jobs.iter().map(JobFigures::to_json).collect::<Vec<_>>(),
            "left_out_seconds": self.settling.map(|settling| settling.left_out),
            "steady": self.settling.map(|settling| settling.is_steady),
        })
    }

    /// As [`Sample::to_json`], but with rates as text, which is read back exactly.
    fn to_exact_json(&self) -> Value {
        let mut value = self.to_json();
        make_exact(&mut value, self.iops, self.bytes);
        for (value, job) in value["jobs"].as_array_mut().into_iter().flatten().zip(&self.jobs) {
            make_exact(value, job.iops, job.bytes);
        }
        value["without_io"] = self.without_io.clone().into();
        value["reads_of_nothing"] = self.reads_of_nothing.clone().into();
        value
    }

    /// Reads [`Sample::to_exact_json`].
    fn from_json(value: &Value) -> Option<Self> {
        let lines = |name: &str| -> Option<Vec<String>> {
            let lines = value[name].as_array()?.iter();
            lines.map(|line| Some(line.as_str()?.to_owned())).collect()
        };
        let jobs = value["jobs"].as_array()?.iter().map(JobFigures::from_json);
        Some(Sample {
            seed: value["seed"].as_u64()?,
            iops: rate(value, "iops")?,
            bytes: rate(value, "bytes_per_second")?,
            latencies: latencies(value)?,
            jobs: jobs.collect::<Option<_>>()?,
            settling: value["left_out_seconds"]
                .as_f64()
                .zip(value["steady"].as_bool())
                .map(|(left_out, is_steady)| Settling { left_out, is_steady }),
            without_io: lines("without_io")?,
            reads_of_nothing: lines("reads_of_nothing")?,
        })
    }
}

impl JobFigures {
    fn of(part: &Part) -> Self {
        JobFigures {
            job: part.job.clone(),
            direction: part.dir.name().to_owned(),
            iops: part.ios,
            bytes: part.bytes,
            latencies: percentiles(&part.latencies),
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "job": self.job,
            "direction": self.direction,
            "iops": self.iops,
            "bytes_per_second": self.bytes,
            "clat_ns": self.latencies,
        })
    }

    fn from_json(value: &Value) -> Option<Self> {
        let text = |name: &str| Some(value[name].as_str()?.to_owned());
        Some(JobFigures {
            job: text("job")?,
            direction: text("direction")?,
            iops: rate(value, "iops")?,
            bytes: rate(value, "bytes_per_second")?,
            latencies: latencies(value)?,
        })
    }
}

/// [`PERCENTILES`] of latencies.
fn percentiles(latencies: &Histogram) -> [u64; PERCENTILES.len()] {
    latencies.percentiles(&PERCENTILES).try_into().expect("one for each")
}

/// Writes rates as text, which is read back exactly.
fn make_exact(value: &mut Value, iops: f64, bytes: f64) {
    value["iops"] = iops.to_string().into();
    value["bytes_per_second"] = bytes.to_string().into();
}

/// A rate that [`make_exact`] wrote.
fn rate(value: &Value, name: &str) -> Option<f64> {
    value[name].as_str()?.parse().ok()
}

fn latencies(value: &Value) -> Option<[u64; PERCENTILES.len()]> {
    let latencies = value["clat_ns"].as_array()?;
    latencies.iter().map(Value::as_u64).collect::<Option<Vec<u64>>>()?.try_into().ok()
}

impl Point {
    /// The points of its jobs and directions, by their names; none of one alone.
    fn of_jobs(&self) -> Vec<([String; 2], Point)> {
        let jobs = self.samples.first().map_or(&[][..], |sample| &sample.jobs);
        let of = |at: usize| {
            let sample = |sample: &Sample| {
                let &JobFigures { iops, bytes, latencies, .. } = &sample.jobs[at];
                Sample { iops, bytes, latencies, ..sample.clone() }
            };
            let samples = self.samples.iter().map(sample).collect();
            let names = [jobs[at].job.clone(), jobs[at].direction.clone()];
            (names, Point { at: self.at.clone(), samples, failure: None })
        };
        (0..jobs.len()).filter(|_| jobs.len() > 1).map(of).collect()
    }

    /// The mean over the samples of what `value` takes from one.
    pub fn estimate(&self, value: impl Fn(&Sample) -> f64) -> Option<Estimate> {
        Estimate::of(&self.samples.iter().map(value).collect::<Vec<_>>())
    }

    /// Megabytes a second.
    pub fn throughput(&self) -> Option<Estimate> {
        self.estimate(|sample| sample.bytes / 1e6)
    }

    /// One of [`PERCENTILES`] in milliseconds.
    pub fn latency(&self, percentile: usize) -> Option<Estimate> {
        self.estimate(|sample| sample.latencies[percentile] as f64 / 1e6)
    }
}

impl SweepOptions {
    /// The value of each axis at a point.
    pub fn values<'a>(&'a self, at: &'a [usize]) -> impl Iterator<Item = &'a str> {
        self.axes.iter().zip(at).map(|(axis, &value)| axis.values[value].as_str())
    }

    /// The value of the axis with this target at a point.
    fn value(&self, at: &[usize], target: Target) -> Option<&str> {
        let position = self.axes.iter().position(|axis| axis.target == target)?;
        Some(&self.axes[position].values[at[position]])
    }

    /// A point as people name it: `iodepth=4, zone_write=qd1`.
    fn name(&self, at: &[usize]) -> String {
        let pairs = self.axes.iter().zip(self.values(at));
        let pairs: Vec<String> =
            pairs.map(|(axis, value)| format!("{}={value}", axis.name())).collect();
        pairs.join(", ")
    }

    fn check(&self) -> Result<()> {
        ensure!(
            !self.axes.is_empty(),
            "found no --vary, expected one such as --vary iodepth=1..64, or a file such as sweep.toml"
        );
        for (at, axis) in self.axes.iter().enumerate() {
            let name = axis.name();
            let twice = self.axes[..at].iter().any(|other| other.target == axis.target);
            ensure!(!twice, "--vary {name}: given twice, expected once");
            let fixed = match axis.target {
                Target::Device => self.device.is_some().then_some("--device"),
                Target::Scheduler => self.scheduler.is_some().then_some("--scheduler"),
                Target::ZoneWrite => self.zone_write.is_some().then_some("--zone-write"),
                Target::Option(_) => None,
            };
            if let Some(fixed) = fixed {
                bail!("--vary {name}: found {fixed} as well, expected one of the two");
            }
        }
        Ok(())
    }
}

/// Measures jobs, given as arguments, at all points. Setting `stop` ends the sweep early.
///
/// # Errors
/// Bad input, which is found before anything is measured as far as that is possible. An I/O that
/// fails is a result.
pub fn sweep(
    job_args: Vec<OsString>,
    options: SweepOptions,
    stop: &Arc<AtomicBool>,
    progress: &dyn StepProgress,
) -> Result<Sweep> {
    let environment = WithText { name: JOBS, text: options.job_text.as_deref() };
    if options.axes.is_empty() {
        // A misspelt --vary is an unknown option of the jobs.
        jobfile::parse_args(job_args.clone(), &environment)?;
    }
    options.check()?;
    let points = points(&options.axes, options.search, options.seed).context("--vary")?;
    let is_input = |arg: &OsString| arg == "-";
    let jobs = (!job_args.iter().any(is_input))
        .then(|| jobfile::command_line(job_args.clone(), &environment));
    let jobs = jobs.transpose()?;
    let loads = loads(job_args, &environment, &options, &points)?;
    let journal = options.resume.as_deref().map(|path| Journal::open(path).context("--resume"));
    let bench = Bench { options: &options, stop, journal: journal.transpose()?, progress };
    let measured = bench.measure_all(&loads)?;
    let seeds = options.seeds as usize;
    let results = points.into_iter().zip(measured.chunks(seeds));
    let points = results.map(|(at, measured)| Point {
        at,
        samples: measured.iter().flatten().filter_map(|one| one.clone().ok()).collect(),
        failure: measured.iter().flatten().find_map(failure),
    });
    let points = points.collect();
    let is_interrupted = measured.iter().any(Option::is_none);
    Ok(Sweep { options, points, jobs, is_interrupted })
}

/// Why a point of which this was measured has failed.
fn failure(measured: &Measured) -> Option<String> {
    match measured {
        Ok(sample) => (!sample.without_io.is_empty()).then(|| sample.without_io.join("; ")),
        Err(failure) => Some(failure.clone()),
    }
}

/// The jobs and devices of a point.
struct Load {
    name: String,
    jobs: Vec<Job>,
    device_options: DeviceOptions,
    /// All that the result depends on, besides the seed.
    identity: String,
}

/// A load, or why there is none: the point is impossible.
type Possible = Result<Load, String>;

fn loads(
    job_args: Vec<OsString>,
    environment: &WithText<'_>,
    options: &SweepOptions,
    points: &[Vec<usize>],
) -> Result<Vec<Possible>> {
    let variants: Vec<Vec<(&str, &str)>> = points.iter().map(|at| variant(options, at)).collect();
    let sets = jobfile::parse_variants(job_args, &variants, environment)?;
    let mut loads = Vec::with_capacity(points.len());
    let mut first_error = None;
    for (at, set) in points.iter().zip(sets) {
        let name = options.name(at);
        let found = set.map_err(anyhow::Error::from).and_then(|set| {
            // What would change a job is refused.
            set.notices(false)?;
            load(options, at, &name, set.jobs)
        });
        match found {
            Ok(load) => loads.push(Ok(load)),
            Err(error) if options.goes_on => {
                loads.push(Err(crate::describe(&error)));
                first_error.get_or_insert(error.context(name));
            }
            Err(error) => return Err(error.context(name)),
        }
    }
    match first_error {
        // Nothing to go on with.
        Some(error) if loads.iter().all(Result::is_err) => Err(error),
        _ => Ok(loads),
    }
}

/// The job options of a point.
fn variant<'a>(options: &'a SweepOptions, at: &[usize]) -> Vec<(&'a str, &'a str)> {
    let of_axis = |(axis, &value): (&'a Axis, &usize)| match axis.target {
        Target::Option(name) => Some((name, axis.values[value].as_str())),
        _ => None,
    };
    options.axes.iter().zip(at).filter_map(of_axis).collect()
}

fn load(options: &SweepOptions, at: &[usize], name: &str, jobs: Vec<Job>) -> Result<Load> {
    experiment::check_one_phase(&jobs)?;
    for job in &jobs {
        let log = job.logs.wanted().next().map(|(option, ..)| option);
        if let Some(option) = job.record.write_iolog.as_ref().map(|_| "write_iolog").or(log) {
            bail!("job {}: {option}: expected none in a sweep, which runs it many times", job.name);
        }
    }
    let own = |target, fixed: &Option<String>| {
        options.value(at, target).map(str::to_owned).or_else(|| fixed.clone())
    };
    let policy_at =
        options.value(at, Target::ZoneWrite).map(str::parse::<ZoneWrite>).transpose()?;
    let device_options = DeviceOptions {
        device: own(Target::Device, &options.device),
        queue: QueueOptions {
            zone_write: policy_at.or(options.zone_write),
            ..QueueOptions::default()
        },
        scheduler: own(Target::Scheduler, &options.scheduler),
        real_time: options.clock == ClockKind::Real,
        notices: options.notices.clone(),
        ..DeviceOptions::default()
    };
    let named = jobs.iter().map(|job| device_options.device.as_ref().or(job.filename.as_ref()));
    let mut names: Vec<&String> = named.flatten().collect();
    names.sort_unstable();
    names.dedup();
    let mut specs = Vec::with_capacity(names.len());
    for name in names {
        let is_open = device_options.real_time && zonal_backend::is_external(name);
        specs.push(if is_open {
            name.clone()
        } else {
            format!("{:?}", zonal_backend::load(name)?)
        });
    }
    let identity = format!(
        "zonal {} all jobs {:?} {:?} {specs:?} {:?} {:?} {jobs:?}",
        env!("CARGO_PKG_VERSION"),
        options.clock,
        (options.seconds, options.io_cost),
        device_options.scheduler,
        device_options.queue.zone_write,
    );
    Ok(Load { name: name.to_owned(), jobs, device_options, identity })
}

/// Takes samples.
struct Bench<'a> {
    options: &'a SweepOptions,
    stop: &'a Arc<AtomicBool>,
    journal: Option<Journal>,
    progress: &'a dyn StepProgress,
}

/// A load with a seed, and the key of what it comes to.
struct Turn<'a> {
    load: &'a Load,
    seed: u64,
    key: String,
}

impl Bench<'_> {
    /// A sample of each load with each seed, load by load; `None` once `stop` is set. What is the same
    /// by all that the result depends on is measured once.
    fn measure_all(&self, loads: &[Possible]) -> Result<Vec<Option<Measured>>> {
        let seeds = (0..self.options.seeds).map(|at| self.options.seed.wrapping_add(at.into()));
        let turn = |load, seed| Turn { load, seed, key: key(&format!("{} {seed}", load.identity)) };
        let turns: Vec<Result<Turn<'_>, &String>> = (loads.iter())
            .flat_map(|load| seeds.clone().map(move |seed| load.as_ref().map(|it| turn(it, seed))))
            .collect();
        let mut places = BTreeMap::new();
        let mut different: Vec<&Turn<'_>> = Vec::new();
        for turn in turns.iter().flatten() {
            places.entry(&turn.key).or_insert_with(|| {
                different.push(turn);
                different.len() - 1
            });
        }
        self.progress.start("", different.len() as u64);
        let measured = self.measure_each(&different);
        self.progress.finish();
        let measured = measured?;
        let result = |turn: &Result<Turn<'_>, &String>| match turn {
            Ok(turn) => measured[places[&turn.key]].clone(),
            Err(impossible) => Some(Err((*impossible).clone())),
        };
        Ok(turns.iter().map(result).collect())
    }

    fn measure_each(&self, turns: &[&Turn<'_>]) -> Result<Vec<Option<Measured>>> {
        let stop = || Arc::clone(self.stop);
        match self.options.clock {
            ClockKind::Real => {
                let mut executor = Executor::real_time(stop(), Box::new(()));
                turns.iter().map(|turn| self.measure(turn, &mut executor)).collect()
            }
            ClockKind::Virtual => parallel_map(available_cpus(), turns, |turn| {
                let costs = self.options.io_cost;
                self.measure(turn, &mut Executor::interruptible(costs, stop(), Box::new(())))
            }),
        }
    }

    fn measure(&self, turn: &Turn<'_>, executor: &mut Executor) -> Result<Option<Measured>> {
        let Turn { load, seed, key } = turn;
        if self.stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        self.progress.message(&load.name);
        let known = self.journal.as_ref().and_then(|journal| journal.get(key));
        let measured = match known {
            Some(known) => known.clone(),
            None => {
                let measured = take(load, *seed, self.options, executor);
                if executor.is_stopped() {
                    return Ok(None);
                }
                match measured {
                    Ok(measured) => {
                        if let Some(journal) = &self.journal {
                            let about = format!("{}, seed {seed}", load.name);
                            journal.add(key, &about, &measured).context("--resume")?;
                        }
                        measured
                    }
                    // Not kept: it costs nothing to find again, and may be fixed.
                    Err(error) if self.options.goes_on => Err(crate::describe(&error)),
                    Err(error) => return Err(error.context(load.name.clone())),
                }
            }
        };
        self.progress.advance(1);
        Ok(Some(measured))
    }
}

/// Takes a sample.
fn take(
    load: &Load,
    seed: u64,
    options: &SweepOptions,
    executor: &mut Executor,
) -> Result<Measured> {
    let device_options = DeviceOptions { seed, ..load.device_options.clone() };
    let jobs = load.jobs.clone();
    let outcome = match options.seconds {
        Some(seconds) => experiment::run_settled(jobs, &device_options, seconds, executor),
        None => experiment::run_jobs(jobs, &device_options, None, executor),
    };
    match outcome {
        Ok(outcome) => {
            let latencies = percentiles(&outcome.latencies);
            let jobs = outcome.parts.iter().map(JobFigures::of).collect();
            let Outcome { ios: iops, bytes, settling, without_io, reads_of_nothing, .. } = outcome;
            Ok(Ok(Sample {
                seed,
                iops,
                bytes,
                latencies,
                jobs,
                settling,
                without_io,
                reads_of_nothing,
            }))
        }
        Err(error) if error.is::<LoadError>() => Ok(Err(error.to_string())),
        Err(error) => Err(error),
    }
}

/// FNV-1a with 64 bits, in hexadecimal.
fn key(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests;
