//! The translation layer of a flash drive, without time: where each logical page is, and which
//! superblock is collected next.
//!
//! ```text
//!   write(page, stream) --> frontier of the stream   --\
//!                                                       +--> superblocks, filled page by page
//!   collect: live pages --> frontier for collected   --/          |
//!            of a victim                                          | erased
//!                ^------------- victims <--- closed superblocks   v
//!                                                            free superblocks
//! ```
//!
//! A superblock is free, open (a frontier fills it), closed, or being collected. The caller says when
//! a victim's pages are copied and when it has been erased, so that a drive can give these steps their
//! times; [`Translation::overwrite`] does all of it immediately.
//!
//! Superblocks may be in groups, as the dies that they are on: each group has its own frontiers, and a
//! victim's pages stay in its group.
//!
//! Invariants: a logical page is in one place at most; the count of a superblock's valid pages is the
//! number of logical pages that are in it; a host's write leaves a free superblock of each group for the
//! collection, which returns one for each that it takes.
//!
//! Memory: 4 bytes for each logical page, and a packed list of the pages of each closed superblock,
//! of about `log2(logical pages / pages of a superblock) + 2` bits a page.
pub(super) mod bytes;
mod lists;
mod order;
mod saved;
mod shape;
mod steps;
mod victims;

#[cfg(test)]
mod tests;

use lists::PageList;
pub use shape::{Isolation, Policy, Shape, ShapeError};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
pub use steps::{STEP_BYTES, Step};
use victims::Victims;

/// A logical page, counted from 0.
pub type Page = u32;

/// No place, or no page. No superblock has this place: see [`Shape::validate`].
const NONE: u32 = u32::MAX;

/// Where a page is on the flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The superblock.
    pub superblock: u32,
    /// The number of the page in it, in the order in which they are written.
    pub slot: u32,
}

/// A page that the collection moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The page.
    pub page: Page,
    /// Where it was.
    pub from: Place,
    /// Where it is.
    pub to: Place,
    /// The frontier that took it.
    pub frontier: u16,
}

/// Counts of pages written and superblocks erased.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Pages that the host wrote.
    pub host: u64,
    /// Pages that the collection copied.
    pub copied: u64,
    /// Pages of padding, to program the last unit of a superblock that was closed early.
    pub padded: u64,
    /// Pages that the host discarded while they had data.
    pub discarded: u64,
    /// Superblocks that were erased.
    pub erased: u64,
}

impl Counts {
    /// Pages written to the flash.
    pub fn media(&self) -> u64 {
        self.host + self.copied + self.padded
    }

    /// Pages written to the flash for each that the host wrote; 1 before the first.
    pub fn write_amplification(&self) -> f64 {
        if self.host == 0 { 1.0 } else { self.media() as f64 / self.host as f64 }
    }

    /// The counts since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Counts) -> Counts {
        Counts {
            host: self.host - earlier.host,
            copied: self.copied - earlier.copied,
            padded: self.padded - earlier.padded,
            discarded: self.discarded - earlier.discarded,
            erased: self.erased - earlier.erased,
        }
    }
}

/// A superblock that a frontier fills, and the pages that it was given, in order.
#[derive(Debug)]
struct Open {
    superblock: u32,
    pages: Vec<Page>,
}

/// A superblock that is being collected.
#[derive(Debug)]
struct Victim {
    superblock: u32,
    /// The frontier that its pages are moved to.
    frontier: u16,
    /// The next slot to be looked at.
    next: u32,
}

/// The translation layer.
#[derive(Debug)]
pub struct Translation {
    shape: Shape,
    /// A place is a superblock, shifted by this, and a slot.
    shift: u32,
    /// By logical page, one more than its place: a page without data has a 0, so that the memory of
    /// pages that are never written is never touched.
    places: Box<[u32]>,
    /// Valid pages by superblock, and which of the closed ones is collected next.
    victims: Victims,
    erases: Box<[u32]>,
    /// By superblock, the frontier of the stream of its pages.
    origins: Box<[u16]>,
    /// By superblock, the pages that it was given, unless it is open or free.
    lists: Box<[PageList]>,
    frontiers: Vec<Option<Open>>,
    /// By frontier, its group.
    groups: Box<[u16]>,
    /// By group, the free superblocks: the one with the fewest erases is opened first.
    free: Vec<BinaryHeap<Reverse<(u32, u32)>>>,
    collecting: Option<Victim>,
    /// Superblocks that have been collected and not been erased, and their number by group.
    emptied: Vec<u32>,
    nr_emptied: Box<[u32]>,
    /// By slot of the superblock that is being collected, the page that may be there.
    slots: Box<[Page]>,
    mapped: u32,
    counts: Counts,
    /// The vectors of superblocks that were closed, kept for their capacity.
    spare: Vec<Vec<Page>>,
    /// For sorting pages.
    scratch: Vec<Page>,
    /// The steps since they were last taken, if they are recorded.
    steps: Option<Vec<Step>>,
}

