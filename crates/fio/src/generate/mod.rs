//! I/O generators: direction, offset and length of a job's next I/O.
//!
//! The same seed gives the same I/Os, whatever else runs; with `zonemode=zbd` the zones are shared
//! by all jobs.
mod addresses;
mod distribution;
mod files;
mod layout;
mod linear;
mod random_map;
mod randomio;
mod region;
mod replay;
mod trimmed;
mod zbd;
mod zbd_job;

pub use randomio::Randomio;
pub(crate) use region::file_bytes;
pub use region::{FilePlace, Region, RegionError};
pub use zbd::ZbdTable;

use crate::job::{DataDir, Job, PatternProgram, Rw, ZoneMode};
use crate::mistake::mistake;
use crate::rng::Rng;
use crate::trace::TraceSlice;
use addresses::Addresses;
use files::Files;
use layout::Layout;
use linear::Linear;
use replay::Replay;
use std::sync::Arc;
use trimmed::Trimmed;
use zbd_job::ZbdJob;
use zonal_blk::{BioFlags, Device, Nanos, Op};

/// One I/O to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// The operation.
    pub op: Op,
    /// The direction that it is accounted to.
    pub dir: DataDir,
    /// First byte.
    pub offset: u64,
    /// Bytes that it is accounted with.
    pub len: u64,
    /// To be passed to [`Generator::done`] when the I/O has completed.
    pub zone: Option<u32>,
    /// Modifiers.
    pub flags: BioFlags,
}

/// The next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextIo {
    /// Submit this I/O.
    Io(Io),
    /// Submit this first: a reset, finish or flush that is not counted as I/O of the job.
    Manage(Io),
    /// Nothing before this time since the start of the job.
    Later(Nanos),
    /// Nothing until one of the job's own I/Os completes.
    Wait,
    /// Another job has I/O in the zone: nothing until all of the job's own I/Os have completed and
    /// the other job has released the zone (as in fio, which waits for the zone's lock).
    Contended,
    /// What has been written is to be verified first, with [`Generator::verified`].
    Verify,
    /// The end of the region: nothing more before [`Generator::rewind`].
    EndOfPass,
    /// Nothing can be done, now or later; [`Generator::problem`] says why.
    Exhausted,
}

enum Pattern {
    Linear(Linear),
    Addresses(Box<Addresses>),
    Files(Box<Files>),
    Zbd(Box<ZbdJob>),
    Replay(Replay),
    Randomio(Randomio),
}

impl Pattern {
    /// The next I/O of a direction, with `len` bytes if there is one block size.
    fn next(&mut self, dir: DataDir, len: u64) -> NextIo {
        let io = match self {
            Pattern::Linear(linear) => linear.next(dir, len),
            Pattern::Addresses(addresses) => addresses.next(dir),
            Pattern::Files(files) => Some(files.next(dir, len)),
            Pattern::Zbd(zbd) => return zbd.next(dir, len),
            Pattern::Replay(_) | Pattern::Randomio(_) => unreachable!("they have an order"),
        };
        io.map_or(NextIo::EndOfPass, NextIo::Io)
    }

    fn rewind(&mut self) {
        match self {
            Pattern::Linear(linear) => linear.rewind(),
            Pattern::Addresses(addresses) => addresses.rewind(),
            Pattern::Zbd(zbd) => zbd.rewind(),
            Pattern::Files(_) | Pattern::Replay(_) | Pattern::Randomio(_) => {}
        }
    }
}

/// The I/Os of one clone of a job.
pub struct Generator {
    rw: Rw,
    bs: [u64; 3],
    rwmixread: u64,
    due: [bool; 2],
    rng: Rng,
    pattern: Pattern,
    /// The direction of all I/Os, if they have one, and one length, and nothing comes between them.
    only: Option<DataDir>,
    /// Direction of the I/O that [`NextIo::Wait`] or [`NextIo::Contended`] deferred.
    deferred: Option<DataDir>,
    /// With [`Rw::TrimWrite`], the last trim.
    trimmed: Option<Box<Trimmed>>,
}

