//! The collection: rows of valid pages are read, written elsewhere in the order in which they were
//! given their places, and their zone is reset once they are there.
use super::collection::{ROW, ROWS, Row, Victim};
use super::mapper::{COLLECTED, Mapper, Runs, Work};
use zonal_blk::Op;

impl Mapper {
    /// Goes on with the collection as far as it can without waiting.
    pub(super) fn collect(&mut self) {
        while self.translation.collecting().is_some() || self.begin_victim() {
            if !self.move_rows() {
                return;
            }
            let victim = self.collection.victims.last_mut().expect("it was begun");
            victim.moved = true;
            let zone = victim.zone;
            self.reset_if_moved(zone);
        }
    }

    /// Begins to collect a zone, if that is wanted and possible.
    fn begin_victim(&mut self) -> bool {
        let wants = self.translation.wants_collection(self.collection.has_begun);
        self.collection.has_begun = wants;
        let victim = if wants { self.translation.begin_collection() } else { None };
        let Some(zone) = victim else {
            self.collection.pace.end();
            return false;
        };
        let pages = self.translation.shape().superblock_pages;
        let valid = self.translation.valid(zone);
        self.collection.pace.begin(valid, pages - valid);
        self.collection.victims.push(Victim { zone, rows: 0, moved: false });
        true
    }

    /// Moves rows while the pace and their number allow it. Returns whether that was all.
    fn move_rows(&mut self) -> bool {
        loop {
            let victim = self.translation.collecting().expect("a zone is being collected");
            let urgent = self.host_waits() || self.translation.free() <= 1;
            let allowed = urgent || self.collection.pace.owes(ROW);
            let has_room = self.collection.rows_under_way() < ROWS;
            let is_empty = self.translation.valid(victim) == 0;
            let goes_on = is_empty || allowed && has_room && self.has_zone(COLLECTED);
            if !goes_on {
                return false;
            }
            let more = self.move_row(victim);
            self.place_waiting();
            if !more {
                return true;
            }
        }
    }

    /// Gives up to [`ROW`] pages their places and reads them. Returns whether there may be more.
    fn move_row(&mut self, victim: u32) -> bool {
        let (mut from, mut to) = (Runs::default(), Runs::default());
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        let mut more = true;
        for _ in 0..ROW {
            if self.translation.valid(victim) > 0 && !self.has_zone(COLLECTED) {
                break;
            }
            let Some(copied) = self.translation.copy() else {
                more = false;
                break;
            };
            self.placed(copied.to);
            self.collection.pace.moved();
            reads.extend(from.add(copied.from));
            writes.extend(to.add(copied.to));
        }
        reads.extend(from.0);
        writes.extend(to.0);
        if reads.is_empty() {
            return more;
        }
        let pending = u32::try_from(reads.len()).expect("a row has few pages");
        let number = self.collection.rows.insert(Row { victim, pending, to: writes });
        let number = u32::try_from(number).expect("there are few rows");
        self.collection.to_write.push_back(number);
        self.collection.victim(victim).rows += 1;
        for run in reads {
            self.send(Op::Read, run, Work::Read(number));
        }
        more
    }

    /// A read of a row is done: the oldest rows that have been read are written.
    pub(super) fn row_read(&mut self, number: u32) {
        self.collection.rows[number as usize].pending -= 1;
        while let Some(&oldest) = self.collection.to_write.front()
            && self.collection.rows[oldest as usize].pending == 0
        {
            self.collection.to_write.pop_front();
            let row = &mut self.collection.rows[oldest as usize];
            let to = std::mem::take(&mut row.to);
            row.pending = u32::try_from(to.len()).expect("a row has few pages");
            for run in to {
                self.send(Op::Write, run, Work::Write(oldest));
            }
        }
    }

    /// A write of a row is done.
    pub(super) fn row_written(&mut self, number: u32) {
        let row = &mut self.collection.rows[number as usize];
        row.pending -= 1;
        if row.pending > 0 {
            return;
        }
        let zone = row.victim;
        self.collection.rows.remove(number as usize);
        self.collection.victim(zone).rows -= 1;
        self.reset_if_moved(zone);
        self.collect();
    }

    /// Resets a zone once all of its pages are elsewhere.
    fn reset_if_moved(&mut self, zone: u32) {
        let victim = self.collection.victim(zone);
        if victim.moved && victim.rows == 0 {
            self.collection.victims.retain(|victim| victim.zone != zone);
            self.reset(zone);
        }
    }
}
