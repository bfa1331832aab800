//! What an image holds, from what its file says after any loss of power.
//!
//! Takes a file and its superblock; gives the state of every zone. Keeps true: nothing is written;
//! what a completed flush covers is there, or the error says which block lost it.
//!
//! ```text
//!   roots --> the generation in force --> its zone table, or that of the next one if it is complete
//!                                             |
//!                                             v  batches of its log, in order
//!                                         the zones; the data of the last batch prove it, or not
//! ```
use super::block::{BLOCK, Header, Kind, decode_block, entries};
use super::entry::ZoneEntry;
use super::error::ImageError;
use super::file_layout::FileLayout;
use super::store::ReadAt;
use super::superblock::{ImageGeometry, Superblock};
use zonal_blk::{Buf, Sector, ZoneCondition};

/// Bytes that are read at a time to check data.
const PIECE: usize = 256 << 10;

/// What an image holds.
#[derive(Debug)]
pub struct Recovered {
    /// The generation in force.
    pub generation: u64,
    /// The newest generation that a root names; the one before, if the power went between.
    pub root: u64,
    /// The zones, in order.
    pub zones: Vec<ZoneEntry>,
    /// Whether the zone table says it all, so that the image was closed as it should be.
    pub clean: bool,
    /// Zones that the log speaks of.
    pub touched: Vec<u32>,
    /// Batches in the log.
    pub batches: u32,
    /// Zones of the last batch whose data did not get to the file before the power went.
    pub unverified: Vec<u32>,
    /// Copies of blocks that are damaged or old; their twins are whole. First their names, then
    /// where they are.
    pub damaged: Vec<(String, u64)>,
}

impl Recovered {
    /// Slots of the file that zones have.
    pub fn slots(&self) -> u32 {
        self.zones.iter().filter_map(|zone| zone.slot).map(|slot| slot + 1).max().unwrap_or(0)
    }
}

/// Reads the superblock.
///
/// # Errors
/// What is wrong with both copies. The newer version of one copy goes before the damage of the
/// other.
pub fn read_superblock(file: &dyn ReadAt) -> Result<(Superblock, Vec<(String, u64)>), ImageError> {
    let mut blocks = Buf::zeroed(2 * BLOCK);
    file.read(0, &mut blocks).map_err(ImageError::io("reading the superblock"))?;
    let (first, second) = blocks.split_at(BLOCK);
    let damaged = |copy| vec![(format!("superblock, copy {copy}"), FileLayout::superblock(copy))];
    match (Superblock::decode(first), Superblock::decode(second)) {
        (Ok(one), Ok(other)) if one == other => Ok((one, Vec::new())),
        (Ok(one), _) => Ok((one, damaged(1))),
        (Err(ImageError::NotAnImage | ImageError::Superblock), Ok(other)) => {
            Ok((other, damaged(0)))
        }
        (Err(ImageError::NotAnImage), Err(error)) => Err(error),
        (Err(error), _) => Err(error),
    }
}

struct Reader<'a> {
    file: &'a dyn ReadAt,
    geometry: &'a ImageGeometry,
    file_layout: FileLayout,
    image: u64,
    damaged: Vec<(String, u64)>,
}

/// A table as far as it is there.
struct Table {
    /// The newest generation that a block has.
    newest: u64,
    /// The first block that no copy has of that generation.
    missing: Option<u32>,
    zones: Vec<ZoneEntry>,
}

/// Finds out what an image holds.
///
/// # Errors
/// What is damaged beyond what a loss of power does.
pub fn recover(file: &dyn ReadAt, superblock: &Superblock) -> Result<Recovered, ImageError> {
    let place = FileLayout::new(superblock);
    let found = file.len().map_err(ImageError::io("reading the file's length"))?;
    if found < place.data() {
        let what = "the metadata".to_owned();
        return Err(ImageError::Truncated { found, expected: place.data(), what });
    }
    let image = superblock.image();
    let mut reader = Reader {
        file,
        geometry: &superblock.geometry,
        file_layout: place,
        image,
        damaged: Vec::new(),
    };
    let root = reader.root()?;
    let next = reader.next_table(root)?;
    let (generation, table) = match next {
        Some(table) => (root + 1, table),
        None => (root, reader.table_in_force(root)?),
    };
    let mut recovered = Recovered {
        generation,
        root,
        zones: table.zones,
        clean: generation == root,
        touched: Vec::new(),
        batches: 0,
        unverified: Vec::new(),
        damaged: Vec::new(),
    };
    reader.replay(&mut recovered)?;
    check_slots(&recovered, &place, found)?;
    recovered.damaged = reader.damaged;
    Ok(recovered)
}

