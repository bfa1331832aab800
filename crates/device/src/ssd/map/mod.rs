//! The map on the flash, of which a part is in memory (`map_cache`): translation pages, read when they
//! are needed and written when they have changed and make room for others.
//!
//! Translation pages are the pages of a layer of their own, with superblocks of their own, which follow
//! those of the data. Where its pages are is always in memory, so its collection changes no map. The
//! scheme is that of A. Gupta, Y. Kim and B. Urgaonkar, "DFTL: A Flash Translation Layer Employing
//! Demand-based Selective Caching of Page-level Address Mappings", ASPLOS 2009, with whole translation
//! pages.
//!
//! ```text
//!   reads ----------\              absent, changed page out
//!   writes, discards +--> cache --------------------------> layer of the map --> flash
//!   moved pages ----/       ^                                                      |
//!                           +------------------ translation page ------------------+
//! ```
//!
//! Invariants: a page of the host that is placed has its translation page in memory, being read, or in
//! the list of those that wait; the host's next one waits while that list is not empty.
mod cache;

use super::page::PAGE;
use super::translation::{Counts, Page, Place, Shape, Translation};
use crate::control::MapStats;
use crate::flash::CommandId;
use cache::Cache;
pub(super) use cache::{Found, Room};
use std::collections::{BTreeMap, VecDeque};
use zonal_blk::Bytes;

/// Entries of a translation page, of 4 bytes each.
pub(super) const ENTRIES: u32 = PAGE / 4;
/// Translation pages that are read at the same time, by die: for the host, and for the collection.
const READS_PER_DIE: u32 = 4;
/// The only frontier of the layer.
const FRONTIER: u16 = 0;

/// For what a translation page is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Host,
    Collection,
}

/// A use of a translation page that waits for room in memory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Waiting {
    /// A command that reads.
    Read(CommandId, u32),
    /// Pages of the host have been placed or discarded; whether that changes anything.
    Update(u32, bool),
}

/// A translation page that is being read.
#[derive(Debug)]
struct Load {
    source: Source,
    /// Commands that wait for it.
    commands: Vec<CommandId>,
}

/// The translation pages of what was moved from a superblock.
#[derive(Debug)]
struct Moved {
    superblock: u32,
    pages: VecDeque<u32>,
}

#[derive(Debug)]
pub(super) struct FlashMap {
    pub(super) layer: Translation,
    /// The number of its first superblock.
    first: u32,
    /// Its counts before the first command.
    before: Counts,
    cache: Cache,
    loads: BTreeMap<u32, Load>,
    /// Those for the host and for the collection, and the most of each.
    reading: [u32; 2],
    most: u32,
    pub(super) waiting: VecDeque<Waiting>,
    /// Translation pages of what has been moved from the superblock that is being collected.
    moving: Vec<u32>,
    moved: VecDeque<Moved>,
    lookups: u64,
    misses: u64,
}

impl FlashMap {
    /// An empty map of this shape, with `memory` for its pages, on a drive with this many dies. Its
    /// superblocks are numbered from `first` on.
    pub(super) fn new(shape: Shape, first: u32, memory: Bytes, dies: u32) -> Self {
        let pages = shape.logical_pages;
        let most = u32::try_from(memory.0 / u64::from(PAGE)).unwrap_or(u32::MAX).min(pages);
        let layer = Translation::new(shape).expect("it has room to collect");
        FlashMap {
            layer,
            first,
            before: Counts::default(),
            cache: Cache::new(most, pages),
            loads: BTreeMap::new(),
            reading: [0; 2],
            most: dies * READS_PER_DIE,
            waiting: VecDeque::new(),
            moving: Vec::new(),
            moved: VecDeque::new(),
            lookups: 0,
            misses: 0,
        }
    }

    /// A page of the host was written before the first command.
    pub(super) fn prefill(&mut self, page: Page) {
        let page = page / ENTRIES;
        if self.cache.touch(page, true) == Found::Absent {
            if let Room::Changed(old) = self.cache.room() {
                self.layer.overwrite(old, FRONTIER);
            }
            self.cache.begin(page, true);
            self.cache.loaded(page);
        }
        self.before = self.layer.counts();
    }

    /// Goes on with another layer, before the first command, with nothing in memory.
    pub(super) fn resume(&mut self, layer: Translation, before: Counts) {
        (self.layer, self.before) = (layer, before);
        self.cache.clear();
    }

    /// Its counts before the first command.
    pub(super) fn before(&self) -> Counts {
        self.before
    }

    /// Its counts since then.
    pub(super) fn counts(&self) -> Counts {
        self.layer.counts().since(&self.before)
    }

