//! Where a mapping is, for a signal handler that may run at any time.
#[cfg(loom)]
use loom::sync::atomic::{AtomicUsize, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicUsize, Ordering};

/// Room for one mapping, used by one after another. Nothing here waits.
#[derive(Debug)]
pub struct MappingSlot {
    /// Odd while a mapping is entered; otherwise how many were, times two. Both numbers below belong to the same
    /// mapping if this is even and the same before and after they are read.
    sequence: AtomicUsize,
    start: AtomicUsize,
    /// 0 while there is no mapping.
    len: AtomicUsize,
}

impl MappingSlot {
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        MappingSlot {
            sequence: AtomicUsize::new(0),
            start: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
        }
    }

    /// Enters a mapping, whose length is not 0. Returns false if the slot has one.
    pub fn enter(&self, start: usize, len: usize) -> bool {
        let sequence = self.sequence.load(Ordering::Acquire);
        let free = sequence.is_multiple_of(2) && self.len.load(Ordering::Acquire) == 0;
        // The slot is still free if nobody has entered a mapping meanwhile.
        let entered = free && {
            let (next, order) = (sequence.wrapping_add(1), Ordering::AcqRel);
            self.sequence.compare_exchange(sequence, next, order, Ordering::Relaxed).is_ok()
        };
        if entered {
            // A thread that reads one of them sees the odd number, or a later one.
            self.start.store(start, Ordering::Release);
            self.len.store(len, Ordering::Release);
            self.sequence.store(sequence.wrapping_add(2), Ordering::Release);
        }
        entered
    }

    /// Removes the mapping that the caller has entered.
    pub fn clear(&self) {
        self.len.store(0, Ordering::Release);
    }

    /// Start and length of the mapping, if there is one with `address`. None while one is entered, which cannot be
    /// a mapping that the caller accesses.
    pub fn find(&self, address: usize) -> Option<(usize, usize)> {
        let sequence = self.sequence.load(Ordering::Acquire);
        let start = self.start.load(Ordering::Acquire);
        let len = self.len.load(Ordering::Acquire);
        let same = sequence.is_multiple_of(2) && self.sequence.load(Ordering::Relaxed) == sequence;
        (same && address.checked_sub(start)? < len).then_some((start, len))
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    const LONG: (usize, usize) = (0x1000, 0x3000);
    const SHORT: (usize, usize) = (0x8000, 0x1000);

    fn empty() -> Arc<MappingSlot> {
        let [sequence, start, len] = [0; 3].map(AtomicUsize::new);
        Arc::new(MappingSlot { sequence, start, len })
    }

    fn enter(slot: &MappingSlot, (start, len): (usize, usize)) -> bool {
        slot.enter(start, len)
    }

    /// What is found of an address while a slot passes from one mapping to another: never the start of one with the
    /// length of the other.
    fn found_while_reused(address: usize, allowed: &'static [Option<(usize, usize)>]) {
        for (first, second) in [(LONG, SHORT), (SHORT, LONG)] {
            loom::model(move || {
                let slot = empty();
                assert!(enter(&slot, first));
                let reuses = {
                    let slot = Arc::clone(&slot);
                    thread::spawn(move || {
                        slot.clear();
                        assert!(enter(&slot, second));
                    })
                };
                let found = slot.find(address);
                assert!(allowed.contains(&found), "{found:x?}");
                reuses.join().expect("no panic");
            });
        }
    }

    #[test]
    fn loom_address_beyond_a_mapping_is_not_found_by_the_length_of_another() {
        found_while_reused(SHORT.0 + SHORT.1, &[None]);
        found_while_reused(LONG.0 + LONG.1, &[None]);
    }

    #[test]
    fn loom_mapping_is_found_whole_or_not_at_all() {
        found_while_reused(SHORT.0, &[None, Some(SHORT)]);
        found_while_reused(LONG.0, &[None, Some(LONG)]);
    }

    #[test]
    fn loom_slot_has_one_mapping_at_a_time_which_is_always_found() {
        loom::model(|| {
            let slot = empty();
            let users = [LONG, SHORT].map(|mapping| {
                let slot = Arc::clone(&slot);
                move || {
                    let entered = enter(&slot, mapping);
                    if entered {
                        assert_eq!(slot.find(mapping.0), Some(mapping));
                        slot.clear();
                    }
                    entered
                }
            });
            let [here, there] = users;
            let there = thread::spawn(there);
            let entered = [here(), there.join().expect("no panic")];
            assert!(entered.contains(&true), "one of them at least");
        });
    }
}
