//! How the clones of a run begin and end by one another: `plan/order.rs` decides which.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The part of one clone in the order of a phase.
#[derive(Clone, Debug)]
pub struct CloneOrder {
    /// Clones of the job that this one waits for that have not ended.
    pub(crate) waits_for: Option<Arc<AtomicU32>>,
    /// Clones of its own job that have not ended.
    pub(crate) left: Arc<AtomicU32>,
    /// Another clone has ended this one.
    pub(crate) is_ended: Arc<AtomicBool>,
    /// The flags of the clones that this one ends.
    pub(crate) ends: Vec<Arc<AtomicBool>>,
    /// It ends them only if it fails.
    pub(crate) on_error: bool,
    /// It ends all of the run.
    pub(crate) ends_run: bool,
}

impl CloneOrder {
    /// Whether the job that this one waits for is still running.
    pub(crate) fn waits(&self) -> bool {
        self.waits_for.as_ref().is_some_and(|left| left.load(Ordering::Acquire) > 0)
    }

    /// Whether another clone has ended this one.
    pub fn is_ended(&self) -> bool {
        self.is_ended.load(Ordering::Relaxed)
    }

    /// Whether no later phase is to run once this clone has ended, with or without an error.
    pub fn ends_run(&self, failed: bool) -> bool {
        self.ends_run && (failed || !self.on_error)
    }

    /// The clone has ended.
    pub(crate) fn end(&self, failed: bool) {
        self.left.fetch_sub(1, Ordering::Release);
        if failed || !self.on_error {
            self.ends.iter().for_each(|flag| flag.store(true, Ordering::Relaxed));
        }
    }
}
