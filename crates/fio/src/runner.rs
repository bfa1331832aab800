//! What a driver steps: jobs at work.
//!
//! ```text
//!  JobRunner    one clone of a job, on a device
//!  FsRunner     all clones of a job, on one file system    (crate fsmodel)
//! ```
//!
//! Takes the time, step by step; gives I/O to the block layer, and in the end what was measured of
//! each clone. Keeps true: after the last step nothing is in flight.
//!
//! The same runners serve both clocks: on a thread of its own one is stepped without pause, in
//! virtual time whenever something may have happened.
use crate::file_system::FsCounters;
use crate::job::Job;
use crate::stats::IoStats;
use crate::verify::Findings;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use zonal_blk::sched::Scheduler;
use zonal_blk::{Channel, Clock, Nanos, Status};

mod job;
pub mod pace;
pub(crate) mod run_state;
pub(crate) mod verifier;

pub use job::JobRunner;

/// Between two bandwidth samples, as fio's `bwavgtime` and `iopsavgtime`.
pub const SAMPLE_INTERVAL: Nanos = Nanos(500_000_000);

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

/// Jobs at work: a clone of a job on a device, or a file system with all clones of its job.
pub trait Runner: Send {
    /// The job that is run.
    fn job(&self) -> &Arc<Job>;

    /// The clones of the job that are run.
    fn clones(&self) -> u32 {
        1
    }

    /// The scheduler of the device that the job uses.
    fn scheduler(&self) -> Scheduler;

    /// The job's progress, for other threads to read.
    fn progress(&self) -> Arc<Progress>;

    /// Bytes to do; `None` for as many as the time allows.
    fn total(&self) -> Option<u64>;

    /// How long the job may take, ramp included.
    fn time_limit(&self) -> Option<Nanos> {
        let job = self.job();
        job.runtime.map(|runtime| runtime + job.ramp_time + job.startdelay)
    }

    /// Visits the channels that the job's I/O goes through.
    fn for_each_channel(&mut self, visit: &mut dyn FnMut(&mut Channel));

    /// Whether another thread has left a completion, or a write to issue, for this one.
    fn has_mail(&self) -> bool;

    /// Whether the job waits for another to release a zone.
    fn is_contended(&self) -> bool {
        false
    }

    /// Whether the job has I/O outstanding on a queue with a scheduler.
    fn is_scheduled(&self) -> bool;

    /// When the block layer next has something for the job; what others do changes it.
    fn next_event(&mut self) -> Option<Nanos>;

    /// Handles what the device has completed while the thread is at other work, as an interrupt
    /// does: writes that waited in plugs are issued, completions wait for the next step. Returns
    /// whether there was anything. The CPU time of a file system's processes is in its model, so
    /// its thread is never at other work.
    fn interrupt(&mut self, _now: Nanos) -> bool {
        false
    }

    /// When there will be something for [`Runner::interrupt`], if that is known.
    fn next_interrupt(&mut self) -> Option<Nanos> {
        None
    }

    /// Asks the job to end early, as at the end of its run time.
    fn stop(&mut self);

    /// What was measured of each clone, in their order.
    fn into_outcomes(self: Box<Self>) -> Vec<Outcome>;
}

/// A runner that a driver with the clock `C` can step.
pub trait SteppedBy<C: Clock>: Runner {
    /// Does what there is to do at the clock's time.
    fn step(&mut self, clock: &C) -> Step;
}
