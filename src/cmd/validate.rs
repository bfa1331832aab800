//! `zonal validate`.
use super::measured::MeasuredArgs;
use super::reproduce::{prepare, write_plots};
use crate::args::seconds;
use crate::config;
use crate::format::{FormatArgs, Forms};
use crate::terminal::StepBar;
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use zonal_lab::measurements::RunOptions;
use zonal_lab::validate::{self, ValidateOptions};

/// Options of `zonal validate`.
#[derive(Args, Debug)]
pub struct ValidateArgs {
    #[command(flatten)]
    pub measured: MeasuredArgs,
    /// The model: a spec (see `zonal devices`) or a TOML profile
    #[arg(long, value_name = "SPEC", value_parser = config::device)]
    pub device: String,
    /// Virtual time that is measured for each load, in seconds [default: 1, for disks 60]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub runtime: Option<f64>,
    /// Report one load in N apart: those that `zonal fit` with the same option did not see
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub hold_out: Option<u32>,
    /// Keep predictions in a file as they are made, and take those that are there from it
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,
    /// Write the scatter plot of each metric to a file of its own in this directory, which is created
    /// if necessary
    #[arg(long, value_name = "DIR")]
    pub plot: Option<PathBuf>,
    #[command(flatten)]
    pub format: FormatArgs,
}

/// Predicts the cells and prints the errors.
pub fn run(args: &ValidateArgs) -> Result<ExitCode> {
    let cells = args.measured.read(&zonal_backend::load(&args.device)?)?;
    let options = ValidateOptions {
        run: RunOptions {
            device: args.device.clone(),
            costs: args.measured.costs()?,
            seconds: args.runtime,
            ramp: None,
            seed: args.measured.seed,
            stop: Arc::default(),
        },
        hold_out: args.hold_out,
        resume: args.resume.clone(),
    };
    if let Some(dir) = &args.plot {
        prepare(dir)?;
    }
    let bar = StepBar::new("{prefix} [{bar:24}] {pos}/{len} loads eta {eta}");
    let validation = validate::validate(cells, &options, &bar)?;
    if let Some(dir) = &args.plot {
        write_plots(dir, &validate::plots(&validation))?;
    }
    Forms {
        text: || validate::text(&validation),
        json: || validate::json(&validation),
        csv: || validate::csv(&validation),
        html: || validate::html(&validation),
    }
    .print(args.format)?;
    Ok(ExitCode::SUCCESS)
}
