//! The journal: makes changes of zones durable.
//!
//! Invariants: whatever writes are lost or torn, the file holds the state before or the state after;
//! a batch is written to the log when the one before is durable; the zone table of a generation
//! stays intact until the next one is current; when a zone table is written, the checksums of all
//! data that the log before it covers are durable.
//!
//! A batch may be written before the flush that it is for, together with the data that it covers
//! ([`Journal::write_ahead`]). Until it is durable, the next batch is written in its place.
use super::block::{BLOCK, BlockKind, ENTRIES, Header, ZoneEntry, encode_block};
use super::kept::StateLog;
use super::regions::{RegionList, Regions};
use super::session::Session;
use super::store::ImageStore;
use super::sums::Sums;
use super::superblock::{FileLayout, Superblock};
use std::io;
use std::ops::Range;
use zonal_blk::{Buf, ZoneNo};

/// Blocks written at a time, both copies counted.
const WRITE_BLOCKS: usize = 64;
/// Longest batch of the log, in blocks; a longer one becomes a table.
const BATCH_BLOCKS: usize = WRITE_BLOCKS / 2;
/// Most data that a log covers with checksums, in bytes: recovery has to read them.
const MAX_LOG_COVERED: u64 = 128 << 20;

pub(super) struct Journal {
    layout: FileLayout,
    image: u64,
    generation: u64,
    /// Whether the root of the generation is written.
    rooted: bool,
    /// The next block of the log, and the next batch.
    next: u32,
    batch: u32,
    /// Bytes that the batches of the log cover.
    covered: u64,
    /// The entry of a batch that is in the file, at the place of the next one, and not durable.
    ahead: Option<ZoneEntry>,
    /// The durable state, by zone.
    table: Vec<ZoneEntry>,
    buf: Buf,
    /// A write failed: what is durable is unknown until the image is opened again.
    failed: bool,
}

/// The error of every call after a failure.
fn failure() -> io::Error {
    io::Error::other("metadata could not be written before; open the image again")
}

/// Blocks of a batch.
fn parts(entries: &[ZoneEntry]) -> u32 {
    u32::try_from(entries.len().div_ceil(ENTRIES)).expect("an image has up to 2^20 zones")
}

/// Bytes that entries cover with checksums.
fn covered_bytes(entries: &[ZoneEntry]) -> u64 {
    entries.iter().map(|entry| entry.covered_len().to_bytes().0).sum()
}

