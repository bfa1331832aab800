//! `zonal device`, `zonal devices` and `zonal options`: what the program knows about devices and
//! options.
use crate::args::{ReportFormat, seconds};
use crate::config;
use crate::terminal::stdout;
use anyhow::{Context, Result};
use clap::Args;
use std::io::Write;
use std::process::ExitCode;
use zonal_fio::options;
use zonal_lab::device_check::{self, CheckOptions};
use zonal_sim::CostModel;

/// Options of `zonal device`.
#[derive(Args, Debug)]
pub struct DeviceArgs {
    /// The device: a spec (see `zonal devices`) or a TOML profile
    #[arg(value_name = "SPEC", value_parser = config::device)]
    pub device: String,
    /// Virtual time for each load, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 20.0, value_parser = seconds)]
    pub time: f64,
    /// Virtual time that an I/O costs the thread that does it, in nanoseconds; or `published`, what
    /// it cost the machine of the published tables, by scheduler and length
    #[arg(long, value_name = "NS|published", default_value = "1000")]
    pub io_cost: CostModel,
    /// Format of the output
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
}

/// Describes and checks a device.
pub fn device(args: &DeviceArgs) -> Result<ExitCode> {
    let check = device_check::check(&CheckOptions {
        device: args.device.clone(),
        seconds: args.time,
        io_cost: args.io_cost,
    })?;
    let text = args.format.show(|| check.to_string(), || check.html())?;
    stdout().write_all(text.as_bytes())?;
    Ok(if check.is_sound() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Options of `zonal devices`.
#[derive(Args, Debug)]
pub struct DevicesArgs {
    /// Print the text of a profile instead: one to begin with
    #[arg(long, value_name = "PROFILE")]
    pub print: Option<String>,
}

/// Explains device specs, or prints a profile.
pub fn devices(args: &DevicesArgs) -> Result<ExitCode> {
    let text = match &args.print {
        Some(name) => zonal_backend::profile_text(name).context("--print")?,
        None => zonal_device::device_spec::help(),
    };
    stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Explains the job options, as Markdown or for a terminal.
pub fn options(markdown: bool) -> Result<ExitCode> {
    let text = if markdown { options::markdown() } else { options::help_text() };
    stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
