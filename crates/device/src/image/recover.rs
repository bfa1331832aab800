//! Recovery: the state of every zone after a loss of power at any moment; and the check of an image.
//!
//! Nothing is written. Whatever a completed flush covers is there, or the error names the block that
//! lost it.
//!
//! ```text
//!   roots --> current generation --> its zone table, or the next one's if that is complete
//!                                         |
//!                                         v  batches of its log, in order
//!                                     the zones; entries of the last batch count if the checksums
//!                                     of their data are right
//! ```
use super::block::{BLOCK, BlockKind, Header, ZoneEntry, crc32c_append, decode_block, entries};
use super::ends::Ended;
use super::error::ImageError;
use super::geometry::ImageGeometry;
use super::kept::{Unusable, read_state};
use super::regions::{RegionList, read_list};
use super::session::Session;
use super::store::ReadAt;
use super::sums::{PIECE, Summer};
use super::superblock::{FileLayout, Superblock};
use std::collections::BTreeMap;
use std::ops::Range;
use zonal_blk::{Buf, Bytes, Sector, ZoneCondition, ZoneNo};

/// Most blocks of a log that losses of power make unreadable: those of a batch.
const TORN_BLOCKS: u32 = 32;

/// The recovered state of an image.
#[derive(Debug)]
pub struct Recovered {
    /// The current generation.
    pub generation: u64,
    /// The newest generation that a root names; the previous one if power was lost before its root was
    /// written.
    pub root: u64,
    /// The zones, in order.
    pub zones: Vec<ZoneEntry>,
    /// Whether the log is empty: the image was closed.
    pub clean: bool,
    /// Zones with entries in the log.
    pub touched: Vec<u32>,
    /// Batches in the log.
    pub batches: u32,
    /// Zones of the last batch whose data were not in the file yet when power was lost.
    pub unverified: Vec<u32>,
    /// Copies of blocks that are damaged or stale, by name and address; their twins are intact.
    pub damaged: Vec<(String, u64)>,
    /// Blocks of the log that have contents, and no copy that can be read.
    pub unreadable: u32,
    /// Data, as offsets in their zones, that entries of the log cover: they are verified, and the
    /// checksums of their blocks may not be in the file. Before version 3 those of the last batch.
    pub(super) covered: Vec<(ZoneNo, Range<Sector>)>,
    /// The same, of data that are not as they were when a flush made them durable.
    pub damaged_data: Vec<(ZoneNo, Range<Sector>)>,
    /// Regions that were being overwritten.
    pub(super) list: RegionList,
    /// The session of the image, from version 4 on.
    pub(super) session: Option<Session>,
    /// Data, as offsets in their zones, that were answered since the last flush, and are there.
    pub answered: Vec<(ZoneNo, Range<Sector>)>,
    /// Zones of which data that were answered are not there.
    pub missing: Vec<ZoneNo>,
    /// Zones that were open by a command.
    pub(super) explicit: Vec<ZoneNo>,
}

impl Recovered {
    /// Number of slots up to the last one in use.
    pub fn slots(&self) -> u32 {
        self.zones.iter().filter_map(|zone| zone.slot).map(|slot| slot + 1).max().unwrap_or(0)
    }
}

/// Reads the superblock.
///
/// # Errors
/// The error if both copies are unusable. An unsupported version in one takes precedence over damage of the
/// other.
pub fn read_superblock(file: &dyn ReadAt) -> Result<(Superblock, Vec<(String, u64)>), ImageError> {
    let mut blocks = Buf::zeroed(2 * BLOCK);
    file.read(0, &mut blocks).map_err(ImageError::io("reading the superblock"))?;
    let (first, second) = blocks.split_at(BLOCK);
    let damaged = |copy| vec![(format!("superblock, copy {copy}"), FileLayout::superblock(copy))];
    match (Superblock::decode(first), Superblock::decode(second)) {
        (Ok(one), Ok(other)) if one == other => Ok((one, Vec::new())),
        (Ok(one), _) => Ok((one, damaged(1))),
        (
            Err(ImageError::NotAnImage | ImageError::Unfinished | ImageError::Superblock),
            Ok(other),
        ) => Ok((other, damaged(0))),
        (Err(ImageError::NotAnImage), Err(error)) => Err(error),
        (Err(error), _) => Err(error),
    }
}

