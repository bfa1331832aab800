//! `zonal zone`: what blkzone(8) of util-linux 2.38 does, on the devices of Zonal.
//!
//! Zone management goes through the block layer as bios. A bad range is rejected before anything is
//! done; the first operation that fails ends the command.
mod args;
mod range;
mod report;
mod script;

use crate::terminal::{notices, print_error};
use anyhow::{Context, Result, bail};
pub use args::ZoneCommand;
use args::{ActionArgs, RangeArgs};
use range::{PartialZone, Range};
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use zonal_blk::{Op, QueueOptions, Sector};
use zonal_lab::devices;
use zonal_lab::zone::{OpError, Step, SyncChannel};

/// Runs a `zonal zone` command. Exits with 1 if the device fails an operation.
pub fn run(command: &ZoneCommand) -> Result<ExitCode> {
    let mut out = BufWriter::new(io::stdout().lock());
    let result = run_command(command, &mut out);
    out.flush()?;
    match result {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) if error.is::<OpError>() => {
            print_error(format_args!("zonal: {error:#}"));
            Ok(ExitCode::FAILURE)
        }
        Err(error) => Err(error),
    }
}

fn run_command(command: &ZoneCommand, out: &mut impl Write) -> Result<()> {
    match command {
        ZoneCommand::Report(args) => {
            let (channel, range) = open(&args.range, PartialZone::Included)?;
            report::report(channel.queue(), range, args.filter, args.range.verbose, out)
        }
        ZoneCommand::Capacity(args) => {
            let (channel, range) = open(args, PartialZone::Included)?;
            report::capacity(channel.queue(), range, out)
        }
        ZoneCommand::Open(args) => manage(args, "open", Op::ZoneOpen, out),
        ZoneCommand::Close(args) => manage(args, "close", Op::ZoneClose, out),
        ZoneCommand::Finish(args) => manage(args, "finish", Op::ZoneFinish, out),
        ZoneCommand::Reset(args) => manage(args, "reset", Op::ZoneReset, out),
    }
}

/// Opens the device, finds the range on it and runs the operations of `--after`.
fn open(args: &RangeArgs, partial: PartialZone) -> Result<(SyncChannel, Range)> {
    let name = &args.device;
    let device = devices::open(name, 0, 1, &notices())?.attach(QueueOptions::default(), 1)?;
    if device.queue.limits().nr_zones == 0 {
        bail!("device {name}: it has no zones");
    }
    let range = Range::new(args, partial, device.queue.limits())?;
    let script = args.after.iter().map(|text| script::parse(text).context("--after"));
    let script: Vec<Vec<Step>> = script.collect::<Result<_>>()?;
    let mut channel = SyncChannel::new(&device)?;
    script.iter().flatten().try_for_each(|step| channel.run_step(step)).context("--after")?;
    Ok((channel, range))
}

/// Manages the zones of a range.
fn manage(args: &ActionArgs, name: &str, op: Op, out: &mut impl Write) -> Result<()> {
    let (mut channel, range) = open(&args.range, PartialZone::Rejected)?;
    let limits = channel.queue().limits().clone();
    channel.manage(op, range.zones(&limits), range.is_all(&limits))?;
    if args.range.verbose {
        let (Sector(from), Sector(to)) = (range.start, range.end(&limits));
        let device = &args.range.device;
        writeln!(out, "{device}: successful {name} of zones in range from {from}, to {to}")?;
    }
    Ok(())
}
