//! `zonal options`: the job options.
use anyhow::Result;
use std::process::ExitCode;

/// Prints what the job options mean.
pub fn help() -> Result<ExitCode> {
    print!("{}", zonal_workload::options::help_text());
    Ok(ExitCode::SUCCESS)
}
