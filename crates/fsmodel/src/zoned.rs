//! What file systems on zones have in common: files whose data go to the end of open zones.
//!
//! Takes file operations; gives zone appends, or writes where nobody does appends. Data are placed
//! when they are written back, not when a process writes them (delayed allocation). Keeps true:
//! every byte that is written back goes to the device once; a zone's bytes are promised in the
//! order in which they are sent; what a file loses is dead on the disk at once.
use super::cache::Cache;
use super::cpu::{Cpu, EventQueue};
use super::extents::{Extent, ExtentMap, Ranges};
use super::metadata::{MetaIo, Metadata, MetadataStyle};
use super::writeback::{PendingWrite, Writeback};
use super::zones::ZoneSpace;
use super::{BlockIo, Content, Effects, FileId, FileOp, FileSystem, Layout, OpId, Params};
use std::collections::{BTreeMap, VecDeque};
use zonal_blk::{BioFlags, Completion, Limits, Nanos, Op, Sector, Status, Zone, ZoneWrite};
use zonal_fio::job::Job;

/// Bytes that a buffered read brings at the least (Linux's `read_ahead_kb`, 128 unless set).
const READ_AHEAD: u64 = 128 << 10;

/// What one file system does and the other does otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FsVariant {
    /// Each file that is open has a zone of its own as far as there are; otherwise all data go to
    /// one zone after another.
    pub(super) zone_per_file: bool,
    /// How metadata are written.
    pub(super) metadata: MetadataStyle,
    /// Bytes of metadata for each extent that is written.
    pub(super) per_extent: u64,
    /// Bytes of metadata for each file that is made or closed.
    pub(super) per_file: u64,
}

/// Who brings data to a zone's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AppendMode {
    /// The device.
    Native,
    /// The zone's plug in the block layer.
    Emulated,
    /// Nobody: the file system's own account of the write pointer.
    None,
}

#[derive(Debug, Default)]
struct Inode {
    is_open: bool,
    /// Counts how often the file was made empty.
    generation: u32,
    size: u64,
    dirty: Ranges,
    extents: ExtentMap,
    zone: Option<usize>,
}

/// A block I/O on its way.
enum Io {
    Write { file: FileId, generation: u32, offset: u64, len: u64, zone: usize, op: Option<OpId> },
    Read { op: OpId },
    Metadata { zone: Option<usize> },
    Reset { zone: usize },
}

enum Event {
    Ended(OpId),
    Direct(PendingWrite),
    Flush,
    Commit,
}

/// A file system on zones.
pub(super) struct ZonedFs {
    params: Params,
    variant: FsVariant,
    direct: bool,
    appends: AppendMode,
    max_bytes: u64,
    space: ZoneSpace,
    /// Zones open for data, the one used last behind.
    open: VecDeque<usize>,
    files: BTreeMap<FileId, Inode>,
    cache: Cache,
    cached_bytes: u64,
    writeback: Writeback,
    metadata: Metadata,
    processes: Vec<Cpu>,
    flusher: Cpu,
    /// The flusher will look for work.
    flushes: bool,
    event_queue: EventQueue<Event>,
    ios: BTreeMap<u64, Io>,
    next_id: u64,
    /// Block I/Os that an operation waits for.
    operations: BTreeMap<OpId, u32>,
    /// Direct writes that wait for a zone.
    without_zone: VecDeque<PendingWrite>,
    stopped: bool,
}

impl ZonedFs {
    /// A new file system; fails with the size of the files that do not fit.
    pub(super) fn new(
        params: Params,
        variant: FsVariant,
        limits: &Limits,
        policy: ZoneWrite,
        report: &[Zone],
        job: &Job,
        layout: &Layout,
    ) -> Result<Self, u64> {
        let plugs = matches!(policy, ZoneWrite::Plug | ZoneWrite::Qd1);
        let appends = match limits.append_max_sectors {
            0 if plugs => AppendMode::Emulated,
            0 => AppendMode::None,
            _ => AppendMode::Native,
        };
        let sectors = if appends == AppendMode::Native {
            limits.append_max_sectors
        } else {
            limits.max_sectors
        };
        let max_bytes = u64::from(sectors) * 512;
        let space = ZoneSpace::new(report);
        let mut fs = ZonedFs {
            metadata: Metadata::new(variant.metadata, &space, max_bytes, limits.lba_size.into()),
            space,
            variant,
            direct: job.direct,
            appends,
            max_bytes,
            open: VecDeque::new(),
            files: BTreeMap::new(),
            cache: Cache::new(params.memory),
            cached_bytes: 0,
            writeback: Writeback::new(params.dirty, params.background, params.chunk),
            processes: vec![Cpu::default(); job.numjobs as usize],
            flusher: Cpu::default(),
            flushes: false,
            event_queue: EventQueue::default(),
            ios: BTreeMap::new(),
            next_id: 0,
            operations: BTreeMap::new(),
            without_zone: VecDeque::new(),
            stopped: false,
            params,
        };
        fs.lay_out(layout)?;
        fs.event_queue.add(fs.params.commit, Event::Commit);
        Ok(fs)
    }

