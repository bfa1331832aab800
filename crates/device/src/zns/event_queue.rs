//! The events to come in a drive, in the order of their times. Events of one time keep the order in
//! which they were added, so that a run is reproducible.
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use zonal_blk::Nanos;

/// A command in the drive's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CommandId(pub(super) u32);

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The controller is free again.
    Controller,
    /// The flash operations of a command begin.
    Begin(CommandId),
    /// A command completes.
    Complete(CommandId),
    /// A reset has released the blocks of its zones.
    Released(CommandId),
    /// A die finishes its step, unless that was interrupted since: the die is at another round then.
    Die { die: u32, round: u32 },
}

/// An event to come.
#[derive(Debug)]
struct Pending {
    at: Nanos,
    /// Its number: no two events have the same.
    number: u64,
    event: Event,
}

impl Pending {
    fn key(&self) -> Reverse<(Nanos, u64)> {
        Reverse((self.at, self.number))
    }
}

impl PartialEq for Pending {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Pending {}

impl PartialOrd for Pending {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Pending {
    /// The event that comes first is the greatest.
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// Pending events.
#[derive(Debug, Default)]
pub(super) struct EventQueue {
    heap: BinaryHeap<Pending>,
    count: u64,
}

impl EventQueue {
    #[inline]
    pub(super) fn add(&mut self, at: Nanos, event: Event) {
        self.count += 1;
        self.heap.push(Pending { at, number: self.count, event });
    }

    /// The time of the next event.
    pub(super) fn next(&self) -> Option<Nanos> {
        self.heap.peek().map(|pending| pending.at)
    }

    /// Removes the next event if it is due by `now`.
    #[inline]
    pub(super) fn pop(&mut self, now: Nanos) -> Option<(Nanos, Event)> {
        if self.heap.peek()?.at > now {
            return None;
        }
        self.heap.pop().map(|pending| (pending.at, pending.event))
    }
}
