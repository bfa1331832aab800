//! Waiting requests in the order of their sectors: sorted runs of keys.
use super::Key;

/// The order of sectors: sorted runs, each at most half as long as the one before, and the keys
/// added since the last search.
#[derive(Default)]
pub(in crate::sched) struct Sorted {
    fresh: Vec<Key>,
    /// The only key, if it was added to an empty queue: a queue that is never deeper sorts nothing.
    single: Option<Key>,
    runs: Vec<Run>,
    spare: Vec<Run>,
    /// All cursors stand on the first key at or after this one.
    at: Key,
}

impl Sorted {
    pub(in crate::sched) fn push(&mut self, key: Key) {
        if self.single.is_none() && self.fresh.is_empty() && self.runs.is_empty() {
            self.single = Some(key);
        } else {
            self.fresh.extend(self.single.take());
            self.fresh.push(key);
        }
    }

    /// The only request, if that is known without a search.
    #[inline]
    pub(in crate::sched) fn single(&self) -> Option<Key> {
        self.single
    }

    /// The first request that begins at `sector` or later.
    pub(in crate::sched) fn at_or_after(&mut self, sector: u64) -> Option<Key> {
        self.settle();
        self.seek(Key::floor(sector));
        self.head()
    }

    /// The next request after the one that was removed last.
    pub(in crate::sched) fn head(&self) -> Option<Key> {
        if self.runs.is_empty() {
            return self.single.filter(|&single| single >= self.at);
        }
        self.runs.iter().filter_map(Run::head).min()
    }

    /// The last request before the one that was removed last.
    pub(in crate::sched) fn before(&self) -> Option<Key> {
        if self.runs.is_empty() {
            return self.single.filter(|&single| single < self.at);
        }
        self.runs.iter().filter_map(Run::before).max()
    }

    /// Removes a request. The cursors then stand where it was.
    pub(in crate::sched) fn take(&mut self, key: Key) {
        if self.single == Some(key) {
            self.single = None;
            self.at = key;
            return;
        }
        self.settle();
        self.seek(key);
        let run = self.runs.iter().position(|run| run.head() == Some(key));
        let run = run.expect("a key that waits is in a run");
        self.runs[run].take_head();
        if self.runs[run].len() == 0 {
            let empty = self.runs.remove(run);
            self.spare.push(empty);
        } else if self.runs[run].is_sparse() {
            let mut dense = self.spare.pop().unwrap_or_default();
            dense.fill_from(&self.runs[run], &Run::default());
            dense.seek(self.at);
            std::mem::swap(&mut self.runs[run], &mut dense);
            self.spare.push(dense);
        }
    }

    fn seek(&mut self, to: Key) {
        if to >= self.at {
            self.runs.iter_mut().for_each(|run| run.seek_ahead(to));
        } else {
            self.runs.iter_mut().for_each(|run| run.seek(to));
        }
        self.at = to;
    }

    /// Sorts the added keys, and merges runs until each is more than twice as long as the next.
    #[inline]
    fn settle(&mut self) {
        if !self.fresh.is_empty() {
            self.sort();
        }
    }

    fn sort(&mut self) {
        self.fresh.sort_unstable();
        let mut last = self.spare.pop().unwrap_or_default();
        last.clear();
        last.fill(&mut self.fresh);
        while let Some(shorter) = self.runs.pop_if(|run| run.len() <= 2 * last.len()) {
            let mut both = self.spare.pop().unwrap_or_default();
            both.fill_from(&shorter, &last);
            self.spare.push(shorter);
            self.spare.push(std::mem::replace(&mut last, both));
        }
        last.seek(self.at);
        self.runs.push(last);
    }
}

/// Lengths of the gap of removed keys that begins, or ends, at an index; 0 if its key is there. At
/// both ends of a gap they are exact, within it at most the distance to its end.
#[derive(Clone, Copy, Default)]
struct Gap {
    ahead: usize,
    behind: usize,
}

/// A sorted list with gaps and a cursor that stands on a key or at the end.
#[derive(Default)]
struct Run {
    keys: Vec<Key>,
    gaps: Vec<Gap>,
    cursor: usize,
    live: usize,
}

impl Run {
    fn len(&self) -> usize {
        self.live
    }

    /// Takes over sorted keys; `keys` gets the empty list that was here.
    fn fill(&mut self, keys: &mut Vec<Key>) {
        debug_assert!(self.live == 0 && keys.is_sorted());
        self.clear();
        std::mem::swap(&mut self.keys, keys);
        self.settle();
    }