impl Translation {
    /// A layer without data.
    ///
    /// # Errors
    /// The first rule that the shape breaks.
    pub fn new(shape: Shape) -> Result<Self, ShapeError> {
        shape.validate()?;
        let superblocks = shape.superblocks as usize;
        let mut free = vec![BinaryHeap::new(); shape.groups.into()];
        for superblock in 0..shape.superblocks {
            free[shape.group_of(superblock)].push(Reverse((0, superblock)));
        }
        Ok(Translation {
            shift: shape.slot_bits(),
            places: vec![0; shape.logical_pages as usize].into(),
            victims: Victims::new(&shape),
            erases: vec![0; superblocks].into(),
            origins: vec![0; superblocks].into(),
            lists: (0..superblocks).map(|_| PageList::default()).collect(),
            frontiers: (0..shape.frontiers()).map(|_| None).collect(),
            groups: (0..shape.frontiers()).map(|number| shape.stream_of(number).1).collect(),
            free,
            collecting: None,
            emptied: Vec::new(),
            nr_emptied: vec![0; shape.groups.into()].into(),
            slots: vec![NONE; shape.superblock_pages as usize].into(),
            mapped: 0,
            counts: Counts::default(),
            spare: Vec::new(),
            scratch: Vec::new(),
            steps: None,
            shape,
        })
    }

    /// Its shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Its counts so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Logical pages that have data.
    pub fn mapped(&self) -> u32 {
        self.mapped
    }

    /// Superblocks that are erased and hold nothing.
    pub fn free(&self) -> u32 {
        let free: usize = self.free.iter().map(BinaryHeap::len).sum();
        u32::try_from(free).expect("superblocks are counted in 32 bits")
    }

    /// Whether a group has no free superblock but the one that is left to the collection.
    pub fn is_scarce(&self) -> bool {
        self.free.iter().any(|free| free.len() <= 1)
    }

