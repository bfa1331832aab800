//! Which waiting requests go out as one command.
//!
//! Requests are merged when they leave, not when they come: the order of sectors has the
//! neighbours side by side by then, and insertion searches nothing.
use crate::bio::Op;
use crate::request::Request;

/// What commands may be merged into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MergeLimit {
    /// The longest command in sectors; 0 for no merging.
    pub max_sectors: u32,
}

impl MergeLimit {
    /// Whether `back` can go out behind `front` in one command. A write that holds its zone's plug
    /// cannot: the plug lets one through at a time and has merged what waits there already.
    pub(crate) fn joins(self, front: &Request, back: &Request) -> bool {
        front.can_append(back, self.max_sectors)
            && matches!(front.op(), Op::Read | Op::Write)
            && front.zone() == back.zone()
            && front.prio() == back.prio()
            && !front.plugged
            && !back.plugged
    }

    /// Whether a request that begins at `sector` can be the front of one at `next`, as far as the
    /// sectors say.
    pub(super) fn reaches(self, sector: u64, next: u64) -> bool {
        next - sector < u64::from(self.max_sectors)
    }
}
