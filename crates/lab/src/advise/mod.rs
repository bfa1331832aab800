//! Which scheduler, zone-write policy and queue depth suit jobs on a device.
//!
//! Each configuration is measured in virtual time with several seeds, each on a device of its own, so
//! the same options give the same advice: what Linux does unless told otherwise, or what is surely better.
mod answer;
mod choose;
mod goal;
mod known_error;
mod mechanisms;
mod render;
mod search;

use crate::estimate::Estimate;
use crate::experiment::{self, Outcome, PREPARATION, Settling, available_cpus, parallel_map};
use crate::measurements::Kernel;
use crate::progress::StepProgress;
pub use answer::Load;
use anyhow::{Context, Result, bail, ensure};
use goal::Goal;
pub use known_error::{KnownError, known_error};
pub use mechanisms::{Mechanisms, differences};
pub use render::{conclusion, csv, html, json, text};
use search::Search;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use zonal_blk::sched::Scheduler;
use zonal_blk::{Limits, ZoneWrite, did_you_mean};
use zonal_device::device_spec;
use zonal_fio::job::Job;
use zonal_sim::CostModel;

/// Queue depths to try beside that of the jobs.
const DEPTHS: [u32; 4] = [1, 4, 16, 64];

/// How often a configuration is measured at most, unless told otherwise.
pub const SEEDS: u32 = 60;

/// Virtual seconds that each configuration runs unless told otherwise, by whether the device rotates.
pub fn default_seconds(device: &str) -> Result<f64> {
    let model = device_spec::build(&zonal_backend::load(device)?)?;
    Ok(if model.limits().rotational { 120.0 } else { 2.0 })
}

/// Relative difference below which two rates count as the same, however sure it is.
pub(crate) const TIE: f64 = 0.02;

/// The same for tails: a bucket of their histograms is up to 3 % wide.
const TAIL_TIE: f64 = 0.05;

/// A queue depth to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Each job has its own.
    Own,
    /// All jobs have this one.
    All(u32),
    /// The job of this name has this one, the others their own.
    Of(String, u32),
}

impl FromStr for Depth {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (job, depth) =
            text.rsplit_once('=').map_or((None, text), |(job, depth)| (Some(job), depth));
        let number = depth.parse().ok().filter(|depth| (1..=65535).contains(depth));
        match (job, number) {
            (None, _) if depth == "own" => Ok(Depth::Own),
            (None, Some(depth)) => Ok(Depth::All(depth)),
            (Some(job), Some(depth)) => Ok(Depth::Of(job.to_owned(), depth)),
            (_, None) => Err("expected own, 1 to 65535, or JOB=1 to 65535".to_owned()),
        }
    }
}

impl fmt::Display for Depth {
    /// `depth 4`, `depth 4 of readers`; nothing for [`Depth::Own`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Depth::Own => Ok(()),
            Depth::All(depth) => write!(f, "depth {depth}"),
            Depth::Of(job, depth) => write!(f, "depth {depth} of {job}"),
        }
    }
}

/// The actions to try, and for how long.
#[derive(Clone, Debug)]
pub struct AdviseOptions {
    /// The device: a spec or a TOML profile.
    pub device: String,
    /// The schedulers to try.
    pub schedulers: Vec<Scheduler>,
    /// The zone-write policies to try; if empty, plug and qd1 where the device has zones. That of today is
    /// measured anyway.
    pub zone_write: Vec<ZoneWrite>,
    /// The queue depths to try; if empty, that of the jobs, 1, 4, 16 and 64, or the jobs' own if these
    /// differ or are on a file system.
    pub depths: Vec<Depth>,
    /// Virtual seconds per configuration; if `None`, [`default_seconds`].
    pub seconds: Option<f64>,
    /// The goals, the most important one first. If there are none, rates are to be met and tails to be short,
    /// or throughput is to be high, and no job may be worse off than today.
    pub goals: Vec<String>,
    /// The first seed of the jobs and of the device.
    pub seed: u64,
    /// How often a configuration is measured at most, each time with the next seed.
    pub seeds: u32,
    /// The cost of an I/O for the thread that submits it.
    pub io_cost: CostModel,
    /// The version of Linux that the advice is compared with.
    pub kernel: Kernel,
}

