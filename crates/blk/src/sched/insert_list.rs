//! A channel's insertion list: what it leaves for whoever dispatches next.
//!
//! One thread adds requests and notes of completed ones; whichever thread dispatches takes them.
//! The lock is held only to append a list or to take one, so a thread that inserts never waits for
//! one that dispatches.
use super::counters::ChannelCounters;
use super::elevator::CompletedRequest;
use crate::probe::mutant;
use crate::request::RequestList;
use crate::sync::{AtomicBool, Mutex, Ordering};

/// What a channel has for the scheduler, in the order it happened within each list.
#[derive(Debug, Default)]
pub(super) struct PendingUpdates {
    pub(super) requests: RequestList,
    pub(super) completions: Vec<CompletedRequest>,
}

impl PendingUpdates {
    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.completions.is_empty()
    }
}

/// The list of one channel, and its counters. A cache line of its own: each channel writes its counters
/// with every I/O.
#[repr(align(128))]
#[derive(Debug)]
pub(super) struct InsertList {
    pub(super) counters: ChannelCounters,
    /// Read without the lock.
    filled: AtomicBool,
    /// The channel was dropped and adds nothing more.
    closed: AtomicBool,
    updates: Mutex<PendingUpdates>,
}

impl InsertList {
    pub(super) fn new() -> Self {
        InsertList {
            counters: ChannelCounters::new(),
            filled: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            updates: Mutex::new(PendingUpdates::default()),
        }
    }

    /// Appends what the channel has.
    pub(super) fn put(&self, updates: &mut PendingUpdates) {
        let mut here = self.updates.lock().expect("insertion list lock");
        while let Some(request) = updates.requests.pop_front() {
            here.requests.push_back(request);
        }
        here.completions.append(&mut updates.completions);
        self.filled.store(!mutant!(IntakeUnseen), Ordering::Release);
    }

    pub(super) fn is_filled(&self) -> bool {
        self.filled.load(Ordering::Acquire)
    }

    /// Takes what is there, leaving `empty` in its place for its capacity.
    pub(super) fn take(&self, empty: &mut PendingUpdates) {
        debug_assert!(empty.is_empty());
        let mut here = self.updates.lock().expect("insertion list lock");
        std::mem::swap(&mut *here, empty);
        self.filled.store(false, Ordering::Relaxed);
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}
