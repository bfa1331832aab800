//! The pace of a collection: it moves as many pages as pay for those that the host writes.
//!
//! Of a victim with `v` valid pages of `n`, `v / (n - v)` are moved for each page of the host. A host
//! that is ahead by more than its limit waits.

/// Parts of a page in which the pace is counted.
const PARTS: u64 = 256;

#[derive(Debug)]
pub(crate) struct Pace {
    /// Pages that are yet to be moved for those that the host has written, and how many each page of
    /// the host adds to them, both in [`PARTS`].
    owed: u64,
    each: u64,
    /// By how much the host may be ahead, likewise.
    limit: u64,
}

impl Pace {
    /// A host that may be ahead by this many pages.
    pub(crate) fn new(ahead: u32) -> Self {
        Pace { owed: 0, each: 0, limit: u64::from(ahead) * PARTS }
    }

    /// A victim is begun, which takes this many moves and gains room for that many pages of the host.
    pub(crate) fn begin(&mut self, moves: u32, gained: u32) {
        self.each = (u64::from(moves) * PARTS).div_ceil(gained.max(1).into());
    }

    /// There is no victim: nothing holds the host up.
    pub(crate) fn end(&mut self) {
        (self.owed, self.each) = (0, 0);
    }

    /// The host has written a page.
    #[inline]
    pub(crate) fn host_wrote(&mut self) {
        self.owed += self.each;
    }

    /// A page was moved.
    pub(crate) fn moved(&mut self) {
        self.owed = self.owed.saturating_sub(PARTS);
    }

    /// Whether this many pages are yet to be moved.
    pub(crate) fn owes(&self, pages: u32) -> bool {
        self.owed >= u64::from(pages) * PARTS
    }

    /// Whether the host has to wait until more has been moved.
    #[inline]
    pub(crate) fn host_is_ahead(&self) -> bool {
        self.owed > self.limit
    }
}