struct Reader<'a> {
    file: &'a dyn ReadAt,
    geometry: &'a ImageGeometry,
    layout: FileLayout,
    image: u64,
    checksums: bool,
    /// Whether the checksums of all data that the log covers may be missing.
    logs_cover_sums: bool,
    /// Whether both roots are written at creation.
    both_roots: bool,
    damaged: Vec<(String, u64)>,
}

/// A zone table, as far as it could be read.
struct Table {
    /// The newest generation of its blocks.
    newest: u64,
    /// The first block without a copy of that generation.
    missing: Option<u32>,
    zones: Vec<ZoneEntry>,
}

/// Recovers the state of an image.
///
/// # Errors
/// Damage beyond what a loss of power can do.
pub fn recover(file: &dyn ReadAt, superblock: &Superblock) -> Result<Recovered, ImageError> {
    let layout = superblock.layout();
    let found = file.len().map_err(ImageError::io("reading the file's length"))?;
    if found < layout.data() {
        let what = "the metadata".to_owned();
        return Err(ImageError::Truncated { found, expected: layout.data(), what });
    }
    let image = superblock.image();
    let geometry = &superblock.geometry;
    let mut reader = Reader {
        file,
        geometry,
        layout,
        image,
        checksums: superblock.checksums,
        logs_cover_sums: superblock.logs_cover_sums(),
        both_roots: superblock.version > 1,
        damaged: Vec::new(),
    };
    let root = reader.root()?;
    let next = reader.next_table(root)?;
    let (generation, table) = match next {
        Some(table) => (root + 1, table),
        None => (root, reader.current_table(root)?),
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
        unreadable: 0,
        covered: Vec::new(),
        damaged_data: Vec::new(),
        list: RegionList::default(),
        session: None,
        answered: Vec::new(),
        missing: Vec::new(),
        explicit: Vec::new(),
    };
    reader.replay(&mut recovered)?;
    reader.recover_session(superblock, &mut recovered, found)?;
    check_slots(&recovered, &layout, found)?;
    if superblock.checksums {
        recovered.list = read_list(file, &layout, geometry, image)?;
        reader.damaged.append(&mut recovered.list.damaged);
    }
    recovered.damaged = reader.damaged;
    Ok(recovered)
}

