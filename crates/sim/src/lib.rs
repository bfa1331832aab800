//! Virtual time: jobs run in deterministic discrete events on one thread.
//!
//! Takes runners; gives what they measured and when they ended. Keeps true: time moves to the
//! earliest next event and never back; the same runners give the same outcome.
//!
//! The device model says how long an I/O takes there. What it costs the thread that does it is a
//! parameter, [`CostModel`], so that a device without latency does not do infinitely many I/Os in no
//! time. While it works the device interrupts it: what waited for a write goes out at once, also if
//! the job sees the end of the write only when its thread comes to it.
#![forbid(unsafe_code)]

mod costs;

pub use costs::{CostModel, IoCost, ParseCostError};

use std::cell::Cell;
use zonal_blk::{Clock, Nanos};
use zonal_fio::runner::{Outcome, Step, SteppedBy};

/// All jobs wait for one another and none can go on: a fault in the program.
#[derive(Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// When it happened.
    pub at: Nanos,
    /// The jobs.
    pub jobs: Vec<String>,
}

impl std::fmt::Display for Deadlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "at {} ns all jobs wait for one another: {}", self.at, self.jobs.join(", "))
    }
}

impl std::error::Error for Deadlock {}

/// A runner that virtual time can step.
pub type BoxedRunner = Box<dyn SteppedBy<VirtualClock>>;

/// The virtual clock: it stands where it was put.
pub struct VirtualClock(Cell<Nanos>);

impl Clock for VirtualClock {
    const IS_VIRTUAL: bool = true;

    fn now(&self) -> Nanos {
        self.0.get()
    }
}

/// A runner and when it wants to be stepped; `None` if that is for others to bring about.
struct SimThread {
    runner: Option<BoxedRunner>,
    cost: IoCost,
    due: Option<Nanos>,
    /// The thread works until then, whoever wakes it.
    busy_until: Nanos,
    outcomes: Vec<Outcome>,
}

/// Runs all runners from `start` until the last is done. Gives the outcomes of their clones, in
/// order, and the time.
///
/// # Errors
/// [`Deadlock`] if no runner can go on.
pub fn run(
    runners: Vec<BoxedRunner>,
    start: Nanos,
    costs: CostModel,
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
    loop {
        let earliest = |(index, thread): (usize, &SimThread)| Some((thread.due?, index));
        let Some((at, index)) = threads.iter().enumerate().filter_map(earliest).min() else {
            break;
        };
        let now = at.max(clock.now());
        clock.0.set(now);
        let worked = threads[index].step(&clock);
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
        // Their channels have I/O outstanding, and must not be dropped with it.
        std::mem::forget(threads);
        return Err(Deadlock { at: clock.now(), jobs });
    }
    Ok((threads.into_iter().flat_map(|thread| thread.outcomes).collect(), clock.now()))
}

impl SimThread {
    /// Steps the runner, or interrupts the thread at its work; whether that got anything done.
    fn step(&mut self, clock: &VirtualClock) -> bool {
        let now = clock.now();
        let runner = self.runner.as_mut().expect("a thread that is due has a runner");
        if now < self.busy_until {
            let done = runner.interrupt(now);
            self.work(now);
            return done;
        }
        match runner.step(clock) {
            Step::Busy { ios, bytes } => {
                self.busy_until = now + self.cost.half(ios, bytes);
                self.work(now);
                ios > 0
            }
            Step::Wait(until) => {
                self.due = until;
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

    /// The thread works until it is done or interrupted. What a device without latency does at once
    /// does not interrupt.
    fn work(&mut self, now: Nanos) {
        let device = self.runner.as_mut().and_then(|runner| runner.next_interrupt());
        let device = device.filter(|&at| at > now);
        self.due = Some(device.map_or(self.busy_until, |at| at.min(self.busy_until)));
    }

    /// When the scheduler that the runner shares has something for it: another's step may have made
    /// that earlier than the runner was told, or have ended the one that would have seen to it.
    fn brought_forward(&mut self) -> Option<Nanos> {
        self.runner.as_mut().filter(|runner| runner.is_scheduled())?.next_event()
    }

    /// Whether to step the runner before its time, after another one did something.
    fn is_woken(&self, other_worked: bool) -> bool {
        let woken =
            |runner: &BoxedRunner| runner.has_mail() || other_worked && runner.is_contended();
        self.runner.as_ref().is_some_and(woken)
    }
}
