//! The command line.
//!
//! `zonal run`, `zonal sweep` and `zonal advise` take fio's job options beside their own, so their
//! arguments are split first: options that [`RunArgs`], [`SweepArgs`] or [`AdviseArgs`] define are
//! Zonal's, everything else goes to the job parser.
mod examples;

pub use examples::of as examples_of;

use crate::cmd::advise::AdviseArgs;
use crate::cmd::config::ConfigArgs;
use crate::cmd::crash::CrashArgs;
use crate::cmd::ctl::{COMMANDS as CTL_COMMANDS, CtlArgs};
use crate::cmd::doctor::DoctorArgs;
use crate::cmd::fit::FitArgs;
use crate::cmd::image::ImageCommand;
use crate::cmd::info::{DevicesArgs, OptionsArgs};
use crate::cmd::reproduce::ReproduceArgs;
use crate::cmd::run::RunArgs;
use crate::cmd::serve::ServeArgs;
use crate::cmd::sweep::SweepArgs;
#[cfg(feature = "top")]
use crate::cmd::top::TopArgs;
use crate::cmd::validate::ValidateArgs;
use crate::cmd::view::ViewArgs;
use crate::cmd::zone::ZoneCommand;
use crate::config;
use clap::error::ErrorKind;
use clap::{Arg, Args, CommandFactory, FromArgMatches, Parser, Subcommand, value_parser};
use clap_complete::Shell;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::LazyLock;
use tracing::Level;
use zonal_fio::options;
use zonal_serve::control::log::{Format, LogOptions};

/// A parsed command line.
pub struct Invocation {
    /// The command with its options.
    pub command: Command,
    /// Arguments that describe jobs, of the commands that run jobs.
    pub job_args: Vec<OsString>,
}

/// Version, commit and features. Who makes a package says from which commit, by `ZONAL_COMMIT`.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let commit = option_env!("ZONAL_COMMIT").unwrap_or("unknown");
    let features = [
        ("fuse", cfg!(feature = "fuse")),
        ("tls", cfg!(feature = "tls")),
        ("top", cfg!(feature = "top")),
    ];
    let features: Vec<&str> =
        features.iter().filter(|(_, on)| *on).map(|(name, _)| *name).collect();
    let features = if features.is_empty() { "none".to_owned() } else { features.join(", ") };
    format!("{} (commit {commit}, features: {features})", env!("CARGO_PKG_VERSION"))
});

/// Help after the options of `zonal config`.
const CONFIG_HELP: &str = "\
The file is that of `zonal --config FILE COMMAND`, of ZONAL_CONFIG (none if that is empty), or
~/.config/zonal/config.toml. Its tables are [devices], with names for devices, and one for each
command, with defaults of its options:

  [devices]
  archive = \"smr-30t:written=100%\"

  [run]
  clock = \"virtual\"

Then `zonal run --device archive ...` runs in virtual time on that disk.";

/// Help after the commands of `zonal --help`.
pub const EXIT_CODES: &str = "\
Exit codes: 0; 1 if an I/O or a check failed; 2 for input that cannot be used; 128 and the number of
the signal after an interrupt.";

#[derive(Parser)]
#[command(name = "zonal", version = VERSION.as_str(), about, max_term_width = 100, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// A command.
#[derive(Subcommand)]
pub enum Command {
    /// Run fio jobs through the zoned block layer onto a device
    #[command(
        override_usage = "zonal run [OPTIONS] [JOBFILE]... [--name=JOB --rw=... --bs=... ...]",
        after_help = "Job options are fio's; `zonal options` lists them."
    )]
    Run(RunArgs),
    /// Show or manage the zones of a device, as blkzone(8) does
    #[command(subcommand)]
    Zone(ZoneCommand),
    /// Measure the cells of a published table and print them with the published figures
    Reproduce(ReproduceArgs),
    /// Find the scheduler, zone-write policy and queue depth, or the kind of flash drive, that suit jobs
    #[command(
        override_usage = "zonal advise --device SPEC [OPTIONS] [JOBFILE]... [--name=JOB ...]\n       zonal advise --drives DRIVE,... [OPTIONS] [JOBFILE]... [--name=JOB ...]",
        after_help = "Job options are fio's; `zonal options` lists them."
    )]
    Advise(AdviseArgs),
    /// Measure jobs at all combinations of job options, schedulers, policies and devices
    #[command(
        override_usage = "zonal sweep FILE.toml [--format FORMAT] [--plot DIR]\n       zonal sweep --vary NAME=VALUE,... [OPTIONS] [JOBFILE]... [--name=JOB ...]",
        after_help = "Job options are fio's; `zonal options` lists them."
    )]
    Sweep(SweepArgs),
    /// Predict measured cells of a drive by a model, and print how far off it is
    Validate(ValidateArgs),
    /// Adjust a device profile to measurements of a drive
    Fit(FitArgs),
    /// Export a device to other machines and guests
    Serve(Box<ServeArgs>),
    /// Monitor or control a device that `zonal serve --ctl` exports
    #[command(after_help = CTL_COMMANDS)]
    Ctl(CtlArgs),
    /// Watch a device that `zonal serve --ctl` exports: zones, plugs, rates and times, in the terminal
    #[cfg(feature = "top")]
    Top(TopArgs),
    /// Show runs that `zonal run --record-view` recorded: zones, rates and heads over time, in a browser
    View(ViewArgs),
    /// Find out what a loss of power may leave on a recorded device, and run checks on it
    Crash(CrashArgs),
    /// Create, check, show, convert, copy or resize an image: a zoned device in a file
    #[command(subcommand)]
    Image(ImageCommand),
    /// Explain device specs such as null:zones=4096,zone_size=256M, or show and check one
    Devices(DevicesArgs),
    /// Show what the configuration file says: names for devices, and defaults of options
    #[command(after_help = CONFIG_HELP)]
    Config(ConfigArgs),
    /// Check which frontends and backends work on this machine
    Doctor(DoctorArgs),
    /// Print the completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write the manual pages of all commands
    Man {
        /// Where they are written; it is created
        directory: PathBuf,
    },
    /// Explain the job options, which are fio's
    Options(OptionsArgs),
}

