//! The sequential zones of a file system: allocation, live data and resets.
//!
//! A zone is reset only when all its data is dead and no write to it is in flight.
use std::collections::VecDeque;
use zonal_blk::{Sector, Zone, ZoneCondition, ZoneKind};

/// A sequential zone.
#[derive(Clone, Debug)]
struct State {
    start: Sector,
    /// Bytes that can be written.
    capacity: u64,
    /// Bytes reserved.
    reserved: u64,
    /// Bytes reserved and not yet dead.
    live: u64,
    /// Writes in flight.
    pending: u32,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Free,
    Open,
    Full,
    Resetting,
}

/// The zones of a device.
#[derive(Debug)]
pub(super) struct ZoneSpace {
    /// In the order of the device, without read-only and offline zones.
    zones: Vec<State>,
    /// Free zones, in the order in which they are opened.
    free: VecDeque<usize>,
    /// Zones to reset.
    stale: Vec<usize>,
    /// The first contiguous range of conventional zones, in bytes.
    conventional: (u64, u64),
}

impl ZoneSpace {
    /// The zones of a report. Zones that are not empty are reset first.
    pub(super) fn new(report: &[Zone]) -> Self {
        let mut space =
            ZoneSpace { zones: vec![], free: VecDeque::new(), stale: vec![], conventional: (0, 0) };
        for zone in report {
            if zone.kind == ZoneKind::Conventional {
                let (start, end) = (zone.start.to_bytes().0, zone.writable_end().to_bytes().0);
                if space.conventional.1 == start || space.conventional == (0, 0) {
                    let from =
                        if space.conventional == (0, 0) { start } else { space.conventional.0 };
                    space.conventional = (from, end);
                }
                continue;
            }
            let number = space.zones.len();
            let phase = match zone.cond {
                ZoneCondition::Empty => Phase::Free,
                ZoneCondition::ReadOnly | ZoneCondition::Offline => continue,
                _ => Phase::Full,
            };
            if phase == Phase::Free {
                space.free.push_back(number);
            } else {
                space.stale.push(number);
            }
            let capacity = zone.capacity.to_bytes().0;
            let start = zone.start;
            space.zones.push(State { start, capacity, reserved: 0, live: 0, pending: 0, phase });
        }
        space
    }

    /// Start and end of the conventional zones in bytes; empty if there are none.
    pub(super) fn conventional(&self) -> (u64, u64) {
        self.conventional
    }

    /// First sector of a zone.
    pub(super) fn start(&self, zone: usize) -> Sector {
        self.zones[zone].start
    }

    /// Opens the next free zone.
    pub(super) fn open(&mut self) -> Option<usize> {
        let zone = self.free.pop_front()?;
        self.zones[zone].phase = Phase::Open;
        Some(zone)
    }

    /// Whether a zone is being reset or about to be.
    pub(super) fn is_resetting(&self) -> bool {
        !self.stale.is_empty() || self.zones.iter().any(|zone| zone.phase == Phase::Resetting)
    }

    /// Bytes left in a zone.
    pub(super) fn room(&self, zone: usize) -> u64 {
        let State { capacity, reserved, .. } = self.zones[zone];
        capacity - reserved
    }

    /// Whether no write to a zone is in flight.
    pub(super) fn has_no_writes(&self, zone: usize) -> bool {
        self.zones[zone].pending == 0
    }

    /// Reserves room in a zone for a write. Returns its first byte on the disk, provided that writes
    /// arrive in the order of the reservations.
    pub(super) fn reserve(&mut self, zone: usize, bytes: u64) -> u64 {
        let state = &mut self.zones[zone];
        assert!(state.reserved + bytes <= state.capacity, "a reservation fits the zone");
        let place = state.start.to_bytes().0 + state.reserved;
        state.reserved += bytes;
        state.live += bytes;
        state.pending += 1;
        if state.reserved == state.capacity {
            state.phase = Phase::Full;
        }
        place
    }

    /// Reserves room for a file that exists from the start, without a write.
    pub(super) fn lay_out(&mut self, zone: usize, bytes: u64) -> u64 {
        let place = self.reserve(zone, bytes);
        self.zones[zone].pending -= 1;
        place
    }

    /// A write has completed.
    pub(super) fn write_done(&mut self, zone: usize) {
        self.zones[zone].pending -= 1;
        self.check_stale(zone);
    }

    /// Marks bytes as dead.
    pub(super) fn release(&mut self, place: u64, bytes: u64) {
        let start = |zone: &State| zone.start.to_bytes().0;
        let (mut at, end) = (place, place + bytes);
        while at < end {
            // An extent can span adjacent zones.
            let zone = self.zones.partition_point(|zone| start(zone) <= at) - 1;
            let to = end.min(start(&self.zones[zone]) + self.zones[zone].capacity);
            self.zones[zone].live -= to - at;
            self.check_stale(zone);
            at = to;
        }
    }

    fn check_stale(&mut self, zone: usize) {
        let state = &self.zones[zone];
        if state.phase == Phase::Full && state.live == 0 && state.pending == 0 {
            self.stale.push(zone);
        }
    }

    /// The next zone to reset.
    pub(super) fn next_reset(&mut self) -> Option<usize> {
        let zone = self.stale.pop()?;
        self.zones[zone].phase = Phase::Resetting;
        Some(zone)
    }

    /// A zone has been reset.
    pub(super) fn reset_done(&mut self, zone: usize) {
        let state = &mut self.zones[zone];
        (state.phase, state.reserved) = (Phase::Free, 0);
        self.free.push_back(zone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zonal_blk::ZoneAttributes;

    fn zone(number: u64, kind: ZoneKind, cond: ZoneCondition) -> Zone {
        let (start, len) = (Sector(number * 8), Sector(8));
        Zone { start, len, capacity: len, wp: start, kind, cond, attributes: ZoneAttributes::NONE }
    }

    fn space() -> ZoneSpace {
        use ZoneCondition::{Empty, Full, NotWritePointer, Offline};
        ZoneSpace::new(&[
            zone(0, ZoneKind::Conventional, NotWritePointer),
            zone(1, ZoneKind::Conventional, NotWritePointer),
            zone(2, ZoneKind::SequentialRequired, Empty),
            zone(3, ZoneKind::SequentialRequired, Offline),
            zone(4, ZoneKind::SequentialRequired, Full),
        ])
    }

    #[test]
    fn zones_with_data_are_reset_first_and_offline_zones_are_skipped() {
        let mut space = space();
        assert_eq!(space.conventional(), (0, 2 * 4096));
        let first = space.open().expect("an empty zone");
        assert_eq!((space.start(first), space.open()), (Sector(16), None));
        let full = space.next_reset().expect("a full zone");
        assert!(space.is_resetting());
        space.reset_done(full);
        assert_eq!(space.open().map(|zone| space.start(zone)), Some(Sector(32)));
    }

    #[test]
    fn a_zone_is_reset_when_its_data_is_dead_and_its_writes_have_completed() {
        let mut space = space();
        let zone = space.open().expect("an empty zone");
        space.next_reset();
        let (a, b) = (space.reserve(zone, 1024), space.reserve(zone, 3072));
        assert_eq!((a, b, space.room(zone)), (16 * 512, 18 * 512, 0));
        space.write_done(zone);
        space.release(a, 1024);
        space.release(b, 3072);
        assert_eq!(space.next_reset(), None, "a write is in flight");
        space.write_done(zone);
        assert_eq!(space.next_reset(), Some(zone));
    }
}
