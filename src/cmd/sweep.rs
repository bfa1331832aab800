//! `zonal sweep`, by arguments or by a file.
use super::reproduce::{prepare, write_plots};
use crate::args::{ClockArg, seconds, zone_write};
use crate::config;
use crate::format::{FormatArgs, Forms};
use crate::interrupt::{exit_code, set_on_interrupt};
use crate::terminal::{StepBar, notices};
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use zonal_blk::ZoneWrite;
use zonal_lab::sweep::file::{self, SweepFile};
use zonal_lab::sweep::{self, Axis, Search, SweepOptions};
use zonal_sim::CostModel;

/// Options of `zonal sweep` that are not job options. What says what is measured has no default here:
/// it must not be given with a file.
#[derive(Args, Debug)]
pub struct SweepArgs {
    /// What to vary, and over which values; can be repeated, and all combinations are measured. NAME
    /// is a job option, device, scheduler or zone_write. Among numbers and sizes A..B doubles: 4..32
    /// is 4,8,16,32
    #[arg(long, value_name = "NAME=VALUE,...")]
    pub vary: Vec<String>,
    /// Device for all jobs: a spec (see `zonal devices`), a TOML profile, or in real time any device
    /// that `zonal run` takes. Without it, each job's `filename` names its device
    #[arg(long, value_name = "SPEC", value_parser = config::device)]
    pub device: Option<String>,
    #[arg(
        long,
        value_name = "NAME",
        help = concat!(
            "I/O scheduler of all devices: ",
            zonal_blk::scheduler_names!(),
            ". Without it, each job's `ioscheduler` names its device's [default: none]"
        )
    )]
    pub scheduler: Option<String>,
    /// How writes to sequential zones are kept in order [default: qd1 for rotating devices, else
    /// plug]
    #[arg(long, value_parser = zone_write(), value_name = "POLICY")]
    pub zone_write: Option<ZoneWrite>,
    /// How often each combination is measured, each time with the next seed [default: 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub seeds: Option<u32>,
    /// The first seed [default: 0]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Time for each measurement, in seconds of the clock, of which the beginning is left out
    /// [default: as the jobs say]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub time: Option<f64>,
    /// Real threads and real time, one measurement after another; or discrete events in virtual time,
    /// as many at once as there are CPUs [default: virtual]
    #[arg(long, value_enum)]
    pub clock: Option<ClockArg>,
    /// Virtual time that an I/O costs the thread that does it, in nanoseconds; `published` for what
    /// it cost the machine of the published zone write plugging tables, by scheduler and length
    /// [default: 1000]
    #[arg(long, value_name = "NS")]
    pub io_cost: Option<CostModel>,
    /// Keep each measurement in this file, and measure only what it does not have yet
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,
    #[command(flatten)]
    pub format: FormatArgs,
    /// Write each plot to a file of its own in this directory, which is created if necessary
    #[arg(long, value_name = "DIR")]
    pub plot: Option<PathBuf>,
}

/// Measures the jobs at all points and prints the figures. Exits with 1 if an I/O failed or a point is
/// impossible.
pub fn run(args: &SweepArgs, job_args: Vec<OsString>) -> Result<ExitCode> {
    let (job_args, options) = match file(&job_args) {
        Some(path) => {
            let other = job_args.iter().find(|arg| Path::new(arg) != path);
            if let Some(other) = other {
                let (other, path) = (other.display(), path.display());
                bail!("found `{other}` beside {path}, expected the jobs to be named in the file");
            }
            of_file(args, path)?
        }
        None => (job_args, of_arguments(args)?),
    };
    if let Some(dir) = &args.plot {
        prepare(dir)?;
    }
    let stop = Arc::default();
    set_on_interrupt(&stop)?;
    let bar = StepBar::new("[{bar:24}] {pos}/{len} measurements eta {eta} {msg}");
    let sweep = sweep::sweep(job_args, options, &stop, &bar)?;
    if let Some(dir) = &args.plot {
        write_plots(dir, &sweep::plots(&sweep))?;
    }
    Forms {
        text: || sweep::text(&sweep),
        json: || sweep::json(&sweep),
        csv: || sweep::csv(&sweep),
        html: || sweep::html(&sweep),
    }
    .print(args.format)?;
    let failed = sweep.points.iter().any(|point| point.failure.is_some());
    Ok(match sweep.is_interrupted.then(exit_code).flatten() {
        Some(interrupted) => interrupted,
        None if failed => ExitCode::FAILURE,
        None => ExitCode::SUCCESS,
    })
}

/// The file of a sweep among the arguments: job files have other names.
fn file(job_args: &[OsString]) -> Option<&Path> {
    let is_sweep = |path: &&Path| path.extension().is_some_and(|extension| extension == "toml");
    job_args.iter().map(Path::new).find(is_sweep)
}

fn of_file(args: &SweepArgs, path: &Path) -> Result<(Vec<OsString>, SweepOptions)> {
    let name = path.display();
    let given = [
        ("--vary", !args.vary.is_empty()),
        ("--device", args.device.is_some()),
        ("--scheduler", args.scheduler.is_some()),
        ("--zone-write", args.zone_write.is_some()),
        ("--seeds", args.seeds.is_some()),
        ("--seed", args.seed.is_some()),
        ("--time", args.time.is_some()),
        ("--clock", args.clock.is_some()),
        ("--io-cost", args.io_cost.is_some()),
        ("--resume", args.resume.is_some()),
    ];
    if let Some((option, _)) = given.iter().find(|(_, is_given)| *is_given) {
        bail!("{option}: found {name} as well, expected it to say what is measured");
    }
    let SweepFile { job_args, mut options, bayesian, output, .. } = file::read(path)?;
    ensure!(
        bayesian.is_none(),
        "{name}: `search`: Bayesian search is done by the Python package: \
         python3 -c 'import zonal; print(zonal.sweep(\"{name}\").best)'; expected grid or random here"
    );
    options.resume = output.map(|output| output.with_added_extension("jsonl"));
    options.notices = notices();
    Ok((job_args, options))
}

fn of_arguments(args: &SweepArgs) -> Result<SweepOptions> {
    let axis = |text: &String| Axis::parse(text).context("--vary");
    Ok(SweepOptions {
        axes: args.vary.iter().map(axis).collect::<Result<_>>()?,
        device: args.device.clone(),
        scheduler: args.scheduler.clone(),
        zone_write: args.zone_write,
        seeds: args.seeds.unwrap_or(1),
        seed: args.seed.unwrap_or(0),
        seconds: args.time,
        clock: args.clock.unwrap_or(ClockArg::Virtual).into(),
        io_cost: args.io_cost.unwrap_or(file::IO_COST),
        search: Search::Grid,
        metric: None,
        job_text: None,
        goes_on: false,
        resume: args.resume.clone(),
        notices: notices(),
    })
}
