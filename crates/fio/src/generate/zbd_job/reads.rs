//! Reads: below write pointers.
use super::{Io, NextIo, Source, Target, ZbdJob};
use crate::job::DataDir;
use zonal_blk::{BioFlags, Op};

impl ZbdJob {
    /// First byte of a zone, and how many bytes of it may be read.
    fn readable(&self, zone: u32) -> (u64, u64) {
        match self.read_beyond_wp {
            true => self.table.extent(self.first + zone),
            false => self.table.readable(self.first + zone),
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
    fn other_zone(&self, zone: u32, block: u64) -> Option<u32> {
        let end = self.first + self.count();
        if !self.random || self.read_beyond_wp {
            let holds = |zone: &u32| self.readable(*zone).1 >= block;
            return (zone + 1..self.count()).find(holds);
        }
        let region = self.first..end;
        Some(self.table.nearest_with_data(region, self.first + zone, block, false)? - self.first)
    }

    fn read_at(offset: u64, len: u64) -> Io {
        let (op, dir, flags) = (Op::Read, DataDir::Read, BioFlags::NONE);
        Io { op, dir, offset, len, zone: None, flags }
    }
}