/// A configuration that jobs can run with.
#[derive(Clone, Debug, PartialEq)]
pub struct Configuration {
    /// The scheduler's name.
    pub scheduler: String,
    /// The zone-write policy; `None` on a device without zones.
    pub zone_write: Option<ZoneWrite>,
    /// The queue depth.
    pub depth: Depth,
}

/// A configuration that was measured.
pub struct Trial {
    /// The configuration.
    pub configuration: Configuration,
    /// Its results, one for each seed.
    pub outcomes: Vec<Outcome>,
    /// What is said of it, such as `today` or `no difference found`.
    pub verdict: String,
}

/// All configurations that were measured.
pub struct Advice {
    /// The device, as it was named.
    pub device: String,
    /// One line that describes the device.
    pub description: String,
    /// The goals, in their order.
    pub goals: Vec<Goal>,
    /// How often a configuration was measured at most.
    pub seeds: u32,
    /// Seconds that each configuration ran each time, of which the beginning was left out.
    pub seconds: f64,
    /// The load of the jobs.
    pub load: Load,
    /// The version of Linux that the advice is compared with.
    pub kernel: Kernel,
    /// The defaults of that version, with the queue depths of the jobs.
    pub stock: Configuration,
    /// The configurations that were measured: the advice, what Linux does, and the others by the first goal in
    /// which they differ. The first is no advice if what Linux does was not measured.
    pub trials: Vec<Trial>,
    /// The error of the model in the load that is nearest to the best configuration, and to what Linux
    /// does, where they are known.
    pub known_errors: [Option<KnownError>; 2],
    /// Of interrupted advice, how many configurations there are in all.
    pub interrupted: Option<usize>,
}

/// Measures jobs in all configurations; once `stop` is set, in those that were done by then.
///
/// # Errors
/// The device does not exist or no configuration fits it, a goal is none, or a job cannot run.
pub fn advise(
    jobs: &[Job],
    options: &AdviseOptions,
    stop: &Arc<AtomicBool>,
    progress: &dyn StepProgress,
) -> Result<Advice> {
    let spec = zonal_backend::load(&options.device)?;
    let model = device_spec::build(&spec).with_context(|| format!("device {}", options.device))?;
    let configurations = configurations(options, jobs, model.limits())?;
    experiment::check_one_phase(jobs)?;
    experiment::check_something_is_read(jobs, &options.device)?;
    let goals = options.goals.iter().map(|goal| Goal::parse(goal, jobs).context("--goal"));
    let goals: Vec<Goal> = goals.collect::<Result<_>>()?;
    let all = configurations.len();
    let seconds = options.seconds.map_or_else(|| default_seconds(&options.device), Ok)?;
    let mut search = Search::new(jobs, options, seconds, configurations, goals, stop);
    let is_whole = search.run(progress)?;
    let Search { trials, goals, .. } = search;
    let mut advice = Advice {
        device: options.device.clone(),
        description: spec.describe(),
        goals,
        seeds: options.seeds,
        seconds,
        load: load(jobs, model.limits())?,
        kernel: options.kernel,
        stock: stock(jobs, model.limits(), options.kernel),
        trials,
        known_errors: [None, None],
        interrupted: (!is_whole).then_some(all),
    };
    let shown = [advice.trials.first(), advice.today()].map(|trial| Some(&trial?.configuration));
    let errors = parallel_map(available_cpus(), &shown, |configuration| match configuration {
        Some(it) => known_error(&options.device, &it.jobs(jobs), it.zone_write, seconds, stop),
        None => Ok(None),
    })?;
    advice.known_errors = errors.try_into().expect("one for each");
    Ok(advice)
}