    fn lay_out(&mut self, layout: &Layout) -> Result<(), u64> {
        let all: u64 = layout.iter().map(|(_, size)| size).sum();
        let mut zone = None;
        for &(file, size) in layout {
            let inode = self.files.entry(file).or_default();
            inode.size = size;
            let mut offset = 0;
            while offset < size {
                let into = match zone.filter(|&zone| self.space.room(zone) > 0) {
                    Some(zone) => zone,
                    None => self.space.open().ok_or(all)?,
                };
                zone = Some(into);
                let len = (size - offset).min(self.space.room(into));
                let place = self.space.lay_out(into, len);
                inode.extents.insert(Extent { offset, len, place });
                offset += len;
            }
        }
        self.open.extend(zone);
        Ok(())
    }

    fn inode(&mut self, file: FileId) -> &mut Inode {
        self.files.entry(file).or_default()
    }

    /// The file loses all that it holds.
    fn truncate(&mut self, file: FileId) {
        let inode = self.inode(file);
        inode.generation += 1;
        let size = std::mem::take(&mut inode.size);
        let dirty = inode.dirty.remove(0, u64::MAX);
        let dead = inode.extents.remove(0, u64::MAX);
        inode.zone = None;
        for Extent { len, place, .. } in dead {
            self.space.release(place, len);
        }
        self.cache.remove(file, 0, size);
        if dirty > 0 {
            self.writeback.forget(file, dirty);
        }
    }

    /// The zone for a file's next bytes.
    ///
    /// XFS (`xfs_select_zone_nowait`): the zone that the file wrote to last; for a file that was
    /// closed before it was written back, the zone that was used last by any; else a new zone, so
    /// that files are mixed as little as possible; else the one that was not used for longest.
    fn zone_for(&mut self, file: FileId) -> Option<usize> {
        let space = &self.space;
        self.open.retain(|&zone| space.room(zone) > 0);
        let inode = self.files.get(&file).expect("a file that is written is known");
        let own = inode.zone.filter(|zone| self.open.contains(zone));
        let packs = !inode.is_open || !self.variant.zone_per_file;
        let zone = own.or_else(|| self.open.back().copied().filter(|_| packs)).or_else(|| {
            let may_open = self.open.len() < self.params.open_zones as usize;
            let new = may_open.then(|| self.space.open()).flatten();
            new.or_else(|| self.open.front().copied())
        })?;
        self.open.retain(|&other| other != zone);
        self.open.push_back(zone);
        self.inode(file).zone = Some(zone);
        Some(zone)
    }

    /// Sends a file's bytes to a zone; gives how many, and whether the context that sent them had
    /// to take them to the device. `None` without a free zone.
    fn send(
        &mut self,
        file: FileId,
        offset: u64,
        len: u64,
        op: Option<OpId>,
        effects: &mut Effects,
    ) -> Option<(u64, bool)> {
        let zone = self.zone_for(file)?;
        let len = len.min(self.max_bytes).min(self.space.room(zone));
        let is_first = self.space.has_no_writes(zone);
        let place = self.space.reserve(zone, len);
        let generation = self.inode(file).generation;
        let (block_op, sector) = match self.appends {
            AppendMode::None => (Op::Write, Sector(place / 512)),
            _ => (Op::ZoneAppend, self.space.start(zone)),
        };
        let flags = if op.is_none() { BioFlags::ASYNC } else { BioFlags::NONE };
        let id = self.enter(Io::Write { file, generation, offset, len, zone, op });
        effects.ios.push(BlockIo {
            disk: 0,
            op: block_op,
            flags,
            sector,
            nr_sectors: u32::try_from(len / 512).expect("a command is shorter than 2 TiB"),
            content: Content::Data { file, offset },
            id,
        });
        // A write that meets another one in its zone is taken on by whoever ends that one.
        let issues = self.appends != AppendMode::Emulated || is_first;
        Some((len, issues))
    }

    fn enter(&mut self, io: Io) -> u64 {
        self.next_id += 1;
        self.ios.insert(self.next_id, io);
        self.next_id
    }

