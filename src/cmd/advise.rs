//! `zonal advise`.
use crate::args::{ZoneWriteArg, seconds};
use crate::config;
use crate::interrupt::{exit_code, set_on_interrupt};
use crate::terminal::{StepBar, stdout};
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use zonal_blk::sched::Scheduler;
use zonal_fio::jobfile::{self, SystemEnvironment};
use zonal_lab::advise::{self, AdviseOptions};
use zonal_lab::measurements::Kernel;
use zonal_lab::page;
use zonal_sim::CostModel;

/// Options of `zonal advise` that are not job options.
#[derive(Args, Debug)]
pub struct AdviseArgs {
    /// The device: a spec (see `zonal devices`) or a TOML profile
    #[arg(long, value_name = "SPEC", value_parser = config::device)]
    pub device: String,
    /// The schedulers to try
    #[arg(
        long,
        value_name = "NAME,...",
        value_delimiter = ',',
        default_value = zonal_blk::scheduler_list!()
    )]
    pub schedulers: Vec<String>,
    /// The zone-write policies to try [default: plug and qd1, and lock with mq-deadline]
    #[arg(long, value_enum, value_name = "POLICY,...", value_delimiter = ',')]
    pub zone_write: Vec<ZoneWriteArg>,
    /// The queue depths to try [default: that of the jobs, 1, 4, 16 and 64; for jobs on a file system
    /// only their own]
    #[arg(long, value_name = "DEPTH,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=65535))]
    pub depths: Vec<u32>,
    /// Virtual time for each configuration, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120.0, value_parser = seconds)]
    pub time: f64,
    /// What makes a configuration the best
    #[arg(long, value_enum, default_value_t = Goal::Throughput)]
    pub goal: Goal,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t = AdviceFormat::Text)]
    pub format: AdviceFormat,
    /// How often each configuration is measured, each time with the next seed
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub seeds: u32,
    /// First random seed of the jobs and of the device
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Virtual time that an I/O costs the thread that does it, in nanoseconds; or `published`, what
    /// it cost the machine of the published tables, by scheduler and length
    #[arg(long, value_name = "NS|published", default_value = "1000")]
    pub io_cost: CostModel,
    /// The version of Linux whose default scheduler and policy the advice is compared with
    #[arg(long, value_name = "VERSION", default_value_t = Kernel::STABLE)]
    pub kernel: Kernel,
}

/// `--goal`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Goal {
    /// Most bytes a second
    Throughput,
    /// Shortest 99th percentile of latency
    Latency,
}

impl From<Goal> for advise::Goal {
    fn from(goal: Goal) -> Self {
        match goal {
            Goal::Throughput => advise::Goal::Throughput,
            Goal::Latency => advise::Goal::Latency,
        }
    }
}

/// `--format`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AdviceFormat {
    /// Text for people
    Text,
    /// All that was measured
    Json,
    /// An HTML page with the table and plots
    Html,
}

/// Measures the jobs in all configurations and prints these, best first. After an interrupt those
/// that were measured by then are printed.
pub fn run(args: &AdviseArgs, job_args: Vec<OsString>) -> Result<ExitCode> {
    let set = jobfile::parse_args(job_args, &SystemEnvironment)?;
    for notice in set.notices(false)? {
        tracing::warn!("{notice}");
    }
    let jobs = set.jobs;
    let scheduler = |name: &String| name.parse::<Scheduler>().context("--schedulers");
    let options = AdviseOptions {
        device: args.device.clone(),
        schedulers: args.schedulers.iter().map(scheduler).collect::<Result<_>>()?,
        zone_write: args.zone_write.iter().copied().map(Into::into).collect(),
        depths: args.depths.clone(),
        seconds: args.time,
        goal: args.goal.into(),
        seed: args.seed,
        seeds: args.seeds,
        io_cost: args.io_cost,
        kernel: args.kernel,
    };
    let bar = StepBar::new("[{bar:24}] {pos}/{len} measurements eta {eta}");
    let stop = Arc::default();
    set_on_interrupt(&stop)?;
    let advice = advise::advise(&jobs, &options, &stop, &bar)?;
    let text = match args.format {
        AdviceFormat::Text => advise::text(&advice),
        AdviceFormat::Json => advise::json(&advice),
        AdviceFormat::Html => page::with_command(&advise::html(&advice)?, std::env::args().skip(1)),
    };
    stdout().write_all(text.as_bytes())?;
    let interrupted = advice.interrupted.and_then(|_| exit_code());
    Ok(interrupted.unwrap_or(ExitCode::SUCCESS))
}