/// How many clones the jobs have, and whether the regions of two of them overlap.
fn load(jobs: &[Job], limits: &Limits) -> Result<Load> {
    let phases = experiment::phases(jobs.to_vec(), None)?;
    let measured = phases.iter().flatten().filter(|task| task.job.name != PREPARATION);
    let regions: Vec<_> = measured.map(|task| task.region(limits)).collect();
    let mut known: Vec<_> = regions.iter().flatten().collect();
    known.sort_by_key(|region| region.start);
    let share_zones = known.windows(2).any(|pair| pair[1].start < pair[0].end);
    Ok(Load { clones: regions.len(), share_zones })
}

/// The defaults of Linux.
fn stock(jobs: &[Job], limits: &Limits, kernel: Kernel) -> Configuration {
    let (policy, scheduler) = kernel.stock(limits.rotational);
    Configuration {
        scheduler: scheduler.to_owned(),
        zone_write: (limits.nr_zones > 0).then_some(policy),
        depth: own_depth(jobs),
    }
}

/// The queue depth that all jobs have, if they have one and do their I/O themselves.
fn own_depth(jobs: &[Job]) -> Depth {
    let own = jobs.first().map_or(1, |job| job.iodepth);
    match jobs.iter().all(|job| job.iodepth == own && job.fs.kind.is_none()) {
        true => Depth::All(own),
        false => Depth::Own,
    }
}

impl Configuration {
    /// Its name, such as `none, plug, depth 4`.
    pub fn name(&self) -> String {
        self.scheduler.clone() + &self.rest()
    }

    /// The name without the scheduler: `, plug, depth 4`.
    fn rest(&self) -> String {
        let policy = self.zone_write.map(|policy| format!(", {}", policy.name()));
        let depth = (self.depth != Depth::Own).then(|| format!(", {}", self.depth));
        policy.unwrap_or_default() + &depth.unwrap_or_default()
    }

    /// How many of its settings differ from those of another.
    fn changes(&self, from: &Self) -> usize {
        usize::from(self.scheduler != from.scheduler)
            + usize::from(self.zone_write != from.zone_write)
            + usize::from(self.depth != from.depth)
    }

    /// The jobs, as this configuration runs them.
    fn jobs(&self, jobs: &[Job]) -> Vec<Job> {
        let mut jobs = jobs.to_vec();
        for job in &mut jobs {
            match &self.depth {
                Depth::All(depth) => job.set_iodepth(*depth),
                Depth::Of(name, depth) if *name == job.name => job.set_iodepth(*depth),
                Depth::Of(..) | Depth::Own => {}
            }
            // The configuration decides.
            job.ioscheduler = None;
        }
        jobs
    }
}

impl Advice {
    /// Jobs that did no I/O, and why, in the words of a run; with the configurations where that was not so
    /// in all. The figures are those of the other jobs.
    pub fn without_io(&self) -> Vec<String> {
        let trials = self.trials.iter();
        experiment::remarks(
            trials.map(|it| (it.configuration.name(), experiment::without_io(&it.outcomes))),
        )
    }

    /// Whether some job did no I/O in any configuration: the advice is for the others.
    pub fn leaves_out_a_job(&self) -> bool {
        experiment::is_idle_in_all(
            self.trials.iter().map(|it| experiment::without_io(&it.outcomes)),
        )
    }
}

impl Trial {
    fn estimate(&self, value: impl Fn(&Outcome) -> f64) -> Estimate {
        let values: Vec<f64> = self.outcomes.iter().map(value).collect();
        Estimate::of(&values).expect("a configuration is measured at least once")
    }

    /// How the beginnings of its measurements were left out.
    pub fn settlings(&self) -> impl Iterator<Item = Settling> {
        self.outcomes.iter().filter_map(|outcome| outcome.settling)
    }

    /// Megabytes a second.
    pub fn throughput(&self) -> Estimate {
        self.estimate(|outcome| outcome.bytes / 1e6)
    }

    /// I/Os a second.
    pub fn iops(&self) -> Estimate {
        self.estimate(|outcome| outcome.ios)
    }

    /// The median of the completion latencies in milliseconds.
    pub fn median(&self) -> Estimate {
        self.latency(50.0)
    }

    /// The 99th percentile of the completion latencies in milliseconds.
    pub fn p99(&self) -> Estimate {
        self.latency(99.0)
    }

