#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod costs;
mod due;
mod turns;

use costs::SLEEPS_AFTER;
pub use costs::{CostModel, HostCost, IoCost, ParseCostError};

use due::{DueTimes, LATEST};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use zonal_blk::{Clock, Nanos};
use zonal_fio::runner::{ClockedRunner, DriverClock, Outcome, RunnerStep};

/// Steps between two calls of a function that watches whether to stop.
pub const STEPS_PER_WATCH: u64 = 4096;

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
pub type BoxedRunner = Box<dyn ClockedRunner<VirtualClock>>;

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
    timing: Timing,
    outcomes: Vec<Outcome>,
}

/// When a thread works.
#[derive(Clone, Copy)]
struct Timing {
    cost: IoCost,
    /// The thread is busy until then, even if woken.
    busy_until: Nanos,
    /// It waits, and takes time to wake when there is something for it.
    sleeps: bool,
    /// It has woken for a completion, and taken none yet.
    woken: bool,
    /// There is no other thread: nobody can wake it, and it takes no steps to find nothing to do.
    is_alone: bool,
    /// When it last submitted I/O, and what that I/O takes longer because the one before was long ago.
    submitted_at: Nanos,
    rouse: Nanos,
    /// What an I/O of the last step that submitted any takes longer for its pages.
    pinning: Nanos,
}

/// After a step.
struct Stepped {
    /// When the next one is due; `None` if another thread has to wake this one.
    due: Option<Nanos>,
    worked: bool,
    /// The runner has finished.
    is_done: bool,
}

/// The steps of the only thread until the next watch.
pub struct AloneSteps {
    timing: Timing,
    due: Option<Nanos>,
    left: u64,
    is_done: bool,
}

impl DriverClock for VirtualClock {
    type Driver = AloneSteps;

    fn drive<R: ClockedRunner<Self> + ?Sized>(&self, runner: &mut R, steps: &mut AloneSteps) {
        while steps.left > 0
            && let Some(at) = steps.due
        {
            steps.left -= 1;
            self.0.set(at.min(LATEST).max(self.now()));
            let stepped = steps.timing.step(runner, self);
            (steps.due, steps.is_done) = (stepped.due, stepped.is_done);
        }
    }
}

/// The threads to which others have left a completion, or a write to issue.
type Mail = Arc<Mutex<Vec<usize>>>;

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
    run_watched(runners, start, costs, STEPS_PER_WATCH, |_| false)
}

/// [`run`], which calls `watch` with the time after every `steps` steps. Once `watch` returns true, the jobs end as
/// at the end of their run time.
///
/// # Errors
/// As [`run`].
pub fn run_watched(
    runners: Vec<BoxedRunner>,
    start: Nanos,
    costs: CostModel,
    steps: u64,
    mut watch: impl FnMut(Nanos) -> bool,
) -> Result<(Vec<Outcome>, Nanos), Deadlock> {
    let mut simulation = Simulation::new(runners, start, costs);
    let mut is_stopped = false;
    while simulation.steps(steps) {
        if !is_stopped && watch(simulation.clock.now()) {
            is_stopped = true;
            simulation.stop(|_| true);
        }
    }
    simulation.finish()
}

/// The threads, and which of them others may wake. A step looks at those only.
struct Simulation {
    clock: VirtualClock,
    threads: Vec<SimThread>,
    due: DueTimes,
    mail: Mail,
    /// Threads that wait for others to release a zone, to do their share of a flow, or to end.
    blocked: BTreeSet<usize>,
    /// Threads with I/O on a queue with a scheduler.
    scheduled: BTreeSet<usize>,
    /// An event that contended threads wait for has happened since they were last woken.
    released: bool,
    /// Jobs may end others.
    exits: bool,
}

