//! `zonal fit`.
use super::measured::MeasuredArgs;
use crate::args::seconds;
use crate::config;
use crate::format::{FormatArgs, Forms};
use crate::terminal::StepBar;
use anyhow::{Context, Result};
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use zonal_lab::check_writable;
use zonal_lab::fit::{self, FitOptions, Profile};
use zonal_lab::measurements::RunOptions;

/// Options of `zonal fit`.
#[derive(Args, Debug)]
pub struct FitArgs {
    /// The profile to start from: the name of a built-in one, or a TOML file
    #[arg(value_parser = config::device)]
    pub profile: String,
    #[command(flatten)]
    pub measured: MeasuredArgs,
    /// The options to adjust [default: those that the profile names as `calibrated`]
    #[arg(long, value_name = "OPTION,...", value_delimiter = ',')]
    pub free: Vec<String>,
    /// Runs of all loads in a search, at most; those after the first have a third
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub steps: u64,
    /// Searches, each after the first from a random point near the best that was found
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub starts: u32,
    /// Hold one load in N out of the fit, and predict it; 0 for none [default: 5 for 30 loads and
    /// more, else none]
    #[arg(long, value_name = "N")]
    pub hold_out: Option<u32>,
    /// Folds for cross-validation, each of which is predicted from the others; 0 for none [default:
    /// 5, or the number of loads if that is less, or none if loads are held out by default]
    #[arg(long)]
    pub folds: Option<usize>,
    /// Loads that are run at most, chosen from all kinds of work; and as many of those held out
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub loads: usize,
    /// Virtual time that is measured for each load, in seconds [default: 0.05, for disks 20]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub time: Option<f64>,
    /// Write the fitted profile to a file
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub format: FormatArgs,
}

/// Fits a profile and prints how well it predicts the measurements.
pub fn run(args: &FitArgs) -> Result<ExitCode> {
    let profile = Profile::load(&args.profile)?.adjusting(&args.free).context("--free")?;
    let spec = profile.spec(&vec![0.0; profile.names().len()])?;
    let cells = args.measured.read(&spec)?;
    let (ramp, seconds) = fit::run_length(&spec, args.time);
    let options = FitOptions {
        steps: args.steps,
        starts: args.starts,
        folds: args.folds,
        hold_out: args.hold_out,
        loads: args.loads.max(1),
        run: RunOptions {
            device: args.profile.clone(),
            costs: args.measured.costs()?,
            seconds: Some(seconds),
            ramp: Some(ramp),
            seed: args.measured.seed,
            stop: Arc::default(),
        },
    };
    let written_to = |path: &Path| format!("--output {}", path.display());
    if let Some(path) = &args.output {
        check_writable(path).with_context(|| written_to(path))?;
    }
    let bar = StepBar::new("fit [{bar:24}] {pos}/{len} runs eta {eta} {msg}");
    let fitted = fit::fit(&profile, &cells, &options, &bar)?;
    if let Some(path) = &args.output {
        std::fs::write(path, &fitted.profile).with_context(|| written_to(path))?;
    }
    Forms {
        text: || fit::text(&fitted, &cells),
        json: || fit::json(&fitted, &cells),
        csv: || fit::csv(&fitted, &cells),
        html: || fit::html(&fitted, &cells),
    }
    .print(args.format)?;
    Ok(ExitCode::SUCCESS)
}
