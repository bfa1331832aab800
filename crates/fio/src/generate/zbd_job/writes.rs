//! Writes: to the write pointer of the zone that the offset falls in, or of another one if that zone
//! cannot be written.
//!
//! As in fio, a zone with less room than a block stays open until a write falls in it: the zone is then
//! finished, and the write goes to the next one. A write to a zone that may not be opened goes to the zone
//! being written whose place in their list corresponds to that of the offset in the region; if it has no
//! room, to the first zone after it that may be opened, once nothing is in flight if that makes room; else to
//! the first one that has room. If none has, a random job resets the one whose place corresponds to that of the
//! offset, or waits if other jobs write all of them, and a job that verifies ends its pass and verifies first.
//! Where zones are limited, one that the writes in flight of a random job fill is treated in the same way.
use super::{Io, NextIo, Source, Target, ZbdJob};
use crate::generate::zbd::{Acquire, OwnedZone};
use crate::job::DataDir;
use zonal_blk::{BioFlags, Op};

/// The result of an attempt to write to a zone.
enum Attempt {
    /// This is to be done.
    Next(NextIo),
    /// Another zone is to be tried, as this one can never be written, or is full and not to be reset.
    Unusable,
    /// The zone is full and not to be reset: a random job goes to one that is being written, or that may be opened.
    Full,
    /// Less than a block is left of the zone: this I/O finishes it, then the next one is to be tried.
    Finish(Io),
    /// The zone may not be opened, or the writes in flight fill it.
    TooMany,
}

impl ZbdJob {
    /// The next write: in most cases to a zone of the job that has room.
    #[inline(always)]
    pub(super) fn write(&mut self, len: u64) -> NextIo {
        if let Some(zone) = self.stream
            && let Some(io) = self.write_on(zone, len)
        {
            return NextIo::Io(io);
        }
        let is_fast = matches!(self.source, Source::Zones) && self.resets.is_none();
        if !is_fast || self.pending[DataDir::Write as usize].is_some() {
            return self.write_target(len);
        }
        let zone = self.rng.below_u32(self.owned.nr_zones());
        match self.write_to(zone, len) {
            Some(io) => NextIo::Io(io),
            None => self.write_elsewhere(zone, len),
        }
    }

    /// The write after the last one, in the same zone, if that has room for a whole block.
    #[inline(always)]
    fn write_on(&mut self, zone: u32, len: u64) -> Option<Io> {
        let has_room = self.owned.find(zone)?.has_room(len);
        if has_room { self.write_to(zone, len) } else { None }
    }

    /// The next write need not follow the last one any more: the source learns where that ended.
    pub(super) fn end_stream(&mut self) {
        if let Some(zone) = self.stream.take() {
            self.note_end(zone);
        }
    }

