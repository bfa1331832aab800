//! ZFS as of 2009 (pool version 13, FreeBSD 8): records, copied on write in transaction groups.
//!
//! ```text
//!  read, write --> records --> ARC          what is in memory                          (arc)
//!     |  a partial write of a record reads it first
//!     v
//!  open transaction group --> syncing        all dirty records, to new places; then metadata, a
//!                             |              flush, and the uberblocks                    (txg)
//!                             v
//!                           vdev queues      one for each disk, by deadline and offset  (vdev)
//! ```
//!
//! Invariants: one group is synced at a time, in order; a group writes each of its dirty records
//! once; the old place of a record is freed only after its group has been committed.
mod arc;
mod txg;
mod vdev;

use super::cpu::{Cpu, EventQueue};
use super::{BlockIo, Content, Effects, FileId, FileOp, FileSystem, Layout, OpId, Params};
use arc::{Arc, BlockKind};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use vdev::{AGGREGATION_LIMIT, Command, Priority, VdevQueue, Zio, ZioKind};
use zonal_blk::{BioFlags, Completion, Limits, Nanos, Op, Sector, Status};
use zonal_fio::job::Job;
use zonal_fio::rng::Rng;

/// Bytes allocated on a disk before the next one: `metaslab_aliquot`.
const ALIQUOT: u64 = 512 << 10;
/// Bytes of the labels at the start of a disk: two of 256 KiB and the boot block.
const LABELS: u64 = 4 << 20;
/// Records that an indirect block points to: 16 KiB (`DN_MAX_INDBLKSHIFT` 14) of block pointers of
/// 128 bytes.
const RECORDS_PER_INDIRECT: u64 = 128;
/// An indirect block in memory.
const INDIRECT_SIZE: u64 = 16 << 10;
/// An indirect block on the disk: metadata is compressed to about a half.
const INDIRECT_BYTES: u64 = 8 << 10;
/// Fraction of the ARC for metadata, as a divisor: `arc_meta_limit`.
const METADATA_SHARE: u64 = 4;
/// Other metadata blocks of a transaction group: dnodes, space maps, the pool's own object set.
const OTHER_BLOCKS: usize = 16;
/// Threads that allocate and issue the writes of a pool: `zio_taskq_threads`.
const ISSUE_THREADS: usize = 8;
/// Stream of random numbers for their order.
const ALLOCATION_STREAM: u64 = 0x7a66_7361_6c6c_6f63;
/// An uberblock.
const UBERBLOCK: u64 = 1 << 10;

/// A record of a file.
type Record = (FileId, u64);

/// A disk and an offset on it (data virtual address).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Dva {
    disk: usize,
    at: u64,
}

struct Disk {
    queue: VdevQueue,
    /// Where the next record is allocated.
    at: u64,
    end: u64,
    /// Freed offsets, each with room for a record.
    free: BTreeSet<u64>,
    /// Area for the second copies of metadata, an eighth of the disk away from the first ones: start,
    /// end and next offset.
    copies: (u64, u64, u64),
}

struct Operation {
    file: FileId,
    op: FileOp,
    /// Records to be read.
    left: u32,
}

