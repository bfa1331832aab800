//! The valid pages of each superblock, and which of the closed ones is collected next.
use super::shape::{Policy, Shape};
use std::collections::VecDeque;

/// Marks the count of a superblock that cannot be chosen: it is above every other.
const NOT_CLOSED: u32 = 1 << 31;
/// Superblocks in a group, for which the least count is kept.
const GROUP: usize = 64;

#[derive(Debug)]
pub(super) struct Victims {
    policy: Policy,
    pages: u32,
    /// By superblock, its valid pages, with [`NOT_CLOSED`].
    valid: Box<[u32]>,
    /// By group of superblocks, the least of these: counts of closed superblocks only fall, so that it
    /// is kept up to date without looking at the others.
    least: Box<[u32]>,
    /// By superblock, what had been written when it was closed.
    closed_at: Box<[u64]>,
    /// Pages that were written.
    written: u64,
    /// The closed superblocks in the order in which they were closed, with [`Policy::Fifo`].
    in_order: VecDeque<u32>,
    /// The one that was chosen last.
    last: usize,
}

impl Victims {
    pub(super) fn new(shape: &Shape) -> Self {
        let superblocks = shape.superblocks as usize;
        Victims {
            policy: shape.policy,
            pages: shape.superblock_pages,
            valid: vec![NOT_CLOSED; superblocks].into(),
            least: vec![NOT_CLOSED; superblocks.div_ceil(GROUP)].into(),
            closed_at: vec![0; superblocks].into(),
            written: 0,
            in_order: VecDeque::new(),
            last: 0,
        }
    }

    pub(super) fn valid(&self, superblock: u32) -> u32 {
        self.valid[superblock as usize] & !NOT_CLOSED
    }

    /// A page was written to an open superblock.
    #[inline]
    pub(super) fn add_page(&mut self, superblock: u32) {
        self.written += 1;
        self.valid[superblock as usize] += 1;
    }

    /// A page of a superblock is no longer valid.
    #[inline]
    pub(super) fn remove_page(&mut self, superblock: u32) {
        let at = superblock as usize;
        let valid = &mut self.valid[at];
        debug_assert!(*valid & !NOT_CLOSED > 0, "superblock {superblock} has no valid page");
        *valid -= 1;
        let least = &mut self.least[at / GROUP];
        *least = (*least).min(*valid);
    }

    pub(super) fn close(&mut self, superblock: u32) {
        let at = superblock as usize;
        self.valid[at] &= !NOT_CLOSED;
        self.closed_at[at] = self.written;
        if self.policy == Policy::Fifo {
            self.in_order.push_back(superblock);
        } else {
            self.least[at / GROUP] = self.least[at / GROUP].min(self.valid[at]);
        }
    }

    pub(super) fn erased(&mut self, superblock: u32) {
        self.valid[superblock as usize] = NOT_CLOSED;
    }

    /// Chooses a closed superblock, which is no longer one then.
    pub(super) fn take(&mut self) -> Option<u32> {
        let at = match self.policy {
            Policy::Greedy => self.fewest(),
            Policy::CostBenefit => self.best(),
            Policy::Fifo => self.in_order.pop_front().map(|superblock| superblock as usize),
        }?;
        self.last = at;
        self.valid[at] |= NOT_CLOSED;
        let group = &self.valid[at / GROUP * GROUP..];
        let group = &group[..group.len().min(GROUP)];
        self.least[at / GROUP] = group.iter().copied().min().expect("a group is not empty");
        Some(u32::try_from(at).expect("superblocks are counted in 32 bits"))
    }

    fn fewest(&self) -> Option<usize> {
        let least = *self.least.iter().min().expect("there are superblocks");
        if least >= self.pages {
            return None;
        }
        // Of several the next one after the last, so that none is left out for ever.
        self.with_count(least, self.last + 1).or_else(|| self.with_count(least, 0))
    }

    /// The first superblock from `from` on with this count, which is the least.
    fn with_count(&self, least: u32, from: usize) -> Option<usize> {
        let has = |count: &u32| *count == least;
        let end = self.valid.len().min(from.next_multiple_of(GROUP));
        let in_first = self.valid.get(from..end)?.iter().position(has);
        in_first.map(|at| from + at).or_else(|| {
            let groups = self.least.get(end.div_ceil(GROUP)..)?;
            let first = (end.div_ceil(GROUP) + groups.iter().position(has)?) * GROUP;
            Some(first + self.valid[first..].iter().position(has)?)
        })
    }

    /// The superblock with the best ratio of benefit to cost.
    fn best(&self) -> Option<usize> {
        let closed = self.valid.iter().enumerate().filter(|(_, valid)| **valid < self.pages);
        // As fractions, so that the choice does not depend on rounding.
        let worth = |at: usize, valid: u32| {
            let age = self.written - self.closed_at[at] + 1;
            let gained = u64::from(self.pages - valid);
            (u128::from(age) * u128::from(gained), u128::from(self.pages + valid))
        };
        let mut best: Option<(usize, (u128, u128))> = None;
        for (at, &valid) in closed {
            let (gain, cost) = worth(at, valid);
            if best.is_none_or(|(_, (most, for_cost))| gain * for_cost > most * cost) {
                best = Some((at, (gain, cost)));
            }
        }
        best.map(|(at, _)| at)
    }
}