    /// The flusher's next piece of work.
    fn flush(&mut self, now: Nanos, effects: &mut Effects) {
        self.flushes = false;
        if self.stopped {
            return;
        }
        let Some((file, left)) = self.writeback.next_file() else {
            return;
        };
        let inode = self.inode(file);
        let (offset, end) = inode.dirty.take_first(left).expect("a file whose turn it is is dirty");
        let Some((sent, issues)) = self.send(file, offset, end - offset, None, effects) else {
            self.inode(file).dirty.insert(offset, end);
            self.wait_for_zone(effects);
            return;
        };
        let inode = self.inode(file);
        if offset + sent < end {
            inode.dirty.insert(offset + sent, end);
        }
        let last = inode.dirty.is_empty();
        self.writeback.submitted(sent, last);
        let cost = if issues { self.params.issue_cost } else { Nanos(1) };
        let at = self.flusher.run(now, cost);
        self.flushes = true;
        self.event_queue.add(at, Event::Flush);
    }

    /// Nothing can be written before a zone is reset; if none will be, there is no space.
    fn wait_for_zone(&mut self, effects: &mut Effects) {
        if !self.space.is_resetting() {
            effects.failed = Some(Status::NoSpace);
        }
    }

    fn kick(&mut self, now: Nanos) {
        if !self.flushes && self.writeback.next_file().is_some() {
            self.flushes = true;
            self.event_queue.add(now, Event::Flush);
        }
    }

    /// A direct write that the process has prepared.
    fn write_direct(&mut self, now: Nanos, write: PendingWrite, effects: &mut Effects) {
        let PendingWrite { id, file, mut offset, len } = write;
        let end = offset + len;
        while offset < end {
            let Some((sent, issues)) = self.send(file, offset, end - offset, Some(id), effects)
            else {
                let rest = PendingWrite { offset, len: end - offset, ..write };
                self.without_zone.push_back(rest);
                *self.operations.entry(id).or_default() += 1;
                self.wait_for_zone(effects);
                return;
            };
            *self.operations.entry(id).or_default() += 1;
            if issues {
                self.processes[id.process as usize].run(now, self.params.issue_cost);
            }
            offset += sent;
        }
    }

    /// A write that has found room in memory.
    fn write_buffered(&mut self, now: Nanos, write: PendingWrite) {
        let PendingWrite { id, file, offset, len } = write;
        let inode = self.inode(file);
        let first = inode.dirty.is_empty();
        inode.size = inode.size.max(offset + len);
        let new = inode.dirty.insert(offset, offset + len);
        self.writeback.mark_dirty(file, new, first && new > 0);
        self.cache.insert(file, offset, offset + len);
        self.end_after(now, id, self.params.cost(len));
        self.kick(now);
    }

    /// The operation ends when its process has done so much more work.
    fn end_after(&mut self, now: Nanos, id: OpId, cost: Nanos) {
        let at = self.processes[id.process as usize].run(now, cost);
        self.event_queue.add(at, Event::Ended(id));
    }

    fn read(
        &mut self,
        now: Nanos,
        id: OpId,
        file: FileId,
        offset: u64,
        len: u64,
        effects: &mut Effects,
    ) {
        let size = self.inode(file).size;
        let missing = if self.direct {
            vec![(offset, offset + len)]
        } else {
            let mut missing = self.cache.missing(file, offset, offset + len);
            let read: u64 = missing.iter().map(|(from, to)| to - from).sum();
            self.cached_bytes += len - read;
            if let Some((from, to)) = missing.last_mut() {
                *to = (*to).max((*from + READ_AHEAD).min(size));
                let (from, to) = (*from, *to);
                self.cache.insert(file, from, to);
            }
            missing
        };
        let mut pieces = 0;
        for (from, to) in missing {
            for Extent { offset, len, place } in self.inode(file).extents.of(from, to) {
                let mut done = 0;
                while done < len {
                    let bytes = (len - done).min(self.max_bytes);
                    let io = self.enter(Io::Read { op: id });
                    effects.ios.push(BlockIo {
                        disk: 0,
                        op: Op::Read,
                        flags: BioFlags::NONE,
                        sector: Sector((place + done) / 512),
                        nr_sectors: u32::try_from(bytes / 512).expect("less than 2 TiB"),
                        content: Content::Data { file, offset: offset + done },
                        id: io,
                    });
                    (pieces, done) = (pieces + 1, done + bytes);
                }
            }
        }
        let cost = self.params.cost(len);
        if pieces == 0 {
            self.end_after(now, id, cost);
        } else {
            self.operations.insert(id, pieces);
            self.processes[id.process as usize].run(now, cost);
        }
    }

    /// One of the block I/Os that an operation waits for has ended.
    fn piece_done(&mut self, id: OpId, effects: &mut Effects) {
        let left = self.operations.get_mut(&id).expect("an operation waits for its pieces");
        *left -= 1;
        if *left == 0 {
            self.operations.remove(&id);
            effects.ended.push((id, Status::Ok));
        }
    }

