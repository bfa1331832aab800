//! The I/O of Dean Gaudet's randomio: random blocks, a fraction of them writes, a fraction of the
//! writes followed by a flush.
use super::{Io, NextIo, Region, op_of};
use crate::job::{DataDir, Fraction, Job};
use crate::rng::Rng;
use crate::trace::Request;
use zonal_blk::{BioFlags, Nanos, Op};

/// The I/Os of one thread.
pub struct Randomio {
    region: Region,
    bs: [u64; 3],
    /// Alignment of offsets in bytes; 0 for the block size.
    align: u64,
    /// A random number below [`Fraction::ONE`] squared is a write if it is below this,
    writes: u64,
    /// and a write with a flush if it is below this.
    fsyncs: u64,
    flush: bool,
    rng: Rng,
}

impl Randomio {
    /// The I/Os of a clone of `job`.
    pub fn new(job: &Job, region: Region, rng: Rng) -> Self {
        let writes = job.pattern.writes.unwrap_or(Fraction::HALF).millionths();
        let fsyncs = job.pattern.fsyncs.unwrap_or_default().millionths();
        Randomio {
            region,
            bs: job.bs,
            align: job.pattern.align.unwrap_or(0),
            writes: writes * Fraction::ONE,
            fsyncs: writes * fsyncs,
            flush: false,
            rng,
        }
    }

    /// The next I/O. As in randomio, one random number decides both write and flush.
    pub(super) fn next(&mut self) -> NextIo {
        if std::mem::take(&mut self.flush) {
            let (op, dir, flags) = (Op::Flush, DataDir::Write, BioFlags::NONE);
            return NextIo::Manage(Io { op, dir, offset: 0, len: 0, zone: None, flags });
        }
        let drawn = self.rng.below(Fraction::ONE * Fraction::ONE);
        let dir = if drawn < self.writes { DataDir::Write } else { DataDir::Read };
        self.flush = drawn < self.fsyncs;
        let len = self.bs[dir as usize];
        let align = if self.align == 0 { len } else { self.align };
        let offsets = (self.region.len() - len) / align + 1;
        let offset = self.region.start + self.rng.below(offsets) * align;
        NextIo::Io(Io { op: op_of(dir), dir, offset, len, zone: None, flags: BioFlags::NONE })
    }

    /// The next `count` I/Os, not counting flushes, as requests of a pattern file.
    pub fn requests(mut self, count: usize) -> Vec<Request> {
        let mut requests = Vec::new();
        let mut left = count;
        while left > 0 || self.flush {
            let (NextIo::Io(io) | NextIo::Manage(io)) = self.next() else {
                unreachable!("randomio never waits")
            };
            left -= usize::from(io.op != Op::Flush);
            let line = u32::try_from(requests.len() + 3).unwrap_or(u32::MAX);
            let Io { op, offset, len, flags, .. } = io;
            requests.push(Request { at: Nanos(0), offset, len, line, file: 0, op, flags });
        }
        requests
    }
}
