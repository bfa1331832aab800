//! FreeBSD's UFS (FFS) as of 2009: files in blocks, overwritten in place.
//!
//! A vnode's lock is shared by reads and exclusive for writes, in order of arrival. A block that is
//! partly overwritten is read first. With direct I/O (`O_DIRECT`) nothing is cached, writes are
//! issued immediately and not waited for, and a read waits for the writes of its file; buffered writes
//! are deferred until there are too many or a commit is due. With too many dirty blocks writers wait
//! before they take a lock, until half of them are written (`bwillwrite`).
use super::cache::Cache;
use super::cpu::{Cpu, EventQueue};
use super::extents::Ranges;
use super::{BlockIo, Content, Effects, FileId, FileOp, FileSystem, Layout, OpId, Params};
use std::collections::{BTreeMap, VecDeque};
use zonal_blk::{BioFlags, Completion, Limits, Nanos, Op, Sector, Status};
use zonal_fio::job::Job;

/// Blocks of a file in a cylinder group before it continues in another one: newfs sets `maxbpg` to
/// 2048 blocks of 16 KiB.
const BLOCKS_PER_GROUP: u64 = 2048;
/// Blocks of a cylinder group: about 184 MiB with 16 KiB blocks and newfs's default number of inodes.
const GROUP_BLOCKS: u64 = 11_776;
/// Longest command: `MAXPHYS`.
const MAX_PHYS: u64 = 128 << 10;

struct Inode {
    size: u64,
    /// Number of its first run of contiguous blocks.
    first_run: u64,
    /// Dirty blocks, in bytes of the file.
    dirty: Ranges,
    dirty_bytes: u64,
    lock: Lock,
    /// Writes in flight.
    writing: u32,
    in_list: bool,
}

/// A vnode's lock.
#[derive(Default)]
struct Lock {
    readers: u32,
    writer: bool,
    waiting: VecDeque<Operation>,
}

#[derive(Clone, Copy, Debug)]
struct Operation {
    id: OpId,
    file: FileId,
    op: FileOp,
}

/// An operation that holds its file's lock.
struct Active {
    operation: Operation,
    /// Reads in flight.
    left: u32,
}

enum Io {
    Read { id: OpId },
    Write { file: FileId, bytes: u64 },
}

enum Event {
    Done(Operation),
    Commit,
}

/// A UFS file system.
pub(super) struct Ufs {
    params: Params,
    direct: bool,
    lba: u64,
    files: BTreeMap<FileId, Inode>,
    cache: Cache,
    cached_bytes: u64,
    active: BTreeMap<OpId, Active>,
    /// Direct reads that wait for writes of their file, and direct writes that wait for other writes.
    blocked: VecDeque<OpId>,
    /// Buffered writes that wait for dirty blocks to be written.
    throttled: VecDeque<Operation>,
    processes: Vec<Cpu>,
    /// Files with dirty blocks, oldest first.
    dirty_files: VecDeque<FileId>,
    dirty: u64,
    /// Dirty bytes to write regardless of the limit.
    expired: u64,
    /// Write-back has begun, and goes on to the low-water mark.
    flushing: bool,
    /// Bytes of writes in flight.
    running: u64,
    ios: BTreeMap<u64, Io>,
    next_id: u64,
    next_run: u64,
    capacity: u64,
    event_queue: EventQueue<Event>,
    stopped: bool,
}

impl Ufs {
    /// Creates a file system. Fails with the size of the first file that does not fit.
    pub(super) fn new(
        params: Params,
        limits: &Limits,
        job: &Job,
        layout: &Layout,
    ) -> Result<Self, u64> {
        let mut fs = Ufs {
            direct: job.direct,
            lba: limits.lba_size.into(),
            files: BTreeMap::new(),
            cache: Cache::new(params.memory),
            cached_bytes: 0,
            active: BTreeMap::new(),
            blocked: VecDeque::new(),
            throttled: VecDeque::new(),
            processes: vec![Cpu::default(); job.numjobs as usize],
            dirty_files: VecDeque::new(),
            dirty: 0,
            expired: 0,
            flushing: false,
            running: 0,
            ios: BTreeMap::new(),
            next_id: 0,
            next_run: 0,
            capacity: limits.capacity.to_bytes().0,
            event_queue: EventQueue::default(),
            stopped: false,
            params,
        };
        for &(file, size) in layout {
            fs.allocate(file, size).ok_or(size)?;
            // The files have just been written: they are cached as far as they fit.
            fs.cache.insert(file, 0, size);
        }
        fs.event_queue.add(fs.params.commit, Event::Commit);
        Ok(fs)
    }