/// A command in flight.
enum Io {
    Zios(usize, Command),
    Flush,
    Uberblock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sync {
    Idle,
    Data,
    Metadata,
    Flush,
    Uberblocks,
}

enum Event {
    Done(OpId),
    Timeout,
}

/// A ZFS pool with files.
pub(super) struct Zfs {
    params: Params,
    disks: Vec<Disk>,
    lba: u64,
    dvas: BTreeMap<Record, Dva>,
    /// By file and number, the addresses of indirect blocks.
    indirect: BTreeMap<Record, Dva>,
    /// By address, the number of indirect blocks there.
    shared: BTreeMap<Dva, usize>,
    /// The address of the metadata above them.
    above: Option<Dva>,
    arc: Arc,
    /// By indirect block being read, the records to read after it.
    waiting: BTreeMap<Record, Vec<Record>>,
    cached_bytes: u64,
    /// By record being read, the operations that wait for it.
    reading: BTreeMap<Record, Vec<OpId>>,
    operations: BTreeMap<OpId, Operation>,
    /// Records of the open transaction group.
    open: BTreeSet<Record>,
    /// Records of the syncing group.
    syncing: BTreeSet<Record>,
    /// Addresses to free when it is committed.
    freed: Vec<Dva>,
    sync: Sync,
    sync_left: u32,
    /// Number of committed transaction groups.
    committed: u64,
    /// The open group is to be synced after the syncing one.
    due: bool,
    throttled: VecDeque<OpId>,
    processes: Vec<Cpu>,
    ios: BTreeMap<u64, Io>,
    next_id: u64,
    /// The disk to allocate on, and the bytes left of its turn.
    rotor: (usize, u64),
    rng: Rng,
    event_queue: EventQueue<Event>,
    stopped: bool,
}

impl Zfs {
    /// Creates a pool. Fails with the size of the first file that does not fit.
    pub(super) fn new(
        params: Params,
        limits: &[&Limits],
        job: &Job,
        layout: &Layout,
        seed: u64,
    ) -> Result<Self, u64> {
        let disk = |limits: &&Limits| {
            let capacity = limits.capacity.to_bytes().0;
            let eighth = (capacity / 8).next_multiple_of(AGGREGATION_LIMIT).max(LABELS);
            Disk {
                queue: VdevQueue::new(params.queue_depth),
                at: LABELS,
                end: capacity.saturating_sub(LABELS),
                free: BTreeSet::new(),
                copies: (eighth, eighth * 2, eighth),
            }
        };
        let mut fs = Zfs {
            disks: limits.iter().map(disk).collect(),
            lba: limits.iter().map(|limits| limits.lba_size).max().unwrap_or(512).into(),
            dvas: BTreeMap::new(),
            indirect: BTreeMap::new(),
            shared: BTreeMap::new(),
            above: None,
            arc: Arc::new(
                params.memory,
                params.memory / METADATA_SHARE,
                [params.block, INDIRECT_SIZE],
            ),
            waiting: BTreeMap::new(),
            cached_bytes: 0,
            reading: BTreeMap::new(),
            operations: BTreeMap::new(),
            open: BTreeSet::new(),
            syncing: BTreeSet::new(),
            freed: Vec::new(),
            sync: Sync::Idle,
            sync_left: 0,
            committed: 0,
            due: false,
            throttled: VecDeque::new(),
            processes: vec![Cpu::default(); job.numjobs as usize],
            ios: BTreeMap::new(),
            next_id: 0,
            rotor: (0, ALIQUOT),
            rng: Rng::new(seed, [ALLOCATION_STREAM, 0, 0, 0]),
            event_queue: EventQueue::default(),
            stopped: false,
            params,
        };
        for &(file, size) in layout {
            fs.lay_out(file, size).ok_or(size)?;
        }
        fs.event_queue.add(fs.params.commit, Event::Timeout);
        Ok(fs)
    }

    /// Creates a file as if it had just been written. `None` if there is no room for it.
    fn lay_out(&mut self, file: FileId, size: u64) -> Option<()> {
        let records = size.div_ceil(self.params.block);
        for record in self.allocation_order((0..records).collect()) {
            let dva = self.allocate()?;
            self.dvas.insert((file, record), dva);
        }
        // The files have just been written: they are cached as far as they fit.
        for record in records.saturating_sub(self.params.memory / self.params.block)..records {
            self.arc.write(Nanos(0), (BlockKind::Data, (file, record)));
        }
        let last = size.div_ceil(self.params.block).div_ceil(RECORDS_PER_INDIRECT);
        let blocks: Vec<Record> = (0..last).map(|number| (file, number)).collect();
        for blocks in blocks.chunks(self.indirect_in_a_place()) {
            let dva = self.allocate()?;
            self.place_indirect(blocks, dva);
        }
        for number in 0..last {
            self.arc.write(Nanos(0), (BlockKind::Metadata, (file, number)));
        }
        Some(())
    }

    /// The order in which records of a transaction group that are written in this order get their
    /// places: each of several threads takes one at a time, and allocates when it comes to that.
    fn allocation_order<T>(&mut self, records: Vec<T>) -> Vec<T> {
        let mut ordered = Vec::with_capacity(records.len());
        let mut threads = Vec::with_capacity(ISSUE_THREADS);
        let mut next = records.into_iter();
        threads.extend(next.by_ref().take(ISSUE_THREADS));
        while !threads.is_empty() {
            let one = usize::try_from(self.rng.below(threads.len() as u64)).expect("a few threads");
            ordered.push(match next.next() {
                Some(record) => std::mem::replace(&mut threads[one], record),
                None => threads.swap_remove(one),
            });
        }
        ordered
    }

    /// Allocates a record: the disks take turns, each continues after its last record and reuses freed
    /// offsets when its end is reached.
    fn allocate(&mut self) -> Option<Dva> {
        let bytes = self.params.block;
        if self.rotor.1 < bytes {
            self.rotor = ((self.rotor.0 + 1) % self.disks.len(), ALIQUOT.max(bytes));
        }
        for turn in 0..self.disks.len() {
            let number = (self.rotor.0 + turn) % self.disks.len();
            let disk = &mut self.disks[number];
            let (from, to, _) = disk.copies;
            if disk.at < to && from < disk.at + bytes {
                disk.at = to;
            }
            let at = if disk.at + bytes <= disk.end {
                disk.at += bytes;
                disk.at - bytes
            } else if let Some(at) = disk.free.pop_first() {
                at
            } else {
                continue;
            };
            self.rotor = (number, self.rotor.1.saturating_sub(bytes));
            return Some(Dva { disk: number, at });
        }
        None
    }