impl Journal {
    /// The journal of a recovered image. If the log is not empty or a root is missing, a checkpoint
    /// must come first.
    pub(super) fn new(
        superblock: &Superblock,
        root: u64,
        generation: u64,
        table: Vec<ZoneEntry>,
    ) -> Self {
        Journal {
            layout: superblock.layout(),
            image: superblock.image(),
            generation,
            rooted: root == generation,
            next: 0,
            batch: 0,
            covered: 0,
            ahead: None,
            table,
            buf: Buf::zeroed(WRITE_BLOCKS * BLOCK),
            failed: false,
        }
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// The durable state of a zone.
    pub(super) fn durable(&self, zone: ZoneNo) -> &ZoneEntry {
        &self.table[zone.index()]
    }

    /// The entry that was written ahead: it counts unless power is lost, or another batch is written.
    pub(super) fn ahead(&self) -> Option<&ZoneEntry> {
        self.ahead.as_ref()
    }

    /// Whether the log has entries since the last zone table.
    pub(super) fn has_log(&self) -> bool {
        self.next > 0
    }

    /// Whether the journal has failed.
    pub(super) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Fails if the journal has failed.
    pub(super) fn check(&self) -> io::Result<()> {
        if self.failed { Err(failure()) } else { Ok(()) }
    }

    /// Makes all later calls fail.
    pub(super) fn fail(&mut self) {
        self.failed = true;
    }

    /// Makes entries durable, and with them everything written to the file before. Data that entries
    /// cover with a checksum need no sync of their own. `sums` are written if the log has no room.
    pub(super) fn append(
        &mut self,
        store: &dyn ImageStore,
        sums: Option<&Sums>,
        entries: &[ZoneEntry],
    ) -> io::Result<()> {
        self.guarded(|journal| {
            let ahead = journal.ahead.take();
            if journal.has_room(entries) {
                if ahead.as_slice() != entries {
                    journal.write_batch(store, entries)?;
                }
                store.sync()?;
                journal.next += parts(entries);
                journal.batch += 1;
                journal.covered += covered_bytes(entries);
                journal.apply(entries);
                return Ok(());
            }
            // A table has no checksums of data, so the data go first, and those of their blocks.
            sums.map_or(Ok(()), |sums| sums.flush(store))?;
            store.sync()?;
            journal.apply(entries);
            journal.write_table(store)
        })
    }

    /// Writes the batch of a flush that is expected, while the data that it covers are being written:
    /// the flush then needs a sync only. If the flush is for anything else, its batch replaces this
    /// one.
    pub(super) fn write_ahead(
        &mut self,
        store: &dyn ImageStore,
        entry: ZoneEntry,
    ) -> io::Result<()> {
        if !self.has_room(&[entry]) {
            return Ok(());
        }
        self.guarded(|journal| {
            journal.write_batch(store, &[entry])?;
            journal.ahead = Some(entry);
            Ok(())
        })
    }

    /// Takes a batch back that was written ahead for data that could not be written. Returns whether
    /// there was one: the next sync makes that durable.
    pub(super) fn withdraw(&mut self, store: &dyn ImageStore) -> io::Result<bool> {
        if self.ahead.take().is_none() {
            return Ok(false);
        }
        self.guarded(|journal| {
            let place = journal.layout.log(journal.generation, journal.next);
            store.write(place, &Buf::zeroed(2 * BLOCK))
        })?;
        Ok(true)
    }

    /// Whether a batch of these entries fits into the log.
    fn has_room(&self, entries: &[ZoneEntry]) -> bool {
        let room = (self.layout.log_blocks() - self.next) as usize;
        parts(entries) as usize <= BATCH_BLOCKS.min(room)
            && self.covered + covered_bytes(entries) <= MAX_LOG_COVERED
    }

    /// Writes the durable state as a zone table and empties the log.
    pub(super) fn checkpoint(&mut self, store: &dyn ImageStore) -> io::Result<()> {
        self.guarded(|journal| journal.write_table(store))
    }

    /// The first checkpoint after a loss of power. Part of a table of the next generation may be in
    /// the file, and the blocks written now must not be taken for the rest of it.
    pub(super) fn checkpoint_after_crash(&mut self, store: &dyn ImageStore) -> io::Result<()> {
        self.guarded(|journal| {
            let zeroes = Buf::zeroed(WRITE_BLOCKS * BLOCK);
            let first = journal.layout.table(journal.generation + 1, 0);
            let end = journal.layout.log(journal.generation + 1, 0);
            let mut at = first;
            while at < end {
                let len = zeroes.len().min(usize::try_from(end - at).unwrap_or(usize::MAX));
                store.write(at, &zeroes[..len])?;
                at += len as u64;
            }
            store.sync()?;
            journal.write_table(store)
        })
    }

    fn guarded(&mut self, write: impl FnOnce(&mut Self) -> io::Result<()>) -> io::Result<()> {
        self.check()?;
        write(self).inspect_err(|_| self.failed = true)
    }

    fn apply(&mut self, entries: &[ZoneEntry]) {
        for entry in entries {
            self.table[entry.zone.index()] = ZoneEntry { covered: None, ..*entry };
        }
    }

    fn header(&self, kind: BlockKind, index: u32, count: usize) -> Header {
        Header {
            kind,
            image: self.image,
            generation: self.generation,
            index,
            count: u32::try_from(count).expect("a block has 126 entries"),
            batch: 0,
            part: 0,
            parts: 0,
        }
    }

    /// Encodes both copies of a block, pair number `pair` of the buffer.
    fn put(&mut self, pair: usize, header: &Header, entries: &[ZoneEntry]) {
        let (first, second) = self.buf[2 * pair * BLOCK..][..2 * BLOCK].split_at_mut(BLOCK);
        encode_block(first, header, entries);
        second.copy_from_slice(first);
    }

    /// Writes the next batch.
    fn write_batch(&mut self, store: &dyn ImageStore, entries: &[ZoneEntry]) -> io::Result<()> {
        let count = parts(entries);
        for (part, entries) in (0..).zip(entries.chunks(ENTRIES)) {
            let mut header = self.header(BlockKind::Log, self.next + part, entries.len());
            (header.batch, header.part, header.parts) = (self.batch, part, count);
            self.put(part as usize, &header, entries);
        }
        let place = self.layout.log(self.generation, self.next);
        store.write(place, &self.buf[..2 * count as usize * BLOCK])
    }

    /// Writes the table of the next generation and makes it current.
    fn write_table(&mut self, store: &dyn ImageStore) -> io::Result<()> {
        if !self.rooted {
            // Otherwise the next table and a torn root would leave no consistent state.
            self.write_root(store)?;
        }
        self.generation += 1;
        self.rooted = false;
        let table = std::mem::take(&mut self.table);
        let written = self.write_table_blocks(store, &table);
        self.table = table;
        written?;
        store.sync()?;
        self.write_root(store)?;
        (self.next, self.batch, self.covered, self.ahead) = (0, 0, 0, None);
        Ok(())
    }

    fn write_root(&mut self, store: &dyn ImageStore) -> io::Result<()> {
        let header = self.header(BlockKind::Root, 0, 0);
        encode_block(&mut self.buf[..BLOCK], &header, &[]);
        store.write(FileLayout::root(self.generation), &self.buf[..BLOCK])?;
        store.sync()?;
        self.rooted = true;
        Ok(())
    }

    fn write_table_blocks(
        &mut self,
        store: &dyn ImageStore,
        table: &[ZoneEntry],
    ) -> io::Result<()> {
        let per_write = WRITE_BLOCKS / 2;
        for (number, group) in table.chunks(ENTRIES * per_write).enumerate() {
            let first = u32::try_from(number * per_write).expect("a table has 32-bit blocks");
            let mut blocks = 0;
            for (pair, entries) in group.chunks(ENTRIES).enumerate() {
                let index = first + u32::try_from(pair).expect("a write has 32 blocks");
                let header = self.header(BlockKind::Table, index, entries.len());
                self.put(pair, &header, entries);
                blocks += 2;
            }
            let at = self.layout.table(self.generation, first);
            store.write(at, &self.buf[..blocks * BLOCK])?;
        }
        Ok(())
    }
}

/// Writes the metadata of a new image into an empty file, and the space of all zones if that is to be
/// preallocated; calls `progress` with the number of bytes of that written so far.
///
/// # Errors
/// The errors of the file, which is not an image then.
pub fn format(
    store: &dyn ImageStore,
    superblock: &Superblock,
    progress: &mut dyn FnMut(u64) -> io::Result<()>,
) -> io::Result<()> {
    let layout = superblock.layout();
    // Write all metadata once, so that later writes need no new space. Block 0 may have a mark.
    write_zeroes(store, BLOCK as u64..layout.head(), &mut |_| Ok(()))?;
    if superblock.preallocated {
        write_zeroes(store, layout.head()..superblock.full_len(), progress)?;
    } else {
        // The state of a model mostly takes far less than its place.
        write_zeroes(store, layout.data() - BLOCK as u64..layout.data(), &mut |_| Ok(()))?;
    }
    if let Some(state) = layout.state() {
        StateLog::format(store, state, superblock.image())?;
    }
    let geometry = &superblock.geometry;
    let entry = |zone| ZoneEntry {
        slot: superblock.preallocated.then_some(zone),
        ..ZoneEntry::new(ZoneNo(zone), geometry)
    };
    let table = (0..geometry.zones).map(entry).collect();
    let mut journal = Journal::new(superblock, 0, 0, table);
    // Without it, damage to the root of generation 1 would leave none.
    journal.write_root(store)?;
    journal.checkpoint(store)?;
    if superblock.checksums {
        let mut regions = Regions::new(layout, superblock.image(), &RegionList::default());
        regions.write(store)?;
        regions.write(store)?;
    }
    if layout.has_sessions() {
        // Both blocks, each in its turn.
        let mut session = Session::default();
        session.write(store, &layout, superblock.image())?;
        session.write(store, &layout, superblock.image())?;
    }
    // Last: until then the file is not an image.
    let block = Buf::from(&superblock.encode()[..]);
    for copy in 0..2 {
        store.write(FileLayout::superblock(copy), &block)?;
    }
    store.sync()
}

/// Marks a new file as an image whose creation has not finished.
pub(super) fn mark_unfinished(store: &dyn ImageStore) -> io::Result<()> {
    store.write(FileLayout::superblock(0), &Buf::from(&Superblock::unfinished()[..]))
}

fn write_zeroes(
    store: &dyn ImageStore,
    range: Range<u64>,
    progress: &mut dyn FnMut(u64) -> io::Result<()>,
) -> io::Result<()> {
    let zeroes = Buf::zeroed(1 << 20);
    for at in range.clone().step_by(zeroes.len()) {
        let len =
            usize::try_from(range.end - at).map_or(zeroes.len(), |left| left.min(zeroes.len()));
        store.write(at, &zeroes[..len])?;
        progress(at - range.start + len as u64)?;
    }
    Ok(())
}

/// Rewrites the superblock if a copy is damaged.
///
/// # Errors
/// The errors of the file.
pub(super) fn repair_superblock(store: &dyn ImageStore, superblock: &Superblock) -> io::Result<()> {
    let block = Buf::from(&superblock.encode()[..]);
    for copy in 0..2 {
        // One at a time: a loss of power tears at most one of them.
        store.write(FileLayout::superblock(copy), &block)?;
        store.sync()?;
    }
    Ok(())
}
