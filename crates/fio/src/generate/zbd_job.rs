//! One job's offsets on a zoned device (`zonemode=zbd`).
//!
//! Writes go to the write pointer of the zone that the offset falls in; a full zone is reset before
//! it is written again; a zone with less room than a block is finished. Reads stay below write
//! pointers, unless `read_beyond_wp` is set. A trim resets its zone. With `zone_reset_frequency` every
//! Nth write resets its zone first. A job that reads and writes begins with a write, as in fio, and
//! writes where there is nothing to read.
mod owned;

use super::distribution::BlockPicker;
use super::zbd::{Acquire, OwnedZone, ZbdTable};
use super::{Io, NextIo, Region};
use crate::job::{DataDir, Distribution, Fraction, Job, Rw};
use crate::rng::Rng;
use owned::OwnedZones;
use std::sync::Arc;
use zonal_blk::{BioFlags, Op};

/// Random zones to try for one write before waiting for one of the job's own I/Os.
const ATTEMPTS: u32 = 64;

pub(super) struct ZbdJob {
    table: Arc<ZbdTable>,
    id: u32,
    random: bool,
    /// Smallest block size of writes: a zone with less room is full.
    write_len: u64,
    /// The zone that a random offset falls in, unless all are equally likely, by direction.
    pickers: [Option<Box<ZonePicker>>; 3],
    /// Writes are appends.
    appends: bool,
    first: u32,
    /// Zones are counted from `first` on.
    owned: OwnedZones,
    max_owned: u32,
    /// The job may keep zones that it has no I/O in: it only writes, to any number of zones. It does
    /// so for as long as no other job uses the table, which saves the table's locks with each I/O.
    keeps: bool,
    /// Zones released so far.
    releases: u64,
    /// The zone being written or trimmed sequentially, from `first`.
    write_zone: u32,
    /// Offset of the next sequential write in a conventional zone.
    conventional_at: u64,
    read_at: (u32, u64),
    read_beyond_wp: bool,
    /// The job reads and writes.
    mixed: bool,
    has_written: bool,
    resets: Option<Box<EarlyResets>>,
    /// A zone to try again: another job had it, or it is being reset.
    wanted: Option<u32>,
    rng: Rng,
}

/// Resets of zones before they are full (`zone_reset_frequency`).
struct EarlyResets {
    /// Bytes of data from which on zones are reset.
    threshold: u64,
    /// Writes for each reset.
    every: u64,
    left: u64,
    /// The next write is preceded by a reset of its zone.
    due: bool,
}

impl EarlyResets {
    fn new(job: &Job, region: Region) -> Option<Self> {
        let part_of = |whole: u64, part: Fraction| {
            let bytes = u128::from(whole) * u128::from(part.millionths());
            u64::try_from(bytes / u128::from(Fraction::ONE)).expect("a part")
        };
        let every = Fraction::ONE.checked_div(job.zbd.reset_frequency.millionths())?;
        let threshold = part_of(region.len(), job.zbd.reset_threshold);
        Some(EarlyResets { threshold, every, left: every, due: false })
    }

    /// A write is about to be issued while zones hold this much: whether its zone is to be reset.
    fn is_due(&mut self, data: u64) -> bool {
        if !self.due && data >= self.threshold {
            self.left -= 1;
            self.due = self.left == 0;
            if self.due {
                self.left = self.every;
            }
        }
        self.due
    }
}

/// Draws offsets from a distribution that is not uniform.
struct ZonePicker {
    blocks: BlockPicker,
    align: u64,
    zone_size: u64,
}

impl ZonePicker {
    /// A zone and an offset in it.
    fn next(&self, rng: &mut Rng) -> (u32, u64) {
        let at = self.blocks.next(rng) * self.align;
        let zone = u32::try_from(at / self.zone_size).expect("zones are counted in u32");
        (zone, at % self.zone_size)
    }
}

