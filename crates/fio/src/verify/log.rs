//! Which blocks of a device hold which write of a clone.
//!
//! Completed writes are inserted, and popped for verification in order of their sectors. Records do
//! not overlap: as in fio, a block that is partly overwritten is removed. A record takes 16 bytes in
//! an ordered map.
use std::collections::BTreeMap;
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
}

#[derive(Debug, Default)]
pub(crate) struct Log {
    by_sector: BTreeMap<u64, Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    number: u32,
    /// Length; the highest bits are set for appends and for trimmed writes.
    nr_sectors: u32,
}

const APPENDED: u32 = 1 << 31;
const TRIMMED: u32 = 1 << 30;

impl Entry {
    fn nr_sectors(self) -> u32 {
        self.nr_sectors & !(APPENDED | TRIMMED)
    }

    fn record(self, sector: u64) -> Record {
        Record {
            sector,
            nr_sectors: self.nr_sectors(),
            number: self.number,
            appended: self.nr_sectors & APPENDED != 0,
            trimmed: self.nr_sectors & TRIMMED != 0,
        }
    }
}

impl Log {
    /// Inserts a write and removes those that it overlaps.
    pub fn insert(&mut self, record: Record) {
        let Record { sector, nr_sectors, number, appended, trimmed } = record;
        self.remove(sector..sector + u64::from(nr_sectors));
        let flags = [(appended, APPENDED), (trimmed, TRIMMED)];
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

    /// Removes and returns the write with the lowest sector.
    pub fn pop(&mut self) -> Option<Record> {
        let (sector, entry) = self.by_sector.pop_first()?;
        Some(entry.record(sector))
    }

    /// The write that begins at a sector.
    pub fn get(&self, sector: u64) -> Option<Record> {
        self.by_sector.get(&sector).map(|entry| entry.record(sector))
    }

    /// Whether there is nothing to verify.
    pub fn is_empty(&self) -> bool {
        self.by_sector.is_empty()
    }

    /// Number of writes.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.by_sector.len()
    }
}
