//! `zonal sweep`.
use super::reproduce::{prepare, write_plots};
use crate::args::{ClockArg, ZoneWriteArg, seconds};
use crate::cmd::reproduce::TableFormat;
use crate::config;
use crate::interrupt::{exit_code, set_on_interrupt};
use crate::terminal::{StepBar, notices};
use anyhow::{Context, Result};
use clap::Args;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use zonal_lab::page;
use zonal_lab::sweep::{self, Axis, SweepOptions};
use zonal_sim::CostModel;

/// Options of `zonal sweep` that are not job options.
#[derive(Args, Debug)]
pub struct SweepArgs {
    /// What to vary, and over which values; can be repeated, and all combinations are measured. NAME
    /// is a job option, device, scheduler or zone_write. Among numbers and sizes A..B doubles: 4..32
    /// is 4,8,16,32
    #[arg(long, value_name = "NAME=VALUE,...", required = true)]
    pub vary: Vec<String>,
    /// Device for all jobs: a spec (see `zonal devices`), a TOML profile, or in real time any device
    /// that `zonal run` takes. Without it, each job's `filename` names its device
    #[arg(long, value_name = "SPEC", value_parser = config::device)]
    pub device: Option<String>,
    /// I/O scheduler of all devices: none, mq-deadline, bfq or kyber. Without it, each job's
    /// `ioscheduler` names its device's [default: none]
    #[arg(long, value_name = "NAME")]
    pub scheduler: Option<String>,
    /// How writes to sequential zones are kept in order [default: qd1 for rotating devices, else
    /// plug]
    #[arg(long, value_enum, value_name = "POLICY")]
    pub zone_write: Option<ZoneWriteArg>,
    /// How often each combination is measured, each time with the next seed
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub seeds: u32,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Time for each measurement, in seconds of the clock, of which the first tenth does not count
    /// [default: as the jobs say]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub time: Option<f64>,
    /// Real threads and real time, one measurement after another; or discrete events in virtual time,
    /// as many at once as there are CPUs
    #[arg(long, value_enum, default_value_t = ClockArg::Virtual)]
    pub clock: ClockArg,
    /// Virtual time that an I/O costs the thread that does it, in nanoseconds; `published` for what
    /// it cost the machine of the published zone write plugging tables, by scheduler and length
    #[arg(long, value_name = "NS", default_value = "1000")]
    pub io_cost: CostModel,
    /// Keep each measurement in this file, and measure only what it does not have yet
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t = TableFormat::Text)]
    pub format: TableFormat,
    /// Write each plot to a file of its own in this directory, which is created if necessary
    #[arg(long, value_name = "DIR")]
    pub plot: Option<PathBuf>,
}

/// Measures the jobs at all points and prints the figures. Exits with 1 if an I/O failed.
pub fn run(args: &SweepArgs, job_args: Vec<OsString>) -> Result<ExitCode> {
    let axis = |text: &String| Axis::parse(text).context("--vary");
    let options = SweepOptions {
        axes: args.vary.iter().map(axis).collect::<Result<_>>()?,
        device: args.device.clone(),
        scheduler: args.scheduler.clone(),
        zone_write: args.zone_write.map(Into::into),
        seeds: args.seeds,
        seed: args.seed,
        seconds: args.time,
        clock: args.clock.into(),
        io_cost: args.io_cost,
        resume: args.resume.clone(),
        notices: notices(),
    };
    if let Some(dir) = &args.plot {
        prepare(dir)?;
    }
    let stop = Arc::default();
    set_on_interrupt(&stop)?;
    let bar = StepBar::new("[{bar:24}] {pos}/{len} measurements eta {eta} {msg}");
    let sweep = sweep::sweep(job_args, options, &stop, &bar)?;
    if let Some(dir) = &args.plot {
        write_plots(dir, &sweep::plots(&sweep)?)?;
    }
    let text = match args.format {
        TableFormat::Text => sweep::text(&sweep),
        TableFormat::Json => sweep::json(&sweep),
        TableFormat::Csv => sweep::csv(&sweep),
        TableFormat::Html => page::with_command(&sweep::html(&sweep)?, std::env::args().skip(1)),
    };
    io::stdout().write_all(text.as_bytes())?;
    let failed = sweep.points.iter().any(|point| point.failure.is_some());
    Ok(match sweep.is_interrupted.then(exit_code).flatten() {
        Some(interrupted) => interrupted,
        None if failed => ExitCode::FAILURE,
        None => ExitCode::SUCCESS,
    })
}