impl ZbdJob {
    pub(super) fn new(
        job: &Job,
        region: Region,
        table: Arc<ZbdTable>,
        zone_size: u64,
        id: u32,
        mut rng: Rng,
    ) -> Self {
        let pickers = DataDir::ALL.map(|dir| {
            let distribution = &job.address.distribution[dir as usize];
            let align = job.min_bs(dir);
            (job.random && *distribution != Distribution::Uniform).then(|| {
                let blocks = BlockPicker::new(distribution, region.len() / align, align, &mut rng);
                Box::new(ZonePicker { blocks, align, zone_size })
            })
        });
        let zone_no = |at: u64| u32::try_from(at / zone_size).expect("zones are counted in u32");
        let first = zone_no(region.start);
        let count = zone_no(region.end.next_multiple_of(zone_size)) - first;
        table.enter(first..first + count);
        ZbdJob {
            table,
            id,
            random: job.random,
            write_len: job.min_bs(DataDir::Write),
            pickers,
            appends: job.zone_append,
            first,
            owned: OwnedZones::new(count),
            max_owned: if job.job_max_open_zones == 0 { u32::MAX } else { job.job_max_open_zones },
            keeps: job.rw == Rw::Write && job.job_max_open_zones == 0,
            releases: 0,
            write_zone: 0,
            conventional_at: 0,
            read_at: (0, 0),
            read_beyond_wp: job.zbd.read_beyond_wp,
            mixed: job.rw == Rw::Mixed,
            has_written: false,
            resets: EarlyResets::new(job, region).map(Box::new),
            wanted: None,
            rng,
        }
    }

    #[inline(always)]
    pub(super) fn next(&mut self, dir: DataDir, len: u64) -> NextIo {
        if self.keeps && self.table.is_shared() {
            self.stop_keeping();
        }
        match dir {
            DataDir::Read => match self.read(len) {
                // The writes in flight are not readable yet.
                NextIo::Exhausted if self.mixed && self.owned.len() > 0 => NextIo::Wait,
                NextIo::Exhausted if self.mixed => self.write(self.write_len),
                next => next,
            },
            DataDir::Write => self.write(len),
            DataDir::Trim => self.trim(len),
        }
    }

    /// The direction of an I/O that would be a read in a job that reads and writes.
    pub(super) fn instead_of_read(&self) -> DataDir {
        match self.has_written || self.read_beyond_wp {
            true => DataDir::Read,
            false => DataDir::Write,
        }
    }

    fn count(&self) -> u32 {
        self.owned.nr_zones()
    }

    /// The zone that the next write or trim falls in.
    #[inline(always)]
    fn pick(&mut self, dir: DataDir) -> u32 {
        match self.wanted {
            Some(_) => self.pick_wanted(dir),
            None if self.random => self.pick_random(dir),
            None => self.write_zone,
        }
    }

    /// The same after a zone was waited for. It may be full by now: as in fio, a random job then picks
    /// another one.
    #[inline(never)]
    fn pick_wanted(&mut self, dir: DataDir) -> u32 {
        let is_kept = |zone: &u32| {
            !self.random
                || self.owned.contains(*zone)
                || self.table.is_write_zone(self.first + zone)
        };
        let kept = self.wanted.filter(is_kept);
        self.wanted = None;
        kept.unwrap_or_else(|| self.pick_random(dir))
    }

    #[inline(always)]
    fn pick_random(&mut self, dir: DataDir) -> u32 {
        let zone = match &self.pickers[dir as usize] {
            None => self.rng.below_u32(self.owned.nr_zones()),
            Some(picker) => picker.next(&mut self.rng).0,
        };
        if self.table.is_at_limit() && !self.owned.is_busy(zone) {
            return self.pick_write_zone().unwrap_or(zone);
        }
        zone
    }

    /// One of the zones already being written, in the job's region.
    fn pick_write_zone(&mut self) -> Option<u32> {
        let pick = u32::try_from(self.rng.below(1 << 32)).expect("below 2^32");
        let region = self.first..self.first + self.count();
        Some(self.table.pick_write_zone(region, pick)? - self.first)
    }

    fn advance(&mut self) {
        self.write_zone = (self.write_zone + 1) % self.count();
        self.conventional_at = 0;
    }

    /// The next write: in most cases to a zone of the job that has room.
    #[inline(always)]
    fn write(&mut self, len: u64) -> NextIo {
        if self.resets.is_some() {
            return self.write_anywhere(len, None);
        }
        let zone = self.pick(DataDir::Write);
        match self.write_to(zone, len) {
            Some(io) => NextIo::Io(io),
            None => self.write_anywhere(len, Some(zone)),
        }
    }

    /// The next write to a zone if the job owns it, and it has room.
    #[inline(always)]
    fn write_to(&mut self, zone: u32, len: u64) -> Option<Io> {
        let slot = self.owned.find(zone).filter(|slot| !slot.managing)?;
        let (offset, len) = slot.place_write(self.write_len, len)?;
        let start = slot.owned.start;
        let is_full = !slot.has_room(self.write_len);
        self.table.note_write(len);
        self.has_written = true;
        if is_full && !self.random {
            self.advance();
        }
        let (op, offset) = match self.appends {
            true => (Op::ZoneAppend, start),
            false => (Op::Write, offset),
        };
        Some(Self::io(op, DataDir::Write, offset, len, zone))
    }

