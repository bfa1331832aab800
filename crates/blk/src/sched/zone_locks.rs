//! Zone write locking: one write in flight per sequential zone, the rest kept in the scheduler.
//!
//! The policy of kernels up to 6.9. A zone is locked when a write to it is sent and unlocked when
//! the write completes; the search for the next write skips locked zones.
use crate::limits::Limits;
use crate::op::Op;
use crate::probe::mutant;
use crate::units::{Sector, ZoneNo};
use crate::zone::{Zone, ZoneKind};

/// The zones of a device: which are sequential and which are being written.
#[derive(Clone, Debug)]
pub(crate) struct ZoneLocks {
    zones: Vec<State>,
    limits: Limits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Conventional,
    Free,
    Locked,
}

impl ZoneLocks {
    /// The zones of a report, all free.
    pub(crate) fn new(limits: &Limits, zones: &[Zone]) -> Self {
        let state = |zone: &Zone| match zone.kind {
            ZoneKind::Conventional => State::Conventional,
            ZoneKind::SequentialRequired => State::Free,
        };
        ZoneLocks { zones: zones.iter().map(state).collect(), limits: limits.clone() }
    }

    fn zone(&self, sector: Sector) -> State {
        self.zones[self.limits.zone_of(sector).index()]
    }

    pub(super) fn is_locked(&self, sector: Sector) -> bool {
        self.zone(sector) == State::Locked
    }

    /// Whether `sector` lies in a zone that is written at its write pointer.
    pub(super) fn is_sequential(&self, sector: Sector) -> bool {
        self.zone(sector) != State::Conventional
    }

    pub(super) fn zone_start(&self, sector: Sector) -> Sector {
        self.limits.zone_start(self.limits.zone_of(sector))
    }

    pub(super) fn zone_end(&self, sector: Sector) -> Sector {
        self.zone_start(sector) + self.limits.zone_size
    }

    /// Whether a stream of writes across zones is kept together.
    pub(super) fn keep_streams(&self) -> bool {
        self.limits.rotational
    }

    /// Whether an operation needs its zone's lock. An append does not say where it writes, a
    /// discard writes nothing.
    fn needs_lock(op: Op) -> bool {
        matches!(op, Op::Write | Op::WriteZeroes)
    }

    pub(super) fn sent(&mut self, op: Op, zone: ZoneNo) {
        let state = &mut self.zones[zone.index()];
        if Self::needs_lock(op) && *state == State::Free {
            *state = State::Locked;
        }
    }

    pub(super) fn completed(&mut self, op: Op, zone: ZoneNo) {
        let state = &mut self.zones[zone.index()];
        let kept = mutant!(ZoneLockKept) && op == Op::WriteZeroes;
        if Self::needs_lock(op) && *state == State::Locked && !kept {
            *state = State::Free;
        }
    }
}
