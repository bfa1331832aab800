//! `zonal fit`.
use crate::args::seconds;
use crate::terminal::StepBar;
use anyhow::{Context, Result};
use clap::Args;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use zonal_lab::fit::{self, FitOptions, Profile};
use zonal_sim::CostModel;

/// Options of `zonal fit`.
#[derive(Args, Debug)]
pub struct FitArgs {
    /// The profile to start from: the name of a built-in one, or a TOML file
    pub profile: String,
    /// Measurements of the drive: CSV with the columns job, value, unit and optionally zone_write,
    /// scheduler and name; or JSON reports of fio
    #[arg(required = true, value_name = "MEASUREMENTS")]
    pub measurements: Vec<PathBuf>,
    /// The options to adjust [default: those that the profile names as `calibrated`]
    #[arg(long, value_name = "OPTION,...", value_delimiter = ',')]
    pub free: Vec<String>,
    /// Steps of a search
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub steps: u64,
    /// Folds for cross-validation, each of which is predicted from the others; 0 for none [default:
    /// 5, or the number of measurements if that is less]
    #[arg(long)]
    pub folds: Option<usize>,
    /// Virtual time for each measurement, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = seconds)]
    pub time: f64,
    /// Random seed of the jobs and of the device
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Virtual time that an I/O costs the thread that does it, in nanoseconds; or `published`, what
    /// it cost the machine of the published tables, by scheduler and length
    #[arg(long, value_name = "NS|published", default_value = "1000")]
    pub io_cost: CostModel,
    /// Write the fitted profile to a file
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Fits a profile and prints how well it predicts the measurements.
pub fn run(args: &FitArgs) -> Result<ExitCode> {
    let profile = Profile::load(&args.profile)?.adjusting(&args.free).context("--free")?;
    let mut measurements = Vec::new();
    for path in &args.measurements {
        measurements.extend(fit::read(path)?);
    }
    let options = FitOptions {
        steps: args.steps,
        folds: fit::folds(args.folds, measurements.len()).context("--folds")?,
        seconds: args.time,
        seed: args.seed,
        io_cost: args.io_cost,
    };
    let bar = StepBar::new("fit [{bar:24}] {pos}/{len} steps eta {eta} {msg}");
    let fitted = fit::fit(&profile, &measurements, &options, &bar)?;
    if let Some(path) = &args.output {
        std::fs::write(path, &fitted.profile)
            .with_context(|| format!("{}: cannot write", path.display()))?;
    }
    io::stdout().write_all(fit::text(&fitted, &measurements).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