    /// Allocates a file: runs of blocks, each in another cylinder group.
    fn allocate(&mut self, file: FileId, size: u64) -> Option<()> {
        let first_run = self.next_run;
        self.next_run += size.div_ceil(self.params.block * BLOCKS_PER_GROUP).max(1);
        let inode = Inode {
            size,
            first_run,
            dirty: Ranges::default(),
            dirty_bytes: 0,
            lock: Lock::default(),
            writing: 0,
            in_list: false,
        };
        self.files.insert(file, inode);
        (self.run_place(self.next_run - 1) + self.run_bytes() <= self.capacity).then_some(())
    }

    fn run_bytes(&self) -> u64 {
        self.params.block * BLOCKS_PER_GROUP
    }

    /// First byte of a run of blocks: the first runs of all cylinder groups, then the second ones.
    fn run_place(&self, run: u64) -> u64 {
        let group = self.params.block * GROUP_BLOCKS;
        let groups = (self.capacity / group).max(1);
        let room = if self.capacity < group { self.capacity } else { group };
        let per_group = (room / self.run_bytes()).max(1);
        // If the disk is full, the result is beyond its end.
        let round = run / groups;
        if round < per_group {
            run % groups * group + round * self.run_bytes()
        } else {
            self.capacity
        }
    }

    /// Sends a range of a file as commands, each contiguous on the disk.
    fn send(
        &mut self,
        op: Op,
        file: FileId,
        (start, end): (u64, u64),
        effects: &mut Effects,
        mut io: impl FnMut(u64) -> Io,
    ) -> u32 {
        let mut at = start;
        let mut count = 0;
        while at < end {
            let first_run = self.files[&file].first_run;
            let (run, inside) = (at / self.run_bytes(), at % self.run_bytes());
            let bytes = (end - at).min(MAX_PHYS).min(self.run_bytes() - inside);
            let place = self.run_place(first_run + run) + inside;
            self.next_id += 1;
            self.ios.insert(self.next_id, io(bytes));
            effects.ios.push(BlockIo {
                disk: 0,
                op,
                flags: BioFlags::NONE,
                sector: Sector(place / 512),
                nr_sectors: u32::try_from(bytes / 512).expect("at most MAX_PHYS"),
                content: Content::Data { file, offset: at },
                id: self.next_id,
            });
            (at, count) = (at + bytes, count + 1);
        }
        count
    }

    /// Extends a range to whole blocks.
    fn blocks(&self, start: u64, end: u64) -> (u64, u64) {
        let block = self.params.block;
        (start / block * block, end.next_multiple_of(block))
    }

    fn enter(&mut self, now: Nanos, operation: Operation, effects: &mut Effects) {
        let lock = &mut self.files.get_mut(&operation.file).expect("the file exists").lock;
        lock.waiting.push_back(operation);
        self.grant(now, operation.file, effects);
    }

    /// Grants the lock to the first waiter, and with a reader to the readers after it.
    fn grant(&mut self, now: Nanos, file: FileId, effects: &mut Effects) {
        loop {
            let lock = &mut self.files.get_mut(&file).expect("the file exists").lock;
            let Some(&first) = lock.waiting.front() else {
                return;
            };
            let reads = matches!(first.op, FileOp::Read { .. });
            if lock.writer || lock.readers > 0 && !reads {
                return;
            }
            lock.waiting.pop_front();
            if reads {
                lock.readers += 1;
            } else {
                lock.writer = true;
            }
            self.begin(now, first, effects);
        }
    }

