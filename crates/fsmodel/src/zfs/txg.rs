//! Syncing a transaction group: data, metadata, flush and uberblocks, one after another.
use super::arc::BlockKind;
use super::vdev::{Priority, Zio, ZioKind};
use super::{
    Dva, Effects, INDIRECT_BYTES, Io, LABELS, OTHER_BLOCKS, RECORDS_PER_INDIRECT, Record, Sync,
    UBERBLOCK, Zfs, io,
};
use crate::{BlockIo, Content};
use std::collections::BTreeSet;
use zonal_blk::{BioFlags, Nanos, Op, Status};

impl Zfs {
    /// Quiesces the open group and starts to sync it, or marks it due if another one is syncing.
    pub(super) fn begin_sync(&mut self, now: Nanos, effects: &mut Effects) {
        if self.sync != Sync::Idle {
            self.due = true;
            return;
        }
        self.due = false;
        if self.open.is_empty() {
            return;
        }
        self.syncing = std::mem::take(&mut self.open);
        self.sync = Sync::Data;
        let records: Vec<Record> = self.syncing.iter().copied().collect();
        for (file, record) in self.allocation_order(records) {
            let Some(dva) = self.allocate() else {
                effects.failed = Some(Status::NoSpace);
                break;
            };
            self.freed.extend(self.dvas.insert((file, record), dva));
            let what = ZioKind::Record(file, record);
            let bytes = self.params.block;
            self.queue_write(now, dva, bytes, what);
        }
        for id in std::mem::take(&mut self.throttled) {
            self.resume(now, id, effects);
        }
        self.step_sync(now, effects);
    }

    fn queue_write(&mut self, now: Nanos, dva: Dva, bytes: u64, what: ZioKind) {
        self.sync_left += 1;
        let zio = Zio { op: Op::Write, place: dva.at, bytes, what };
        self.disks[dva.disk].queue.add(now, Priority::AsyncWrite, zio);
    }

    /// Continues with the next stage of the syncing group when one is done.
    pub(super) fn step_sync(&mut self, now: Nanos, effects: &mut Effects) {
        while self.sync_left == 0 && self.sync != Sync::Idle {
            match self.sync {
                Sync::Data => {
                    self.sync = Sync::Metadata;
                    self.write_metadata(now);
                }
                Sync::Metadata => {
                    self.sync = Sync::Flush;
                    for disk in 0..self.disks.len() {
                        let io = io(disk, Op::Flush, BioFlags::NONE, 0, 0, Content::None);
                        self.issue(io, Io::Flush, effects);
                    }
                }
                Sync::Flush => {
                    self.sync = Sync::Uberblocks;
                    let bytes = UBERBLOCK.next_multiple_of(self.lba);
                    for disk in 0..self.disks.len() {
                        for at in [LABELS / 2, self.disks[disk].end] {
                            let io =
                                io(disk, Op::Write, BioFlags::FUA, at, bytes, Content::Metadata);
                            self.issue(io, Io::Uberblock, effects);
                        }
                    }
                }
                Sync::Uberblocks | Sync::Idle => {
                    self.sync = Sync::Idle;
                    self.syncing.clear();
                    self.committed += 1;
                    for Dva { disk, at } in std::mem::take(&mut self.freed) {
                        self.disks[disk].free.insert(at);
                    }
                    if self.due && !self.stopped {
                        self.begin_sync(now, effects);
                    }
                }
            }
        }
    }

    fn issue(&mut self, mut io: BlockIo, what: Io, effects: &mut Effects) {
        self.next_id += 1;
        io.id = self.next_id;
        self.ios.insert(io.id, what);
        self.sync_left += 1;
        effects.ios.push(io);
    }

    /// Writes the indirect blocks above the records, and the metadata above those, each twice.
    fn write_metadata(&mut self, now: Nanos) {
        let block = |&(file, record): &Record| (file, record / RECORDS_PER_INDIRECT);
        let indirect: BTreeSet<Record> = self.syncing.iter().map(block).collect();
        let indirect: Vec<Record> = indirect.into_iter().collect();
        for &(file, number) in &indirect {
            self.arc.write(now, (BlockKind::Metadata, (file, number)));
        }
        let bytes = |blocks: usize| {
            let bytes = blocks as u64 * INDIRECT_BYTES;
            bytes.min(self.params.block).next_multiple_of(self.lba)
        };
        let in_a_place = self.indirect_in_a_place();
        let mut writes: Vec<(Vec<Record>, u64)> =
            indirect.chunks(in_a_place).map(|part| (part.to_vec(), bytes(part.len()))).collect();
        writes.push((Vec::new(), bytes(OTHER_BLOCKS)));
        for (blocks, bytes) in writes {
            let Some(dva) = self.allocate() else { continue };
            if blocks.is_empty() {
                // The metadata above the indirect blocks is rewritten by each group.
                self.freed.extend(self.above.replace(dva));
            } else {
                self.place_indirect(&blocks, dva);
            }
            self.queue_write(now, dva, bytes, ZioKind::Metadata);
            let (start, end, at) = &mut self.disks[dva.disk].copies;
            if *at + bytes > *end {
                *at = *start;
            }
            let copy = Dva { disk: dva.disk, at: *at };
            *at += bytes;
            self.queue_write(now, copy, bytes, ZioKind::Metadata);
        }
    }
}
