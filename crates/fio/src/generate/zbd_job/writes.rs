//! Writes: to the write pointer of the zone that the offset falls in, or of another one if that zone
//! cannot be written.
use super::{ATTEMPTS, Io, NextIo, Source, Target, ZbdJob};
use crate::generate::zbd::{Acquire, OwnedZone};
use crate::job::DataDir;
use zonal_blk::{BioFlags, Op};

/// The result of an attempt to write to a zone.
enum Attempt {
    /// This is to be done.
    Next(NextIo),
    /// Another zone is to be tried.
    Other,
    /// Another zone is to be tried, as this one can never be written.
    Unusable,
    /// Another zone is to be tried, as this one is full and not to be reset.
    Full,
    /// No zone may be opened: this one, which is being written, is to be tried.
    Instead(u32),
}

impl ZbdJob {
    /// The next write: in most cases to a zone of the job that has room.
    #[inline(always)]
    pub(super) fn write(&mut self, len: u64) -> NextIo {
        if !matches!(self.source, Source::Zones) {
            return self.write_target(len);
        }
        if self.resets.is_some() {
            return self.write_anywhere(len, None);
        }
        let zone = self.pick();
        match self.write_to(zone, len) {
            Some(io) => NextIo::Io(io),
            None => self.write_anywhere(len, Some(zone)),
        }
    }

    /// The zone that the next write falls in, with [`Source::Zones`].
    #[inline(always)]
    fn pick(&mut self) -> u32 {
        match self.wanted {
            Some(_) => self.pick_wanted(),
            None => self.pick_random(),
        }
    }

    /// The same after a zone was waited for. It may be full by now: as in fio, a random job then picks
    /// another one.
    #[inline(never)]
    fn pick_wanted(&mut self) -> u32 {
        let is_kept =
            |zone: &u32| self.owned.contains(*zone) || self.table.is_write_zone(self.first + zone);
        let kept = self.wanted.filter(is_kept);
        self.wanted = None;
        kept.unwrap_or_else(|| self.pick_random())
    }