impl Reader<'_> {
    fn read(&self, at: u64, blocks: usize) -> Result<Buf, ImageError> {
        let mut buf = Buf::zeroed(blocks * BLOCK);
        self.file.read(at, &mut buf).map_err(ImageError::io("reading metadata"))?;
        Ok(buf)
    }

    /// How the session ended, and what it answered beyond the durable state. The file has `found` bytes.
    fn recover_session(
        &mut self,
        superblock: &Superblock,
        to: &mut Recovered,
        found: u64,
    ) -> Result<(), ImageError> {
        if !self.layout.has_sessions() {
            return Ok(());
        }
        let (session, mut damaged) = Session::read(self.file, &self.layout, self.image)?;
        let expected = session.len.min(self.layout.slot(to.slots()));
        if found < expected {
            return Err(truncated(to, &self.layout, found, expected));
        }
        self.damaged.append(&mut damaged);
        if session.open {
            to.clean = false;
            let Ended { answered, missing, explicit } =
                Ended::recover(self.file, superblock, session.history.cycles, &mut to.zones)?;
            to.touched.extend(answered.iter().map(|(zone, _)| zone.0));
            if self.checksums {
                to.covered.extend(answered.iter().cloned());
            }
            (to.answered, to.missing, to.explicit) = (answered, missing, explicit);
        }
        to.session = Some(session);
        Ok(())
    }

    /// The newest generation with a root.
    fn root(&mut self) -> Result<u64, ImageError> {
        let blocks = self.read(FileLayout::root(0), 2)?;
        let generation = |parity: u64, block: &[u8]| {
            let header = decode_block(block, BlockKind::Root, self.image)?;
            (header.generation % 2 == parity).then_some(header.generation)
        };
        let (even, odd) = blocks.split_at(BLOCK);
        let found = [generation(0, even), generation(1, odd)];
        let newest = found.into_iter().flatten().max().ok_or_else(|| ImageError::Block {
            what: "the root".to_owned(),
            first: FileLayout::root(0),
            second: FileLayout::root(1),
            lost: "it is unknown which zone table is current".to_owned(),
        })?;
        for (parity, root) in (0..).zip(found) {
            // A new image of version 1 has a root of generation 1 only.
            if root.is_none() && (newest > 1 || self.both_roots) {
                self.damaged.push((
                    format!("root of generations {parity} mod 2"),
                    FileLayout::root(parity),
                ));
            }
        }
        Ok(newest)
    }

    /// The table of the generation after the root's, if it is complete.
    fn next_table(&mut self, root: u64) -> Result<Option<Table>, ImageError> {
        let first = self.read(self.layout.table(root + 1, 0), 2)?;
        let begun = first.chunks_exact(BLOCK).any(|copy| {
            decode_block(copy, BlockKind::Table, self.image)
                .is_some_and(|header| header.generation == root + 1)
        });
        if !begun {
            return Ok(None);
        }
        let before = self.damaged.len();
        let table = self.table(root + 1)?;
        let complete = table.filter(|table| table.newest == root + 1 && table.missing.is_none());
        if complete.is_none() {
            // It was being written, which is not damage.
            self.damaged.truncate(before);
        }
        Ok(complete)
    }

    fn current_table(&mut self, root: u64) -> Result<Table, ImageError> {
        let table = self.table(root)?;
        let missing = match &table {
            Some(table) if table.newest == root => table.missing,
            _ => Some(0),
        };
        if let (Some(table), None) = (table, missing) {
            return Ok(table);
        }
        let index = missing.unwrap_or(0);
        let first = self.layout.table(root, index);
        Err(ImageError::Block {
            what: format!("zone table block {index} of generation {root}"),
            first,
            second: first + BLOCK as u64,
            lost: "the zones in it are lost".to_owned(),
        })
    }

    /// Reads the table at the address of a generation; `None` if there is none.
    fn table(&mut self, generation: u64) -> Result<Option<Table>, ImageError> {
        let blocks = self.layout.table_blocks();
        let bytes = self.read(self.layout.table(generation, 0), 2 * blocks as usize)?;
        let header = |index: u32, copy: usize| {
            let block = &bytes[(2 * index as usize + copy) * BLOCK..][..BLOCK];
            let header = decode_block(block, BlockKind::Table, self.image)?;
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
                    let at = self.layout.table(generation, index) + copy * BLOCK as u64;
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

    /// Passes the entries of a block to `take`, which returns `None` for an invalid one.
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
                let kind = if header.kind == BlockKind::Log { "log" } else { "zone table" };
                ImageError::Entry { what: format!("{kind} block {}", header.index), entry: number }
            })?;
        }
        Ok(())
    }

    /// Replays the batches of the log, in order.
    fn replay(&mut self, to: &mut Recovered) -> Result<(), ImageError> {
        let log = Log::read(self, to.generation)?;
        let (mut at, mut batch) = (0, 0);
        let mut last: Vec<ZoneEntry> = Vec::new();
        let mut damaged = Vec::new();
        let mut covered = Covered::default();
        while let Some(blocks) = log.batch_at(at, batch) {
            for entry in last.drain(..) {
                covered.note(&entry);
                to.zones[entry.zone.index()] = ZoneEntry { covered: None, ..entry };
            }
            for index in at..at + blocks {
                let (header, block) = log.intact(index).expect("the batch is complete");
                let take = |entry, last: &mut Vec<ZoneEntry>| {
                    last.push(entry);
                    Some(())
                };
                self.decode(&header, block, take, &mut last)?;
                for (copy, found) in (0..).zip(log.copies(index)) {
                    if found.is_none() {
                        let at = self.layout.log(to.generation, index) + copy * BLOCK as u64;
                        damaged.push((format!("log block {index}, copy {copy}"), at));
                    }
                }
            }
            to.touched.extend(last.iter().map(|entry| entry.zone.0));
            at += blocks;
            batch += 1;
        }
        self.check_log_end(&log, at, batch)?;
        to.batches = batch;
        // Remains of an incomplete batch: the next batch must not be written among them.
        to.clean &= batch == 0 && !(at..log.blocks).any(|index| log.intact(index).is_some());
        let unreadable = (0..log.blocks).filter(|&index| log.is_unreadable(index)).count();
        to.unreadable = u32::try_from(unreadable).expect("not more than there are blocks");
        if !self.logs_cover_sums {
            covered = Covered::default();
        }
        for entry in last {
            if self.verify_data(&entry)? {
                covered.end(&entry);
                let data = entry.covered.filter(|_| self.checksums);
                to.covered.extend(data.map(|data| (entry.zone, data.from..entry.written)));
                to.zones[entry.zone.index()] = ZoneEntry { covered: None, ..entry };
            } else {
                to.unverified.push(entry.zone.0);
            }
        }
        for entry in covered.0.into_values().flatten().filter(|_| self.checksums) {
            let data = entry.covered.expect("what was noted covers data");
            let list =
                if self.verify_data(&entry)? { &mut to.covered } else { &mut to.damaged_data };
            list.push((entry.zone, data.from..entry.written));
        }
        to.touched.sort_unstable();
        to.touched.dedup();
        self.damaged.extend(damaged);
        Ok(())
    }

    /// Checks that no block of a later batch follows the last complete one: a batch is written when
    /// the one before is durable, so whatever follows a hole is of the incomplete batch.
    fn check_log_end(&self, log: &Log, at: u32, batch: u32) -> Result<(), ImageError> {
        let is_later = |&index: &u32| log.intact(index).is_some_and(|(h, _)| h.batch != batch);
        let Some(later) = (at..log.blocks).find(is_later) else { return Ok(()) };
        let first = self.layout.log(log.generation, at);
        Err(ImageError::Block {
            what: format!("log block {at} of generation {}", log.generation),
            first,
            second: first + BLOCK as u64,
            lost: format!("block {later} shows that it was whole, and flushes since are lost"),
        })
    }

    /// Whether the data that an entry covers are in the file.
    fn verify_data(&self, entry: &ZoneEntry) -> Result<bool, ImageError> {
        let (Some(covered), Some(slot)) = (entry.covered, entry.slot) else {
            return Ok(true);
        };
        let mut at = self.layout.in_slot(slot, covered.from);
        let end = self.layout.in_slot(slot, entry.written);
        let mut buf = Buf::zeroed(PIECE);
        let summer = Summer::new(self.layout.lba());
        let (mut crc, mut sums) = (0, Vec::new());
        while at < end {
            let len = usize::try_from(end - at).map_or(PIECE, |left| left.min(PIECE));
            let data = &mut buf[..len];
            self.file.read(at, data).map_err(ImageError::io("reading data to verify them"))?;
            if self.checksums {
                sums.clear();
                summer.append(&mut sums, data);
            }
            crc = crc32c_append(crc, if self.checksums { &sums } else { data });
            at += len as u64;
        }
        Ok(crc == covered.crc)
    }
}

