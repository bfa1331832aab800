//! Finds out that all clones of a phase wait for one another, in real time.
//!
//! A clone that is kept waiting tries again and again. Once all wait, each has to try once more without
//! success: as a clone that makes progress says so, nothing has changed then. In virtual time the event
//! loop knows that nothing is due.
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// State that the clones of a phase share.
#[derive(Debug, Default)]
pub struct Standstill {
    running: AtomicU32,
    waiting: AtomicU32,
    /// Counts the clones that went on.
    epoch: AtomicU32,
    /// An epoch, and in the low half how many clones have tried in vain while all were waiting.
    confirmed: AtomicU64,
}

/// A clone's part.
#[derive(Debug)]
pub(super) struct Waiter {
    shared: Arc<Standstill>,
    is_waiting: bool,
    /// The epoch in which the clone saw that all wait.
    seen_in: Option<u32>,
    /// The epoch in which it tried in vain after that.
    confirmed_in: Option<u32>,
}

impl Waiter {
    /// A clone that runs.
    pub(super) fn new(shared: &Arc<Standstill>) -> Self {
        shared.running.fetch_add(1, Ordering::SeqCst);
        let shared = Arc::clone(shared);
        Waiter { shared, is_waiting: false, seen_in: None, confirmed_in: None }
    }

    /// The clone has tried, and has to wait for others. Returns whether all do, for ever.
    pub(super) fn waits(&mut self) -> bool {
        let shared = &self.shared;
        if !self.is_waiting {
            self.is_waiting = true;
            shared.waiting.fetch_add(1, Ordering::SeqCst);
            return false;
        }
        let epoch = shared.epoch.load(Ordering::SeqCst);
        let running = shared.running.load(Ordering::SeqCst);
        if shared.waiting.load(Ordering::SeqCst) < running {
            return false;
        }
        if self.seen_in != Some(epoch) {
            self.seen_in = Some(epoch);
            return false;
        }
        if self.confirmed_in != Some(epoch) {
            self.confirmed_in = Some(epoch);
            shared.confirm(epoch);
        }
        shared.confirmed.load(Ordering::SeqCst) == of(epoch, running)
    }

    /// The clone goes on, or has ended.
    pub(super) fn goes_on(&mut self) {
        if std::mem::take(&mut self.is_waiting) {
            self.shared.epoch.fetch_add(1, Ordering::SeqCst);
            self.shared.waiting.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// The clone has ended.
    pub(super) fn end(&mut self) {
        self.goes_on();
        self.shared.epoch.fetch_add(1, Ordering::SeqCst);
        self.shared.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Standstill {
    fn confirm(&self, epoch: u32) {
        let more = |confirmed: u64| match confirmed >> 32 == u64::from(epoch) {
            true => Some(confirmed + 1),
            false => Some(of(epoch, 1)),
        };
        let updated = self.confirmed.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more);
        updated.expect("there always is a next value");
    }
}

fn of(epoch: u32, confirmed: u32) -> u64 {
    u64::from(epoch) << 32 | u64::from(confirmed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_wait_for_ever_when_each_has_tried_once_more() {
        let shared = Arc::default();
        let [mut a, mut b, mut c] = [(); 3].map(|()| Waiter::new(&shared));
        let tries = |waiter: &mut Waiter| (0..5).any(|_| waiter.waits());
        assert!(!tries(&mut a) && !tries(&mut b), "the third one runs");
        c.end();
        assert!(!tries(&mut a), "b may find what c has left");
        b.goes_on();
        assert!(!tries(&mut a));
        assert!(!b.waits() && !b.waits());
        assert!(!tries(&mut a), "b has not tried since");
        assert!(b.waits());
        assert!(a.waits(), "both know");
        a.end();
        assert!(!b.waits(), "a has gone");
        assert!(tries(&mut b), "and b is left");
    }
}
