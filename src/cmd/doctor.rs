//! `zonal doctor`: what of this machine Zonal can use.
use crate::format::{self, FormatArgs};
use crate::terminal::print_error;
use anyhow::{Result, bail};
use clap::Args;
use std::process::ExitCode;
use zonal_serve::doctor::{self, Check};

/// Options of `zonal doctor`.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// Parts that are needed: exit code 1 if one of them cannot be used
    #[arg(value_name = "PART")]
    pub parts: Vec<String>,
    #[command(flatten)]
    pub format: FormatArgs,
}

/// Examines the machine. Exits with 1 if a part that was named cannot be used.
///
/// # Errors
/// There is no such part.
pub fn run(args: &DoctorArgs) -> Result<ExitCode> {
    for part in &args.parts {
        if !doctor::NAMES.contains(&part.as_str()) {
            let names = doctor::NAMES;
            let hint = zonal_blk::did_you_mean(part, names);
            bail!("unknown part `{part}`, expected one of {}{hint}", names.join(", "));
        }
    }
    let is_wanted =
        |check: &Check| args.parts.is_empty() || args.parts.iter().any(|part| part == check.name);
    let checks: Vec<Check> = doctor::examine().into_iter().filter(is_wanted).collect();
    let text = || checks.iter().map(show).collect();
    format::print(args.format, "This machine", text, &serde_json::to_value(&checks)?)?;
    let missing: Vec<&str> =
        checks.iter().filter(|check| !check.usable).map(|check| check.name).collect();
    if args.parts.is_empty() || missing.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    print_error(format_args!("zonal doctor: cannot be used: {}", missing.join(", ")));
    Ok(ExitCode::FAILURE)
}

fn show(check: &Check) -> String {
    let Check { name, purpose, usable, found, remedy } = check;
    let usable = if *usable { "yes" } else { "no" };
    let remedy = remedy.iter().map(|remedy| format!("{:17} -> {remedy}\n", ""));
    format!("{name:12} {usable:3}  {found}\n{:17} {purpose}\n{}", "", remedy.collect::<String>())
}
