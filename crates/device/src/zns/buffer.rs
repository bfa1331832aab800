//! The write buffer: how full it is, and how much of each zone is in it.
//!
//! Writes reserve space in it and fill it; full units leave it to be programmed. Invariants: no
//! more bytes are in use than there are; a unit is programmed once, when all of it has arrived or
//! its zone is full; the units of a zone begin in order.
use super::ZnsConfig;
use std::collections::VecDeque;
use zonal_blk::{Nanos, ZoneNo};

/// A unit that a die programs or will program.
#[derive(Clone, Copy, Debug)]
struct QueuedUnit {
    die: u32,
    bytes: u64,
    programmed: bool,
}

/// The state of a zone in the buffer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ZoneBuffer {
    /// When the zone can take more data.
    pub(super) busy_until: Nanos,
    /// Bytes from the zone's start that have arrived.
    arrived: u64,
    /// The bytes of them that are not padding.
    data: u64,
    /// Bytes of the partial unit that take no space.
    unbuffered: u64,
    /// Units that were sent to the flash.
    sent: u64,
    /// Units that have been programmed.
    programmed: u64,
    /// Units of it that are being programmed or are queued for it, including those from before a reset.
    programming: u32,
    /// Counts resets and finishes: operations from before one do not count after it.
    pub(super) generation: u32,
    /// Has a partial unit that was not saved.
    unsaved: bool,
}

impl ZoneBuffer {
    /// The space that the partial unit takes.
    fn partial_bytes(&self, unit: u64) -> u64 {
        self.arrived.saturating_sub(self.sent * unit + self.unbuffered)
    }
}

/// The write buffer.
#[derive(Debug)]
pub(super) struct Buffer {
    size: u64,
    used: u64,
    /// By group of dies, the units that it programs, in the order in which they were queued; none if
    /// the order does not matter.
    groups: Vec<VecDeque<QueuedUnit>>,
    unit: u64,
    capacity: u64,
    zones: Vec<ZoneBuffer>,
    /// Units of all zones that are being programmed or are queued for it.
    programming: u64,
    /// Zones that may have an unsaved partial unit; kept only if a flush needs them.
    unsaved: Option<Vec<ZoneNo>>,
}

impl Buffer {
    pub(super) fn new(config: &ZnsConfig) -> Self {
        Buffer {
            size: config.buffer.0,
            used: 0,
            groups: vec![VecDeque::new(); config.buffer_groups as usize],
            unit: config.unit().0,
            capacity: config.zone_capacity.0,
            zones: vec![ZoneBuffer::default(); config.zones as usize],
            programming: 0,
            unsaved: (!config.power_safe).then(Vec::new),
        }
    }

    #[inline]
    pub(super) fn zone(&mut self, zone: ZoneNo) -> &mut ZoneBuffer {
        &mut self.zones[zone.index()]
    }

    /// Bytes in use.
    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// All data in flight have arrived, at `now`.
    pub(super) fn drained(&mut self, now: Nanos) {
        for state in &mut self.zones {
            state.busy_until = state.busy_until.min(now);
        }
    }

    /// Reserves space; false if there is not enough.
    #[inline]
    pub(super) fn reserve(&mut self, bytes: u64) -> bool {
        let fits = bytes <= self.size.saturating_sub(self.used);
        if fits {
            self.used += bytes;
        }
        fits
    }

    pub(super) fn release(&mut self, bytes: u64) {
        self.used = self.used.checked_sub(bytes).expect("no more is released than was reserved");
    }