    #[inline(always)]
    fn pick_random(&mut self) -> u32 {
        let zone = self.rng.below_u32(self.owned.nr_zones());
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

    /// The next write to a zone if the job owns it, and it has room.
    #[inline(always)]
    fn write_to(&mut self, zone: u32, len: u64) -> Option<Io> {
        let block = self.smallest[DataDir::Write as usize];
        let slot = self.owned.find(zone).filter(|slot| !slot.managing)?;
        if self.finishes && slot.in_flight > 0 {
            return None;
        }
        let (offset, len) = slot.place_write(self.least_room, block, len)?;
        let start = slot.owned.start;
        self.table.note_write(len);
        self.has_data = true;
        let (op, offset) = match self.appends {
            true => (Op::ZoneAppend, start),
            false => (Op::Write, offset),
        };
        Some(Self::io(op, DataDir::Write, offset, len, zone))
    }

    /// The next write, to the zone that was `picked` if it can be written.
    #[inline(never)]
    fn write_anywhere(&mut self, len: u64, mut picked: Option<u32>) -> NextIo {
        let (mut attempts, mut unusable) = (0, 0);
        while attempts < ATTEMPTS {
            let zone = picked.take().unwrap_or_else(|| self.pick());
            match self.attempt(Target { zone, at: 0, len }) {
                Attempt::Next(next) => {
                    if matches!(next, NextIo::Contended | NextIo::Manage(_)) {
                        self.wanted = Some(zone);
                    }
                    return next;
                }
                Attempt::Instead(zone) => {
                    self.wanted = Some(zone);
                    attempts += 1;
                }
                // Full with writes in flight: it is released when they complete.
                Attempt::Other => attempts += 1,
                Attempt::Unusable | Attempt::Full => {
                    unusable += 1;
                    if unusable >= self.count() {
                        return self.nothing_to_write();
                    }
                    picked = Some((zone + 1) % self.count());
                }
            }
        }
        NextIo::Wait
    }

    /// The next write, where the source has it.
    #[inline(never)]
    pub(super) fn write_target(&mut self, len: u64) -> NextIo {
        let dir = DataDir::Write;
        self.wanted = None;
        let Some(drawn) = self.target(dir, len) else { return NextIo::EndOfPass };
        let (mut target, mut unusable, mut elsewhere) = (drawn, 0, false);
        loop {
            match self.attempt(target) {
                Attempt::Next(NextIo::Io(io)) => {
                    // A write that the limit moved to an open zone leaves the position where it was to be.
                    if !elsewhere {
                        self.note_position(&io, target.zone);
                    }
                    return NextIo::Io(io);
                }
                Attempt::Next(next @ (NextIo::Exhausted | NextIo::EndOfPass)) => return next,
                Attempt::Next(next) => {
                    self.wanted = Some(target.zone);
                    return self.defer(dir, drawn, next);
                }
                // Its writes complete, and it is reset.
                Attempt::Other => return self.defer(dir, drawn, NextIo::Wait),
                Attempt::Instead(zone) => {
                    elsewhere = true;
                    target = Target { zone, at: 0, ..target };
                }
                Attempt::Unusable | Attempt::Full => {
                    unusable += 1;
                    let last = target.zone + 1 == self.count();
                    if unusable >= self.count() {
                        return self.nothing_to_write();
                    }
                    if last && !self.random {
                        return NextIo::EndOfPass;
                    }
                    let zone = if last { 0 } else { target.zone + 1 };
                    target = Target { zone, at: 0, ..target };
                }
            }
        }
    }

    /// A sequential job goes on after its last write: in the next zone if this one is full.
    fn note_position(&mut self, io: &Io, zone: u32) {
        let end = match (io.zone, self.owned.find(zone)) {
            (Some(_), Some(slot)) => {
                let OwnedZone { wp, capacity, .. } = slot.owned;
                let is_over = wp + self.least_room > capacity || self.finishes;
                if is_over { self.zone_size } else { wp }
            }
            _ => io.offset + io.len - u64::from(self.first + zone) * self.zone_size,
        };
        self.moved(DataDir::Write, zone, end);
    }

    #[cold]
    fn nothing_to_write(&mut self) -> NextIo {
        if self.purpose.room > 0 {
            return NextIo::EndOfPass;
        }
        let usual = "all zones of its region are read-only or offline";
        self.problem.get_or_insert_with(|| usual.to_owned());
        NextIo::Exhausted
    }

    /// Tries to write to a zone.
    fn attempt(&mut self, target: Target) -> Attempt {
        let Target { zone, len, .. } = target;
        if !self.owned.contains(zone)
            && let Some(attempt) = self.acquire(target)
        {
            return attempt;
        }
        if self.resets.is_some()
            && let Some(next) = self.reset_early(zone)
        {
            return Attempt::Next(next);
        }
        if self.owned.get(zone).managing {
            return Attempt::Next(NextIo::Wait);
        }
        match self.write_to(zone, len) {
            Some(io) => Attempt::Next(NextIo::Io(io)),
            None => Attempt::Other,
        }
    }

    /// Acquires a zone; what to do if it is not the job's then, or not ready to be written.
    #[inline(never)]
    fn acquire(&mut self, target: Target) -> Option<Attempt> {
        let zone = target.zone;
        match self.table.acquire(self.first + zone, self.purpose) {
            Acquire::Granted(owned) if owned.conventional => {
                Some(self.write_conventional(owned, target))
            }
            Acquire::Granted(owned) => {
                self.owned.add(zone, owned);
                if owned.capacity < self.least_room {
                    self.release(zone, owned.wp, owned.wp == 0);
                    return Some(Attempt::Next(self.too_small(owned.capacity, zone)));
                }
                // No room for a block: reset it and write from the start.
                (owned.wp + self.least_room > owned.capacity)
                    .then(|| Attempt::Next(NextIo::Manage(self.manage(Op::ZoneReset, zone))))
            }
            Acquire::Busy => Some(Attempt::Next(NextIo::Contended)),
            Acquire::TooMany => Some(match self.pick_write_zone() {
                Some(zone) => Attempt::Instead(zone),
                None => Attempt::Next(NextIo::Contended),
            }),
            Acquire::Unusable => Some(Attempt::Unusable),
            Acquire::Full => Some(Attempt::Full),
        }
    }

    #[cold]
    fn too_small(&mut self, capacity: u64, zone: u32) -> NextIo {
        let (block, zone) = (self.smallest[DataDir::Write as usize], self.first + zone);
        self.problem = Some(format!(
            "bs: a block of {block} bytes is longer than zone {zone}, whose capacity is {capacity} bytes"
        ));
        NextIo::Exhausted
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
        if slot.in_flight > 0 {
            self.wanted = Some(zone);
            return Some(NextIo::Wait);
        }
        resets.due = false;
        Some(NextIo::Manage(self.manage(Op::ZoneReset, zone)))
    }

    /// A write in conventional zones, at the offset itself. It may go on in the next one, but not in a
    /// sequential zone.
    fn write_conventional(&mut self, owned: OwnedZone, target: Target) -> Attempt {
        let Target { zone, at, len } = target;
        let block = self.smallest[DataDir::Write as usize];
        let at = match self.source {
            Source::Zones => self.rng.below((owned.capacity / len).max(1)) * len,
            _ => at,
        };
        let mut room = owned.capacity.saturating_sub(at);
        for next in zone + 1..self.count() {
            if room >= len || !self.table.is_conventional(self.first + next) {
                break;
            }
            room += self.table.extent(self.first + next).1;
        }
        let len = if len <= room { len } else { room / block * block };
        if len == 0 {
            return match at {
                0 => Attempt::Next(self.too_small(owned.capacity, zone)),
                _ if self.random => self.write_conventional(owned, Target { at: 0, ..target }),
                _ => Attempt::Unusable,
            };
        }
        self.has_data = true;
        let (op, dir, flags) = (Op::Write, DataDir::Write, BioFlags::NONE);
        let io = Io { op, dir, offset: owned.start + at, len, zone: None, flags };
        Attempt::Next(NextIo::Io(io))
    }
}
