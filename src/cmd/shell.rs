//! Files that a package installs beside the program: `zonal completions` and `zonal man`.
use crate::terminal::stdout;
use anyhow::{Context, Result};
use clap_complete::Shell;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Prints the completions for a shell.
///
/// # Errors
/// They cannot be written.
pub fn completions(mut command: clap::Command, shell: Shell) -> Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, "zonal", &mut text);
    stdout().write_all(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the manual pages of all commands to a directory.
///
/// # Errors
/// The directory or a page cannot be written.
pub fn man(command: clap::Command, directory: &Path) -> Result<ExitCode> {
    let in_directory = || format!("directory {}", directory.display());
    std::fs::create_dir_all(directory).with_context(in_directory)?;
    clap_mangen::generate_to(command, directory).with_context(in_directory)?;
    Ok(ExitCode::SUCCESS)
}
