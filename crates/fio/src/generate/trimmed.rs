//! The writes of jobs that write what they trim (`trimwrite`, `randtrimwrite`).
//!
//! A write follows its trim when that has completed, so that it cannot be overtaken. As in fio, random
//! ones write the trimmed block; sequential ones follow one another, until one begins where the last
//! trim began: with shorter blocks than those of trims several follow each trim.
use super::{Io, NextIo, Pattern, Region};
use crate::job::{BlockSizes, DataDir, Job};
use zonal_blk::{BioFlags, Op};

/// [`Io::zone`] of a trim that a write waits for: no number of a zone.
const TRIM: u32 = u32::MAX - 1;

pub(super) struct Trimmed {
    random: bool,
    region: Region,
    /// The length of sequential writes; `None` for that of their trims.
    len: Option<u64>,
    /// Offset of the next sequential write.
    at: u64,
    /// Sequential writes start over alone at the end of the region: a job that runs for a time.
    wraps: bool,
    /// The last trim.
    trim: Io,
    /// A write is due: none has begun where the last trim did.
    due: bool,
    in_flight: bool,
}

impl Trimmed {
    pub(super) fn new(job: &Job, region: Region) -> Self {
        let write = DataDir::Write as usize;
        let fixed = job.address.sizes[write] == BlockSizes::Fixed;
        let (op, dir, flags) = (Op::Discard, DataDir::Trim, BioFlags::NONE);
        Trimmed {
            random: job.random,
            region,
            len: (fixed && !job.random).then_some(job.bs[write]),
            at: region.start,
            wraps: job.time_based && !job.random,
            trim: Io { op, dir, offset: region.start, len: 0, zone: None, flags },
            due: false,
            in_flight: false,
        }
    }

    /// The action before the next trim.
    pub(super) fn next(&mut self, pattern: &mut Pattern) -> Option<NextIo> {
        if !self.due {
            return None;
        }
        if self.in_flight {
            return Some(NextIo::Wait);
        }
        let len = self.len.unwrap_or(self.trim.len);
        if self.wraps && self.at + len > self.region.end {
            self.at = self.region.start;
        }
        let offset = if self.random { self.trim.offset } else { self.at };
        if let Pattern::Zbd(zbd) = pattern {
            let next = zbd.write_at(offset, len);
            self.due = !matches!(next, NextIo::Io(_));
            return Some(next);
        }
        if offset + len > self.region.end {
            return Some(NextIo::EndOfPass);
        }
        self.at = offset + len;
        self.due = offset != self.trim.offset;
        let (op, dir, flags) = (Op::Write, DataDir::Write, BioFlags::NONE);
        Some(NextIo::Io(Io { op, dir, offset, len, zone: None, flags }))
    }

    /// This trim is next. Returns it as it is to be submitted.
    pub(super) fn trims(&mut self, io: Io) -> Io {
        (self.trim, self.due, self.in_flight) = (io, true, true);
        Io { zone: io.zone.or(Some(TRIM)), ..io }
    }

    /// An I/O with [`Io::zone`] has completed. Returns whether the generator needs to know no more.
    pub(super) fn done(&mut self, op: Op, zone: u32) -> bool {
        if matches!(op, Op::Discard | Op::ZoneReset) {
            self.in_flight = false;
        }
        zone == TRIM
    }

    /// Starts at the begin of the region again.
    pub(super) fn rewind(&mut self) {
        (self.at, self.due) = (self.region.start, false);
    }
}
