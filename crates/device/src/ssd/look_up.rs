//! Uses of the map of a drive that has a part of it in memory: commands that read wait until the
//! translation pages of their pages have been read; pages that are written and moved change theirs.
//!
//! A page of the host that has its place waits for nothing, but the next one does while its translation
//! page cannot come into memory. A superblock that was collected is erased when the translation pages of
//! what was moved are changed; the pace of the collection counts them as pages that are moved.
use super::collector::{Emptied, LOADS};
use super::drive::{Drive, Translated};
use super::map::{ENTRIES, FlashMap, Found, Room, Source, Waiting};
use super::page::pages_of;
use super::translation::{Copied, Page};
use crate::flash::CommandId;

/// What becomes of a request for a translation page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// It is in memory.
    Ready,
    /// It is being read.
    Loading,
    /// There is no room for it.
    Full,
}

impl Translated {
    /// Whether the host waits for translation pages.
    pub(super) fn map_is_behind(&self) -> bool {
        self.map.as_ref().is_some_and(|map| map.is_behind())
    }
}

impl Drive {
    /// The map, of a drive that has a part of it in memory.
    fn flash_map(&mut self) -> &mut FlashMap {
        self.media.map.as_mut().expect("the drive has a part of its map in memory")
    }

    /// Looks up the pages of a read, but for those that wait in the buffer to be programmed. Returns
    /// whether all their translation pages are in memory; if not, the read goes on when they are.
    #[cold]
    pub(super) fn look_up(&mut self, id: CommandId) -> bool {
        let pages = pages_of(self.command(id).request());
        let mut waits = 0;
        for page in pages.start / ENTRIES..pages.end.div_ceil(ENTRIES) {
            let first = (page * ENTRIES).max(pages.start);
            let end = pages.end.min((page + 1).saturating_mul(ENTRIES));
            let on_flash = (first..end).filter(|&page| !self.is_in_buffer(page)).count();
            let on_flash = u32::try_from(on_flash).expect("a command is short");
            if on_flash == 0 {
                continue;
            }
            self.flash_map().count(on_flash);
            match self.ask(page, Source::Host, false) {
                Asked::Ready => continue,
                Asked::Loading => self.flash_map().wait_for(page, id),
                Asked::Full => self.flash_map().waiting.push_back(Waiting::Read(id, page)),
            }
            waits += 1;
        }
        self.command(id).pending_ops = waits;
        waits == 0
    }

    fn is_in_buffer(&self, page: Page) -> bool {
        self.media
            .translation
            .find(page)
            .is_some_and(|place| !self.media.units.is_programmed(place))
    }

    /// A translation page of a read is in memory.
    #[cold]
    fn looked_up(&mut self, id: CommandId) {
        let command = self.command(id);
        command.pending_ops -= 1;
        if command.pending_ops == 0 {
            self.read_pages(id);
        }
    }

    /// A page of the host has its place, or was discarded; whether that `changes` the map.
    pub(super) fn update_map(&mut self, page: Page, changes: bool) {
        let page = page / ENTRIES;
        self.flash_map().count(1);
        if self.ask(page, Source::Host, changes) == Asked::Full {
            self.flash_map().waiting.push_back(Waiting::Update(page, changes));
        }
        self.update_moved();
    }

    /// Has a translation page come into memory.
    fn ask(&mut self, page: u32, source: Source, changes: bool) -> Asked {
        match self.flash_map().touch(page, changes) {
            Found::Cached => return Asked::Ready,
            Found::Loading => return Asked::Loading,
            Found::Absent => {}
        }
        match self.flash_map().room(source) {
            Room::Free => {}
            Room::Changed(old) if self.can_write_back() => self.write_back(old),
            Room::Changed(_) | Room::None => return Asked::Full,
        }
        let place =
            self.flash_map().find(page).filter(|&place| self.media.units.is_programmed(place));
        self.flash_map().begin(page, changes, source, place.is_some());
        let Some(place) = place else { return Asked::Ready };
        self.read_flash(CommandId(LOADS | page), place, place.slot, 1);
        Asked::Loading
    }

