//! `zonal devices`: how devices are described.
use anyhow::Result;
use std::io::{self, Write};
use std::process::ExitCode;

/// Prints how a device is described.
pub fn help() -> Result<ExitCode> {
    io::stdout().write_all(zonal_device::device_spec::help().as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
