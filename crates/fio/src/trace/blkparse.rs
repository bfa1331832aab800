//! blkparse's default output (blkparse(1), "Default output").
//!
//! ```text
//!   8,0    3        1     0.000000000   697  Q  WS 223490 + 8 [kjournald]
//!   |      |        |     |             |    |  |  |        |  process
//!   device CPU      count seconds       PID  |  |  |        sectors
//!                                     action |  |  first sector, of 512 bytes
//!                                            RWBS
//! ```
//!
//! RWBS: `F` (preflush); then `R`, `W`, `D` (discard), `F` alone (flush), `N` (none) or the zone
//! operations of newer kernels, `ZA` (append), `ZR` (reset), `ZRA` (reset all), `ZF` (finish), `ZO`
//! (open), `ZC` (close); then `F` (FUA), `S` (sync), `A` (read-ahead), `M` (metadata) and others.
use super::{Lines, Request, Trace, TraceError};
use crate::job::BlkparseAction;
use zonal_blk::{BioFlags, Nanos, Op};

/// Modifiers of RWBS: read-ahead, barrier, secure erase, FUA, metadata, sync, atomic.
const MODIFIERS: &str = "ABEFMSU";

/// Whether the line is an event, not part of the summary that follows.
pub(super) fn is_event(line: &str) -> bool {
    let device = line.split_ascii_whitespace().next();
    device.is_some_and(|device| {
        device.split_once(',').is_some_and(|(major, minor)| {
            major.parse::<u32>().is_ok() && minor.parse::<u32>().is_ok()
        })
    })
}

/// Parses the events with `action`, from the current line on.
pub(super) fn read(mut lines: Lines<'_>, action: BlkparseAction) -> Result<Trace, TraceError> {
    let mut trace = Trace { name: lines.name.clone(), ..Trace::default() };
    lines.put_back();
    while lines.advance()? {
        let line = lines.text().trim();
        if line.starts_with("CPU") || line.starts_with("Total (") {
            // The summary, to the end of the file.
            break;
        }
        if line.is_empty() {
            continue;
        }
        let event =
            event(line, action).map_err(|problem| lines.error(format!("{problem} in {line:?}")))?;
        if let Some((device, request)) = event {
            let line = lines.number();
            let file = trace.file(device, line)?;
            trace.requests.push(Request { line, file, ..request });
        }
    }
    // Events of different CPUs may be out of order.
    trace.requests.sort_by_key(|request| request.at);
    Ok(trace)
}

/// The device and request of an event; `None` if it is not to be replayed.
fn event(line: &str, action: BlkparseAction) -> Result<Option<(&str, Request)>, String> {
    let mut words = line.split_ascii_whitespace();
    let mut word = |what: &str| words.next().ok_or_else(|| format!("expected {what}"));
    let device = word("a device")?;
    if !is_event(device) {
        return Err(format!("found {device:?}, expected a device such as 8,0"));
    }
    for what in ["a CPU", "a sequence number"] {
        number(word(what)?, what)?;
    }
    let at = seconds(word("seconds")?)?;
    number(word("a process ID")?, "a process ID")?;
    let found = word("an action")?;
    let wanted = match action {
        BlkparseAction::Queue => "Q",
        BlkparseAction::Issue => "D",
    };
    if found != wanted {
        return Ok(None);
    }
    let rwbs = word("RWBS")?;
    let range = match (words.next(), words.next(), words.next()) {
        (Some(sector), Some("+"), Some(sectors)) => {
            let bytes = |text, what| {
                let bytes = number(text, what)?.checked_mul(512);
                bytes.ok_or_else(|| format!("found {text:?}, expected fewer sectors"))
            };
            Some((bytes(sector, "a sector")?, bytes(sectors, "sectors")?))
        }
        _ => None,
    };
    let Some((op, flags)) = operation(rwbs, range.is_some_and(|(_, len)| len > 0))? else {
        return Ok(None);
    };
    let (offset, len) = match (op, range) {
        (Op::Flush | Op::ZoneResetAll, _) => (0, 0),
        (op, Some((offset, _))) if op.is_zone_management() => (offset, 0),
        (_, Some((offset, len))) if len > 0 && offset.checked_add(len).is_some() => (offset, len),
        _ => return Err("expected SECTOR + SECTORS after RWBS".to_owned()),
    };
    Ok(Some((device, Request { at, offset, len, line: 0, file: 0, op, flags })))
}

fn number(text: &str, what: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("found {text:?}, expected {what}"))
}

/// Parses seconds with up to nine decimals.
fn seconds(text: &str) -> Result<Nanos, String> {
    let nanos = || {
        let (seconds, decimals) = text.split_once('.')?;
        let digits =
            (1..=9).contains(&decimals.len()) && decimals.bytes().all(|b| b.is_ascii_digit());
        let nanos: u64 = format!("{decimals:0<9}").parse().ok().filter(|_| digits)?;
        seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanos)
    };
    nanos()
        .map(Nanos)
        .ok_or_else(|| format!("found {text:?}, expected seconds such as 0.000001500"))
}