    pub(super) fn stats(&self) -> MapStats {
        let written = Bytes(self.counts().media() * u64::from(PAGE));
        MapStats { written, lookups: self.lookups, misses: self.misses }
    }

    /// Translation pages in memory that have changed, and all that there are.
    pub(super) fn changed(&self) -> (u64, u64) {
        (self.cache.changed() as u64, self.layer.shape().logical_pages.into())
    }

    /// The number on the drive of a superblock of the layer.
    pub(super) fn number(&self, superblock: u32) -> u32 {
        self.first + superblock
    }

    /// A place of the layer, on the drive.
    pub(super) fn on_drive(&self, place: Place) -> Place {
        Place { superblock: self.number(place.superblock), ..place }
    }

    /// The number in the layer of a superblock of the drive; `None` if it is one of the data's.
    pub(super) fn in_layer(&self, superblock: u32) -> Option<u32> {
        superblock.checked_sub(self.first)
    }

    /// Where a translation page is on the drive; `None` if it has not been written.
    pub(super) fn find(&self, page: u32) -> Option<Place> {
        self.layer.find(page).map(|place| self.on_drive(place))
    }

    /// Whether the host has to wait before it can change more.
    pub(super) fn is_behind(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Counts look-ups of pages.
    pub(super) fn count(&mut self, pages: u32) {
        self.lookups += u64::from(pages);
    }

    /// Uses a translation page if it is in memory or being read.
    pub(super) fn touch(&mut self, page: u32, changes: bool) -> Found {
        self.cache.touch(page, changes)
    }

    /// Room for another translation page, unless as many are being read as can be.
    pub(super) fn room(&mut self, source: Source) -> Room {
        if self.reading[source as usize] == self.most { Room::None } else { self.cache.room() }
    }

    /// Whether a translation page can be written; if not, that waits for the collection of the layer.
    pub(super) fn can_write(&self) -> bool {
        self.layer.can_write(FRONTIER)
    }

    /// Writes a translation page. Returns its place on the drive.
    pub(super) fn write(&mut self, page: u32) -> Place {
        let place = self.layer.write(page, FRONTIER);
        self.on_drive(place)
    }

    /// A translation page comes into memory, where there is room: if it `is_read`, it is read from the
    /// flash.
    pub(super) fn begin(&mut self, page: u32, changes: bool, source: Source, is_read: bool) {
        self.misses += 1;
        self.cache.begin(page, changes);
        if is_read {
            self.reading[source as usize] += 1;
            self.loads.insert(page, Load { source, commands: Vec::new() });
        } else {
            self.cache.loaded(page);
        }
    }

    /// A command waits for a translation page that is being read.
    pub(super) fn wait_for(&mut self, page: u32, command: CommandId) {
        self.loads.get_mut(&page).expect("it is being read").commands.push(command);
    }

    /// A translation page has been read. Returns the commands that waited for it.
    pub(super) fn loaded(&mut self, page: u32) -> Vec<CommandId> {
        let Load { source, commands } = self.loads.remove(&page).expect("it was being read");
        self.reading[source as usize] -= 1;
        self.cache.loaded(page);
        commands
    }

    /// The collection has moved a page.
    #[inline]
    pub(super) fn moves(&mut self, page: Page) {
        self.moving.push(page / ENTRIES);
    }

    /// The pages that were moved since the last call were all of a superblock: each of their translation
    /// pages is to be changed once.
    pub(super) fn end_moves(&mut self, superblock: u32) {
        self.moving.sort_unstable();
        self.moving.dedup();
        if !self.moving.is_empty() {
            let pages = self.moving.drain(..).collect();
            self.moved.push_back(Moved { superblock, pages });
        }
    }

    /// Translation pages that are yet to be changed, for the superblocks that were collected.
    pub(super) fn to_update(&self) -> u32 {
        let all: usize = self.moved.iter().map(|moved| moved.pages.len()).sum();
        u32::try_from(all).expect("there are fewer than pages that were moved")
    }

    /// The next of them.
    pub(super) fn next_update(&self) -> Option<u32> {
        self.moved.front().and_then(|moved| moved.pages.front().copied())
    }

    /// It is changed, or will be once it has been read. Returns the superblock whose last it was.
    pub(super) fn updated(&mut self) -> Option<u32> {
        let moved = self.moved.front_mut()?;
        moved.pages.pop_front();
        let superblock = moved.superblock;
        let is_last = moved.pages.is_empty();
        is_last.then(|| {
            self.moved.pop_front();
            superblock
        })
    }

    /// Whether translation pages are yet to be changed for what was moved from a superblock.
    pub(super) fn is_updating(&self, superblock: u32) -> bool {
        self.moved.iter().any(|moved| moved.superblock == superblock)
    }
}
