//! `zonal zone`: what blkzone(8) of util-linux 2.38 does, on the devices of Zonal.
//!
//! Takes a range of zones; gives blkzone's output. Keeps true: zone management goes through the
//! block layer as bios; what a range has wrong is said before anything is done, with the option's
//! name; the first operation that fails ends the command.
mod range;
mod report;
mod script;
mod sync_channel;

use crate::cli::{ActionArgs, RangeArgs, ZoneCommand};
use crate::devices;
use anyhow::{Context, Result, bail};
use range::{PartialZone, Range};
use script::Step;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use sync_channel::{OpError, SyncChannel};
use zonal_blk::{Op, QueueOptions, Sector};

/// Does what was asked. An operation that the device fails ends the program with 1.
pub fn run(command: &ZoneCommand) -> Result<ExitCode> {
    let mut out = BufWriter::new(io::stdout().lock());
    let ended = work(command, &mut out);
    out.flush()?;
    match ended {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) if error.is::<OpError>() => {
            eprintln!("zonal: {error}");
            Ok(ExitCode::FAILURE)
        }
        Err(error) => Err(error),
    }
}

fn work(command: &ZoneCommand, out: &mut impl Write) -> Result<()> {
    match command {
        ZoneCommand::Report(args) => {
            let (worker, range) = open(&args.range, PartialZone::Included)?;
            report::report(worker.queue(), range, args.filter, args.range.verbose, out)
        }
        ZoneCommand::Capacity(args) => {
            let (worker, range) = open(args, PartialZone::Included)?;
            report::capacity(worker.queue(), range, out)
        }
        ZoneCommand::Open(args) => act(args, "open", Op::ZoneOpen, out),
        ZoneCommand::Close(args) => act(args, "close", Op::ZoneClose, out),
        ZoneCommand::Finish(args) => act(args, "finish", Op::ZoneFinish, out),
        ZoneCommand::Reset(args) => act(args, "reset", Op::ZoneReset, out),
    }
}

/// Makes the device, finds the range on it and does what is to be done before.
fn open(args: &RangeArgs, part: PartialZone) -> Result<(SyncChannel, Range)> {
    let name = &args.device;
    let device = devices::open(name, 0, 1)?.attach(QueueOptions::default(), 1)?;
    if device.queue.limits().nr_zones == 0 {
        bail!("device {name}: it has no zones");
    }
    let range = Range::new(args, part, device.queue.limits())?;
    let script = args.after.iter().map(|text| script::parse(text).context("--after"));
    let script: Vec<Vec<Step>> = script.collect::<Result<_>>()?;
    let mut worker = SyncChannel::new(&device)?;
    script.iter().flatten().try_for_each(|step| worker.run_step(step))?;
    Ok((worker, range))
}

/// Changes the zones of a range.
fn act(args: &ActionArgs, name: &str, op: Op, out: &mut impl Write) -> Result<()> {
    let (mut worker, range) = open(&args.range, PartialZone::Rejected)?;
    let limits = worker.queue().limits().clone();
    worker.manage(op, range.zones(&limits), range.is_all(&limits))?;
    if args.range.verbose {
        let (Sector(from), Sector(to)) = (range.start, range.end(&limits));
        let device = &args.range.device;
        writeln!(out, "{device}: successful {name} of zones in range from {from}, to {to}")?;
    }
    Ok(())
}
