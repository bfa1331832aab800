//! fio's iologs, versions 2 and 3 (fio 3.33, HOWTO, "Trace file format").
//!
//! ```text
//! fio version 2 iolog               fio version 3 iolog
//! /dev/sda add                      0 /dev/sda add            microseconds from the start
//! /dev/sda open                     0 /dev/sda open
//! /dev/sda read 0 4096              17 /dev/sda read 0 4096
//! /dev/sda wait 250 0               267 /dev/sda trim 8192 4096
//! /dev/sda trim 8192 4096           267 /dev/sda close
//! ```
use super::{Lines, Request, Trace, TraceError};
use zonal_blk::{BioFlags, Nanos, Op};

/// First line of version 2.
pub(super) const HEADER_2: &str = "fio version 2 iolog";
/// First line of version 3.
pub(crate) const HEADER_3: &str = "fio version 3 iolog";

/// Shorter waits of version 2 are ignored, in microseconds.
const MIN_WAIT_US: u64 = 100;

/// State of a file.
#[derive(Clone, Copy, Default)]
struct File {
    added: bool,
    open: bool,
}

/// Parses the lines after the first one.
pub(super) fn read(mut lines: Lines<'_>, timestamps: bool) -> Result<Trace, TraceError> {
    let mut trace = Trace { name: lines.name.clone(), ..Trace::default() };
    let mut files: Vec<File> = Vec::new();
    let mut at = Nanos(0);
    while lines.advance()? {
        let text = lines.text();
        let mut words = text.split_ascii_whitespace();
        let mut found: [&str; 6] = [""; 6];
        let count = found.iter_mut().zip(&mut words).map(|(to, word)| *to = word).count();
        let found = &found[..count];
        let found = match (timestamps, found) {
            (_, []) => continue,
            (false, rest) => rest,
            (true, [timestamp, rest @ ..]) => {
                let time = micros(timestamp, "a timestamp in microseconds");
                let time = time.map_err(|problem| lines.error(problem))?;
                if time < at {
                    let problem = format!("timestamp {timestamp} is before that of the line above");
                    return Err(lines.error(problem));
                }
                at = time;
                rest
            }
        };
        let line = lines.number();
        match *found {
            [name, action @ ("add" | "open" | "close")] => {
                let file = usize::from(trace.file(name, line)?);
                files.resize(files.len().max(file + 1), File::default());
                manage(&mut files[file], action)
                    .map_err(|problem| lines.error(format!("{action}: file {name} {problem}")))?;
            }
            [_, "wait", time, _] if !timestamps => {
                let wait = micros(time, "microseconds").map_err(|problem| lines.error(problem))?;
                if wait >= Nanos(MIN_WAIT_US * 1000) {
                    let sum = at.0.checked_add(wait.0);
                    at = Nanos(sum.ok_or_else(|| lines.error("the waits are too long"))?);
                }
            }
            [name, action, offset, len] => {
                let request = request(action, offset, len);
                let (op, offset, len) = request.map_err(|problem| lines.error(problem))?;
                let file = trace.file(name, line)?;
                if !files.get(usize::from(file)).is_some_and(|file| file.open) {
                    return Err(lines.error(format!("{action}: file {name} is not open")));
                }
                let flags = BioFlags::NONE;
                trace.requests.push(Request { at, offset, len, line, file, op, flags });
            }
            _ => {
                let stamp = if timestamps { "TIMESTAMP " } else { "" };
                return Err(lines.error(format!(
                    "found {:?}, expected {stamp}FILE ACTION or {stamp}FILE ACTION OFFSET LENGTH",
                    text.trim_end()
                )));
            }
        }
    }
    Ok(trace)
}

fn micros(text: &str, expected: &str) -> Result<Nanos, String> {
    let nanos = text.parse().ok().and_then(|micros: u64| micros.checked_mul(1000));
    nanos.map(Nanos).ok_or_else(|| format!("found {text:?}, expected {expected}"))
}

fn manage(file: &mut File, action: &str) -> Result<(), &'static str> {
    match (action, *file) {
        ("add", _) => file.added = true,
        (_, File { added: false, .. }) => return Err("was not added"),
        ("open", _) => file.open = true,
        (_, File { open: false, .. }) => return Err("is not open"),
        _ => file.open = false,
    }
    Ok(())
}

fn request(action: &str, offset: &str, len: &str) -> Result<(Op, u64, u64), String> {
    let op = match action {
        "read" => Op::Read,
        "write" => Op::Write,
        "trim" => Op::Discard,
        "sync" | "datasync" => Op::Flush,
        _ => {
            return Err(format!(
                "found action {action:?}, expected read, write, trim, sync, datasync, add, open, \
                 close or, in version 2, wait"
            ));
        }
    };
    let bytes = |what: &str, text: &str| {
        text.parse::<u64>().map_err(|_| format!("found {what} {text:?}, expected bytes"))
    };
    let (offset, len) = (bytes("offset", offset)?, bytes("length", len)?);
    if op == Op::Flush {
        return Ok((op, 0, 0));
    }
    if len == 0 || offset.checked_add(len).is_none() {
        return Err(format!("{action} {offset} {len}: expected a length from 1 to 2^64 - offset"));
    }
    Ok((op, offset, len))
}