/// The operation of RWBS; `None` for `N`.
fn operation(rwbs: &str, has_range: bool) -> Result<Option<(Op, BioFlags)>, String> {
    let (preflush, rest) = match rwbs.strip_prefix('F') {
        Some(rest) => (true, rest),
        None => (false, rwbs),
    };
    // A flush is what is left when the prefix is gone. `ZRA` begins with `ZR`.
    let begins =
        |op: &Op| *op != Op::Flush && op.info().trace.is_some_and(|name| rest.starts_with(name));
    let letters = |op: &Op| op.info().trace.map_or(0, str::len);
    let named = Op::ALL.into_iter().filter(begins).max_by_key(letters);
    let named = named.map(|op| (op, &rest[letters(&op)..]));
    let (op, modifiers) = match named {
        Some((Op::Write, modifiers)) if preflush && !has_range => (Op::Flush, modifiers),
        Some(named) => named,
        None if preflush => (Op::Flush, rest),
        None if rest.starts_with('N') => return Ok(None),
        None => return Err(format!("found {rwbs:?}, expected RWBS such as R, WS or FWFS")),
    };
    if let Some(unknown) = modifiers.chars().find(|&letter| !MODIFIERS.contains(letter)) {
        return Err(format!("found {unknown:?} in RWBS {rwbs:?}, expected letters of {MODIFIERS}"));
    }
    let mut flags = BioFlags::NONE;
    if op == Op::Write || op == Op::ZoneAppend {
        let set = |flag, on| if on { flag } else { BioFlags::NONE };
        flags = set(BioFlags::PREFLUSH, preflush)
            | set(BioFlags::FUA, modifiers.contains('F'))
            | set(BioFlags::ASYNC, !modifiers.contains('S'));
    }
    Ok(Some((op, flags)))
}

/// RWBS of an operation, as parsed by [`operation`]; `None` for an operation without a name.
pub(crate) fn rwbs(op: Op, flags: BioFlags) -> Option<String> {
    let mut name = String::new();
    if flags.contains(BioFlags::PREFLUSH) {
        name.push('F');
    }
    name += op.info().trace?;
    if flags.contains(BioFlags::FUA) {
        name.push('F');
    }
    if matches!(op, Op::Write | Op::ZoneAppend) && !flags.contains(BioFlags::ASYNC) {
        name.push('S');
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rwbs_gives_operation_and_modifiers() {
        let sync = BioFlags::NONE;
        for (text, has_range, expected) in [
            ("R", true, Some((Op::Read, sync))),
            ("RA", true, Some((Op::Read, sync))),
            ("W", true, Some((Op::Write, BioFlags::ASYNC))),
            ("WS", true, Some((Op::Write, sync))),
            ("WSM", true, Some((Op::Write, sync))),
            ("WFS", true, Some((Op::Write, BioFlags::FUA))),
            ("FWFS", true, Some((Op::Write, BioFlags::PREFLUSH | BioFlags::FUA))),
            ("FWS", false, Some((Op::Flush, sync))),
            ("F", false, Some((Op::Flush, sync))),
            ("FF", false, Some((Op::Flush, sync))),
            ("FFS", false, Some((Op::Flush, sync))),
            ("D", true, Some((Op::Discard, sync))),
            ("DES", true, Some((Op::Discard, sync))),
            ("ZA", true, Some((Op::ZoneAppend, BioFlags::ASYNC))),
            ("ZR", true, Some((Op::ZoneReset, sync))),
            ("ZRA", false, Some((Op::ZoneResetAll, sync))),
            ("ZFS", true, Some((Op::ZoneFinish, sync))),
            ("ZO", true, Some((Op::ZoneOpen, sync))),
            ("ZC", true, Some((Op::ZoneClose, sync))),
            ("N", false, None),
            ("NS", false, None),
        ] {
            assert_eq!(operation(text, has_range), Ok(expected), "{text}");
        }
        for text in ["", "X", "WX", "Z", "ZX", "S"] {
            assert!(operation(text, true).is_err(), "{text}");
        }
    }

    #[test]
    fn rwbs_of_an_operation_parses_to_the_operation() {
        let flags = [
            BioFlags::NONE,
            BioFlags::ASYNC,
            BioFlags::FUA | BioFlags::ASYNC,
            BioFlags::PREFLUSH | BioFlags::FUA,
        ];
        for flags in flags {
            for op in [Op::Write, Op::ZoneAppend] {
                let name = rwbs(op, flags).expect("a name");
                assert_eq!(operation(&name, true), Ok(Some((op, flags))), "{name}");
            }
        }
        for op in [Op::Read, Op::Discard, Op::Flush, Op::ZoneReset, Op::ZoneResetAll] {
            let name = rwbs(op, BioFlags::NONE).expect("a name");
            assert_eq!(operation(&name, true), Ok(Some((op, BioFlags::NONE))), "{name}");
        }
    }
}
