//! Regions of conventional zones that are being overwritten.
//!
//! A block that is overwritten in place has its old data, its new ones, or a mixture after a loss of
//! power, and neither checksum need be right. So the region of a block is on a durable list before
//! the block is overwritten. Recovery computes the checksums of all regions of the list anew, which
//! is why damage to them is not found then. Before version 4 a region stays on the list until the list is full or
//! the image is closed.
//!
//! From version 4 on regions are small, and leave the list when a flush has made their data and checksums durable.
//! To be on the list again costs a sync, so both have bounds: each time that a region is added since they have
//! left, twice as many are that surround it, and regions leave only while that costs a sync in [`COST`] commands.
//!
//! There are two lists, each twice, written in turn: whatever writes are lost or torn, one of them is
//! that before or that after.
use super::block::{BLOCK, GENERATIONS, checksum, put, u32_at, u64_at};
use super::error::ImageError;
use super::geometry::ImageGeometry;
use super::store::{ImageStore, ReadAt};
use super::superblock::FileLayout;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use zonal_blk::{Buf, Sector, ZoneNo};

const MAGIC: &[u8; 4] = b"ZNLW";
const HEADER: usize = 64;
/// Sizes of an entry: a region, before version 4; as many regions from one on as it says.
const ENTRIES: [usize; 2] = [8, 12];
/// Most regions of an entry, and most that are added at the same time.
const MAX_REACH: u32 = 4096;
/// Regions leave the list once in this many commands that overwrite, and for some times without.
const COST: u32 = 256;
const CREDIT: u32 = 16 * COST;

/// A region: part of a conventional zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Region {
    /// The zone.
    pub zone: ZoneNo,
    /// Which of its regions.
    pub index: u32,
}

impl Region {
    /// Its sectors, as offsets in the zone.
    pub(super) fn sectors(self, layout: &FileLayout, geometry: &ImageGeometry) -> Range<Sector> {
        let len = layout.region_blocks() * layout.lba() / 512;
        let from = u64::from(self.index) * len;
        Sector(from)..Sector((from + len).min(geometry.zone_size.0))
    }

    /// The regions of a range of a zone.
    pub(super) fn of(zone: ZoneNo, range: &Range<Sector>, layout: &FileLayout) -> Vec<Region> {
        let len = layout.region_blocks() * layout.lba() / 512;
        let indices = range.start.0 / len..=(range.end.0 - 1) / len;
        let region =
            |index| Region { zone, index: u32::try_from(index).expect("a zone has up to 2^31") };
        indices.map(region).collect()
    }
}

/// The list in the file.
#[derive(Debug, Default)]
pub(super) struct RegionList {
    /// Its number; they alternate between two addresses.
    pub(super) number: u64,
    pub(super) regions: Vec<Region>,
    /// Copies that are damaged, by name and address.
    pub(super) damaged: Vec<(String, u64)>,
}

/// Successive regions as entries of a list: the first of each, and their number.
fn entries(regions: impl Iterator<Item = Region>, ranged: bool) -> Vec<(Region, u32)> {
    let mut entries: Vec<(Region, u32)> = Vec::new();
    for region in regions {
        match entries.last_mut() {
            Some((first, count))
                if ranged
                    && *count < MAX_REACH
                    && (first.zone, first.index + *count) == (region.zone, region.index) =>
            {
                *count += 1;
            }
            _ => entries.push((region, 1)),
        }
    }
    entries
}

fn encode(image: u64, number: u64, entries: &[(Region, u32)], ranged: bool) -> Buf {
    let mut both = Buf::zeroed(2 * BLOCK);
    let (block, copy) = both.split_at_mut(BLOCK);
    put(block, 0, MAGIC);
    put(block, 8, &image.to_le_bytes());
    put(block, 16, &number.to_le_bytes());
    let count = u32::try_from(entries.len()).expect("a list has up to 504 entries");
    put(block, 24, &count.to_le_bytes());
    let places = block[HEADER..].chunks_exact_mut(ENTRIES[usize::from(ranged)]);
    for ((first, count), to) in entries.iter().zip(places) {
        put(to, 0, &first.zone.0.to_le_bytes());
        put(to, 4, &first.index.to_le_bytes());
        if ranged {
            put(to, 8, &count.to_le_bytes());
        }
    }
    let crc = checksum(block, 4);
    put(block, 4, &crc.to_le_bytes());
    copy.copy_from_slice(block);
    both
}