    /// The superblocks that are filled, with the number of their frontier.
    pub fn open(&self) -> impl Iterator<Item = (u16, u32)> + '_ {
        let numbered = (0..).zip(&self.frontiers);
        numbered.filter_map(|(number, open)| Some((number, open.as_ref()?.superblock)))
    }

    /// Whether a frontier has a superblock that it fills; else the next page takes it a free one.
    pub fn is_open(&self, frontier: u16) -> bool {
        self.frontiers[usize::from(frontier)].is_some()
    }

    /// Slots of a superblock that are taken since it was erased, all of one that was closed; of one that is
    /// being collected, none.
    pub fn written(&self, superblock: u32) -> u32 {
        let open = self.frontiers.iter().flatten().find(|open| open.superblock == superblock);
        match open {
            Some(open) => u32::try_from(open.pages.len()).expect("slots are counted in 32 bits"),
            None if self.lists[superblock as usize].is_empty() => 0,
            None => self.shape.superblock_pages,
        }
    }

    /// Valid pages of a superblock.
    pub fn valid(&self, superblock: u32) -> u32 {
        self.victims.valid(superblock)
    }

    /// Closed superblocks, by the share of their pages that is valid: up to a quarter, a half, three
    /// quarters, or more.
    pub fn closed_by_share(&self) -> [u64; 4] {
        self.victims.closed_by_share()
    }

    /// How often a superblock was erased.
    pub fn erases(&self, superblock: u32) -> u32 {
        self.erases[superblock as usize]
    }

    /// The superblock that is being collected.
    pub fn collecting(&self) -> Option<u32> {
        self.collecting.as_ref().map(|victim| victim.superblock)
    }

    /// The stream of the pages of a superblock that is not free, and its group.
    pub fn origin(&self, superblock: u32) -> (u16, u16) {
        let (stream, group) = self.shape.stream_of(self.origins[superblock as usize]);
        (stream.expect("what is collected was written by the host"), group)
    }

    /// Pages that can still be written to the superblock that a frontier fills, or is to fill next.
    pub fn room(&self, frontier: u16) -> u32 {
        let open = self.frontiers[usize::from(frontier)].as_ref();
        let filled = open.map_or(0, |open| open.pages.len());
        u32::try_from(self.slots.len() - filled).expect("slots are counted in 32 bits")
    }

    /// The frontier that takes the next page of a stream: that of `group`, or of any group. A group has no
    /// superblock for more than it can collect; then it is that of the group with the most room.
    #[inline]
    pub fn frontier(&self, stream: u16, group: Option<u16>) -> u16 {
        if self.shape.groups == 1 { stream } else { self.frontier_of_groups(stream, group) }
    }

    fn frontier_of_groups(&self, stream: u16, group: Option<u16>) -> u16 {
        let all = 0..self.shape.groups;
        let wanted = group.map_or(all.clone(), |group| group..group + 1);
        let of = |group| self.shape.frontier(stream, group);
        let begun = wanted.clone().map(of).find(|&frontier| self.is_open(frontier));
        begun.unwrap_or_else(|| {
            let has_room = |group: &u16| self.group_room(*group) > 0;
            let chosen =
                group.filter(has_room).or_else(|| all.max_by_key(|&it| self.group_room(it)));
            of(chosen.expect("there is a group"))
        })
    }

    /// Pages that a group can hold beside those that it has, those that are still to fill open
    /// superblocks, and one more superblock; 0 for less.
    fn group_room(&self, group: u16) -> u64 {
        let streams = 0..u16::try_from(self.shape.streams.len()).expect("there are few streams");
        let frontiers = streams.map(|stream| self.shape.frontier(stream, group));
        let open = frontiers.filter(|&frontier| self.is_open(frontier));
        let to_fill: u64 = open.map(|frontier| u64::from(self.room(frontier))).sum();
        let more = u64::from(self.shape.superblock_pages);
        let taken = self.victims.valid_in(group) + to_fill + more;
        (self.shape.group_limit(group) + 1).saturating_sub(taken)
    }

    /// Bytes of memory that grow with the number of pages.
    pub fn memory(&self) -> usize {
        let lists: usize = self.lists.iter().map(PageList::memory).sum();
        let open = self.frontiers.iter().flatten().map(|open| open.pages.capacity());
        let open: usize = open.chain(self.spare.iter().map(Vec::capacity)).sum();
        4 * (self.places.len() + self.slots.len() + open + self.scratch.capacity()) + lists
    }

    /// The place of a page, as a number.
    #[inline]
    fn at(&self, page: Page) -> u32 {
        self.places[page as usize].wrapping_sub(1)
    }

    /// Changes the place of a page. Returns the previous one.
    #[inline]
    fn set(&mut self, page: Page, at: u32) -> u32 {
        let place = &mut self.places[page as usize];
        std::mem::replace(place, at.wrapping_add(1)).wrapping_sub(1)
    }

    fn place(&self, at: u32) -> Place {
        Place { superblock: at >> self.shift, slot: at & ((1 << self.shift) - 1) }
    }

    /// Where a page is; `None` if it has no data.
    ///
    /// # Panics
    /// There is no such page.
    #[inline]
    pub fn find(&self, page: Page) -> Option<Place> {
        let at = self.at(page);
        (at != NONE).then(|| self.place(at))
    }

    /// The free superblocks for a frontier.
    #[inline]
    fn free_for(&self, frontier: u16) -> &BinaryHeap<Reverse<(u32, u32)>> {
        &self.free[usize::from(self.groups[usize::from(frontier)])]
    }

    /// Whether the host can write at a frontier of a stream; if not, it waits for the collection.
    #[inline]
    pub fn can_write(&self, frontier: u16) -> bool {
        match &self.frontiers[usize::from(frontier)] {
            None => self.free_for(frontier).len() > 1,
            Some(_) if !self.free_for(frontier).is_empty() => true,
            Some(open) => self.leaves_room(frontier, open),
        }
    }

    /// Whether a frontier, without another superblock to follow it, has room for one more page than
    /// the collection still has to move there.
    #[cold]
    fn leaves_room(&self, frontier: u16, open: &Open) -> bool {
        let left = self.slots.len() - open.pages.len();
        let shares = self.collecting.as_ref().filter(|victim| victim.frontier == frontier);
        shares.is_none_or(|victim| left > self.valid(victim.superblock) as usize)
    }

    /// Superblocks of a group that are free or will be once they are erased.
    #[inline]
    fn supply(&self, group: usize) -> usize {
        self.free[group].len() + self.nr_emptied[group] as usize
    }

    /// Whether there are too few free superblocks in a group: a collection that has begun goes on up to
    /// the upper watermark.
    #[inline]
    pub fn wants_collection(&self, has_begun: bool) -> bool {
        let mark = if has_begun { self.shape.high } else { self.shape.low };
        (0..self.free.len()).any(|group| self.supply(group) < mark as usize)
    }

    /// The host writes a page at a frontier of a stream. Returns where it is now.
    ///
    /// # Panics
    /// There is no such page or frontier, or [`Translation::can_write`] is false.
    #[inline]
    pub fn write(&mut self, page: Page, frontier: u16) -> Place {
        assert!(self.can_write(frontier), "a host's write leaves a superblock to the collection");
        self.counts.host += 1;
        self.note(Step::Write { page, pages: 1, frontier });
        let at = self.append(page, frontier, frontier);
        let old = self.set(page, at);
        match old {
            NONE => self.mapped += 1,
            old => self.victims.remove_page(old >> self.shift),
        }
        self.place(at)
    }

    /// The host discards a page. Returns whether it had data.
    ///
    /// # Panics
    /// There is no such page.
    pub fn discard(&mut self, page: Page) -> bool {
        let old = self.set(page, NONE);
        if old == NONE {
            return false;
        }
        self.victims.remove_page(old >> self.shift);
        self.mapped -= 1;
        self.counts.discarded += 1;
        self.note(Step::Discard { page, pages: 1 });
        true
    }

    /// Closes the superblock that a frontier fills, although it is not full, so that the next page goes to
    /// another. Returns it with the slots that were filled; `None` if there is none. Its last unit, of
    /// `unit` pages, is padded.
    ///
    /// # Panics
    /// The host's data share superblocks with collected ones, some of which may not be there yet.
    pub fn close_early(&mut self, frontier: u16, unit: u32) -> Option<(u32, u32)> {
        assert!(self.shape.separate, "collected pages may not be there yet");
        let open = self.frontiers[usize::from(frontier)].as_ref()?;
        let filled = u32::try_from(open.pages.len()).expect("slots are counted in 32 bits");
        let superblock = open.superblock;
        self.counts.padded += u64::from(filled.next_multiple_of(unit) - filled);
        self.close(usize::from(frontier));
        self.note(Step::Close { frontier, unit });
        Some((superblock, filled))
    }

    /// Appends a page at a frontier, of a stream whose frontier is `origin`. Returns its place, as a
    /// number.
    #[inline]
    fn append(&mut self, page: Page, frontier: u16, origin: u16) -> u32 {
        let number = usize::from(frontier);
        let open = match &mut self.frontiers[number] {
            Some(open) => open,
            none => {
                let free = &mut self.free[usize::from(self.groups[number])];
                let Reverse((_, superblock)) = free.pop().expect("one is left in reserve");
                let pages = self.spare.pop().unwrap_or_default();
                self.origins[superblock as usize] = origin;
                none.insert(Open { superblock, pages })
            }
        };
        let superblock = open.superblock;
        let slot = u32::try_from(open.pages.len()).expect("slots are counted in 32 bits");
        if slot == 0 {
            open.pages.reserve_exact(self.shape.superblock_pages as usize);
        }
        open.pages.push(page);
        self.victims.add_page(superblock);
        if slot + 1 == self.shape.superblock_pages {
            self.close(number);
        }
        superblock << self.shift | slot
    }

    #[inline(never)]
    fn close(&mut self, frontier: usize) {
        let Open { superblock, mut pages } = self.frontiers[frontier].take().expect("it is open");
        order::sort(&mut pages, &mut self.scratch, self.shape.logical_pages);
        pages.dedup();
        self.lists[superblock as usize] = PageList::pack(&pages, self.shape.logical_pages);
        pages.clear();
        self.spare.push(pages);
        self.victims.close(superblock);
    }

    /// Chooses a superblock of the group that has the fewest free ones and begins to collect it. `None` if
    /// one is being collected, if none has a page that is not valid, or if it has no free one until one that
    /// was collected is erased.
    pub fn begin_collection(&mut self) -> Option<u32> {
        if self.collecting.is_some() {
            return None;
        }
        // Another group is not collected in its place, which could go on for ever while this one waits.
        let group = (0..self.free.len()).min_by_key(|&group| self.supply(group))?;
        if self.free[group].is_empty() {
            return None;
        }
        let superblock = self.victims.take(group)?;
        let list = std::mem::take(&mut self.lists[superblock as usize]);
        let shift = self.shift;
        for page in list.pages() {
            let at = self.at(page);
            if at >> shift == superblock {
                self.slots[(at & ((1 << shift) - 1)) as usize] = page;
            }
        }
        let frontier = self.shape.frontier_of_collected(self.origins[superblock as usize]);
        self.collecting = Some(Victim { superblock, frontier, next: 0 });
        self.note(Step::Collect { superblock });
        Some(superblock)
    }

    /// Moves the next valid page of the superblock that is being collected, in the order in which they
    /// are on the flash. After the last, the superblock holds nothing and waits to be erased: it is no
    /// longer being collected.
    ///
    /// # Panics
    /// No superblock is being collected.
    #[inline]
    pub fn copy(&mut self) -> Option<Copied> {
        self.note(Step::Copy { calls: 1 });
        let Victim { superblock, frontier, mut next } =
            *self.collecting.as_ref().expect("a superblock is being collected");
        let found = loop {
            let slot = next as usize;
            if slot == self.slots.len() {
                break None;
            }
            next += 1;
            let page = std::mem::replace(&mut self.slots[slot], NONE);
            let from = superblock << self.shift | (next - 1);
            // It may have been overwritten since the collection began.
            if page != NONE && self.at(page) == from {
                break Some((page, from));
            }
        };
        let Some((page, from)) = found else {
            self.collecting = None;
            self.emptied.push(superblock);
            self.nr_emptied[self.shape.group_of(superblock)] += 1;
            return None;
        };
        self.collecting.as_mut().expect("it has not ended").next = next;
        let at = self.append(page, frontier, self.origins[superblock as usize]);
        self.set(page, at);
        self.victims.remove_page(superblock);
        self.counts.copied += 1;
        Some(Copied { page, from: self.place(from), to: self.place(at), frontier })
    }

    /// A superblock whose pages have all been moved is erased: it is free.
    ///
    /// # Panics
    /// It was not collected, or has been erased.
    pub fn erased(&mut self, superblock: u32) {
        let at = self.emptied.iter().position(|&emptied| emptied == superblock);
        self.emptied.swap_remove(at.expect("it has been collected"));
        self.note(Step::Erase { superblock });
        assert_eq!(self.victims.valid(superblock), 0, "superblock {superblock} has valid pages");
        self.victims.erased(superblock);
        let erases = &mut self.erases[superblock as usize];
        *erases += 1;
        self.counts.erased += 1;
        let group = self.shape.group_of(superblock);
        self.nr_emptied[group] -= 1;
        self.free[group].push(Reverse((*erases, superblock)));
    }

    /// Collects a superblock immediately, the one that is being collected if there is one. Returns false
    /// if there is none to collect.
    pub fn collect(&mut self) -> bool {
        let Some(superblock) = self.collecting().or_else(|| self.begin_collection()) else {
            return false;
        };
        while self.copy().is_some() {}
        self.erased(superblock);
        true
    }

    /// Writes a page, after collecting as much as that requires.
    ///
    /// # Panics
    /// There is no such page or stream.
    #[inline]
    pub fn overwrite(&mut self, page: Page, stream: u16) -> Place {
        if self.free.iter().any(|free| free.len() < self.shape.low as usize) {
            self.collect_to_high();
        }
        self.write(page, self.frontier(stream, None))
    }

    #[inline(never)]
    fn collect_to_high(&mut self) {
        while self.wants_collection(true) && self.collect() {}
    }
}
