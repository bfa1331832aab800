//! The `zonal` program.
#![forbid(unsafe_code)]
// They panic if nobody reads.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod cli;
mod cmd;
mod config;
mod format;
mod interrupt;
mod terminal;

use cli::{Command, Invocation};
use std::ffi::OsString;
use std::io;
use std::process::ExitCode;
use terminal::print_error;
use zonal_fio::jobfile::{JobError, Origin};
use zonal_fio::options;
use zonal_lab::describe;
use zonal_serve::control::log::Log;

/// Exit code for bad input: arguments, job files, device specs.
const EXIT_BAD_INPUT: u8 = 2;
/// Exit code when the reader of the output is gone, as in `zonal options | head`: that of a program
/// killed by SIGPIPE.
const EXIT_BROKEN_PIPE: u8 = 128 + 13;

fn main() -> ExitCode {
    let args = match config::apply(std::env::args_os().collect(), cli::definition) {
        Ok(args) => args,
        Err(error) => {
            print_error(format_args!("zonal: {}", describe(&error)));
            return ExitCode::from(EXIT_BAD_INPUT);
        }
    };
    let Invocation { command, job_args } = cli::parse(args);
    let log = match Log::start(command.log_options()) {
        Ok(log) => log,
        Err(error) => {
            print_error(format_args!("zonal: cannot start the log: {error}"));
            return ExitCode::from(EXIT_BAD_INPUT);
        }
    };
    // Where that fails, the limit ends the process.
    let _ = interrupt::survive_file_size_limit();
    let outcome = run(command, job_args, &log);
    // Messages about what led to an error come before it.
    log.flush();
    outcome.unwrap_or_else(|error| {
        if error.chain().any(is_broken_pipe) {
            return ExitCode::from(EXIT_BROKEN_PIPE);
        }
        let hint = option_hint(&error) + &file_hint(&error);
        print_error(format_args!("zonal: {}{hint}", describe(&error)));
        ExitCode::from(EXIT_BAD_INPUT)
    })
}

fn run(command: Command, job_args: Vec<OsString>, log: &Log) -> anyhow::Result<ExitCode> {
    match command {
        Command::Run(args) => cmd::run::run(&args, job_args),
        Command::Zone(command) => cmd::zone::run(&command),
        Command::Reproduce(args) => cmd::reproduce::run(&args),
        Command::Advise(args) => cmd::advise::run(&args, job_args),
        Command::Sweep(args) => cmd::sweep::run(&args, job_args),
        Command::Validate(args) => cmd::validate::run(&args),
        Command::Fit(args) => cmd::fit::run(&args),
        Command::Serve(args) => cmd::serve::run(&args, log),
        Command::Ctl(args) => cmd::ctl::run(&args),
        #[cfg(feature = "top")]
        Command::Top(args) => cmd::top::run(&args),
        Command::View(args) => cmd::view::run(&args),
        Command::Crash(args) => cmd::crash::run(&args),
        Command::Image(command) => cmd::image::run(&command),
        Command::Devices(args) => cmd::info::devices(&args),
        Command::Config(args) => cmd::config::run(&args),
        Command::Doctor(args) => cmd::doctor::run(&args),
        Command::Completions { shell } => cmd::shell::completions(cli::definition(), shell),
        Command::Man { directory } => cmd::shell::man(cli::without_examples(), &directory),
        Command::Options(args) => cmd::info::options(&args),
    }
}

/// The option of the command that was meant where none is known to the job parser.
fn option_hint(error: &anyhow::Error) -> String {
    let job_error = error.downcast_ref::<JobError>();
    let Some(JobError::UnknownOption { origin: Origin::CommandLine, name, nearest: None }) =
        job_error
    else {
        return String::new();
    };
    let command = config::words().into_iter().next().unwrap_or_default();
    let near = cli::nearest_option(&command, name);
    near.map_or_else(String::new, |near| format!(", did you mean --{near}?"))
}

/// What was meant where a job file is expected: a device, or an option without its dashes.
fn file_hint(error: &anyhow::Error) -> String {
    let file = match error.downcast_ref::<JobError>() {
        Some(JobError::Read { file, error }) if error.kind() == io::ErrorKind::NotFound => file,
        _ => return String::new(),
    };
    if zonal_backend::load(file).is_ok() {
        return format!("; expected a job file: a device is given as --device {file}");
    }
    let Some((name, value)) = file.split_once('=') else { return String::new() };
    let command = config::words().into_iter().next().unwrap_or_default();
    let near = cli::nearest_option(&command, name);
    let near = near.or_else(|| options::nearest(name).map(str::to_owned));
    near.map_or_else(String::new, |near| {
        format!("; expected a job file: an option is given as --{near}={value}")
    })
}

fn is_broken_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
