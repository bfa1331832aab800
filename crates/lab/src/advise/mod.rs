//! Which scheduler, zone-write policy and queue depth suit jobs on a device.
//!
//! Each configuration is measured in virtual time with several seeds, each on a device of its own, so
//! the same options give the same advice. Configurations that the measurements cannot tell apart share
//! a rank; among them the lower tail latency goes first.
mod answer;
mod known_error;
mod mechanisms;
mod rank;
mod render;

use crate::devices::DeviceOptions;
use crate::estimate::Estimate;
use crate::executor::Executor;
use crate::experiment::{self, Outcome, PREPARATION, Settling, available_cpus, parallel_map};
use crate::measurements::Kernel;
use crate::progress::StepProgress;
pub use answer::Load;
use anyhow::{Context, Result, bail};
pub use known_error::{KnownError, known_error};
pub use mechanisms::{Mechanisms, differences};
pub(crate) use rank::TIE;
pub use render::{conclusion, csv, html, json, text};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use zonal_blk::sched::Scheduler;
use zonal_blk::{Limits, QueueOptions, ZoneWrite};
use zonal_device::device_spec;
use zonal_fio::job::Job;
use zonal_sim::CostModel;

/// Queue depths to try beside that of the jobs.
const DEPTHS: [u32; 4] = [1, 4, 16, 64];

/// The figure by which a configuration is the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Most bytes per second.
    Throughput,
    /// Lowest 99th percentile of latency.
    Latency,
}

/// The actions to try, and for how long.
#[derive(Clone, Debug)]
pub struct AdviseOptions {
    /// The device: a spec or a TOML profile.
    pub device: String,
    /// The schedulers to try.
    pub schedulers: Vec<Scheduler>,
    /// The zone-write policies to try; if empty, all that suit the device and the scheduler.
    pub zone_write: Vec<ZoneWrite>,
    /// The queue depths to try; if empty, that of the jobs, 1, 4, 16 and 64, or for jobs on a file
    /// system their own.
    pub depths: Vec<u32>,
    /// Virtual seconds per configuration.
    pub seconds: f64,
    /// The goal.
    pub goal: Goal,
    /// The first seed of the jobs and of the device.
    pub seed: u64,
    /// How often each configuration is measured, each time with the next seed.
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
    /// The queue depth of all jobs; `None` for their own.
    pub depth: Option<u32>,
}

/// A configuration that was measured.
pub struct Trial {
    /// The configuration.
    pub configuration: Configuration,
    /// Its results, one for each seed.
    pub outcomes: Vec<Outcome>,
    /// Its rank, from 1; configurations that cannot be told apart share one.
    pub rank: usize,
}

