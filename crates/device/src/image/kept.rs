//! The state of a model that an image keeps beside the data: as a whole from time to time, and the
//! changes since in a log.
//!
//! ```text
//!   half 0    root, twice; map: the whole state; log: changes since
//!   half 1    the same, for odd generations
//! ```
//!
//! Invariants: the half of a generation stays as it is until the next one has its root; a block of the
//! log is written once in a generation, and says how many before it were durable. So a loss of power keeps all changes that were synced, and of those
//! since a part from the first on. What of the data was written is not known here: the state says how the
//! drive works, not what it holds.
use super::block::{BLOCK, GENERATIONS, checksum, put, u32_at, u64_at};
use super::error::ImageError;
use super::kept_layout::{HEADER, PAYLOAD, ROOTS, StateLayout};
use super::store::{ImageStore, ReadAt};
use crate::control::KeptState;
use std::io;
use zonal_blk::Buf;

/// Blocks that are read or written at a time.
const AT_ONCE: u32 = 256;
/// Where a block of the log says how many were durable when it was written.
const SYNCED: usize = 32;

/// The kinds of blocks.
#[derive(Clone, Copy)]
enum Kind {
    /// The length of the map.
    Root,
    Map,
    Log,
}

impl Kind {
    fn magic(self) -> &'static [u8; 4] {
        match self {
            Kind::Root => b"ZNLH",
            Kind::Map => b"ZNLM",
            Kind::Log => b"ZNLO",
        }
    }
}

/// A block as it is identified: of which image and generation, and its number.
#[derive(Clone, Copy)]
struct Id {
    kind: Kind,
    image: u64,
    generation: u64,
    index: u32,
}

fn encode(block: &mut [u8], id: Id, synced: u32, payload: &[u8]) {
    block.fill(0);
    put(block, 0, id.kind.magic());
    put(block, 8, &id.image.to_le_bytes());
    put(block, 16, &id.generation.to_le_bytes());
    put(block, 24, &id.index.to_le_bytes());
    let len = u32::try_from(payload.len()).expect("less than a block");
    put(block, 28, &len.to_le_bytes());
    put(block, SYNCED, &synced.to_le_bytes());
    put(block, HEADER, payload);
    let crc = checksum(block, 4);
    put(block, 4, &crc.to_le_bytes());
}

/// The generation and the payload of a block; `None` unless it is whole and of this kind, image and
/// number.
fn decode(block: &[u8], kind: Kind, image: u64, index: u32) -> Option<(u64, &[u8])> {
    let whole = block[..4] == *kind.magic() && u32_at(block, 4) == checksum(block, 4);
    let generation = u64_at(block, 16);
    let fits = u64_at(block, 8) == image && u32_at(block, 24) == index && generation < GENERATIONS;
    let payload = block[HEADER..].get(..u32_at(block, 28) as usize)?;
    (whole && fits).then_some((generation, payload))
}

/// The state in a file.
pub(super) struct FoundState {
    generation: u64,
    map: Vec<u8>,
    pub(super) changes: Vec<u8>,
    /// Blocks of the log in use.
    blocks: u32,
    /// Copies of blocks that are damaged, by name and address; their twins are intact.
    pub(super) damaged: Vec<(String, u64)>,
}

/// Why a state cannot be used.
pub(super) enum Unusable {
    /// What is damaged, and the newest generation that can be found.
    Damaged(String, u64),
    Error(ImageError),
}

impl Unusable {
    fn io(error: io::Error) -> Self {
        Unusable::Error(ImageError::io("reading the state of the drive")(error))
    }
}

