//! `zonal options`: the job options.
use anyhow::Result;
use std::io::{self, Write};
use std::process::ExitCode;
use zonal_fio::options;

/// Prints what the job options mean.
pub fn help(markdown: bool) -> Result<ExitCode> {
    let text = if markdown { options::markdown() } else { options::help_text() };
    io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
