//! Reads: below write pointers.
use super::{Io, NextIo, Source, Target, ZbdJob};
use crate::generate::zbd::OwnedZone;
use crate::job::DataDir;
use zonal_blk::{BioFlags, Op};

impl ZbdJob {
    /// First byte of a zone, and how many bytes of it may be read. As in fio, random reads may be where the
    /// job's own writes are in flight.
    fn readable(&mut self, zone: u32) -> (u64, u64) {
        if self.read_beyond_wp {
            return self.table.extent(self.first + zone);
        }
        let own = self.owned.find(zone).filter(|slot| !slot.managing).map(|slot| slot.owned);
        match own.filter(|_| self.random) {
            Some(OwnedZone { start, wp, .. }) => (start, wp),
            None => self.table.readable(self.first + zone),
        }
    }

    /// The next read, where the source has it, or in the nearest zone that holds a block; the end of the pass
    /// if nothing, or nothing more, can be read.
    pub(super) fn read(&mut self, len: u64) -> NextIo {
        let dir = DataDir::Read;
        let Some(Target { mut zone, mut at, len }) = self.read_place(len) else {
            return NextIo::EndOfPass;
        };
        let block = self.smallest[dir as usize];
        let (mut start, mut readable) = self.readable(zone);
        if readable < block || !self.random && at + block > readable {
            let waits = self.mixed && !self.random;
            let other = match waits && self.owned.contains(zone) {
                true => None,
                false => self.other_zone(zone, block),
            };
            let Some(other) = other else {
                // Tried again when the writes in flight have completed, or written instead.
                self.pending[dir as usize] = self.mixed.then_some(Target { zone, at, len });
                return NextIo::EndOfPass;
            };
            (zone, at) = (other, if self.random { at } else { 0 });
            (start, readable) = self.readable(zone);
        }
        let at = match self.random {
            _ if readable <= len => 0,
            // As in fio the offset in the zone is kept as far as there are data.
            true => at / block % ((readable - len) / block + 1) * block,
            false => at,
        };
        let room = readable - at;
        let fits = if len <= room { len } else { room / block * block };
        if fits < len {
            self.source.shortened(dir, fits);
        }
        self.moved(dir, zone, at + fits);
        NextIo::Io(Self::read_at(start + at, fits))
    }

    /// Where the next read would be.
    fn read_place(&mut self, len: u64) -> Option<Target> {
        let is_pending = self.pending[DataDir::Read as usize].is_some();
        if !matches!(self.source, Source::Zones) || is_pending {
            return self.target(DataDir::Read, len);
        }
        let zone = self.rng.below_u32(self.count());
        let blocks = self.zone_size / self.smallest[DataDir::Read as usize];
        let at = self.rng.below(blocks.max(1)) * self.smallest[DataDir::Read as usize];
        Some(Target { zone, at, len })
    }

    /// The zone to read from instead of one that holds no block, or no more: in sequential jobs one
    /// after it.
    fn other_zone(&mut self, zone: u32, block: u64) -> Option<u32> {
        let end = self.first + self.count();
        if !self.random || self.read_beyond_wp {
            return (zone + 1..self.count()).find(|zone| self.readable(*zone).1 >= block);
        }
        let region = self.first..end;
        let known = self.table.nearest_with_data(region, self.first + zone, block, false);
        let own = self.owned.nearest_with_data(zone, block);
        let found = known.map(|known| known - self.first).into_iter().chain(own);
        found.min_by_key(|other| (other.abs_diff(zone), *other < zone))
    }

    pub(super) fn read_at(offset: u64, len: u64) -> Io {
        let (op, dir, flags) = (Op::Read, DataDir::Read, BioFlags::NONE);
        Io { op, dir, offset, len, zone: None, flags }
    }
}