/// Reads the state in a file.
pub(super) fn read_state(
    file: &dyn ReadAt,
    layout: StateLayout,
    image: u64,
) -> Result<FoundState, Unusable> {
    let (newest, mut damaged_copies) = read_roots(file, layout, image)?;
    // Beyond all generations of which there may be blocks.
    let none = || Unusable::Damaged("it has no root that can be read".to_owned(), GENERATIONS / 2);
    let (generation, len) = newest.ok_or_else(none)?;
    let damaged = |what: String| Unusable::Damaged(what, generation);
    let most = u64::from(layout.map_blocks) * PAYLOAD as u64;
    let len = usize::try_from(len).ok().filter(|&len| len as u64 <= most);
    let len = len.ok_or_else(|| damaged("its root names a map that is too long".to_owned()))?;
    let blocks = u32::try_from(len.div_ceil(PAYLOAD)).expect("no more than the map has");
    let at = layout.map(generation, 0);
    let (map, found) = read_map(file, at, blocks, (image, generation)).map_err(Unusable::io)?;
    if found < blocks || map.len() != len {
        let at = at + u64::from(found) * BLOCK as u64;
        return Err(damaged(format!("block {found} of its map is damaged, at byte {at}")));
    }
    let mut log = FoundLog { image, generation, ..FoundLog::default() };
    log.read(file, layout).map_err(Unusable::io)?;
    if log.synced > log.blocks {
        let at = layout.log(generation, log.blocks);
        let what = format!("block {} of its log is damaged, at byte {at}", log.blocks);
        return Err(damaged(format!("{what}, and a later one shows that it was whole")));
    }
    // Beyond those that were synced, a copy that is missing may never have been written.
    let synced = log.damaged.into_iter().filter(|(index, _)| *index < log.synced);
    damaged_copies
        .extend(synced.map(|(index, at)| (format!("block {index} of the drive's log"), at)));
    let (changes, blocks) = (log.changes, log.blocks);
    Ok(FoundState { generation, map, changes, blocks, damaged: damaged_copies })
}

/// The newest root, which is a generation and the length of its map; and the copies of roots that are damaged.
#[expect(clippy::type_complexity, reason = "what was found, twice")]
fn read_roots(
    file: &dyn ReadAt,
    layout: StateLayout,
    image: u64,
) -> Result<(Option<(u64, u64)>, Vec<(String, u64)>), Unusable> {
    let (mut newest, mut damaged) = (None, Vec::new());
    for half in 0..2 {
        let mut copies = Buf::zeroed(ROOTS as usize * BLOCK);
        file.read(layout.root(half), &mut copies).map_err(Unusable::io)?;
        let root = |block: &[u8]| {
            let (generation, payload) = decode(block, Kind::Root, image, 0)?;
            let fits = generation % 2 == half && payload.len() == 8;
            fits.then(|| (generation, u64_at(payload, 0)))
        };
        let roots: Vec<Option<(u64, u64)>> = copies.chunks_exact(BLOCK).map(root).collect();
        // Without a twin it was never written, or was being written when the power was lost.
        let missing = roots.iter().position(Option::is_none);
        if let Some(copy) = missing.filter(|_| roots.iter().any(Option::is_some)) {
            let at = layout.root(half) + (copy * BLOCK) as u64;
            damaged.push((format!("root of the drive's state, copy {copy},"), at));
        }
        newest = newest.max(roots.into_iter().flatten().max());
    }
    Ok((newest, damaged))
}

/// A log in a file, as it is being read.
#[derive(Default)]
struct FoundLog {
    image: u64,
    generation: u64,
    /// The contents of the blocks up to the first of which no copy is whole, and their number.
    changes: Vec<u8>,
    blocks: u32,
    /// How many blocks were durable, as far as others say.
    synced: u32,
    /// Copies that are not whole, by the number of their block and the address.
    damaged: Vec<(u32, u64)>,
}

