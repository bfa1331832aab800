//! Binary files of blktrace (`struct blk_io_trace` and `struct blk_io_trace2`, Linux 6.19
//! include/uapi/linux/blktrace_api.h): version 1, and version 2, which has zone operations and zone
//! write plugs.
//!
//! ```text
//!   magic  sequence  time  sector  bytes  action  pid  device  cpu  error  length   48 bytes
//!   magic  sequence  time  sector  bytes  pid  action  device  cpu  error  length   64 bytes
//!     |                                      |                               |
//!     version, byte order     the event, and above it its category         bytes that follow
//! ```
use super::{Request, Trace, TraceError};
use crate::job::BlkparseAction;
use std::io::BufRead;
use zonal_blk::{BioFlags, Nanos, Op};

/// `BLK_IO_TRACE_MAGIC`; the version is in the lowest byte.
const MAGIC: u32 = 0x6561_7400;

/// Events (`__BLK_TA_*`), the low bits of an action.
#[allow(missing_docs, reason = "the kernel's names")]
pub mod action {
    pub const QUEUE: u64 = 1;
    pub const BACKMERGE: u64 = 2;
    pub const SLEEPRQ: u64 = 5;
    pub const REQUEUE: u64 = 6;
    pub const ISSUE: u64 = 7;
    pub const COMPLETE: u64 = 8;
    pub const INSERT: u64 = 12;
    pub const ZONE_PLUG: u64 = 18;
    pub const ZONE_UNPLUG: u64 = 19;
    /// Bits of the event. Above them are a bit for records of a cgroup, and the category.
    pub(super) const MASK: u64 = 0xff;
}

/// Categories (`BLK_TC_*`), the high bits of an action. From [`category::ZONE_APPEND`] on they exist in
/// version 2 only.
#[allow(missing_docs, reason = "the kernel's names")]
pub mod category {
    pub const READ: u64 = 1 << 16;
    pub const WRITE: u64 = 1 << 17;
    pub const FLUSH: u64 = 1 << 18;
    pub const SYNC: u64 = 1 << 19;
    pub const QUEUE: u64 = 1 << 20;
    pub const REQUEUE: u64 = 1 << 21;
    pub const ISSUE: u64 = 1 << 22;
    pub const COMPLETE: u64 = 1 << 23;
    /// Commands that do not come from the block layer.
    pub const PC: u64 = 1 << 25;
    pub const NOTIFY: u64 = 1 << 26;
    pub const DISCARD: u64 = 1 << 29;
    pub const FUA: u64 = 1 << 31;
    pub const ZONE_APPEND: u64 = 1 << 32;
    pub const ZONE_RESET: u64 = 1 << 33;
    pub const ZONE_RESET_ALL: u64 = 1 << 34;
    pub const ZONE_FINISH: u64 = 1 << 35;
    pub const ZONE_OPEN: u64 = 1 << 36;
    pub const ZONE_CLOSE: u64 = 1 << 37;
    pub const WRITE_ZEROES: u64 = 1 << 38;
}

/// Operations that only version 2 has, with their categories.
pub const ZONE_OPERATIONS: [(Op, u64); 7] = [
    (Op::ZoneAppend, category::ZONE_APPEND),
    (Op::ZoneReset, category::ZONE_RESET),
    (Op::ZoneResetAll, category::ZONE_RESET_ALL),
    (Op::ZoneFinish, category::ZONE_FINISH),
    (Op::ZoneOpen, category::ZONE_OPEN),
    (Op::ZoneClose, category::ZONE_CLOSE),
    (Op::WriteZeroes, category::WRITE_ZEROES),
];

/// The version of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `struct blk_io_trace`.
    One,
    /// `struct blk_io_trace2`.
    Two,
}

impl Version {
    const fn number(self) -> u32 {
        match self {
            Version::One => 7,
            Version::Two => 8,
        }
    }

    const fn record_len(self) -> usize {
        match self {
            Version::One => 48,
            Version::Two => 64,
        }
    }
}

/// A record, without what follows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Its number among the records of its CPU.
    pub sequence: u32,
    /// When, in nanoseconds.
    pub at: u64,
    /// First sector.
    pub sector: u64,
    /// Length in bytes.
    pub bytes: u32,
    /// The event and its category; in version 1 without the upper 32 bits.
    pub action: u64,
    /// Process.
    pub pid: u32,
    /// The device: major number above 20 bits of the minor number.
    pub device: u32,
    /// CPU.
    pub cpu: u32,
}