    fn issue_metadata(&mut self, ios: Vec<MetaIo>, effects: &mut Effects) {
        for MetaIo { io, zone } in ios {
            let id = self.enter(Io::Metadata { zone });
            effects.ios.push(BlockIo { id, ..io });
        }
    }

    /// Resets what can be reset. XFS and btrfs do so when they run out of free zones; sooner costs
    /// the same.
    fn reset_zones(&mut self, effects: &mut Effects) {
        while let Some(zone) = self.space.next_reset() {
            let sector = self.space.start(zone);
            let id = self.enter(Io::Reset { zone });
            effects.ios.push(BlockIo {
                disk: 0,
                op: Op::ZoneReset,
                flags: BioFlags::NONE,
                sector,
                nr_sectors: 0,
                content: Content::None,
                id,
            });
        }
    }

    fn wrote(&mut self, end: &Completion, write: (FileId, u32, u64, u64)) {
        let (file, generation, offset, len) = write;
        let place = end.sector.to_bytes().0;
        self.metadata.add(self.variant.per_extent);
        let inode = self.inode(file);
        if end.status != Status::Ok || inode.generation != generation {
            // The file was made empty meanwhile.
            self.space.release(place, len);
            return;
        }
        inode.size = inode.size.max(offset + len);
        for dead in inode.extents.insert(Extent { offset, len, place }) {
            self.space.release(dead.place, dead.len);
        }
    }
}

impl FileSystem for ZonedFs {
    fn start(&mut self, now: Nanos, id: OpId, file: FileId, op: FileOp, effects: &mut Effects) {
        match op {
            FileOp::Create => {
                self.truncate(file);
                self.inode(file).is_open = true;
                self.metadata.add(self.variant.per_file);
                self.end_after(now, id, self.params.cost(0));
            }
            FileOp::Close => {
                self.inode(file).is_open = false;
                self.metadata.add(self.variant.per_file);
                self.end_after(now, id, self.params.cost(0));
            }
            FileOp::Read { offset, len } => self.read(now, id, file, offset, len, effects),
            FileOp::Write { offset, len } => {
                let write = PendingWrite { id, file, offset, len };
                if self.direct {
                    let cost = self.params.cost(len);
                    let at = self.processes[id.process as usize].run(now, cost);
                    self.event_queue.add(at, Event::Direct(write));
                } else if self.writeback.admit(write) {
                    self.write_buffered(now, write);
                } else {
                    self.kick(now);
                }
            }
        }
        self.reset_zones(effects);
    }

    fn complete(&mut self, now: Nanos, end: &Completion, effects: &mut Effects) {
        match self.ios.remove(&end.user_data).expect("an I/O ends once") {
            Io::Write { file, generation, offset, len, zone, op } => {
                self.wrote(end, (file, generation, offset, len));
                self.space.write_done(zone);
                match op {
                    Some(op) => self.piece_done(op, effects),
                    None => {
                        self.writeback.completed(len);
                        while let Some(write) = self.writeback.next_admitted() {
                            self.write_buffered(now, write);
                        }
                    }
                }
            }
            Io::Read { op } => self.piece_done(op, effects),
            Io::Metadata { zone } => {
                if let Some(zone) = zone {
                    self.space.write_done(zone);
                }
                let next = self.metadata.ended(&mut self.space);
                self.issue_metadata(next, effects);
            }
            Io::Reset { zone } => {
                self.space.reset_done(zone);
                for write in std::mem::take(&mut self.without_zone) {
                    self.write_direct(now, write, effects);
                    self.piece_done(write.id, effects);
                }
            }
        }
        self.reset_zones(effects);
        self.kick(now);
    }

    fn wake(&mut self, now: Nanos, effects: &mut Effects) {
        while let Some(event) = self.event_queue.pop(now) {
            match event {
                Event::Ended(id) => effects.ended.push((id, Status::Ok)),
                Event::Direct(write) => self.write_direct(now, write, effects),
                Event::Flush => self.flush(now, effects),
                Event::Commit if self.stopped => {}
                Event::Commit => {
                    let ios = self.metadata.commit(&mut self.space);
                    self.issue_metadata(ios, effects);
                    self.writeback.expire();
                    self.kick(now);
                    self.event_queue.add(now + self.params.commit, Event::Commit);
                }
            }
        }
        self.reset_zones(effects);
    }

    fn next_event(&self) -> Option<Nanos> {
        self.event_queue.next().filter(|_| !self.stopped)
    }

    fn stop(&mut self) {
        self.stopped = true;
    }

    fn cached_bytes(&self) -> u64 {
        self.cached_bytes
    }
}