    /// An operation has acquired the lock of its file.
    fn begin(&mut self, now: Nanos, operation: Operation, effects: &mut Effects) {
        let Operation { id, file, op } = operation;
        self.active.insert(id, Active { operation, left: 0 });
        match op {
            FileOp::Read { .. } if self.direct && self.files[&file].writing > 0 => {
                self.blocked.push_back(id);
            }
            FileOp::Read { offset, len } => {
                let range = (offset, offset + len);
                let missing = if self.direct { vec![range] } else { self.not_cached(file, range) };
                self.read(now, id, file, missing, effects);
            }
            FileOp::Write { offset, len } => {
                let end = offset + len;
                let (first, beyond) = self.blocks(offset, end);
                let size = self.files[&file].size;
                let block = self.params.block;
                let mut partial = Vec::new();
                if first < offset || (end < first + block && end < size) {
                    partial.push((first, first + block));
                }
                if end < beyond && end < size && beyond - block > first {
                    partial.push((beyond - block, beyond));
                }
                let missing = if self.direct {
                    partial
                } else {
                    partial.into_iter().flat_map(|part| self.not_cached(file, part)).collect()
                };
                self.read(now, id, file, missing, effects);
            }
            FileOp::Create | FileOp::Close => self.finish(now, operation),
        }
    }

    /// The blocks of a range that are not cached.
    fn not_cached(&mut self, file: FileId, (start, end): (u64, u64)) -> Vec<(u64, u64)> {
        let (first, beyond) = self.blocks(start, end);
        let missing = self.cache.missing(file, first, beyond);
        self.cache.insert(file, first, beyond);
        let read: u64 =
            missing.iter().map(|&(from, to)| to.min(end) - from.max(start).min(to.min(end))).sum();
        self.cached_bytes += (end - start).saturating_sub(read);
        missing
    }

    fn read(
        &mut self,
        now: Nanos,
        id: OpId,
        file: FileId,
        ranges: Vec<(u64, u64)>,
        effects: &mut Effects,
    ) {
        let mut left = 0;
        for range in ranges {
            left += self.send(Op::Read, file, range, effects, |_| Io::Read { id });
        }
        let active = self.active.get_mut(&id).expect("it holds the lock");
        active.left = left;
        if left == 0 {
            self.read_done(now, id, effects);
        }
    }

    /// All reads of an operation have completed.
    fn read_done(&mut self, now: Nanos, id: OpId, effects: &mut Effects) {
        let operation = self.active[&id].operation;
        let Operation { file, op: FileOp::Write { offset, len }, .. } = operation else {
            return self.finish(now, operation);
        };
        let (first, beyond) = self.blocks(offset, offset + len);
        if !self.direct {
            let inode = self.files.get_mut(&file).expect("the file exists");
            let new = inode.dirty.insert(first, beyond);
            inode.dirty_bytes += new;
            self.dirty += new;
            if new > 0 && !std::mem::replace(&mut inode.in_list, true) {
                self.dirty_files.push_back(file);
            }
            self.cache.insert(file, first, beyond);
            self.write_back(now, effects);
            return self.finish(now, operation);
        }
        if self.running >= self.params.chunk {
            // Too much is in flight.
            self.blocked.push_back(id);
            return;
        }
        self.write(file, (first, beyond), effects);
        self.finish(now, operation);
    }

    fn write(&mut self, file: FileId, range: (u64, u64), effects: &mut Effects) {
        self.running += range.1 - range.0;
        let count = self.send(Op::Write, file, range, effects, |bytes| Io::Write { file, bytes });
        self.files.get_mut(&file).expect("the file exists").writing += count;
    }

    /// Dirty bytes at which write-back stops and throttled writers continue (`lodirtybuffers`).
    fn low_water(&self) -> u64 {
        self.params.background.min(self.params.dirty / 2)
    }

    /// Writes dirty blocks while there are too many or they have expired.
    fn write_back(&mut self, now: Nanos, effects: &mut Effects) {
        self.flushing |= self.dirty > self.params.background || self.dirty >= self.params.dirty;
        self.send_dirty(effects);
        if self.dirty <= self.low_water() {
            self.flushing = false;
            for operation in std::mem::take(&mut self.throttled) {
                self.enter(now, operation, effects);
            }
        }
    }

