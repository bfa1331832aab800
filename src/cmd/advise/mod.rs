//! `zonal advise`: which scheduler, zone-write policy and queue depth suit a workload on a drive.
//!
//! Takes jobs and a device; gives the configurations in order of merit, with what the drive and the
//! plugs did in each. Keeps true: each configuration has a device of its own and runs in virtual
//! time; the same arguments give the same advice.
mod html;
mod reason;
mod render;

use crate::cli::{AdviceFormat, AdviseArgs, ClockKind, Eta, Goal};
use crate::devices::{self, DeviceOptions};
use crate::experiment::{self, Outcome, RunLength, processors, side_by_side};
use crate::machine::Executor;
use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;
use zonal_blk::sched::Scheduler;
use zonal_blk::{Limits, QueueOptions, ZoneWrite};
use zonal_device::device_spec;
use zonal_fio::job::Job;
use zonal_fio::jobfile::{self, SystemEnvironment};

/// Queue depths to try, beside that of the jobs.
const DEPTHS: [u32; 4] = [1, 4, 16, 64];

/// A way to run the jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct Configuration {
    /// The scheduler's name.
    pub scheduler: String,
    /// The zone-write policy; `None` on a device without zones.
    pub zone_write: Option<ZoneWrite>,
    /// The queue depth of all jobs; `None` for their own.
    pub depth: Option<u32>,
}

/// A configuration with what it came to.
pub struct Trial {
    /// The way.
    pub configuration: Configuration,
    /// The figures.
    pub outcome: Outcome,
}

/// What was tried, the best first.
pub struct Advice {
    /// The device, as it was named.
    pub device: String,
    /// What it is.
    pub description: String,
    /// What the best is.
    pub goal: Goal,
    /// The configurations.
    pub trials: Vec<Trial>,
}

/// Runs the jobs in all configurations and prints them in order of merit.
pub fn run(args: &AdviseArgs, job_args: Vec<OsString>) -> Result<ExitCode> {
    let jobs = jobfile::parse_args(job_args, &SystemEnvironment)?.jobs;
    let spec = devices::load(&args.device)?;
    let model = device_spec::build(&spec).with_context(|| format!("device {}", args.device))?;
    let configurations = configurations(args, &jobs, model.limits())?;
    let progress = progress(configurations.len() as u64);
    let outcomes = side_by_side(processors(), &configurations, |configuration| {
        let outcome = measure(args, &jobs, configuration);
        progress.inc(1);
        outcome.with_context(|| configuration.name())
    })?;
    progress.finish_and_clear();
    let tried = configurations.into_iter().zip(outcomes);
    let mut tried: Vec<Trial> =
        tried.map(|(configuration, outcome)| Trial { configuration, outcome }).collect();
    let merit = |tried: &Trial| match args.goal {
        Goal::Throughput => tried.outcome.bytes,
        Goal::Latency => -(tried.p99() as f64),
    };
    // Stable: of equals the simpler, which is tried first, comes first.
    tried.sort_by(|a, b| merit(b).total_cmp(&merit(a)));
    let description = spec.describe();
    let advice =
        Advice { device: args.device.clone(), description, goal: args.goal, trials: tried };
    let text = match args.format {
        AdviceFormat::Text => render::text(&advice),
        AdviceFormat::Json => render::json(&advice),
        AdviceFormat::Html => html::render(&advice)?,
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

impl Configuration {
    /// For people: `none, plug, depth 4`.
    pub fn name(&self) -> String {
        let policy = self.zone_write.map(|policy| policy.name().to_owned());
        let depth = self.depth.map(|depth| format!("depth {depth}"));
        let parts = [Some(self.scheduler.clone()), policy, depth];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

impl Trial {
    /// Median of the completion latencies in nanoseconds.
    pub fn median(&self) -> u64 {
        self.outcome.latencies.percentiles(&[50.0])[0]
    }

    /// 99th percentile of the completion latencies in nanoseconds.
    pub fn p99(&self) -> u64 {
        self.outcome.latencies.percentiles(&[99.0])[0]
    }
}

/// All ways that fit the device, the simplest first.
fn configurations(args: &AdviseArgs, jobs: &[Job], limits: &Limits) -> Result<Vec<Configuration>> {
    let schedulers: Vec<Scheduler> = args
        .schedulers
        .iter()
        .map(|name| name.parse::<Scheduler>().context("--schedulers"))
        .collect::<Result<_>>()?;
    let given: Vec<Option<ZoneWrite>> =
        args.zone_write.iter().map(|&policy| Some(policy.into())).collect();
    let policies = match (limits.nr_zones, given.is_empty()) {
        (0, true) => vec![None],
        (0, false) => bail!("--zone-write: the device has no zones"),
        (_, true) => {
            vec![Some(ZoneWrite::Plug), Some(ZoneWrite::Qd1), Some(ZoneWrite::Lock)]
        }
        (_, false) => given,
    };
    let depths = depths(args, jobs);
    let mut configurations = Vec::new();
    for scheduler in schedulers {
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

/// The queue depths to try. What file systems have in flight is theirs to say.
fn depths(args: &AdviseArgs, jobs: &[Job]) -> Vec<Option<u32>> {
    if !args.depths.is_empty() {
        return args.depths.iter().copied().map(Some).collect();
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

/// Shown on a terminal only.
fn progress(configurations: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("[{bar:24}] {pos}/{len} configurations eta {eta}");
    ProgressBar::new(configurations).with_style(style.expect("the template is well formed"))
}

fn measure(args: &AdviseArgs, jobs: &[Job], configuration: &Configuration) -> Result<Outcome> {
    let mut jobs = jobs.to_vec();
    for job in &mut jobs {
        job.iodepth = configuration.depth.unwrap_or(job.iodepth);
        // What is tried is not what the jobs name.
        job.ioscheduler = None;
    }
    let device_options = DeviceOptions {
        device: Some(args.device.clone()),
        queue: QueueOptions { zone_write: configuration.zone_write, ..QueueOptions::default() },
        scheduler: Some(configuration.scheduler.clone()),
        seed: args.seed,
        ..DeviceOptions::default()
    };
    let mut executor = Executor::new(ClockKind::Virtual, args.io_cost, Eta::Never)?;
    experiment::run_jobs(jobs, &device_options, Some(RunLength::of(args.time)), &mut executor)
}
