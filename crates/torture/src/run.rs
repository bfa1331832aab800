//! Runs a history, and shrinks one that fails.
use crate::step::{History, TortureStep};
use crate::world::World;
use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::mem::ManuallyDrop;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

/// The counts of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Steps that were run.
    pub steps: u64,
    /// Bios that completed, each checked.
    pub ios: u64,
    /// Injected faults.
    pub faults: u64,
    /// The failure, if there was one.
    pub failure: Option<Failure>,
}

/// A violation of what the model expects, or a panic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The index of the step that detected it; the number of steps if that was the final check.
    pub step: usize,
    /// Virtual time in nanoseconds.
    pub at: u64,
    /// The expectation and what happened.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at step {}, {} ns: {}", self.step, self.at, self.what)
    }
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Silences panics within [`run`], which reports them as failures.
pub fn silence_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                before(info);
            }
        }));
    });
}

/// Runs a history.
///
/// # Errors
/// The configuration is invalid, which it can be in a history from a file.
pub fn run(history: &History) -> Result<Outcome, String> {
    #[cfg(torture)]
    zonal_blk::probe::set_contention(history.seed, history.config.contention);
    // After a failure, dropping the layer would panic: requests are still in flight.
    let mut world = ManuallyDrop::new(World::new(&history.config)?);
    let mut outcome = Outcome::default();
    let mut at = 0;
    QUIET.set(true);
    let caught = panic::catch_unwind(AssertUnwindSafe(|| {
        for step in &history.steps {
            world.step(step)?;
            at += 1;
        }
        world.finish()
    }));
    let what = match caught {
        Ok(Ok(())) => None,
        Ok(Err(violation)) => Some(violation),
        Err(panic) => Some(format!("panic: {}", message(&*panic))),
    };
    outcome.steps = at as u64;
    outcome.ios = world.model.ios;
    outcome.faults = world.faults;
    outcome.failure = what.map(|what| Failure { step: at, at: world.now.0, what });
    if outcome.failure.is_none() {
        let dropped = panic::catch_unwind(AssertUnwindSafe(|| {
            drop(ManuallyDrop::into_inner(world));
        }));
        outcome.failure = dropped.err().map(|panic| Failure {
            step: at,
            at: 0,
            what: format!("panic on drop: {}", message(&*panic)),
        });
    }
    QUIET.set(false);
    Ok(outcome)
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("of another kind").to_owned()
}

/// Shrinks a history by dropping steps while it still fails, in the same way or another, in at most
/// `tries` runs. Returns the shortest history found and its failure.
///
/// Steps after the failure are dropped first; then halves, quarters and so on down to single steps
/// (delta debugging: Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input",
/// 2002); then the time between steps.
pub fn shrink(history: &History, failure: &Failure, tries: u32) -> (History, Failure) {
    let mut best = Best { history: history.clone(), failure: failure.clone(), tries };
    best.truncate_and_try();
    let mut size = best.history.steps.len().div_ceil(2);
    while size > 0 && best.tries > 0 {
        let mut dropped = false;
        let mut at = 0;
        while at < best.history.steps.len() && best.tries > 0 {
            let end = (at + size).min(best.history.steps.len());
            let mut fewer = best.history.steps.clone();
            fewer.drain(at..end);
            if best.try_steps(fewer) {
                dropped = true;
            } else {
                at = end;
            }
        }
        if size == 1 && !dropped {
            break;
        }
        size = if size > 1 { size.div_ceil(2) } else { 1 };
    }
    for at in 0..best.history.steps.len() {
        let mut sooner = best.history.steps.clone();
        if let Some(step) = sooner.get_mut(at)
            && step.after > 0
        {
            step.after = 0;
            best.try_steps(sooner);
        }
    }
    (best.history, best.failure)
}

struct Best {
    history: History,
    failure: Failure,
    tries: u32,
}

impl Best {
    /// Steps after the failure cannot have caused it.
    fn truncate_and_try(&mut self) {
        let end = (self.failure.step + 1).min(self.history.steps.len());
        self.try_steps(self.history.steps[..end].to_vec());
    }

    fn try_steps(&mut self, steps: Vec<TortureStep>) -> bool {
        if self.tries == 0 {
            return false;
        }
        self.tries -= 1;
        let history = History { steps, ..self.history.clone() };
        let Ok(outcome) = run(&history) else { return false };
        let Some(failure) = outcome.failure else { return false };
        self.history = history;
        self.failure = failure;
        self.truncate();
        true
    }

    fn truncate(&mut self) {
        self.history.steps.truncate((self.failure.step + 1).min(self.history.steps.len()));
    }
}
