//! The queue of a disk driver of FreeBSD (`bioq_disksort`): a one-way elevator.
//!
//! Takes block I/Os; gives as many as the disk takes at a time. Those that lie behind the one that
//! was sent last wait for the next sweep, whatever they do. Keeps true: I/Os that a flush divides
//! do not pass it.
use super::BlockIo;
use std::collections::{BTreeMap, VecDeque};
use zonal_blk::Op;

/// I/Os by sweep, first sector and order of arrival.
#[derive(Debug)]
pub(super) struct Bioq {
    depth: u32,
    in_flight: u32,
    /// Those before the first flush.
    waiting: BTreeMap<(u64, u64, u64), BlockIo>,
    /// From the first flush on, as they came.
    behind: VecDeque<BlockIo>,
    sweep: u64,
    /// The sector that was sent last.
    at: u64,
    arrived: u64,
}

impl Bioq {
    /// For a disk that takes so many commands at a time.
    pub(super) fn new(depth: u32) -> Self {
        Bioq {
            depth,
            in_flight: 0,
            waiting: BTreeMap::new(),
            behind: VecDeque::new(),
            sweep: 0,
            at: 0,
            arrived: 0,
        }
    }

    pub(super) fn add(&mut self, io: BlockIo) {
        if io.op == Op::Flush || !self.behind.is_empty() {
            self.behind.push_back(io);
            return;
        }
        self.arrived += 1;
        let sector = io.sector.0;
        let sweep = self.sweep + u64::from(sector < self.at);
        self.waiting.insert((sweep, sector, self.arrived), io);
    }

    /// The next I/O to send, if the disk takes one more.
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
        let flush = self.behind.pop_front()?;
        for io in std::mem::take(&mut self.behind) {
            self.add(io);
        }
        self.in_flight += 1;
        Some(flush)
    }

    /// An I/O has ended.
    pub(super) fn ended(&mut self) {
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
            queue.ended();
            Some(io.id)
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn elevator_goes_one_way() {
        let mut queue = Bioq::new(1);
        queue.add(io(Op::Read, 50));
        assert_eq!(queue.next().map(|io| io.id), Some(50));
        assert!(queue.next().is_none(), "the disk takes one");
        for (op, sector) in [(Op::Read, 10), (Op::Write, 70), (Op::Read, 20), (Op::Read, 60)] {
            queue.add(io(op, sector));
        }
        queue.ended();
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
        queue.ended();
        assert_eq!(order(&mut queue), [0, 10]);
    }
}