impl Reader<'_> {
    fn read(&self, at: u64, blocks: usize) -> Result<Buf, ImageError> {
        let mut buf = Buf::zeroed(blocks * BLOCK);
        self.file.read(at, &mut buf).map_err(ImageError::io("reading metadata"))?;
        Ok(buf)
    }

    /// The newest generation that was put in force.
    fn root(&mut self) -> Result<u64, ImageError> {
        let blocks = self.read(FileLayout::root(0), 2)?;
        let generation = |parity: u64, block: &[u8]| {
            let header = decode_block(block, Kind::Root, self.image)?;
            (header.generation % 2 == parity).then_some(header.generation)
        };
        let (even, odd) = blocks.split_at(BLOCK);
        let found = [generation(0, even), generation(1, odd)];
        let newest = found.into_iter().flatten().max().ok_or_else(|| ImageError::Block {
            what: "the root".to_owned(),
            first: FileLayout::root(0),
            second: FileLayout::root(1),
            lost: "which zone table is in force cannot be told".to_owned(),
        })?;
        for (parity, root) in (0..).zip(found) {
            // A new image has generation 1 in both places but the first root of it.
            if root.is_none() && newest > 1 {
                self.damaged.push((
                    format!("root of generations {parity} mod 2"),
                    FileLayout::root(parity),
                ));
            }
        }
        Ok(newest)
    }

    /// The table of the generation after the root's, if all of it is there.
    fn next_table(&mut self, root: u64) -> Result<Option<Table>, ImageError> {
        let first = self.read(self.file_layout.table(root + 1, 0), 2)?;
        let begun = first.chunks_exact(BLOCK).any(|copy| {
            decode_block(copy, Kind::Table, self.image)
                .is_some_and(|header| header.generation == root + 1)
        });
        if !begun {
            return Ok(None);
        }
        let before = self.damaged.len();
        let table = self.table(root + 1)?;
        let complete = table.filter(|table| table.newest == root + 1 && table.missing.is_none());
        if complete.is_none() {
            // It was being written: that is no damage.
            self.damaged.truncate(before);
        }
        Ok(complete)
    }

    fn table_in_force(&mut self, root: u64) -> Result<Table, ImageError> {
        let table = self.table(root)?;
        let missing = match &table {
            Some(table) if table.newest == root => table.missing,
            _ => Some(0),
        };
        if let (Some(table), None) = (table, missing) {
            return Ok(table);
        }
        let index = missing.unwrap_or(0);
        let first = self.file_layout.table(root, index);
        Err(ImageError::Block {
            what: format!("zone table block {index} of generation {root}"),
            first,
            second: first + BLOCK as u64,
            lost: "the zones in it are lost".to_owned(),
        })
    }

    /// Reads the table in the place of a generation; `None` if there is none.
    fn table(&mut self, generation: u64) -> Result<Option<Table>, ImageError> {
        let blocks = self.file_layout.table_blocks();
        let bytes = self.read(self.file_layout.table(generation, 0), 2 * blocks as usize)?;
        let header = |index: u32, copy: usize| {
            let block = &bytes[(2 * index as usize + copy) * BLOCK..][..BLOCK];
            let header = decode_block(block, Kind::Table, self.image)?;
            (header.index == index).then_some((header, block))
        };
        let all = (0..blocks).flat_map(|index| [header(index, 0), header(index, 1)]);
        let Some(newest) = all.flatten().map(|(header, _)| header.generation).max() else {
            return Ok(None);
        };
        let mut zones = Vec::with_capacity(self.geometry.zones as usize);
        let mut missing = None;
        let mut damaged = Vec::new();
        for index in 0..blocks {
            let copies = [header(index, 0), header(index, 1)];
            let copies = copies.map(|copy| copy.filter(|(header, _)| header.generation == newest));
            for (copy, found) in (0..).zip(&copies) {
                if found.is_none() {
                    let at = self.file_layout.table(generation, index) + copy * BLOCK as u64;
                    damaged.push((format!("zone table block {index}, copy {copy}"), at));
                }
            }
            let Some((header, block)) = copies.into_iter().flatten().next() else {
                missing = missing.or(Some(index));
                continue;
            };
            self.decode(
                &header,
                block,
                |entry, zones: &mut Vec<ZoneEntry>| {
                    let expected = entry.zone.index() == zones.len() && entry.covered.is_none();
                    expected.then(|| zones.push(entry))
                },
                &mut zones,
            )
            .or_else(|error| if missing.is_some() { Ok(()) } else { Err(error) })?;
        }
        if missing.is_none() && zones.len() != self.geometry.zones as usize {
            return Err(ImageError::Entry {
                what: format!("zone table block {}", blocks - 1),
                entry: zones.len(),
            });
        }
        self.damaged.extend(damaged);
        Ok(Some(Table { newest, missing, zones }))
    }

    /// Shows the entries of a block to `take`, which gives `None` for one that cannot be there.
    fn decode(
        &self,
        header: &Header,
        block: &[u8],
        take: impl Fn(ZoneEntry, &mut Vec<ZoneEntry>) -> Option<()>,
        to: &mut Vec<ZoneEntry>,
    ) -> Result<(), ImageError> {
        for (number, bytes) in entries(block, header).enumerate() {
            let taken = ZoneEntry::decode(bytes, self.geometry).and_then(|entry| take(entry, to));
            taken.ok_or_else(|| {
                let kind = if header.kind == Kind::Log { "log" } else { "zone table" };
                ImageError::Entry { what: format!("{kind} block {}", header.index), entry: number }
            })?;
        }
        Ok(())
    }

    /// Does what the batches of the log say, in order.
    fn replay(&mut self, to: &mut Recovered) -> Result<(), ImageError> {
        let generation = to.generation;
        let count = self.file_layout.log_blocks();
        let bytes = self.read(self.file_layout.log(generation, 0), 2 * count as usize)?;
        let copies = |index: u32| {
            [0, 1].map(|copy| {
                let block = &bytes[(2 * index as usize + copy) * BLOCK..][..BLOCK];
                let header = decode_block(block, Kind::Log, self.image)?;
                (header.generation == generation && header.index == index)
                    .then_some((header, block))
            })
        };
        let whole = |index: u32| copies(index).into_iter().flatten().next();
        let (mut at, mut batch) = (0, 0);
        let mut last: Vec<ZoneEntry> = Vec::new();
        let mut damaged = Vec::new();
        while at < count {
            let parts =
                whole(at).filter(|(header, _)| header.part == 0).map_or(0, |(h, _)| h.parts);
            let fits = parts > 0 && parts <= count - at;
            let is_part = |part: u32| {
                whole(at + part).is_some_and(|(header, _)| {
                    header.batch == batch && header.part == part && header.parts == parts
                })
            };
            if !fits || !(0..parts).all(is_part) {
                break;
            }
            for entry in last.drain(..) {
                let index = entry.zone.index();
                to.zones[index] = ZoneEntry { covered: None, ..entry };
            }
            for index in at..at + parts {
                let (header, block) = whole(index).expect("it was found whole");
                let take = |entry, last: &mut Vec<ZoneEntry>| {
                    last.push(entry);
                    Some(())
                };
                self.decode(&header, block, take, &mut last)?;
                for (copy, found) in (0..).zip(copies(index)) {
                    if found.is_none() {
                        let at = self.file_layout.log(generation, index) + copy * BLOCK as u64;
                        damaged.push((format!("log block {index}, copy {copy}"), at));
                    }
                }
            }
            to.touched.extend(last.iter().map(|entry| entry.zone.0));
            at += parts;
            batch += 1;
        }
        // A batch is written when the one before is durable: what is behind a hole is of its batch.
        if let Some(later) =
            (at..count).find(|&index| whole(index).is_some_and(|(h, _)| h.batch != batch))
        {
            let first = self.file_layout.log(generation, at);
            return Err(ImageError::Block {
                what: format!("log block {at} of generation {generation}"),
                first,
                second: first + BLOCK as u64,
                lost: format!("block {later} shows that it was whole, and flushes since are lost"),
            });
        }
        to.batches = batch;
        // Of a batch that did not get there: the next one must not lie among its remains.
        to.clean &= batch == 0 && !(at..count).any(|index| whole(index).is_some());
        for entry in last {
            if verify_data(self.file, &self.file_layout, &entry)? {
                to.zones[entry.zone.index()] = ZoneEntry { covered: None, ..entry };
            } else {
                to.unverified.push(entry.zone.0);
            }
        }
        to.touched.sort_unstable();
        to.touched.dedup();
        self.damaged.extend(damaged);
        Ok(())
    }
}

