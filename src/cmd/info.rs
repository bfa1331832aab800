//! `zonal devices` and `zonal options`: what the program knows about devices and
//! options.
use crate::args::seconds;
use crate::config;
use crate::format::{self, FormatArgs, Forms, page_of, pretty};
use crate::terminal::stdout;
use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Value, json};
use std::io::Write;
use std::process::ExitCode;
use zonal_device::device_spec::{self, DeviceKind, OptionInfo};
use zonal_fio::options::{self, OptionHelp};
use zonal_lab::device_check::{self, CheckOptions};
use zonal_lab::table::Table;
use zonal_sim::CostModel;

/// Options of `zonal devices`.
#[derive(Args, Debug)]
pub struct DevicesArgs {
    /// Show this device instead, a spec or a TOML profile: its parameters, its performance, and
    /// whether they make sense
    #[arg(value_name = "SPEC", value_parser = config::device)]
    pub device: Option<String>,
    /// Print the text of this profile instead: one to begin with
    #[arg(long, value_name = "PROFILE", conflicts_with_all = ["device", "format", "json"])]
    pub print: Option<String>,
    /// Virtual time for each load of SPEC, in seconds
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 20.0,
        value_parser = seconds,
        requires = "device"
    )]
    pub time: f64,
    /// Virtual time that an I/O costs the thread that does it, in nanoseconds; or `published`, what
    /// it cost the machine of the published tables, by scheduler and length
    #[arg(long, value_name = "NS|published", default_value = "1000", requires = "device")]
    pub io_cost: CostModel,
    #[command(flatten)]
    pub format: FormatArgs,
}

/// Explains device specs, describes and checks a device, or prints a profile.
pub fn devices(args: &DevicesArgs) -> Result<ExitCode> {
    if let Some(name) = &args.print {
        let text = zonal_backend::profile_text(name).context("--print")?;
        stdout().write_all(text.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(device) = &args.device {
        return checked(device, args);
    }
    let options = option_table();
    Forms {
        text: device_spec::help,
        json: || pretty(&devices_json()),
        csv: || options.csv(),
        html: || Ok(page_of("Devices", &options)),
    }
    .print(args.format)?;
    Ok(ExitCode::SUCCESS)
}

/// Describes and checks a device.
fn checked(device: &str, args: &DevicesArgs) -> Result<ExitCode> {
    let check = device_check::check(&CheckOptions {
        device: device.to_owned(),
        seconds: args.time,
        io_cost: args.io_cost,
    })?;
    Forms {
        text: || check.to_string(),
        json: || pretty(&check.json()),
        csv: || Table::of_json(&check.json()).csv(),
        html: || check.html(),
    }
    .print(args.format)?;
    Ok(if check.is_sound() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The options of all kinds of device.
fn option_table() -> Table {
    let rows = device_spec::kinds().flat_map(|kind| {
        kind.options.iter().map(move |option| {
            let OptionInfo { name, unit, default, help, .. } = option;
            [kind.name, name, unit.name(), default, kind.scope(option), help]
                .map(str::to_owned)
                .to_vec()
        })
    });
    Table::new(["device", "option", "unit", "default", "only with", "help"], rows)
}

fn devices_json() -> Value {
    let option = |kind: &DeviceKind, option: &OptionInfo| {
        json!({
            "name": option.name,
            "unit": option.unit.name(),
            "default": option.default,
            "only_with": kind.scope(option),
            "help": option.help,
        })
    };
    let kind = |kind: &'static DeviceKind| {
        let options: Vec<Value> = kind.options.iter().map(|info| option(kind, info)).collect();
        let profiles: Vec<&str> = kind.profiles.iter().map(|(name, _)| *name).collect();
        json!({ "name": kind.name, "profiles": profiles, "options": options })
    };
    let profile = |(name, subject): (&str, String)| json!({ "name": name, "model_of": subject });
    json!({
        "kinds": device_spec::kinds().map(kind).collect::<Vec<_>>(),
        "profiles": device_spec::profile_subjects().map(profile).collect::<Vec<_>>(),
    })
}

/// Options of `zonal options`.
#[derive(Args, Debug)]
pub struct OptionsArgs {
    /// Explain this option only
    #[arg(value_name = "OPTION", conflicts_with = "markdown")]
    pub option: Option<String>,
    /// As Markdown, including the options of fio that have no effect here
    #[arg(long, conflicts_with_all = ["format", "json"])]
    pub markdown: bool,
    #[command(flatten)]
    pub format: FormatArgs,
}

/// What a job option means.
///
/// # Errors
/// There is no such option.
pub fn explained(name: &str) -> Result<String> {
    options::describe(name).with_context(|| {
        let nearest = options::nearest(name).map(|name| format!(", did you mean {name}?"));
        format!(
            "unknown option {name:?}{}",
            nearest.unwrap_or_else(|| ", expected one that `zonal options` lists".to_owned())
        )
    })
}

/// Explains the job options, or one.
pub fn options(args: &OptionsArgs) -> Result<ExitCode> {
    if args.markdown {
        stdout().write_all(options::markdown().as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let option = |option: OptionHelp| {
        let OptionHelp { group, name, aliases, form, default, help } = option;
        json!({
            "name": name,
            "aliases": aliases,
            "group": group,
            "form": form,
            "default": default,
            "help": help,
        })
    };
    let Some(name) = &args.option else {
        let all: Value = options::all().map(option).collect();
        format::print(args.format, "Job options", options::help_text, &all)?;
        return Ok(ExitCode::SUCCESS);
    };
    let text = explained(name)?;
    let named =
        |option: &OptionHelp| option.name == name || option.aliases.contains(&name.as_str());
    let one: Value = options::all().filter(named).map(option).collect();
    format::print(args.format, "Job option", || text, &one)?;
    Ok(ExitCode::SUCCESS)
}