    /// The next write, to the zone that was `picked` if it can be written.
    #[inline(never)]
    fn write_anywhere(&mut self, len: u64, mut picked: Option<u32>) -> NextIo {
        let attempts = if self.random { ATTEMPTS } else { self.count() + 1 };
        let mut unusable = 0;
        for _ in 0..attempts {
            let zone = picked.take().unwrap_or_else(|| self.pick(DataDir::Write));
            if !self.owned.contains(zone) {
                match self.acquire(zone) {
                    Acquire::Granted(owned) if owned.conventional => {
                        if let Some(io) = self.write_conventional(owned, len) {
                            return NextIo::Io(io);
                        }
                        continue;
                    }
                    Acquire::Granted(owned) if owned.capacity < self.write_len => {
                        return NextIo::Exhausted;
                    }
                    Acquire::Granted(owned) if owned.wp + self.write_len > owned.capacity => {
                        // No room for a block: reset it and write from the start.
                        self.wanted = Some(zone);
                        return NextIo::Manage(self.manage(Op::ZoneReset, zone));
                    }
                    Acquire::Granted(_) => {}
                    Acquire::Busy => {
                        self.wanted = Some(zone);
                        return NextIo::Contended;
                    }
                    Acquire::TooMany => match self.pick_write_zone() {
                        Some(zone) => {
                            self.wanted = Some(zone);
                            continue;
                        }
                        None => return NextIo::Contended,
                    },
                    Acquire::Unusable => {
                        unusable += 1;
                        self.advance();
                        continue;
                    }
                }
            }
            if self.resets.is_some()
                && let Some(next) = self.reset_early(zone)
            {
                return next;
            }
            if self.owned.get(zone).managing {
                return NextIo::Wait;
            }
            if let Some(io) = self.write_to(zone, len) {
                return NextIo::Io(io);
            }
            // Full with writes in flight: it is released when they complete.
            if self.random {
                continue;
            }
            self.advance();
        }
        if unusable == attempts { NextIo::Exhausted } else { NextIo::Wait }
    }

    /// What comes before a write to a zone of the job with `zone_reset_frequency`: a reset, which waits
    /// for the writes in flight.
    fn reset_early(&mut self, zone: u32) -> Option<NextIo> {
        let slot = self.owned.get(zone);
        if slot.managing {
            return Some(NextIo::Wait);
        }
        let resets = self.resets.as_mut()?;
        if slot.owned.wp == 0 || !resets.is_due(self.table.data()) {
            return None;
        }
        self.wanted = Some(zone);
        if slot.in_flight > 0 {
            return Some(NextIo::Wait);
        }
        resets.due = false;
        Some(NextIo::Manage(self.manage(Op::ZoneReset, zone)))
    }

    fn write_conventional(&mut self, owned: OwnedZone, len: u64) -> Option<Io> {
        let at = if self.random {
            self.rng.below(owned.capacity / len) * len
        } else {
            self.conventional_at
        };
        if at + len > owned.capacity {
            self.advance();
            return None;
        }
        self.conventional_at = at + len;
        self.has_written = true;
        let offset = owned.start + at;
        Some(Io {
            op: Op::Write,
            dir: DataDir::Write,
            offset,
            len,
            zone: None,
            flags: BioFlags::NONE,
        })
    }

    fn trim(&mut self, len: u64) -> NextIo {
        let zone = self.pick(DataDir::Trim);
        if self.owned.contains(zone) {
            return NextIo::Wait;
        }
        match self.acquire(zone) {
            Acquire::Granted(owned) if owned.conventional => {
                self.advance();
                let io = Io {
                    op: Op::Discard,
                    dir: DataDir::Trim,
                    offset: owned.start,
                    len,
                    zone: None,
                    flags: BioFlags::NONE,
                };
                NextIo::Io(io)
            }
            Acquire::Granted(_) => {
                self.advance();
                let io = self.manage(Op::ZoneReset, zone);
                self.owned.get(zone).trimmed = true;
                NextIo::Io(Io { dir: DataDir::Trim, len, ..io })
            }
            Acquire::Busy | Acquire::TooMany => {
                self.wanted = Some(zone);
                NextIo::Contended
            }
            Acquire::Unusable => NextIo::Exhausted,
        }
    }

