//! Traces and request patterns: I/O that is written down, to be done again.
//!
//! Takes text: fio's iologs (versions 2 and 3), blkparse's default output, or Zonal's own pattern
//! files; gives a [`Trace`] in memory, 32 bytes a request. Keeps true: a file is understood to its
//! last line before anything is done with it, and what is wrong is told with file and line.
//!
//! ```text
//! iolog     --+                                                    +--> generate::Replay, by share
//! blkparse  --+-- lines --> Trace --> transform, split by file ----+
//! pattern   --+                                                    +--> check against a device
//! raidtest, randomio --> requests --> pattern file
//! runner's I/O --> record --> iolog 3, blkparse
//! ```
pub mod blkparse;
pub mod iolog;
mod lines;
pub mod options;
pub mod pattern;
pub mod raidtest;
pub mod record;
mod transform;

pub use options::{
    Action, Fraction, PatternOptions, PatternProgram, RecordFormat, RecordOptions, ReplayOptions,
};
pub use raidtest::Raidtest;
pub use record::{Recorder, Recording};

use crate::generate::SequentialZones;
use lines::Lines;
use std::fmt;
use std::io::BufRead;
use std::ops::Range;
use std::sync::Arc;
use zonal_blk::{BioFlags, Nanos, Op};

/// One I/O of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When, from the start of the trace.
    pub at: Nanos,
    /// First byte; 0 for a flush.
    pub offset: u64,
    /// Bytes; 0 where the operation has no range.
    pub len: u64,
    /// The line of the file that says so, from 1.
    pub line: u32,
    /// Index into [`Trace::files`].
    pub file: u16,
    /// The operation.
    pub op: Op,
    /// Its modifiers.
    pub flags: BioFlags,
}

/// What [`Request`] may take: a long trace is kept whole.
const _: () = assert!(size_of::<Request>() == 32);

/// A file's requests, in the order of their times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Name of the file, for errors.
    pub name: String,
    /// The files or devices that the requests are for, and the line that names each first.
    pub files: Vec<(String, u32)>,
    /// The requests.
    pub requests: Vec<Request>,
}

/// A clone's part of a trace.
#[derive(Clone, Debug)]
pub struct TraceSlice {
    /// The trace.
    pub trace: Arc<Trace>,
    /// The requests that are this clone's.
    pub range: Range<usize>,
    /// The zones of the device that they are for.
    pub zones: SequentialZones,
}

/// What is wrong with a trace, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {problem}")]
pub struct TraceError {
    /// Name of the file.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// What was found and what was expected.
    pub problem: String,
}

/// What a trace file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// fio's iolog, version 2.
    Iolog2,
    /// fio's iolog, version 3.
    Iolog3,
    /// blkparse's text.
    Blkparse,
    /// Zonal's pattern file.
    Pattern,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Iolog2 => "an iolog of version 2",
            Format::Iolog3 => "an iolog of version 3",
            Format::Blkparse => "blkparse's text",
            Format::Pattern => "a pattern",
        })
    }
}

/// The first bytes of blktrace's binary files on little-endian machines: version, `tae`.
const BLKTRACE_MAGIC: [u8; 3] = *b"tae";

/// Reads a trace of any format; of blkparse's text, the lines with `action`.
///
/// # Errors
/// The first line that is wrong.
pub fn read(
    name: &str,
    input: &mut dyn BufRead,
    action: Action,
) -> Result<(Format, Trace), TraceError> {
    let fail = |line, problem: String| Err(TraceError { file: name.to_owned(), line, problem });
    match input.fill_buf() {
        Ok([_, magic @ ..]) if magic.starts_with(&BLKTRACE_MAGIC) => {
            return fail(1, "found a binary blktrace file, expected its text: blkparse -i".into());
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
                "found {line:?}, expected {:?}, {:?}, {:?} or a line of blkparse",
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
    };
    trace.requests.shrink_to_fit();
    Ok((format, trace))
}

impl Trace {
    /// An error at one of the trace's lines.
    pub fn error(&self, line: u32, problem: impl Into<String>) -> TraceError {
        TraceError { file: self.name.clone(), line, problem: problem.into() }
    }

    /// When the last request is due.
    pub fn end(&self) -> Nanos {
        self.requests.last().map_or(Nanos(0), |last| last.at)
    }

    /// The number of a file, which is entered if it is new.
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
    /// The `clone`-th of `clones` equal parts, each a run of consecutive requests. Where they do
    /// not come out even, the first parts have one more.
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

#[cfg(test)]
mod tests;
