//! Runners: jobs being executed, step by step.
//!
//! ```text
//!  JobRunner    one clone of a job, on a device
//!  FsRunner     all clones of a job, on one file system    (crate fsmodel)
//! ```
//!
//! The same runners serve both clocks: on a thread of its own a runner is stepped continuously, in
//! virtual time whenever something may have happened. After the last step nothing is in flight.
use crate::job::Job;
use crate::stats::{FsCounters, IoStats};
use crate::verify::{Findings, VerifyState};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use zonal_blk::sched::Scheduler;
use zonal_blk::{Channel, Clock, Nanos, Status};

pub(crate) mod command_prio;
pub(crate) mod contents;
mod flow;
mod job;
mod latency_target;
mod limits;
mod order;
mod overlaps;
mod pace;
mod passes;
mod record;
mod references;
pub(crate) mod run_state;
mod slots;
mod standstill;
mod status;
mod steady_state;
mod think;
mod verdict;
pub(crate) mod verifier;
pub(crate) mod write_streams;

pub use flow::{Flow, FlowTotals};
pub use job::JobRunner;
pub(crate) use limits::RunLimits;
pub use order::CloneOrder;
pub use pace::Pace;
pub use record::Recording;
pub use standstill::Standstill;
pub use status::{StatusReports, StatusSink};
pub use steady_state::SteadyGroup;

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunnerStep {
    /// Something was done: step again.
    Busy {
        /// I/Os submitted, which cost the thread time.
        submitted: u32,
        /// I/Os completed, which cost the thread time as well.
        completed: u32,
        /// Their length in bytes.
        bytes: u64,
    },
    /// Nothing to do before this time, or until another thread does something for this one: leaves
    /// it a completion or a write to issue ([`Channel::set_waker`]), or what it waits for
    /// ([`Runner::is_contended`], [`Runner::is_waiting`]).
    Wait(Option<Nanos>),
    /// The job has finished.
    Done,
}

impl RunnerStep {
    /// Step again immediately, at no cost.
    pub const NOTHING: RunnerStep = RunnerStep::Busy { submitted: 0, completed: 0, bytes: 0 };
}

/// The progress of a job, to be read by other threads.
#[derive(Debug, Default)]
pub struct Progress {
    /// I/Os completed.
    pub ios: AtomicU64,
    /// Bytes completed.
    pub bytes: AtomicU64,
}

/// The results of a clone.
#[derive(Debug)]
pub struct Outcome {
    /// The statistics.
    pub stats: IoStats,
    /// The status of the first I/O that failed, if any.
    pub error: Option<Status>,
    /// Why the job failed, if not by an I/O that failed.
    pub reason: Option<String>,
    /// Verification errors.
    pub findings: Findings,
    /// The state of its writes, with `verify_state_save`.
    pub verify_state: Option<VerifyState>,
    /// The thread that ran the job; 0 in virtual time.
    pub thread_id: u32,
    /// Counters of the file system, in the first of its clones.
    pub file_system: Option<Box<FsCounters>>,
}

/// A job being executed: one clone on a device, or all clones on a file system.
pub trait Runner: Send {
    /// The job.
    fn job(&self) -> &Arc<Job>;

    /// Number of clones that it runs.
    fn clones(&self) -> u32 {
        1
    }

    /// The I/O scheduler of the job's device.
    fn scheduler(&self) -> Scheduler;

    /// The progress of the job, for other threads.
    fn progress(&self) -> Arc<Progress>;

    /// Amount of I/O in bytes; `None` if only the time limits it.
    fn total(&self) -> Option<u64>;

    /// Limit of the time that the job takes, including start delay and ramp.
    fn time_limit(&self) -> Option<Nanos> {
        let job = self.job();
        job.runtime.map(|runtime| runtime + job.ramp_time + job.startdelay)
    }

    /// Visits the channels that the job's I/O goes through.
    fn for_each_channel(&mut self, visit: &mut dyn FnMut(&mut Channel));

    /// Whether the job waits for another one to end (`wait_for`).
    fn is_waiting(&self) -> bool {
        false
    }

    /// Whether the job waits for another one to release a zone, or to do its share of a flow.
    fn is_contended(&self) -> bool {
        false
    }

    /// No other job can give the job what it waits for: it ends with an error that says what that is.
    /// Returns false if it does not wait for another job.
    fn give_up(&mut self) -> bool {
        false
    }

    /// How often the job has let others go on: has released a zone, issued an I/O of a flow, or ended.
    /// No job that is contended or waits can go on before this changes in another job.
    fn releases(&self) -> u64 {
        0
    }

    /// Whether another job has ended this one (`exitall`): it is to be stopped.
    fn is_ended(&self) -> bool {
        false
    }

    /// Whether the job has I/O outstanding on a queue with a scheduler.
    fn is_scheduled(&self) -> bool;

    /// Whether a step now, in virtual time, would find the zone that the runner waits for taken, and do
    /// nothing.
    fn stays_blocked(&mut self, _now: Nanos) -> bool {
        false
    }

    /// Whether the block layer has something for the job at `now`, so that a thread that waits is woken; true
    /// if only a step can tell.
    fn is_woken(&mut self, _now: Nanos) -> bool {
        true
    }

    /// The call that submitted the last `ios` I/Os lasts until `at`, or until they complete.
    fn set_issued(&mut self, _ios: u32, _at: Nanos) {}

    /// When the block layer next has something for the job; other jobs can change it.
    fn next_event(&mut self) -> Option<Nanos>;

    /// Whether the job has nothing in flight, as far as it knows.
    fn is_idle(&self) -> bool {
        false
    }

    /// Handles completions of the device while the thread is busy, as an interrupt does: plugged writes
    /// are issued, completions wait for the next step. Returns whether there was anything. The model
    /// of a file system includes the CPU time of its processes, so its thread is never busy.
    fn interrupt(&mut self, _now: Nanos) -> bool {
        false
    }

    /// When [`Runner::interrupt`] is next due, if known.
    fn next_interrupt(&mut self) -> Option<Nanos> {
        None
    }

    /// The same for a job that is alone, after a step that left the thread busy until `from`, or from
    /// then on the time before which it has nothing to do. `None` if it is to be stepped at `from` to
    /// know. With `skips` what the device does without completing anything is no reason to step a job
    /// that only waits for a completion.
    fn next_alone(&mut self, from: Nanos, _skips: bool) -> Option<Nanos> {
        self.next_interrupt().filter(|&at| at < from)
    }

    /// Ends the job early, as at the end of its runtime.
    fn stop(&mut self);

    /// The results of each clone, in order.
    fn into_outcomes(self: Box<Self>) -> Vec<Outcome>;
}

/// A runner that can be stepped with the clock `C`.
pub trait ClockedRunner<C: Clock>: Runner {
    /// Does what is due at the clock's time.
    fn step(&mut self, clock: &C) -> RunnerStep;

    /// Has the clock take the steps of the runner, whose type it then knows.
    fn drive(&mut self, clock: &C, driver: &mut C::Driver)
    where
        C: DriverClock,
    {
        clock.drive(self, driver);
    }
}

/// A clock that steps a runner itself, in a loop that is compiled for each type of runner.
pub trait DriverClock: Clock + Sized {
    /// The input and the result of the loop.
    type Driver;

    /// Steps the runner.
    fn drive<R: ClockedRunner<Self> + ?Sized>(&self, runner: &mut R, driver: &mut Self::Driver);
}
