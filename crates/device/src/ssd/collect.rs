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
        if self.translation.collecting().is_some()
            || self.translation.wants_collection(self.collector.has_begun)
        {
            self.collect_steps();
        }
    }

    fn collect_steps(&mut self) {
        loop {
            if self.translation.collecting().is_none() && !self.begin_victim() {
                return;
            }
            if !self.copy_rows() {
                return;
            }
            let victim = self.collector.emptied.last_mut().expect("it was begun");
            victim.moved = true;
            let superblock = victim.superblock;
            self.erase_if_read(superblock);
        }
    }

    /// Begins to collect a superblock, if that is wanted and possible.
    fn begin_victim(&mut self) -> bool {
        let wants = self.translation.wants_collection(self.collector.has_begun);
        self.collector.has_begun = wants;
        let victim = if wants { self.translation.begin_collection() } else { None };
        let Some(superblock) = victim else {
            // The host is not held up by a collection that does not go on.
            self.collector.pace.end();
            return false;
        };
        let pages = self.translation.shape().superblock_pages;
        self.collector.pace.begin(self.translation.valid(superblock), pages);
        self.note_reallocation(superblock);
        let emptied = Emptied { superblock, reads: 0, erasing: 0, moved: false };
        self.collector.emptied.push(emptied);
        true
    }

    /// Moves pages while the pace and the buffer allow it, a unit at a time. Returns whether that was
    /// all.
    fn copy_rows(&mut self) -> bool {
        let unit = self.layout.unit;
        loop {
            let urgent = self.host_waits() || self.translation.is_scarce();
            let allowed = urgent || self.collector.pace.owes(unit);
            let has_room = self.collector.pages + unit <= self.collector.room;
            let victim = self.translation.collecting().expect("a superblock is being collected");
            let is_empty = self.translation.valid(victim) == 0;
            let goes_on = is_empty || (allowed && has_room);
            if !goes_on {
                return false;
            }
            let more = self.copy_pages(unit);
            self.place_waiting();
            if !more {
                return true;
            }
        }
    }

    /// Moves up to this many pages. Returns whether there may be more.
    fn copy_pages(&mut self, pages: u32) -> bool {
        let mut row = self.collector.new_row();
        for _ in 0..pages {
            let Some(Copied { from, to, .. }) = self.translation.copy() else {
                self.read_row(row);
                return false;
            };
            self.collector.pages += 1;
            self.collector.pace.moved();
            let mut list = &mut self.collector.rows[row as usize];
            // Pages that are sensed together are read together. They come in the order of their slots.
            if list.from.is_some() && from.slot >= list.end {
                self.read_row(row);
                row = self.collector.new_row();
                list = &mut self.collector.rows[row as usize];
            }
            if list.from.is_none() {
                list.from = Some(from);
                list.end = (from.slot / self.layout.row + 1) * self.layout.row;
            }
            list.last = from.slot;
            list.add(to, self.layout.unit);
        }
        self.read_row(row);
        true
    }

    /// Reads the pages of a row.
    fn read_row(&mut self, row: u32) {
        let list = &self.collector.rows[row as usize];
        let Some(from) = list.from else { return self.collector.free_rows.push(row) };
        let (last, pages) = (list.last, list.pages);
        self.collector.emptied.last_mut().expect("a superblock is being collected").reads += 1;
        self.read_flash(CommandId(COLLECTS | row), from, last, pages);
    }

    /// The pages of a row are in the buffer.
    pub(super) fn collected(&mut self, id: CommandId) {
        let number = id.0 & !COLLECTS;
        let mut row = std::mem::take(&mut self.collector.rows[number as usize]);
        for &(to, count) in &row.to {
            self.arrived(to, count, true);
        }
        row.to.clear();
        row.pages = 0;
        let superblock = row.from.take().expect("a row was read").superblock;
        self.collector.rows[number as usize] = row;
        self.collector.free_rows.push(number);
        self.emptied(superblock).reads -= 1;
        self.erase_if_read(superblock);
        self.collect();
    }

    fn emptied(&mut self, superblock: u32) -> &mut Emptied {
        let mut all = self.collector.emptied.iter_mut();
        all.find(|emptied| emptied.superblock == superblock).expect("it is being collected")
    }

    /// Erases the blocks of a victim once all its pages have been moved and read.
    fn erase_if_read(&mut self, superblock: u32) {
        let dies = self.layout.dies(superblock);
        let emptied = self.emptied(superblock);
        if !emptied.moved || emptied.reads > 0 {
            return;
        }
        emptied.erasing = dies.end - dies.start;
        for die in dies {
            self.enqueue(
                die,
                DieOp::Erase { command: CommandId(COLLECTS | superblock), blocks: 1 },
            );
        }
    }

    /// A die has erased its block of a superblock.
    pub(super) fn erased(&mut self, id: CommandId) {
        let superblock = id.0 & !COLLECTS;
        let emptied = self.emptied(superblock);
        emptied.erasing -= 1;
        if emptied.erasing == 0 {
            self.collector.emptied.retain(|emptied| emptied.superblock != superblock);
            self.units.erased(superblock);
            self.translation.erased(superblock);
            self.place_waiting();
            self.collect();
        }
    }
}