    /// Bytes have arrived in a zone, in reserved space. `send` gets each unit that can be programmed
    /// now, by its number and the bytes that it has in the buffer.
    #[inline(always)]
    pub(super) fn arrive(&mut self, zone: ZoneNo, bytes: u64, mut send: impl FnMut(u64, u64)) {
        let (unit, capacity) = (self.unit, self.capacity);
        let state = &mut self.zones[zone.index()];
        state.arrived += bytes;
        state.data += bytes;
        while state.arrived >= ((state.sent + 1) * unit).min(capacity)
            && state.sent * unit < capacity
        {
            let bytes = unit.min(capacity - state.sent * unit);
            send(state.sent, bytes - std::mem::take(&mut state.unbuffered));
            state.sent += 1;
        }
        let partial = state.arrived > state.sent * unit;
        if let Some(unsaved) = &mut self.unsaved
            && partial
            && !state.unsaved
        {
            unsaved.push(zone);
        }
        state.unsaved = partial;
    }

    /// A unit of a zone with `bytes` in the buffer is queued to be programmed by a die.
    pub(super) fn queued(&mut self, die: u32, zone: ZoneNo, bytes: u64) {
        let state = &mut self.zones[zone.index()];
        self.programming += 1;
        state.programming += 1;
        if let Some(group) = group_of(&mut self.groups, die) {
            group.push_back(QueuedUnit { die, bytes, programmed: false });
        }
    }

    /// A die has programmed a unit of a zone. Its space is free, or will be when that of all units
    /// before it in its group is.
    pub(super) fn programmed(&mut self, die: u32, zone: ZoneNo, bytes: u64, generation: u32) {
        let mut free = bytes;
        if let Some(group) = group_of(&mut self.groups, die) {
            // A die programs its units in order.
            let unit = group.iter_mut().find(|unit| unit.die == die && !unit.programmed);
            unit.expect("the unit was queued").programmed = true;
            free = 0;
            while let Some(unit) = group.pop_front_if(|unit| unit.programmed) {
                free += unit.bytes;
            }
        }
        self.release(free);
        let state = &mut self.zones[zone.index()];
        self.programming -= 1;
        state.programming -= 1;
        if state.generation == generation {
            state.programmed += 1;
        }
    }

    /// Whether other zones have units that are queued or being programmed.
    pub(super) fn others_program(&self, zone: ZoneNo) -> bool {
        self.programming > u64::from(self.zones[zone.index()].programming)
    }

    /// Bytes from the zone's start that are read from the flash: programs are assumed to complete
    /// in order.
    pub(super) fn on_flash(&self, zone: ZoneNo) -> u64 {
        let state = &self.zones[zone.index()];
        (state.programmed * self.unit).min(self.capacity)
    }

    /// Pads the zone to its end. Returns the space that the partial unit takes, and the units to
    /// program, the partial one included.
    pub(super) fn finish(&mut self, zone: ZoneNo) -> (u64, std::ops::Range<u64>) {
        let units = self.capacity.div_ceil(self.unit);
        let state = &mut self.zones[zone.index()];
        // An empty zone has nothing to pad.
        let sent = if state.arrived == 0 { units } else { state.sent };
        let partial = state.partial_bytes(self.unit);
        *state = ZoneBuffer {
            busy_until: state.busy_until,
            arrived: self.capacity,
            data: state.data,
            unbuffered: 0,
            sent: units,
            programmed: units,
            programming: state.programming,
            generation: state.generation.wrapping_add(1),
            unsaved: false,
        };
        (if sent < units { partial } else { 0 }, sent..units)
    }

    /// Bytes of the zone that are not padding, and whether it can take more.
    pub(super) fn written(&self, zone: ZoneNo) -> (u64, bool) {
        let state = &self.zones[zone.index()];
        (state.data, state.arrived < self.capacity)
    }

    /// Empties the zone. Returns the number of units that were sent to the flash.
    pub(super) fn reset(&mut self, zone: ZoneNo) -> u64 {
        let state = &mut self.zones[zone.index()];
        let partial = state.partial_bytes(self.unit);
        let sent = state.sent;
        let generation = state.generation.wrapping_add(1);
        let &mut ZoneBuffer { busy_until, programming, .. } = state;
        *state = ZoneBuffer { busy_until, programming, generation, ..ZoneBuffer::default() };
        self.release(partial);
        sent
    }

