//! `zonal advise`.
use crate::args::{seconds, zone_write};
use crate::config;
use crate::format::{Format, FormatArgs, Forms};
use crate::interrupt::{exit_code, set_on_interrupt};
use crate::terminal::{StepBar, print_error};
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use zonal_blk::ZoneWrite;
use zonal_blk::sched::Scheduler;
use zonal_fio::job::Job;
use zonal_fio::jobfile::{self, SystemEnvironment};
use zonal_lab::advise::{self, AdviseOptions, Depth};
use zonal_lab::drives::{self, Drive, DrivesOptions};
use zonal_lab::measurements::Kernel;
use zonal_sim::CostModel;

/// Options of `zonal advise` that are not job options.
#[derive(Args, Debug)]
pub struct AdviseArgs {
    /// The device: a spec (see `zonal devices`) or a TOML profile [default: the filename of the jobs, if they have one].
    /// With --drives it is an ordinary flash drive, and all have its flash [default: a small one]
    #[arg(long, value_name = "SPEC", value_parser = config::device)]
    pub device: Option<String>,
    /// Compares kinds of drive with the same flash, not configurations of one device
    #[arg(
        long,
        value_enum,
        value_name = "DRIVE,...",
        value_delimiter = ',',
        conflicts_with_all = ["schedulers", "zone_write", "depths", "goal", "kernel"]
    )]
    pub drives: Vec<DriveArg>,
    /// With --drives, how much the jobs write before they are measured, in sizes of the drive
    #[arg(long, value_name = "SIZES", default_value_t = 3.0, value_parser = sizes, requires = "drives")]
    pub warm_up: f64,
    /// With --drives, how much of what the jobs write is measured, in sizes of the drive
    #[arg(long, value_name = "SIZES", default_value_t = 1.0, value_parser = sizes, requires = "drives")]
    pub drive_writes: f64,
    /// With --drives, how many erasures a block endures
    #[arg(
        long,
        value_name = "ERASURES",
        default_value_t = 3000,
        value_parser = clap::value_parser!(u32).range(1..),
        requires = "drives"
    )]
    pub cycles: u32,
    /// The schedulers to try
    #[arg(
        long,
        value_name = "NAME,...",
        value_delimiter = ',',
        default_value = zonal_blk::scheduler_list!()
    )]
    pub schedulers: Vec<String>,
    /// The zone-write policies to try [default: plug and qd1; today's is measured anyway]
    #[arg(long, value_parser = zone_write(), value_name = "POLICY,...", value_delimiter = ',')]
    pub zone_write: Vec<ZoneWrite>,
    /// The queue depths to try: of all jobs, of one (`JOB=DEPTH`), or `own` [default: that of the jobs, 1, 4, 16 and
    /// 64; their own if they differ or are on a file system]
    #[arg(long, value_name = "DEPTH,...", value_delimiter = ',')]
    pub depths: Vec<Depth>,
    /// Virtual time for each configuration, in seconds, of which the beginning is left out; with --drives the
    /// most for warm-up and measurement each [default: 120; 2 for a device that does not rotate]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub time: Option<f64>,
    /// What to look for, the most important first, each for all jobs or `JOB:`, `JOB:read:`, `JOB:write:`: `throughput`,
    /// `latency` (its 99th percentile), `p99<TIME`, `rate` (that which the job has) [default: rates, then the latency of jobs
    /// without one; without any rate throughput, then latency; with no job worse off than today]
    #[arg(long, value_name = "GOAL,...", value_delimiter = ',')]
    pub goal: Vec<String>,
    #[command(flatten)]
    pub format: FormatArgs,
    /// How often a configuration is measured, each time with the next seed: at most, or with --drives always
    /// [default: 60, with --drives 3]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub seeds: Option<u32>,
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

/// `--drives`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DriveArg {
    /// With zones, which the host maps
    Zns,
    /// An ordinary drive, with a translation layer
    Ssd,
    /// The same with data placement: each job has a reclaim unit handle, or those that its plids name
    Fdp,
}

impl From<DriveArg> for Drive {
    fn from(drive: DriveArg) -> Self {
        match drive {
            DriveArg::Zns => Drive::Zns,
            DriveArg::Ssd => Drive::Ssd,
            DriveArg::Fdp => Drive::Fdp,
        }
    }
}