/// Whether the data that an entry vouches for are there.
fn verify_data(
    file: &dyn ReadAt,
    place: &FileLayout,
    entry: &ZoneEntry,
) -> Result<bool, ImageError> {
    let (Some(covered), Some(slot)) = (entry.covered, entry.slot) else {
        return Ok(true);
    };
    let mut at = place.in_slot(slot, covered.from);
    let end = place.in_slot(slot, entry.written);
    let mut buf = Buf::zeroed(PIECE);
    let mut crc = 0;
    while at < end {
        let len = usize::try_from(end - at).map_or(PIECE, |left| left.min(PIECE));
        file.read(at, &mut buf[..len]).map_err(ImageError::io("reading data to check them"))?;
        crc = crc32c::crc32c_append(crc, &buf[..len]);
        at += len as u64;
    }
    Ok(crc == covered.crc)
}

/// Each zone has a slot of its own, and the file has their data.
fn check_slots(recovered: &Recovered, place: &FileLayout, found: u64) -> Result<(), ImageError> {
    let mut owners = vec![None; recovered.slots() as usize];
    for zone in &recovered.zones {
        let Some(slot) = zone.slot else { continue };
        if let Some(first) = owners[slot as usize].replace(zone.zone) {
            return Err(ImageError::SharedSlot { first, second: zone.zone, slot });
        }
        let expected = place.in_slot(slot, zone.written);
        if zone.written > Sector(0) && zone.cond != ZoneCondition::Offline && found < expected {
            let what = format!("the data of zone {}", zone.zone);
            return Err(ImageError::Truncated { found, expected, what });
        }
    }
    Ok(())
}
