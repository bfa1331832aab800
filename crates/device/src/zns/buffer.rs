//! The write buffer: how full it is, and which zones have how much in it.
//!
//! Takes room for writes, and the data of writes that have ended; gives units to program. Keeps
//! true: never more bytes in use than there are; a unit is programmed once, when all of it has
//! arrived or its zone is full; the units of a zone begin in order.
use super::ZnsConfig;
use zonal_blk::{Nanos, ZoneNo};

/// What the buffer knows of a zone.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ZoneBuffer {
    /// The zone takes no more data before.
    pub(super) busy_until: Nanos,
    /// Bytes from the zone's start that have arrived.
    arrived: u64,
    /// Bytes of the unit in part that take no room.
    unbuffered: u64,
    /// Units that were given to the flash.
    sent: u64,
    /// Units that are programmed.
    programmed: u64,
    /// Counts resets and finishes: what began before one does not count after it.
    pub(super) generation: u32,
    /// Has a unit in part that was not saved.
    unsaved: bool,
}

impl ZoneBuffer {
    /// The room that the unit in part takes.
    fn room(&self, unit: u64) -> u64 {
        self.arrived.saturating_sub(self.sent * unit + self.unbuffered)
    }
}

/// The write buffer.
#[derive(Debug)]
pub(super) struct Buffer {
    size: u64,
    used: u64,
    unit: u64,
    capacity: u64,
    zones: Vec<ZoneBuffer>,
    /// Zones that may have something unsaved; kept only if a flush asks for them.
    unsaved: Option<Vec<ZoneNo>>,
}

impl Buffer {
    pub(super) fn new(config: &ZnsConfig) -> Self {
        Buffer {
            size: config.buffer.0,
            used: 0,
            unit: config.unit().0,
            capacity: config.zone_capacity.0,
            zones: vec![ZoneBuffer::default(); config.zones as usize],
            unsaved: (!config.power_safe).then(Vec::new),
        }
    }

    pub(super) fn zone(&mut self, zone: ZoneNo) -> &mut ZoneBuffer {
        &mut self.zones[zone.index()]
    }

    /// Bytes in use.
    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// All that was on its way has arrived by `now`.
    pub(super) fn drained(&mut self, now: Nanos) {
        for state in &mut self.zones {
            state.busy_until = state.busy_until.min(now);
        }
    }

    /// Takes room if there is some.
    pub(super) fn reserve(&mut self, bytes: u64) -> bool {
        let fits = bytes <= self.size.saturating_sub(self.used);
        if fits {
            self.used += bytes;
        }
        fits
    }

    pub(super) fn release(&mut self, bytes: u64) {
        self.used = self.used.checked_sub(bytes).expect("no more is given back than was taken");
    }

    /// Bytes have arrived in a zone, in room that was reserved. Each unit that can now be
    /// programmed is shown to `send` with its number and the bytes of room that it takes.
    pub(super) fn arrive(&mut self, zone: ZoneNo, bytes: u64, mut send: impl FnMut(u64, u64)) {
        let (unit, capacity) = (self.unit, self.capacity);
        let state = &mut self.zones[zone.index()];
        state.arrived += bytes;
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

    /// A unit of a zone is programmed.
    pub(super) fn programmed(&mut self, zone: ZoneNo, bytes: u64, generation: u32) {
        self.release(bytes);
        let state = &mut self.zones[zone.index()];
        if state.generation == generation {
            state.programmed += 1;
        }
    }

    /// Bytes from the zone's start that are read from the flash: programs are taken to end in
    /// order.
    pub(super) fn on_flash(&self, zone: ZoneNo) -> u64 {
        let state = &self.zones[zone.index()];
        (state.programmed * self.unit).min(self.capacity)
    }

    /// The zone is filled with padding. Gives the room that a last unit of data in part takes, and
    /// the units to program, that one included.
    pub(super) fn finish(&mut self, zone: ZoneNo) -> (u64, std::ops::Range<u64>) {
        let units = self.capacity.div_ceil(self.unit);
        let state = &mut self.zones[zone.index()];
        let sent = state.sent;
        let partial = state.room(self.unit);
        *state = ZoneBuffer {
            busy_until: state.busy_until,
            arrived: self.capacity,
            unbuffered: 0,
            sent: units,
            programmed: units,
            generation: state.generation.wrapping_add(1),
            unsaved: false,
        };
        (if sent < units { partial } else { 0 }, sent..units)
    }

    /// The zone is empty again. Gives the units that were given to the flash.
    pub(super) fn reset(&mut self, zone: ZoneNo) -> u64 {
        let state = &mut self.zones[zone.index()];
        let partial = state.room(self.unit);
        let sent = state.sent;
        let generation = state.generation.wrapping_add(1);
        *state = ZoneBuffer { busy_until: state.busy_until, generation, ..ZoneBuffer::default() };
        self.release(partial);
        sent
    }

    /// So many bytes of a zone are there, all of them on the flash, but for the last unit in part of
    /// a zone that can be written: that counts as in the buffer, where the drive has put it back, as
    /// far as there is room.
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
        state.unsaved = partial > 0;
        if let Some(unsaved) = &mut self.unsaved
            && partial > 0
        {
            unsaved.push(zone);
        }
    }