/// Sizes of a drive.
fn sizes(text: &str) -> Result<f64, String> {
    let sizes = text.parse().ok().filter(|sizes: &f64| (0.01..=1000.0).contains(sizes));
    sizes.ok_or_else(|| "expected a number from 0.01 to 1000".to_owned())
}

/// Measures the jobs in all configurations and prints the advice and these. After an interrupt those
/// that were measured by then are printed. Exits with 1 if a job did no I/O in any of them.
pub fn run(args: &AdviseArgs, job_args: Vec<OsString>) -> Result<ExitCode> {
    let set = jobfile::parse_args(job_args, &SystemEnvironment)?;
    for notice in set.notices(false)? {
        tracing::warn!("{notice}");
    }
    let jobs = set.jobs;
    if !args.drives.is_empty() {
        return compare_drives(args, &jobs);
    }
    let scheduler = |name: &String| name.parse::<Scheduler>().context("--schedulers");
    let options = AdviseOptions {
        device: device(args, &jobs)?,
        schedulers: args.schedulers.iter().map(scheduler).collect::<Result<_>>()?,
        zone_write: args.zone_write.clone(),
        depths: args.depths.clone(),
        seconds: args.time,
        goals: args.goal.clone(),
        seed: args.seed,
        seeds: args.seeds.unwrap_or(advise::SEEDS),
        io_cost: args.io_cost,
        kernel: args.kernel,
    };
    let bar = progress_bar();
    let stop = Arc::default();
    set_on_interrupt(&stop)?;
    let advice = advise::advise(&jobs, &options, &stop, &bar)?;
    Forms {
        text: || advise::text(&advice),
        json: || advise::json(&advice),
        csv: || advise::csv(&advice),
        html: || advise::html(&advice),
    }
    .print(args.format)?;
    tell(args, &advice.without_io());
    Ok(ended(advice.interrupted.is_some(), advice.leaves_out_a_job()))
}

/// The device: the one that is given, or that of all jobs.
fn device(args: &AdviseArgs, jobs: &[Job]) -> Result<String> {
    let all = jobs.iter().map(|job| job.filename.clone()).collect::<Option<BTreeSet<String>>>();
    let own = all.filter(|all| all.len() == 1).and_then(|mut all| all.pop_first());
    args.device.clone().or(own).context(
        "no device: give --device (see zonal devices), or --drives to compare kinds of drive",
    )
}

/// Tells which jobs did no I/O where the answer is for programs; else it has that itself.
fn tell(args: &AdviseArgs, without_io: &[String]) {
    if args.format.get() != Format::Text {
        without_io.iter().for_each(|job| print_error(format_args!("zonal: {job}")));
    }
}

/// The exit code after measurements.
fn ended(is_interrupted: bool, leaves_out_a_job: bool) -> ExitCode {
    let done = if leaves_out_a_job { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    is_interrupted.then(exit_code).flatten().unwrap_or(done)
}

fn progress_bar() -> StepBar {
    StepBar::new("[{bar:24}] {pos}/{len} measurements eta {eta}")
}

/// Measures the jobs on drives of different kinds. After an interrupt those that were measured by then
/// are printed.
fn compare_drives(args: &AdviseArgs, jobs: &[Job]) -> Result<ExitCode> {
    let options = DrivesOptions {
        drives: args.drives.iter().copied().map(Into::into).collect(),
        flash: args.device.clone(),
        before: args.warm_up,
        measured: args.drive_writes,
        seconds: args.time.unwrap_or(120.0),
        cycles: args.cycles,
        seed: args.seed,
        seeds: args.seeds.unwrap_or(3),
        io_cost: args.io_cost,
    };
    let bar = progress_bar();
    let stop = Arc::default();
    set_on_interrupt(&stop)?;
    let comparison = drives::compare(jobs, &options, &stop, &bar)?;
    Forms {
        text: || drives::text(&comparison),
        json: || drives::json(&comparison),
        csv: || drives::csv(&comparison),
        html: || Ok(drives::html(&comparison)),
    }
    .print(args.format)?;
    tell(args, &comparison.without_io());
    Ok(ended(comparison.interrupted, comparison.leaves_out_a_job()))
}
