//! File systems on zoned devices, btrfs and XFS: file data is appended to open zones.
//!
//! Data is sent with zone appends, or with writes where appends are neither native nor emulated. It
//! is allocated when it is written back, not when a process writes it (delayed allocation).
//!
//! Invariants: every byte that is written back goes to the device once; room in a zone is reserved in
//! the order of submission; truncated data is dead immediately.
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

/// Least bytes of a buffered read (Linux's `read_ahead_kb`, 128 by default).
const READ_AHEAD: u64 = 128 << 10;

/// The differences between the file systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FsVariant {
    /// Each open file writes to a zone of its own as long as there are enough; otherwise all data
    /// goes to one zone after another.
    zone_per_file: bool,
    /// How metadata is written.
    metadata: MetadataStyle,
    /// Bytes of metadata for each extent that is written.
    per_extent: u64,
    /// Bytes of metadata for each file that is created or closed.
    per_file: u64,
}

/// btrfs: data is appended to one zone after another; a zone is a block group, and one is active for
/// data. Each extent adds items to the trees, which a transaction commit writes to a zone of their
/// own, followed by a flush and a superblock.
pub(super) const BTRFS: FsVariant = FsVariant {
    zone_per_file: false,
    metadata: MetadataStyle::Tree,
    // For an extent of 128 KiB: 32 checksums of 4 bytes, a file extent item, an extent item with its
    // back reference, their keys and headers (25 bytes each), in leaves two thirds full.
    per_extent: 512,
    // Inode item, reference, directory item and index.
    per_file: 512,
};

/// XFS with its zoned allocator (Linux 6.15 and newer): data is appended to up to `fs_open_zones` open
/// zones, one for each file that is open for writing as long as there are enough. Metadata goes to a
/// log on the conventional zones.
pub(super) const XFS: FsVariant = FsVariant {
    zone_per_file: true,
    metadata: MetadataStyle::Log,
    // An extent is recorded when its write completes: a mapping in the inode and one in the reverse
    // map, with the log's headers.
    per_extent: 256,
    // A file that is created, written and closed logs an inode, the changes of a directory block and
    // its extents: of the order of 2 KiB.
    per_file: 1024,
};

/// The side that places data at the write pointer of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AppendMode {
    /// The device.
    Native,
    /// The zone write plug of the block layer.
    Emulated,
    /// The file system, which tracks the write pointer and issues writes.
    None,
}

#[derive(Debug, Default)]
struct Inode {
    is_open: bool,
    /// Number of truncations.
    generation: u32,
    size: u64,
    dirty: Ranges,
    extents: ExtentMap,
    zone: Option<usize>,
}

/// A block I/O in flight.
enum Io {
    Write { file: FileId, generation: u32, offset: u64, len: u64, zone: usize, op: Option<OpId> },
    Read { op: OpId },
    Metadata { zone: Option<usize> },
    Reset { zone: usize },
}

enum Event {
    Done(OpId),
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
    /// Zones open for data, in order of use; the last used one is at the back.
    open: VecDeque<usize>,
    files: BTreeMap<FileId, Inode>,
    cache: Cache,
    cached_bytes: u64,
    writeback: Writeback,
    metadata: Metadata,
    processes: Vec<Cpu>,
    flusher: Cpu,
    /// The flusher has an event queued.
    flush_queued: bool,
    event_queue: EventQueue<Event>,
    ios: BTreeMap<u64, Io>,
    next_id: u64,
    /// By operation, the block I/Os that it waits for.
    operations: BTreeMap<OpId, u32>,
    /// Direct writes that wait for a free zone.
    without_zone: VecDeque<PendingWrite>,
    stopped: bool,
}

impl ZonedFs {
    /// Creates a file system. Fails with the total size of the files if they do not fit.
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
            flush_queued: false,
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

    /// Discards the contents of a file.
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

    /// The zone for the next bytes of a file.
    ///
    /// XFS (`xfs_select_zone_nowait`): the zone that the file wrote to last; for a file that was
    /// closed before it was written back, the last used zone; else a new zone, so that files are mixed
    /// as little as possible; else the least recently used one.
    fn zone_for(&mut self, file: FileId) -> Option<usize> {
        let space = &self.space;
        self.open.retain(|&zone| space.room(zone) > 0);
        let inode = self.files.get(&file).expect("a file being written exists");
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

    /// Sends bytes of a file to a zone. Returns how many, and whether the sender itself has to issue the
    /// command to the device; `None` without a free zone.
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
        let id = self.add_io(Io::Write { file, generation, offset, len, zone, op });
        effects.ios.push(BlockIo {
            disk: 0,
            op: block_op,
            flags,
            sector,
            nr_sectors: u32::try_from(len / 512).expect("a command is shorter than 2 TiB"),
            content: Content::Data { file, offset },
            id,
        });
        // A plugged write is issued by the thread that completes the one before it.
        let issues = self.appends != AppendMode::Emulated || is_first;
        Some((len, issues))
    }