    /// Number of indirect blocks in the room of a record.
    fn indirect_in_a_place(&self) -> usize {
        (self.params.block / INDIRECT_BYTES).max(1) as usize
    }

    /// Moves indirect blocks to an address; frees old addresses without any blocks left.
    fn place_indirect(&mut self, blocks: &[Record], Dva { disk, at }: Dva) {
        self.shared.insert(Dva { disk, at }, blocks.len());
        for (number, &block) in (0..).zip(blocks) {
            let at = at + number * INDIRECT_BYTES.min(self.params.block);
            let Some(old) = self.indirect.insert(block, Dva { disk, at }) else { continue };
            let old = Dva { at: old.at / self.params.block * self.params.block, ..old };
            let left = self.shared.get_mut(&old).expect("indirect blocks have an address");
            *left -= 1;
            if *left == 0 {
                self.shared.remove(&old);
                self.freed.push(old);
            }
        }
    }

    /// Reads a record, after its indirect block if that is not cached.
    fn read_record(&mut self, now: Nanos, (file, record): Record) {
        let number = record / RECORDS_PER_INDIRECT;
        let known = self.indirect.get(&(file, number)).copied();
        if let Some(Dva { disk, at }) = known
            && !self.arc.hit(now, (BlockKind::Metadata, (file, number)))
        {
            let records = self.waiting.entry((file, number)).or_default();
            records.push((file, record));
            if records.len() == 1 {
                let bytes = INDIRECT_BYTES.min(self.params.block);
                let what = ZioKind::Indirect(file, number);
                let zio = Zio { op: Op::Read, place: at, bytes, what };
                self.disks[disk].queue.add(now, Priority::SyncRead, zio);
            }
            return;
        }
        self.read_known(now, (file, record));
    }

    /// Reads a record whose indirect block is cached.
    fn read_known(&mut self, now: Nanos, (file, record): Record) {
        let Dva { disk, at } = self.dvas[&(file, record)];
        let what = ZioKind::Record(file, record);
        let zio = Zio { op: Op::Read, place: at, bytes: self.params.block, what };
        self.disks[disk].queue.add(now, Priority::SyncRead, zio);
    }

    fn records(&self, offset: u64, len: u64) -> std::ops::Range<u64> {
        let block = self.params.block;
        offset / block..(offset + len).div_ceil(block)
    }

    /// Starts to read the records that an operation needs; returns how many it waits for.
    fn fetch(&mut self, now: Nanos, id: OpId, file: FileId, records: &[u64]) -> u32 {
        let mut left = 0;
        for &record in records {
            let key = (file, record);
            if self.open.contains(&key) || self.syncing.contains(&key) {
                continue;
            }
            if !self.reading.contains_key(&key) && self.arc.hit(now, (BlockKind::Data, key)) {
                continue;
            }
            if !self.dvas.contains_key(&key) {
                continue;
            }
            left += 1;
            let waiting = self.reading.entry(key).or_default();
            waiting.push(id);
            if waiting.len() == 1 {
                self.read_record(now, key);
            }
        }
        left
    }

    /// An operation has all its records in memory.
    fn resume(&mut self, now: Nanos, id: OpId, effects: &mut Effects) {
        let Operation { file, op, .. } = self.operations[&id];
        let bytes = match op {
            FileOp::Write { offset, len } => {
                if self.is_throttled() {
                    self.throttled.push_back(id);
                    self.begin_sync(now, effects);
                    return;
                }
                for record in self.records(offset, len) {
                    self.open.insert((file, record));
                    self.arc.write(now, (BlockKind::Data, (file, record)));
                }
                if self.is_throttled() {
                    self.begin_sync(now, effects);
                }
                len
            }
            FileOp::Read { len, .. } => len,
            FileOp::Create | FileOp::Close => 0,
        };
        self.operations.remove(&id);
        let at = self.processes[id.process as usize].run(now, self.params.cost(bytes));
        self.event_queue.add(at, Event::Done(id));
    }

    /// Whether the open transaction group takes no more writes.
    fn is_throttled(&self) -> bool {
        self.open.len() as u64 * self.params.block >= self.params.dirty
    }

