//! Freezing a queue: keeps new bios out and tells when all that were in have left.
//!
//! Takes the channels' comings and goings; gives the answer to "is the queue quiescent?". Keeps
//! true: after a freeze has been answered with yes, no bio is inside until the thaw. A bio that
//! comes meanwhile is held by its channel, in order, and not lost.
//!
//! A channel announces itself with its first bio inside and then looks whether the queue is frozen;
//! whoever freezes says so and then looks for channels that are inside. Both use sequentially
//! consistent operations, so one of the two sees the other. With more bios inside, a channel only
//! reads the flag.
use crate::sync::{AtomicBool, AtomicU32, Mutex, MutexGuard, Ordering, store_before_load};

/// Whether a queue is frozen.
#[derive(Debug)]
pub(crate) struct Gate {
    /// How often: freezes nest.
    frozen: AtomicU32,
    /// Counts changes to the queue, all made while nobody was inside. A channel that comes in finds
    /// out by it that it has to look at the queue anew.
    changes: AtomicU32,
    drain: Mutex<Drain>,
}

/// How far the draining of a frozen queue has come.
#[derive(Debug, Default)]
struct Drain {
    freezes: u32,
    /// Nobody was inside since the queue was frozen, so nobody is until it is thawed. A channel
    /// that tries the gate looks for a moment as if it were inside.
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
        assert!(drain.freezes > 0, "a queue is thawed as often as it was frozen");
        drain.freezes -= 1;
        drain.done &= drain.freezes > 0;
        self.frozen.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether nobody is inside. Once true on a frozen queue, it stays so until the queue is
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

    /// The queue was changed. Nobody is inside: whoever comes in after the thaw sees it.
    pub(crate) fn changed(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// How often the queue was changed.
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
/// Two cache lines of its own: with one bio at a time it changes with each.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct ChannelUsage(AtomicBool);

impl ChannelUsage {
    pub(crate) fn new() -> Self {
        ChannelUsage(AtomicBool::new(false))
    }

    /// The channel's first bio wants in; whether it may.
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
    fn loom_nobody_is_inside_once_a_freeze_was_told_so() {
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