    fn latency(&self, percentile: f64) -> Estimate {
        self.estimate(|outcome| outcome.latencies.percentiles(&[percentile])[0] as f64 / 1e6)
    }
}

/// All configurations that fit the device: what Linux does, and then the simplest first.
fn configurations(
    options: &AdviseOptions,
    jobs: &[Job],
    limits: &Limits,
) -> Result<Vec<Configuration>> {
    let given: Vec<Option<ZoneWrite>> = options.zone_write.iter().copied().map(Some).collect();
    let policies = match (limits.nr_zones, given.is_empty()) {
        (0, true) => vec![None],
        (0, false) => bail!("--zone-write: the device has no zones"),
        (_, true) => vec![Some(ZoneWrite::Plug), Some(ZoneWrite::Qd1)],
        (_, false) => given,
    };
    let depths = depths(options, jobs)?;
    let mut configurations = vec![stock(jobs, limits, options.kernel)];
    for scheduler in &options.schedulers {
        for &zone_write in &policies {
            if zone_write == Some(ZoneWrite::Lock) && !scheduler.locks_zones() {
                continue;
            }
            for depth in &depths {
                let (scheduler, depth) = (scheduler.name().to_owned(), depth.clone());
                configurations.push(Configuration { scheduler, zone_write, depth });
            }
        }
    }
    ensure!(configurations.len() > 1, "--zone-write lock needs the scheduler mq-deadline");
    let mut seen = Vec::new();
    configurations.retain(|it| {
        !seen.contains(it) && {
            seen.push(it.clone());
            true
        }
    });
    Ok(configurations)
}

/// The queue depths to try. A file system chooses its own.
fn depths(options: &AdviseOptions, jobs: &[Job]) -> Result<Vec<Depth>> {
    let own = own_depth(jobs);
    let mut depths = options.depths.clone();
    for depth in &mut depths {
        match depth {
            Depth::Own => *depth = own.clone(),
            Depth::Of(name, _) => {
                let names = || jobs.iter().map(|job| job.name.as_str());
                let near = did_you_mean(name, names());
                ensure!(
                    names().any(|job| job == name),
                    "--depths: no job is called `{name}`{near}"
                );
            }
            Depth::All(_) => {}
        }
    }
    if depths.is_empty() {
        depths.push(own.clone());
        if let Depth::All(own) = own {
            depths.extend(DEPTHS.into_iter().filter(|depth| *depth != own).map(Depth::All));
        }
    }
    Ok(depths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Part;
    use zonal_fio::job::DataDir;
    use zonal_fio::stats::Histogram;

    /// A part with this rate in MB/s, this tail in ms, and what it reached of its rate.
    pub fn part(job: &str, rate: f64, millis: u64, reached: Option<f64>) -> Part {
        let mut latencies = Histogram::new();
        latencies.record(millis * 1_000_000, 1);
        let (job, dir) = (job.to_owned(), DataDir::Write);
        Part { job, dir, ios: rate, bytes: rate * 1e6, latencies, reached }
    }

    /// The outcome of parts.
    pub fn outcome(parts: impl Into<Vec<Part>>) -> Outcome {
        let parts = parts.into();
        let mut latencies = Histogram::new();
        parts.iter().for_each(|part| latencies.merge(&part.latencies));
        Outcome {
            ios: parts.iter().map(|part| part.ios).sum(),
            bytes: parts.iter().map(|part| part.bytes).sum(),
            latencies,
            parts,
            settling: None,
            without_io: Vec::new(),
            reads_of_nothing: Vec::new(),
            devices: Vec::new(),
        }
    }

    #[test]
    fn depths_are_of_all_jobs_of_one_or_their_own() {
        assert_eq!("own".parse(), Ok(Depth::Own));
        assert_eq!("16".parse(), Ok(Depth::All(16)));
        assert_eq!("readers=4".parse(), Ok(Depth::Of("readers".to_owned(), 4)));
        for wrong in ["0", "65536", "readers", "readers=", "=0"] {
            assert!(wrong.parse::<Depth>().is_err(), "{wrong}");
        }
    }
}
