//! FreeBSD's UFS (FFS) as of 2009: files in blocks, overwritten in place.
//!
//! Takes file operations; gives reads and writes of blocks. A vnode's lock is shared by reads and
//! held alone by a write, in the order in which they came. What a write covers in part of a block
//! is read first. With direct I/O (`O_DIRECT`) nothing is cached, writes go to the disk at once
//! without being waited for, and a read waits until those of its file have arrived; buffered
//! writes are put off until there are too many or a commit is due. Keeps true: a block is written
//! by one I/O at a time, and every byte that was written is on its way or dirty.
use super::cache::Cache;
use super::cpu::{Cpu, EventQueue};
use super::extents::Ranges;
use super::{BlockIo, Content, Effects, FileId, FileOp, FileSystem, Layout, OpId, Params};
use std::collections::{BTreeMap, VecDeque};
use zonal_blk::{BioFlags, Completion, Limits, Nanos, Op, Sector, Status};
use zonal_fio::job::Job;

/// Bytes of a file in a cylinder group before it goes on in another: 2048 blocks of 16 KiB, what
/// newfs sets `maxbpg` to.
const BLOCKS_PER_GROUP: u64 = 2048;
/// Blocks of a cylinder group: with 16 KiB blocks and newfs's default of inodes about 184 MiB.
const GROUP_BLOCKS: u64 = 11_776;
/// Longest command: `MAXPHYS`.
const MAX_PHYS: u64 = 128 << 10;

struct Inode {
    size: u64,
    /// Number of the first run of blocks that lies together.
    first_run: u64,
    /// Blocks that are in memory and not on the disk, in bytes of the file.
    dirty: Ranges,
    dirty_bytes: u64,
    lock: Lock,
    /// Its writes on their way.
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
    /// Reads that it waits for.
    left: u32,
}

enum Io {
    Read { id: OpId },
    Write { file: FileId, bytes: u64 },
}

enum Event {
    Ended(Operation),
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
    /// Direct reads that wait for the writes of their file, or writes for others.
    blocked: VecDeque<OpId>,
    processes: Vec<Cpu>,
    /// Files with dirty blocks, the one that has had them for longest in front.
    dirty_files: VecDeque<FileId>,
    dirty: u64,
    /// Dirty bytes that are to be written whatever the limit.
    expired: u64,
    /// Bytes of writes on their way.
    running: u64,
    ios: BTreeMap<u64, Io>,
    next_id: u64,
    next_run: u64,
    capacity: u64,
    event_queue: EventQueue<Event>,
    stopped: bool,
}