impl Generator {
    /// The I/Os of one clone. `id` is unique among the clones that share `zbd`; `seed` and `stream`,
    /// which differs from clone to clone, determine the random numbers.
    ///
    /// # Panics
    /// If the job has `zonemode=zbd` and `zbd` is `None`.
    pub fn new(
        job: &Job,
        region: Region,
        zbd: Option<Arc<ZbdTable>>,
        zone_size: u64,
        id: u32,
        seed: u64,
        stream: [u64; 3],
    ) -> Self {
        let rng = |purpose| Rng::new(seed, [stream[0], stream[1], stream[2], purpose]);
        let clone = u32::try_from(stream[2]).expect("clones are counted in u32");
        let zonemode = if job.reads_anywhere() { ZoneMode::None } else { job.zonemode };
        let pattern = match (zonemode, Layout::new(job, clone)) {
            (_, Some(layout)) => {
                let rng = |purpose, file| {
                    Rng::new(seed ^ file, [stream[0], stream[1], stream[2], purpose])
                };
                Pattern::Files(Box::new(Files::new(job, region, &layout, rng)))
            }
            (_, None) if job.pattern.program == Some(PatternProgram::Randomio) => {
                Pattern::Randomio(Randomio::new(job, region, rng(1)))
            }
            (ZoneMode::None | ZoneMode::Strided, None) if Addresses::needed(job) => {
                Pattern::Addresses(Box::new(Addresses::new(job, region, rng(1), rng(3))))
            }
            (ZoneMode::None | ZoneMode::Strided, None) => {
                Pattern::Linear(Linear::new(job, region, rng(1)))
            }
            (ZoneMode::Zbd, None) => {
                let table = zbd.expect("zonemode=zbd needs the table of zones");
                let streams = (rng(1), rng(3));
                Pattern::Zbd(Box::new(ZbdJob::new(job, region, table, zone_size, id, streams)))
            }
        };
        let only = match job.rw {
            Rw::Read => Some(DataDir::Read),
            Rw::Write => Some(DataDir::Write),
            Rw::Trim => Some(DataDir::Trim),
            Rw::TrimWrite | Rw::Mixed => None,
        };
        Generator {
            only,
            rw: job.rw,
            bs: job.bs,
            rwmixread: match u64::from(job.rwmixread) {
                reads if mistake!(DirectionsSwapped) => 100 - reads,
                reads => reads,
            },
            due: [true; 2],
            rng: rng(0),
            pattern,
            deferred: None,
            trimmed: (job.rw == Rw::TrimWrite).then(|| Box::new(Trimmed::new(job, region))),
        }
    }

    /// Replays a trace, as many times as the job has loops.
    pub fn replay(job: &Job, trace_slice: TraceSlice) -> Self {
        let passes = if job.time_based { u64::MAX } else { job.loops };
        Generator {
            only: None,
            rw: job.rw,
            bs: job.bs,
            rwmixread: u64::from(job.rwmixread),
            due: [true; 2],
            rng: Rng::new(0, [0; 4]),
            pattern: Pattern::Replay(Replay::new(trace_slice, passes)),
            deferred: None,
            trimmed: None,
        }
    }

    /// The next action.
    #[inline(always)]
    pub fn next_io(&mut self) -> NextIo {
        match (self.only, &mut self.pattern) {
            (Some(dir), Pattern::Zbd(zbd)) => zbd.next(dir, self.bs[dir as usize]),
            (Some(dir), Pattern::Linear(linear)) => {
                linear.next(dir, self.bs[dir as usize]).map_or(NextIo::EndOfPass, NextIo::Io)
            }
            _ => self.next_of_any(),
        }
    }

    /// The same for every kind of job.
    #[inline(never)]
    fn next_of_any(&mut self) -> NextIo {
        match &mut self.pattern {
            Pattern::Replay(replay) => return replay.next(),
            Pattern::Randomio(randomio) => return randomio.next(),
            Pattern::Linear(_) | Pattern::Addresses(_) | Pattern::Files(_) | Pattern::Zbd(_) => {}
        }
        let dir = match &mut self.trimmed {
            Some(trimmed) => match trimmed.next(&mut self.pattern) {
                None => DataDir::Trim,
                Some(next) => return next,
            },
            None => self.deferred.take().unwrap_or_else(|| self.direction()),
        };
        let next = self.pattern.next(dir, self.bs[dir as usize]);
        let NextIo::Io(io) = next else {
            self.deferred = Some(dir);
            return next;
        };
        if let Some(trimmed) = &mut self.trimmed {
            return NextIo::Io(trimmed.trims(io));
        }
        next
    }

    /// Begins at the start of the region again, after [`NextIo::EndOfPass`].
    pub fn rewind(&mut self) {
        self.pattern.rewind();
        self.deferred = None;
        if let Some(trimmed) = &mut self.trimmed {
            trimmed.rewind();
        }
    }

    /// After [`NextIo::EndOfPass`]: whether that is so because each random block has been visited.
    pub fn has_visited_all(&self) -> bool {
        match &self.pattern {
            Pattern::Linear(linear) => linear.has_visited_all(),
            Pattern::Addresses(addresses) => addresses.has_visited_all(),
            _ => false,
        }
    }

