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
use crate::sync::{AtomicBool, AtomicU32, Ordering, store_before_load};

/// How often a queue is frozen: freezes nest.
#[derive(Debug)]
pub(crate) struct Gate(AtomicU32);

impl Gate {
    pub(crate) fn new() -> Self {
        Gate(AtomicU32::new(0))
    }

    pub(crate) fn freeze(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        store_before_load();
    }

    pub(crate) fn thaw(&self) {
        let before = self.0.fetch_sub(1, Ordering::SeqCst);
        assert!(before > 0, "a queue is thawed as often as it was frozen");
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

/// Whether a channel has bios inside.
#[derive(Debug)]
pub(crate) struct Presence(AtomicBool);

impl Presence {
    pub(crate) fn new() -> Self {
        Presence(AtomicBool::new(false))
    }

    /// The channel's first bio wants in; whether it may.
    pub(crate) fn enter(&self, gate: &Gate) -> bool {
        self.0.swap(true, Ordering::SeqCst);
        store_before_load();
        let open = gate.0.load(Ordering::SeqCst) == 0;
        if !open {
            self.leave();
        }
        open
    }

    /// The channel's last bio has left.
    pub(crate) fn leave(&self) {
        self.0.store(false, Ordering::Release);
    }

    pub(crate) fn is_inside(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

#[cfg(all(test, loom))]
mod tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread as threads;

    #[test]
    fn loom_nobody_is_inside_once_a_freeze_was_told_so() {
        loom::model(|| {
            let shared = Arc::new((Gate::new(), Presence::new(), AtomicBool::new(false)));
            let other = Arc::clone(&shared);
            let channel = threads::spawn(move || {
                let (gate, presence, inside) = &*other;
                for _ in 0..2 {
                    if presence.enter(gate) {
                        inside.store(true, Ordering::Relaxed);
                        inside.store(false, Ordering::Relaxed);
                        presence.leave();
                    }
                }
            });
            let (gate, presence, inside) = &*shared;
            gate.freeze();
            if !presence.is_inside() {
                assert!(!inside.load(Ordering::Relaxed), "nobody is inside");
                assert!(!inside.load(Ordering::Relaxed), "nobody comes in");
            }
            gate.thaw();
            channel.join().unwrap();
            assert!(presence.enter(gate), "the gate is open again");
        });
    }
}