impl FoundLog {
    /// Reads on to the end of the piece in which the first block is not whole. If that has contents and is no
    /// block of any log, which a loss of power seldom leaves, to the end of the log.
    fn read(&mut self, file: &dyn ReadAt, layout: StateLayout) -> io::Result<()> {
        let block_len = layout.copies as usize * BLOCK;
        let mut buf = Buf::zeroed(AT_ONCE as usize * block_len);
        for first in (0..layout.log_blocks()).step_by(AT_ONCE as usize) {
            let at = layout.log(self.generation, first);
            let piece = &mut buf[..AT_ONCE.min(layout.log_blocks() - first) as usize * block_len];
            file.read(at, piece)?;
            for (index, copies) in (first..).zip(piece.chunks_exact(block_len)) {
                self.take(index, layout.log(self.generation, index), copies);
            }
            let end = self.blocks.checked_sub(first).map(|index| index as usize * block_len);
            let Some(copies) = end.and_then(|at| piece.get(at..at + block_len)) else { continue };
            let is_block = |block| decode(block, Kind::Log, self.image, self.blocks).is_some();
            let has_contents = copies.iter().any(|&byte| byte != 0);
            if !has_contents || copies.chunks_exact(BLOCK).any(is_block) {
                break;
            }
        }
        Ok(())
    }

    /// Notes block `index`, whose copies begin at byte `at`.
    fn take(&mut self, index: u32, at: u64, copies: &[u8]) {
        let mut found = None;
        for (copy, block) in (0_u64..).zip(copies.chunks_exact(BLOCK)) {
            match decode(block, Kind::Log, self.image, index) {
                Some((of, payload)) if of == self.generation => {
                    found = found.or(Some((block, payload)));
                }
                _ => self.damaged.push((index, at + copy * BLOCK as u64)),
            }
        }
        let Some((block, payload)) = found else { return };
        self.synced = self.synced.max(u32_at(block, SYNCED));
        if index == self.blocks {
            self.changes.extend_from_slice(payload);
            self.blocks += 1;
        }
    }
}

/// The contents of the blocks of a map, up to the first that is not whole, and their number.
fn read_map(
    file: &dyn ReadAt,
    at: u64,
    blocks: u32,
    (image, generation): (u64, u64),
) -> io::Result<(Vec<u8>, u32)> {
    let mut contents = Vec::new();
    let mut buf = Buf::zeroed(AT_ONCE as usize * BLOCK);
    for first in (0..blocks).step_by(AT_ONCE as usize) {
        let piece = &mut buf[..AT_ONCE.min(blocks - first) as usize * BLOCK];
        file.read(at + u64::from(first) * BLOCK as u64, piece)?;
        for (index, block) in (first..).zip(piece.chunks_exact(BLOCK)) {
            match decode(block, Kind::Map, image, index) {
                Some((of, payload)) if of == generation => contents.extend(payload),
                _ => return Ok((contents, index)),
            }
        }
    }
    Ok((contents, blocks))
}

/// Writes the state of a model.
pub(super) struct StateLog {
    layout: StateLayout,
    image: u64,
    generation: u64,
    /// The next block of the log, and the first that is not durable.
    next: u32,
    synced: u32,
    changes: Vec<u8>,
}

impl StateLog {
    /// Writes the root of a new image, for a new model.
    pub(super) fn format(
        store: &dyn ImageStore,
        layout: StateLayout,
        image: u64,
    ) -> io::Result<()> {
        let changes = Vec::new();
        StateLog { layout, image, generation: 0, next: 0, synced: 0, changes }.write_root(store, 0)
    }

    /// Has a new model go on from the state in the file. A state that cannot be used is left, and the model
    /// begins anew; then the second value says why.
    ///
    /// # Errors
    /// The errors of the file.
    pub(super) fn open(
        store: &dyn ImageStore,
        layout: StateLayout,
        image: u64,
        model: &dyn KeptState,
    ) -> Result<(Self, Option<String>), ImageError> {
        let log = |generation, next| {
            let changes = Vec::new();
            StateLog { layout, image, generation, next, synced: 0, changes }
        };
        let mut copies_damaged = false;
        let (mut log, changed, damage) = match read_state(store, layout, image) {
            Ok(found) => match model.resume(&found.map, &found.changes) {
                Some(changed) => {
                    copies_damaged = !found.damaged.is_empty();
                    (log(found.generation, found.blocks), changed, None)
                }
                None => {
                    let why = "it is not one of this drive".to_owned();
                    (log(found.generation, 0), true, Some(why))
                }
            },
            Err(Unusable::Damaged(why, generation)) => (log(generation, 0), true, Some(why)),
            Err(Unusable::Error(error)) => return Err(error),
        };
        if damage.is_some() {
            model.resume(&[], &[]);
        }
        // Blocks of the log that were not synced may be anywhere after the last whole one, so it is not
        // continued.
        // With a damaged copy a second time, into its half.
        let saves = if copies_damaged { 2 } else { u32::from(changed || log.next > 0) };
        for _ in 0..saves {
            log.save(store, model).map_err(ImageError::io("saving the state of the drive"))?;
        }
        Ok((log, damage))
    }

