//! Holds an I/O back while one in flight overlaps it (`serialize_overlap`).
//!
//! As in fio, all I/Os of the clone count, reads as well, and nothing is submitted meanwhile. Writes at
//! write pointers are left to the block layer, which orders them.
use crate::generate::{Io, NextIo};
use std::collections::BTreeSet;

#[derive(Debug, Default)]
pub(super) struct Overlaps {
    /// First byte, slot and length of each I/O in flight.
    in_flight: BTreeSet<(u64, u32, u64)>,
    /// By slot, its entry.
    by_slot: Vec<Option<(u64, u32, u64)>>,
    /// Length of the longest one so far.
    longest: u64,
    held: Option<NextIo>,
}

impl Overlaps {
    /// The next action: the I/O that was held back, else what `next` says; [`NextIo::Wait`] as long as
    /// it overlaps an I/O in flight.
    pub fn next(&mut self, next: impl FnOnce() -> NextIo) -> NextIo {
        let next = self.held.take().unwrap_or_else(next);
        match next {
            NextIo::Io(io) | NextIo::Manage(io) if self.overlaps(&io) => {
                self.held = Some(next);
                NextIo::Wait
            }
            _ => next,
        }
    }

    fn overlaps(&self, io: &Io) -> bool {
        let from = io.offset.saturating_sub(self.longest);
        let below_its_end = self.in_flight.range((from, 0, 0)..(io.offset + io.len, 0, 0));
        is_tracked(io) && below_its_end.into_iter().any(|&(at, _, len)| at + len > io.offset)
    }

    /// An I/O is submitted.
    pub fn submit(&mut self, slot: u32, io: &Io) {
        if is_tracked(io) {
            let entry = (io.offset, slot, io.len);
            self.in_flight.insert(entry);
            self.longest = self.longest.max(io.len);
            let slot = slot as usize;
            self.by_slot.resize(self.by_slot.len().max(slot + 1), None);
            self.by_slot[slot] = Some(entry);
        }
    }

    /// The I/O of a slot has completed.
    pub fn completed(&mut self, slot: u32) {
        if let Some(entry) = self.by_slot.get_mut(slot as usize).and_then(Option::take) {
            self.in_flight.remove(&entry);
        }
    }
}

fn is_tracked(io: &Io) -> bool {
    io.zone.is_none() && io.op.has_range() && io.len > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::DataDir;
    use zonal_blk::{BioFlags, Op};

    fn io(op: Op, offset: u64, len: u64, zone: Option<u32>) -> Io {
        Io { op, dir: DataDir::Read, offset, len, zone, flags: BioFlags::NONE }
    }

    #[test]
    fn an_io_waits_for_those_that_it_overlaps() {
        let mut overlaps = Overlaps::default();
        overlaps.submit(0, &io(Op::Write, 4096, 8192, None));
        overlaps.submit(1, &io(Op::Read, 65536, 4096, None));
        let next = |overlaps: &mut Overlaps, op, offset, len| {
            let next = NextIo::Io(io(op, offset, len, None));
            let answer = overlaps.next(|| next);
            let waits = answer == NextIo::Wait;
            assert!(waits || answer == next);
            overlaps.held = None;
            waits
        };
        for (offset, len, waits) in [
            (0, 4096, false),
            (0, 4097, true),
            (8192, 512, true),
            (12288, 4096, false),
            (12287, 1, true),
            (69632, 4096, false),
            (65535, 2, true),
        ] {
            assert_eq!(next(&mut overlaps, Op::Read, offset, len), waits, "{len} at {offset}");
        }
        overlaps.completed(0);
        assert!(!next(&mut overlaps, Op::Write, 4096, 8192));
    }

    #[test]
    fn what_is_held_back_comes_next_and_write_pointers_are_not_its_business() {
        let mut overlaps = Overlaps::default();
        let first = io(Op::Write, 0, 4096, None);
        overlaps.submit(3, &first);
        assert_eq!(overlaps.next(|| NextIo::Io(first)), NextIo::Wait);
        assert_eq!(overlaps.next(|| unreachable!("one is held")), NextIo::Wait);
        overlaps.completed(3);
        assert_eq!(overlaps.next(|| unreachable!("one is held")), NextIo::Io(first));
        let at_wp = io(Op::Write, 0, 4096, Some(0));
        overlaps.submit(3, &first);
        assert_eq!(overlaps.next(|| NextIo::Io(at_wp)), NextIo::Io(at_wp));
    }
}
