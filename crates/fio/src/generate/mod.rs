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
mod zbd;
mod zbd_job;

pub use randomio::Randomio;
pub(crate) use region::file_bytes;
pub use region::{FilePlace, Region, RegionError};
pub use zbd::ZbdTable;

use crate::job::{DataDir, Job, PatternProgram, Rw, ZoneMode};
use crate::rng::Rng;
use crate::trace::TraceSlice;
use addresses::{Addresses, Lengths};
use files::Files;
use layout::Layout;
use linear::Linear;
use replay::Replay;
use std::sync::Arc;
use zbd_job::ZbdJob;
use zonal_blk::{BioFlags, Nanos, Op};

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

/// What to do next.
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
    /// There is no zone to write to, or nothing to read.
    Exhausted,
}

enum Pattern {
    Linear(Linear),
    Addresses(Box<Addresses>),
    Files(Box<Files>),
    Zbd(ZbdJob),
    Replay(Replay),
    Randomio(Randomio),
}

/// The writes of [`Rw::TrimWrite`]. As in fio, they follow one another up to the start of the last
/// trim; the next trim comes after that.
struct Trimmed {
    /// Offset of the next write.
    at: u64,
    /// Length of writes.
    len: u64,
    /// Offset of the last trim.
    trim: u64,
    /// The write at that offset has not been issued.
    due: bool,
}

impl Trimmed {
    fn write(&mut self) -> Option<Io> {
        if !std::mem::replace(&mut self.due, self.at < self.trim) {
            return None;
        }
        let offset = self.at;
        self.at += self.len;
        let (op, dir, flags) = (Op::Write, DataDir::Write, BioFlags::NONE);
        Some(Io { op, dir, offset, len: self.len, zone: None, flags })
    }
}

/// The I/Os of one clone of a job.
pub struct Generator {
    rw: Rw,
    random: bool,
    bs: [u64; 3],
    /// With `zonemode=zbd` and several block sizes.
    lengths: Option<Box<Lengths>>,
    rwmixread: u64,
    rng: Rng,
    pattern: Pattern,
    /// The direction of all I/Os, if they have one, and one length, and nothing comes between them.
    only: Option<DataDir>,
    /// Direction of the I/O that [`NextIo::Wait`] or [`NextIo::Contended`] deferred.
    deferred: Option<DataDir>,
    /// With [`Rw::TrimWrite`], the last trim.
    trimmed: Option<Trimmed>,
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
        let pattern = match (job.zonemode, Layout::new(job, clone)) {
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
                Pattern::Zbd(ZbdJob::new(job, region, table, zone_size, id, rng(1)))
            }
        };
        let zbd_varies = job.zonemode == ZoneMode::Zbd && Addresses::needed(job);
        let only = match job.rw {
            Rw::Read => Some(DataDir::Read),
            Rw::Write => Some(DataDir::Write),
            Rw::Trim => Some(DataDir::Trim),
            Rw::TrimWrite | Rw::Mixed => None,
        };
        Generator {
            only: only.filter(|_| !zbd_varies),
            rw: job.rw,
            random: job.random,
            bs: job.bs,
            lengths: zbd_varies.then(|| Box::new(Lengths::new(job, region.lba, rng(3)))),
            rwmixread: u64::from(job.rwmixread),
            rng: rng(0),
            pattern,
            deferred: None,
            trimmed: None,
        }
    }

    /// Replays a trace, as many times as the job has loops.
    pub fn replay(job: &Job, trace_slice: TraceSlice) -> Self {
        let passes = if job.time_based { u64::MAX } else { job.loops };
        Generator {
            only: None,
            rw: job.rw,
            random: job.random,
            bs: job.bs,
            lengths: None,
            rwmixread: u64::from(job.rwmixread),
            rng: Rng::new(0, [0; 4]),
            pattern: Pattern::Replay(Replay::new(trace_slice, passes)),
            deferred: None,
            trimmed: None,
        }
    }

    /// What to do next.
    #[inline(always)]
    pub fn next_io(&mut self) -> NextIo {
        match (self.only, &mut self.pattern) {
            (Some(dir), Pattern::Zbd(zbd)) => zbd.next(dir, self.bs[dir as usize]),
            (Some(dir), Pattern::Linear(linear)) => {
                NextIo::Io(linear.next(dir, self.bs[dir as usize]))
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
        if let Some(io) = self.trimmed.as_mut().and_then(Trimmed::write) {
            return NextIo::Io(io);
        }
        let dir = self.deferred.take().unwrap_or_else(|| self.direction());
        let len = match &mut self.lengths {
            None => self.bs[dir as usize],
            Some(lengths) => lengths.next(dir, u64::MAX),
        };
        let next = match &mut self.pattern {
            Pattern::Linear(linear) => NextIo::Io(linear.next(dir, len)),
            Pattern::Addresses(addresses) => NextIo::Io(addresses.next(dir)),
            Pattern::Files(files) => NextIo::Io(files.next(dir, len)),
            Pattern::Zbd(zbd) => zbd.next(dir, len),
            Pattern::Replay(_) | Pattern::Randomio(_) => unreachable!("returned above"),
        };
        match next {
            NextIo::Io(Io { offset, .. }) if self.rw == Rw::TrimWrite => {
                let len = self.bs[DataDir::Write as usize];
                let next = |trimmed: &Trimmed| (trimmed.trim < offset).then_some(trimmed.at);
                let at = self.trimmed.as_ref().and_then(next).filter(|_| !self.random);
                self.trimmed =
                    Some(Trimmed { at: at.unwrap_or(offset), len, trim: offset, due: true });
            }
            NextIo::Io(_) => {}
            _ => self.deferred = Some(dir),
        }
        next
    }

    fn direction(&mut self) -> DataDir {
        match self.rw {
            Rw::Read => DataDir::Read,
            Rw::Write => DataDir::Write,
            Rw::Trim | Rw::TrimWrite => DataDir::Trim,
            Rw::Mixed if self.rng.below(100) < self.rwmixread => match &self.pattern {
                Pattern::Zbd(zbd) if self.rwmixread < 100 => zbd.instead_of_read(),
                _ => DataDir::Read,
            },
            Rw::Mixed => DataDir::Write,
        }
    }

    /// An I/O with [`Io::zone`] has completed. Returns the zone's reset or finish that is due, if any.
    #[inline]
    pub fn done(&mut self, op: Op, zone: u32) -> Option<Io> {
        match &mut self.pattern {
            Pattern::Zbd(zbd) => zbd.done(op, zone),
            _ => None,
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
