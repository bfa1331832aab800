//! The places for reads that the drive works on.
//!
//! A place is free again when its read is done, except that a stream that is alone frees its places
//! in order: its reads are a window that moves when the oldest is done, so that no more dies work for
//! it than the window covers.
use std::collections::VecDeque;

/// The place of a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Slot {
    /// Free as soon as the read is done.
    #[default]
    Free,
    /// Free when the older reads of the window are done, too; which read of the window it is.
    Window(u64),
}

#[derive(Debug)]
pub(crate) struct Slots {
    /// 0 for no limit.
    limit: u32,
    taken: u32,
    /// Which reads of the window are done, from the oldest on.
    window: VecDeque<bool>,
    /// The oldest read of the window.
    oldest: u64,
}

impl Slots {
    pub(crate) fn new(limit: u32) -> Self {
        Slots { limit, taken: 0, window: VecDeque::new(), oldest: 0 }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.limit > 0 && self.taken >= self.limit
    }

    /// Takes a place, in the window or not.
    pub(crate) fn take(&mut self, in_window: bool) -> Slot {
        self.taken += 1;
        if !in_window {
            return Slot::Free;
        }
        self.window.push_back(false);
        Slot::Window(self.oldest + self.window.len() as u64 - 1)
    }

    /// A read is done.
    pub(crate) fn done(&mut self, slot: Slot) {
        let Slot::Window(number) = slot else {
            self.taken -= 1;
            return;
        };
        let at = usize::try_from(number - self.oldest).expect("the window is in memory");
        self.window[at] = true;
        while self.window.front() == Some(&true) {
            self.window.pop_front();
            self.oldest += 1;
            self.taken -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_outside_the_window_are_free_in_any_order() {
        let mut slots = Slots::new(2);
        let (first, second) = (slots.take(false), slots.take(false));
        assert!(slots.is_full());
        slots.done(second);
        assert!(!slots.is_full());
        slots.done(first);
        assert_eq!(slots.taken, 0);
    }

    #[test]
    fn window_moves_when_its_oldest_read_is_done() {
        let mut slots = Slots::new(3);
        let [first, second, third] = [0; 3].map(|_| slots.take(true));
        slots.done(second);
        assert!(slots.is_full(), "the oldest is not done");
        slots.done(first);
        assert_eq!(slots.taken, 1, "both are out of the window");
        let fourth = slots.take(true);
        slots.done(fourth);
        slots.done(third);
        assert_eq!(slots.taken, 0);
    }

    #[test]
    fn without_a_limit_there_is_always_a_place() {
        let mut slots = Slots::new(0);
        for _ in 0..1000 {
            slots.take(true);
        }
        assert!(!slots.is_full());
    }
}