/// Entries of durable batches that cover data, by zone, in the order of the data.
#[derive(Default)]
struct Covered(BTreeMap<ZoneNo, Vec<ZoneEntry>>);

impl Covered {
    /// An entry is in effect.
    fn note(&mut self, entry: &ZoneEntry) {
        self.end(entry);
        if entry.covered.is_some() {
            self.0.entry(entry.zone).or_default().push(*entry);
        }
    }

    /// The data of a zone end where an entry says: those after belong to the time before a reset.
    fn end(&mut self, entry: &ZoneEntry) {
        let Some(before) = self.0.get_mut(&entry.zone) else { return };
        let end = entry.covered.map_or(entry.written, |data| data.from);
        while before.last().is_some_and(|last| last.written > end) {
            before.pop();
        }
    }
}

/// The log of one generation, both copies of each block.
struct Log {
    generation: u64,
    image: u64,
    blocks: u32,
    bytes: Buf,
}

impl Log {
    fn read(reader: &Reader<'_>, generation: u64) -> Result<Self, ImageError> {
        let blocks = reader.layout.log_blocks();
        let bytes = reader.read(reader.layout.log(generation, 0), 2 * blocks as usize)?;
        Ok(Log { generation, image: reader.image, blocks, bytes })
    }

    /// The two copies of a block, as far as they are intact.
    fn copies(&self, index: u32) -> [Option<(Header, &[u8])>; 2] {
        [0, 1].map(|copy| {
            let block = &self.bytes[(2 * index as usize + copy) * BLOCK..][..BLOCK];
            let header = decode_block(block, BlockKind::Log, self.image)?;
            (header.generation == self.generation && header.index == index)
                .then_some((header, block))
        })
    }

    /// Whether a block has contents and neither copy is a block of this image's log, of any
    /// generation.
    fn is_unreadable(&self, index: u32) -> bool {
        let both = &self.bytes[2 * index as usize * BLOCK..][..2 * BLOCK];
        let read = |copy| decode_block(copy, BlockKind::Log, self.image).is_some();
        !both.chunks_exact(BLOCK).any(read) && *both != [0; 2 * BLOCK]
    }