impl Simulation {
    fn new(runners: Vec<BoxedRunner>, start: Nanos, costs: CostModel) -> Self {
        let exits = |runner: &BoxedRunner| {
            let order = &runner.job().limits.order;
            order.exitall || order.exitall_on_error
        };
        let is_alone = runners.len() == 1;
        let thread = |runner: BoxedRunner| SimThread {
            timing: Timing {
                cost: costs.of(runner.scheduler()),
                busy_until: start,
                sleeps: false,
                woken: false,
                is_alone,
                submitted_at: start,
                rouse: Nanos(0),
                pinning: Nanos(0),
            },
            runner: Some(runner),
            outcomes: Vec::new(),
        };
        let mut simulation = Simulation {
            clock: VirtualClock(Cell::new(start)),
            due: DueTimes::new(runners.len(), costs.turns(runners.len())),
            mail: Mail::default(),
            blocked: BTreeSet::new(),
            scheduled: BTreeSet::new(),
            released: false,
            exits: runners.iter().any(exits),
            threads: runners.into_iter().map(thread).collect(),
        };
        for (index, thread) in simulation.threads.iter_mut().enumerate() {
            simulation.due.set(index, Some(start));
            if !is_alone {
                thread.set_mail(index, &simulation.mail);
            }
        }
        simulation
    }

    /// Takes the steps until the next watch. Returns false if no thread is due any more.
    fn steps(&mut self, steps: u64) -> bool {
        if let [thread] = &mut self.threads[..] {
            return thread.steps_alone(steps, &self.clock, &mut self.due) || self.end_one();
        }
        (0..steps).all(|_| self.step() || self.end_one())
    }

    /// Nothing is due: has one of the jobs that wait for others end with an error. Returns false if
    /// none does.
    #[cold]
    fn end_one(&mut self) -> bool {
        let gives_up =
            |thread: &mut SimThread| thread.runner.as_mut().is_some_and(|runner| runner.give_up());
        let Some(index) = self.threads.iter_mut().position(gives_up) else { return false };
        let at = self.threads[index].timing.busy_until.max(self.clock.now());
        self.due.set(index, Some(at));
        true
    }

    /// Has the thread that is due first do something. Returns false if none is due.
    #[inline]
    fn step(&mut self) -> bool {
        let Some((at, index)) = self.due.first() else { return false };
        self.clock.0.set(at.max(self.clock.now()));
        let thread = &mut self.threads[index];
        let releases = thread.releases();
        let (due, worked) = thread.step(&self.clock);
        let released = thread.releases() != releases;
        self.due.set(index, due);
        self.wake_others(index, worked, released);
        true
    }

    /// Wakes the threads that the step of thread `index` lets go on.
    fn wake_others(&mut self, index: usize, worked: bool, released: bool) {
        let now = self.clock.now();
        let thread = &self.threads[index];
        update(&mut self.blocked, index, thread.is(|runner| is_blocked(&**runner)));
        update(&mut self.scheduled, index, thread.is(|runner| runner.is_scheduled()));
        if thread.runner.is_none() && self.exits {
            self.stop(|runner| runner.is_ended());
        }
        let mail = std::mem::take(&mut *self.mail.lock().expect("no thread panics with mail"));
        for other in mail {
            let thread = &mut self.threads[other];
            if thread.expect_mail() {
                self.due.bring_forward(other, now.max(thread.timing.busy_until));
            }
        }
        self.released |= released;
        if released || self.released && worked {
            for &other in self.blocked.iter().filter(|&&other| other != index) {
                let thread = &mut self.threads[other];
                let wakes = worked || thread.is(|runner| runner.is_waiting());
                if wakes && !thread.stays_blocked(now) {
                    self.due.bring_forward(other, now.max(thread.timing.busy_until));
                }
            }
            self.released &= !worked;
        }
        for &other in self.scheduled.iter().filter(|&&other| other != index) {
            let thread = &mut self.threads[other];
            if let Some(at) = thread.brought_forward() {
                self.due.bring_forward(other, at.max(now).max(thread.timing.busy_until));
            }
        }
    }

