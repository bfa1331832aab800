//! Resets, which a drive executes one after another.
//!
//! Before resets begin, the units that other zones have in the dies' queues are programmed. While resets
//! are executed, no program begins, except in the last part of the last reset. Resets that wait when one
//! begins follow it without a program between them, so a large number of them delays writes for long.
//!
//! ```text
//!   a reset arrives        |== programs of others ==|== reset ==|== reset ==|
//!   programs begin   ------------------------------>|           no          |--- hold ends early --->
//! ```
use crate::flash::CommandId;
use std::collections::VecDeque;
use zonal_blk::Nanos;

/// The progress of the resets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    /// The queued units of other zones are being programmed.
    Draining,
    /// This many resets are not done.
    Resetting(usize),
}

/// The resets of a drive.
#[derive(Debug)]
pub(super) struct Resets {
    phase: Phase,
    /// Those that have not begun, and the time that each takes.
    waiting: VecDeque<(CommandId, Nanos)>,
}

/// Resets that follow one another.
pub(super) struct Batch {
    /// When each is done.
    pub(super) ends: Vec<(CommandId, Nanos)>,
    /// When programs may begin again.
    pub(super) hold_ends: Nanos,
}

impl Resets {
    pub(super) fn new() -> Self {
        Resets { phase: Phase::Idle, waiting: VecDeque::new() }
    }

    /// Queues a reset that takes this long.
    pub(super) fn add(&mut self, id: CommandId, time: Nanos) {
        self.waiting.push_back((id, time));
    }

    /// The first reset that waits, if no other is being executed: it waits for programs from now on.
    pub(super) fn drain_for(&mut self) -> Option<CommandId> {
        let &(first, _) = self.waiting.front().filter(|_| self.phase == Phase::Idle)?;
        self.phase = Phase::Draining;
        Some(first)
    }

    /// Whether this reset waits for programs.
    #[inline]
    pub(super) fn is_draining(&self, id: CommandId) -> bool {
        self.phase == Phase::Draining && self.waiting.front().is_some_and(|first| first.0 == id)
    }

    /// The resets that begin at `now`, with `erase` between two; programs wait for `hold` percent of the
    /// last one.
    pub(super) fn begin(&mut self, now: Nanos, erase: Nanos, hold: u32) -> Batch {
        assert_eq!(self.phase, Phase::Draining, "programs were waited for");
        let (mut at, mut last) = (now, Nanos(0));
        let ends: Vec<(CommandId, Nanos)> = self
            .waiting
            .drain(..)
            .map(|(id, time)| {
                let begins = if last > Nanos(0) { at + erase } else { at };
                (at, last) = (begins + time, time);
                (id, at)
            })
            .collect();
        self.phase = Phase::Resetting(ends.len());
        let free = Nanos(last.0 * u64::from(100 - hold) / 100);
        Batch { ends, hold_ends: Nanos(at.0 - free.0) }
    }

    /// A reset is done.
    pub(super) fn done(&mut self) {
        self.phase = match self.phase {
            Phase::Resetting(left) if left > 1 => Phase::Resetting(left - 1),
            _ => Phase::Idle,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Nanos = Nanos(100);

    #[test]
    fn resets_that_wait_follow_one_another_and_later_ones_wait_for_all_of_them() {
        let mut resets = Resets::new();
        (0..2).for_each(|id| resets.add(CommandId(id), TIME));
        assert_eq!(resets.drain_for(), Some(CommandId(0)));
        assert!(resets.is_draining(CommandId(0)) && !resets.is_draining(CommandId(1)));
        let batch = resets.begin(Nanos(1000), Nanos(10), 75);
        assert_eq!(batch.ends, [(CommandId(0), Nanos(1100)), (CommandId(1), Nanos(1210))]);
        assert_eq!(batch.hold_ends, Nanos(1185));
        resets.add(CommandId(2), TIME);
        for _ in 0..2 {
            assert_eq!(resets.drain_for(), None);
            resets.done();
        }
        assert_eq!(resets.drain_for(), Some(CommandId(2)));
        assert_eq!(resets.begin(Nanos(1300), Nanos(10), 0).hold_ends, Nanos(1300));
    }
}