impl Command {
    /// How its messages are written.
    pub fn log_options(&self) -> LogOptions {
        match self {
            Command::Serve(args) => args.log.options(),
            _ => LogOptions { format: Format::Plain, level: Level::INFO, limited: false },
        }
    }
}

/// Parses the command line. Exits where clap does (help, version, errors).
pub fn parse(args: Vec<OsString>) -> Invocation {
    let refine = |error| with_expected(with_option(with_suggestion(error)));
    parsed(args).unwrap_or_else(|error| refine(error).exit())
}

fn parsed(args: Vec<OsString>) -> Result<Invocation, clap::Error> {
    let (own, job_args) = match args.get(1) {
        Some(command) if command == "run" => split_args::<RunArgs>(args),
        Some(command) if command == "sweep" => split_args::<SweepArgs>(args),
        Some(command) if command == "advise" => split_args::<AdviseArgs>(args),
        _ => (args, Vec::new()),
    };
    let cli = Cli::from_arg_matches(&definition().try_get_matches_from(own)?)?;
    Ok(Invocation { command: cli.command, job_args })
}

/// Adds the command that was meant to an error about a misspelt one, where clap sees none: it takes
/// letters that have changed places for other letters.
fn with_suggestion(mut error: clap::Error) -> clap::Error {
    use clap::error::{ContextKind, ContextValue};
    let found = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(found)) if error.kind() == ErrorKind::InvalidSubcommand => found,
        _ => return error,
    };
    if error.get(ContextKind::SuggestedSubcommand).is_some() {
        return error;
    }
    let cli = Cli::command();
    let parent = config::words().into_iter().next().filter(|first| first != found);
    let parent = parent.and_then(|name| cli.find_subcommand(name)).unwrap_or(&cli);
    let names = parent.get_subcommands().map(clap::Command::get_name);
    if let Some(name) = zonal_blk::nearest(found, names) {
        let name = ContextValue::Strings(vec![name.to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, name);
    }
    error
}

/// Names the option that was meant in an error about a misspelt one. clap would name any that it finds
/// similar, such as `--json` for `--sho`.
fn with_option(mut error: clap::Error) -> clap::Error {
    use clap::error::{ContextKind, ContextValue};
    let found = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(found)) if error.kind() == ErrorKind::UnknownArgument => found,
        _ => return error,
    };
    let Some(name) = found.strip_prefix("--").map(str::to_owned) else { return error };
    let mut cli = definition();
    cli.build();
    let mut command = &cli;
    for word in config::words() {
        let Some(inner) = command.find_subcommand(&word) else { break };
        command = inner;
    }
    let longs = command.get_arguments().filter_map(Arg::get_long);
    match zonal_blk::nearest(&name, longs) {
        Some(near) => {
            let near = ContextValue::String(format!("--{near}"));
            error.insert(ContextKind::SuggestedArg, near);
        }
        None => {
            error.remove(ContextKind::SuggestedArg);
        }
    }
    // clap's own error has the option that it would have named.
    let usage = ContextValue::StyledStr(command.clone().render_usage());
    error.insert(ContextKind::Usage, usage);
    error
}

/// Says what is expected where clap only says what is wrong with a number.
fn with_expected(error: clap::Error) -> clap::Error {
    use clap::error::ContextKind;
    use std::num::{IntErrorKind, ParseIntError};
    let source = std::error::Error::source(&error);
    let Some(problem) = source.and_then(|source| source.downcast_ref::<ParseIntError>()) else {
        return error;
    };
    let expected = match problem.kind() {
        IntErrorKind::PosOverflow => "expected a smaller number",
        _ => "expected a whole number",
    };
    let context = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
    let (arg, value) = (context(ContextKind::InvalidArg), context(ContextKind::InvalidValue));
    let message = format!("invalid value '{value}' for '{arg}': {expected}");
    Cli::command().error(ErrorKind::ValueValidation, message)
}

