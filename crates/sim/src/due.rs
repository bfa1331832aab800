//! When each thread is due: a tournament tree, so that a step costs the logarithm of the number of
//! threads.
//!
//! ```text
//!            7                  of all
//!        7       9
//!      7   12  9   never        of each thread
//! ```
//!
//! Of threads that are due at the same time the one with the lowest index is first. A thread that has to
//! share processors is due in its next turn.
use crate::turns::Turns;
use zonal_blk::Nanos;

const NEVER: u64 = u64::MAX;
/// The end of time: nothing is due later.
pub(crate) const LATEST: Nanos = Nanos(NEVER - 1);

/// The due times of a fixed number of threads.
#[derive(Debug)]
pub(crate) struct DueTimes {
    /// The root is at 1, the children of `i` are at `2 * i` and `2 * i + 1`, the threads in the second
    /// half. A node has the earlier time of its children.
    nodes: Vec<u64>,
    turns: Option<Turns>,
}

impl DueTimes {
    /// This many threads, none of which is due.
    pub(crate) fn new(threads: usize, turns: Option<Turns>) -> Self {
        DueTimes { nodes: vec![NEVER; 2 * threads.next_power_of_two()], turns }
    }

    fn leaf(&self, thread: usize) -> usize {
        self.nodes.len() / 2 + thread
    }

    /// Sets when a thread is due; `None` if another thread has to wake it.
    #[inline]
    pub(crate) fn set(&mut self, thread: usize, due: Option<Nanos>) {
        let due = match self.turns {
            Some(turns) => due.map(|due| turns.next(thread, due)),
            None => due,
        };
        let mut at = self.leaf(thread);
        self.nodes[at] = due.map_or(NEVER, |due| due.min(LATEST).0);
        while at > 1 {
            let earlier = self.nodes[at].min(self.nodes[at ^ 1]);
            at /= 2;
            if self.nodes[at] == earlier {
                break;
            }
            self.nodes[at] = earlier;
        }
    }

    /// Has a thread be due no later than `due`.
    pub(crate) fn bring_forward(&mut self, thread: usize, due: Nanos) {
        if due.0 < self.nodes[self.leaf(thread)] {
            self.set(thread, Some(due));
        }
    }

    /// The thread that is due first, and when.
    #[inline]
    pub(crate) fn first(&self) -> Option<(Nanos, usize)> {
        let due = self.nodes[1];
        if due == NEVER {
            return None;
        }
        let threads = self.nodes.len() / 2;
        let mut at = 1;
        while at < threads {
            at *= 2;
            at += usize::from(self.nodes[at] != due);
        }
        Some((Nanos(due), at - threads))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Looks at all threads.
    fn first(due: &[Option<u64>]) -> Option<(Nanos, usize)> {
        let times = due.iter().zip(0..).filter_map(|(due, thread)| Some((Nanos((*due)?), thread)));
        times.min()
    }

    proptest! {
        #[test]
        fn the_first_thread_is_the_one_that_a_look_at_all_of_them_finds(
            threads in 1..40_usize,
            changes in prop::collection::vec((0..40_usize, prop::option::of(0..9_u64), any::<bool>()), 0..200),
        ) {
            let (mut tree, mut all) = (DueTimes::new(threads, None), vec![None; threads]);
            prop_assert_eq!(tree.first(), None);
            for (thread, due, only_forward) in changes {
                let thread = thread % threads;
                match due {
                    Some(due) if only_forward => {
                        tree.bring_forward(thread, Nanos(due));
                        all[thread] = Some(all[thread].map_or(due, |was: u64| was.min(due)));
                    }
                    due => {
                        tree.set(thread, due.map(Nanos));
                        all[thread] = due;
                    }
                }
                prop_assert_eq!(tree.first(), first(&all));
            }
        }
    }

    #[test]
    fn the_end_of_time_is_not_never() {
        let mut tree = DueTimes::new(1, None);
        tree.set(0, Some(Nanos(u64::MAX)));
        assert_eq!(tree.first(), Some((Nanos(u64::MAX - 1), 0)));
    }
}
