//! What is to happen in a drive, and when.
//!
//! Takes events with their times; gives them back in the order of time, those of one time in the
//! order in which they came, so that a run repeats itself.
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use zonal_blk::Nanos;

/// A command in the drive's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CommandId(pub(super) u32);

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// The controller is done with a command, as far as it holds the controller up.
    Controller,
    /// What a command needs done begins.
    Begin(CommandId),
    /// A command ends.
    End(CommandId),
    /// A die comes to the end of what it does, unless that was interrupted since: then the die is
    /// at another round.
    Die { die: u32, round: u32 },
}

/// The events to come.
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

    /// When the next event happens.
    pub(super) fn next(&self) -> Option<Nanos> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// Takes the next event out if it happens at `now` or before.
    pub(super) fn pop(&mut self, now: Nanos) -> Option<(Nanos, Event)> {
        let &Reverse((at, _, event)) = self.heap.peek()?;
        if at > now {
            return None;
        }
        self.heap.pop();
        Some((at, event))
    }
}
