//! A cache of file data with LRU replacement: which ranges of which files are in memory.
//!
//! Its own memory grows with the number of ranges, not of bytes.
use super::FileId;
use std::collections::BTreeMap;

/// An LRU cache.
#[derive(Debug)]
pub(super) struct Cache {
    size: u64,
    used: u64,
    /// By file and first byte.
    ranges: BTreeMap<(FileId, u64), Cached>,
    /// Keys of the ranges, least recently used first.
    ages: BTreeMap<u64, (FileId, u64)>,
    uses: u64,
}

#[derive(Clone, Copy, Debug)]
struct Cached {
    end: u64,
    age: u64,
}

impl Cache {
    pub(super) fn new(size: u64) -> Self {
        Cache { size, used: 0, ranges: BTreeMap::new(), ages: BTreeMap::new(), uses: 0 }
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
        let last = self.ages.last_key_value().map(|(&age, &key)| (age, key));
        if let Some((age, key)) = last
            && key.0 == file
            && self.ranges[&key].end == start
        {
            self.ages.remove(&age);
            self.used -= start - key.1;
            self.ranges.remove(&key);
            start = key.1;
        }
        self.uses += 1;
        self.ranges.insert((file, start), Cached { end, age: self.uses });
        self.ages.insert(self.uses, (file, start));
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
            self.ages.remove(&whole.age);
            if key.1 < from {
                self.ranges.insert(key, Cached { end: from, ..whole });
                self.ages.insert(whole.age, key);
            }
            if to < whole.end {
                // The rest needs an age of its own: there is none between those of its neighbours.
                let age = if key.1 < from { self.next_age() } else { whole.age };
                self.ranges.insert((file, to), Cached { end: whole.end, age });
                self.ages.insert(age, (file, to));
            }
            self.used -= to - from;
        }
    }

    fn next_age(&mut self) -> u64 {
        self.uses += 1;
        self.uses
    }

    /// Evicts the least recently used bytes until at most `size` are left.
    pub(super) fn shrink(&mut self, size: u64) {
        while self.used > size {
            let (&age, &key) = self.ages.first_key_value().expect("bytes belong to a range");
            let cached = self.ranges[&key];
            let excess = (self.used - size).min(cached.end - key.1);
            self.ages.remove(&age);
            self.ranges.remove(&key);
            self.used -= excess;
            let start = key.1 + excess;
            if start < cached.end {
                self.ranges.insert((key.0, start), cached);
                self.ages.insert(age, (key.0, start));
            }
        }
    }

    /// The cached parts of a range.
    fn parts(&self, file: FileId, start: u64, end: u64) -> Vec<(u64, u64)> {
        let before = self.ranges.range((file, 0)..(file, start)).next_back();
        let inside = self.ranges.range((file, start)..(file, end));
        let cut = |(key, cached): (&(FileId, u64), &Cached)| {
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

    proptest! {
        #[test]
        fn cache_is_within_its_size_and_holds_the_last_used_range(
            steps in proptest::collection::vec((0_u32..2, 0_u64..200, 1_u64..40, 0_u8..4), 1..60)
        ) {
            let mut cache = Cache::new(100);
            for (number, start, len, what) in steps {
                let (file, end) = (FileId { owner: 0, number }, start + len);
                match what {
                    0 => cache.remove(file, start, end),
                    1 => {
                        let missing: u64 =
                            cache.missing(file, start, end).iter().map(|(a, b)| b - a).sum();
                        prop_assert!(missing <= len);
                    }
                    _ => {
                        cache.insert(file, start, end);
                        prop_assert_eq!(cache.missing(file, start, end), []);
                    }
                }
                let sum: u64 =
                    cache.ranges.iter().map(|(key, cached)| cached.end - key.1).sum();
                prop_assert_eq!(sum, cache.used());
                prop_assert!(cache.used() <= 100);
                prop_assert_eq!(cache.ages.len(), cache.ranges.len());
            }
        }
    }
}
