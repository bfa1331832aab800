//! Pattern files: requests without times, as text, and the requests of FreeBSD's raidtest.
//!
//! ```text
//! zonal pattern 1
//! raidtest size=1048576 requests=3 seed=137 align=512 max_size=131072 writes=0.5
//! R 524288 4096               read, offset, length
//! W 0 131072                  write
//! F                           flush
//! end 3 5f1a09c2d3e4b687      requests, FNV-1a of all bytes above, 64 bits
//! ```
//!
//! raidtest's `genfile` draws for each request a length from one sector to 128 KiB, uniformly, then a
//! sector where it fits on the medium, then read or write. Its `test` forks processes that each do a
//! run of consecutive requests, one after another. Here the random numbers are Zonal's, and the last
//! possible offset can be drawn, too.
use super::{Lines, Request, Trace, TraceError};
use crate::job::Fraction;
use crate::rng::Rng;
use std::fmt::Write;
use zonal_blk::{BioFlags, Nanos, Op};

/// First line of a pattern file.
pub const HEADER: &str = "zonal pattern 1";

/// FNV-1a with 64 bits (Fowler, Noll and Vo): detects a damaged file, not a forged one.
#[derive(Clone, Copy)]
struct Checksum(u64);

impl Checksum {
    const fn new() -> Self {
        Checksum(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

/// The text of a pattern file. `origin` is a line that says how the requests were made. Only reads,
/// writes and flushes are supported.
pub fn print(origin: &str, requests: &[Request]) -> String {
    let mut text = format!("{HEADER}\n{origin}\n");
    for Request { op, offset, len, .. } in requests {
        let _ = match op {
            Op::Read => writeln!(text, "R {offset} {len}"),
            Op::Write => writeln!(text, "W {offset} {len}"),
            _ => writeln!(text, "F"),
        };
    }
    let mut checksum = Checksum::new();
    checksum.add(text.as_bytes());
    let _ = writeln!(text, "end {} {:016x}", requests.len(), checksum.0);
    text
}

/// Parses a pattern file: the requests, and how they were made.
pub(super) fn read(mut lines: Lines<'_>) -> Result<(Trace, String), TraceError> {
    let mut checksum = Checksum::new();
    // The first line may have trailing blanks.
    lines.put_back();
    lines.advance()?;
    checksum.add(lines.text().as_bytes());
    if !lines.advance()? {
        return Err(lines.error("the file is truncated: expected how the pattern was made"));
    }
    let origin = lines.text().trim_end().to_owned();
    checksum.add(lines.text().as_bytes());
    let files = vec![("pattern".to_owned(), 1)];
    let mut trace = Trace { name: lines.name.clone(), files, requests: Vec::new() };
    loop {
        if !lines.advance()? {
            return Err(lines.error("the file is truncated: expected \"end REQUESTS CHECKSUM\""));
        }
        let text = lines.text();
        if let Some(end) = text.strip_prefix("end ") {
            let expected = format!("{} {:016x}", trace.requests.len(), checksum.0);
            if end.trim_end() != expected {
                let problem = format!("found end {:?}, expected {expected:?}", end.trim_end());
                return Err(lines.error(format!("{problem}: the file is damaged")));
            }
            break;
        }
        checksum.add(text.as_bytes());
        let (op, offset, len) = request(text).ok_or_else(|| {
            lines.error(format!(
                "found {:?}, expected R OFFSET LENGTH, W OFFSET LENGTH, F or end",
                text.trim_end()
            ))
        })?;
        let (line, flags) = (lines.number(), BioFlags::NONE);
        trace.requests.push(Request { at: Nanos(0), offset, len, line, file: 0, op, flags });
    }
    match lines.advance()? {
        false => Ok((trace, origin)),
        true => Err(lines.error("found a line after the end")),
    }
}

fn request(text: &str) -> Option<(Op, u64, u64)> {
    let mut words = text.trim_end().split(' ');
    let op = match words.next()? {
        "R" => Op::Read,
        "W" => Op::Write,
        "F" => return words.next().is_none().then_some((Op::Flush, 0, 0)),
        _ => return None,
    };
    let (offset, len): (u64, u64) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let valid = len > 0 && offset.checked_add(len).is_some() && words.next().is_none();
    valid.then_some((op, offset, len))
}

/// Separates these random numbers from those of jobs.
const STREAM: u64 = u64::from_be_bytes(*b"raidtest");

/// Parameters of raidtest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raidtest {
    /// First byte of the region.
    pub start: u64,
    /// Bytes of the region (raidtest's `-s`).
    pub size: u64,
    /// Number of requests (`-n`).
    pub requests: u64,
    /// Alignment of offsets and lengths in bytes (`-S`).
    pub align: u64,
    /// Size of the longest request in bytes.
    pub max_size: u64,
    /// Fraction of writes: 0 for `-r`, 1 for `-w`.
    pub writes: Fraction,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// Invalid parameters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{option}: {problem}")]
pub struct PatternError {
    /// The parameter that is wrong: `size`, `requests`, `align` or `max_size`.
    pub option: &'static str,
    /// Says what was found and what was expected.
    pub problem: String,
}

impl Raidtest {
    /// Default number of requests.
    pub const REQUESTS: u64 = 10_000;
    /// Default size of the longest request in bytes.
    pub const MAX_SIZE: u64 = 128 << 10;
    /// Limit of requests: their lines are counted in 32 bits.
    pub const MAX_REQUESTS: u64 = 1 << 31;

    /// Generates the requests.
    ///
    /// # Errors
    /// The parameter that is wrong.
    pub fn generate(&self) -> Result<Vec<Request>, PatternError> {
        let &Raidtest { start, size, requests, align, max_size, writes, seed } = self;
        let fail = |option, problem| Err(PatternError { option, problem });
        if align == 0 || align % 512 != 0 {
            return fail("align", format!("found {align}, expected a multiple of 512"));
        }
        if max_size == 0 || max_size % align != 0 {
            return fail("max_size", format!("found {max_size}, expected a multiple of {align}"));
        }
        if size < max_size {
            return fail("size", format!("found {size}, expected at least max_size={max_size}"));
        }
        if requests == 0 || requests > Self::MAX_REQUESTS {
            let max = Self::MAX_REQUESTS;
            return fail("requests", format!("found {requests}, expected 1 to {max}"));
        }
        let mut rng = Rng::new(seed, [STREAM, 0, 0, 0]);
        let (sectors, longest) = (size / align, max_size / align);
        let request = |line| {
            let len = 1 + rng.below(longest);
            let sector = rng.below(sectors - len + 1);
            let write = rng.below(Fraction::ONE) < writes.millionths();
            Request {
                at: Nanos(0),
                offset: start + sector * align,
                len: len * align,
                line,
                file: 0,
                op: if write { Op::Write } else { Op::Read },
                flags: BioFlags::NONE,
            }
        };
        let last = u32::try_from(requests).expect("at most 2^31");
        // The first request of a pattern file is in its third line.
        Ok((3..last + 3).map(request).collect())
    }

    /// How the requests were made, for pattern files.
    pub fn origin(&self) -> String {
        let Raidtest { size, requests, align, max_size, writes, seed, .. } = self;
        format!(
            "raidtest size={size} requests={requests} seed={seed} align={align} \
             max_size={max_size} writes={writes}"
        )
    }
}