    /// Has those jobs end early: each is stepped again immediately.
    fn stop(&mut self, which: impl Fn(&BoxedRunner) -> bool) {
        for (index, thread) in self.threads.iter_mut().enumerate() {
            if let Some(runner) = thread.runner.as_mut().filter(|runner| which(runner)) {
                runner.stop();
                self.due.set(index, Some(thread.timing.busy_until.max(self.clock.now())));
            }
        }
    }

    fn finish(self) -> Result<(Vec<Outcome>, Nanos), Deadlock> {
        let Simulation { clock, threads, .. } = self;
        let waiting = threads.iter().filter_map(|thread| thread.runner.as_ref());
        let jobs: Vec<String> = waiting.map(|runner| runner.job().name.clone()).collect();
        if !jobs.is_empty() {
            // Their channels have I/O outstanding and must not be dropped.
            std::mem::forget(threads);
            return Err(Deadlock { at: clock.now(), jobs });
        }
        Ok((threads.into_iter().flat_map(|thread| thread.outcomes).collect(), clock.now()))
    }
}

fn is_blocked(runner: &dyn ClockedRunner<VirtualClock>) -> bool {
    runner.is_contended() || runner.is_waiting()
}

/// Has a set hold a thread, or not.
fn update(set: &mut BTreeSet<usize>, thread: usize, holds: bool) {
    if holds {
        set.insert(thread);
    } else {
        set.remove(&thread);
    }
}

impl SimThread {
    /// Takes the steps of the only thread until the next watch. Returns false if it is no longer due.
    fn steps_alone(&mut self, steps: u64, clock: &VirtualClock, all_due: &mut DueTimes) -> bool {
        let Some(runner) = &mut self.runner else { return false };
        let due = all_due.first().map(|(at, _)| at);
        let mut steps = AloneSteps { timing: self.timing, due, left: steps, is_done: false };
        runner.drive(clock, &mut steps);
        self.timing = steps.timing;
        all_due.set(0, steps.due);
        if steps.is_done {
            self.finish();
        }
        steps.due.is_some()
    }

    /// Steps the runner, or interrupts the busy thread. Returns when it is due next, `None` if
    /// another thread has to wake it, and whether anything was done.
    #[inline]
    fn step(&mut self, clock: &VirtualClock) -> (Option<Nanos>, bool) {
        let runner = self.runner.as_mut().expect("a thread that is due has a runner");
        let Stepped { due, worked, is_done } = self.timing.step(&mut **runner, clock);
        if is_done {
            self.finish();
        }
        (due, worked)
    }

    fn finish(&mut self) {
        self.outcomes = self.runner.take().map_or(Vec::new(), |runner| runner.into_outcomes());
    }

    /// When the shared I/O scheduler has something for the runner: the step of another runner may have
    /// brought it forward, or have finished the runner that would have dispatched it.
    fn brought_forward(&mut self) -> Option<Nanos> {
        let at = self.runner.as_mut().filter(|runner| runner.is_scheduled())?.next_event()?;
        Some(if self.timing.sleeps { at } else { at + self.timing.wake() })
    }

    /// Has the thread be listed in `mail` when others leave it something.
    fn set_mail(&mut self, index: usize, mail: &Mail) {
        let mail = Arc::clone(mail);
        let waker = Arc::new(move || mail.lock().expect("no thread panics with mail").push(index));
        if let Some(runner) = &mut self.runner {
            runner.for_each_channel(&mut |channel| channel.set_waker(waker.clone()));
        }
        self.expect_mail();
    }

    /// Has the waker be called the next time. Returns whether there is mail now: the waker is also
    /// called for what concerns threads that sleep.
    fn expect_mail(&mut self) -> bool {
        let mut has_mail = false;
        if let Some(runner) = &mut self.runner {
            runner.for_each_channel(&mut |channel| {
                channel.expect_mail();
                has_mail |= channel.has_mail();
            });
        }
        has_mail
    }