    /// Whether there are changes since the whole state was saved.
    pub(super) fn has_changes(&self) -> bool {
        self.next > 0
    }

    /// What was written is durable.
    pub(super) fn note_sync(&mut self) {
        self.synced = self.next;
    }

    /// Writes the changes of the model, for the next sync. Returns whether that has something to do.
    pub(super) fn write_changes(
        &mut self,
        store: &dyn ImageStore,
        model: &dyn KeptState,
    ) -> io::Result<bool> {
        self.changes.clear();
        model.take_changes(&mut self.changes);
        let blocks = self.changes.len().div_ceil(PAYLOAD);
        if blocks as u64 > u64::from(self.layout.log_blocks() - self.next) {
            self.save(store, model)?;
            return Ok(true);
        }
        let at = self.layout.log(self.generation, self.next);
        let id = Id {
            kind: Kind::Log,
            image: self.image,
            generation: self.generation,
            index: self.next,
        };
        let synced = if self.layout.copies == 1 { 0 } else { self.synced };
        write_blocks(store, at, id, &self.changes, (self.layout.copies, synced))?;
        self.next += u32::try_from(blocks).expect("no more than the log has");
        Ok(self.next > self.synced)
    }

    /// Saves the whole state, durably, and begins a new log.
    pub(super) fn save(&mut self, store: &dyn ImageStore, model: &dyn KeptState) -> io::Result<()> {
        let map = model.save();
        if map.len() > self.layout.map_blocks as usize * PAYLOAD {
            return Err(io::Error::other("the state of the drive is longer than its place"));
        }
        self.generation += 1;
        let (image, generation) = (self.image, self.generation);
        let id = Id { kind: Kind::Map, image, generation, index: 0 };
        write_blocks(store, self.layout.map(generation, 0), id, &map, (1, 0))?;
        store.sync()?;
        self.write_root(store, map.len() as u64)?;
        store.sync()?;
        (self.next, self.synced) = (0, 0);
        Ok(())
    }

    fn write_root(&self, store: &dyn ImageStore, len: u64) -> io::Result<()> {
        let (image, generation) = (self.image, self.generation);
        let id = Id { kind: Kind::Root, image, generation, index: 0 };
        let mut copies = Buf::zeroed(ROOTS as usize * BLOCK);
        copies.chunks_exact_mut(BLOCK).for_each(|block| encode(block, id, 0, &len.to_le_bytes()));
        store.write(self.layout.root(generation), &copies)
    }
}

/// Writes blocks with these contents, the first of which is `first`, in as many copies each, which say how many
/// blocks before them were durable.
fn write_blocks(
    store: &dyn ImageStore,
    at: u64,
    first: Id,
    contents: &[u8],
    (copies, synced): (u32, u32),
) -> io::Result<()> {
    let mut at = at;
    let mut id = first;
    let block_len = copies as usize * BLOCK;
    for piece in contents.chunks(AT_ONCE as usize * PAYLOAD) {
        let mut buf = Buf::zeroed(piece.len().div_ceil(PAYLOAD) * block_len);
        for (blocks, payload) in buf.chunks_exact_mut(block_len).zip(piece.chunks(PAYLOAD)) {
            let (block, others) = blocks.split_at_mut(BLOCK);
            encode(block, id, synced, payload);
            others.chunks_exact_mut(BLOCK).for_each(|other| other.copy_from_slice(block));
            id.index += 1;
        }
        store.write(at, &buf)?;
        at += buf.len() as u64;
    }
    Ok(())
}
