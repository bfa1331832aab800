//! The end of a zone's data: what is in the file, what is in flight, what has to be made durable.
//!
//! The writes of a zone complete in the order of their addresses. After one that failed all later
//! ones fail, and then the zone's write pointer moves back to the end of its data. So a zone's data
//! never have holes.
use super::block::{CoveredData, MAX_COVERED, NO_SLOT, ZoneEntry, crc32c_append};
use super::ends::{ZoneEnd, fold};
use super::geometry::ImageGeometry;
use std::collections::VecDeque;
use std::ops::Range;
use zonal_blk::{Sector, Status, ZoneCondition, ZoneNo};

/// A write in flight, from the end of the one before.
struct InFlightWrite {
    end: Sector,
    state: State,
    /// Its data are under the checksum, if one is kept.
    covered: bool,
    /// The sum of its blocks.
    sum: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    InFlight,
    Written,
    Failed,
}

/// The end of a zone's data. Positions are sectors from the zone's start.
pub(super) struct ZoneTail {
    /// The zone's slot of the file.
    pub(super) slot: Option<u32>,
    /// The end of the data in the file.
    pub(super) done: Sector,
    /// Up to where space is reserved.
    pub(super) reserved: Sector,
    /// Up to where that space was written: a write there changes none of the file's metadata.
    pub(super) prepared: Sector,
    /// Whether all of its space was written, and is kept.
    preallocated: bool,
    /// Was finished by a command.
    pub(super) finished: bool,
    /// Has changed since its last entry, and is on the list of changed zones.
    pub(super) dirty: bool,
    /// Read-only or offline.
    fixed: Option<ZoneCondition>,
    /// A write failed; later ones have not completed yet.
    broken: bool,
    in_flight: VecDeque<InFlightWrite>,
    /// The start of the data under the checksum.
    from: Sector,
    /// The checksum of the accepted data that were covered from there on, if one is kept.
    crc: Option<u32>,
    /// In a conventional zone with checksums: ranges that are being overwritten.
    overwriting: Vec<Range<Sector>>,
    /// Counts how often the end has moved back, if the image keeps ends.
    epoch: u16,
    /// Was opened by a command.
    pub(super) explicit: bool,
    /// The sum of the blocks from `base`, which is durable, to `done`.
    base: Sector,
    sum: u64,
    /// `done` and `sum` at the last record.
    recorded: (Sector, u64),
    /// Number of the next end of this session.
    turn: u8,
}

impl ZoneTail {
    /// The tail of a zone that is as its entry says; `preallocated` if all of its space was written.
    pub(super) fn new(entry: &ZoneEntry, preallocated: bool) -> Self {
        use ZoneCondition::{Full, Offline, ReadOnly};
        let space = if preallocated { Sector(u64::MAX) } else { entry.written };
        ZoneTail {
            slot: entry.slot,
            done: entry.written,
            reserved: space,
            prepared: space,
            preallocated,
            finished: entry.cond == Full,
            dirty: false,
            fixed: Some(entry.cond).filter(|cond| matches!(cond, Offline | ReadOnly)),
            broken: false,
            in_flight: VecDeque::new(),
            from: entry.written,
            crc: Some(0),
            overwriting: Vec::new(),
            epoch: entry.epoch,
            explicit: false,
            base: entry.written,
            sum: 0,
            recorded: (entry.written, 0),
            turn: 0,
        }
    }

    /// Whether a part of a range is being overwritten.
    pub(super) fn overlaps(&self, range: &Range<Sector>) -> bool {
        self.overwriting.iter().any(|other| range.start < other.end && other.start < range.end)
    }

    /// A range is going to be overwritten; no part of it is.
    pub(super) fn begin_overwrite(&mut self, range: Range<Sector>) {
        self.overwriting.push(range);
    }

    /// A range was overwritten.
    pub(super) fn end_overwrite(&mut self, range: &Range<Sector>) {
        self.overwriting.retain(|other| other != range);
    }

    /// Whether an entry says where the data of this zone end, which is `zone`.
    pub(super) fn is_at(&self, zone: ZoneNo, entry: &ZoneEntry) -> bool {
        entry.zone == zone && entry.written == self.done
    }

