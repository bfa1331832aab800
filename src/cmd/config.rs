//! `zonal config`: what the configuration file says.
use crate::config::{self, Config, OptionDefault};
use crate::terminal::stdout;
use anyhow::Result;
use clap::Args;
use serde_json::{Map, Value, json};
use std::io::Write;
use std::process::ExitCode;

/// Options of `zonal config`.
#[derive(Args, Debug)]
pub struct ConfigArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Shows the file, its devices and its defaults.
///
/// # Errors
/// Standard output cannot be written.
pub fn run(args: &ConfigArgs) -> Result<ExitCode> {
    let none = Config::default();
    let config = config::get().unwrap_or(&none);
    let mut out = stdout();
    if args.json {
        writeln!(out, "{:#}", as_json(config))?;
        return Ok(ExitCode::SUCCESS);
    }
    match &config.file {
        Some(file) if file.exists() => writeln!(out, "{}", file.display())?,
        Some(file) => writeln!(out, "{} (there is none)", file.display())?,
        None => writeln!(out, "no file")?,
    }
    for (name, spec) in &config.devices {
        writeln!(out, "device {name} = {spec}")?;
    }
    for OptionDefault { command, option, values } in &config.defaults {
        let command = command.join(" ");
        for value in values {
            let value = value.as_ref().map_or(String::new(), |value| format!("={value}"));
            writeln!(out, "zonal {command} --{option}{value}")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn as_json(config: &Config) -> Value {
    let mut defaults = Map::new();
    for OptionDefault { command, option, values } in &config.defaults {
        let options = defaults.entry(command.join(" ")).or_insert_with(|| json!({}));
        options[option] = values
            .iter()
            .map(|value| json!(value.as_ref().map_or_else(|| "true".to_owned(), String::clone)))
            .collect();
    }
    let exists = config.file.as_ref().is_some_and(|file| file.exists());
    json!({ "file": config.file, "exists": exists, "devices": config.devices, "defaults": defaults })
}
