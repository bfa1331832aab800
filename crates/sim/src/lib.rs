#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod costs;

pub use costs::{CostModel, HostCost, IoCost, ParseCostError};

use std::cell::Cell;
use zonal_blk::{Clock, Nanos};
use zonal_fio::runner::{Outcome, Step, SteppedBy};

/// Steps between two calls of the function that watches.
const STEPS_PER_WATCH: u64 = 4096;

/// No runner can make progress, which is a bug.
#[derive(Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// Virtual time.
    pub at: Nanos,
    /// Names of the jobs that have not finished.
    pub jobs: Vec<String>,
}

impl std::fmt::Display for Deadlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "deadlock at {} ns, all jobs wait: {}", self.at, self.jobs.join(", "))
    }
}

impl std::error::Error for Deadlock {}

/// A runner that can be stepped in virtual time.
pub type BoxedRunner = Box<dyn SteppedBy<VirtualClock>>;

/// The virtual clock, which only [`run`] advances.
pub struct VirtualClock(Cell<Nanos>);

impl Clock for VirtualClock {
    const IS_VIRTUAL: bool = true;

    fn now(&self) -> Nanos {
        self.0.get()
    }
}

/// A simulated thread with its runner.
struct SimThread {
    runner: Option<BoxedRunner>,
    cost: IoCost,
    /// When to step the runner; `None` if another thread has to wake it.
    due: Option<Nanos>,
    /// The thread is busy until then, even if woken.
    busy_until: Nanos,
    outcomes: Vec<Outcome>,
}

/// Runs all runners from `start` until the last one has finished. Returns the outcomes of their
/// clones, in order, and the time at the end.
///
/// # Errors
/// [`Deadlock`] if no runner can make progress.
pub fn run(
    runners: Vec<BoxedRunner>,
    start: Nanos,
    costs: CostModel,
) -> Result<(Vec<Outcome>, Nanos), Deadlock> {
    run_watched(runners, start, costs, |_| false)
}

/// [`run`], which calls `watch` with the time now and then. Once `watch` returns true, the jobs end as
/// at the end of their run time.
///
/// # Errors
/// As [`run`].
pub fn run_watched(
    runners: Vec<BoxedRunner>,
    start: Nanos,
    costs: CostModel,
    mut watch: impl FnMut(Nanos) -> bool,
) -> Result<(Vec<Outcome>, Nanos), Deadlock> {
    let clock = VirtualClock(Cell::new(start));
    let thread = |runner: BoxedRunner| SimThread {
        cost: costs.of(runner.scheduler()),
        runner: Some(runner),
        due: Some(start),
        busy_until: start,
        outcomes: Vec::new(),
    };
    let mut threads: Vec<SimThread> = runners.into_iter().map(thread).collect();
    let mut is_stopped = false;
    for step in 1_u64.. {
        if step.is_multiple_of(STEPS_PER_WATCH) && !is_stopped && watch(clock.now()) {
            is_stopped = true;
            stop(&mut threads, clock.now());
        }
        let earliest = |(index, thread): (usize, &SimThread)| Some((thread.due?, index));
        let Some((at, index)) = threads.iter().enumerate().filter_map(earliest).min() else {
            break;
        };
        let now = at.max(clock.now());
        clock.0.set(now);
        let worked = threads[index].step(&clock);
        if threads[index].runner.is_none() {
            stop(threads.iter_mut().filter(|thread| thread.is_ended()), now);
        }
        for (other, thread) in threads.iter_mut().enumerate() {
            if other == index {
                continue;
            }
            let woken = thread.is_woken(worked).then_some(now);
            if let Some(at) = woken.or_else(|| thread.brought_forward()) {
                let at = at.max(now).max(thread.busy_until);
                thread.due = Some(thread.due.map_or(at, |due| due.min(at)));
            }
        }
    }
    let waiting = threads.iter().filter_map(|thread| thread.runner.as_ref());
    let jobs: Vec<String> = waiting.map(|runner| runner.job().name.clone()).collect();
    if !jobs.is_empty() {
        // Their channels have I/O outstanding and must not be dropped.
        std::mem::forget(threads);
        return Err(Deadlock { at: clock.now(), jobs });
    }
    Ok((threads.into_iter().flat_map(|thread| thread.outcomes).collect(), clock.now()))
}

/// Has jobs end early: each is stepped again at once.
fn stop<'a>(threads: impl IntoIterator<Item = &'a mut SimThread>, now: Nanos) {
    for thread in threads {
        if let Some(runner) = &mut thread.runner {
            runner.stop();
            thread.due = Some(thread.busy_until.max(now));
        }
    }
}

impl SimThread {
    /// Steps the runner, or interrupts the busy thread; returns whether anything was done.
    fn step(&mut self, clock: &VirtualClock) -> bool {
        let now = clock.now();
        let runner = self.runner.as_mut().expect("a thread that is due has a runner");
        if now < self.busy_until {
            let done = runner.interrupt(now);
            self.keep_busy(now);
            return done;
        }
        match runner.step(clock) {
            Step::Busy { submitted, completed, bytes } => {
                self.busy_until = now + self.cost.of_step(submitted, completed, bytes);
                self.keep_busy(now);
                submitted + completed > 0
            }
            Step::Wait(until) => {
                self.due = until.map(|until| until + self.cost.wake);
                false
            }
            Step::Done => {
                self.due = None;
                self.outcomes =
                    self.runner.take().map_or(Vec::new(), |runner| runner.into_outcomes());
                true
            }
        }
    }

    /// Wakes the thread when its work is done or the device interrupts it. Immediate completions of a
    /// device without latency do not interrupt.
    fn keep_busy(&mut self, now: Nanos) {
        let device = self.runner.as_mut().and_then(|runner| runner.next_interrupt());
        let device = device.filter(|&at| at > now);
        self.due = Some(device.map_or(self.busy_until, |at| at.min(self.busy_until)));
    }

    /// When the shared I/O scheduler has something for the runner: the step of another runner may have
    /// brought it forward, or have finished the runner that would have dispatched it.
    fn brought_forward(&mut self) -> Option<Nanos> {
        let at = self.runner.as_mut().filter(|runner| runner.is_scheduled())?.next_event()?;
        Some(at + self.cost.wake)
    }

    /// Whether another job has ended this one.
    fn is_ended(&self) -> bool {
        self.runner.as_ref().is_some_and(|runner| runner.is_ended())
    }

    /// Whether to step the runner early, after another one did something.
    fn is_woken(&self, other_worked: bool) -> bool {
        let woken =
            |runner: &BoxedRunner| runner.has_mail() || other_worked && runner.is_contended();
        self.runner.as_ref().is_some_and(woken)
    }
}
