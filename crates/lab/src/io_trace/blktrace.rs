//! blktrace's binary files: one for each channel, as the kernel has one for each CPU
//! (`struct blk_io_trace` and its actions, Linux 6.12 include/uapi/linux/blktrace_api.h).
//!
//! The format has no zone management, and its plugs are those of threads: zone management and waits
//! in zone write plugs are left out. A merged I/O completes with the request that it is part of.
use anyhow::Result;
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use zonal_blk::{BioFlags, Nanos, Op, TraceAction, TraceEvent, TraceSource};

/// `BLK_IO_TRACE_MAGIC | BLK_IO_TRACE_VERSION`.
const MAGIC: u32 = 0x6561_7407;
/// The major number of the first device: in Linux, of devices for local use.
const MAJOR: u32 = 240;

// Actions, `__BLK_TA_*`.
const QUEUE: u32 = 1;
const BACKMERGE: u32 = 2;
const SLEEPRQ: u32 = 5;
const REQUEUE: u32 = 6;
const ISSUE: u32 = 7;
const COMPLETE: u32 = 8;
const INSERT: u32 = 12;

// Categories, `BLK_TC_*`, above the action.
const READ: u32 = 1 << 16;
const WRITE: u32 = 1 << 17;
const FLUSH: u32 = 1 << 18;
const SYNC: u32 = 1 << 19;
const TC_QUEUE: u32 = 1 << 20;
const TC_REQUEUE: u32 = 1 << 21;
const TC_ISSUE: u32 = 1 << 22;
const TC_COMPLETE: u32 = 1 << 23;
const NOTIFY: u32 = 1 << 26;
const DISCARD: u32 = 1 << 29;
const FUA: u32 = 1 << 31;

/// Writes the events of each device to files `PATH.blktrace.N`, and in the first one a message if the
/// trace is not whole from `full_at` on.
pub(super) fn write(
    path: &Path,
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
    let base = if path.extension().is_some_and(|extension| extension == "blktrace") {
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
    cpu: u32,
    count: u32,
}

impl Writer {
    fn names_process(&mut self) -> Result<()> {
        let name = b"zonal\0";
        self.record(0, 0, 0, NOTIFY, 0, name)
    }

    /// Says that what followed is missing (`BLK_TN_MESSAGE`).
    fn is_missing(&mut self, at: Nanos) -> Result<()> {
        const MESSAGE: u32 = 2;
        let text = b"the memory for events was full: what followed is missing";
        self.record(at.0, 0, 0, NOTIFY | MESSAGE, MAJOR << 20, text)
    }

    fn event(&mut self, device: u32, event: &TraceEvent) -> Result<()> {
        let (action, category) = match event.action {
            TraceAction::Queue => (QUEUE, TC_QUEUE),
            TraceAction::Merge => (BACKMERGE, TC_QUEUE),
            TraceAction::Sleep => (SLEEPRQ, TC_QUEUE),
            TraceAction::Insert => (INSERT, TC_QUEUE),
            TraceAction::Requeue => (REQUEUE, TC_REQUEUE),
            TraceAction::Issue => (ISSUE, TC_ISSUE),
            TraceAction::Complete => (COMPLETE, TC_COMPLETE),
            TraceAction::Plug | TraceAction::Unplug => return Ok(()),
        };
        let direction = match event.op {
            Op::Read => READ,
            Op::Write | Op::WriteZeroes | Op::ZoneAppend => WRITE,
            Op::Flush => FLUSH,
            Op::Discard => DISCARD,
            _ => return Ok(()),
        };
        let set = |flag, bit| if event.flags.contains(flag) { bit } else { 0 };
        let sync =
            if event.op == Op::Write && !event.flags.contains(BioFlags::ASYNC) { SYNC } else { 0 };
        let modifiers = set(BioFlags::PREFLUSH, FLUSH) | set(BioFlags::FUA, FUA) | sync;
        let bytes = event.nr_sectors.saturating_mul(512);
        let dev = (MAJOR << 20) | (device << 4);
        let action = action | category | direction | modifiers;
        self.record(event.at.0, event.sector.0, bytes, action, dev, &[])
    }

    fn record(
        &mut self,
        at: u64,
        sector: u64,
        bytes: u32,
        action: u32,
        device: u32,
        data: &[u8],
    ) -> Result<()> {
        self.count += 1;
        let mut record = Vec::with_capacity(48 + data.len());
        record.extend(MAGIC.to_ne_bytes());
        record.extend(self.count.to_ne_bytes());
        record.extend(at.to_ne_bytes());
        record.extend(sector.to_ne_bytes());
        let process = self.cpu + 1;
        for word in [bytes, action, process, device, self.cpu] {
            record.extend(word.to_ne_bytes());
        }
        let error = 0_u16;
        record.extend(error.to_ne_bytes());
        record.extend(u16::try_from(data.len()).expect("a short name").to_ne_bytes());
        record.extend(data);
        Ok(self.file.write_all(&record)?)
    }
}
