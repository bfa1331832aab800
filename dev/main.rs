//! The `zonal-dev` program: commands for those who develop Zonal.
#![forbid(unsafe_code)]
mod pattern;
#[path = "../src/terminal/shown.rs"]
mod shown;
mod torture;

use clap::{Parser, Subcommand};
use shown::shown;
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "zonal-dev", version, max_term_width = 100)]
/// Commands for those who develop Zonal
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Test the block layer: random runs over a failing device, each checked against a model
    Torture(torture::TortureArgs),
    /// Generate request patterns of raidtest or randomio, or summarize patterns and traces
    #[command(subcommand)]
    Pattern(pattern::PatternCommand),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Torture(args) => torture::run(&args),
        Command::Pattern(command) => pattern::run(&command),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("zonal-dev: {}", shown(format_args!("{error:#}")));
        ExitCode::from(2)
    })
}
