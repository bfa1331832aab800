//! The I/O queue of a disk (`vdev_queue` in ZFS as of 2009).
//!
//! I/Os are sorted by deadline and then by offset; a deadline is the time in units of 64 ticks of a
//! millisecond, plus the priority. Adjacent I/Os of one kind are aggregated into one command.
use super::super::FileId;
use std::collections::BTreeMap;
use zonal_blk::{Nanos, Op};

/// Unit of deadlines: `zfs_vdev_time_shift` 6, with 1000 ticks a second.
const DEADLINE_UNIT: u64 = 64_000_000;
/// Longest aggregated command in bytes: `zfs_vdev_aggregation_limit`.
pub(super) const AGGREGATION_LIMIT: u64 = 128 << 10;
/// Limit of commands in flight for arriving I/O: `zfs_vdev_min_pending`.
const MIN_PENDING: u32 = 4;

/// Priorities (`zio_priority_table`), which are added to the deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Priority {
    /// A read that an operation waits for.
    SyncRead,
    /// A write of a transaction group.
    AsyncWrite,
}

impl Priority {
    fn delay(self) -> u64 {
        match self {
            Priority::SyncRead => 0,
            Priority::AsyncWrite => 4,
        }
    }
}

/// An I/O of ZFS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Zio {
    pub(super) op: Op,
    pub(super) place: u64,
    pub(super) bytes: u64,
    pub(super) what: ZioKind,
}

/// The kind of a zio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ZioKind {
    /// A record.
    Record(FileId, u64),
    /// An indirect block.
    Indirect(FileId, u64),
    /// Part of a transaction group's metadata.
    Metadata,
}

impl ZioKind {
    fn is_record(self) -> bool {
        matches!(self, ZioKind::Record(..))
    }
}

/// A command: adjacent zios.
pub(super) type Command = Vec<Zio>;

/// Deadline, offset and order of arrival.
type Key = (u64, u64, u64);

/// A disk's queue.
#[derive(Debug, Default)]
pub(super) struct VdevQueue {
    waiting: BTreeMap<Key, Zio>,
    arrived: u64,
    in_flight: u32,
    max_pending: u32,
}

impl VdevQueue {
    pub(super) fn new(max_pending: u32) -> Self {
        VdevQueue { max_pending, ..VdevQueue::default() }
    }

    pub(super) fn add(&mut self, now: Nanos, priority: Priority, zio: Zio) {
        self.arrived += 1;
        let deadline = now.0 / DEADLINE_UNIT + priority.delay();
        self.waiting.insert((deadline, zio.place, self.arrived), zio);
    }

    /// The commands to issue after I/Os have arrived.
    pub(super) fn arrival(&mut self) -> Vec<Command> {
        self.issue(MIN_PENDING.min(self.max_pending))
    }

    /// The commands to issue after a command has completed.
    pub(super) fn completed(&mut self) -> Vec<Command> {
        self.in_flight -= 1;
        self.issue(self.max_pending)
    }

    fn issue(&mut self, limit: u32) -> Vec<Command> {
        let mut commands = Vec::new();
        while self.in_flight < limit
            && let Some((key, first)) = self.waiting.pop_first()
        {
            let mut command = vec![first];
            let (deadline, place, _) = key;
            let mut end = place + first.bytes;
            while end - place < AGGREGATION_LIMIT {
                let next = self.waiting.range((deadline, end, 0)..).next();
                let Some((&key, &zio)) = next.filter(|&(key, zio)| {
                    (key.0, key.1) == (deadline, end)
                        && zio.op == first.op
                        && zio.what.is_record() == first.what.is_record()
                        && end + zio.bytes - place <= AGGREGATION_LIMIT
                }) else {
                    break;
                };
                self.waiting.remove(&key);
                end += zio.bytes;
                command.push(zio);
            }
            self.in_flight += 1;
            commands.push(command);
        }
        commands
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zio(op: Op, place: u64, bytes: u64) -> Zio {
        Zio { op, place, bytes, what: ZioKind::Metadata }
    }

    fn places(commands: &[Command]) -> Vec<(u64, usize)> {
        commands.iter().map(|command| (command[0].place, command.len())).collect()
    }

    #[test]
    fn sync_reads_pass_writes_by_deadline_and_are_sorted_by_offset() {
        let mut queue = VdevQueue::new(1);
        for place in [30, 10, 20] {
            queue.add(Nanos(0), Priority::AsyncWrite, zio(Op::Write, place << 20, 1));
            queue.add(Nanos(200_000_000), Priority::SyncRead, zio(Op::Read, place << 10, 1));
        }
        let mut order = places(&queue.arrival());
        for _ in 0..5 {
            order.extend(places(&queue.completed()));
        }
        let places: Vec<u64> = order.into_iter().map(|(place, _)| place).collect();
        assert_eq!(places, [10 << 10, 20 << 10, 30 << 10, 10 << 20, 20 << 20, 30 << 20]);
    }

    #[test]
    fn adjacent_zios_are_aggregated_up_to_the_limit() {
        let mut queue = VdevQueue::new(35);
        for number in [3, 0, 2, 1, 4, 9] {
            let small = AGGREGATION_LIMIT / 4;
            queue.add(Nanos(0), Priority::AsyncWrite, zio(Op::Write, number * small, small));
        }
        let small = AGGREGATION_LIMIT / 4;
        assert_eq!(places(&queue.arrival()), [(0, 4), (4 * small, 1), (9 * small, 1)]);
    }

    #[test]
    fn few_are_issued_on_arrival_and_more_on_completion() {
        let mut queue = VdevQueue::new(10);
        for place in 0..20 {
            queue.add(Nanos(0), Priority::SyncRead, zio(Op::Read, place << 20, 1));
        }
        assert_eq!(queue.arrival().len(), 4);
        assert_eq!(queue.arrival().len(), 0);
        assert_eq!(queue.completed().len(), 7);
    }
}
