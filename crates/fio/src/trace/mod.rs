//! Traces and request patterns, replayed as I/O.
//!
//! The formats are fio's iologs (versions 2 and 3), blkparse's default output, blktrace's binary files
//! and Zonal's own pattern files. A [`Trace`] is kept in memory, 32 bytes a request; the whole file is
//! parsed before anything is done, and errors name the file and the line.
//!
//! ```text
//! iolog     --+                                                    +--> generator, by slice
//! blkparse  --+-- lines --> Trace --> transform, split by file ----+
//! pattern   --+                                                    +--> check against a device
//! raidtest, randomio --> requests --> pattern file
//! ```
pub(crate) mod blkparse;
pub mod blktrace;
pub(crate) mod iolog;
pub mod pattern;

pub use pattern::{PatternError, Raidtest};

use crate::job::{BlkparseAction, ReplayOptions};
use std::fmt;
use std::io::{BufRead, Read};
use std::ops::Range;
use std::sync::Arc;
use zonal_blk::{BioFlags, Device, Limits, Nanos, Op, Status, ZoneKind, ZoneNo};

/// One I/O of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Time from the start of the trace.
    pub at: Nanos,
    /// First byte; 0 for a flush.
    pub offset: u64,
    /// Bytes; 0 where the operation has no range.
    pub len: u64,
    /// Line of the file, from 1.
    pub line: u32,
    /// Index into [`Trace::files`].
    pub file: u16,
    /// The operation.
    pub op: Op,
    /// Its flags.
    pub flags: BioFlags,
}

// Traces can be long and are kept in memory as a whole.
const _: () = assert!(size_of::<Request>() == 32);

/// The requests of a file, ordered by time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Name of the file, for errors.
    pub name: String,
    /// The files or devices of the requests, and the line where each is first named.
    pub files: Vec<(String, u32)>,
    /// The requests.
    pub requests: Vec<Request>,
}

/// The part of a trace that a clone replays.
#[derive(Clone, Debug)]
pub struct TraceSlice {
    /// The trace.
    pub trace: Arc<Trace>,
    /// The clone's requests.
    pub range: Range<usize>,
    /// The zones of their device.
    pub zones: SequentialZones,
}

/// An error in a trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {problem}")]
pub struct TraceError {
    /// Name of the file.
    pub file: String,
    /// Line, from 1; in a binary file, the record.
    pub line: u32,
    /// Says what was found and what was expected.
    pub problem: String,
}

/// The format of a trace file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// fio's iolog, version 2.
    Iolog2,
    /// fio's iolog, version 3.
    Iolog3,
    /// Default output of blkparse.
    Blkparse,
    /// A binary file of blktrace.
    Blktrace,
    /// Zonal's pattern file.
    Pattern,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Iolog2 => "an iolog of version 2",
            Format::Iolog3 => "an iolog of version 3",
            Format::Blkparse => "output of blkparse",
            Format::Blktrace => "a binary file of blktrace",
            Format::Pattern => "a pattern",
        })
    }
}

/// Parses a trace of any format; from the output of blktrace, the events with `action`.
///
/// # Errors
/// The first line with an error.
pub fn read(
    name: &str,
    input: &mut dyn BufRead,
    action: BlkparseAction,
) -> Result<(Format, Trace), TraceError> {
    let fail = |line, problem: String| Err(TraceError { file: name.to_owned(), line, problem });
    match input.fill_buf() {
        Ok(start) if blktrace::is_binary(start) => {
            let mut trace = blktrace::read(name, input, action)?;
            trace.requests.shrink_to_fit();
            return Ok((Format::Blktrace, trace));
        }
        Ok(_) => {}
        Err(error) => return fail(1, error.to_string()),
    }
    let mut lines = Lines::new(name, input);
    if !lines.advance()? {
        return fail(1, "the file is empty, expected a trace".into());
    }
    let format = match lines.text().trim_end() {
        iolog::HEADER_2 => Format::Iolog2,
        iolog::HEADER_3 => Format::Iolog3,
        pattern::HEADER => Format::Pattern,
        line if blkparse::is_event(line) => Format::Blkparse,
        line => {
            let problem = format!(
                "found {line:?}, expected {:?}, {:?}, {:?} or a line of blkparse's output",
                iolog::HEADER_2,
                iolog::HEADER_3,
                pattern::HEADER
            );
            return fail(1, problem);
        }
    };
    let mut trace = match format {
        Format::Iolog2 => iolog::read(lines, false)?,
        Format::Iolog3 => iolog::read(lines, true)?,
        Format::Blkparse => blkparse::read(lines, action)?,
        Format::Pattern => pattern::read(lines)?.0,
        Format::Blktrace => unreachable!("it has no lines"),
    };
    trace.requests.shrink_to_fit();
    Ok((format, trace))
}