/// Most entries of a list.
fn most(ranged: bool) -> usize {
    (BLOCK - HEADER) / ENTRIES[usize::from(ranged)]
}

/// The number of a list; `None` unless the checksum and the image are right, and the numbers possible.
fn number_of(block: &[u8], image: u64, ranged: bool) -> Option<u64> {
    let intact = block[..4] == *MAGIC
        && u32_at(block, 4) == checksum(block, 4)
        && u64_at(block, 8) == image
        && u64_at(block, 16) < GENERATIONS
        && u32_at(block, 24) as usize <= most(ranged);
    intact.then(|| u64_at(block, 16))
}

fn decode(
    block: &[u8],
    layout: &FileLayout,
    geometry: &ImageGeometry,
) -> Result<Vec<Region>, ImageError> {
    let count = u32_at(block, 24) as usize;
    let ranged = layout.has_sessions();
    let mut regions = Vec::new();
    let entries = block[HEADER..].chunks_exact(ENTRIES[usize::from(ranged)]).take(count);
    for (entry, at) in entries.enumerate() {
        let (zone, first) = (ZoneNo(u32_at(at, 0)), u32_at(at, 4));
        let count = if ranged { u32_at(at, 8) } else { 1 };
        let end = u64::from(first) + u64::from(count);
        let exist = zone.0 < geometry.conventional && end <= layout.regions();
        if !exist || !(1..=MAX_REACH).contains(&count) {
            return Err(ImageError::Region { entry });
        }
        regions.extend((first..first + count).map(|index| Region { zone, index }));
    }
    Ok(regions)
}

/// Reads the newest list.
///
/// # Errors
/// No copy of either list is intact.
pub(super) fn read_list(
    file: &dyn ReadAt,
    layout: &FileLayout,
    geometry: &ImageGeometry,
    image: u64,
) -> Result<RegionList, ImageError> {
    let mut blocks = Buf::zeroed(4 * BLOCK);
    file.read(layout.region_list(0), &mut blocks).map_err(ImageError::io("reading metadata"))?;
    let copies: Vec<&[u8]> = blocks.chunks(BLOCK).collect();
    let numbers = [0, 1, 2, 3].map(|copy: usize| {
        number_of(copies[copy], image, layout.has_sessions())
            .filter(|number| number % 2 == (copy / 2) as u64)
    });
    let newest = numbers.iter().enumerate().filter_map(|(at, number)| Some(((*number)?, at))).max();
    let Some((number, at)) = newest else {
        let first = layout.region_list(0);
        return Err(ImageError::Block {
            what: "the lists of regions that were being overwritten".to_owned(),
            first,
            second: first + 2 * BLOCK as u64,
            lost: "blocks that were being overwritten look like damaged ones".to_owned(),
        });
    };
    let regions = decode(copies[at], layout, geometry)?;
    let damaged =
        (0..2).map(|copy| at / 2 * 2 + copy).filter(|&copy| numbers[copy] != Some(number));
    let name = |copy: usize| {
        let at = layout.region_list(0) + (copy * BLOCK) as u64;
        (format!("list of overwritten regions, copy {}", copy % 2), at)
    };
    Ok(RegionList { number, regions, damaged: damaged.map(name).collect() })
}

/// A region on the list.
#[derive(Default)]
struct Listed {
    /// Commands in flight in it.
    in_flight: u32,
    /// None was since [`Regions::prepare_to_leave`].
    idle: bool,
}

