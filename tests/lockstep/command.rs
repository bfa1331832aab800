//! `zonal-lockstep`: submits a script in a guest, or compares what came of it with the block layer.
#![forbid(unsafe_code)]
use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;
use zonal_lockstep::compare::{Arrived, Done, compare};
use zonal_lockstep::draw::draw;
use zonal_lockstep::kernel::Disk;
use zonal_lockstep::observe;
use zonal_lockstep::script::{Export, Script, Setup};

/// The same bios through the kernel of a guest and through the block layer.
#[derive(Parser, Debug)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

/// Which script.
#[derive(Args, Debug)]
struct Which {
    /// Seed of the script
    #[arg(long)]
    seed: u64,
    /// Number of cases
    #[arg(long, default_value_t = 15)]
    cases: usize,
    /// Submit with QD=1
    #[arg(long)]
    qd1: bool,
    /// The kernel is older than 6.19
    #[arg(long)]
    old: bool,
    /// How the guest has the device
    #[arg(long, default_value = "virtio")]
    export: Export,
    /// The device has a volatile write cache, and loses its power
    #[arg(long)]
    power: bool,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Print the device that the server serves
    Device {
        /// How the guest has the device
        #[arg(long, default_value = "virtio")]
        export: Export,
    },
    /// Submit the script to a disk, in a guest
    Submit {
        #[command(flatten)]
        which: Which,
        /// The disk
        disk: PathBuf,
        /// The serial line to the host
        #[arg(long, default_value = "/dev/ttyS1")]
        line: String,
        /// The server's name on the host
        #[arg(long, default_value = "lockstep")]
        server: String,
        /// Where results go
        #[arg(long)]
        results: PathBuf,
    },
    /// Compare what the kernel did with what the layer does
    Compare {
        #[command(flatten)]
        which: Which,
        /// Results of `submit`
        #[arg(long)]
        results: PathBuf,
        /// The recording of the server; a device that loses its power has none
        #[arg(long, required_unless_present = "power", conflicts_with = "power")]
        log: Option<PathBuf>,
    },
}

impl Which {
    fn script(&self) -> Script {
        let Which { export, qd1, power, .. } = *self;
        draw(self.seed, self.cases, Setup { export, is_new: !self.old, qd1, power })
    }
}

fn main() -> ExitCode {
    match run(Program::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("zonal-lockstep: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Whether nothing differs.
fn run(command: Command) -> Result<bool> {
    match command {
        Command::Device { export } => println!("{}", export.device()),
        Command::Submit { which, disk, line, server, results } => {
            let observed = Disk::open(disk, &line, &server)?.run(&which.script())?;
            let text = observe::format(&observed);
            std::fs::write(&results, text).with_context(|| results.display().to_string())?;
        }
        Command::Compare { which, results, log } => {
            let script = which.script();
            let rounds = script.rounds.len();
            let text =
                std::fs::read_to_string(&results).with_context(|| results.display().to_string())?;
            let arrived = log.map(|log| Arrived::read(&log, rounds)).transpose()?;
            let kernel = Done { observed: observe::parse(&text)?, arrived };
            let layer = Done::by_layer(&script)?;
            anyhow::ensure!(
                kernel.observed.len() == rounds,
                "found {} rounds of {rounds}",
                kernel.observed.len()
            );
            let differences = compare(&script, &kernel, &layer);
            differences.iter().for_each(|difference| println!("{difference}"));
            let bios: usize = script.rounds.iter().map(|round| round.steps.len()).sum();
            println!("{bios} bios in {rounds} rounds: {} rounds differ", differences.len());
            return Ok(differences.is_empty());
        }
    }
    Ok(true)
}
