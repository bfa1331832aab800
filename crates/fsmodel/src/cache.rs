//! A cache of file data with LRU replacement: which ranges of which files are in memory.
//!
//! Its own memory grows with the number of ranges, not of bytes.
use super::FileId;
use std::collections::{BTreeMap, BTreeSet};

/// A file and a byte of it.
type Key = (FileId, u64);

/// An LRU cache.
#[derive(Debug)]
pub(super) struct Cache {
    size: u64,
    used: u64,
    /// By file and first byte.
    ranges: BTreeMap<Key, Cached>,
    /// Ages and keys of the ranges, least recently used first. The parts of a range that was split
    /// have one age.
    ages: BTreeSet<(u64, Key)>,
    uses: u64,
}

#[derive(Clone, Copy, Debug)]
struct Cached {
    end: u64,
    age: u64,
}

impl Cache {
    pub(super) fn new(size: u64) -> Self {
        Cache { size, used: 0, ranges: BTreeMap::new(), ages: BTreeSet::new(), uses: 0 }
    }

    /// Bytes cached.
    #[cfg(test)]
    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// Number of ranges.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Inserts a range as the most recently used.
    pub(super) fn insert(&mut self, file: FileId, start: u64, end: u64) {
        let mut start = start.max(end.saturating_sub(self.size));
        self.remove(file, start, end);
        // A range that continues the most recently used one is merged with it.
        if let Some(&(age, key)) = self.ages.last()
            && key.0 == file
            && self.ranges[&key].end == start
        {
            self.ages.remove(&(age, key));
            self.used -= start - key.1;
            self.ranges.remove(&key);
            start = key.1;
        }
        self.uses += 1;
        self.ranges.insert((file, start), Cached { end, age: self.uses });
        self.ages.insert((self.uses, (file, start)));
        self.used += end - start;
        self.shrink(self.size);
    }

    /// The parts of a range that are not cached; marks the others as used.
    pub(super) fn missing(&mut self, file: FileId, start: u64, end: u64) -> Vec<(u64, u64)> {
        let (mut missing, mut found) = (Vec::new(), Vec::new());
        let mut at = start;
        for (from, to) in self.parts(file, start, end) {
            if at < from {
                missing.push((at, from));
            }
            found.push((from, to));
            at = to;
        }
        if at < end {
            missing.push((at, end));
        }
        for (from, to) in found {
            self.insert(file, from, to);
        }
        missing
    }

    /// Removes a range.
    pub(super) fn remove(&mut self, file: FileId, start: u64, end: u64) {
        for (from, to) in self.parts(file, start, end) {
            let (&key, &whole) =
                self.ranges.range(..=(file, from)).next_back().expect("a part is of a range");
            self.ranges.remove(&key);
            self.ages.remove(&(whole.age, key));
            if key.1 < from {
                self.keep(key, Cached { end: from, ..whole });
            }
            if to < whole.end {
                self.keep((file, to), whole);
            }
            self.used -= to - from;
        }
    }

    /// Puts back a part of a range with the age that it had.
    fn keep(&mut self, key: Key, part: Cached) {
        self.ranges.insert(key, part);
        self.ages.insert((part.age, key));
    }

    /// Evicts the least recently used bytes until at most `size` are left.
    pub(super) fn shrink(&mut self, size: u64) {
        while self.used > size {
            let (_, key) = self.ages.pop_first().expect("bytes belong to a range");
            let cached = self.ranges[&key];
            let excess = (self.used - size).min(cached.end - key.1);
            self.ranges.remove(&key);
            self.used -= excess;
            let start = key.1 + excess;
            if start < cached.end {
                self.keep((key.0, start), cached);
            }
        }
    }