/// The regions on the list, and which of them are being written now.
pub(super) struct Regions {
    layout: FileLayout,
    image: u64,
    number: u64,
    /// On the durable list.
    listed: BTreeMap<Region, Listed>,
    /// How many are added around the next one.
    reach: u32,
    /// For regions to leave the list.
    credit: u32,
    /// The newest list in the file may not be durable.
    unsynced: bool,
}

/// Whether a command may go ahead.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Begun {
    /// All of its regions are on the durable list.
    Yes,
    /// As many regions are being written as are allowed: it has to wait.
    Later,
}

impl Regions {
    pub(super) fn new(layout: FileLayout, image: u64, list: &RegionList) -> Self {
        let listed = list.regions.iter().map(|&region| (region, Listed::default())).collect();
        let number = list.number;
        Regions { layout, image, number, listed, reach: 1, credit: CREDIT, unsynced: false }
    }

    /// Puts regions that a command is about to overwrite on the durable list. If it is full, `settle`
    /// makes all data and checksums of completed commands durable, and only the regions of those in
    /// flight stay.
    ///
    /// # Errors
    /// The errors of the file; what is durable is then unknown.
    pub(super) fn begin(
        &mut self,
        store: &dyn ImageStore,
        regions: &[Region],
        settle: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<Begun> {
        self.credit = (self.credit + 1).min(4 * CREDIT);
        if !regions.iter().all(|region| self.listed.contains_key(region)) {
            let mut added = self.around(regions);
            if !self.has_room(&added) {
                settle()?;
                self.listed.retain(|_, region| region.in_flight > 0);
                added = regions.to_vec();
                if !self.has_room(&added) {
                    return Ok(Begun::Later);
                }
            }
            if std::mem::take(&mut self.unsynced) {
                // Otherwise a loss of power could take both lists.
                store.sync()?;
            }
            for region in added {
                self.listed.entry(region).or_default();
            }
            self.write(store)?;
        }
        for region in regions {
            let listed = self.listed.get_mut(region).expect("it was added");
            (listed.in_flight, listed.idle) = (listed.in_flight + 1, false);
        }
        Ok(Begun::Yes)
    }

    /// These regions and those around them that are added as well. Twice as many the next time.
    fn around(&mut self, regions: &[Region]) -> Vec<Region> {
        if !self.layout.has_sessions() {
            return regions.to_vec();
        }
        let reach = self.reach;
        let most =
            u32::try_from(self.layout.regions() / 64).unwrap_or(MAX_REACH).clamp(1, MAX_REACH);
        self.reach = (2 * reach).min(most);
        let end = u32::try_from(self.layout.regions()).unwrap_or(u32::MAX);
        let around = |region: &Region| {
            let (zone, first) = (region.zone, region.index / reach * reach);
            (first..(first + reach).min(end)).map(move |index| Region { zone, index })
        };
        regions.iter().flat_map(around).collect()
    }

    /// Whether the list has room for these as well.
    fn has_room(&self, added: &[Region]) -> bool {
        let ranged = self.layout.has_sessions();
        let all: BTreeSet<Region> = self.listed.keys().chain(added).copied().collect();
        entries(all.into_iter(), ranged).len() <= most(ranged)
    }

    /// Whether regions are to leave the list. Then all checksums are to be written, the file is to be synced, and
    /// then they [leave](Self::leave) it.
    pub(super) fn prepare_to_leave(&mut self) -> bool {
        if !self.layout.has_sessions() || self.credit < COST {
            return false;
        }
        let mut any = false;
        for region in self.listed.values_mut() {
            region.idle = region.in_flight == 0;
            any |= region.idle;
        }
        any
    }

    /// The regions that were not overwritten since [`Regions::prepare_to_leave`] leave the list: their data and
    /// checksums are durable, as is the list before.
    ///
    /// # Errors
    /// The errors of the file.
    pub(super) fn leave(&mut self, store: &dyn ImageStore) -> io::Result<()> {
        self.listed.retain(|_, region| !region.idle);
        (self.reach, self.credit) = (1, self.credit.saturating_sub(COST));
        // Not durable, it is as good as the list before.
        self.unsynced = true;
        self.put(store)
    }

    /// A command has overwritten its regions, and their checksums are set.
    pub(super) fn end(&mut self, regions: &[Region]) {
        for region in regions {
            let listed = self.listed.get_mut(region).expect("a region in use is on the list");
            listed.in_flight -= 1;
        }
    }

    /// Empties the list. The data and checksums of all regions must be durable, and no command in
    /// flight.
    ///
    /// # Errors
    /// The errors of the file.
    pub(super) fn clear(&mut self, store: &dyn ImageStore) -> io::Result<()> {
        if self.listed.is_empty() {
            return Ok(());
        }
        self.listed.clear();
        self.write(store)
    }

    /// Writes the list as it is now, and syncs the file.
    pub(super) fn write(&mut self, store: &dyn ImageStore) -> io::Result<()> {
        self.put(store)?;
        store.sync()
    }

    fn put(&mut self, store: &dyn ImageStore) -> io::Result<()> {
        self.number += 1;
        let ranged = self.layout.has_sessions();
        let entries = entries(self.listed.keys().copied(), ranged);
        let list = encode(self.image, self.number, &entries, ranged);
        store.write(self.layout.region_list(self.number), &list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::store::testing::Memory;
    use crate::image::{Profile, Superblock};
    use std::cell::Cell;

    fn superblock() -> Superblock {
        let geometry = ImageGeometry::simple(10, 10, Sector(64 * 1024));
        let superblock = Superblock::new([1; 16], geometry, Profile::Spec("null".to_owned()));
        Superblock { version: 3, ..superblock.unwrap() }
    }

    #[test]
    fn a_full_list_keeps_the_regions_of_commands_in_flight() {
        let (store, superblock) = (Memory::default(), superblock());
        let (layout, image) = (superblock.layout(), superblock.image());
        let mut regions = Regions::new(layout, image, &RegionList::default());
        let settled = Cell::new(0);
        let begin = |regions: &mut Regions, region| {
            let settle = || {
                settled.set(settled.get() + 1);
                Ok(())
            };
            regions.begin(&store, &[region], settle).unwrap()
        };
        for index in 0..504 {
            assert_eq!(begin(&mut regions, region(index)), Begun::Yes);
            if index >= 3 {
                regions.end(&[region(index)]);
            }
        }
        let syncs = || store.0.lock().unwrap().syncs;
        assert_eq!((syncs(), settled.get()), (504, 0));
        assert_eq!(begin(&mut regions, region(7)), Begun::Yes);
        assert_eq!(syncs(), 504, "a region on the list costs nothing");
        assert_eq!(begin(&mut regions, region(600)), Begun::Yes);
        assert_eq!(settled.get(), 1);
        let list = || read_list(&store, &layout, &superblock.geometry, image).unwrap();
        let left = [0, 1, 2, 7, 600].map(region);
        assert_eq!(list().regions, left);
        // A torn list: the one before it counts.
        let at = usize::try_from(layout.region_list(list().number)).unwrap();
        store.0.lock().unwrap().bytes[at..at + 2 * BLOCK].fill(1);
        assert_eq!(list().regions.len(), 504);
        for index in 8..507 {
            assert_eq!(begin(&mut regions, region(index)), Begun::Yes, "{index}");
        }
        assert_eq!(begin(&mut regions, region(599)), Begun::Later, "all are being written");
    }

    #[test]
    fn regions_that_do_not_exist_are_refused() {
        let (store, superblock) = (Memory::default(), superblock());
        let (layout, image) = (superblock.layout(), superblock.image());
        let read = |region: Region| {
            let list = encode(image, 2, &[(region, 1)], false);
            store.write(layout.region_list(2), &list).unwrap();
            read_list(&store, &layout, &superblock.geometry, image).map_err(|e| e.to_string())
        };
        assert_eq!(read(region(639)).unwrap().regions, [region(639)]);
        let expected =
            "list of overwritten regions: entry 0 is not a region of a conventional zone";
        for bad in [region(640), Region { zone: ZoneNo(0), index: 64 }] {
            assert_eq!(read(bad).unwrap_err(), expected);
        }
    }

    fn region(index: u32) -> Region {
        Region { zone: ZoneNo(index / 64), index: index % 64 }
    }

    #[test]
    fn a_list_is_read_as_it_was_written_and_any_other_bytes_are_no_list() {
        let regions: Vec<Region> = (0..504).map(region).collect();
        let both = encode(5, 9, &entries(regions.iter().copied(), false), false);
        assert!(both[..BLOCK] == both[BLOCK..]);
        let block = &both[..BLOCK];
        assert_eq!(number_of(block, 5, false), Some(9));
        assert_eq!(number_of(block, 6, false), None, "a list of another image");
        for at in [0, 5, 20, 24, 64, 4095] {
            let mut block = block.to_vec();
            block[at] ^= 1;
            assert_eq!(number_of(&block, 5, false), None, "byte {at}");
        }
        let last = encode(5, u64::MAX, &[], false);
        assert_eq!(number_of(&last[..BLOCK], 5, false), None, "no list can follow");
    }

    /// A device without zones, of this many regions.
    fn large(regions: u64) -> Superblock {
        let geometry = ImageGeometry::simple(1, 1, Sector(regions << 15));
        Superblock::new([1; 16], geometry, Profile::Spec("null".to_owned())).unwrap()
    }

    #[test]
    fn regions_leave_the_list_after_a_flush_unless_they_are_written_meanwhile() {
        let (store, superblock) = (Memory::default(), large(1 << 16));
        let (layout, image) = (superblock.layout(), superblock.image());
        let at = |index| Region { zone: ZoneNo(0), index };
        let mut regions = Regions::new(layout, image, &RegionList::default());
        regions.write(&store).unwrap();
        let list = || read_list(&store, &layout, &superblock.geometry, image).unwrap().regions;
        let begin = |regions: &mut Regions, index| {
            assert_eq!(regions.begin(&store, &[at(index)], || Ok(())).unwrap(), Begun::Yes);
        };
        let add = |regions: &mut Regions, index| {
            begin(regions, index);
            regions.end(&[at(index)]);
        };
        for index in [7, 70, 700] {
            add(&mut regions, index);
        }
        let around = |first, count| (first..first + count).map(at).collect::<Vec<Region>>();
        assert_eq!(list(), [around(7, 1), around(70, 2), around(700, 4)].concat());
        begin(&mut regions, 70);
        assert!(regions.prepare_to_leave());
        add(&mut regions, 7);
        regions.leave(&store).unwrap();
        assert_eq!(list(), [at(7), at(70)], "one was written, of the other a write is in flight");
        regions.end(&[at(70)]);
        let syncs = || store.0.lock().unwrap().syncs;
        let before = syncs();
        add(&mut regions, 9);
        assert_eq!((list(), syncs() - before), (vec![at(7), at(9), at(70)], 2));
    }

    #[test]
    fn writes_anywhere_cost_few_syncs_and_regions_that_leave_often_stay() {
        let (store, superblock) = (Memory::default(), large(1 << 16));
        let at = |index| Region { zone: ZoneNo(0), index };
        let mut regions =
            Regions::new(superblock.layout(), superblock.image(), &RegionList::default());
        for number in 0..100_000_u32 {
            let region = [at(number.wrapping_mul(0x9e37_79b9) >> 16)];
            assert_eq!(regions.begin(&store, &region, || Ok(())).unwrap(), Begun::Yes);
            regions.end(&region);
        }
        let syncs = || std::mem::take(&mut store.0.lock().unwrap().syncs);
        let all = syncs();
        assert!(all < 100, "{all} syncs");
        let mut left = 0;
        for number in 0..10_000 {
            let region = [at(number % 1000)];
            assert_eq!(regions.begin(&store, &region, || Ok(())).unwrap(), Begun::Yes);
            regions.end(&region);
            if regions.prepare_to_leave() {
                regions.leave(&store).unwrap();
                left += 1;
            }
        }
        assert!((64..110).contains(&left), "left {left} times");
    }
}
