//! Whether a command was done whose response was lost.
//!
//! Takes the zone as it is reported, while nothing of it is in flight, and what was known before;
//! gives what that proves.
use super::zones::{ZoneSnapshot, ZoneState};
use zonal_blk::{Op, Request, Sector, Zone, ZoneCondition, ZoneKind};

/// What a zone report proves of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It was done.
    Done,
    /// It was not done, or does no harm if it is done again.
    Resend,
    /// A part of it was done.
    Torn,
    /// Nothing.
    Unknown,
}

/// Judges a write or an append, which was `seen` as that when it was first sent.
pub(super) fn resolve(
    request: &Request,
    seen: ZoneSnapshot,
    zone: &Zone,
    state: &ZoneState,
) -> Verdict {
    if !request.op().is_write() || zone.kind == ZoneKind::Conventional {
        return Verdict::Resend;
    }
    let wp = match zone.cond {
        // Who fills a zone has been at its end; a zone that was finished can be full from anywhere.
        ZoneCondition::Full if state.reached.max(state.known) >= zone.writable_end() => {
            zone.writable_end()
        }
        ZoneCondition::Full | ZoneCondition::ReadOnly | ZoneCondition::Offline => {
            return Verdict::Unknown;
        }
        ZoneCondition::Empty => zone.start,
        _ => zone.wp,
    };
    if request.op() == Op::ZoneAppend {
        return if wp == state.known { Verdict::Resend } else { Verdict::Unknown };
    }
    of_write(request.sector(), request.end(), seen.known, wp)
}

/// Judges a write from `start` to `end`, sent when the pointer was at `then` or beyond.
fn of_write(start: Sector, end: Sector, then: Sector, wp: Sector) -> Verdict {
    // Behind the pointer when it was sent: the device could not do it, and will say so.
    if start < then || wp <= start {
        Verdict::Resend
    } else if wp < end {
        Verdict::Torn
    } else {
        Verdict::Done
    }
}