impl Trace {
    /// An error in a line of the trace.
    pub fn error(&self, line: u32, problem: impl Into<String>) -> TraceError {
        TraceError { file: self.name.clone(), line, problem: problem.into() }
    }

    /// Time of the last request.
    pub fn end(&self) -> Nanos {
        self.requests.last().map_or(Nanos(0), |last| last.at)
    }

    /// The index of a file, which is added if it is new.
    fn file(&mut self, name: &str, line: u32) -> Result<u16, TraceError> {
        let known = self.files.iter().position(|(known, _)| known == name);
        let index = known.unwrap_or_else(|| {
            self.files.push((name.to_owned(), line));
            self.files.len() - 1
        });
        u16::try_from(index).map_err(|_| self.error(line, "more than 65536 files"))
    }
}

impl TraceSlice {
    /// Part number `clone` of `clones` equal parts of consecutive requests. If the number of requests
    /// is not divisible, the first parts have one more.
    pub fn new(trace: Arc<Trace>, clone: u32, clones: u32) -> Self {
        let (len, clone, clones) = (trace.requests.len(), clone as usize, clones as usize);
        let start = |clone: usize| clone * (len / clones) + clone.min(len % clones);
        TraceSlice {
            range: start(clone)..start(clone + 1),
            trace,
            zones: SequentialZones::default(),
        }
    }
}

/// Longest read or write in bytes: it has a buffer.
const MAX_LEN: u64 = 1 << 30;
/// Longest request of another kind in bytes: sectors are counted in 32 bits.
const MAX_RANGE: u64 = (1 << 32) * 512 - 512;

impl Trace {
    /// Applies fio's `replay_` options: leaves out what is skipped, scales times, and divides offsets
    /// before it rounds them down.
    pub fn transform(&mut self, options: &ReplayOptions) {
        let [reads, writes, trims, flushes] = options.skip;
        self.requests.retain(|request| !match request.op {
            Op::Read => reads,
            Op::Flush => flushes,
            op if op.is_write() => writes,
            _ => trims,
        });
        let mask = options.align.saturating_sub(1);
        for request in &mut self.requests {
            let at = u128::from(request.at.0) * 100 / u128::from(options.time_scale);
            request.at = match options.no_stall {
                true => Nanos(0),
                false => Nanos(u64::try_from(at).unwrap_or(u64::MAX)),
            };
            request.offset = (request.offset / options.scale) & !mask;
        }
    }

    /// Splits the trace by file, in the order in which the files are first named; files without
    /// requests are left out.
    pub fn split(self) -> Vec<Trace> {
        let mut parts: Vec<Trace> = Vec::with_capacity(self.files.len());
        for file in self.files {
            parts.push(Trace { name: self.name.clone(), files: vec![file], requests: Vec::new() });
        }
        for request in self.requests {
            parts[usize::from(request.file)].requests.push(Request { file: 0, ..request });
        }
        parts.retain(|part| !part.requests.is_empty());
        parts.iter_mut().for_each(|part| part.requests.shrink_to_fit());
        parts
    }
}

impl TraceSlice {
    /// Checks the requests against the limits of a device.
    ///
    /// # Errors
    /// The first request that the device cannot do.
    pub fn check(&self, limits: &Limits) -> Result<(), TraceError> {
        for request in &self.trace.requests[self.range.clone()] {
            if let Some(problem) = violation(request, limits) {
                return Err(self.trace.error(request.line, problem));
            }
        }
        Ok(())
    }
}

