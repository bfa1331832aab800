//! The order in which what a zone has to do again is done.
//!
//! Takes commands that were lost, or came while the zone recovered; says whose turn it is. Keeps
//! true: writes of a zone go in the order of their sectors, whichever queues they are of; zone
//! management goes after them. It is used when a path has failed, and not else.
use std::collections::BTreeSet;
use zonal_blk::{Op, Request, Sector, ZoneNo};

/// A place in the line of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct QueuePosition {
    pub zone: ZoneNo,
    sector: Sector,
    number: u64,
}

/// The lines of all zones.
#[derive(Debug, Default)]
pub(super) struct RecoveryQueue {
    places: BTreeSet<QueuePosition>,
    number: u64,
}

impl RecoveryQueue {
    pub fn join(&mut self, request: &Request) -> QueuePosition {
        let last = Sector(u64::MAX);
        let writes = request.op().is_write();
        let sector = if writes { request.sector() } else { last };
        debug_assert!(writes || request.op() != Op::ZoneResetAll, "it is in no zone's line");
        self.number += 1;
        let place = QueuePosition { zone: request.zone(), sector, number: self.number };
        self.places.insert(place);
        place
    }

    /// Whether nobody of the zone goes first.
    pub fn is_first(&self, place: &QueuePosition) -> bool {
        let begin = QueuePosition { zone: place.zone, sector: Sector(0), number: 0 };
        self.places.range(begin..).next() == Some(place)
    }

    pub fn leave(&mut self, place: &QueuePosition) {
        let was_there = self.places.remove(place);
        debug_assert!(was_there, "who leaves is in the line");
    }
}
