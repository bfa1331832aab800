//! What a driver steps: jobs at work.
//!
//! ```text
//!  Runner::Job          one clone of a job, on a device            (job)
//!  Runner::FileSystem   all clones of a job, on one file system    (crate::fs)
//! ```
//!
//! Takes the time, step by step; gives I/O to the block layer, and in the end what was measured of
//! each clone. Keeps true: after the last step nothing is in flight.
//!
//! The same runners serve both clocks: on a thread of its own one is stepped without pause, in
//! virtual time whenever something may have happened.
use crate::fs::{FsCounters, FsRunner};
use crate::job::Job;
use crate::stats::IoStats;
use crate::verify::Findings;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use zonal_blk::sched::Scheduler;
use zonal_blk::{Nanos, Status};

pub(crate) mod duty;
mod job;
pub(crate) mod pace;
pub(crate) mod verifier;

pub use job::JobRunner;

/// Between two bandwidth samples, as fio's `bwavgtime` and `iopsavgtime`.
pub(crate) const SAMPLE_INTERVAL: Nanos = Nanos(500_000_000);

/// Where the runner reads the time.
pub trait Clock {
    /// Whether the driver says how long the thread works. A step then completes, or submits once,
    /// so that the one takes its time before the other happens; it completes nothing before the
    /// queue is full again.
    const CHARGES: bool = false;

    /// The time since the run began.
    fn now(&self) -> Nanos;
}

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Something was done: step again. So many I/Os were submitted and completed.
    Busy {
        /// I/Os that cost the thread time.
        ios: u32,
        /// Their length in bytes.
        bytes: u64,
    },
    /// There is nothing to do before this time, or before another thread does something
    /// for this one ([`Runner::has_mail`], [`Runner::is_contended`]).
    Wait(Option<Nanos>),
    /// All is done and accounted for.
    Done,
}

/// A job's progress for other threads to see.
#[derive(Debug, Default)]
pub struct Progress {
    /// I/Os completed.
    pub ios: AtomicU64,
    /// Bytes completed.
    pub bytes: AtomicU64,
}

/// What was measured of a clone.
#[derive(Debug)]
pub struct Outcome {
    /// The statistics.
    pub stats: IoStats,
    /// The status of the first I/O that failed, if any.
    pub error: Option<Status>,
    /// What was wrong with the data that was read.
    pub findings: Findings,
    /// The thread that ran the job; 0 in virtual time.
    pub thread_id: u32,
    /// What the file system did below, with the first of its clones.
    pub file_system: Option<Box<FsCounters>>,
}

/// Something to be stepped.
pub enum Runner {
    /// A clone of a job.
    Job(Box<JobRunner>),
    /// A file system with all clones of its job.
    FileSystem(Box<FsRunner>),
}

impl Runner {
    /// Does what there is to do at the clock's time.
    pub fn step(&mut self, clock: &impl Clock) -> Step {
        match self {
            Runner::Job(job) => job.step(clock),
            Runner::FileSystem(fs) => fs.step(clock),
        }
    }

    /// Whether another thread has left a completion, or a write to issue, for this one.
    pub fn has_mail(&self) -> bool {
        match self {
            Runner::Job(job) => job.has_mail(),
            Runner::FileSystem(fs) => fs.has_mail(),
        }
    }

    /// Whether the job waits for another to let go of a zone.
    pub fn is_contended(&self) -> bool {
        match self {
            Runner::Job(job) => job.is_contended(),
            Runner::FileSystem(_) => false,
        }
    }

    /// Whether the job has I/O outstanding on a queue with a scheduler.
    pub fn is_scheduled(&self) -> bool {
        match self {
            Runner::Job(job) => job.is_scheduled(),
            Runner::FileSystem(fs) => fs.is_scheduled(),
        }
    }

    /// When the block layer next has something for the job; what others do changes it.
    pub fn next_event(&mut self) -> Option<Nanos> {
        match self {
            Runner::Job(job) => job.next_interrupt(),
            Runner::FileSystem(fs) => fs.next_event(),
        }
    }

    /// Asks the job to end early, as at the end of its run time.
    pub fn stop(&mut self) {
        match self {
            Runner::Job(job) => job.stop(),
            Runner::FileSystem(fs) => fs.stop(),
        }
    }

    /// The scheduler of the device that the job uses.
    pub fn scheduler(&self) -> Scheduler {
        match self {
            Runner::Job(job) => job.scheduler(),
            Runner::FileSystem(fs) => fs.scheduler(),
        }
    }

    /// Takes what the device has done while the thread is at other work, as an interrupt does:
    /// writes that waited in plugs go out, what has completed waits for the next step. Whether
    /// there was anything.
    pub fn interrupt(&mut self, now: Nanos) -> bool {
        match self {
            Runner::Job(job) => job.interrupt(now),
            // What its processes do at other times is in the model: the thread is never at work.
            Runner::FileSystem(_) => false,
        }
    }

    /// When there will be something for [`Runner::interrupt`], if that is known.
    pub fn next_interrupt(&mut self) -> Option<Nanos> {
        match self {
            Runner::Job(job) => job.next_interrupt(),
            Runner::FileSystem(_) => None,
        }
    }

    /// The job that is run.
    pub fn job(&self) -> &Arc<Job> {
        match self {
            Runner::Job(job) => job.job(),
            Runner::FileSystem(fs) => fs.job(),
        }
    }

    /// The clones of the job that are run.
    pub fn clones(&self) -> u32 {
        match self {
            Runner::Job(_) => 1,
            Runner::FileSystem(fs) => fs.job().numjobs,
        }
    }

    /// The job's progress, to look at from elsewhere.
    pub fn progress(&self) -> Arc<Progress> {
        match self {
            Runner::Job(job) => job.progress(),
            Runner::FileSystem(fs) => fs.progress(),
        }
    }

    /// Bytes to do; `None` for as many as the time allows.
    pub fn total(&self) -> Option<u64> {
        match self {
            Runner::Job(job) => job.total(),
            Runner::FileSystem(fs) => fs.total(),
        }
    }

    /// How long the job may take, ramp included.
    pub fn time_limit(&self) -> Option<Nanos> {
        let job = self.job();
        job.runtime.map(|runtime| runtime + job.ramp_time + job.startdelay)
    }

    /// What was measured of each clone, in their order.
    pub fn into_outcomes(self) -> Vec<Outcome> {
        match self {
            Runner::Job(job) => vec![job.into_outcome()],
            Runner::FileSystem(fs) => fs.into_outcomes(),
        }
    }
}
