//! One job's offsets on zones (`zonemode=zbd`).
//!
//! Writes go to the write pointer of the zone that the offset falls in; a full zone is reset before
//! it is written again; a zone whose rest is smaller than a block is finished. Reads stay below
//! write pointers. A trim resets its zone.
use super::random::Rng;
use super::zbd::{Held, Hold, ZbdTable};
use super::{Io, Next, Region};
use crate::job::{DataDir, Job};
use std::sync::Arc;
use zonal_blk::{BioFlags, Op};

/// Random zones tried for one write before the job waits for one of its own I/Os.
const ATTEMPTS: u32 = 64;

pub(super) struct ZbdJob {
    table: Arc<ZbdTable>,
    id: u32,
    random: bool,
    /// The shortest rest of a zone that is still written.
    write_len: u64,
    first: u32,
    /// What the job holds, by zone from `first` on.
    local: Vec<Local>,
    max_held: u32,
    nr_held: u32,
    /// The zone being written, or trimmed, sequentially; from `first`.
    write_zone: u32,
    /// Where the next sequential write of a conventional zone goes, from the zone's start.
    conventional_at: u64,
    read_at: (u32, u64),
    /// A zone that another job had; it is waited for.
    wanted: Option<u32>,
    rng: Rng,
}

#[derive(Clone, Copy, Default)]
struct Local {
    held: Held,
    in_flight: u32,
    is_held: bool,
    /// A reset or finish is on its way.
    managing: bool,
    /// The reset is a trim's: nothing is written after it.
    trimmed: bool,
}

impl ZbdJob {
    pub(super) fn new(
        job: &Job,
        region: Region,
        table: Arc<ZbdTable>,
        zone_size: u64,
        id: u32,
        rng: Rng,
    ) -> Self {
        let zone_no = |at: u64| u32::try_from(at / zone_size).expect("zones are counted in u32");
        let first = zone_no(region.start);
        let count = zone_no(region.end.next_multiple_of(zone_size)) - first;
        table.enter(first..first + count);
        ZbdJob {
            table,
            id,
            random: job.random,
            write_len: job.bs[DataDir::Write as usize],
            first,
            local: vec![Local::default(); count as usize],
            max_held: if job.job_max_open_zones == 0 { u32::MAX } else { job.job_max_open_zones },
            nr_held: 0,
            write_zone: 0,
            conventional_at: 0,
            read_at: (0, 0),
            wanted: None,
            rng,
        }
    }

    pub(super) fn next(&mut self, dir: DataDir, len: u64) -> Next {
        match dir {
            DataDir::Read => self.read(len),
            DataDir::Write => self.write(len),
            DataDir::Trim => self.trim(len),
        }
    }

    fn count(&self) -> u32 {
        u32::try_from(self.local.len()).expect("zones are counted in u32")
    }

    /// The zone that the next write or trim falls in.
    #[inline]
    fn pick(&mut self) -> u32 {
        // One that it waited for may be full by then: as in fio, a random job then goes elsewhere.
        if let Some(zone) = self.wanted.take()
            && (!self.random
                || self.local[zone as usize].is_held
                || self.table.is_target(self.first + zone))
        {
            return zone;
        }
        if !self.random {
            return self.write_zone;
        }
        let count = u64::from(self.count());
        let zone = u32::try_from(self.rng.below(count)).expect("below a u32");
        if self.table.is_at_limit() && !self.local[zone as usize].is_held {
            return self.pick_target().unwrap_or(zone);
        }
        zone
    }

    /// One of the zones already being written, in the job's region.
    fn pick_target(&mut self) -> Option<u32> {
        let pick = u32::try_from(self.rng.below(1 << 32)).expect("below 2^32");
        let region = self.first..self.first + self.count();
        Some(self.table.target(region, pick)? - self.first)
    }

    fn advance(&mut self) {
        self.write_zone = (self.write_zone + 1) % self.count();
        self.conventional_at = 0;
    }

    fn write(&mut self, len: u64) -> Next {
        let attempts = if self.random { ATTEMPTS } else { self.count() + 1 };
        let mut unusable = 0;
        for _ in 0..attempts {
            let zone = self.pick();
            if !self.local[zone as usize].is_held {
                match self.hold(zone) {
                    Hold::Granted(held) if held.conventional => {
                        if let Some(io) = self.write_conventional(held, len) {
                            return Next::Io(io);
                        }
                        continue;
                    }
                    Hold::Granted(held) if held.capacity < len => return Next::Exhausted,
                    Hold::Granted(held) if held.wp + len > held.capacity => {
                        // Full, or all but: it is written again from the start.
                        self.wanted = Some(zone);
                        return Next::Manage(self.manage(Op::ZoneReset, zone));
                    }
                    Hold::Granted(_) => {}
                    Hold::Taken => {
                        self.wanted = Some(zone);
                        return Next::Contended;
                    }
                    Hold::TooMany => match self.pick_target() {
                        Some(target) => {
                            self.wanted = Some(target);
                            continue;
                        }
                        None => return Next::Contended,
                    },
                    Hold::Unusable => {
                        unusable += 1;
                        self.advance();
                        continue;
                    }
                }
            }
            let local = &mut self.local[zone as usize];
            if local.managing {
                return Next::Wait;
            }
            if local.held.wp + len <= local.held.capacity {
                let offset = local.held.start + local.held.wp;
                local.held.wp += len;
                local.in_flight += 1;
                if !self.random && local.held.wp + len > local.held.capacity {
                    self.advance();
                }
                return Next::Io(Self::io(Op::Write, DataDir::Write, offset, len, zone));
            }
            // Full with writes in flight: it is let go when they complete.
            if self.random {
                continue;
            }
            self.advance();
        }
        if unusable == attempts { Next::Exhausted } else { Next::Wait }
    }

