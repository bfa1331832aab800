//! The valid pages of each superblock, and which of the closed ones is collected next.
use super::bytes::{Input, put_list32, put32, put64};
use super::shape::{Policy, Shape};
use std::collections::VecDeque;

/// Marks the count of a superblock that cannot be chosen: it is above every other.
const NOT_CLOSED: u32 = 1 << 31;
/// Superblocks in a row, for which the least count is kept.
const ROW: usize = 64;

#[derive(Debug)]
pub(super) struct Victims {
    policy: Policy,
    pages: u32,
    /// By superblock, its valid pages, with [`NOT_CLOSED`].
    valid: Box<[u32]>,
    /// By row of superblocks, the least of these: counts of closed superblocks only fall, so that it
    /// is kept up to date without looking at the others.
    least: Box<[u32]>,
    /// By superblock, what had been written when it was closed.
    closed_at: Box<[u64]>,
    /// Groups of superblocks of the shape; by group, valid pages, unless there is only one.
    groups: usize,
    in_group: Box<[u64]>,
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
            least: vec![NOT_CLOSED; superblocks.div_ceil(ROW)].into(),
            closed_at: vec![0; superblocks].into(),
            groups: shape.groups.into(),
            in_group: vec![0; shape.groups.into()].into(),
            written: 0,
            in_order: VecDeque::new(),
            last: 0,
        }
    }

    /// Appends the state to `to`.
    pub(super) fn save(&self, to: &mut Vec<u8>) {
        put_list32(to, self.valid.iter().copied());
        self.closed_at.iter().for_each(|&at| put64(to, at));
        put64(to, self.written);
        put32(to, u32::try_from(self.last).expect("superblocks are counted in 32 bits"));
        put_list32(to, self.in_order.iter().copied());
    }

    /// Reads what [`Victims::save`] has written.
    pub(super) fn restore(shape: &Shape, from: &mut Input<'_>) -> Option<Self> {
        let mut victims = Victims::new(shape);
        let is_whole = |list: &Vec<u32>| list.len() == victims.valid.len();
        victims.valid = from.list32().filter(is_whole)?.into();
        for at in &mut victims.closed_at {
            *at = from.number64()?;
        }
        victims.written = from.number64()?;
        victims.last = from.below(shape.superblocks)? as usize;
        let exist = |list: &Vec<u32>| list.iter().all(|&superblock| superblock < shape.superblocks);
        victims.in_order = from.list32().filter(exist)?.into();
        for (least, row) in victims.least.iter_mut().zip(victims.valid.chunks(ROW)) {
            *least = row.iter().copied().min().expect("a row is not empty").min(NOT_CLOSED);
        }
        for (at, valid) in victims.valid.iter().enumerate() {
            victims.in_group[at % victims.groups] += u64::from(valid & !NOT_CLOSED);
        }
        Some(victims)
    }

    /// See [`Translation::closed_by_share`](super::Translation::closed_by_share).
    pub(super) fn closed_by_share(&self) -> [u64; 4] {
        let mut counts = [0; 4];
        for &valid in self.valid.iter().filter(|valid| **valid < NOT_CLOSED) {
            let quarter = (u64::from(valid) * 4).div_ceil(self.pages.into()).max(1) - 1;
            counts[usize::try_from(quarter).expect("below four")] += 1;
        }
        counts
    }

    pub(super) fn valid(&self, superblock: u32) -> u32 {
        self.valid[superblock as usize] & !NOT_CLOSED
    }

    /// A page was written to an open superblock.
    #[inline]
    pub(super) fn add_page(&mut self, superblock: u32) {
        self.written += 1;
        self.valid[superblock as usize] += 1;
        if self.groups > 1 {
            self.in_group[superblock as usize % self.groups] += 1;
        }
    }

    /// Valid pages of a group, of several.
    pub(super) fn valid_in(&self, group: u16) -> u64 {
        debug_assert!(self.groups > 1, "a single group has the mapped pages");
        self.in_group[usize::from(group)]
    }

    /// A page of a superblock is no longer valid.
    #[inline]
    pub(super) fn remove_page(&mut self, superblock: u32) {
        let at = superblock as usize;
        let valid = &mut self.valid[at];
        debug_assert!(*valid & !NOT_CLOSED > 0, "superblock {superblock} has no valid page");
        *valid -= 1;
        let least = &mut self.least[at / ROW];
        *least = (*least).min(*valid);
        if self.groups > 1 {
            self.in_group[at % self.groups] -= 1;
        }
    }

    pub(super) fn close(&mut self, superblock: u32) {
        let at = superblock as usize;
        self.valid[at] &= !NOT_CLOSED;
        self.closed_at[at] = self.written;
        if self.policy == Policy::Fifo {
            self.in_order.push_back(superblock);
        } else {
            self.least[at / ROW] = self.least[at / ROW].min(self.valid[at]);
        }
    }

    pub(super) fn erased(&mut self, superblock: u32) {
        self.valid[superblock as usize] = NOT_CLOSED;
    }

    /// Chooses a closed superblock of a group, which is no longer one then.
    pub(super) fn take(&mut self, group: usize) -> Option<u32> {
        let at = match self.policy {
            Policy::Greedy if self.groups == 1 => self.fewest(),
            Policy::Greedy => self.fewest_of(group),
            Policy::CostBenefit => self.best(group),
            Policy::Fifo => {
                let is_of_group = |superblock: &u32| *superblock as usize % self.groups == group;
                let first = self.in_order.iter().position(is_of_group)?;
                self.in_order.remove(first).map(|superblock| superblock as usize)
            }
        }?;
        self.last = at;
        self.valid[at] |= NOT_CLOSED;
        let row = &self.valid[at / ROW * ROW..];
        let row = &row[..row.len().min(ROW)];
        self.least[at / ROW] = row.iter().copied().min().expect("a row is not empty");
        Some(u32::try_from(at).expect("superblocks are counted in 32 bits"))
    }

    /// Of a group of several, the superblock with the fewest valid pages, the next one after the last.
    fn fewest_of(&self, group: usize) -> Option<usize> {
        let closed = self.numbered(group).filter(|(_, valid)| *valid < self.pages);
        let place = |at: usize| (at <= self.last, at);
        closed.min_by_key(|&(at, valid)| (valid, place(at))).map(|(at, _)| at)
    }

    /// The superblocks of a group, and their counts.
    fn numbered(&self, group: usize) -> impl Iterator<Item = (usize, u32)> + '_ {
        self.valid.iter().copied().enumerate().skip(group).step_by(self.groups)
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
        let end = self.valid.len().min(from.next_multiple_of(ROW));
        let in_first = self.valid.get(from..end)?.iter().position(has);
        in_first.map(|at| from + at).or_else(|| {
            let rows = self.least.get(end.div_ceil(ROW)..)?;
            let first = (end.div_ceil(ROW) + rows.iter().position(has)?) * ROW;
            Some(first + self.valid[first..].iter().position(has)?)
        })
    }

    /// The superblock of a group with the best ratio of benefit to cost.
    fn best(&self, group: usize) -> Option<usize> {
        let closed = self.numbered(group).filter(|(_, valid)| *valid < self.pages);
        // As fractions, so that the choice does not depend on rounding.
        let worth = |at: usize, valid: u32| {
            let age = self.written - self.closed_at[at] + 1;
            let gained = u64::from(self.pages - valid);
            (u128::from(age) * u128::from(gained), u128::from(self.pages + valid))
        };
        let mut best: Option<(usize, (u128, u128))> = None;
        for (at, valid) in closed {
            let (gain, cost) = worth(at, valid);
            if best.is_none_or(|(_, (most, for_cost))| gain * for_cost > most * cost) {
                best = Some((at, (gain, cost)));
            }
        }
        best.map(|(at, _)| at)
    }
}