    /// Whether a step would do nothing: the zone that the runner waits for is still taken.
    fn stays_blocked(&mut self, now: Nanos) -> bool {
        self.runner.as_mut().is_some_and(|runner| runner.stays_blocked(now))
    }

    /// How often the runner has let others go on. Its end does so as well.
    fn releases(&self) -> Option<u64> {
        self.runner.as_ref().map(|runner| runner.releases())
    }

    fn is(&self, what: impl Fn(&BoxedRunner) -> bool) -> bool {
        self.runner.as_ref().is_some_and(what)
    }
}

impl Timing {
    /// From the device's completion until the thread runs, and what the pages of its I/O took before that.
    #[inline(always)]
    fn wake(&self) -> Nanos {
        self.cost.wake + self.pinning
    }

    /// Steps the runner, or interrupts the busy thread.
    #[inline(always)]
    fn step<R: ClockedRunner<VirtualClock> + ?Sized>(
        &mut self,
        runner: &mut R,
        clock: &VirtualClock,
    ) -> Stepped {
        let now = clock.now();
        if now < self.busy_until {
            let worked = runner.interrupt(now);
            return Stepped { due: Some(self.keep_busy(runner, now)), worked, is_done: false };
        }
        // Not every event of the device is a completion: those of other threads' I/O wake nobody.
        if self.sleeps {
            self.sleeps = false;
            if runner.is_woken(now) {
                self.woken = true;
                let due = Some(now + self.wake() + self.rouse);
                return Stepped { due, worked: false, is_done: false };
            }
        }
        match runner.step(clock) {
            RunnerStep::Busy { submitted, completed, bytes } => {
                self.busy_until = now + self.cost.of_step(submitted, completed, bytes);
                if completed > 0 && self.cost.ring > Nanos(0) {
                    // The time to wake has that of the completion that the thread was woken for.
                    let others = completed - u32::from(std::mem::take(&mut self.woken));
                    self.busy_until += Nanos(self.cost.ring.0 * u64::from(others));
                }
                if submitted > 0 && self.cost.rouse > Nanos(0) {
                    let sleeps = now >= self.submitted_at + SLEEPS_AFTER;
                    self.rouse = if sleeps { self.cost.rouse } else { Nanos(0) };
                    if sleeps {
                        runner.set_issued(submitted, now + self.cost.rousing_call());
                    }
                    self.submitted_at = now;
                }
                if submitted > 0 && self.cost.page > Nanos(0) {
                    self.pinning = self.cost.pinning(submitted + completed, bytes);
                }
                let worked = submitted + completed > 0;
                Stepped { due: Some(self.keep_busy(runner, now)), worked, is_done: false }
            }
            RunnerStep::Wait(until) => {
                self.sleeps = self.cost.takes_time_to_wake();
                Stepped { due: until, worked: false, is_done: false }
            }
            RunnerStep::Done => Stepped { due: None, worked: true, is_done: true },
        }
    }

    /// When the thread's work is done or the device interrupts it. Immediate completions of a device
    /// without latency do not interrupt.
    #[inline(always)]
    fn keep_busy<R: ClockedRunner<VirtualClock> + ?Sized>(
        &mut self,
        runner: &mut R,
        now: Nanos,
    ) -> Nanos {
        // Alone, with nothing in flight: there is nobody else's I/O, either.
        if self.busy_until <= now || self.is_alone && runner.is_idle() {
            return self.busy_until;
        }
        if self.is_alone {
            // One that takes time to wake may find a completion in a step for something else.
            let skips = !self.cost.takes_time_to_wake();
            return match runner.next_alone(self.busy_until, skips) {
                Some(at) if now < at && at < self.busy_until => at,
                Some(at) if at > self.busy_until => {
                    self.sleeps = !skips;
                    at
                }
                _ => self.busy_until,
            };
        }
        match runner.next_interrupt() {
            Some(at) if now < at && at < self.busy_until => at,
            _ => self.busy_until,
        }
    }
}