/// The definition of the command line.
pub fn definition() -> clap::Command {
    examples::add(without_examples())
}

/// The definition without the examples of the help, for manual pages.
pub fn without_examples() -> clap::Command {
    let config =
        Arg::new("config").long("config").value_name("FILE").value_parser(value_parser!(PathBuf));
    let help = "Read this configuration file (see `zonal config`); before the command";
    Cli::command().arg(config.help(help))
}

/// The option of a command that is nearest to `name`, if one is near.
pub fn nearest_option(command: &str, name: &str) -> Option<String> {
    let cli = Cli::command();
    let command = cli.find_subcommand(command)?;
    let longs = command.get_arguments().filter_map(Arg::get_long);
    zonal_blk::nearest(name, longs).map(str::to_owned)
}

/// Splits the arguments of a command that runs jobs into its own options, which `A` defines, and
/// the arguments that describe jobs.
fn split_args<A: Args>(args: Vec<OsString>) -> (Vec<OsString>, Vec<OsString>) {
    let command = A::augment_args(clap::Command::new("jobs"));
    let mut args = args.into_iter();
    let mut own: Vec<OsString> = args.by_ref().take(2).collect();
    let mut jobs = Vec::new();
    while let Some(arg) = args.next() {
        let arg = in_full(&command, arg);
        match takes_value(&command, &arg) {
            None => jobs.push(arg),
            Some(wants_next) => {
                own.push(arg);
                if wants_next {
                    own.extend(args.next());
                }
            }
        }
    }
    (own, jobs)
}

/// An option with the whole name if it is abbreviated, as fio allows: the beginning of one name only, of
/// options of `command` and of jobs together.
fn in_full(command: &clap::Command, arg: OsString) -> OsString {
    let Some(text) = arg.to_str().and_then(|text| text.strip_prefix("--")) else { return arg };
    let (short, value) = text.split_at(text.find('=').unwrap_or(text.len()));
    let is_own = |name: &str| command.get_arguments().any(|known| is_called(known, name));
    let is_fios = || options::find(short).is_some() || options::instead_of(short).is_some();
    if short.is_empty() || short == "help" || is_own(short) || is_fios() {
        return arg;
    }
    let own = command.get_arguments().filter_map(Arg::get_long);
    let own = own.filter(|name| name.starts_with(short)).map(str::to_owned);
    let names: BTreeSet<String> =
        own.chain(options::beginning_with(short).map(str::to_owned)).collect();
    match names.first() {
        Some(name) if names.len() == 1 => format!("--{name}{value}").into(),
        _ => arg,
    }
}

/// Whether this is the long name of an option, or was.
fn is_called(option: &Arg, name: &str) -> bool {
    option.get_long() == Some(name)
        || option.get_all_aliases().is_some_and(|before| before.contains(&name))
}

/// Whether the value of an option of `command` is the next argument; `None` for other arguments.
fn takes_value(command: &clap::Command, arg: &OsStr) -> Option<bool> {
    let text = arg.to_str()?;
    if text == "-h" || text == "--help" {
        return Some(false);
    }
    let (name, value) = match text.strip_prefix("--")?.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (text.strip_prefix("--")?, None),
    };
    let known = command.get_arguments().find(|known| is_called(known, name))?;
    let takes = known.get_action().takes_values() && !known.is_require_equals_set();
    Some(value.is_none() && takes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn abbreviated_options_are_those_that_begin_so() {
        let of = |arg: &str| split_args::<RunArgs>(["zonal", "run", arg].map(Into::into).to_vec());
        let words = |words: &[&str]| words.iter().map(Into::into).collect::<Vec<OsString>>();
        assert_eq!(of("--numj=2"), (words(&["zonal", "run"]), words(&["--numjobs=2"])));
        assert_eq!(of("--readw=write").1, words(&["--rw=write"]));
        assert_eq!(of("--outpu=json").1, words(&["--outpu=json"]), "--output and --output-format");
        assert_eq!(of("--minim").0, words(&["zonal", "run", "--minimal"]));
        assert_eq!(of("--rat=1").1, words(&["--rat=1"]), "there are several");
    }

    #[test]
    fn job_options_are_split_from_own_options() {
        let args =
            ["zonal", "run", "--name=a", "--record-all", "log", "--bs", "4k", "--seed=3", "x"];
        let (own, jobs) = split_args::<RunArgs>(args.iter().map(OsString::from).collect());
        assert_eq!(own, ["zonal", "run", "--record-all", "log", "--seed=3"]);
        assert_eq!(jobs, ["--name=a", "--bs", "4k", "x"]);
    }
}
