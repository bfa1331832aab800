//! One run of a history.
use super::step::History;
use super::world::World;
use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::mem::ManuallyDrop;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

/// What a run did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Steps done.
    pub steps: u64,
    /// Bios that completed, each checked.
    pub ios: u64,
    /// Faults that were injected.
    pub faults: u64,
    /// What was wrong, if anything was.
    pub failure: Option<Failure>,
}

/// Something that should not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The step at which it showed, from 0; the number of steps if it was at the end.
    pub step: usize,
    /// Virtual time in nanoseconds.
    pub at: u64,
    /// What it is.
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

/// From now on panics within [`run`] print nothing: they are what it finds.
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

/// Does a history.
///
/// # Errors
/// What is wrong with the configuration, if the history came from a file.
pub fn run(history: &History) -> Result<Outcome, String> {
    #[cfg(torture)]
    zonal_blk::probe::set_contention(history.seed, history.config.contention);
    // After a failure nothing of the layer is in order, and letting it go would panic.
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
        Ok(Err(wrong)) => Some(wrong),
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
            what: format!("panic when all was over: {}", message(&*panic)),
        });
    }
    QUIET.set(false);
    Ok(outcome)
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("of another kind").to_owned()
}
