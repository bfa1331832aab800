//! What a job does next: direction, offset, length.
//!
//! Takes a job, its region and, for `zonemode=zbd`, the zones that all jobs share; gives one I/O at
//! a time. Keeps true: the same seed gives the same I/Os, whatever else runs.
mod linear;
pub mod random;
mod randomio;
pub mod region;
mod replay;
pub mod zbd;
mod zbd_job;

use crate::job::{DataDir, Job, Rw, ZoneMode};
use crate::trace::{PatternProgram, TraceSlice};
use linear::Linear;
use random::Rng;
pub use randomio::Randomio;
pub use region::{Region, RegionError};
use replay::Replay;
pub use replay::SequentialZones;
use std::sync::Arc;
pub use zbd::ZbdTable;
use zbd_job::ZbdJob;
use zonal_blk::{BioFlags, Nanos, Op};

/// One I/O to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// The operation.
    pub op: Op,
    /// The direction that it counts for.
    pub dir: DataDir,
    /// First byte.
    pub offset: u64,
    /// Bytes that it counts for.
    pub len: u64,
    /// Give it back to [`Generator::done`] when the I/O has completed.
    pub zone: Option<u32>,
    /// Modifiers.
    pub flags: BioFlags,
}

/// What a generator has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextIo {
    /// Do this.
    Io(Io),
    /// Do this first: it prepares or closes a zone and does not count.
    Manage(Io),
    /// Nothing before this time after the job's begin.
    Later(Nanos),
    /// Nothing before one of the job's own I/Os completes.
    Wait,
    /// Another job has I/O in the zone that is wanted: nothing before all of the job's own I/Os
    /// have completed and the other has let go (as fio does when it meets a locked zone).
    Contended,
    /// There is nothing to do: no zone to write to, or nothing to read.
    Exhausted,
}

enum Pattern {
    Linear(Linear),
    Zbd(ZbdJob),
    Replay(Replay),
    Randomio(Randomio),
}

/// The I/Os of one clone of a job.
pub struct Generator {
    rw: Rw,
    bs: [u64; 3],
    rwmixread: u64,
    rng: Rng,
    pattern: Pattern,
    /// What [`NextIo::Wait`] or [`NextIo::Contended`] put off.
    put_off: Option<DataDir>,
}

impl Generator {
    /// The I/Os of the clone that is number `id` of all that share `zbd`. `seed` and `stream`, which
    /// differs from clone to clone, choose the random numbers.
    ///
    /// # Panics
    /// If the job is for `zonemode=zbd` and there is no table of zones.
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
        let pattern = match job.zonemode {
            _ if job.pattern.program == Some(PatternProgram::Randomio) => {
                Pattern::Randomio(Randomio::new(job, region, rng(1)))
            }
            ZoneMode::None => Pattern::Linear(Linear::new(job, region, rng(1))),
            ZoneMode::Zbd => {
                let table = zbd.expect("a job for zones has their table");
                Pattern::Zbd(ZbdJob::new(job, region, table, zone_size, id, rng(1)))
            }
        };
        Generator {
            rw: job.rw,
            bs: job.bs,
            rwmixread: u64::from(job.rwmixread),
            rng: rng(0),
            pattern,
            put_off: None,
        }
    }

    /// The requests of a trace, as often as the job has loops.
    pub fn replay(job: &Job, share: TraceSlice) -> Self {
        let passes = if job.time_based { u64::MAX } else { job.loops };
        Generator {
            rw: job.rw,
            bs: job.bs,
            rwmixread: u64::from(job.rwmixread),
            rng: Rng::new(0, [0; 4]),
            pattern: Pattern::Replay(Replay::new(share, passes)),
            put_off: None,
        }
    }

    /// The next thing to do.
    pub fn next_io(&mut self) -> NextIo {
        match &mut self.pattern {
            Pattern::Replay(replay) => return replay.next(),
            Pattern::Randomio(randomio) => return randomio.next(),
            Pattern::Linear(_) | Pattern::Zbd(_) => {}
        }
        let dir = self.put_off.take().unwrap_or_else(|| self.direction());
        let len = self.bs[dir as usize];
        let next = match &mut self.pattern {
            Pattern::Linear(linear) => NextIo::Io(linear.next(dir, len)),
            Pattern::Zbd(zbd) => zbd.next(dir, len),
            Pattern::Replay(_) | Pattern::Randomio(_) => unreachable!("they chose already"),
        };
        if !matches!(next, NextIo::Io(_)) {
            self.put_off = Some(dir);
        }
        next
    }

    fn direction(&mut self) -> DataDir {
        match self.rw {
            Rw::Read => DataDir::Read,
            Rw::Write => DataDir::Write,
            Rw::Trim => DataDir::Trim,
            Rw::Mixed if self.rng.below(100) < self.rwmixread => DataDir::Read,
            Rw::Mixed => DataDir::Write,
        }
    }

    /// An I/O with [`Io::zone`] has completed. Gives what is to be done to the zone now, if
    /// anything.
    pub fn done(&mut self, op: Op, zone: u32) -> Option<Io> {
        match &mut self.pattern {
            Pattern::Zbd(zbd) => zbd.done(op, zone),
            _ => None,
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
