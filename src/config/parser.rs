//! The parser of the configuration file. Errors name the file and the line.
use super::{Config, OptionDefault};
use anyhow::{Error, Result, anyhow, ensure};
use clap::{Arg, Command};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The table with names for devices.
const DEVICES: &str = "devices";

pub(super) struct Parser<'a> {
    /// The file's name in errors.
    name: &'a str,
    text: &'a str,
    /// The command line, whose options can have defaults.
    definition: &'a Command,
    config: Config,
}

impl<'a> Parser<'a> {
    pub(super) fn new(name: &'a str, text: &'a str, definition: &'a Command) -> Self {
        Parser { name, text, definition, config: Config::default() }
    }

    /// # Errors
    /// The error, with file and line.
    pub(super) fn parse(mut self) -> Result<Config> {
        let table = DeTable::parse(self.text).map_err(|error| {
            self.error(error.span().unwrap_or_default(), error.message().to_owned())
        })?;
        for (key, value) in table.get_ref() {
            let name = key.get_ref().as_ref();
            let DeValue::Table(table) = value.get_ref() else {
                return Err(self.error(key.span(), format!("`{name}`: expected a table [{name}]")));
            };
            if name == DEVICES {
                self.devices(table)?;
            } else {
                let Some(command) = self.definition.find_subcommand(name) else {
                    let names = self.definition.get_subcommands().map(Command::get_name);
                    let hint = zonal_blk::did_you_mean(name, names.chain([DEVICES]));
                    let what = format!("unknown table [{name}], expected [{DEVICES}] or a command");
                    return Err(self.error(key.span(), what + &hint));
                };
                self.command(vec![name.to_owned()], command, table)?;
            }
        }
        Ok(self.config)
    }

    fn error(&self, at: Range<usize>, what: String) -> Error {
        let before = &self.text.as_bytes()[..at.start.min(self.text.len())];
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        anyhow!("{}: line {line}: {what}", self.name)
    }

    fn devices(&mut self, table: &DeTable<'_>) -> Result<()> {
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            let bad = |what| self.error(key.span(), format!("device `{name}`: {what}"));
            let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            let is_name = !name.is_empty() && name.chars().all(is_word);
            ensure!(is_name, bad("expected a name of letters, digits, - and _".to_owned()));
            let is_known = zonal_backend::load(name).is_ok();
            ensure!(!is_known, bad("expected a name that no device has yet".to_owned()));
            let Some(spec) = value.get_ref().as_str().filter(|spec| !spec.is_empty()) else {
                return Err(bad(format!("found {}, expected a device in quotes", kind(value))));
            };
            self.config.devices.insert(name.to_owned(), spec.to_owned());
        }
        Ok(())
    }

    /// The defaults of a command and of those below it.
    fn command(
        &mut self,
        words: Vec<String>,
        command: &Command,
        table: &DeTable<'_>,
    ) -> Result<()> {
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            if let (DeValue::Table(table), Some(inner)) =
                (value.get_ref(), command.find_subcommand(name))
            {
                self.command([&words[..], &[name.to_owned()]].concat(), inner, table)?;
                continue;
            }
            let mut options = command.get_arguments().filter(|arg| arg.get_long().is_some());
            let Some(option) = options.find(|arg| arg.get_long() == Some(name)) else {
                let names = command.get_arguments().filter_map(Arg::get_long);
                let hint = zonal_blk::did_you_mean(name, names);
                let what = format!("`zonal {}` has no option `{name}`{hint}", words.join(" "));
                return Err(self.error(key.span(), what));
            };
            let values = values(option, value)
                .map_err(|what| self.error(key.span(), format!("`{name}`: {what}")))?;
            let option = name.to_owned();
            self.config.defaults.push(OptionDefault { command: words.clone(), option, values });
        }
        Ok(())
    }
}

/// The words for an option's value on the command line, for each time that it is given.
fn values(option: &Arg, value: &Spanned<DeValue<'_>>) -> Result<Vec<Option<String>>, String> {
    if !option.get_action().takes_values() {
        return match value.get_ref() {
            DeValue::Boolean(true) => Ok(vec![None]),
            DeValue::Boolean(false) => Ok(Vec::new()),
            _ => Err(format!("found {}, expected true or false", kind(value))),
        };
    }
    let one = |value: &Spanned<DeValue<'_>>| match value.get_ref() {
        DeValue::String(text) => Ok(Some(text.clone().into_owned())),
        DeValue::Integer(number) => Ok(Some(number.as_str().to_owned())),
        DeValue::Float(number) => Ok(Some(number.as_str().to_owned())),
        DeValue::Boolean(flag) => Ok(Some(flag.to_string())),
        _ => Err(format!("found {}, expected a text or a number", kind(value))),
    };
    match value.get_ref() {
        DeValue::Array(values) => values.iter().map(one).collect(),
        _ => Ok(vec![one(value)?]),
    }
}

fn kind(value: &Spanned<DeValue<'_>>) -> String {
    let kind = value.get_ref().type_str();
    format!("{} {kind}", if kind.starts_with(['a', 'i']) { "an" } else { "a" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        let definition = crate::cli::definition();
        Parser::new("c.toml", text, &definition).parse().map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn devices_and_defaults_are_read() {
        let config = parse(
            "[devices]\ndisk = \"smr-30t\"\n[run]\nclock = 'virtual'\nseed = 3\n\
             nomerges = true\nsched-opt = ['a=1', 'b=2']\n[zone.report]\ncount = 8\n",
        )
        .expect("it is good");
        assert_eq!(config.devices["disk"], "smr-30t");
        let found = |option: &str| {
            let default = config.defaults.iter().find(|default| default.option == option);
            let default = default.expect("it is there");
            (default.command.join(" "), default.values.clone())
        };
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(found("clock"), ("run".to_owned(), vec![text("virtual")]));
        assert_eq!(found("seed"), ("run".to_owned(), vec![text("3")]));
        assert_eq!(found("nomerges"), ("run".to_owned(), vec![None]));
        assert_eq!(found("sched-opt"), ("run".to_owned(), vec![text("a=1"), text("b=2")]));
        assert_eq!(found("count"), ("zone report".to_owned(), vec![text("8")]));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, expected) in [
            ("a = = 1", "c.toml: line 1: "),
            (
                "\n[rum]\n",
                "c.toml: line 2: unknown table [rum], expected [devices] or a command, did you mean `run`?",
            ),
            ("run = 1", "c.toml: line 1: `run`: expected a table [run]"),
            (
                "[run]\nclok = 1",
                "c.toml: line 2: `zonal run` has no option `clok`, did you mean `clock`?",
            ),
            ("[zone]\nreport = 1", "c.toml: line 2: `zonal zone` has no option `report`"),
            (
                "[run]\nnomerges = 1",
                "c.toml: line 2: `nomerges`: found an integer, expected true or false",
            ),
            (
                "[run]\nseed = [{}]",
                "c.toml: line 2: `seed`: found a table, expected a text or a number",
            ),
            ("[devices]\n\"a:b\" = \"hdd\"", "c.toml: line 2: device `a:b`: expected a name of"),
            (
                "[devices]\nnull = \"hdd\"",
                "c.toml: line 2: device `null`: expected a name that no device",
            ),
            (
                "[devices]\na = 1",
                "c.toml: line 2: device `a`: found an integer, expected a device in quotes",
            ),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}
