//! The events to come in a drive, in the order of their times. Events of one time keep the order in
//! which they were added, so that a run is reproducible.
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use zonal_blk::Nanos;

/// A command in the drive's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CommandId(pub(super) u32);

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

/// Pending events.
#[derive(Debug, Default)]
pub(super) struct EventQueue {
    heap: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    count: u64,
}

impl EventQueue {
    pub(super) fn add(&mut self, at: Nanos, event: Event) {
        self.count += 1;
        self.heap.push(Reverse((at, self.count, event)));
    }

    /// The time of the next event.
    pub(super) fn next(&self) -> Option<Nanos> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// Removes the next event if it is due by `now`.
    pub(super) fn pop(&mut self, now: Nanos) -> Option<(Nanos, Event)> {
        let &Reverse((at, _, event)) = self.heap.peek()?;
        if at > now {
            return None;
        }
        self.heap.pop();
        Some((at, event))
    }
}
