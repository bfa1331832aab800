//! The end of a zone's data: what is there, what is on its way, what has to be made durable.
//!
//! Takes writes as they are accepted and as they end; gives what a record may say of the zone.
//! Keeps true: the writes of a zone end in the order of their places, each when all before it have;
//! behind one that failed, all fail, and then the zone's write pointer goes back to where its data
//! end. So data are without holes at all times.
use super::entry::{CoveredData, ZoneEntry};
use super::superblock::ImageGeometry;
use std::collections::VecDeque;
use zonal_blk::{Sector, Status, ZoneCondition};

/// Unflushed bytes of a zone beyond which no checksum is kept: the data are then synchronised
/// before the record.
const MAX_COVERED: Sector = Sector(1 << 11);

/// A write on its way, from the end of the one before.
struct InFlightWrite {
    end: Sector,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Moving,
    Landed,
    Failed,
}

/// The end of a zone's data. Positions are sectors from the zone's start.
pub(super) struct Tail {
    /// Which slot of the file has the zone.
    pub(super) slot: Option<u32>,
    /// Where the data end that are in the file.
    pub(super) done: Sector,
    /// Up to where space was taken for it.
    pub(super) reserved: Sector,
    /// Was made full by a command.
    pub(super) finished: bool,
    /// Has changed since it was last recorded, and is on the list of those that have.
    pub(super) dirty: bool,
    /// Read-only or offline.
    fixed: Option<ZoneCondition>,
    /// A write failed; those behind it have not ended yet.
    broken: bool,
    in_flight: VecDeque<InFlightWrite>,
    /// Where the data begin that the checksum is of.
    from: Sector,
    /// The checksum of all that was accepted since, if one is kept.
    crc: Option<u32>,
}

impl Tail {
    pub(super) fn new(entry: &ZoneEntry) -> Self {
        use ZoneCondition::{Full, Offline, ReadOnly};
        Tail {
            slot: entry.slot,
            done: entry.written,
            reserved: entry.written,
            finished: entry.cond == Full,
            dirty: false,
            fixed: Some(entry.cond).filter(|cond| matches!(cond, Offline | ReadOnly)),
            broken: false,
            in_flight: VecDeque::new(),
            from: entry.written,
            crc: Some(0),
        }
    }

    /// Whether writes are on their way.
    pub(super) fn is_busy(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Whether a write failed and those behind it have not ended.
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    /// A write up to `end` was accepted. `data` shows its buffers, if a checksum is worth it.
    pub(super) fn accept(&mut self, end: Sector, data: impl FnOnce(&mut dyn FnMut(&[u8]))) {
        if end - self.from > MAX_COVERED {
            self.crc = None;
        }
        if let Some(crc) = &mut self.crc {
            data(&mut |bytes| *crc = crc32c::crc32c_append(*crc, bytes));
        }
        self.in_flight.push_back(InFlightWrite { end, state: State::Moving });
    }

    /// The write up to `end` is in the file, or failed.
    pub(super) fn landed(&mut self, end: Sector, ok: bool) {
        let write = self.in_flight.iter_mut().find(|write| write.end == end);
        write.expect("what lands was accepted").state =
            if ok { State::Landed } else { State::Failed };
    }

    /// Ends the write up to `end`, which has landed; `None` while one before it has not ended.
    pub(super) fn end(&mut self, end: Sector) -> Option<Status> {
        let first = self.in_flight.front().expect("the write has not ended");
        if first.end != end {
            return None;
        }
        self.broken |= first.state == State::Failed;
        self.in_flight.pop_front();
        if self.broken {
            // The checksum is of data that are not there.
            self.crc = None;
            return Some(Status::IoError);
        }
        self.done = end;
        Some(Status::Ok)
    }

    /// Whether the failure is over: all that were behind have failed too. Then the write pointer
    /// belongs at `done`.
    pub(super) fn finish_failure(&mut self) -> bool {
        self.broken && self.in_flight.is_empty() && {
            self.broken = false;
            true
        }
    }

    /// The zone is empty, and what it had is of no use.
    pub(super) fn empty(&mut self) {
        self.done = Sector(0);
        self.reserved = Sector(0);
        self.finished = false;
        self.rebase();
    }

    fn rebase(&mut self) {
        self.from = self.done;
        // What is on its way went into the old checksum.
        self.crc = self.in_flight.is_empty().then_some(0);
    }

    fn condition(&self, conventional: bool, geometry: &ImageGeometry) -> ZoneCondition {
        match self.fixed {
            Some(cond) => cond,
            None if conventional => ZoneCondition::NotWritePointer,
            None if self.finished || self.done == geometry.zone_capacity => ZoneCondition::Full,
            None if self.done > Sector(0) => ZoneCondition::Closed,
            None => ZoneCondition::Empty,
        }
    }

    /// What can be said of the zone now, without vouching for data.
    pub(super) fn describe(&self, durable: &ZoneEntry, geometry: &ImageGeometry) -> ZoneEntry {
        let conventional = durable.zone.0 < geometry.conventional;
        ZoneEntry {
            zone: durable.zone,
            cond: self.condition(conventional, geometry),
            slot: self.slot,
            written: self.done,
            covered: None,
        }
    }

    /// The record that makes the zone durable as it is; the next one goes on from here. `None` if
    /// what is durable says so already.
    pub(super) fn record(
        &mut self,
        durable: &ZoneEntry,
        geometry: &ImageGeometry,
    ) -> Option<ZoneEntry> {
        self.dirty = false;
        let entry = self.describe(durable, geometry);
        let covers = entry.written > durable.written && self.from == durable.written;
        // The checksum of what was accepted is that of what is done only if nothing is on its way.
        let crc = self.crc.filter(|_| covers && !self.is_busy());
        let covered = crc.map(|crc| CoveredData { from: self.from, crc });
        self.rebase();
        (entry != *durable).then_some(ZoneEntry { covered, ..entry })
    }
}
