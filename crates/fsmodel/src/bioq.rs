//! The queue of a FreeBSD disk driver (`bioq_disksort`): a one-way elevator.
//!
//! I/Os at lower sectors than the last one sent wait for the next sweep. No I/O passes a flush.
use super::BlockIo;
use std::collections::{BTreeMap, VecDeque};
use zonal_blk::Op;

/// The queue of a disk.
#[derive(Debug)]
pub(super) struct Bioq {
    depth: u32,
    in_flight: u32,
    /// By sweep, first sector and order of arrival, the I/Os before the first flush.
    waiting: BTreeMap<(u64, u64, u64), BlockIo>,
    /// From the first flush on, in order of arrival.
    after_flush: VecDeque<BlockIo>,
    sweep: u64,
    /// First sector of the last I/O sent.
    at: u64,
    arrived: u64,
}

impl Bioq {
    /// The queue of a disk with this queue depth.
    pub(super) fn new(depth: u32) -> Self {
        Bioq {
            depth,
            in_flight: 0,
            waiting: BTreeMap::new(),
            after_flush: VecDeque::new(),
            sweep: 0,
            at: 0,
            arrived: 0,
        }
    }

    pub(super) fn add(&mut self, io: BlockIo) {
        if io.op == Op::Flush || !self.after_flush.is_empty() {
            self.after_flush.push_back(io);
            return;
        }
        self.arrived += 1;
        let sector = io.sector.0;
        let sweep = self.sweep + u64::from(sector < self.at);
        self.waiting.insert((sweep, sector, self.arrived), io);
    }

    /// The next I/O to send, if there is a free tag.
    pub(super) fn next(&mut self) -> Option<BlockIo> {
        if self.in_flight >= self.depth {
            return None;
        }
        if let Some(((sweep, sector, _), io)) = self.waiting.pop_first() {
            (self.sweep, self.at) = (sweep, sector);
            self.in_flight += 1;
            return Some(io);
        }
        if self.in_flight > 0 {
            return None;
        }
        let flush = self.after_flush.pop_front()?;
        for io in std::mem::take(&mut self.after_flush) {
            self.add(io);
        }
        self.in_flight += 1;
        Some(flush)
    }

    /// An I/O has completed.
    pub(super) fn completed(&mut self) {
        self.in_flight -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::super::Content;
    use super::*;
    use zonal_blk::{BioFlags, Sector};

    fn io(op: Op, sector: u64) -> BlockIo {
        let (flags, content) = (BioFlags::NONE, Content::None);
        BlockIo { disk: 0, op, flags, sector: Sector(sector), nr_sectors: 8, content, id: sector }
    }

    /// Sends one at a time.
    fn order(queue: &mut Bioq) -> Vec<u64> {
        let next = || {
            let io = queue.next()?;
            queue.completed();
            Some(io.id)
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn the_elevator_moves_one_way() {
        let mut queue = Bioq::new(1);
        queue.add(io(Op::Read, 50));
        assert_eq!(queue.next().map(|io| io.id), Some(50));
        assert!(queue.next().is_none(), "the disk takes one");
        for (op, sector) in [(Op::Read, 10), (Op::Write, 70), (Op::Read, 20), (Op::Read, 60)] {
            queue.add(io(op, sector));
        }
        queue.completed();
        assert_eq!(order(&mut queue), [60, 70, 10, 20]);
    }

    #[test]
    fn nothing_passes_a_flush() {
        let mut queue = Bioq::new(32);
        queue.add(io(Op::Write, 50));
        queue.add(io(Op::Flush, 0));
        queue.add(io(Op::Write, 10));
        assert_eq!(queue.next().map(|io| io.id), Some(50));
        assert!(queue.next().is_none());
        queue.completed();
        assert_eq!(order(&mut queue), [0, 10]);
    }
}
