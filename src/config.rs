//! The configuration file: names for devices, and defaults of options.
//!
//! ```toml
//! [devices]
//! archive = "smr-30t:written=100%"
//!
//! [run]
//! clock = "virtual"
//!
//! [zone.report]
//! count = 8
//! ```
//!
//! An option on the command line takes the place of its default. What is wrong in the file is an error
//! of every command.
mod parser;

use crate::terminal::print_error;
use anyhow::{Context, Result, ensure};
use clap::Command;
use parser::Parser;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::env;
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::OnceLock;
use zonal_os::text_file;

/// Names the file; none is read if it is empty.
const VARIABLE: &str = "ZONAL_CONFIG";

/// Commands by the names that they had, which scripts may go on to use.
const FORMER: [(&str, &[&str]); 3] =
    [("create", &["image", "create"]), ("check", &["image", "check"]), ("device", &["devices"])];

static CONFIG: OnceLock<Config> = OnceLock::new();

/// The contents of a configuration file.
#[derive(Debug, Default)]
pub struct Config {
    /// The file, whether or not it exists.
    pub file: Option<PathBuf>,
    /// Names for devices.
    pub devices: BTreeMap<String, String>,
    /// Defaults of options.
    pub defaults: Vec<OptionDefault>,
}

/// The default of an option.
#[derive(Debug, PartialEq)]
pub struct OptionDefault {
    /// The words of its command, such as `zone` and `report`.
    pub command: Vec<String>,
    /// Its long name.
    pub option: String,
    /// One for each time that it is given; none for a flag that is off.
    pub values: Vec<Option<String>>,
}

/// The contents of the file, once it has been read.
pub fn get() -> Option<&'static Config> {
    CONFIG.get()
}

/// Reads the file that `--config FILE` before the command names, `ZONAL_CONFIG` or the user's own, and
/// adds its defaults to the arguments. The command line is defined only if there is a file.
///
/// # Errors
/// The file cannot be read, though it exists or was named, or something in it is wrong.
pub fn apply(mut args: Vec<OsString>, definition: fn() -> Command) -> Result<Vec<OsString>> {
    let named = take_option(&mut args)?;
    rename(&mut args);
    ensure!(take_option(&mut args)?.is_none(), "--config: found two files, expected one");
    let named = named.or_else(|| env::var_os(VARIABLE).map(PathBuf::from));
    let must_exist = named.is_some();
    let file = named.or_else(own_file).filter(|file| !file.as_os_str().is_empty());
    let mut config = Config::default();
    if let Some(file) = file.as_ref().filter(|file| must_exist || file.exists()) {
        let name = file.display().to_string();
        let text = text_file::read_toml(file)
            .with_context(|| format!("{name}: cannot read the configuration"))?;
        config = Parser::new(&name, &text, &definition()).parse()?;
    }
    config.file = file;
    let added = config.add_defaults(&mut args);
    if let (Some(file), false) = (&config.file, added.is_empty())
        && io::stderr().is_terminal()
    {
        print_error(format_args!("zonal: {}: {}", file.display(), added.join(" ")));
    }
    CONFIG.set(config).expect("the file is read once");
    Ok(args)
}

/// Takes `--config FILE` out of the arguments.
fn take_option(args: &mut Vec<OsString>) -> Result<Option<PathBuf>> {
    let first = args.get(1).and_then(|arg| arg.to_str()).unwrap_or_default();
    if let Some(file) = first.strip_prefix("--config=").map(PathBuf::from) {
        args.remove(1);
        return Ok(Some(file));
    }
    if first != "--config" {
        return Ok(None);
    }
    ensure!(args.len() > 2, "--config: found no file, expected `zonal --config FILE COMMAND`");
    args.remove(1);
    Ok(Some(args.remove(1).into()))
}

/// Gives the command the name that it has now.
fn rename(args: &mut Vec<OsString>) {
    let former = |(name, _): &&(&str, _)| args.get(1).is_some_and(|arg| arg == name);
    if let Some((_, now)) = FORMER.iter().find(former) {
        args.splice(1..2, now.iter().map(OsString::from));
    }
}

