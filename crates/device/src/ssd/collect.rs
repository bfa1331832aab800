//! The collection: victims are read, written elsewhere, and erased, by the same dies and channels and
//! in a part of the same buffer as the host's data.
//!
//! If the host is ahead of the collection's pace, it waits, and the collection goes on as fast as the dies
//! can. A victim is erased while the next one is read.
use super::collector::{COLLECTS, Emptied};
use super::drive::Drive;
use super::translation::Copied;
use crate::flash::{CommandId, DieOp};

impl Drive {
    /// Goes on with the collection as far as it can without waiting.
    #[inline]
    pub(super) fn collect(&mut self) {
        if self.media.translation.collecting().is_some()
            || self.media.translation.wants_collection(self.media.collector.has_begun)
        {
            self.collect_steps();
        }
    }

    fn collect_steps(&mut self) {
        loop {
            if self.media.translation.collecting().is_none() && !self.begin_victim() {
                return;
            }
            let superblock = self.media.translation.collecting().expect("it was begun");
            if !self.copy_rows() {
                return;
            }
            if self.media.map.is_some() {
                self.end_moves(superblock);
            }
            self.moved(superblock);
        }
    }

    /// All pages of a victim have places elsewhere.
    #[inline(never)]
    pub(super) fn moved(&mut self, superblock: u32) {
        self.emptied(superblock).moved = true;
        self.erase_if_read(superblock);
    }

    /// Begins to collect a superblock, if that is wanted and possible.
    #[inline(never)]
    fn begin_victim(&mut self) -> bool {
        let wants = self.media.translation.wants_collection(self.media.collector.has_begun);
        self.media.collector.has_begun = wants;
        let victim = if wants { self.media.translation.begin_collection() } else { None };
        let Some(superblock) = victim else {
            // The host is not held up by a collection that does not go on.
            self.media.collector.pace.end();
            return false;
        };
        let pages = self.media.translation.shape().superblock_pages;
        let valid = self.media.translation.valid(superblock);
        let updates = self.media.map.as_ref().map_or(0, |map| map.to_update());
        self.media.collector.pace.begin(valid + updates, pages - valid);
        self.note_reallocation(superblock);
        self.media.collector.emptied.push(Emptied::new(superblock));
        true
    }

    /// Moves pages while the pace and the buffer allow it, a unit at a time. Returns whether that was
    /// all.
    fn copy_rows(&mut self) -> bool {
        let unit = self.media.layout.unit;
        loop {
            let allowed = self.is_urgent() || self.media.collector.pace.owes(unit);
            let has_room = self.media.collector.pages + unit <= self.media.collector.room;
            let victim =
                self.media.translation.collecting().expect("a superblock is being collected");
            let is_empty = self.media.translation.valid(victim) == 0;
            let goes_on = is_empty || (allowed && has_room);
            if !goes_on {
                return false;
            }
            let more = self.copy_pages::<false>(unit);
            self.place_waiting();
            if !more {
                return true;
            }
        }
    }

    /// Whether the collection goes on as fast as it can.
    pub(super) fn is_urgent(&self) -> bool {
        self.host_waits() || self.media.translation.is_scarce()
    }

    /// Moves up to this many pages of a victim, of the data's or of the map's. Returns whether there may be
    /// more.
    #[inline]
    pub(super) fn copy_pages<const OF_MAP: bool>(&mut self, pages: u32) -> bool {
        let mut row = self.media.collector.new_row();
        for _ in 0..pages {
            let copied = if OF_MAP { self.copy_map_page() } else { self.media.translation.copy() };
            let Some(Copied { page, from, to, .. }) = copied else {
                self.read_row(row);
                return false;
            };
            self.media.collector.pages += 1;
            if !OF_MAP {
                self.media.collector.pace.moved();
                if let Some(map) = &mut self.media.map {
                    map.moves(page);
                }
            }
            let mut list = &mut self.media.collector.rows[row as usize];
            // Pages that are sensed together are read together. They come in the order of their slots.
            if list.from.is_some() && from.slot >= list.end {
                self.read_row(row);
                row = self.media.collector.new_row();
                list = &mut self.media.collector.rows[row as usize];
            }
            if list.from.is_none() {
                list.from = Some(from);
                list.end = (from.slot / self.media.layout.row + 1) * self.media.layout.row;
            }
            list.last = from.slot;
            list.add(to, self.media.layout.unit);
        }
        self.read_row(row);
        true
    }

    /// Reads the pages of a row.
    fn read_row(&mut self, row: u32) {
        let list = &self.media.collector.rows[row as usize];
        let Some(from) = list.from else { return self.media.collector.free_rows.push(row) };
        let (last, pages) = (list.last, list.pages);
        let newest =
            self.media.collector.emptied.last_mut().expect("a superblock is being collected");
        if newest.superblock == from.superblock {
            newest.reads += 1;
        } else {
            self.emptied(from.superblock).reads += 1;
        }
        self.read_flash(CommandId(COLLECTS | row), from, last, pages);
    }

    /// The pages of a row are in the buffer.
    pub(super) fn collected(&mut self, id: CommandId) {
        let number = id.0 & !COLLECTS;
        let mut row = std::mem::take(&mut self.media.collector.rows[number as usize]);
        for &(to, count) in &row.to {
            self.arrived(to, count, true);
        }
        row.to.clear();
        row.pages = 0;
        let superblock = row.from.take().expect("a row was read").superblock;
        self.media.collector.rows[number as usize] = row;
        self.media.collector.free_rows.push(number);
        self.emptied(superblock).reads -= 1;
        self.erase_if_read(superblock);
        self.collect();
    }

    fn emptied(&mut self, superblock: u32) -> &mut Emptied {
        let mut all = self.media.collector.emptied.iter_mut();
        all.find(|emptied| emptied.superblock == superblock).expect("it is being collected")
    }

    /// Erases the blocks of a victim once all its pages have been moved and read, and the map knows.
    pub(super) fn erase_if_read(&mut self, superblock: u32) {
        let dies = self.media.layout.dies(superblock);
        let emptied = self.emptied(superblock);
        if !emptied.moved || emptied.reads > 0 {
            return;
        }
        if self.media.map.as_ref().is_some_and(|map| map.is_updating(superblock)) {
            return;
        }
        self.emptied(superblock).erasing = dies.end - dies.start;
        for die in dies {
            self.enqueue(
                die,
                DieOp::Erase { command: CommandId(COLLECTS | superblock), blocks: 1 },
            );
        }
    }

    /// A die has erased its block of a superblock.
    #[inline(never)]
    pub(super) fn erased(&mut self, id: CommandId) {
        let superblock = id.0 & !COLLECTS;
        let emptied = self.emptied(superblock);
        emptied.erasing -= 1;
        if emptied.erasing == 0 {
            self.media.collector.emptied.retain(|emptied| emptied.superblock != superblock);
            self.media.units.erased(superblock);
            if let Some(superblock) =
                self.media.map.as_ref().and_then(|map| map.in_layer(superblock))
            {
                return self.map_erased(superblock);
            }
            self.media.translation.erased(superblock);
            self.place_waiting();
            self.collect();
        }
    }
}