    /// The units in part that a flush has to save, and that from now on count as saved.
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

#[cfg(test)]
mod tests {
    use super::*;
    use zonal_blk::Bytes;

    const ZONE: ZoneNo = ZoneNo(0);

    /// Units of 8 KiB, a capacity of two and a half, room for four.
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
            buffer.programmed(ZONE, bytes << 10, 0);
        }
        assert_eq!((buffer.used(), buffer.on_flash(ZONE)), (0, 20 << 10));
    }

    #[test]
    fn room_is_refused_beyond_the_size() {
        let mut buffer = buffer();
        assert!(buffer.reserve(30 << 10));
        assert!(!buffer.reserve(4 << 10));
        assert!(buffer.reserve(2 << 10));
    }

    #[test]
    fn reset_gives_back_the_unit_in_part_and_forgets_programs_under_way() {
        let mut buffer = buffer();
        arrive(&mut buffer, 12);
        assert_eq!(buffer.reset(ZONE), 1);
        assert_eq!(buffer.used(), 8 << 10, "it is being programmed");
        buffer.programmed(ZONE, 8 << 10, 0);
        assert_eq!((buffer.used(), buffer.on_flash(ZONE)), (0, 0));
    }

    #[test]
    fn finish_leaves_the_units_that_were_not_sent_to_program() {
        let mut buffer = buffer();
        arrive(&mut buffer, 12);
        assert_eq!(buffer.finish(ZONE), (4 << 10, 1..3));
        assert_eq!(buffer.finish(ZONE), (0, 3..3));
    }

    #[test]
    fn unit_in_part_that_finds_no_room_is_programmed_when_the_rest_has_come() {
        let mut buffer = buffer();
        assert!(buffer.reserve(24 << 10));
        buffer.reload_zone(ZONE, 14 << 10, true);
        buffer.reload_zone(ZoneNo(1), 14 << 10, true);
        assert_eq!(buffer.used(), 30 << 10, "there is room for one of them");
        let mut sent = Vec::new();
        assert!(buffer.reserve(2 << 10));
        buffer.arrive(ZoneNo(1), 2 << 10, |unit, bytes| sent.push((unit, bytes)));
        assert_eq!(sent, [(1, 2 << 10)]);
        buffer.programmed(ZoneNo(1), 2 << 10, 1);
        assert_eq!((buffer.used(), buffer.on_flash(ZoneNo(1))), (30 << 10, 16 << 10));
        buffer.reload_zone(ZoneNo(1), 2 << 10, true);
        assert_eq!(buffer.finish(ZoneNo(1)), (2 << 10, 0..3));
        buffer.release(2 << 10);
        assert!(buffer.reserve(2 << 10));
        buffer.reload_zone(ZoneNo(1), 2 << 10, true);
        assert_eq!(buffer.finish(ZoneNo(1)), (0, 0..3), "the unit has no room to give back");
        buffer.reload_zone(ZoneNo(1), 2 << 10, true);
        buffer.reset(ZoneNo(1));
        assert_eq!(buffer.used(), 32 << 10);
    }

    #[test]
    fn zone_that_cannot_be_written_takes_no_room() {
        let mut buffer = buffer();
        buffer.reload_zone(ZONE, 14 << 10, false);
        assert_eq!((buffer.used(), buffer.on_flash(ZONE)), (0, 16 << 10));
        buffer.reload_zone(ZONE, 20 << 10, true);
        assert_eq!((buffer.used(), buffer.on_flash(ZONE)), (0, 20 << 10));
    }

    #[test]
    fn units_in_part_are_saved_once_unless_they_grow() {
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