    /// Sets a zone to `bytes` written, all of them on the flash but for the partial unit of a
    /// writable zone: the drive has loaded that into the buffer, if there is space.
    pub(super) fn reload_zone(&mut self, zone: ZoneNo, bytes: u64, writable: bool) {
        self.reset(zone);
        let bytes = bytes.min(self.capacity);
        let whole = !writable || bytes == self.capacity;
        let sent = if whole { bytes.div_ceil(self.unit) } else { bytes / self.unit };
        let partial = bytes.saturating_sub(sent * self.unit);
        let unbuffered = if self.reserve(partial) { 0 } else { partial };
        let state = &mut self.zones[zone.index()];
        (state.arrived, state.unbuffered, state.sent, state.programmed) =
            (bytes, unbuffered, sent, sent);
        state.data = bytes;
        state.unsaved = partial > 0;
        if let Some(unsaved) = &mut self.unsaved
            && partial > 0
        {
            unsaved.push(zone);
        }
    }

    /// The partial units that a flush has to save; they count as saved from now on.
    pub(super) fn save(&mut self) -> Vec<(ZoneNo, u64)> {
        let zones = self.unsaved.as_mut().map(std::mem::take).unwrap_or_default();
        let mut units = Vec::new();
        for zone in zones {
            let state = &mut self.zones[zone.index()];
            if std::mem::take(&mut state.unsaved) {
                units.push((zone, state.sent));
            }
        }
        units
    }
}

/// The group of a die.
fn group_of(groups: &mut [VecDeque<QueuedUnit>], die: u32) -> Option<&mut VecDeque<QueuedUnit>> {
    let nr_groups = groups.len();
    (nr_groups > 0).then(|| &mut groups[die as usize % nr_groups])
}

#[cfg(test)]
mod tests {
    use super::*;
    use zonal_blk::Bytes;

    const ZONE: ZoneNo = ZoneNo(0);
    const DIE: u32 = 0;

    /// Units of 8 KiB, a zone capacity of two and a half units, a buffer of four.
    fn buffer() -> Buffer {
        Buffer::new(&ZnsConfig {
            zones: 2,
            zone_capacity: Bytes(20 << 10),
            planes: 1,
            page: Bytes(8 << 10),
            cell_pages: 1,
            buffer: Bytes(32 << 10),
            power_safe: false,
            ..ZnsConfig::default()
        })
    }

    fn arrive(buffer: &mut Buffer, kib: u64) -> Vec<(u64, u64)> {
        assert!(buffer.reserve(kib << 10));
        let mut sent = Vec::new();
        buffer.arrive(ZONE, kib << 10, |unit, bytes| sent.push((unit, bytes >> 10)));
        sent
    }

    #[test]
    fn units_are_sent_once_when_they_are_full_and_the_last_with_the_zone() {
        let mut buffer = buffer();
        assert_eq!(arrive(&mut buffer, 4), []);
        assert_eq!(arrive(&mut buffer, 4), [(0, 8)]);
        assert_eq!(arrive(&mut buffer, 12), [(1, 8), (2, 4)]);
        assert_eq!(buffer.on_flash(ZONE), 0);
        for bytes in [8, 8, 4] {
            buffer.queued(DIE, ZONE, bytes << 10);
            buffer.programmed(DIE, ZONE, bytes << 10, 0);
        }
        assert_eq!((buffer.used(), buffer.on_flash(ZONE)), (0, 20 << 10));
    }

    #[test]
    fn groups_of_dies_free_their_units_in_order() {
        let mut buffer = Buffer { groups: vec![VecDeque::new(); 2], ..buffer() };
        assert!(buffer.reserve(32 << 10));
        for die in 0..4 {
            buffer.queued(die, ZONE, 8 << 10);
        }
        let mut used = |die| {
            buffer.programmed(die, ZONE, 8 << 10, 0);
            buffer.used() >> 10
        };
        assert_eq!(used(2), 32, "the unit of die 0 is before it");
        assert_eq!(used(1), 24, "another group");
        assert_eq!(used(0), 8);
        assert_eq!(used(3), 0);
    }

