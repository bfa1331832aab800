//! Pattern files: requests without times, in text, that every machine writes and reads alike.
//!
//! ```text
//! zonal pattern 1
//! raidtest size=1048576 requests=3 seed=137 align=512 max_size=131072 writes=0.5
//! R 524288 4096               read, first byte, bytes
//! W 0 131072                  write
//! F                           flush
//! end 3 5f1a09c2d3e4b687      requests, FNV-1a of all bytes above, 64 bits
//! ```
use super::lines::Lines;
use super::{Request, Trace, TraceError};
use std::fmt::Write;
use zonal_blk::{BioFlags, Nanos, Op};

/// First line of a pattern file.
pub const HEADER: &str = "zonal pattern 1";

/// FNV-1a with 64 bits (Fowler, Noll and Vo): tells a damaged file, not a forged one.
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

/// The text of a pattern file. `origin` is a line that says how the requests were made; of the
/// requests, reads, writes and flushes count, with offset and length.
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

/// Reads what follows the first line: the requests, and how they were made.
pub(super) fn read(mut lines: Lines<'_>) -> Result<(Trace, String), TraceError> {
    let mut checksum = Checksum::new();
    // The first line, which may differ from the header by blanks at its end.
    lines.put_back();
    lines.advance()?;
    checksum.add(lines.text().as_bytes());
    if !lines.advance()? {
        return Err(lines.error("the file is cut off: expected how the pattern was made"));
    }
    let origin = lines.text().trim_end().to_owned();
    checksum.add(lines.text().as_bytes());
    let files = vec![("pattern".to_owned(), 1)];
    let mut trace = Trace { name: lines.name.clone(), files, requests: Vec::new() };
    loop {
        if !lines.advance()? {
            return Err(lines.error("the file is cut off: expected \"end REQUESTS CHECKSUM\""));
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
        true => Err(lines.error("found a line behind the end")),
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
    let sound = len > 0 && offset.checked_add(len).is_some() && words.next().is_none();
    sound.then_some((op, offset, len))
}
