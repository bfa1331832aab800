//! A sorted run of keys from which some have been taken.
use super::Key;

/// Lengths of the stretch of taken keys that begins, or ends, at a place; 0 if its key is there.
/// At both ends of a stretch they are exact, within it they are no longer than the way to the end.
#[derive(Clone, Copy, Default)]
struct Gap {
    ahead: usize,
    behind: usize,
}

/// A sorted list with holes and a cursor that stands on a key or at the end.
#[derive(Default)]
pub(super) struct Run {
    keys: Vec<Key>,
    gaps: Vec<Gap>,
    cursor: usize,
    live: usize,
}

impl Run {
    pub(super) fn len(&self) -> usize {
        self.live
    }

    /// Takes over sorted keys; `keys` gets the empty list that was here.
    pub(super) fn fill(&mut self, keys: &mut Vec<Key>) {
        debug_assert!(self.live == 0 && keys.is_sorted());
        self.clear();
        std::mem::swap(&mut self.keys, keys);
        self.settle();
    }

    /// Becomes what is left of two runs.
    pub(super) fn fill_from(&mut self, a: &Run, b: &Run) {
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

    /// Whether most of the run is holes.
    pub(super) fn is_sparse(&self) -> bool {
        self.keys.len() > 4 * self.live + 64
    }

    pub(super) fn clear(&mut self) {
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
    pub(super) fn seek_ahead(&mut self, to: Key) {
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
    pub(super) fn seek(&mut self, to: Key) {
        let at = self.keys.partition_point(|&key| key < to);
        self.set_cursor(at);
    }

    /// The key under the cursor.
    pub(super) fn head(&self) -> Option<Key> {
        self.keys.get(self.cursor).copied()
    }

    /// The key before the cursor.
    pub(super) fn before(&self) -> Option<Key> {
        let last = self.cursor.checked_sub(1)?;
        let at = last.checked_sub(self.gaps[last].behind)?;
        Some(self.keys[at])
    }

    /// Takes the key under the cursor, which goes on to the next.
    pub(super) fn take_head(&mut self) {
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

    /// Puts the cursor on the first key from `at` on, and shortens the way for the next that comes
    /// by.
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
        /// Whatever is taken in whatever order, the cursor and the key before it are those of the
        /// plain sorted list of what is left.
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