impl Record {
    /// Appends the record to `to`, with the `data` that follow it, in the byte order of this machine.
    ///
    /// # Panics
    /// If `data` has 64 KiB or more.
    pub fn write(&self, version: Version, data: &[u8], to: &mut Vec<u8>) {
        let start = to.len();
        to.extend((MAGIC | version.number()).to_ne_bytes());
        to.extend(self.sequence.to_ne_bytes());
        to.extend(self.at.to_ne_bytes());
        to.extend(self.sector.to_ne_bytes());
        to.extend(self.bytes.to_ne_bytes());
        match version {
            Version::One => {
                let action = u32::try_from(self.action & u64::from(u32::MAX)).expect("32 bits");
                to.extend(action.to_ne_bytes());
                to.extend(self.pid.to_ne_bytes());
            }
            Version::Two => {
                to.extend(self.pid.to_ne_bytes());
                to.extend(self.action.to_ne_bytes());
            }
        }
        to.extend(self.device.to_ne_bytes());
        to.extend(self.cpu.to_ne_bytes());
        let error = 0_u16;
        to.extend(error.to_ne_bytes());
        to.extend(u16::try_from(data.len()).expect("less than 64 KiB").to_ne_bytes());
        to.resize(start + version.record_len(), 0);
        to.extend(data);
    }

    /// The request of an event with the action `wanted`; `None` for one that is not to be replayed.
    fn request(&self, wanted: u64) -> Result<Option<Request>, String> {
        let is = |category: u64| self.action & category != 0;
        if self.action & action::MASK != wanted || is(category::NOTIFY | category::PC) {
            return Ok(None);
        }
        let zoned = ZONE_OPERATIONS.into_iter().find(|(_, category)| is(*category));
        let op = match zoned {
            Some((op, _)) => op,
            None if is(category::DISCARD) => Op::Discard,
            None if is(category::FLUSH) && self.bytes == 0 => Op::Flush,
            None if is(category::WRITE) => Op::Write,
            None if self.bytes > 0 => Op::Read,
            None => return Ok(None),
        };
        let mut flags = BioFlags::NONE;
        if matches!(op, Op::Write | Op::ZoneAppend) {
            let set = |flag, on| if on { flag } else { BioFlags::NONE };
            flags = set(BioFlags::PREFLUSH, is(category::FLUSH))
                | set(BioFlags::FUA, is(category::FUA))
                | set(BioFlags::ASYNC, !is(category::SYNC));
        }
        let (mut offset, mut len) = match self.sector.checked_mul(512) {
            Some(offset) => (offset, u64::from(self.bytes)),
            None => return Err(format!("found sector {}, expected a smaller one", self.sector)),
        };
        if !self.bytes.is_multiple_of(512) || offset.checked_add(len).is_none() {
            return Err(format!("found {} bytes, expected whole sectors", self.bytes));
        }
        if matches!(op, Op::Flush | Op::ZoneResetAll) {
            offset = 0;
        }
        if !op.has_range() {
            len = 0;
        }
        let (at, line, file) = (Nanos(self.at), 0, 0);
        Ok(Some(Request { at, offset, len, line, file, op, flags }))
    }
}

/// Whether a file that begins like this is one of blktrace, of any version.
pub(super) fn is_binary(start: &[u8]) -> bool {
    matches!(start, [_, b't', b'a', b'e', ..] | [b'e', b'a', b't', _, ..])
}

/// Reads the events with `action`. Errors have the number of the record in place of a line.
pub(super) fn read(
    name: &str,
    input: &mut dyn BufRead,
    replayed: BlkparseAction,
) -> Result<Trace, TraceError> {
    let wanted = match replayed {
        BlkparseAction::Queue => action::QUEUE,
        BlkparseAction::Issue => action::ISSUE,
    };
    let mut trace = Trace { name: name.to_owned(), ..Trace::default() };
    let mut begin = u64::MAX;
    let mut records = Records { input, number: 0 };
    loop {
        let read = records.next();
        let number = records.number;
        let Some(record) = read.map_err(|problem| trace.error(number, problem))? else { break };
        if record.action & category::NOTIFY == 0 {
            begin = begin.min(record.at);
        }
        let request = record.request(wanted).map_err(|problem| trace.error(number, problem))?;
        if let Some(request) = request {
            let device = format!("{},{}", record.device >> 20, record.device & 0xf_ffff);
            let file = trace.file(&device, number)?;
            trace.requests.push(Request { line: number, file, ..request });
        }
    }
    for request in &mut trace.requests {
        request.at = Nanos(request.at.0 - begin);
    }
    // Events of different CPUs may be out of order.
    trace.requests.sort_by_key(|request| request.at);
    Ok(trace)
}

/// The records of a file.
struct Records<'a> {
    input: &'a mut dyn BufRead,
    /// Records so far.
    number: u32,
}

