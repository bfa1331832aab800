//! The `zonal` program.
#![forbid(unsafe_code)]

mod chart;
mod cli;
mod cmd;
mod devices;
mod experiment;
mod machine;
mod page;

use std::io;
use std::process::ExitCode;

/// Exit code for input that cannot be used: arguments, job files, device specs.
const EXIT_BAD_INPUT: u8 = 2;
/// Exit code when nobody reads the output any more, as in `zonal options | head`: that of a program
/// which SIGPIPE ends.
const EXIT_BROKEN_PIPE: u8 = 128 + 13;

fn main() -> ExitCode {
    let outcome = match cli::parse(std::env::args_os()) {
        cli::Command::Run(args, jobs) => cmd::run::run(&args, jobs),
        cli::Command::Zone(command) => cmd::zone::run(&command),
        cli::Command::Reproduce(args) => cmd::reproduce::run(&args),
        cli::Command::Advise(args, jobs) => cmd::advise::run(&args, jobs),
        cli::Command::Device(args) => cmd::device::run(&args),
        cli::Command::Fit(args) => cmd::fit::run(&args),
        cli::Command::Pattern(command) => cmd::pattern::run(&command),
        cli::Command::Torture(args) => cmd::torture::run(&args),
        cli::Command::Serve(args) => cmd::serve::run(&args),
        cli::Command::Ctl(args) => cmd::ctl::run(&args),
        cli::Command::Create(args) => cmd::image::create(&args),
        cli::Command::Check(args) => cmd::image::check(&args),
        cli::Command::Devices => cmd::devices::help(),
        cli::Command::Layout(name) => cmd::layout::run(name.as_deref()),
        cli::Command::Options(markdown) => cmd::options::help(markdown),
    };
    outcome.unwrap_or_else(|error| {
        if error.chain().any(is_broken_pipe) {
            return ExitCode::from(EXIT_BROKEN_PIPE);
        }
        eprintln!("zonal: {}", describe(&error));
        ExitCode::from(EXIT_BAD_INPUT)
    })
}

/// An error and what caused it, each once: some errors of the libraries say it in their own words.
fn describe(error: &anyhow::Error) -> String {
    let mut words = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = format!(": {cause}");
        if !words.ends_with(&cause) {
            words += &cause;
        }
    }
    words
}

fn is_broken_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