    /// The same if the job cannot write to the zone right away.
    #[inline(never)]
    fn write_elsewhere(&mut self, zone: u32, len: u64) -> NextIo {
        if self.table.is_at_limit()
            && !self.table.is_write_zone(self.first + zone)
            && let Some(open) = self.table.write_zone_at(&self.region(), self.first + zone)
            && let Some(io) = self.write_to(open - self.first, len)
        {
            return NextIo::Io(io);
        }
        self.pending[DataDir::Write as usize] = Some(Target { zone, at: 0, len });
        self.write_target(len)
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

    /// The next write, where the source has it.
    #[inline(never)]
    pub(super) fn write_target(&mut self, len: u64) -> NextIo {
        let next = self.write_drawn(len);
        if let Some(resets) = &mut self.resets
            && matches!(next, NextIo::Io(_) | NextIo::EndOfPass)
        {
            resets.next();
        }
        next
    }

    fn write_drawn(&mut self, len: u64) -> NextIo {
        let dir = DataDir::Write;
        self.wanted = None;
        self.end_stream();
        let Some(mut drawn) = self.write_place(len) else {
            self.resets.iter_mut().for_each(|resets| resets.meet_end());
            return NextIo::EndOfPass;
        };
        if let Some(resets) = &mut self.resets {
            resets.count(self.table.data());
        }
        if self.finishing > 0 {
            return self.defer(dir, drawn, NextIo::Wait);
        }
        let (mut target, mut unusable) = (drawn, 0);
        let mut choice = self.choice.take();
        loop {
            if target.zone == self.count() {
                if !self.random {
                    return NextIo::EndOfPass;
                }
                target.zone = 0;
            }
            let attempt = match choice.take() {
                Some(first) => self.attempt_another(first, &mut target),
                None => match self.attempt(target) {
                    Attempt::TooMany => self.attempt_open(&mut target),
                    Attempt::Full => self.attempt_after_full(&mut target),
                    attempt => attempt,
                },
            };
            match attempt {
                Attempt::Next(NextIo::Io(io)) => {
                    if io.len < target.len {
                        self.source.shortened(dir, io.len);
                    }
                    self.note_position(&io, target.zone);
                    self.is_prepared = false;
                    return NextIo::Io(io);
                }
                Attempt::Next(next @ (NextIo::Exhausted | NextIo::EndOfPass)) => return next,
                Attempt::Next(NextIo::Verify) => return self.defer(dir, target, NextIo::Verify),
                Attempt::Next(next) => {
                    self.wanted = Some(target.zone);
                    let is_prepared = matches!(next, NextIo::Manage(_));
                    self.is_prepared |= is_prepared;
                    let is_marked =
                        self.resets.as_ref().is_some_and(|it| it.has_marked(target.zone));
                    let stays = !self.random || is_prepared || is_marked;
                    return self.defer(dir, if stays { target } else { drawn }, next);
                }
                Attempt::Finish(io) => {
                    (self.finishing, self.is_prepared) = (self.finishing + 1, true);
                    drawn = Target { zone: target.zone + 1, at: 0, ..drawn };
                    return self.defer(dir, drawn, NextIo::Manage(io));
                }
                Attempt::TooMany => return self.defer(dir, drawn, NextIo::Contended),
                Attempt::Unusable | Attempt::Full => {
                    unusable += 1;
                    if unusable >= self.count() {
                        return self.nothing_to_write();
                    }
                    target = Target { zone: target.zone + 1, at: 0, ..target };
                }
            }
        }
    }

    /// Where the next write would be.
    fn write_place(&mut self, len: u64) -> Option<Target> {
        let is_pending = self.pending[DataDir::Write as usize].is_some();
        if self.resets.is_some() && !is_pending {
            self.drawn_after = self.source.position(DataDir::Write);
        }
        if matches!(self.source, Source::Zones) && !is_pending {
            return Some(Target { zone: self.rng.below_u32(self.owned.nr_zones()), at: 0, len });
        }
        self.target(DataDir::Write, len)
    }

    /// Attempts a write that may open no zone in a zone that is being written. A sequential job goes on after that
    /// zone if it is full, once its writes have completed, also where zones are full already.
    #[inline(never)]
    fn attempt_open(&mut self, target: &mut Target) -> Attempt {
        let region = self.region();
        let Some(first) = self.table.write_zone_at(&region, self.first + target.zone) else {
            return Attempt::TooMany;
        };
        let first = first - self.first;
        if self.has_room(first) {
            target.zone = first;
            return self.attempt(*target);
        }
        if self.random {
            return self.attempt_another(first, target);
        }
        // A zone that becomes full makes room for another.
        if self.owned.any_busy() {
            *target = Target { zone: (first + 1) % self.count(), at: 0, ..*target };
            return Attempt::Next(NextIo::Wait);
        }
        match self.purpose.room > 0 {
            true => Attempt::Next(NextIo::EndOfPass),
            false => Attempt::TooMany,
        }
    }

    /// Attempts a write of a random job that verifies, whose zone is full. As in fio, zones with less room than a
    /// block are not finished on the way.
    #[cold]
    fn attempt_after_full(&mut self, target: &mut Target) -> Attempt {
        if self.table.is_limited() {
            let attempt = self.attempt_open(target);
            if !matches!(attempt, Attempt::TooMany) {
                return attempt;
            }
        }
        self.attempt_another(target.zone, target)
    }

    /// Whether a block fits in a zone, after the writes in flight.
    fn has_room(&mut self, zone: u32) -> bool {
        match self.owned.find(zone) {
            Some(slot) => slot.has_room(self.least_room),
            None => self.table.has_room(self.first + zone, self.least_room),
        }
    }

    /// Attempts a write of a random job whose first choice has no room.
    #[cold]
    fn attempt_another(&mut self, first: u32, target: &mut Target) -> Attempt {
        for zone in (first + 1..self.count()).chain(0..=first) {
            let is_write_zone = self.table.is_write_zone(self.first + zone);
            let is_full = self.purpose.room > 0 && !self.has_room(zone);
            if is_full || is_write_zone && self.table.is_limited() {
                continue;
            }
            let other = Target { zone, at: 0, ..*target };
            match self.attempt(other) {
                Attempt::TooMany => break,
                Attempt::Unusable | Attempt::Full => {}
                attempt => {
                    *target = other;
                    return attempt;
                }
            }
        }
        // A zone that becomes full makes room for another.
        if self.owned.any_busy() {
            self.choice = Some(first);
            return Attempt::Next(NextIo::Contended);
        }
        for open in self.table.write_zones_of(&self.region()) {
            if self.has_room(open - self.first) {
                target.zone = open - self.first;
                return self.attempt(*target);
            }
        }
        if self.purpose.room > 0 {
            return Attempt::Next(NextIo::EndOfPass);
        }
        let Some(open) = self.table.write_zone_at(&self.region(), self.first + target.zone) else {
            // Other jobs write as many zones as may be open: what is in the zones here stays.
            self.choice = Some(first);
            return Attempt::TooMany;
        };
        target.zone = open - self.first;
        let capacity = self.table.capacity_of(open);
        match capacity < self.least_room {
            true => Attempt::Next(self.too_small(capacity, target.zone)),
            false => self.reset_open(target.zone),
        }
    }

    /// Resets a zone that is being written and in which the job has no I/O. It counts as finished, as it is in fio.
    #[cold]
    fn reset_open(&mut self, zone: u32) -> Attempt {
        if !self.owned.contains(zone) {
            match self.table.acquire_to_reset(self.first + zone, self.id) {
                Acquire::Granted(owned) => self.owned.add(zone, owned),
                _ => return Attempt::Next(NextIo::Contended),
            }
        }
        self.owned.get(zone).owned.wp = self.table.extent(self.first + zone).1;
        Attempt::Next(NextIo::Manage(self.manage(Op::ZoneReset, zone)))
    }

    /// A sequential job goes on after its last write.
    fn note_position(&mut self, io: &Io, zone: u32) {
        if io.zone.is_some() && self.owned.contains(zone) {
            self.note_end(zone);
            self.stream = (zone < self.streamed).then_some(zone);
        } else {
            let end = io.offset + io.len - u64::from(self.first + zone) * self.zone_size;
            self.moved(DataDir::Write, zone, end);
        }
    }

    /// The position is the write pointer of a zone of the job, or the next zone if this one is full. As in fio, a
    /// random job stays after its capacity.
    fn note_end(&mut self, zone: u32) {
        let OwnedZone { wp, capacity, .. } = self.owned.get(zone).owned;
        let is_over = wp == capacity && !self.random || self.finishes;
        self.moved(DataDir::Write, zone, if is_over { self.zone_size } else { wp });
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
        let slot = self.owned.get(zone);
        let is_filled =
            slot.in_flight > 0 && !slot.managing && slot.owned.wp >= slot.owned.capacity;
        if is_filled && self.random && self.table.is_limited() {
            return Attempt::TooMany;
        }
        let (owned, has_room) = (slot.owned, slot.has_room(self.least_room));
        // As in fio, the zone is finished once its writes have completed, and an early reset is one of the next zone.
        if !has_room && slot.in_flight > 0 && !slot.managing && owned.wp < owned.capacity {
            return Attempt::Next(NextIo::Wait);
        }
        if !has_room && slot.in_flight == 0 {
            if owned.wp >= owned.capacity {
                return self.reset_full(zone);
            }
            return self.end_of_zone(zone, owned);
        }
        if self.resets.is_some()
            && let Some(next) = self.reset_early(zone)
        {
            return Attempt::Next(next);
        }
        match self.write_to(zone, len) {
            Some(io) => Attempt::Next(NextIo::Io(io)),
            // It is reset, or its writes complete.
            None => Attempt::Next(NextIo::Wait),
        }
    }

    /// Resets a full zone of the job. As in fio, the writes in flight complete first: in a sequential job, whose
    /// zones count as open until then.
    fn reset_full(&mut self, zone: u32) -> Attempt {
        let waits = !self.random && self.table.is_limited() && self.owned.any_busy();
        Attempt::Next(match waits {
            true => NextIo::Wait,
            false => NextIo::Manage(self.manage(Op::ZoneReset, zone)),
        })
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
                (owned.wp >= owned.capacity).then(|| self.reset_full(zone))
            }
            Acquire::Rest(owned) => {
                self.owned.add(zone, owned);
                Some(self.end_of_zone(zone, owned))
            }
            Acquire::Busy => Some(Attempt::Next(NextIo::Contended)),
            Acquire::TooMany => Some(Attempt::TooMany),
            Acquire::Unusable => Some(Attempt::Unusable),
            Acquire::Full => Some(if self.random { Attempt::Full } else { Attempt::Unusable }),
        }
    }

    /// A zone of the job has less room than a block: it is finished, unless none ever fits.
    fn end_of_zone(&mut self, zone: u32, owned: OwnedZone) -> Attempt {
        if owned.capacity >= self.least_room {
            return Attempt::Finish(self.manage(Op::ZoneFinish, zone));
        }
        self.release(zone, owned.wp, owned.wp == 0);
        Attempt::Next(self.too_small(owned.capacity, zone))
    }

    #[cold]
    fn too_small(&mut self, capacity: u64, zone: u32) -> NextIo {
        let (block, zone) = (self.smallest[DataDir::Write as usize], self.first + zone);
        self.problem = Some(format!(
            "bs: a block of {block} bytes is longer than zone {zone}, whose capacity is {capacity} bytes"
        ));
        NextIo::Exhausted
    }

    /// The action before a write to a zone of the job with `zone_reset_frequency`: a reset, which waits
    /// for the writes in flight, and for what has been written to be verified.
    fn reset_early(&mut self, zone: u32) -> Option<NextIo> {
        let slot = self.owned.get(zone);
        if slot.managing {
            return Some(NextIo::Wait);
        }
        let resets = self.resets.as_mut()?;
        if !resets.is_due(zone) {
            return None;
        }
        if self.purpose.room > 0 && !std::mem::take(&mut self.is_verified) {
            return Some(NextIo::Verify);
        }
        if slot.owned.wp == 0 {
            resets.resets(zone);
            return None;
        }
        if slot.in_flight > 0 {
            self.wanted = Some(zone);
            return Some(NextIo::Wait);
        }
        resets.resets(zone);
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