    fn write_conventional(&mut self, held: Held, len: u64) -> Option<Io> {
        let at = if self.random {
            self.rng.below(held.capacity / len) * len
        } else {
            self.conventional_at
        };
        if at + len > held.capacity {
            self.advance();
            return None;
        }
        self.conventional_at = at + len;
        let offset = held.start + at;
        Some(Io {
            op: Op::Write,
            dir: DataDir::Write,
            offset,
            len,
            zone: None,
            flags: BioFlags::NONE,
        })
    }

    fn trim(&mut self, len: u64) -> Next {
        let zone = self.pick();
        if self.local[zone as usize].is_held {
            return Next::Wait;
        }
        match self.hold(zone) {
            Hold::Granted(held) if held.conventional => {
                self.advance();
                let io = Io {
                    op: Op::Discard,
                    dir: DataDir::Trim,
                    offset: held.start,
                    len,
                    zone: None,
                    flags: BioFlags::NONE,
                };
                Next::Io(io)
            }
            Hold::Granted(_) => {
                self.advance();
                let io = self.manage(Op::ZoneReset, zone);
                self.local[zone as usize].trimmed = true;
                Next::Io(Io { dir: DataDir::Trim, len, ..io })
            }
            Hold::Taken | Hold::TooMany => {
                self.wanted = Some(zone);
                Next::Contended
            }
            Hold::Unusable => Next::Exhausted,
        }
    }

    fn read(&mut self, len: u64) -> Next {
        let count = self.count();
        if self.random {
            self.read_at = (u32::try_from(self.rng.below(u64::from(count))).expect("a u32"), 0);
        }
        for _ in 0..=count {
            let (zone, at) = self.read_at;
            let (start, readable) = self.table.readable(self.first + zone);
            if at + len <= readable {
                let at = if self.random { self.rng.below(readable / len) * len } else { at };
                self.read_at = (zone, at + len);
                let (op, dir, offset) = (Op::Read, DataDir::Read, start + at);
                return Next::Io(Io { op, dir, offset, len, zone: None, flags: BioFlags::NONE });
            }
            self.read_at = ((zone + 1) % count, 0);
        }
        Next::Exhausted
    }

    fn hold(&mut self, zone: u32) -> Hold {
        if self.nr_held >= self.max_held {
            return Hold::TooMany;
        }
        let hold = self.table.hold(self.first + zone, self.id);
        if let Hold::Granted(held) = hold
            && !held.conventional
        {
            self.local[zone as usize] = Local { held, is_held: true, ..Local::default() };
            self.nr_held += 1;
        }
        hold
    }

    fn manage(&mut self, op: Op, zone: u32) -> Io {
        if op == Op::ZoneReset {
            self.table.note_reset(self.first + zone);
        }
        let local = &mut self.local[zone as usize];
        local.managing = true;
        local.in_flight += 1;
        let start = local.held.start;
        Self::io(op, DataDir::Write, start, 0, zone)
    }

    fn io(op: Op, dir: DataDir, offset: u64, len: u64, zone: u32) -> Io {
        Io { op, dir, offset, len, zone: Some(zone), flags: BioFlags::NONE }
    }

    /// One of the job's I/Os in a zone has completed: with the last, the zone is let go, unless a
    /// rest too small for a write has to be closed first.
    pub(super) fn done(&mut self, op: Op, zone: u32) -> Option<Io> {
        let local = &mut self.local[zone as usize];
        local.in_flight -= 1;
        match op {
            Op::ZoneReset => local.held.wp = 0,
            Op::ZoneFinish => local.held.wp = local.held.capacity,
            _ => {}
        }
        if local.in_flight > 0 {
            return None;
        }
        let Held { wp, capacity, .. } = local.held;
        let full = wp + self.write_len > capacity;
        if full && wp < capacity {
            return Some(self.manage(Op::ZoneFinish, zone));
        }
        let leaves = full || local.trimmed;
        *local = Local::default();
        self.nr_held -= 1;
        self.table.release(self.first + zone, wp, leaves);
        None
    }

    /// The job has done its last write: its zones no longer count as being written.
    pub(super) fn finish(&mut self) {
        self.table.leave(self.first..self.first + self.count());
    }
}

#[cfg(test)]
mod tests;
