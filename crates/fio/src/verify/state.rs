//! The state of a clone's writes when it ends: which completed, and which a flush has made durable
//! (`verify_state_save`, `verify_state_load`).
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::str::FromStr;

/// The first line of a file with a state.
const HEADER: &str = "zonal verify state 1";

/// Writes are known by their numbers, in the order in which they were issued, from 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyState {
    /// How many were issued.
    pub writes: u32,
    /// Those that did not complete, or failed.
    pub unfinished: BTreeSet<u32>,
    /// Those with numbers below this are durable ...
    pub synced: u32,
    /// ... but for these, which had not completed when the flush was issued.
    pub unsynced: BTreeSet<u32>,
}

impl VerifyState {
    /// Whether the data of a write has to be there: all that completed, or only what was `synced`.
    pub fn is_certain(&self, number: u32, synced: bool) -> bool {
        match synced {
            true => number < self.synced && !self.unsynced.contains(&number),
            false => number < self.writes && !self.unfinished.contains(&number),
        }
    }
}

impl fmt::Display for VerifyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEADER}")?;
        for (name, count, others) in [
            ("writes", self.writes, ("unfinished", &self.unfinished)),
            ("synced", self.synced, ("unsynced", &self.unsynced)),
        ] {
            write!(f, "{name} {count}\n{}", others.0)?;
            others.1.iter().try_for_each(|number| write!(f, " {number}"))?;
            writeln!(f)?;
        }
        Ok(())
    }
}

/// Not a state: the line at fault, from 1, and what was expected there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: expected {expected}")]
pub struct ParseStateError {
    line: usize,
    expected: &'static str,
}

impl FromStr for VerifyState {
    type Err = ParseStateError;

    fn from_str(text: &str) -> Result<Self, ParseStateError> {
        let mut lines = text.lines();
        let header = ParseStateError { line: 1, expected: HEADER };
        lines.next().filter(|line| *line == HEADER).ok_or(header)?;
        let mut numbers = |line: usize, name: &'static str, expected: &'static str| {
            let words = lines.next().and_then(|line| line.strip_prefix(name));
            let numbers = words.and_then(|words| {
                let words = words.split_ascii_whitespace().map(str::parse);
                words.collect::<Result<Vec<u32>, _>>().ok()
            });
            numbers.ok_or(ParseStateError { line, expected })
        };
        let one = |line: usize, expected: &'static str, found: Vec<u32>| match found[..] {
            [count] => Ok(count),
            _ => Err(ParseStateError { line, expected }),
        };
        let (writes, synced) = ("`writes` and a number", "`synced` and a number");
        Ok(VerifyState {
            writes: one(2, writes, numbers(2, "writes", writes)?)?,
            unfinished: numbers(3, "unfinished", "`unfinished` and numbers")?.into_iter().collect(),
            synced: one(4, synced, numbers(4, "synced", synced)?)?,
            unsynced: numbers(5, "unsynced", "`unsynced` and numbers")?.into_iter().collect(),
        })
    }
}

/// Follows the writes of a clone.
#[derive(Debug, Default)]
pub struct StateTracker {
    state: VerifyState,
    /// Each write is durable when it has completed.
    durable: bool,
    /// When each flush in flight was issued: the writes before it, and those that had not completed.
    flushes: VecDeque<(u32, BTreeSet<u32>)>,
}

impl StateTracker {
    /// Follows writes, which are `durable` when they have completed, or after a flush.
    pub fn new(durable: bool) -> Self {
        StateTracker { durable, ..StateTracker::default() }
    }

    /// A write is issued.
    pub fn wrote(&mut self, number: u32) {
        self.state.writes = number + 1;
        self.state.unfinished.insert(number);
    }

    /// A write is issued, and so are those before it, of which not all have been seen.
    pub fn wrote_up_to(&mut self, number: u32) {
        (self.state.writes..=number).for_each(|number| self.wrote(number));
    }

    /// The number of a write of which the lower half is known: the one that is nearest to the next.
    pub fn nearest(&self, lower: u16) -> u32 {
        let next = self.state.writes;
        let ahead = lower.wrapping_sub(next as u16);
        let behind = u32::from(ahead.wrapping_neg());
        if ahead > u16::MAX / 2 && behind <= next { next - behind } else { next + u32::from(ahead) }
    }

    /// A write has completed.
    pub fn completed(&mut self, number: u32) {
        self.state.unfinished.remove(&number);
    }

    /// A flush is issued.
    pub fn flushes(&mut self) {
        self.flushes.push_back((self.state.writes, self.state.unfinished.clone()));
    }

