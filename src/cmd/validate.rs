//! `zonal validate`.
use crate::args::seconds;
use crate::terminal::StepBar;
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use zonal_lab::host_cost;
use zonal_lab::validate::{self, ValidateOptions};

/// Options of `zonal validate`.
#[derive(Args, Debug)]
pub struct ValidateArgs {
    /// Measured cells of a drive: CSV with the columns that docs/models.md describes
    #[arg(required = true, value_name = "CELLS")]
    pub cells: PathBuf,
    /// The model: a spec (see `zonal devices`) or a TOML profile
    #[arg(long, value_name = "SPEC")]
    pub device: String,
    /// The costs of the host: spdk, io_uring, libaio or a TOML file [default: those of the cell's
    /// driver]
    #[arg(long, value_name = "NAME|FILE")]
    pub host_cost: Option<String>,
    /// Virtual time that is measured for each load, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    pub runtime: f64,
    /// Random seed of the jobs and of the device
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// `--format`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Errors by kind of work and metric, and the worst cells
    Text,
    /// The cells with the model's figures and the errors
    Csv,
    /// Everything
    Json,
}

/// Predicts the cells and prints the errors.
pub fn run(args: &ValidateArgs) -> Result<ExitCode> {
    let options = ValidateOptions {
        device: args.device.clone(),
        host: args.host_cost.as_deref().map(host_cost::load).transpose().context("--host-cost")?,
        seconds: args.runtime,
        seed: args.seed,
    };
    let bar = StepBar::new("{prefix} [{bar:24}] {pos}/{len} loads eta {eta}");
    let validation = validate::validate(validate::read(&args.cells)?, &options, &bar)?;
    let text = match args.format {
        Format::Text => validate::text(&validation),
        Format::Csv => validate::csv(&validation),
        Format::Json => validate::json(&validation),
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