    fn send_dirty(&mut self, effects: &mut Effects) {
        while (self.flushing && self.dirty > self.low_water() || self.expired > 0)
            && self.running < self.params.chunk
            && !self.stopped
        {
            let Some(&file) = self.dirty_files.front() else {
                return;
            };
            let inode = self.files.get_mut(&file).expect("the file exists");
            let Some((start, end)) = inode.dirty.take_first(MAX_PHYS) else {
                inode.in_list = false;
                self.dirty_files.pop_front();
                continue;
            };
            inode.dirty_bytes -= end - start;
            self.dirty -= end - start;
            self.expired = self.expired.saturating_sub(end - start);
            self.write(file, (start, end), effects);
        }
    }

    fn finish(&mut self, now: Nanos, operation: Operation) {
        self.active.remove(&operation.id);
        let bytes = match operation.op {
            FileOp::Read { len, .. } | FileOp::Write { len, .. } => len,
            FileOp::Create | FileOp::Close => 0,
        };
        let process = &mut self.processes[operation.id.process as usize];
        let at = process.run(now, self.params.cost(bytes));
        self.event_queue.add(at, Event::Done(operation));
    }

    /// Retries operations that wait for writes.
    fn retry_blocked(&mut self, now: Nanos, effects: &mut Effects) {
        for id in std::mem::take(&mut self.blocked) {
            let Operation { file, op, .. } = self.active[&id].operation;
            match op {
                FileOp::Read { offset, len } if self.files[&file].writing == 0 => {
                    self.read(now, id, file, vec![(offset, offset + len)], effects);
                }
                FileOp::Write { .. } if self.running < self.params.chunk => {
                    self.read_done(now, id, effects);
                }
                _ => self.blocked.push_back(id),
            }
        }
    }

    fn release(&mut self, now: Nanos, operation: Operation, effects: &mut Effects) {
        let lock = &mut self.files.get_mut(&operation.file).expect("the file exists").lock;
        if matches!(operation.op, FileOp::Read { .. }) {
            lock.readers -= 1;
        } else {
            lock.writer = false;
        }
        effects.completed.push((operation.id, Status::Ok));
        self.grant(now, operation.file, effects);
    }
}

impl FileSystem for Ufs {
    fn start(&mut self, now: Nanos, id: OpId, file: FileId, op: FileOp, effects: &mut Effects) {
        if let FileOp::Write { offset, len } = op
            && let Some(inode) = self.files.get_mut(&file)
        {
            inode.size = inode.size.max(offset + len);
        }
        debug_assert!(self.params.block.is_multiple_of(self.lba), "blocks are whole LBAs");
        let operation = Operation { id, file, op };
        if matches!(op, FileOp::Write { .. }) && !self.direct && self.dirty >= self.params.dirty {
            self.throttled.push_back(operation);
            return;
        }
        self.enter(now, operation, effects);
    }

    fn complete(&mut self, now: Nanos, completion: &Completion, effects: &mut Effects) {
        match self.ios.remove(&completion.user_data).expect("an I/O completes once") {
            Io::Read { id } => {
                let active = self.active.get_mut(&id).expect("the operation is in progress");
                active.left -= 1;
                if active.left == 0 {
                    self.read_done(now, id, effects);
                }
            }
            Io::Write { file, bytes } => {
                self.running -= bytes;
                self.files.get_mut(&file).expect("the file exists").writing -= 1;
                self.retry_blocked(now, effects);
                self.write_back(now, effects);
            }
        }
    }

    fn wake(&mut self, now: Nanos, effects: &mut Effects) {
        while let Some(event) = self.event_queue.pop(now) {
            match event {
                Event::Done(operation) => self.release(now, operation, effects),
                Event::Commit => {
                    self.expired = self.dirty;
                    self.write_back(now, effects);
                    self.event_queue.add(now + self.params.commit, Event::Commit);
                }
            }
        }
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
