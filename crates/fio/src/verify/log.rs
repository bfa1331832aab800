//! Which blocks of a device hold which write of a clone.
//!
//! Takes writes when they have completed; gives them back for a check, lowest first. Keeps true: no
//! two records overlap; as in fio, a block of which a part is written anew is forgotten. A record
//! takes 16 bytes in an ordered map, and there is one for each block that is to be checked.
use std::collections::BTreeMap;
use std::ops::Range;

/// A write that is on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// First sector.
    pub sector: u64,
    /// Length in sectors.
    pub nr_sectors: u32,
    /// Writes of the clone before it, in 32 bits.
    pub number: u32,
    /// It was a zone append: its header has the zone's start.
    pub appended: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Log {
    by_sector: BTreeMap<u64, Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    number: u32,
    /// The length; the highest bit is for appends.
    nr_sectors: u32,
}

const APPENDED: u32 = 1 << 31;

impl Entry {
    fn nr_sectors(self) -> u32 {
        self.nr_sectors & !APPENDED
    }
}

impl Log {
    /// Takes a write, in place of all that it overlaps.
    pub fn insert(&mut self, record: Record) {
        let Record { sector, nr_sectors, number, appended } = record;
        self.forget(sector..sector + u64::from(nr_sectors));
        let nr_sectors = nr_sectors | if appended { APPENDED } else { 0 };
        self.by_sector.insert(sector, Entry { number, nr_sectors });
    }

    /// Forgets all writes with a sector in this range.
    pub fn forget(&mut self, range: Range<u64>) {
        while let Some((&sector, entry)) = self.by_sector.range(..range.end).next_back() {
            if sector + u64::from(entry.nr_sectors()) <= range.start {
                break;
            }
            self.by_sector.remove(&sector);
        }
    }

    /// Gives the lowest block and forgets it.
    pub fn pop(&mut self) -> Option<Record> {
        let (sector, entry) = self.by_sector.pop_first()?;
        Some(Record {
            sector,
            nr_sectors: entry.nr_sectors(),
            number: entry.number,
            appended: entry.nr_sectors & APPENDED != 0,
        })
    }

    /// Whether there is nothing to check.
    pub fn is_empty(&self) -> bool {
        self.by_sector.is_empty()
    }

    /// Blocks to check.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.by_sector.len()
    }
}