    fn add_io(&mut self, io: Io) -> u64 {
        self.next_id += 1;
        self.ios.insert(self.next_id, io);
        self.next_id
    }

    /// Writes back the next dirty range.
    fn flush(&mut self, now: Nanos, effects: &mut Effects) {
        self.flush_queued = false;
        if self.stopped {
            return;
        }
        let Some((file, left)) = self.writeback.next_file() else {
            return;
        };
        let inode = self.inode(file);
        let (offset, end) = inode.dirty.take_first(left).expect("the file to write back is dirty");
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
        self.flush_queued = true;
        self.event_queue.add(at, Event::Flush);
    }

    /// Waits for a zone reset; fails with `NoSpace` if there will be none.
    fn wait_for_zone(&mut self, effects: &mut Effects) {
        if !self.space.is_resetting() {
            effects.failed = Some(Status::NoSpace);
        }
    }

    fn kick(&mut self, now: Nanos) {
        if !self.flush_queued && self.writeback.next_file().is_some() {
            self.flush_queued = true;
            self.event_queue.add(now, Event::Flush);
        }
    }

    /// Sends a direct write.
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

    /// Does a buffered write that has been admitted.
    fn write_buffered(&mut self, now: Nanos, write: PendingWrite) {
        let PendingWrite { id, file, offset, len } = write;
        let inode = self.inode(file);
        let first = inode.dirty.is_empty();
        inode.size = inode.size.max(offset + len);
        let new = inode.dirty.insert(offset, offset + len);
        self.writeback.mark_dirty(file, new, first && new > 0);
        self.cache.insert(file, offset, offset + len);
        self.complete_after(now, id, self.params.cost(len));
        self.kick(now);
    }

    /// Completes the operation after `cost` of CPU time of its process.
    fn complete_after(&mut self, now: Nanos, id: OpId, cost: Nanos) {
        let at = self.processes[id.process as usize].run(now, cost);
        self.event_queue.add(at, Event::Done(id));
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
                    let io = self.add_io(Io::Read { op: id });
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
            self.complete_after(now, id, cost);
        } else {
            self.operations.insert(id, pieces);
            self.processes[id.process as usize].run(now, cost);
        }
    }

    /// A block I/O of an operation has completed.
    fn piece_done(&mut self, id: OpId, effects: &mut Effects) {
        let left = self.operations.get_mut(&id).expect("the operation is in progress");
        *left -= 1;
        if *left == 0 {
            self.operations.remove(&id);
            effects.completed.push((id, Status::Ok));
        }
    }

    fn issue_metadata(&mut self, ios: Vec<MetaIo>, effects: &mut Effects) {
        for MetaIo { io, zone } in ios {
            let id = self.add_io(Io::Metadata { zone });
            effects.ios.push(BlockIo { id, ..io });
        }
    }

    /// Resets all zones without live data. XFS and btrfs do so when they run out of free zones; doing
    /// it earlier costs the same.
    fn reset_zones(&mut self, effects: &mut Effects) {
        while let Some(zone) = self.space.next_reset() {
            let sector = self.space.start(zone);
            let id = self.add_io(Io::Reset { zone });
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

    fn wrote(&mut self, completion: &Completion, write: (FileId, u32, u64, u64)) {
        let (file, generation, offset, len) = write;
        let place = completion.sector.to_bytes().0;
        self.metadata.add(self.variant.per_extent);
        let inode = self.inode(file);
        if completion.status != Status::Ok || inode.generation != generation {
            // The write failed or the file was truncated meanwhile.
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
                self.complete_after(now, id, self.params.cost(0));
            }
            FileOp::Close => {
                self.inode(file).is_open = false;
                self.metadata.add(self.variant.per_file);
                self.complete_after(now, id, self.params.cost(0));
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

    fn complete(&mut self, now: Nanos, completion: &Completion, effects: &mut Effects) {
        match self.ios.remove(&completion.user_data).expect("an I/O completes once") {
            Io::Write { file, generation, offset, len, zone, op } => {
                self.wrote(completion, (file, generation, offset, len));
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
                let next = self.metadata.completed(&mut self.space);
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
                Event::Done(id) => effects.completed.push((id, Status::Ok)),
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