    /// Whether writes are in flight.
    pub(super) fn is_busy(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Whether a write failed and later ones have not completed.
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    /// A write up to `end` was accepted.
    pub(super) fn accept(&mut self, end: Sector) {
        if end - self.from > MAX_COVERED {
            self.crc = None;
        }
        self.in_flight.push_back(InFlightWrite {
            end,
            state: State::InFlight,
            covered: false,
            sum: 0,
        });
    }

    /// Puts the data of the write up to `end`, which is in flight, under the checksum, if one is kept.
    /// `data` passes on what the checksum is of: the checksums of its blocks, or its buffers in an
    /// image without those.
    pub(super) fn cover(&mut self, end: Sector, data: impl FnOnce(&mut dyn FnMut(&[u8]))) {
        match self.in_flight.iter_mut().find(|write| !write.covered) {
            Some(write) if write.end == end => write.covered = true,
            // Another queue's thread has yet to cover the write before it.
            _ => self.crc = None,
        }
        if let Some(crc) = &mut self.crc {
            data(&mut |bytes| *crc = crc32c_append(*crc, bytes));
        }
    }

    /// The blocks of the write up to `end`, which is in flight, have this sum.
    pub(super) fn set_sum(&mut self, end: Sector, sum: u64) {
        let write = self.in_flight.iter_mut().find(|write| write.end == end);
        write.expect("the write was accepted").sum = sum;
    }

    /// The end to be stored, and its number.
    pub(super) fn next_end(&mut self) -> (u8, ZoneEnd) {
        let turn = self.turn;
        self.turn = turn.wrapping_add(1);
        let end = ZoneEnd {
            slot: self.slot.unwrap_or(NO_SLOT),
            epoch: self.epoch,
            explicit: self.explicit,
            end: self.done,
            from: self.base,
            sum: fold(self.sum),
        };
        (turn, end)
    }

    /// Whether no write after `end` was accepted.
    pub(super) fn is_last(&self, end: Sector) -> bool {
        self.in_flight.back().is_none_or(|last| last.end == end)
    }

    /// The write up to `end` is in the file, or failed.
    pub(super) fn written(&mut self, end: Sector, ok: bool) {
        let write = self.in_flight.iter_mut().find(|write| write.end == end);
        write.expect("the write was accepted").state =
            if ok { State::Written } else { State::Failed };
    }

    /// Completes the write up to `end`, which is in the file or failed; `None` while an earlier one is
    /// in flight.
    pub(super) fn complete(&mut self, end: Sector) -> Option<Status> {
        let first = self.in_flight.front().expect("the write is in flight");
        if first.end != end {
            return None;
        }
        self.broken |= first.state == State::Failed;
        let sum = first.sum;
        self.in_flight.pop_front();
        if self.broken {
            // The checksum covers data that are not there.
            self.crc = None;
            return Some(Status::IoError);
        }
        self.done = end;
        self.sum = self.sum.wrapping_add(sum);
        Some(Status::Ok)
    }

    /// Whether all writes after a failed one have failed too; the write pointer belongs at `done`
    /// then.
    pub(super) fn finish_failure(&mut self) -> bool {
        self.broken && self.in_flight.is_empty() && {
            self.broken = false;
            true
        }
    }

    /// The zone was reset. `epochs`: the image keeps ends.
    pub(super) fn empty(&mut self, epochs: bool) {
        self.explicit = false;
        self.shorten(Sector(0), epochs);
    }

    /// The zone's data end at `end` now, which is no later than before.
    pub(super) fn shorten(&mut self, end: Sector, epochs: bool) {
        if epochs && (end < self.done || self.finished) {
            self.epoch = self.epoch.wrapping_add(1);
        }
        (self.base, self.sum, self.recorded) = (end, 0, (end, 0));
        self.done = end;
        if !self.preallocated {
            self.reserved = end;
            self.prepared = end;
        }
        self.finished = false;
        self.rebase();
    }

    fn rebase(&mut self) {
        self.from = self.done;
        // Data in flight are under the old checksum.
        self.crc = self.in_flight.is_empty().then_some(0);
    }

    /// The entry of a flush that follows when all writes in flight have succeeded and no other has
    /// begun, if it will cover all data that are not durable.
    pub(super) fn foresee(
        &self,
        durable: &ZoneEntry,
        geometry: &ImageGeometry,
    ) -> Option<ZoneEntry> {
        let end = self.in_flight.back()?.end;
        let known =
            self.in_flight.iter().all(|write| write.covered && write.state != State::Failed);
        if !known || self.broken || self.finished || self.from != durable.written {
            return None;
        }
        let covered = CoveredData { from: self.from, crc: self.crc? };
        let cond = self.condition_at(end, false, geometry);
        let entry = ZoneEntry {
            zone: durable.zone,
            cond,
            slot: self.slot,
            written: end,
            epoch: self.epoch,
            covered: Some(covered),
        };
        (entry.covered_len() <= MAX_COVERED).then_some(entry)
    }

    fn condition(&self, conventional: bool, geometry: &ImageGeometry) -> ZoneCondition {
        self.condition_at(self.done, conventional, geometry)
    }

    /// The condition of the zone when its data end at `end`.
    fn condition_at(
        &self,
        end: Sector,
        conventional: bool,
        geometry: &ImageGeometry,
    ) -> ZoneCondition {
        match self.fixed {
            Some(cond) => cond,
            None if conventional => ZoneCondition::NotWritePointer,
            None if self.finished || end == geometry.zone_capacity => ZoneCondition::Full,
            None if end > Sector(0) => ZoneCondition::Closed,
            None => ZoneCondition::Empty,
        }
    }

    /// The zone's state now, covering no data.
    pub(super) fn describe(&self, durable: &ZoneEntry, geometry: &ImageGeometry) -> ZoneEntry {
        let conventional = durable.zone.0 < geometry.conventional;
        ZoneEntry {
            zone: durable.zone,
            cond: self.condition(conventional, geometry),
            slot: self.slot,
            written: self.done,
            epoch: self.epoch,
            covered: None,
        }
    }

    /// The entry that makes the zone durable as it is; the next one continues from here. `None` if
    /// the durable state is the same.
    pub(super) fn record(
        &mut self,
        durable: &ZoneEntry,
        geometry: &ImageGeometry,
    ) -> Option<ZoneEntry> {
        self.dirty = false;
        // What was recorded before is durable: otherwise the journal has failed.
        self.base = self.recorded.0;
        self.sum = self.sum.wrapping_sub(self.recorded.1);
        self.recorded = (self.done, self.sum);
        let entry = self.describe(durable, geometry);
        let covers = entry.written > durable.written && self.from == durable.written;
        // The checksum of accepted data is that of the data in the file only if none are in flight.
        let crc = self.crc.filter(|_| covers && !self.is_busy());
        let covered = crc.map(|crc| CoveredData { from: self.from, crc });
        self.rebase();
        (entry != *durable).then_some(ZoneEntry { covered, ..entry })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The range that the entry covers after two writes that were covered in this order.
    fn covered(order: [u64; 2]) -> Option<CoveredData> {
        let geometry = ImageGeometry::simple(1, 0, Sector(64));
        let durable = ZoneEntry::new(ZoneNo(0), &geometry);
        let mut tail = ZoneTail::new(&durable, false);
        tail.accept(Sector(8));
        tail.accept(Sector(16));
        assert!(tail.is_last(Sector(16)) && !tail.is_last(Sector(8)));
        for end in order {
            tail.cover(Sector(end), |crc| crc(&[u8::try_from(end).unwrap()]));
        }
        for end in [8, 16].map(Sector) {
            tail.written(end, true);
            assert_eq!(tail.complete(end), Some(Status::Ok));
        }
        tail.record(&durable, &geometry).expect("it has changed").covered
    }

    #[test]
    fn an_entry_covers_writes_only_if_their_checksums_came_in_their_order() {
        let in_order = CoveredData { from: Sector(0), crc: crc_fast::crc32_iscsi(&[8, 16]) };
        assert_eq!(covered([8, 16]), Some(in_order));
        assert_eq!(covered([16, 8]), None);
    }
}