/// All configurations that were measured.
pub struct Advice {
    /// The device, as it was named.
    pub device: String,
    /// One line that describes the device.
    pub description: String,
    /// The goal.
    pub goal: Goal,
    /// How often each configuration was measured.
    pub seeds: u32,
    /// Seconds that each configuration ran each time, of which the beginning was left out.
    pub seconds: f64,
    /// The load of the jobs.
    pub load: Load,
    /// The version of Linux that the advice is compared with.
    pub kernel: Kernel,
    /// The defaults of that version, with the queue depth of the jobs.
    pub stock: Configuration,
    /// The configurations that were measured, best first.
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
/// The device does not exist or no configuration fits it, or a job cannot run on it.
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
    let seeds = (0..options.seeds).map(|at| options.seed.wrapping_add(at.into()));
    let turns: Vec<(&Configuration, u64)> = configurations
        .iter()
        .flat_map(|configuration| seeds.clone().map(move |seed| (configuration, seed)))
        .collect();
    progress.start("", turns.len() as u64);
    let outcomes = parallel_map(available_cpus(), &turns, |&(configuration, seed)| {
        let mut executor = Executor::interruptible(options.io_cost, Arc::clone(stop), Box::new(()));
        let outcome = measure(options, jobs, configuration, seed, &mut executor);
        if executor.is_stopped() {
            return Ok(None);
        }
        progress.advance(1);
        outcome.map(Some).with_context(|| configuration.name())
    })?;
    progress.finish();
    let mut outcomes = outcomes.into_iter();
    let trial = |configuration: &Configuration| {
        let own: Vec<_> = outcomes.by_ref().take(options.seeds as usize).collect();
        let outcomes = own.into_iter().collect::<Option<_>>()?;
        Some(Trial { configuration: configuration.clone(), outcomes, rank: 0 })
    };
    let trials: Vec<Trial> = configurations.iter().filter_map(trial).collect();
    let is_whole = trials.len() == configurations.len();
    let mut advice = Advice {
        device: options.device.clone(),
        description: spec.describe(),
        goal: options.goal,
        seeds: options.seeds,
        seconds: options.seconds,
        load: load(jobs, model.limits())?,
        kernel: options.kernel,
        stock: stock(jobs, model.limits(), options.kernel),
        trials: rank::ranked(trials, options.goal),
        known_errors: [None, None],
        interrupted: (!is_whole).then_some(configurations.len()),
    };
    let shown = [advice.trials.first(), advice.today()].map(|trial| Some(&trial?.configuration));
    let errors = parallel_map(available_cpus(), &shown, |configuration| match configuration {
        Some(it) => known_error(&options.device, jobs, it, options.seconds, stop),
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
    let own = jobs.first().map(|job| job.iodepth);
    let alike = jobs.iter().all(|job| Some(job.iodepth) == own && job.fs.kind.is_none());
    Configuration {
        scheduler: scheduler.to_owned(),
        zone_write: (limits.nr_zones > 0).then_some(policy),
        depth: own.filter(|_| alike),
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
        let depth = self.depth.map(|depth| format!(", depth {depth}"));
        policy.unwrap_or_default() + &depth.unwrap_or_default()
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

/// All configurations that fit the device, the simplest first.
fn configurations(
    options: &AdviseOptions,
    jobs: &[Job],
    limits: &Limits,
) -> Result<Vec<Configuration>> {
    let given: Vec<Option<ZoneWrite>> = options.zone_write.iter().copied().map(Some).collect();
    let policies = match (limits.nr_zones, given.is_empty()) {
        (0, true) => vec![None],
        (0, false) => bail!("--zone-write: the device has no zones"),
        (_, true) => {
            vec![Some(ZoneWrite::Plug), Some(ZoneWrite::Qd1), Some(ZoneWrite::Lock)]
        }
        (_, false) => given,
    };
    let depths = depths(options, jobs);
    let mut configurations = Vec::new();
    for scheduler in &options.schedulers {
        for &zone_write in &policies {
            if zone_write == Some(ZoneWrite::Lock) && !scheduler.locks_zones() {
                continue;
            }
            for &depth in &depths {
                let scheduler = scheduler.name().to_owned();
                configurations.push(Configuration { scheduler, zone_write, depth });
            }
        }
    }
    if configurations.is_empty() {
        bail!("--zone-write lock needs the scheduler mq-deadline");
    }
    Ok(configurations)
}

/// The queue depths to try. A file system chooses its own.
fn depths(options: &AdviseOptions, jobs: &[Job]) -> Vec<Option<u32>> {
    if !options.depths.is_empty() {
        return options.depths.iter().copied().map(Some).collect();
    }
    if jobs.iter().any(|job| job.fs.kind.is_some()) {
        return vec![None];
    }
    let own = jobs[0].iodepth;
    let alike = jobs.iter().all(|job| job.iodepth == own);
    let mut depths: Vec<u32> = DEPTHS.into_iter().chain(alike.then_some(own)).collect();
    depths.sort_unstable();
    depths.dedup();
    let own = (!alike).then_some(None);
    own.into_iter().chain(depths.into_iter().map(Some)).collect()
}

fn measure(
    options: &AdviseOptions,
    jobs: &[Job],
    configuration: &Configuration,
    seed: u64,
    executor: &mut Executor,
) -> Result<Outcome> {
    let mut jobs = jobs.to_vec();
    for job in &mut jobs {
        job.set_iodepth(configuration.depth.unwrap_or(job.iodepth));
        // The configuration decides.
        job.ioscheduler = None;
    }
    let device_options = DeviceOptions {
        device: Some(options.device.clone()),
        queue: QueueOptions { zone_write: configuration.zone_write, ..QueueOptions::default() },
        scheduler: Some(configuration.scheduler.clone()),
        seed,
        ..DeviceOptions::default()
    };
    experiment::run_settled(jobs, &device_options, options.seconds, executor)
}