/// The limit that a request violates, if any.
fn violation(request: &Request, limits: &Limits) -> Option<String> {
    let &Request { op, offset, len, .. } = request;
    let (lba, capacity) = (u64::from(limits.lba_size), limits.capacity.to_bytes().0);
    let zone = limits.zone_size.to_bytes().0;
    let described = || format!("{op:?} of {len} bytes at {offset}");
    if op == Op::Flush {
        return None;
    }
    let zone_op = op.is_zone_management() || matches!(op, Op::ZoneAppend | Op::ZoneResetAll);
    if zone_op && zone == 0 {
        return Some(format!("{op:?}, but the device has no zones"));
    }
    if (op.is_zone_management() || op == Op::ZoneAppend) && offset % zone != 0 {
        return Some(format!("{op:?} at {offset}, expected the start of a zone of {zone} bytes"));
    }
    if (offset | len) % lba != 0 {
        return Some(format!("{}, expected multiples of the device's LBA of {lba}", described()));
    }
    let longest = if matches!(op, Op::Read | Op::Write) { MAX_LEN } else { MAX_RANGE };
    if len > longest {
        return Some(format!("{}, expected at most {longest} bytes", described()));
    }
    if offset.checked_add(len).is_none_or(|end| end > capacity || offset >= capacity) {
        return Some(format!("{} ends beyond the device's {capacity} bytes", described()));
    }
    None
}

/// The sequential zones of a device: a trim of a whole one is replayed as a reset.
#[derive(Clone, Debug, Default)]
pub struct SequentialZones {
    /// Bytes; 0 for a device without zones.
    zone_size: u64,
    /// By zone.
    sequential: Arc<[bool]>,
}

impl SequentialZones {
    /// The zones of `device`.
    ///
    /// # Errors
    /// The status of a failed zone report.
    pub fn of(device: &dyn Device) -> Result<Self, Status> {
        let limits = device.limits();
        let mut zones = Vec::new();
        if limits.nr_zones > 0 {
            device.report_zones(ZoneNo(0), limits.nr_zones as usize, &mut zones)?;
        }
        let is_sequential = |kind| kind == ZoneKind::SequentialRequired;
        let sequential = zones.iter().map(|zone| is_sequential(zone.kind)).collect();
        Ok(SequentialZones { zone_size: limits.zone_size.to_bytes().0, sequential })
    }

    /// Whether the range is a whole sequential zone.
    pub(crate) fn is_zone(&self, offset: u64, len: u64) -> bool {
        let zone = || usize::try_from(offset / self.zone_size).ok();
        self.zone_size > 0
            && len == self.zone_size
            && offset.is_multiple_of(self.zone_size)
            && zone().and_then(|zone| self.sequential.get(zone)).is_some_and(|&yes| yes)
    }
}

/// Longest line in bytes.
const MAX_LINE: u64 = 4096;

/// Lines of a file, one at a time in one buffer.
struct Lines<'a> {
    /// Name of the file, for errors.
    name: String,
    input: &'a mut dyn BufRead,
    buffer: Vec<u8>,
    /// Number of the line in the buffer, from 1.
    number: u32,
    /// The current line is returned once more.
    put_back: bool,
}

impl<'a> Lines<'a> {
    fn new(name: &str, input: &'a mut dyn BufRead) -> Self {
        Lines { name: name.to_owned(), input, buffer: Vec::new(), number: 0, put_back: false }
    }

    /// Advances to the next line; false after the last one.
    fn advance(&mut self) -> Result<bool, TraceError> {
        if !std::mem::take(&mut self.put_back) {
            self.buffer.clear();
            self.number = self.number.checked_add(1).ok_or_else(|| self.error("too many lines"))?;
            let limited = &mut self.input.take(MAX_LINE);
            if let Err(error) = limited.read_until(b'\n', &mut self.buffer) {
                return Err(self.error(error.to_string()));
            }
            match self.buffer.last() {
                None => return Ok(false),
                Some(b'\n') => {}
                Some(_) if self.buffer.len() as u64 == MAX_LINE => {
                    return Err(self.error("the line is longer than 4096 bytes"));
                }
                Some(_) => {
                    return Err(
                        self.error("the file is truncated: the last line has no line break")
                    );
                }
            }
        }
        match std::str::from_utf8(&self.buffer) {
            Ok(_) => Ok(true),
            Err(_) => Err(self.error("not valid UTF-8")),
        }
    }

    /// The line, including the line break.
    fn text(&self) -> &str {
        std::str::from_utf8(&self.buffer).expect("checked when it was read")
    }

    /// Returns the current line once more.
    fn put_back(&mut self) {
        self.put_back = true;
    }

    fn number(&self) -> u32 {
        self.number
    }

    /// An error in the current line.
    fn error(&self, problem: impl Into<String>) -> TraceError {
        TraceError { file: self.name.clone(), line: self.number, problem: problem.into() }
    }
}

#[cfg(test)]
mod tests;
