//! Freezing a queue: new bios are kept out, and those inside drain.
//!
//! Once a freeze has found the queue quiescent, no bio is inside until the queue is unfrozen. A bio
//! submitted meanwhile is held by its channel, in order.
//!
//! A channel sets its flag with the first bio inside and then checks whether the queue is frozen;
//! the freezing thread sets that flag and then checks the flags of the channels. Both use sequentially
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

    #[inline]
    pub(crate) fn is_frozen(&self) -> bool {
        self.frozen.load(Ordering::Relaxed) > 0
    }

    /// Whether a channel that has announced itself ([`ChannelUsage::announce`]) is inside, under the
    /// configuration that was in use after `changes`. An atomic read-modify-write came in between.
    #[inline(always)]
    pub(crate) fn is_open_for(&self, changes: u32) -> bool {
        after_read_modify_write();
        self.frozen.load(Ordering::SeqCst) == 0 && self.changes() == changes
    }
}

/// Keeps a store before the read-modify-write that follows it.
#[inline(always)]
fn before_read_modify_write() {
    #[cfg(all(target_arch = "x86_64", not(any(loom, shuttle))))]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
}

/// Keeps what was stored before a read-modify-write before the loads that follow: on x86-64 it does so
/// itself, as every locked instruction does (AMD64 Architecture Programmer's Manual, volume 2, section
/// 7.4.2), and only the compiler has to be told.
#[inline(always)]
fn after_read_modify_write() {
    #[cfg(all(target_arch = "x86_64", not(any(loom, shuttle))))]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
    #[cfg(not(all(target_arch = "x86_64", not(any(loom, shuttle)))))]
    crate::sync::fence(Ordering::SeqCst);
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

    /// Says that the channel may be about to enter with its first bio. An atomic read-modify-write, such
    /// as the one that takes the lock of a plug, and [`Gate::is_open_for`] must follow: what
    /// [`ChannelUsage::enter`] needs one for of its own, as much again as a tenth of a write.
    #[inline(always)]
    pub(crate) fn announce(&self) {
        self.0.store(true, Ordering::Relaxed);
        before_read_modify_write();
    }

    /// The channel's last bio has left.
    #[inline]
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

    #[test]
    fn loom_channel_that_enters_by_the_lock_of_a_plug_is_seen_or_sees_the_freeze() {
        loom::model(|| {
            // In place of the plug: its lock and what is written under it.
            let plug = (AtomicBool::new(false), AtomicBool::new(false));
            let shared = Arc::new((Gate::new(), ChannelUsage::new(), plug));
            let other = Arc::clone(&shared);
            let channel = threads::spawn(move || {
                let (gate, usage, (lock, written)) = &*other;
                usage.announce();
                lock.swap(true, Ordering::Acquire);
                let enters = gate.is_open_for(0);
                if enters {
                    written.store(true, Ordering::Relaxed);
                }
                lock.store(false, Ordering::Release);
                usage.leave();
                enters
            });
            let (gate, usage, (_, written)) = &*shared;
            gate.freeze();
            if gate.is_quiescent(std::iter::once(usage)) {
                let before = written.load(Ordering::Relaxed);
                gate.changed();
                gate.unfreeze();
                assert!(!channel.join().unwrap() || before, "not under an older configuration");
            } else {
                gate.unfreeze();
                channel.join().unwrap();
            }
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
