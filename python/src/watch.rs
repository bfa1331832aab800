//! Work on a thread of its own. Python's thread waits without holding Python's lock; ten times a second
//! it hears signals and reports progress.
use crate::error::bad_input;
use anyhow::Result;
use pyo3::prelude::*;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use zonal_blk::Nanos;
use zonal_lab::progress::{JobProgress, PhaseProgress, StepProgress};

/// Time between two looks at signals and progress.
const INTERVAL: Duration = Duration::from_millis(100);

/// How far the work is.
#[derive(Clone, Debug, Default)]
struct State {
    /// 0 to 1, if that is known.
    fraction: Option<f64>,
    done: u64,
    total: Option<u64>,
    message: String,
    /// It has changed since it was reported.
    is_new: bool,
    has_ended: bool,
}

/// Messages from the work to the thread that waits for it.
#[derive(Default)]
pub struct Watched {
    state: Mutex<State>,
    ended: Condvar,
}

impl Watched {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        state.is_new = true;
    }

    /// Waits until the work ends, or for [`INTERVAL`]. Returns whether it has ended.
    fn wait(&self) -> bool {
        let waits = |state: &mut State| !state.has_ended;
        let waited = self.ended.wait_timeout_while(self.lock(), INTERVAL, waits);
        waited.unwrap_or_else(PoisonError::into_inner).0.has_ended
    }

    /// What is to be reported, if anything is new.
    fn news(&self) -> Option<State> {
        let mut state = self.lock();
        let is_new = std::mem::take(&mut state.is_new);
        is_new.then(|| state.clone())
    }
}

impl StepProgress for Watched {
    fn start(&self, _title: &str, total: u64) {
        self.change(|state| (state.done, state.total) = (0, Some(total)));
        self.advance(0);
    }

    fn message(&self, text: &str) {
        self.change(|state| text.clone_into(&mut state.message));
    }

    fn advance(&self, steps: u64) {
        self.change(|state| {
            state.done += steps;
            let total = state.total.unwrap_or(0).max(1);
            state.fraction = Some(state.done as f64 / total as f64);
        });
    }

    fn finish(&self) {}
}

/// The progress of jobs.
pub struct JobWatch {
    watched: Arc<Watched>,
    phase: Option<PhaseProgress>,
}

impl JobWatch {
    /// For jobs that report to `watched`.
    pub fn new(watched: &Arc<Watched>) -> Self {
        JobWatch { watched: Arc::clone(watched), phase: None }
    }
}

impl JobProgress for JobWatch {
    fn start(&mut self, phase: PhaseProgress) {
        self.phase = Some(phase);
    }

    fn update(&mut self, elapsed: Nanos) {
        let Some(phase) = &self.phase else { return };
        let sum = |count: fn(&zonal_fio::runner::Progress) -> &std::sync::atomic::AtomicU64| {
            phase.jobs.iter().map(|job| count(job).load(Ordering::Relaxed)).sum::<u64>()
        };
        let (ios, bytes) = (sum(|job| &job.ios), sum(|job| &job.bytes));
        let share = |done: u64, of: u64| done as f64 / of.max(1) as f64;
        let of_bytes = phase.total.map(|total| share(bytes, total));
        let of_time = phase.time_limit.map(|limit| share(elapsed.0, limit.0));
        // Whichever is reached first ends the jobs.
        let fraction = of_bytes.into_iter().chain(of_time).reduce(f64::max);
        let seconds = elapsed.0 as f64 / 1e9;
        self.watched.change(|state| {
            state.fraction = fraction.map(|fraction| fraction.min(1.0));
            (state.done, state.total) = (bytes, phase.total);
            state.message = format!(
                "{seconds:.1} s, {:.0} IOPS, {:.1} MB/s",
                ios as f64 / seconds.max(1e-9),
                bytes as f64 / 1e6 / seconds.max(1e-9)
            );
        });
    }

    fn finish(&mut self) {
        self.phase = None;
    }
}

/// Says that the work has ended, also if it panics.
struct End<'a>(&'a Watched);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.lock().has_ended = true;
        self.0.ended.notify_all();
    }
}

/// Does `work`, which ends early once the flag that it gets is set. `progress` is a function of Python,
/// called with a fraction or `None`, what is done, of how much or `None`, and a message.
///
/// # Errors
/// The errors of the work, and what a signal or `progress` raised, which ends the work.
pub fn watch<T: Send>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Arc<AtomicBool>, &Arc<Watched>) -> Result<T> + Send,
) -> PyResult<T> {
    let (stop, watched) = (Arc::<AtomicBool>::default(), Arc::<Watched>::default());
    let (outcome, raised) = thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let _end = End(&watched);
            work(&stop, &watched)
        });
        let mut raised = None;
        while !py.detach(|| watched.wait()) {
            if raised.is_none()
                && let Err(error) = py.check_signals().and_then(|()| report(&watched, progress))
            {
                stop.store(true, Ordering::Relaxed);
                raised = Some(error);
            }
        }
        (py.detach(|| worker.join()), raised)
    });
    if let Some(raised) = raised {
        return Err(raised);
    }
    let outcome = outcome.unwrap_or_else(|panic| resume_unwind(panic));
    report(&watched, progress)?;
    outcome.map_err(bad_input)
}

/// Calls `progress`, if there is something new.
fn report(watched: &Watched, progress: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let Some(progress) = progress else { return Ok(()) };
    let Some(state) = watched.news() else { return Ok(()) };
    progress.call1((state.fraction, state.done, state.total, state.message)).map(drop)
}
