//! What the drive has read and still has: ranges, the least recently used of which give way.
use std::ops::Range;

/// The read segments of a drive.
#[derive(Debug)]
pub(super) struct Segments {
    /// The most recently used last.
    ranges: Vec<Range<u64>>,
    max: usize,
}

impl Segments {
    pub(super) fn new(max: usize) -> Self {
        Segments { ranges: Vec::with_capacity(max), max }
    }

    /// Whether a range is all here; that makes its segment the most recently used.
    pub(super) fn hit(&mut self, start: u64, end: u64) -> bool {
        let holds = |range: &Range<u64>| range.start <= start && end <= range.end;
        let Some(at) = self.ranges.iter().rposition(holds) else {
            return false;
        };
        self.ranges[at..].rotate_left(1);
        true
    }

    /// A range was read: it goes on from a segment that ends where it starts, or begins one.
    pub(super) fn fill(&mut self, start: u64, end: u64) {
        if let Some(at) = self.ranges.iter().rposition(|range| range.end == start) {
            self.ranges[at].end = end;
            self.ranges[at..].rotate_left(1);
            return;
        }
        if self.ranges.len() == self.max {
            self.ranges.remove(0);
        }
        self.ranges.push(start..end);
    }

    /// The segment that ends at `start` goes on to `end`, if it is still there.
    pub(super) fn extend(&mut self, start: u64, end: u64) {
        if let Some(range) = self.ranges.iter_mut().rev().find(|range| range.end == start) {
            range.end = end;
        }
    }

    /// How far to read on from `at`, where the head is, if that is behind the last segment and
    /// fewer than `most` bytes have been read ahead there.
    pub(super) fn ahead(&self, at: u64, most: u64) -> Option<u64> {
        let last = self.ranges.last().filter(|last| last.end == at)?;
        let limit = last.start.saturating_add(most);
        (limit > at).then_some(limit)
    }

    /// A range was written or erased: what was read of it is stale.
    pub(super) fn forget(&mut self, start: u64, end: u64) {
        self.ranges.retain(|range| range.end <= start || end <= range.start);
    }
}
