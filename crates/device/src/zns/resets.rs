//! Resets, which a drive executes one after another.
//!
//! Before resets begin, the units of other zones that are being programmed are done, and so are those in
//! the dies' queues that were written; those that were appended wait from then on. While resets are
//! executed, no program begins, except in the last part of the last reset. Resets that wait when one begins
//! follow it without a program between them, so a large number of them delays writes for long.
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

/// A reset that has not begun.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    id: CommandId,
    /// How long it takes.
    time: Nanos,
    /// How long its blocks are erased after it.
    erase: Nanos,
}

/// The resets of a drive.
#[derive(Debug)]
pub(super) struct Resets {
    phase: Phase,
    /// Those that have not begun.
    waiting: VecDeque<Waiting>,
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

    /// Queues a reset that takes this long, and whose blocks are erased for `erase` after it.
    pub(super) fn add(&mut self, id: CommandId, time: Nanos, erase: Nanos) {
        self.waiting.push_back(Waiting { id, time, erase });
    }

    /// The first reset that waits, if no other is being executed: it waits for programs from now on.
    pub(super) fn drain_for(&mut self) -> Option<CommandId> {
        let first = self.waiting.front().filter(|_| self.phase == Phase::Idle)?;
        self.phase = Phase::Draining;
        Some(first.id)
    }

    /// Whether this reset waits for programs.
    #[inline]
    pub(super) fn is_draining(&self, id: CommandId) -> bool {
        self.phase == Phase::Draining && self.waiting.front().is_some_and(|first| first.id == id)
    }

    /// The resets that begin at `now`, each after the erase of the one before; programs wait for `hold`
    /// percent of the last one.
    pub(super) fn begin(&mut self, now: Nanos, hold: u32) -> Batch {
        assert_eq!(self.phase, Phase::Draining, "programs were waited for");
        let (mut begins, mut last, mut end) = (now, Nanos(0), now);
        let run = |Waiting { id, time, erase }: Waiting| {
            (last, end) = (time, begins + time);
            begins = end + erase;
            (id, end)
        };
        let ends: Vec<(CommandId, Nanos)> = self.waiting.drain(..).map(run).collect();
        self.phase = Phase::Resetting(ends.len());
        let free = Nanos(last.0 * u64::from(100 - hold) / 100);
        Batch { ends, hold_ends: Nanos(end.0 - free.0) }
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
        resets.add(CommandId(0), TIME, Nanos(20));
        resets.add(CommandId(1), TIME, Nanos(10));
        assert_eq!(resets.drain_for(), Some(CommandId(0)));
        assert!(resets.is_draining(CommandId(0)) && !resets.is_draining(CommandId(1)));
        let batch = resets.begin(Nanos(1000), 75);
        assert_eq!(batch.ends, [(CommandId(0), Nanos(1100)), (CommandId(1), Nanos(1220))]);
        assert_eq!(batch.hold_ends, Nanos(1195));
        resets.add(CommandId(2), TIME, Nanos(10));
        for _ in 0..2 {
            assert_eq!(resets.drain_for(), None);
            resets.done();
        }
        assert_eq!(resets.drain_for(), Some(CommandId(2)));
        assert_eq!(resets.begin(Nanos(1300), 0).hold_ends, Nanos(1300));
    }
}
