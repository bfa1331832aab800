//! The end of a zone's data: what is there, what is on its way, what has to be made durable.
//!
//! Takes writes as they are accepted and as they end; gives what a record may say of the zone.
//! Keeps true: the writes of a zone end in the order of their places, each when all before it have;
//! behind one that failed, all fail, and then the zone's write pointer goes back to where its data
//! end. So data are without holes at all times.
use super::entry::{Covered, Entry};
use super::superblock::Shape;
use std::collections::VecDeque;
use zonal_blk::{Sector, Status, ZoneCondition};

/// Unflushed bytes of a zone beyond which no checksum is kept: the data are then synchronised
/// before the record.
const MOST_COVERED: Sector = Sector(1 << 11);

/// A write on its way, from the end of the one before.
struct Flight {
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
    flights: VecDeque<Flight>,
    /// Where the data begin that the checksum is of.
    from: Sector,
    /// The checksum of all that was accepted since, if one is kept.
    crc: Option<u32>,
}

impl Tail {
    pub(super) fn new(entry: &Entry) -> Self {
        use ZoneCondition::{Full, Offline, ReadOnly};
        Tail {
            slot: entry.slot,
            done: entry.written,
            reserved: entry.written,
            finished: entry.cond == Full,
            dirty: false,
            fixed: Some(entry.cond).filter(|cond| matches!(cond, Offline | ReadOnly)),
            broken: false,
            flights: VecDeque::new(),
            from: entry.written,
            crc: Some(0),
        }
    }

    /// Whether writes are on their way.
    pub(super) fn is_busy(&self) -> bool {
        !self.flights.is_empty()
    }

    /// Whether a write failed and those behind it have not ended.
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    /// A write up to `end` was accepted. `data` shows its buffers, if a checksum is worth it.
    pub(super) fn accept(&mut self, end: Sector, data: impl FnOnce(&mut dyn FnMut(&[u8]))) {
        if end - self.from > MOST_COVERED {
            self.crc = None;
        }
        if let Some(crc) = &mut self.crc {
            data(&mut |bytes| *crc = crc32c::crc32c_append(*crc, bytes));
        }
        self.flights.push_back(Flight { end, state: State::Moving });
    }

    /// The write up to `end` is in the file, or failed.
    pub(super) fn landed(&mut self, end: Sector, ok: bool) {
        let flight = self.flights.iter_mut().find(|flight| flight.end == end);
        flight.expect("what lands was accepted").state =
            if ok { State::Landed } else { State::Failed };
    }

    /// Ends the write up to `end`, which has landed; `None` while one before it has not ended.
    pub(super) fn end(&mut self, end: Sector) -> Option<Status> {
        let first = self.flights.front().expect("the write has not ended");
        if first.end != end {
            return None;
        }
        self.broken |= first.state == State::Failed;
        self.flights.pop_front();
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
    pub(super) fn mend(&mut self) -> bool {
        self.broken && self.flights.is_empty() && {
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
        self.crc = self.flights.is_empty().then_some(0);
    }

    fn condition(&self, conventional: bool, shape: &Shape) -> ZoneCondition {
        match self.fixed {
            Some(cond) => cond,
            None if conventional => ZoneCondition::NotWritePointer,
            None if self.finished || self.done == shape.zone_capacity => ZoneCondition::Full,
            None if self.done > Sector(0) => ZoneCondition::Closed,
            None => ZoneCondition::Empty,
        }
    }

    /// What can be said of the zone now, without vouching for data.
    pub(super) fn describe(&self, durable: &Entry, shape: &Shape) -> Entry {
        let conventional = durable.zone.0 < shape.conventional;
        Entry {
            zone: durable.zone,
            cond: self.condition(conventional, shape),
            slot: self.slot,
            written: self.done,
            covered: None,
        }
    }

    /// The record that makes the zone durable as it is; the next one goes on from here. `None` if
    /// what is durable says so already.
    pub(super) fn record(&mut self, durable: &Entry, shape: &Shape) -> Option<Entry> {
        self.dirty = false;
        let entry = self.describe(durable, shape);
        let covers = entry.written > durable.written && self.from == durable.written;
        // The checksum of what was accepted is that of what is done only if nothing is on its way.
        let crc = self.crc.filter(|_| covers && !self.is_busy());
        let covered = crc.map(|crc| Covered { from: self.from, crc });
        self.rebase();
        (entry != *durable).then_some(Entry { covered, ..entry })
    }
}
