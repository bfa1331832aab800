//! Which blocks of a device hold which write of a clone.
//!
//! Completed writes are inserted, and popped for verification. Records do not overlap: as in fio, a block that
//! is partly overwritten is removed. A record takes 16 bytes in an ordered map.
//!
//! They are popped in order of sectors, each block once, or in the order in which the writes were submitted, which
//! takes 16 bytes more: then a block that has been written again is read as often as it was written, as in fio.
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// A completed write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// First sector.
    pub sector: u64,
    /// Length in sectors.
    pub nr_sectors: u32,
    /// Number of the write, modulo 2^32.
    pub number: u32,
    /// A zone append: its header has the offset of the zone.
    pub appended: bool,
    /// It has been trimmed since.
    pub trimmed: bool,
    /// Another write may be what the block holds.
    pub uncertain: bool,
}

#[derive(Debug)]
pub(crate) struct Log {
    by_sector: BTreeMap<u64, Entry>,
    /// Sector, length and number of the writes to verify, in their order; `None` for that of sectors.
    in_order: Option<VecDeque<(u64, u32, u32)>>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    number: u32,
    /// Length; the highest bits are set for appends, for trimmed writes and for uncertain ones.
    nr_sectors: u32,
}

const APPENDED: u32 = 1 << 31;
const TRIMMED: u32 = 1 << 30;
const UNCERTAIN: u32 = 1 << 29;

impl Entry {
    fn nr_sectors(self) -> u32 {
        self.nr_sectors & !(APPENDED | TRIMMED | UNCERTAIN)
    }

    fn record(self, sector: u64) -> Record {
        Record {
            sector,
            nr_sectors: self.nr_sectors(),
            number: self.number,
            appended: self.nr_sectors & APPENDED != 0,
            trimmed: self.nr_sectors & TRIMMED != 0,
            uncertain: self.nr_sectors & UNCERTAIN != 0,
        }
    }
}

impl Log {
    /// An empty log, of which writes are popped in their order, or in that of sectors.
    pub fn new(in_order: bool) -> Self {
        let in_order = in_order.then(VecDeque::new);
        Log { by_sector: BTreeMap::new(), in_order }
    }

    /// Whether writes are popped in their order: then they have to be [`queue`](Self::queue)d.
    pub fn is_in_order(&self) -> bool {
        self.in_order.is_some()
    }

    /// This write is to be popped after those before it, once it is inserted.
    pub fn queue(&mut self, sector: u64, nr_sectors: u32, number: u32) {
        if let Some(order) = &mut self.in_order {
            order.push_back((sector, nr_sectors, number));
        }
    }

    /// A write that was queued has failed.
    pub fn cancel(&mut self, number: u32) {
        if let Some(order) = &mut self.in_order {
            order.retain(|&(_, _, queued)| queued != number);
        }
    }

    /// Inserts a write, or the trim of one, and removes those that it overlaps.
    pub fn insert(&mut self, record: Record) {
        let Record { sector, nr_sectors, number, appended, trimmed, uncertain } = record;
        self.remove(sector..sector + u64::from(nr_sectors));
        let flags = [(appended, APPENDED), (trimmed, TRIMMED), (uncertain, UNCERTAIN)];
        let flags = flags.into_iter().filter_map(|(is_set, flag)| is_set.then_some(flag));
        let nr_sectors = flags.fold(nr_sectors, |sectors, flag| sectors | flag);
        self.by_sector.insert(sector, Entry { number, nr_sectors });
    }

    /// Removes all writes that overlap the range.
    pub fn remove(&mut self, range: Range<u64>) {
        while let Some((&sector, entry)) = self.by_sector.range(..range.end).next_back() {
            if sector + u64::from(entry.nr_sectors()) <= range.start {
                break;
            }
            self.by_sector.remove(&sector);
        }
    }

    /// Removes and returns the next write to verify.
    pub fn pop(&mut self) -> Option<Record> {
        let Some(order) = &mut self.in_order else {
            let (sector, entry) = self.by_sector.pop_first()?;
            return Some(entry.record(sector));
        };
        let (sector, nr_sectors, number) = order.pop_front()?;
        let entry = self.by_sector.get(&sector).copied();
        let Some(entry) = entry.filter(|entry| entry.nr_sectors() == nr_sectors) else {
            // Overwritten in part, or about to be overwritten.
            let (appended, trimmed, uncertain) = (false, false, true);
            return Some(Record { sector, nr_sectors, number, appended, trimmed, uncertain });
        };
        if entry.number == number {
            self.by_sector.remove(&sector);
        }
        Some(entry.record(sector))
    }

    /// The first sector of the next write to verify, and its number if that is known before it has completed.
    pub fn front(&self) -> Option<(u64, Option<u32>)> {
        match &self.in_order {
            Some(order) => order.front().map(|&(sector, _, number)| (sector, Some(number))),
            None => self.by_sector.first_key_value().map(|(sector, _)| (*sector, None)),
        }
    }

    /// The write that begins at a sector.
    pub fn get(&self, sector: u64) -> Option<Record> {
        self.by_sector.get(&sector).map(|entry| entry.record(sector))
    }

    /// Whether there is nothing to verify.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of writes, those that are queued included.
    pub fn len(&self) -> usize {
        self.in_order.as_ref().map_or(self.by_sector.len(), VecDeque::len)
    }
}