    /// Whether a translation page that has changed can be written: there is a place for it on the flash,
    /// and in the collection's part of the buffer until then.
    fn can_write_back(&mut self) -> bool {
        self.media.collector.pages < self.media.collector.room && self.flash_map().can_write()
    }

    fn write_back(&mut self, page: u32) {
        let place = self.flash_map().write(page);
        self.media.collector.pages += 1;
        self.arrived(place, 1, true);
        self.collect_map();
    }

    /// A translation page has been read.
    #[cold]
    pub(super) fn loaded(&mut self, id: CommandId) {
        for command in self.flash_map().loaded(id.0 & !LOADS) {
            self.looked_up(command);
        }
        self.go_on_with_map();
    }

    /// There may be room again in the buffer, in the layer of the map, or in memory.
    #[cold]
    pub(super) fn go_on_with_map(&mut self) {
        self.collect_map();
        while let Some(&waiting) = self.flash_map().waiting.front() {
            let (page, changes) = match waiting {
                Waiting::Read(_, page) => (page, false),
                Waiting::Update(page, changes) => (page, changes),
            };
            let asked = self.ask(page, Source::Host, changes);
            if asked == Asked::Full {
                break;
            }
            self.flash_map().waiting.pop_front();
            match (waiting, asked) {
                (Waiting::Read(id, _), Asked::Ready) => self.looked_up(id),
                (Waiting::Read(id, page), _) => self.flash_map().wait_for(page, id),
                (Waiting::Update(..), _) => {}
            }
        }
        self.update_moved();
        self.place_waiting();
        self.collect();
    }

    /// The collection has moved all pages of a superblock.
    #[cold]
    pub(super) fn end_moves(&mut self, superblock: u32) {
        self.flash_map().end_moves(superblock);
        self.update_moved();
    }

    /// Changes translation pages of what was moved, at the pace of the collection; as fast as possible if
    /// the host waits or nothing else is moved.
    fn update_moved(&mut self) {
        while let Some(page) = self.flash_map().next_update() {
            let paced = self.media.translation.collecting().is_some() && !self.is_urgent();
            if paced && !self.media.collector.pace.owes(self.media.layout.unit) {
                return;
            }
            if self.ask(page, Source::Collection, true) == Asked::Full {
                return;
            }
            self.flash_map().count(1);
            self.media.collector.pace.moved();
            if let Some(superblock) = self.flash_map().updated() {
                self.erase_if_read(superblock);
            }
        }
    }

    /// Goes on with the collection of the map's superblocks as far as there is room in the buffer.
    fn collect_map(&mut self) {
        loop {
            let map = self.flash_map();
            if map.layer.collecting().is_none() {
                let wants = map.layer.wants_collection(false);
                let victim = if wants { map.layer.begin_collection() } else { None };
                let Some(superblock) = victim.map(|victim| map.number(victim)) else { return };
                self.media.collector.emptied.push(Emptied::new(superblock));
            }
            let map = self.flash_map();
            let superblock = map.layer.collecting().expect("it was begun");
            let superblock = map.number(superblock);
            loop {
                let has_room = self.media.collector.pages + self.media.layout.unit
                    <= self.media.collector.room;
                if !has_room {
                    return;
                }
                if !self.copy_pages::<true>(self.media.layout.unit) {
                    break;
                }
            }
            self.moved(superblock);
        }
    }

    /// Moves a page of the map.
    pub(super) fn copy_map_page(&mut self) -> Option<Copied> {
        let map = self.flash_map();
        let copied = map.layer.copy()?;
        Some(Copied { from: map.on_drive(copied.from), to: map.on_drive(copied.to), ..copied })
    }

    /// A superblock of the map has been erased.
    pub(super) fn map_erased(&mut self, superblock: u32) {
        let map = self.flash_map();
        map.layer.erased(superblock);
        self.go_on_with_map();
    }
}