    #[test]
    fn reservation_beyond_the_size_fails() {
        let mut buffer = buffer();
        assert!(buffer.reserve(30 << 10));
        assert!(!buffer.reserve(4 << 10));
        assert!(buffer.reserve(2 << 10));
    }

    #[test]
    fn reset_releases_the_partial_unit_and_ignores_programs_in_flight() {
        let mut buffer = buffer();
        arrive(&mut buffer, 12);
        assert_eq!(buffer.reset(ZONE), 1);
        assert_eq!(buffer.used(), 8 << 10, "it is being programmed");
        buffer.queued(DIE, ZONE, 8 << 10);
        assert!(buffer.others_program(ZoneNo(1)) && !buffer.others_program(ZONE));
        buffer.programmed(DIE, ZONE, 8 << 10, 0);
        assert_eq!((buffer.used(), buffer.on_flash(ZONE)), (0, 0));
    }

    #[test]
    fn finish_returns_the_units_that_were_not_sent() {
        let mut buffer = buffer();
        arrive(&mut buffer, 12);
        assert_eq!(buffer.finish(ZONE), (4 << 10, 1..3));
        assert_eq!(buffer.finish(ZONE), (0, 3..3));
    }

    #[test]
    fn partial_unit_without_space_is_programmed_when_the_rest_has_arrived() {
        let mut buffer = buffer();
        assert!(buffer.reserve(24 << 10));
        buffer.reload_zone(ZONE, 14 << 10, true);
        buffer.reload_zone(ZoneNo(1), 14 << 10, true);
        assert_eq!(buffer.used(), 30 << 10, "there is space for one of them");
        let mut sent = Vec::new();
        assert!(buffer.reserve(2 << 10));
        buffer.arrive(ZoneNo(1), 2 << 10, |unit, bytes| sent.push((unit, bytes)));
        assert_eq!(sent, [(1, 2 << 10)]);
        buffer.queued(DIE, ZoneNo(1), 2 << 10);
        buffer.programmed(DIE, ZoneNo(1), 2 << 10, 1);
        assert_eq!((buffer.used(), buffer.on_flash(ZoneNo(1))), (30 << 10, 16 << 10));
        buffer.reload_zone(ZoneNo(1), 2 << 10, true);
        assert_eq!(buffer.finish(ZoneNo(1)), (2 << 10, 0..3));
        buffer.release(2 << 10);
        assert!(buffer.reserve(2 << 10));
        buffer.reload_zone(ZoneNo(1), 2 << 10, true);
        assert_eq!(buffer.finish(ZoneNo(1)), (0, 0..3), "the unit has no space to release");
        buffer.reload_zone(ZoneNo(1), 2 << 10, true);
        buffer.reset(ZoneNo(1));
        assert_eq!(buffer.used(), 32 << 10);
    }

    #[test]
    fn zone_that_cannot_be_written_takes_no_space() {
        let mut buffer = buffer();
        buffer.reload_zone(ZONE, 14 << 10, false);
        assert_eq!((buffer.used(), buffer.on_flash(ZONE)), (0, 16 << 10));
        buffer.reload_zone(ZONE, 20 << 10, true);
        assert_eq!((buffer.used(), buffer.on_flash(ZONE)), (0, 20 << 10));
    }

    #[test]
    fn partial_units_are_saved_once_unless_they_grow() {
        let mut buffer = buffer();
        arrive(&mut buffer, 4);
        assert_eq!(buffer.save(), [(ZONE, 0)]);
        assert_eq!(buffer.save(), []);
        arrive(&mut buffer, 2);
        assert_eq!(buffer.save(), [(ZONE, 0)]);
        arrive(&mut buffer, 4);
        assert_eq!(buffer.save(), [(ZONE, 1)]);
    }
}
