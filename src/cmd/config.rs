//! `zonal config`: what the configuration file says.
use crate::config::{self, Config, OptionDefault};
use crate::format::{self, FormatArgs};
use anyhow::Result;
use clap::Args;
use serde_json::{Map, Value, json};
use std::process::ExitCode;

/// Options of `zonal config`.
#[derive(Args, Debug)]
pub struct ConfigArgs {
    #[command(flatten)]
    pub format: FormatArgs,
}

/// Shows the file, its devices and its defaults.
///
/// # Errors
/// Standard output cannot be written.
pub fn run(args: &ConfigArgs) -> Result<ExitCode> {
    let none = Config::default();
    let config = config::get().unwrap_or(&none);
    format::print(args.format, "Configuration", || as_text(config), &as_json(config))?;
    Ok(ExitCode::SUCCESS)
}

fn as_text(config: &Config) -> String {
    let mut lines = vec![match &config.file {
        Some(file) if file.exists() => file.display().to_string(),
        Some(file) => format!("{} (there is none)", file.display()),
        None => "no file".to_owned(),
    }];
    lines.extend(config.devices.iter().map(|(name, spec)| format!("device {name} = {spec}")));
    for OptionDefault { command, option, values } in &config.defaults {
        let command = command.join(" ");
        for value in values {
            let value = value.as_ref().map_or(String::new(), |value| format!("={value}"));
            lines.push(format!("zonal {command} --{option}{value}"));
        }
    }
    lines.into_iter().map(|line| line + "\n").collect()
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
