//! `zonal zone`: what blkzone(8) of util-linux 2.38 does, on the devices of Zonal.
//!
//! Zone management goes through the block layer as bios. A bad range is rejected before anything is
//! done; the first operation that fails ends the command.
mod args;
mod range;
mod report;
mod script;

use crate::format::{self, Format};
use crate::terminal::{notices, print_error, stdout};
use anyhow::{Context, Result, bail};
pub use args::ZoneCommand;
use args::{ActionArgs, RangeArgs};
use range::{PartialZone, Range};
use serde_json::json;
use std::io::{BufWriter, Write};
use std::ops;
use std::process::ExitCode;
use zonal_backend::{OpenOptions, Stack};
use zonal_blk::{Bytes, Op, QueueOptions, Sector, ZoneCondition, ZoneKind, ZoneNo};
use zonal_device::quantity::format_size;
use zonal_lab::zone::{OpError, ScriptStep, SyncChannel};

/// Runs a `zonal zone` command. Exits with 1 if the device fails an operation.
pub fn run(command: &ZoneCommand) -> Result<ExitCode> {
    let mut out = BufWriter::new(stdout());
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

/// A device that was opened, and the zones to work on.
struct Opened {
    channel: SyncChannel,
    range: Range,
    /// The device outlives the command.
    is_persistent: bool,
}

fn run_command(command: &ZoneCommand, out: &mut impl Write) -> Result<()> {
    match command {
        ZoneCommand::Report(args) => {
            let Opened { channel, range, .. } = open(&args.range, PartialZone::Included)?;
            let format = args.range.format;
            // There may be a hundred thousand zones: text comes as they are reported.
            if format.get() == Format::Text {
                return report::report(
                    channel.queue(),
                    range,
                    args.filter,
                    args.range.verbose,
                    out,
                );
            }
            let zones = report::json(channel.queue(), range, args.filter)?;
            let title = format!("Zones of {}", args.range.device);
            format::print(format, &title, String::new, &zones)
        }
        ZoneCommand::Capacity(args) => {
            let Opened { channel, range, .. } = open(args, PartialZone::Included)?;
            let Sector(sum) = report::capacity(channel.queue(), range)?;
            let json = json!({ "device": args.device, "capacity": sum });
            format::print(args.format, "Capacity", || format!("0x{sum:09x}\n"), &json)
        }
        ZoneCommand::Open(args) => manage(args, "open", Op::ZoneOpen, out),
        ZoneCommand::Close(args) => manage(args, "close", Op::ZoneClose, out),
        ZoneCommand::Finish(args) => manage(args, "finish", Op::ZoneFinish, out),
        ZoneCommand::Reset(args) => manage(args, "reset", Op::ZoneReset, out),
    }
}

/// Opens the device, finds the range on it and runs the operations of `--after`.
fn open(args: &RangeArgs, partial: PartialZone) -> Result<Opened> {
    let name = &args.device;
    let options = OpenOptions { notices: notices(), ..OpenOptions::default() };
    let device = Stack::open_with(name, &options)?.attach(QueueOptions::default())?;
    if device.queue.limits().nr_zones == 0 {
        bail!("device {name}: it has no zones");
    }
    let range = Range::new(args, partial, device.queue.limits())?;
    let script = args.after.iter().map(|text| script::parse(text).context("--after"));
    let script: Vec<Vec<ScriptStep>> = script.collect::<Result<_>>()?;
    let mut channel = SyncChannel::new(&device)?;
    script.iter().flatten().try_for_each(|step| channel.run_step(step)).context("--after")?;
    Ok(Opened { channel, range, is_persistent: device.is_persistent })
}

/// Manages the zones of a range.
fn manage(args: &ActionArgs, name: &str, op: Op, out: &mut impl Write) -> Result<()> {
    let Opened { mut channel, range, is_persistent } = open(&args.range, PartialZone::Rejected)?;
    let limits = channel.queue().limits().clone();
    let written = written(&channel, range.zones(&limits))?;
    if !args.dry_run {
        channel.manage(op, range.zones(&limits), range.is_all(&limits))?;
    }
    let format = args.range.format;
    if format.get() != Format::Text {
        let zones = range.zones(&limits);
        let json = json!({
            "device": args.range.device,
            "operation": name,
            "dry_run": args.dry_run,
            "first_zone": zones.start,
            "last_zone": zones.end - 1,
            "zones_with_data": written.0,
            "bytes_of_data": written.1.0,
        });
        return format::print(
            format,
            &format!("Zones of {}", args.range.device),
            String::new,
            &json,
        );
    }
    if args.dry_run {
        let done = done(&args.range.device, op, range.zones(&limits), written);
        writeln!(out, "dry run: {done}")?;
        return Ok(());
    }
    if args.range.verbose {
        let (Sector(from), Sector(to)) = (range.start, range.end(&limits));
        let device = &args.range.device;
        writeln!(out, "{device}: successful {name} of zones in range from {from}, to {to}")?;
    }
    // Whoever gave a range knows what it covers; data that are gone are worth a line.
    if range.is_all(&limits) || is_persistent && op == Op::ZoneReset {
        writeln!(out, "{}", done(&args.range.device, op, range.zones(&limits), written))?;
    }
    Ok(())
}

/// How many zones hold data, and how many bytes.
fn written(channel: &SyncChannel, zones: ops::Range<u32>) -> Result<(usize, Bytes)> {
    let (mut count, mut sectors) = (0, Sector(0));
    for zone in channel.queue().zones(ZoneNo(zones.start)..ZoneNo(zones.end)) {
        let zone = zone?;
        let length = match (zone.kind, zone.cond) {
            (ZoneKind::Conventional, _) | (_, ZoneCondition::Empty) => Sector(0),
            (_, ZoneCondition::Full) => zone.capacity,
            _ => zone.wp - zone.start,
        };
        count += usize::from(length.0 > 0);
        sectors += length;
    }
    Ok((count, sectors.to_bytes()))
}

/// A line about an operation on zones, of which some held data.
fn done(device: &str, op: Op, zones: ops::Range<u32>, (held, bytes): (usize, Bytes)) -> String {
    let (first, last) = (zones.start, zones.end - 1);
    let verb = match op {
        Op::ZoneOpen => "opened",
        Op::ZoneClose => "closed",
        Op::ZoneFinish => "finished",
        _ => {
            let size = format_size(bytes.0);
            let lost = match held {
                0 => "none held data".to_owned(),
                _ => format!("{held} held data, {size}, which are gone"),
            };
            return format!("{device}: reset zones {first} to {last}: {lost}");
        }
    };
    format!("{device}: {verb} zones {first} to {last}")
}
