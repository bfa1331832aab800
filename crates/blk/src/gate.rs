//! Freezing a queue: new bios are kept out, and those inside drain.
//!
//! Once a freeze has found the queue quiescent, no bio is inside until the queue is unfrozen. A bio
//! submitted meanwhile is held by its channel, in order.
//!
//! A channel sets its flag with the first bio inside and then checks whether the queue is frozen;
//! whoever freezes sets that flag and then checks the flags of the channels. Both use sequentially
//! consistent operations, so one of the two sees the other. With more bios inside, a channel only
//! reads the flag.
use crate::sync::{AtomicBool, AtomicU32, Mutex, MutexGuard, Ordering, store_before_load};

/// Whether a queue is frozen.
#[derive(Debug)]
pub(crate) struct Gate {
    /// The number of freezes, which nest.
    frozen: AtomicU32,
    /// Counts configuration changes, all made with nothing inside. A channel that enters compares
    /// it, to reload its configuration if it has changed.
    changes: AtomicU32,
    drain: Mutex<Drain>,
}

/// The state of draining a frozen queue.
#[derive(Debug, Default)]
struct Drain {
    freezes: u32,
    /// The queue was found quiescent since it was frozen, so it stays so until it is unfrozen.
    /// Remembered, because a channel that tries to enter looks for a moment as if it were inside.
    done: bool,
}

impl Gate {
    pub(crate) fn new() -> Self {
        let changes = AtomicU32::new(0);
        Gate { frozen: AtomicU32::new(0), changes, drain: Mutex::new(Drain::default()) }
    }

    fn drain(&self) -> MutexGuard<'_, Drain> {
        self.drain.lock().expect("gate lock")
    }

    pub(crate) fn freeze(&self) {
        self.drain().freezes += 1;
        self.frozen.fetch_add(1, Ordering::SeqCst);
        store_before_load();
    }

    pub(crate) fn unfreeze(&self) {
        let mut drain = self.drain();
        assert!(drain.freezes > 0, "a queue is unfrozen as often as it was frozen");
        drain.freezes -= 1;
        drain.done &= drain.freezes > 0;
        self.frozen.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether no bio is inside. Once true on a frozen queue, it stays so until the queue is
    /// unfrozen.
    pub(crate) fn is_quiescent<'a>(
        &self,
        mut usages: impl Iterator<Item = &'a ChannelUsage>,
    ) -> bool {
        let mut drain = self.drain();
        let quiet = drain.done || !usages.any(ChannelUsage::is_in_use);
        drain.done = quiet && drain.freezes > 0;
        quiet
    }

    /// The configuration has changed, with nothing inside: channels that enter later see it.
    pub(crate) fn changed(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// Configuration changes so far.
    #[inline]
    pub(crate) fn changes(&self) -> u32 {
        self.changes.load(Ordering::Relaxed)
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.frozen.load(Ordering::Relaxed) > 0
    }
}

/// Whether a channel has bios inside.
///
/// Two cache lines of its own: at queue depth 1 it changes with each bio.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct ChannelUsage(AtomicBool);

impl ChannelUsage {
    pub(crate) fn new() -> Self {
        ChannelUsage(AtomicBool::new(false))
    }

    /// Tries to enter with the channel's first bio.
    #[inline]
    pub(crate) fn enter(&self, gate: &Gate) -> bool {
        self.0.swap(true, Ordering::SeqCst);
        store_before_load();
        let open = gate.frozen.load(Ordering::SeqCst) == 0;
        if !open {
            self.leave();
        }
        open
    }

    /// The channel's last bio has left.
    pub(crate) fn leave(&self) {
        self.0.store(false, Ordering::Release);
    }

    pub(crate) fn is_in_use(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

#[cfg(all(test, loom))]
mod tests {
    use super::*;
    use loom::thread as threads;
    use std::sync::Arc;

    #[test]
    fn loom_nothing_is_inside_once_a_frozen_queue_was_quiescent() {
        loom::model(|| {
            let shared =
                Arc::new((Gate::new(), Arc::new(ChannelUsage::new()), AtomicBool::new(false)));
            let other = Arc::clone(&shared);
            let channel = threads::spawn(move || {
                let (gate, usage, inside) = &*other;
                for _ in 0..2 {
                    if usage.enter(gate) {
                        inside.store(true, Ordering::Relaxed);
                        inside.store(false, Ordering::Relaxed);
                        usage.leave();
                    }
                }
            });
            let (gate, usage, inside) = &*shared;
            gate.freeze();
            let is_quiescent = || gate.is_quiescent(std::iter::once(&**usage));
            if is_quiescent() {
                assert!(!inside.load(Ordering::Relaxed), "nobody is inside");
                assert!(is_quiescent(), "and stays so");
                assert!(!inside.load(Ordering::Relaxed), "nobody comes in");
            }
            gate.unfreeze();
            channel.join().unwrap();
            assert!(usage.enter(gate), "the gate is open again");
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_channel_that_tries_the_gate_does_not_undo_that_the_queue_is_quiescent() {
        let (gate, usage) = (Gate::new(), ChannelUsage::new());
        let is_quiescent = || gate.is_quiescent(std::iter::once(&usage));
        gate.freeze();
        assert!(is_quiescent());
        // As it is for a moment inside `enter`.
        usage.0.store(true, Ordering::SeqCst);
        gate.freeze();
        gate.unfreeze();
        assert!(is_quiescent());
        gate.unfreeze();
        gate.freeze();
        assert!(!is_quiescent());
    }
}
