//! Waiting requests in the order of their sectors.
use super::Key;
use super::run::Run;

/// The order of sectors: sorted runs, the sizes falling by half at the least, and what came since
/// it was last asked.
#[derive(Default)]
pub(in crate::sched) struct Sorted {
    fresh: Vec<Key>,
    /// The only request there is, if it came when there was none: a queue that is never deeper
    /// sorts nothing.
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

    /// The only request there is, if that is known without looking.
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

    /// The next request after the one that was taken last.
    pub(in crate::sched) fn head(&self) -> Option<Key> {
        if self.runs.is_empty() {
            return self.single.filter(|&single| single >= self.at);
        }
        self.runs.iter().filter_map(Run::head).min()
    }

    /// The last request before the one that was taken last.
    pub(in crate::sched) fn before(&self) -> Option<Key> {
        if self.runs.is_empty() {
            return self.single.filter(|&single| single < self.at);
        }
        self.runs.iter().filter_map(Run::before).max()
    }

    /// Takes a request out, and stands where it was.
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

    /// Sorts what came, and merges runs until each is more than twice as long as the next.
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