    fn read(&mut self, len: u64) -> NextIo {
        let count = self.count();
        let mut drawn = None;
        if self.random {
            drawn = self.pickers[DataDir::Read as usize].as_ref().map(|it| it.next(&mut self.rng));
            let zone = match drawn {
                Some((zone, _)) => zone,
                None => self.rng.below_u32(count),
            };
            self.read_at = (zone, 0);
        }
        for _ in 0..=count {
            let (zone, at) = self.read_at;
            let (start, readable) = match self.read_beyond_wp {
                true => self.table.extent(self.first + zone),
                false => self.table.readable(self.first + zone),
            };
            if at + len <= readable {
                let at = match drawn {
                    Some((drawn, at)) if drawn == zone && at + len <= readable => at,
                    _ if self.random => self.rng.below(readable / len) * len,
                    _ => at,
                };
                self.read_at = (zone, at + len);
                let (op, dir, offset) = (Op::Read, DataDir::Read, start + at);
                return NextIo::Io(Io { op, dir, offset, len, zone: None, flags: BioFlags::NONE });
            }
            self.read_at = ((zone + 1) % count, 0);
        }
        NextIo::Exhausted
    }

    #[inline(never)]
    fn acquire(&mut self, zone: u32) -> Acquire {
        if self.owned.len() >= self.max_owned {
            return Acquire::TooMany;
        }
        let acquired = self.table.acquire(self.first + zone, self.id);
        if let Acquire::Granted(owned) = acquired
            && !owned.conventional
        {
            self.owned.add(zone, owned);
        }
        acquired
    }

    #[inline(never)]
    fn manage(&mut self, op: Op, zone: u32) -> Io {
        if op == Op::ZoneReset {
            self.table.note_reset(self.first + zone, self.owned.get(zone).owned.wp);
        }
        let slot = self.owned.get(zone);
        slot.managing = true;
        slot.in_flight += 1;
        let start = slot.owned.start;
        Self::io(op, DataDir::Write, start, 0, zone)
    }

    fn io(op: Op, dir: DataDir, offset: u64, len: u64, zone: u32) -> Io {
        Io { op, dir, offset, len, zone: Some(zone), flags: BioFlags::NONE }
    }

    /// One of the job's I/Os in a zone has completed. The last one releases the zone, unless it has to
    /// be finished first because its room is less than a block.
    #[inline]
    pub(super) fn done(&mut self, op: Op, zone: u32) -> Option<Io> {
        let slot = self.owned.get(zone);
        slot.in_flight -= 1;
        match op {
            Op::ZoneReset => slot.owned.wp = 0,
            Op::ZoneFinish => slot.owned.wp = slot.owned.capacity,
            _ => {}
        }
        if slot.in_flight > 0 {
            return None;
        }
        let OwnedZone { wp, capacity, .. } = slot.owned;
        let full = wp + self.write_len > capacity;
        if full && wp < capacity {
            return Some(self.manage(Op::ZoneFinish, zone));
        }
        self.releases += 1;
        if self.keeps && !full && !self.table.is_shared() {
            slot.managing = false;
            return None;
        }
        let is_done = full || slot.trimmed;
        self.release(zone, wp, is_done);
        None
    }

    #[inline(never)]
    fn release(&mut self, zone: u32, wp: u64, is_done: bool) {
        self.owned.remove(zone);
        self.table.release(self.first + zone, wp, is_done);
    }

    /// From now on others see what the job has written where it has no I/O.
    #[cold]
    fn stop_keeping(&mut self) {
        self.keeps = false;
        for zone in self.owned.idle() {
            let wp = self.owned.get(zone).owned.wp;
            self.release(zone, wp, false);
        }
    }

    /// Whether the job waits for a zone that another job still has, so that the next attempt would only
    /// find the same.
    pub(super) fn is_blocked(&self) -> bool {
        let is_busy = |zone| self.table.is_busy(self.first + zone, self.id);
        self.owned.len() == 0 && self.wanted.is_some_and(is_busy)
    }

    /// How often the last I/O in a zone has completed.
    pub(super) fn releases(&self) -> u64 {
        self.releases
    }

    /// The job has done its last write: its zones no longer count as being written.
    pub(super) fn finish(&mut self) {
        if self.keeps {
            self.stop_keeping();
        }
        self.table.leave(self.first..self.first + self.count());
    }
}

#[cfg(test)]
mod tests;