    /// Whether where the job writes, with this many I/Os in flight, depends on which of them have completed.
    pub fn goes_by_completions(&self, iodepth: u32) -> bool {
        match &self.pattern {
            Pattern::Zbd(zbd) => zbd.goes_by_completions(iodepth),
            _ => false,
        }
    }

    /// As in fio, the zones are not reset at the start of the next pass while a batch of `verify_backlog` has reads
    /// left.
    pub fn leave_zones(&mut self) {
        if let Pattern::Zbd(zbd) = &mut self.pattern {
            zbd.leave_zones();
        }
    }

    /// Whether a zone was reset or finished for a write that has not followed yet.
    pub fn is_prepared(&self) -> bool {
        match &self.pattern {
            Pattern::Zbd(zbd) => zbd.is_prepared(),
            _ => false,
        }
    }

    /// Why nothing can be done, if the generator knows.
    pub fn problem(&self) -> Option<&str> {
        match &self.pattern {
            Pattern::Zbd(zbd) => zbd.problem(),
            _ => None,
        }
    }

    /// Text that says what the clone waits for while others hold it.
    pub fn waits_for(&self) -> Option<String> {
        match &self.pattern {
            Pattern::Zbd(zbd) => Some(zbd.waits_for()),
            _ => None,
        }
    }

    /// Of a job that reads and writes, which of the directions are due: one that is not is left to the
    /// other.
    #[inline]
    pub fn set_due(&mut self, due: [bool; 2]) {
        self.due = due;
    }

    fn reads_next(&mut self) -> bool {
        let drawn = self.rng.below(100) < self.rwmixread;
        match self.due {
            [true, false] if self.rwmixread > 0 => true,
            [false, true] if self.rwmixread < 100 => false,
            _ => drawn,
        }
    }

    fn direction(&mut self) -> DataDir {
        match self.rw {
            Rw::Read => DataDir::Read,
            Rw::Write => DataDir::Write,
            Rw::Trim | Rw::TrimWrite => DataDir::Trim,
            Rw::Mixed => {
                let reads = self.reads_next();
                match &self.pattern {
                    _ if !reads => DataDir::Write,
                    Pattern::Zbd(zbd) if self.rwmixread < 100 => zbd.instead_of_read(),
                    _ => DataDir::Read,
                }
            }
        }
    }

    /// An I/O with [`Io::zone`] has completed. Returns the zone's reset or finish that is due, if any.
    #[inline]
    pub fn done(&mut self, op: Op, zone: u32) -> Option<Io> {
        if let Some(trimmed) = &mut self.trimmed
            && trimmed.done(op, zone)
        {
            return None;
        }
        match &mut self.pattern {
            Pattern::Zbd(zbd) => zbd.done(op, zone),
            _ => None,
        }
    }

    /// Has a job with `recover_zbd_write_error` ask the device where write pointers are.
    pub fn recover_from(&mut self, device: &Arc<dyn Device>) {
        if let Pattern::Zbd(zbd) = &mut self.pattern {
            zbd.recover_from(Arc::clone(device));
        }
    }

    /// An I/O with [`Io::zone`] has failed; [`Generator::done`] follows.
    #[cold]
    pub fn failed(&mut self, op: Op, zone: u32) {
        if let Pattern::Zbd(zbd) = &mut self.pattern
            && matches!(op, Op::Write | Op::ZoneAppend)
        {
            zbd.failed(zone);
        }
    }

    /// Whether [`Generator::next_io`] would find the zone that it waits for taken, as before, and change
    /// nothing.
    pub fn is_blocked(&self) -> bool {
        match &self.pattern {
            // Others draw a length or a direction first.
            Pattern::Zbd(zbd) if self.only.is_some() => zbd.is_blocked(),
            _ => false,
        }
    }

    /// After [`NextIo::Verify`]: this read for verification is next, or there is none left.
    #[cold]
    pub fn verified(&mut self, read: Option<&Io>) {
        if read.is_some() {
            // As in fio, the direction is drawn again.
            self.deferred = None;
        }
        if let Pattern::Zbd(zbd) = &mut self.pattern {
            zbd.verified(read);
        }
    }

    /// How often the clone has released a zone to others.
    pub fn releases(&self) -> u64 {
        match &self.pattern {
            Pattern::Zbd(zbd) => zbd.releases(),
            _ => 0,
        }
    }

    /// The job has submitted its last I/O and all have completed.
    pub fn finish(&mut self) {
        if let Pattern::Zbd(zbd) = &mut self.pattern {
            zbd.finish();
        }
    }
}

fn op_of(dir: DataDir) -> Op {
    match dir {
        DataDir::Read => Op::Read,
        DataDir::Write => Op::Write,
        DataDir::Trim => Op::Discard,
    }
}
