//! blktrace's binary files ([`zonal_fio::trace::blktrace`]): one for each channel, as the kernel has one
//! for each CPU.
//!
//! Version 1 has no zone management, and its plugs are those of threads: zone management and waits in
//! zone write plugs are left out. Version 2 has both, but no random write areas. A merged I/O completes
//! with the request that it is part of.
use anyhow::Result;
use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use zonal_blk::{BioFlags, Nanos, Op, TraceAction, TraceEvent, TraceSource};
use zonal_fio::trace::blktrace::{Record, Version, ZONE_OPERATIONS, action, category};

/// The major number of the first device: in Linux, of devices for local use.
const MAJOR: u32 = 240;

/// Writes the events of each device to files `PATH.blktrace.N`, and in the first one a message if the
/// trace is not whole from `full_at` on.
pub(super) fn write(
    path: &Path,
    version: Version,
    devices: &[Vec<(TraceSource, TraceEvent)>],
    full_at: Option<Nanos>,
) -> Result<()> {
    let mut by_channel: BTreeMap<u32, Vec<(u32, &TraceEvent)>> = BTreeMap::new();
    for (number, events) in (0..).zip(devices) {
        let events = || events.iter().map(|(_, event)| event);
        let merges = events().filter(|event| event.action == TraceAction::Merge);
        let merged: HashSet<u64> = merges.map(|event| event.id).collect();
        let ends_merged = |event: &&TraceEvent| {
            event.action == TraceAction::Complete && merged.contains(&event.id)
        };
        for event in events().filter(|event| !ends_merged(event)) {
            by_channel.entry(event.channel).or_default().push((number, event));
        }
    }
    // A file for each channel, without gaps: blkparse stops at the first that is missing.
    for (cpu, mut events) in (0..).zip(by_channel.into_values()) {
        events.sort_by_key(|(_, event)| (event.at, rank(event.action), event.id, event.step));
        let mut out = Writer {
            file: BufWriter::new(zonal_os::output_file::create(name(path, cpu))?),
            version,
            record: Vec::new(),
            cpu,
            count: 0,
        };
        if cpu == 0 {
            out.names_process()?;
        }
        let mut message_at = full_at.filter(|_| cpu == 0);
        for (number, event) in events {
            if let Some(at) = message_at.take_if(|at| *at <= event.at) {
                out.is_missing(at)?;
            }
            out.event(number, event)?;
        }
        message_at.map_or(Ok(()), |at| out.is_missing(at))?;
        out.file.flush()?;
    }
    Ok(())
}

/// The order of events of the same time: an I/O is merged before the request is issued.
fn rank(action: TraceAction) -> u8 {
    match action {
        TraceAction::Queue => 0,
        TraceAction::Issue | TraceAction::Requeue => 2,
        TraceAction::Complete => 3,
        _ => 1,
    }
}

/// `FILE.blktrace.N`; the extension is not repeated.
pub(super) fn name(path: &Path, cpu: u32) -> PathBuf {
    let is_format = |extension: &OsStr| extension == "blktrace" || extension == "blktrace2";
    let base = if path.extension().is_some_and(is_format) {
        path.with_extension("")
    } else {
        path.to_owned()
    };
    let mut name = OsString::from(base);
    name.push(format!(".blktrace.{cpu}"));
    PathBuf::from(name)
}

struct Writer {
    file: BufWriter<File>,
    version: Version,
    /// The bytes of the last record.
    record: Vec<u8>,
    cpu: u32,
    count: u32,
}

impl Writer {
    fn names_process(&mut self) -> Result<()> {
        let process = Record { action: category::NOTIFY, ..Record::default() };
        self.record(process, b"zonal\0")
    }

    /// Says that what followed is missing (`BLK_TN_MESSAGE`).
    fn is_missing(&mut self, at: Nanos) -> Result<()> {
        const MESSAGE: u64 = 2;
        let text = b"the memory for events was full: what followed is missing";
        let action = category::NOTIFY | MESSAGE;
        self.record(Record { at: at.0, action, device: MAJOR << 20, ..Record::default() }, text)
    }

    fn event(&mut self, device: u32, event: &TraceEvent) -> Result<()> {
        let Some(done) = what(event.action, self.version) else { return Ok(()) };
        let Some(operation) = operation(event.op, self.version) else { return Ok(()) };
        let set = |flag, bit| if event.flags.contains(flag) { bit } else { 0 };
        let sync = event.op == Op::Write && !event.flags.contains(BioFlags::ASYNC);
        let modifiers = set(BioFlags::PREFLUSH, category::FLUSH)
            | set(BioFlags::FUA, category::FUA)
            | if sync { category::SYNC } else { 0 };
        let record = Record {
            at: event.at.0,
            sector: event.sector.0,
            bytes: event.nr_sectors.saturating_mul(512),
            device: (MAJOR << 20) | (device << 4),
            ..Record::default()
        };
        let says = |action| Record { action, ..record };
        let lands = event.action == TraceAction::Complete && event.op == Op::ZoneAppend;
        if lands && self.version == Version::Two {
            // Where it landed (`BLK_TA_ZONE_APPEND`), before its completion.
            self.record(says(action::COMPLETE | category::ZONE_APPEND), &[])?;
        }
        self.record(says(done | operation | modifiers), &[])
    }

    fn record(&mut self, record: Record, data: &[u8]) -> Result<()> {
        self.count += 1;
        let (sequence, pid, cpu) = (self.count, self.cpu + 1, self.cpu);
        self.record.clear();
        Record { sequence, pid, cpu, ..record }.write(self.version, data, &mut self.record);
        Ok(self.file.write_all(&self.record)?)
    }
}

/// The event's number; `None` if the version has no name for it.
fn what(done: TraceAction, version: Version) -> Option<u64> {
    Some(match done {
        TraceAction::Queue => action::QUEUE | category::QUEUE,
        TraceAction::Merge => action::BACKMERGE | category::QUEUE,
        TraceAction::Sleep => action::SLEEPRQ | category::QUEUE,
        TraceAction::Insert => action::INSERT | category::QUEUE,
        TraceAction::Requeue => action::REQUEUE | category::REQUEUE,
        TraceAction::Issue => action::ISSUE | category::ISSUE,
        TraceAction::Complete => action::COMPLETE | category::COMPLETE,
        TraceAction::Plug if version == Version::Two => action::ZONE_PLUG | category::QUEUE,
        TraceAction::Unplug if version == Version::Two => action::ZONE_UNPLUG | category::QUEUE,
        TraceAction::Plug | TraceAction::Unplug => return None,
    })
}

/// The category of an operation; `None` if the version has none.
fn operation(op: Op, version: Version) -> Option<u64> {
    let zoned = ZONE_OPERATIONS.into_iter().find(|(zoned, _)| *zoned == op);
    match (op, zoned) {
        (Op::Read, _) => Some(category::READ),
        (Op::Flush, _) => Some(category::FLUSH),
        (Op::Discard, _) => Some(category::DISCARD),
        (_, Some((_, zoned))) if version == Version::Two => Some(category::WRITE | zoned),
        (op, _) if op.is_write() => Some(category::WRITE),
        _ => None,
    }
}