    /// An intact copy of a block.
    fn intact(&self, index: u32) -> Option<(Header, &[u8])> {
        self.copies(index).into_iter().flatten().next()
    }

    /// The number of blocks of batch `batch`, if it begins at block `at` and is complete.
    fn batch_at(&self, at: u32, batch: u32) -> Option<u32> {
        if at >= self.blocks {
            return None;
        }
        let (first, _) = self.intact(at).filter(|(header, _)| header.part == 0)?;
        let parts = first.parts;
        let is_part = |part: u32| {
            self.intact(at + part).is_some_and(|(header, _)| {
                header.batch == batch && header.part == part && header.parts == parts
            })
        };
        let fits = parts > 0 && parts <= self.blocks - at;
        (fits && (0..parts).all(is_part)).then_some(parts)
    }
}

/// Checks that no two zones share a slot, and that the file is long enough for their data.
fn check_slots(recovered: &Recovered, layout: &FileLayout, found: u64) -> Result<(), ImageError> {
    let mut owners = vec![None; recovered.slots() as usize];
    let mut longest = 0;
    for zone in &recovered.zones {
        let Some(slot) = zone.slot else { continue };
        if let Some(first) = owners[slot as usize].replace(zone.zone) {
            return Err(ImageError::SharedSlot { first, second: zone.zone, slot });
        }
        let expected = layout.in_slot(slot, zone.written);
        if zone.written > Sector(0) && zone.cond != ZoneCondition::Offline {
            longest = longest.max(expected);
        }
    }
    if found < longest { Err(truncated(recovered, layout, found, longest)) } else { Ok(()) }
}

/// The error of a file that is shorter than its data, with what is whole.
fn truncated(recovered: &Recovered, layout: &FileLayout, found: u64, expected: u64) -> ImageError {
    let (mut cut, mut whole, mut saved) = (Vec::new(), 0, 0);
    for zone in &recovered.zones {
        let Some(slot) = zone.slot else { continue };
        let conventional = zone.cond == ZoneCondition::NotWritePointer;
        let end = if conventional {
            layout.slot(slot + 1).min(expected)
        } else {
            layout.in_slot(slot, zone.written)
        };
        saved += end.min(found).saturating_sub(layout.slot_data(slot));
        if end > found { cut.push(zone.zone) } else { whole += 1 }
    }
    let others = match cut.len() {
        0 | 1 => String::new(),
        more => format!(" and {} others", more - 1),
    };
    let first = cut.first().map_or(0, |zone| zone.0);
    let what = format!(
        "the data of zone {first}{others}; whole zones with data: {whole}; data that are there: {saved} bytes"
    );
    ImageError::Truncated { found, expected, what }
}

/// A finding of [`check`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Normal after a loss of power; opening the image resolves it.
    Note(String),
    /// Damage without loss so far; `--repair` repairs it.
    Damage(String),
}

impl Finding {
    /// That of a damaged copy, by name and address.
    fn of_copy((what, at): &(String, u64)) -> Self {
        Finding::Damage(format!("{what} is damaged, at byte {at}; its twin is whole"))
    }
}

