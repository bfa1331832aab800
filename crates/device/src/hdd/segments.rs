//! What the drive has read and still has: ranges, the least recently used of which give way.
//!
//! Takes what was read; gives whether a range is here, and how far to read ahead. Keeps true: no
//! more ranges than there are segments; behind and before what was asked for, a range has no more
//! than the read-ahead.

/// A range of bytes that is here.
#[derive(Clone, Debug)]
struct Segment {
    start: u64,
    end: u64,
    /// The end of what was last asked for.
    asked: u64,
}

/// The read segments of a drive.
#[derive(Debug)]
pub(super) struct Segments {
    /// The most recently used last.
    segments: Vec<Segment>,
    max: usize,
    /// Bytes that are read ahead.
    ahead: u64,
}

impl Segments {
    pub(super) fn new(max: usize, ahead: u64) -> Self {
        Segments { segments: Vec::with_capacity(max), max, ahead }
    }

    /// Makes a segment the most recently used, having been asked up to `end`.
    fn touch(&mut self, at: usize, start: u64, end: u64) {
        self.segments[at..].rotate_left(1);
        let segment = self.segments.last_mut().expect("it was moved to the end");
        segment.asked = end;
        segment.start = segment.start.max(start.saturating_sub(self.ahead));
    }

    /// Whether a range is all here; that makes its segment the most recently used.
    pub(super) fn hit(&mut self, start: u64, end: u64) -> bool {
        let holds = |segment: &Segment| segment.start <= start && end <= segment.end;
        let found = self.segments.iter().rposition(holds);
        if let Some(at) = found {
            self.touch(at, start, end);
        }
        found.is_some()
    }

    /// The first byte from `start` on that is not here.
    pub(super) fn missing(&self, start: u64) -> u64 {
        let holds = |segment: &&Segment| segment.start <= start && start < segment.end;
        self.segments.iter().rfind(holds).map_or(start, |segment| segment.end)
    }

    /// A range was read that was asked for: it goes on from a segment that it begins in or behind,
    /// or begins one.
    pub(super) fn fill(&mut self, start: u64, end: u64) {
        let meets = |segment: &Segment| segment.start <= start && start <= segment.end;
        if let Some(at) = self.segments.iter().rposition(meets) {
            self.segments[at].end = end.max(self.segments[at].end);
            return self.touch(at, start, end);
        }
        if self.segments.len() == self.max {
            self.segments.remove(0);
        }
        self.segments.push(Segment { start, end, asked: end });
    }

    /// The most recently used segment was read on to `end`.
    pub(super) fn extend(&mut self, end: u64) {
        if let Some(last) = self.segments.last_mut() {
            last.end = last.end.max(end);
        }
    }

    /// How far to read on from `at`, where the head is: if that is the end of the most recently
    /// used segment, and less than the read-ahead is there.
    pub(super) fn ahead(&self, at: u64) -> Option<u64> {
        let last = self.segments.last().filter(|last| last.end == at)?;
        let limit = last.asked.saturating_add(self.ahead);
        (limit > at).then_some(limit)
    }

    /// A range was written or erased: what was read of it is stale.
    pub(super) fn forget(&mut self, start: u64, end: u64) {
        self.segments.retain(|segment| segment.end <= start || end <= segment.start);
    }
}
