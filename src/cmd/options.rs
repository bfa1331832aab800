//! `zonal options`: the job options.
use anyhow::Result;
use std::io::{self, Write};
use std::process::ExitCode;

/// Prints what the job options mean.
pub fn help() -> Result<ExitCode> {
    io::stdout().write_all(zonal_workload::options::help_text().as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