impl Records<'_> {
    /// The next record; `None` at the end of the file.
    fn next(&mut self) -> Result<Option<Record>, String> {
        self.number = self.number.checked_add(1).ok_or("more than 2^32 records")?;
        if self.input.fill_buf().map_err(|error| error.to_string())?.is_empty() {
            return Ok(None);
        }
        let mut bytes = [0; Version::Two.record_len()];
        self.fill(&mut bytes[..4])?;
        let magic = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let (magic, swapped) = match magic {
            magic if magic & !0xff == MAGIC => (magic, false),
            magic => (magic.swap_bytes(), true),
        };
        let known = [Version::One, Version::Two].map(|version| (MAGIC | version.number(), version));
        let version = known.into_iter().find(|(known, _)| *known == magic).map(|known| known.1);
        let version = version.ok_or_else(|| match magic & !0xff {
            MAGIC => format!("found records of version {}, expected 7 or 8", magic & 0xff),
            _ => format!("found {:?}, expected the begin of a record", &bytes[..4]),
        })?;
        self.fill(&mut bytes[4..version.record_len()])?;
        let fields = Fields { bytes: &bytes, swapped };
        let (pid, action, rest) = match version {
            Version::One => (fields.number(32, 4), fields.number(28, 4), 36),
            Version::Two => (fields.number(28, 4), fields.number(32, 8), 40),
        };
        let word = |number: u64| u32::try_from(number).expect("a field of 32 bits");
        self.skip(fields.number(rest + 10, 2))?;
        Ok(Some(Record {
            sequence: word(fields.number(4, 4)),
            at: fields.number(8, 8),
            sector: fields.number(16, 8),
            bytes: word(fields.number(24, 4)),
            action,
            pid: word(pid),
            device: word(fields.number(rest, 4)),
            cpu: word(fields.number(rest + 4, 4)),
        }))
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), String> {
        self.input.read_exact(bytes).map_err(|_| TRUNCATED.to_owned())
    }

    /// Skips what follows a record.
    fn skip(&mut self, mut bytes: u64) -> Result<(), String> {
        while bytes > 0 {
            let here = self.input.fill_buf().map_err(|error| error.to_string())?.len();
            if here == 0 {
                return Err(TRUNCATED.to_owned());
            }
            let skipped = here.min(usize::try_from(bytes).unwrap_or(here));
            self.input.consume(skipped);
            bytes -= skipped as u64;
        }
        Ok(())
    }
}

const TRUNCATED: &str = "the file is truncated: it ends within a record";

/// The fields of a record, in the byte order of the machine that wrote it.
struct Fields<'a> {
    bytes: &'a [u8],
    /// Big-endian.
    swapped: bool,
}