impl Ufs {
    /// A new file system; fails with the size of the files that do not fit.
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
            processes: vec![Cpu::default(); job.numjobs as usize],
            dirty_files: VecDeque::new(),
            dirty: 0,
            expired: 0,
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
            fs.make(file, size).ok_or(size)?;
            // The files have just been written: what of them fits is in memory.
            fs.cache.insert(file, 0, size);
        }
        fs.event_queue.add(fs.params.commit, Event::Commit);
        Ok(fs)
    }

    /// Gives a file room on the disk: runs of blocks, each in a cylinder group of its own.
    fn make(&mut self, file: FileId, size: u64) -> Option<()> {
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

    /// Where a run of blocks lies: the first of each cylinder group, then the second of each.
    fn run_place(&self, run: u64) -> u64 {
        let group = self.params.block * GROUP_BLOCKS;
        let groups = (self.capacity / group).max(1);
        let room = if self.capacity < group { self.capacity } else { group };
        let per_group = (room / self.run_bytes()).max(1);
        // Where the disk is full the last place is beyond its end.
        let turn = run / groups;
        if turn < per_group {
            run % groups * group + turn * self.run_bytes()
        } else {
            self.capacity
        }
    }

    /// Sends a range of a file as commands: each lies together on the disk.
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

    /// The blocks that a range touches, in bytes of the file.
    fn blocks(&self, start: u64, end: u64) -> (u64, u64) {
        let block = self.params.block;
        (start / block * block, end.next_multiple_of(block))
    }

    fn enter(&mut self, now: Nanos, operation: Operation, effects: &mut Effects) {
        let lock = &mut self.files.get_mut(&operation.file).expect("the file is there").lock;
        lock.waiting.push_back(operation);
        self.grant(now, operation.file, effects);
    }

    /// Lets in who is first, and with a reader the readers behind it.
    fn grant(&mut self, now: Nanos, file: FileId, effects: &mut Effects) {
        loop {
            let lock = &mut self.files.get_mut(&file).expect("the file is there").lock;
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

    /// An operation has got its file's lock.
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

    /// The blocks of a range that have to be read.
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
        let active = self.active.get_mut(&id).expect("it has the lock");
        active.left = left;
        if left == 0 {
            self.has_read(now, id, effects);
        }
    }

    /// An operation has all that it had to read.
    fn has_read(&mut self, now: Nanos, id: OpId, effects: &mut Effects) {
        let operation = self.active[&id].operation;
        let Operation { file, op: FileOp::Write { offset, len }, .. } = operation else {
            return self.finish(now, operation);
        };
        let (first, beyond) = self.blocks(offset, offset + len);
        if !self.direct {
            let inode = self.files.get_mut(&file).expect("the file is there");
            let new = inode.dirty.insert(first, beyond);
            inode.dirty_bytes += new;
            self.dirty += new;
            if new > 0 && !std::mem::replace(&mut inode.in_list, true) {
                self.dirty_files.push_back(file);
            }
            self.cache.insert(file, first, beyond);
            self.write_back(effects);
            return self.finish(now, operation);
        }
        if self.running >= self.params.chunk {
            // Too much is on its way already.
            self.blocked.push_back(id);
            return;
        }
        self.write(file, (first, beyond), effects);
        self.finish(now, operation);
    }

    fn write(&mut self, file: FileId, range: (u64, u64), effects: &mut Effects) {
        self.running += range.1 - range.0;
        let count = self.send(Op::Write, file, range, effects, |bytes| Io::Write { file, bytes });
        self.files.get_mut(&file).expect("the file is there").writing += count;
    }

    /// Writes dirty blocks while there are too many, or they are too old.
    fn write_back(&mut self, effects: &mut Effects) {
        while (self.dirty > self.params.background || self.expired > 0)
            && self.running < self.params.chunk
            && !self.stopped
        {
            let Some(&file) = self.dirty_files.front() else {
                return;
            };
            let inode = self.files.get_mut(&file).expect("the file is there");
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
        self.event_queue.add(at, Event::Ended(operation));
    }

    /// Looks again at what was held up by writes on their way.
    fn retry_blocked(&mut self, now: Nanos, effects: &mut Effects) {
        for id in std::mem::take(&mut self.blocked) {
            let Operation { file, op, .. } = self.active[&id].operation;
            match op {
                FileOp::Read { offset, len } if self.files[&file].writing == 0 => {
                    self.read(now, id, file, vec![(offset, offset + len)], effects);
                }
                FileOp::Write { .. } if self.running < self.params.chunk => {
                    self.has_read(now, id, effects);
                }
                _ => self.blocked.push_back(id),
            }
        }
    }

    fn release(&mut self, now: Nanos, operation: Operation, effects: &mut Effects) {
        let lock = &mut self.files.get_mut(&operation.file).expect("the file is there").lock;
        if matches!(operation.op, FileOp::Read { .. }) {
            lock.readers -= 1;
        } else {
            lock.writer = false;
        }
        effects.ended.push((operation.id, Status::Ok));
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
        self.enter(now, Operation { id, file, op }, effects);
    }

    fn complete(&mut self, now: Nanos, end: &Completion, effects: &mut Effects) {
        match self.ios.remove(&end.user_data).expect("an I/O ends once") {
            Io::Read { id } => {
                let active = self.active.get_mut(&id).expect("it waits for its reads");
                active.left -= 1;
                if active.left == 0 {
                    self.has_read(now, id, effects);
                }
            }
            Io::Write { file, bytes } => {
                self.running -= bytes;
                self.files.get_mut(&file).expect("the file is there").writing -= 1;
                self.retry_blocked(now, effects);
                self.write_back(effects);
            }
        }
    }

    fn wake(&mut self, now: Nanos, effects: &mut Effects) {
        while let Some(event) = self.event_queue.pop(now) {
            match event {
                Event::Ended(operation) => self.release(now, operation, effects),
                Event::Commit => {
                    self.expired = self.dirty;
                    self.write_back(effects);
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