/// Checks all metadata of an image, and the data that the entries of the last batch cover.
///
/// # Errors
/// The damage that makes the image unusable.
pub fn check(file: &dyn ReadAt) -> Result<(Superblock, Recovered, Vec<Finding>), ImageError> {
    let (superblock, mut damaged) = read_superblock(file)?;
    let recovered = recover(file, &superblock)?;
    damaged.extend(recovered.damaged.iter().cloned());
    let mut findings: Vec<Finding> = damaged.iter().map(Finding::of_copy).collect();
    if !recovered.clean {
        findings.push(Finding::Note(format!(
            "the image was not closed: {} records of {} zones since the last zone table",
            recovered.batches,
            recovered.touched.len()
        )));
    }
    let answered: Sector = recovered
        .answered
        .iter()
        .fold(Sector(0), |all, (_, range)| all + (range.end - range.start));
    if answered > Sector(0) {
        findings.push(Finding::Note(format!(
            "{} bytes in {} zones were answered and not flushed: they are there",
            answered.to_bytes().0,
            recovered.answered.len()
        )));
    }
    findings.extend(recovered.missing.iter().map(|zone| {
        Finding::Note(format!(
            "zone {zone}: data that were answered and not flushed are lost: the power was"
        ))
    }));
    findings.extend(recovered.damaged_data.iter().map(|(zone, range)| {
        let start = u64::from(zone.0) * superblock.geometry.zone_size.0;
        let (first, last) = (start + range.start.0, start + range.end.0 - 1);
        Finding::Damage(format!(
            "zone {zone}: data of sectors {first} to {last} are not those that were flushed"
        ))
    }));
    findings.extend(unreadable_log(&recovered, superblock.log_blocks));
    findings.extend(check_state(file, &superblock)?);
    for zone in &recovered.unverified {
        findings.push(Finding::Note(format!(
            "zone {zone}: a flush was under way, its data are as before the flush"
        )));
    }
    let geometry = &superblock.geometry;
    let active = recovered.zones.iter().filter(|zone| zone.cond == ZoneCondition::Closed).count();
    if geometry.max_active > 0 && active > geometry.max_active as usize {
        findings.push(Finding::Note(format!(
            "{active} zones are active, and at most {} are to be: zones were being filled when \
             the power went",
            geometry.max_active
        )));
    }
    Ok((superblock, recovered, findings))
}

/// A notice about log blocks that could not be read: entries in them are not in effect.
fn unreadable_log(recovered: &Recovered, blocks: u32) -> Option<Finding> {
    let found = recovered.unreadable;
    let what = format!("log: {found} of {blocks} blocks cannot be read and were skipped");
    if found > TORN_BLOCKS {
        let lost = "flushes since the last zone table may be lost";
        return Some(Finding::Damage(format!("{what}; {lost}")));
    }
    let torn = "a flush was under way when the power was lost, or they are damaged";
    (found > 0).then(|| Finding::Note(format!("{what}: {torn}")))
}

/// Whether the state of the drive's model can be read.
fn check_state(file: &dyn ReadAt, superblock: &Superblock) -> Result<Vec<Finding>, ImageError> {
    let Some(layout) = superblock.layout().state() else { return Ok(Vec::new()) };
    let lost = "the drive begins anew without it; the data are not affected";
    match read_state(file, layout, superblock.image()) {
        Ok(found) => {
            let changes = "the state of the drive has changes in its log".to_owned();
            let changes = (!found.changes.is_empty()).then_some(Finding::Note(changes));
            Ok(found.damaged.iter().map(Finding::of_copy).chain(changes).collect())
        }
        Err(Unusable::Damaged(why, _)) => {
            Ok(vec![Finding::Damage(format!("the state of the drive is damaged: {why}; {lost}"))])
        }
        Err(Unusable::Error(error)) => Err(error),
    }
}

impl Recovered {
    /// The number of zones in each condition, and the bytes written.
    pub fn summary(&self) -> String {
        let mut parts: Vec<String> =
            self.conditions().map(|(name, count)| format!("{count} {name}")).collect();
        parts.push(format!("{} bytes written", self.written()));
        parts.join(", ")
    }

    /// The conditions that zones are in, and how many are.
    pub fn conditions(&self) -> impl Iterator<Item = (&'static str, usize)> {
        let count = |cond| self.zones.iter().filter(|zone| zone.cond == cond).count();
        let conditions = [
            (ZoneCondition::NotWritePointer, "conventional"),
            (ZoneCondition::Empty, "empty"),
            (ZoneCondition::Closed, "closed"),
            (ZoneCondition::Full, "full"),
            (ZoneCondition::ReadOnly, "read-only"),
            (ZoneCondition::Offline, "offline"),
        ];
        conditions
            .into_iter()
            .map(move |(cond, name)| (name, count(cond)))
            .filter(|(_, count)| *count > 0)
    }

    /// The bytes written to sequential zones, up to the write pointers.
    pub fn written(&self) -> Bytes {
        Sector(self.zones.iter().map(|zone| zone.written.0).sum()).to_bytes()
    }

    /// The last zone that holds data, or has a condition to keep.
    pub fn last_with_data(&self) -> Option<u32> {
        let holds = |zone: &ZoneEntry| match zone.cond {
            ZoneCondition::Empty => false,
            ZoneCondition::NotWritePointer => zone.slot.is_some(),
            _ => true,
        };
        self.zones.iter().rev().find(|zone| holds(zone)).map(|zone| zone.zone.0)
    }
}