impl Fields<'_> {
    /// The number in `len` bytes, at most 8, from `at` on.
    fn number(&self, at: usize, len: usize) -> u64 {
        let bytes = &self.bytes[at..at + len];
        let push = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        match self.swapped {
            true => bytes.iter().fold(0, push),
            false => bytes.iter().rev().fold(0, push),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(action: u64, sector: u64, bytes: u32) -> Record {
        Record { sector, bytes, action, at: 7_000, device: 259 << 20 | 3, ..Record::default() }
    }

    fn read_bytes(bytes: &[u8], replayed: BlkparseAction) -> Result<Trace, TraceError> {
        read("t", &mut &*bytes, replayed)
    }

    fn operations(records: &[Record], version: Version) -> Vec<(Op, u64, u64, BioFlags)> {
        let mut bytes = Vec::new();
        records.iter().for_each(|record| record.write(version, b"cgroup", &mut bytes));
        let trace = read_bytes(&bytes, BlkparseAction::Queue).expect("a trace");
        trace.requests.iter().map(|r| (r.op, r.offset, r.len, r.flags)).collect()
    }

    #[test]
    fn every_operation_of_version_2_is_read_as_it_was_written() {
        let queued = action::QUEUE | category::QUEUE;
        let sync = queued | category::SYNC;
        let mut records = vec![
            event(queued | category::READ, 8, 4096),
            event(queued | category::WRITE, 16, 512),
            event(sync | category::WRITE | category::FLUSH | category::FUA, 24, 512),
            event(sync | category::FLUSH | category::WRITE, 0, 0),
            event(queued | category::DISCARD | category::WRITE, 32, 1024),
        ];
        records.extend(ZONE_OPERATIONS.map(|(op, category)| {
            let bytes = if op.has_range() { 4096 } else { 0 };
            event(sync | category::WRITE | category, 2048, bytes)
        }));
        let none = BioFlags::NONE;
        let mut expected = vec![
            (Op::Read, 4096, 4096, none),
            (Op::Write, 8192, 512, BioFlags::ASYNC),
            (Op::Write, 12288, 512, BioFlags::PREFLUSH | BioFlags::FUA),
            (Op::Flush, 0, 0, none),
            (Op::Discard, 16384, 1024, none),
        ];
        expected.extend(ZONE_OPERATIONS.map(|(op, _)| {
            let at = if op == Op::ZoneResetAll { 0 } else { 1 << 20 };
            (op, at, if op.has_range() { 4096 } else { 0 }, none)
        }));
        assert_eq!(operations(&records, Version::Two), expected);
        // Version 1 has no bits for the other operations.
        assert_eq!(operations(&records[..5], Version::One), expected[..5]);
    }

    #[test]
    fn records_that_are_no_request_are_left_out() {
        let queued = action::QUEUE | category::QUEUE | category::WRITE;
        let records = [
            event(category::NOTIFY, 0, 0),
            event(action::ZONE_PLUG | category::QUEUE | category::WRITE, 8, 512),
            event(action::ISSUE | category::ISSUE | category::WRITE, 8, 512),
            event(queued | category::PC, 8, 512),
            event(action::QUEUE | category::QUEUE | category::READ, 8, 0),
        ];
        assert_eq!(operations(&records, Version::Two), []);
    }

    #[test]
    fn times_count_from_the_first_event_and_devices_are_told_apart() {
        let mut bytes = Vec::new();
        let write = |action| event(action | category::WRITE, 0, 512);
        let notify = Record { at: 0, ..event(category::NOTIFY, 0, 0) };
        notify.write(Version::One, b"zonal\0", &mut bytes);
        Record { at: 1_500, ..write(action::COMPLETE) }.write(Version::One, &[], &mut bytes);
        Record { at: 9_000, ..write(action::ISSUE) }.write(Version::One, &[], &mut bytes);
        Record { at: 2_000, device: 8 << 20, ..write(action::ISSUE) }.write(
            Version::Two,
            &[],
            &mut bytes,
        );
        let trace = read_bytes(&bytes, BlkparseAction::Issue).expect("a trace");
        assert_eq!(trace.files, [("259,3".to_owned(), 3), ("8,0".to_owned(), 4)]);
        let found: Vec<_> = trace.requests.iter().map(|r| (r.at.0, r.line, r.file)).collect();
        assert_eq!(found, [(500, 4, 1), (7_500, 3, 0)]);
    }

    #[test]
    fn records_of_machines_with_the_other_byte_order_are_read() {
        let record = event(action::QUEUE | category::ZONE_RESET, 4096, 0);
        for version in [Version::One, Version::Two] {
            let mut bytes = Vec::new();
            record.write(version, &[], &mut bytes);
            let widths = match version {
                Version::One => [4, 4, 8, 8, 4, 4, 4, 4, 4, 2, 2].as_slice(),
                Version::Two => &[4, 4, 8, 8, 4, 4, 8, 4, 4, 2, 2, 12],
            };
            let mut at = 0;
            for width in widths {
                bytes[at..at + width].reverse();
                at += width;
            }
            assert_eq!(at, version.record_len());
            let mut input = &*bytes;
            let mut records = Records { input: &mut input, number: 0 };
            let read = records.next().expect("a record").expect("one");
            let action = match version {
                Version::One => record.action & 0xffff_ffff,
                Version::Two => record.action,
            };
            assert_eq!(read, Record { action, ..record });
            assert!(is_binary(&bytes));
        }
    }

    #[test]
    fn files_that_are_damaged_are_refused_with_the_record() {
        let write = event(action::QUEUE | category::WRITE, 8, 512);
        let mut whole = Vec::new();
        write.write(Version::Two, b"more", &mut whole);
        let error = |bytes: &[u8]| {
            read_bytes(bytes, BlkparseAction::Queue).expect_err("damaged").to_string()
        };
        for cut in [1, 4, 63, 66] {
            let twice = [&whole, &whole[..cut]].concat();
            assert_eq!(error(&twice), format!("t:2: {TRUNCATED}"), "{cut} bytes");
        }
        let mut newer = whole.clone();
        newer[0] = 9;
        assert_eq!(error(&newer), "t:1: found records of version 9, expected 7 or 8");
        let other = [&whole[..], b"next"].concat();
        assert!(error(&other).ends_with("expected the begin of a record"), "{}", error(&other));
        let mut bytes = Vec::new();
        Record { bytes: 100, ..write }.write(Version::Two, &[], &mut bytes);
        assert_eq!(error(&bytes), "t:1: found 100 bytes, expected whole sectors");
        bytes.clear();
        Record { sector: u64::MAX, ..write }.write(Version::Two, &[], &mut bytes);
        assert!(error(&bytes).contains("expected a smaller one"));
    }
}