    /// Issues I/O from the queues of all disks.
    fn run_queues(&mut self, effects: &mut Effects) {
        for disk in 0..self.disks.len() {
            let commands = self.disks[disk].queue.arrival();
            self.send(disk, commands, effects);
        }
    }

    fn send(&mut self, disk: usize, commands: Vec<Command>, effects: &mut Effects) {
        for command in commands {
            let first = command[0];
            let bytes = command.iter().map(|zio| zio.bytes).sum();
            let block = self.params.block;
            let part = |zio: &Zio| match zio.what {
                ZioKind::Record(file, record) => Some((file, record * block, zio.bytes)),
                ZioKind::Indirect(..) | ZioKind::Metadata => None,
            };
            let content = match part(&first) {
                None => Content::Metadata,
                Some((file, offset, _)) if command.len() == 1 => Content::Data { file, offset },
                Some(_) => Content::Multiple(command.iter().filter_map(part).collect()),
            };
            let mut io = io(disk, first.op, BioFlags::NONE, first.place, bytes, content);
            self.next_id += 1;
            io.id = self.next_id;
            self.ios.insert(io.id, Io::Zios(disk, command));
            effects.ios.push(io);
        }
    }

    fn zio_done(&mut self, now: Nanos, zio: Zio, effects: &mut Effects) {
        let (file, record) = match zio.what {
            ZioKind::Record(file, record) => (file, record),
            ZioKind::Indirect(file, number) => {
                self.arc.insert(now, (BlockKind::Metadata, (file, number)));
                for record in self.waiting.remove(&(file, number)).unwrap_or_default() {
                    self.read_known(now, record);
                }
                return;
            }
            ZioKind::Metadata => {
                self.sync_left -= 1;
                return;
            }
        };
        if zio.op != Op::Read {
            self.sync_left -= 1;
            return;
        }
        self.arc.insert(now, (BlockKind::Data, (file, record)));
        for id in self.reading.remove(&(file, record)).unwrap_or_default() {
            let operation = self.operations.get_mut(&id).expect("the operation is in progress");
            operation.left -= 1;
            if operation.left == 0 {
                self.resume(now, id, effects);
            }
        }
    }
}

fn io(disk: usize, op: Op, flags: BioFlags, at: u64, bytes: u64, content: Content) -> BlockIo {
    let nr_sectors = u32::try_from(bytes / 512).expect("a command is shorter than 2 TiB");
    BlockIo { disk, op, flags, sector: Sector(at / 512), nr_sectors, content, id: 0 }
}

impl FileSystem for Zfs {
    fn start(&mut self, now: Nanos, id: OpId, file: FileId, op: FileOp, effects: &mut Effects) {
        let block = self.params.block;
        let needed: Vec<u64> = match op {
            FileOp::Read { offset, len } => self.records(offset, len).collect(),
            // Partly overwritten records.
            FileOp::Write { offset, len } => self
                .records(offset, len)
                .filter(|record| {
                    let start = record * block;
                    start < offset || offset + len < start + block
                })
                .collect(),
            FileOp::Create | FileOp::Close => Vec::new(),
        };
        let left = self.fetch(now, id, file, &needed);
        if left == 0
            && let FileOp::Read { len, .. } = op
        {
            self.cached_bytes += len;
        }
        self.operations.insert(id, Operation { file, op, left });
        if left == 0 {
            self.resume(now, id, effects);
        }
        self.run_queues(effects);
    }

    fn complete(&mut self, now: Nanos, completion: &Completion, effects: &mut Effects) {
        match self.ios.remove(&completion.user_data).expect("an I/O completes once") {
            Io::Zios(disk, command) => {
                for zio in command {
                    self.zio_done(now, zio, effects);
                }
                let commands = self.disks[disk].queue.completed();
                self.send(disk, commands, effects);
            }
            Io::Flush | Io::Uberblock => self.sync_left -= 1,
        }
        self.step_sync(now, effects);
        self.run_queues(effects);
    }

    fn wake(&mut self, now: Nanos, effects: &mut Effects) {
        while let Some(event) = self.event_queue.pop(now) {
            match event {
                Event::Done(id) => effects.completed.push((id, Status::Ok)),
                Event::Timeout => {
                    self.begin_sync(now, effects);
                    self.event_queue.add(now + self.params.commit, Event::Timeout);
                }
            }
        }
        self.run_queues(effects);
    }

    fn next_event(&self) -> Option<Nanos> {
        self.event_queue.next().filter(|_| !self.stopped)
    }

    fn stop(&mut self) {
        self.stopped = true;
    }

    fn sorts(&self) -> bool {
        true
    }

    fn cached_bytes(&self) -> u64 {
        self.cached_bytes
    }
}