    /// A flush has completed, or failed. If there are several it may be any of them: it counts as the one that
    /// was issued first, of which all that it made durable is durable now.
    pub fn flushed(&mut self, succeeded: bool) {
        if !succeeded {
            self.flushes.pop_back();
        } else if let Some(first) = self.flushes.pop_front() {
            (self.state.synced, self.state.unsynced) = first;
        }
    }

    /// The state now.
    pub fn state(&self) -> VerifyState {
        let mut state = self.state.clone();
        if self.durable {
            (state.synced, state.unsynced) = (state.writes, state.unfinished.clone());
        }
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::btree_set;
    use proptest::prelude::*;

    /// Three writes complete out of order, a flush is issued after two of them.
    fn tracked(durable: bool) -> StateTracker {
        let mut tracker = StateTracker::new(durable);
        (0..4).for_each(|number| tracker.wrote(number));
        tracker.completed(0);
        tracker.completed(2);
        tracker.flushes();
        tracker.completed(1);
        tracker
    }

    #[test]
    fn what_completed_before_a_flush_was_issued_is_durable_when_that_has_completed() {
        let mut tracker = tracked(false);
        let certain = |tracker: &StateTracker, synced| {
            (0..5).filter(|&number| tracker.state().is_certain(number, synced)).collect::<Vec<_>>()
        };
        assert_eq!((certain(&tracker, false), certain(&tracker, true)), (vec![0, 1, 2], vec![]));
        tracker.flushed(true);
        assert_eq!(
            (certain(&tracker, false), certain(&tracker, true)),
            (vec![0, 1, 2], vec![0, 2])
        );
        assert_eq!(certain(&tracked(true), true), [0, 1, 2], "with FUA");
    }

    #[test]
    fn of_several_flushes_the_first_that_completes_makes_durable_what_all_of_them_do() {
        let durable = |results: &[bool]| {
            let mut tracker = tracked(false);
            tracker.completed(3);
            tracker.flushes();
            results.iter().for_each(|&succeeded| tracker.flushed(succeeded));
            (0..4).filter(|&number| tracker.state().is_certain(number, true)).collect::<Vec<_>>()
        };
        assert_eq!(durable(&[true]), [0, 2], "it may be the first one");
        assert_eq!(durable(&[true, true]), [0, 1, 2, 3]);
        assert_eq!(durable(&[false, true]), [0, 2], "the second one may have failed");
        assert_eq!(durable(&[false, false]), [0; 0]);
    }

    #[test]
    fn numbers_of_writes_are_found_from_their_lower_half() {
        let mut tracker = StateTracker::new(false);
        assert_eq!([0, 1].map(|lower| tracker.nearest(lower)), [0, 1]);
        tracker.wrote_up_to(65_534);
        assert_eq!(
            [65_533, 65_535, 0, 2].map(|lower| tracker.nearest(lower)),
            [65_533, 65_535, 65_536, 65_538]
        );
        assert_eq!(tracker.state().unfinished.len(), 65_535);
    }

    #[test]
    fn states_are_read_as_they_are_written() {
        let mut tracker = tracked(false);
        tracker.flushed(true);
        let text = tracker.state().to_string();
        assert_eq!(text, "zonal verify state 1\nwrites 4\nunfinished 3\nsynced 4\nunsynced 1 3\n");
        assert_eq!(text.parse(), Ok(tracker.state()));
        for (from, to, told) in [
            ("state 1", "state 2", "line 1: expected zonal verify state 1"),
            ("writes 4", "writes", "line 2: expected `writes` and a number"),
            ("unfinished 3", "unfinished x", "line 3: expected `unfinished` and numbers"),
            ("unsynced 1 3\n", "", "line 5: expected `unsynced` and numbers"),
        ] {
            let error = text.replace(from, to).parse::<VerifyState>().expect_err(to);
            assert_eq!(error.to_string(), told);
        }
    }

    proptest! {
        #[test]
        fn any_state_is_read_as_it_is_written(
            writes: u32,
            unfinished in btree_set(any::<u32>(), 0..5),
            synced: u32,
            unsynced in btree_set(any::<u32>(), 0..5),
        ) {
            let state = VerifyState { writes, unfinished, synced, unsynced };
            prop_assert_eq!(state.to_string().parse(), Ok(state));
        }

        #[test]
        fn any_text_is_a_state_or_an_error_with_its_line(
            text in "(zonal verify state 1\n)?(writes|unfinished|synced|unsynced|[0-9 \nx-]){0,12}",
        ) {
            if let Err(error) = text.parse::<VerifyState>() {
                prop_assert!((1..=5).contains(&error.line), "{error}");
            }
        }
    }
}