    /// Becomes the merge of two runs.
    fn fill_from(&mut self, a: &Run, b: &Run) {
        self.clear();
        let (mut i, mut j) = (a.live_from(0), b.live_from(0));
        while i < a.keys.len() && j < b.keys.len() {
            if a.keys[i] < b.keys[j] {
                self.keys.push(a.keys[i]);
                i = a.live_from(i + 1);
            } else {
                self.keys.push(b.keys[j]);
                j = b.live_from(j + 1);
            }
        }
        for (run, mut at) in [(a, i), (b, j)] {
            while at < run.keys.len() {
                self.keys.push(run.keys[at]);
                at = run.live_from(at + 1);
            }
        }
        self.settle();
    }

    /// Whether most keys of the run have been removed.
    fn is_sparse(&self) -> bool {
        self.keys.len() > 4 * self.live + 64
    }

    fn clear(&mut self) {
        self.keys.clear();
        self.live = 0;
        self.cursor = 0;
    }

    fn settle(&mut self) {
        self.live = self.keys.len();
        self.gaps.clear();
        self.gaps.resize(self.keys.len(), Gap::default());
        self.cursor = 0;
    }

    /// Moves the cursor to the first key at or after `to`, which is no smaller than the last time.
    fn seek_ahead(&mut self, to: Key) {
        let Some(&head) = self.keys.get(self.cursor) else {
            return;
        };
        if head < to {
            let rest = &self.keys[self.cursor..];
            let step = rest.partition_point(|&key| key < to);
            self.set_cursor(self.cursor + step);
        }
    }

    /// Moves the cursor to the first key at or after `to`.
    fn seek(&mut self, to: Key) {
        let at = self.keys.partition_point(|&key| key < to);
        self.set_cursor(at);
    }

    /// The key under the cursor.
    fn head(&self) -> Option<Key> {
        self.keys.get(self.cursor).copied()
    }

    /// The key before the cursor.
    fn before(&self) -> Option<Key> {
        let last = self.cursor.checked_sub(1)?;
        let at = last.checked_sub(self.gaps[last].behind)?;
        Some(self.keys[at])
    }

    /// Removes the key under the cursor, which moves to the next.
    fn take_head(&mut self) {
        let at = self.cursor;
        let behind = at.checked_sub(1).map_or(0, |i| self.gaps[i].behind);
        let ahead = self.gaps.get(at + 1).map_or(0, |gap| gap.ahead);
        let len = behind + 1 + ahead;
        self.gaps[at] = Gap { ahead: ahead + 1, behind: behind + 1 };
        self.gaps[at - behind].ahead = len;
        self.gaps[at + ahead].behind = len;
        self.live -= 1;
        self.cursor = at + ahead + 1;
    }

    fn live_from(&self, mut at: usize) -> usize {
        while let Some(gap) = self.gaps.get(at).filter(|gap| gap.ahead > 0) {
            at += gap.ahead;
        }
        at
    }

    /// Puts the cursor on the first key from `at` on, and shortens the way for the next search.
    fn set_cursor(&mut self, mut at: usize) {
        self.cursor = self.live_from(at);
        while at < self.cursor {
            let step = self.gaps[at].ahead;
            self.gaps[at].ahead = self.cursor - at;
            at += step;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever keys are removed, in whatever order, the cursor and the key before it are those
        /// of a plain sorted list.
        #[test]
        fn a_run_with_holes_is_a_sorted_list(
            sectors in prop::collection::vec(0..60u64, 1..60),
            seeks in prop::collection::vec((0..64u64, any::<bool>()), 1..120),
        ) {
            let mut keys: Vec<_> = (0..).zip(&sectors).map(|(i, &s)| Key::new(s, i, i)).collect();
            keys.sort_unstable();
            let mut model = keys.clone();
            let mut run = Run::default();
            run.fill(&mut keys);
            for (sector, take) in seeks {
                let to = Key::floor(sector);
                run.seek(to);
                let at = model.partition_point(|&k| k < to);
                prop_assert_eq!(run.head(), model.get(at).copied());
                prop_assert_eq!(run.before(), at.checked_sub(1).map(|i| model[i]));
                if take && at < model.len() {
                    run.take_head();
                    model.remove(at);
                    prop_assert_eq!(run.head(), model.get(at).copied());
                    prop_assert_eq!(run.before(), at.checked_sub(1).map(|i| model[i]));
                }
                prop_assert_eq!(run.len(), model.len());
            }
        }
    }
}
