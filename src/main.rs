//! The `zonal` program.
#![forbid(unsafe_code)]

mod cli;
mod cmd;

use std::process::ExitCode;

/// Exit code for input that cannot be used: arguments, job files, device specs.
const BAD_INPUT: u8 = 2;

fn main() -> ExitCode {
    let outcome = match cli::parse(std::env::args_os()) {
        cli::Command::Run(args, jobs) => cmd::run::run(&args, jobs),
        cli::Command::Devices => cmd::devices::help(),
        cli::Command::Options => cmd::options::help(),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("zonal: {error:#}");
        ExitCode::from(BAD_INPUT)
    })
}
