//! The state of a model that an image keeps beside the data: as a whole from time to time, and the
//! changes since in a log.
//!
//! ```text
//!   half 0    root, twice; map: the whole state; log: changes since
//!   half 1    the same, for odd generations
//! ```
//!
//! Invariants: the half of a generation stays as it is until the next one has its root; a block of the
//! log is written once in a generation. So a loss of power keeps all changes that were synced, and of those
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

fn encode(block: &mut [u8], id: Id, payload: &[u8]) {
    block.fill(0);
    put(block, 0, id.kind.magic());
    put(block, 8, &id.image.to_le_bytes());
    put(block, 16, &id.generation.to_le_bytes());
    put(block, 24, &id.index.to_le_bytes());
    let len = u32::try_from(payload.len()).expect("less than a block");
    put(block, 28, &len.to_le_bytes());
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
    let mut newest = None;
    for half in 0..2 {
        let mut copies = Buf::zeroed(ROOTS as usize * BLOCK);
        file.read(layout.root(half), &mut copies).map_err(Unusable::io)?;
        let roots = copies.chunks_exact(BLOCK).filter_map(|block| {
            let (generation, payload) = decode(block, Kind::Root, image, 0)?;
            (generation % 2 == half && payload.len() == 8).then(|| (generation, u64_at(payload, 0)))
        });
        newest = newest.max(roots.max());
    }
    // Beyond all generations of which there may be blocks.
    let none = || Unusable::Damaged("it has no root that can be read".to_owned(), GENERATIONS / 2);
    let (generation, len) = newest.ok_or_else(none)?;
    let damaged = |what: String| Unusable::Damaged(what, generation);
    let most = u64::from(layout.map_blocks) * PAYLOAD as u64;
    let len = usize::try_from(len).ok().filter(|&len| len as u64 <= most);
    let len = len.ok_or_else(|| damaged("its root names a map that is too long".to_owned()))?;
    let blocks = u32::try_from(len.div_ceil(PAYLOAD)).expect("no more than the map has");
    let at = layout.map(generation, 0);
    let read = |at, blocks, kind| read_blocks(file, at, blocks, (kind, image, generation));
    let (map, found) = read(at, blocks, Kind::Map).map_err(Unusable::io)?;
    if found < blocks || map.len() != len {
        let at = at + u64::from(found) * BLOCK as u64;
        return Err(damaged(format!("block {found} of its map is damaged, at byte {at}")));
    }
    let log = read(layout.log(generation, 0), layout.log_blocks(), Kind::Log);
    let (changes, blocks) = log.map_err(Unusable::io)?;
    Ok(FoundState { generation, map, changes, blocks })
}

/// The contents of blocks that follow each other, up to the first that is not whole, and their number.
fn read_blocks(
    file: &dyn ReadAt,
    at: u64,
    blocks: u32,
    (kind, image, generation): (Kind, u64, u64),
) -> io::Result<(Vec<u8>, u32)> {
    let mut contents = Vec::new();
    let mut buf = Buf::zeroed(AT_ONCE as usize * BLOCK);
    for first in (0..blocks).step_by(AT_ONCE as usize) {
        let piece = &mut buf[..AT_ONCE.min(blocks - first) as usize * BLOCK];
        file.read(at + u64::from(first) * BLOCK as u64, piece)?;
        for (index, block) in (first..).zip(piece.chunks_exact(BLOCK)) {
            match decode(block, kind, image, index) {
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
    /// The next block of the log.
    next: u32,
    changes: Vec<u8>,
}

impl StateLog {
    /// Writes the root of a new image, for a new model.
    pub(super) fn format(
        store: &dyn ImageStore,
        layout: StateLayout,
        image: u64,
    ) -> io::Result<()> {
        StateLog { layout, image, generation: 0, next: 0, changes: Vec::new() }.write_root(store, 0)
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
            StateLog { layout, image, generation, next, changes }
        };
        let (mut log, changed, damage) = match read_state(store, layout, image) {
            Ok(found) => match model.resume(&found.map, &found.changes) {
                Some(changed) => (log(found.generation, found.blocks), changed, None),
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
        if changed || log.next > 0 {
            log.save(store, model).map_err(ImageError::io("saving the state of the drive"))?;
        }
        Ok((log, damage))
    }

    /// Whether there are changes since the whole state was saved.
    pub(super) fn has_changes(&self) -> bool {
        self.next > 0
    }

    /// Writes the changes of the model, for the next sync. Returns whether there are any.
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
        write_blocks(store, at, id, &self.changes)?;
        self.next += u32::try_from(blocks).expect("no more than the log has");
        Ok(blocks > 0)
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
        write_blocks(store, self.layout.map(generation, 0), id, &map)?;
        store.sync()?;
        self.write_root(store, map.len() as u64)?;
        store.sync()?;
        self.next = 0;
        Ok(())
    }

    fn write_root(&self, store: &dyn ImageStore, len: u64) -> io::Result<()> {
        let (image, generation) = (self.image, self.generation);
        let id = Id { kind: Kind::Root, image, generation, index: 0 };
        let mut copies = Buf::zeroed(ROOTS as usize * BLOCK);
        copies.chunks_exact_mut(BLOCK).for_each(|block| encode(block, id, &len.to_le_bytes()));
        store.write(self.layout.root(generation), &copies)
    }
}

/// Writes blocks with these contents, the first of which is `first`.
fn write_blocks(store: &dyn ImageStore, at: u64, first: Id, contents: &[u8]) -> io::Result<()> {
    let mut at = at;
    let mut id = first;
    for piece in contents.chunks(AT_ONCE as usize * PAYLOAD) {
        let mut buf = Buf::zeroed(piece.len().div_ceil(PAYLOAD) * BLOCK);
        for (block, payload) in buf.chunks_exact_mut(BLOCK).zip(piece.chunks(PAYLOAD)) {
            encode(block, id, payload);
            id.index += 1;
        }
        store.write(at, &buf)?;
        at += buf.len() as u64;
    }
    Ok(())
}