    /// The cached parts of a range.
    fn parts(&self, file: FileId, start: u64, end: u64) -> Vec<(u64, u64)> {
        let before = self.ranges.range((file, 0)..(file, start)).next_back();
        let inside = self.ranges.range((file, start)..(file, end));
        let cut = |(key, cached): (&Key, &Cached)| {
            let (from, to) = (key.1.max(start), cached.end.min(end));
            (from < to).then_some((from, to))
        };
        before.into_iter().chain(inside).filter_map(cut).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FILE: FileId = FileId { owner: 0, number: 0 };

    #[test]
    fn the_least_recently_used_range_is_evicted() {
        let mut cache = Cache::new(30);
        cache.insert(FILE, 0, 10);
        cache.insert(FILE, 100, 110);
        cache.insert(FILE, 200, 210);
        assert_eq!(cache.missing(FILE, 0, 10), [], "which uses it");
        cache.insert(FILE, 300, 305);
        assert_eq!(cache.missing(FILE, 100, 110), [(100, 105)]);
        assert_eq!(cache.missing(FILE, 0, 20), [(10, 20)]);
    }

    #[test]
    fn a_file_read_sequentially_is_one_range() {
        let mut cache = Cache::new(1 << 40);
        (0..10_000).for_each(|block| cache.insert(FILE, block * 4096, (block + 1) * 4096));
        assert_eq!((cache.len(), cache.used()), (1, 10_000 * 4096));
    }

    #[test]
    fn parts_of_a_range_that_was_split_keep_its_age() {
        let mut cache = Cache::new(100);
        cache.insert(FILE, 0, 30);
        cache.insert(FILE, 50, 90);
        assert_eq!(cache.missing(FILE, 10, 20), [], "which uses the middle of the older range");
        cache.insert(FILE, 200, 250);
        // In the order of use: 0..10, 20..30, 50..90, 10..20, 200..250.
        assert_eq!(cache.missing(FILE, 10, 20), []);
        assert_eq!(cache.missing(FILE, 0, 10), [(0, 10)]);
        assert_eq!(cache.missing(FILE, 20, 30), [(20, 30)]);
        assert_eq!(cache.missing(FILE, 50, 90), []);
    }

    /// Every cached byte with the time of its last use.
    #[derive(Default)]
    struct Model {
        used: BTreeMap<Key, u64>,
        uses: u64,
    }

    impl Model {
        fn insert(&mut self, file: FileId, start: u64, end: u64, size: u64) {
            self.uses += 1;
            self.used.extend((start..end).map(|byte| ((file, byte), self.uses)));
            while self.used.len() as u64 > size {
                let (&oldest, _) = self.used.iter().min_by_key(|&(key, age)| (age, key)).unwrap();
                self.used.remove(&oldest);
            }
        }

        /// Uses the cached parts of a range, one after the other.
        fn use_cached(&mut self, file: FileId, start: u64, end: u64) {
            let mut before = false;
            for byte in start..end {
                let Some(age) = self.used.get_mut(&(file, byte)) else {
                    before = false;
                    continue;
                };
                self.uses += u64::from(!before);
                (*age, before) = (self.uses, true);
            }
        }

        fn missing(&self, file: FileId, start: u64, end: u64) -> Vec<u64> {
            (start..end).filter(|&byte| !self.used.contains_key(&(file, byte))).collect()
        }
    }

    proptest! {
        #[test]
        fn cache_holds_the_bytes_used_last(
            steps in proptest::collection::vec((0_u32..2, 0_u64..200, 1_u64..40, 0_u8..4), 1..60)
        ) {
            let (mut cache, mut model) = (Cache::new(100), Model::default());
            for (number, start, len, what) in steps {
                let (file, end) = (FileId { owner: 0, number }, start + len);
                match what {
                    0 => {
                        cache.remove(file, start, end);
                        model.used.retain(|&(of, byte), _| of != file || byte < start || byte >= end);
                    }
                    1 => {
                        let missing = cache.missing(file, start, end);
                        let missing: Vec<u64> = missing.iter().flat_map(|&(a, b)| a..b).collect();
                        prop_assert_eq!(missing, model.missing(file, start, end));
                        model.use_cached(file, start, end);
                    }
                    _ => {
                        cache.insert(file, start, end);
                        model.insert(file, start, end, 100);
                    }
                }
                prop_assert_eq!(cache.used(), model.used.len() as u64);
                prop_assert_eq!(cache.ages.len(), cache.ranges.len());
                let cached = |&(file, at): &Key| cache.parts(file, at, at + 1).len() == 1;
                prop_assert!(model.used.keys().all(cached));
            }
        }
    }
}