/// The arguments without the program's name and `--config FILE`: the words of the command come first.
pub fn words() -> Vec<String> {
    let mut args: Vec<OsString> = env::args_os().collect();
    // Without a file, the command line has been refused.
    let _ = take_option(&mut args);
    rename(&mut args);
    args.into_iter().skip(1).filter_map(|arg| arg.into_string().ok()).collect()
}

/// `~/.config/zonal/config.toml`, or where the XDG base directory specification has it.
fn own_file() -> Option<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let directory =
        absolute("XDG_CONFIG_HOME").or_else(|| absolute("HOME").map(|home| home.join(".config")));
    directory.map(|directory| directory.join("zonal/config.toml"))
}

/// The device that an argument names: one of the file, with more options after it, or itself.
///
/// # Errors
/// Never; clap expects a result.
pub fn device(name: &str) -> Result<String, Infallible> {
    let (alias, more) =
        name.split_once(':').map_or((name, None), |(alias, more)| (alias, Some(more)));
    let Some(spec) = get().and_then(|config| config.devices.get(alias)) else {
        return Ok(name.to_owned());
    };
    let separator = if spec.contains(':') { ',' } else { ':' };
    Ok(more.map_or_else(|| spec.clone(), |more| format!("{spec}{separator}{more}")))
}

impl Config {
    /// Adds the defaults of the command to its arguments, unless they are given. Returns them.
    fn add_defaults(&self, args: &mut Vec<OsString>) -> Vec<String> {
        let words: Vec<&str> = args.iter().skip(1).map_while(|arg| arg.to_str()).collect();
        let is_of = |default: &&OptionDefault| {
            let command = &default.command;
            words.len() >= command.len() && command.iter().zip(&words).all(|(a, b)| a == b)
        };
        let is_given = |option: &str| {
            words.iter().take_while(|&&word| word != "--").any(|word| {
                let given = word.strip_prefix("--").and_then(|word| word.strip_prefix(option));
                given.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
            })
        };
        let mut added = Vec::new();
        let mut at = 1;
        for default in self.defaults.iter().filter(is_of).filter(|it| !is_given(&it.option)) {
            at = 1 + default.command.len();
            added.extend(default.values.iter().map(|value| match value {
                Some(value) => format!("--{}={value}", default.option),
                None => format!("--{}", default.option),
            }));
        }
        args.splice(at..at, added.iter().map(OsString::from));
        added
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_defaults(args: &[&str]) -> Vec<String> {
        let default = |command: &[&str], option: &str, value: Option<&str>| OptionDefault {
            command: command.iter().map(|&word| word.to_owned()).collect(),
            option: option.to_owned(),
            values: vec![value.map(str::to_owned)],
        };
        let config = Config {
            defaults: vec![
                default(&["run"], "clock", Some("virtual")),
                default(&["run"], "nomerges", None),
                default(&["zone", "report"], "count", Some("8")),
            ],
            ..Config::default()
        };
        let mut args = args.iter().map(OsString::from).collect();
        config.add_defaults(&mut args);
        args.into_iter().map(|arg| arg.into_string().expect("UTF-8")).collect()
    }

    #[test]
    fn defaults_come_before_what_is_given_and_give_way_to_it() {
        assert_eq!(
            with_defaults(&["zonal", "run", "a.fio"]),
            ["zonal", "run", "--clock=virtual", "--nomerges", "a.fio"]
        );
        assert_eq!(
            with_defaults(&["zonal", "run", "--clock", "real", "--nomerges"]),
            ["zonal", "run", "--clock", "real", "--nomerges"]
        );
        assert_eq!(
            with_defaults(&["zonal", "run", "--", "--clock=real"]),
            ["zonal", "run", "--clock=virtual", "--nomerges", "--", "--clock=real"]
        );
        assert_eq!(
            with_defaults(&["zonal", "zone", "report", "d"]),
            ["zonal", "zone", "report", "--count=8", "d"]
        );
        assert_eq!(with_defaults(&["zonal", "zone", "reset", "d"]).len(), 4);
        assert_eq!(with_defaults(&["zonal"]), ["zonal"]);
    }
}
