//! Sets of byte ranges, and maps from ranges of a file to the disk.
//!
//! Ranges do not overlap, and adjacent ranges of a set are merged.
use std::collections::BTreeMap;

/// A set of bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges {
    /// Start to end (exclusive).
    map: BTreeMap<u64, u64>,
}

impl Ranges {
    /// Adds a range; returns how many of its bytes were not in the set.
    pub(super) fn insert(&mut self, start: u64, end: u64) -> u64 {
        let had = self.overlap(start, end);
        let (mut first, mut last) = (start, end);
        while let Some((&from, &to)) = self.map.range(..=last).next_back() {
            if to < start {
                break;
            }
            first = first.min(from);
            last = last.max(to);
            self.map.remove(&from);
        }
        self.map.insert(first, last);
        end - start - had
    }

    /// Removes a range; returns how many of its bytes were in the set.
    pub(super) fn remove(&mut self, start: u64, end: u64) -> u64 {
        let mut removed = 0;
        while let Some((&from, &to)) = self.map.range(..end).next_back() {
            if to <= start {
                break;
            }
            self.map.remove(&from);
            if from < start {
                self.map.insert(from, start);
            }
            if to > end {
                self.map.insert(end, to);
            }
            removed += to.min(end) - from.max(start);
        }
        removed
    }

    /// How many bytes of a range are in the set.
    pub(super) fn overlap(&self, start: u64, end: u64) -> u64 {
        let parts = self.map.range(..end).rev().take_while(|&(_, &to)| to > start);
        parts.map(|(&from, &to)| to.min(end) - from.max(start)).sum()
    }

    /// Removes and returns the first range, up to `max` bytes.
    pub(super) fn take_first(&mut self, max: u64) -> Option<(u64, u64)> {
        let (&from, &to) = self.map.first_key_value()?;
        let end = to.min(from + max);
        self.remove(from, end);
        Some((from, end))
    }

    /// Whether the set is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.map.is_empty()
    }
}

/// The extents of a file, by first byte in the file.
#[derive(Clone, Debug, Default)]
pub(super) struct ExtentMap {
    map: BTreeMap<u64, Extent>,
}

/// Bytes that are contiguous in the file and on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// First byte in the file.
    pub(super) offset: u64,
    /// Bytes.
    pub(super) len: u64,
    /// First byte on the disk.
    pub(super) place: u64,
}

impl ExtentMap {
    /// Maps a range; returns the extents that it replaces.
    pub(super) fn insert(&mut self, extent: Extent) -> Vec<Extent> {
        let Extent { offset, len, place } = extent;
        let old = self.remove(offset, offset + len);
        let mut new = extent;
        if let Some((_, before)) = self.map.range(..offset).next_back()
            && before.offset + before.len == offset
            && before.place + before.len == place
        {
            new = Extent { offset: before.offset, len: before.len + len, place: before.place };
        }
        self.map.insert(new.offset, new);
        old
    }

    /// Removes a range; returns its extents.
    pub(super) fn remove(&mut self, start: u64, end: u64) -> Vec<Extent> {
        let mut old = self.of(start, end);
        for part in &mut old {
            let (_, whole) =
                self.map.range(..=part.offset).next_back().expect("a part is of an extent");
            let whole = *whole;
            self.map.remove(&whole.offset);
            if whole.offset < part.offset {
                let len = part.offset - whole.offset;
                self.map.insert(whole.offset, Extent { len, ..whole });
            }
            let (end, whole_end) = (part.offset + part.len, whole.offset + whole.len);
            if end < whole_end {
                let skipped = end - whole.offset;
                let (len, place) = (whole_end - end, whole.place + skipped);
                self.map.insert(end, Extent { offset: end, len, place });
            }
        }
        old
    }

    /// The extents of a range, in order.
    pub(super) fn of(&self, start: u64, end: u64) -> Vec<Extent> {
        let before = self.map.range(..start).next_back().map(|(_, extent)| extent);
        let inside = self.map.range(start..end).map(|(_, extent)| extent);
        let cut = |extent: &Extent| {
            let from = extent.offset.max(start);
            let to = (extent.offset + extent.len).min(end);
            let place = extent.place + (from - extent.offset);
            (from < to).then(|| Extent { offset: from, len: to - from, place })
        };
        before.into_iter().chain(inside).filter_map(cut).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_behave_like_a_set_of_bytes(
            steps in proptest::collection::vec((any::<bool>(), 0_u64..64, 1_u64..32), 1..40)
        ) {
            let mut ranges = Ranges::default();
            let mut bytes = [false; 100];
            for (adds, start, len) in steps {
                let part = &mut bytes[start as usize..(start + len) as usize];
                let changed = part.iter().filter(|&&byte| byte != adds).count() as u64;
                part.fill(adds);
                let end = start + len;
                let said =
                    if adds { ranges.insert(start, end) } else { ranges.remove(start, end) };
                prop_assert_eq!(said, changed);
                let there = bytes.iter().filter(|&&byte| byte).count() as u64;
                prop_assert_eq!(ranges.overlap(0, 100), there);
                prop_assert_eq!(ranges.is_empty(), there == 0);
            }
            let touching = ranges.map.values().any(|end| ranges.map.contains_key(end));
            prop_assert!(!touching, "{:?}", ranges);
        }

        #[test]
        fn extents_behave_like_a_table_of_bytes(
            steps in proptest::collection::vec((0_u64..64, 1_u64..32, any::<bool>()), 1..40)
        ) {
            let mut map = ExtentMap::default();
            let mut table = [None; 100];
            let mut place = 1000;
            for (offset, len, maps) in steps {
                let part = offset as usize..(offset + len) as usize;
                let had = table[part.clone()].iter().filter(|byte| byte.is_some()).count() as u64;
                let old = if maps {
                    let extent = Extent { offset, len, place };
                    (part.clone()).for_each(|at| table[at] = Some(place + at as u64 - offset));
                    place += len;
                    map.insert(extent)
                } else {
                    table[part].fill(None);
                    map.remove(offset, offset + len)
                };
                prop_assert_eq!(old.iter().map(|extent| extent.len).sum::<u64>(), had);
                for (at, expected) in (0_u64..).zip(table) {
                    let found = map.of(at, at + 1).first().map(|extent| extent.place);
                    prop_assert_eq!(found, expected);
                }
            }
        }
    }

    #[test]
    fn first_range_is_taken_in_pieces() {
        let mut ranges = Ranges::default();
        ranges.insert(10, 30);
        ranges.insert(50, 60);
        assert_eq!(ranges.take_first(15), Some((10, 25)));
        assert_eq!(ranges.take_first(15), Some((25, 30)));
        assert_eq!(ranges.take_first(15), Some((50, 60)));
        assert_eq!(ranges.take_first(15), None);
    }
}
