//! Regions of conventional zones that are being overwritten.
//!
//! A block that is overwritten in place has its old data, its new ones, or a mixture after a loss of
//! power, and neither checksum need be right. So the region of a block is on a durable list before
//! the block is overwritten. Recovery computes the checksums of all regions of the list anew, which
//! is why damage to them is not found then. A region stays on the list, and can be written without
//! further cost, until the list is full or the image is closed.
//!
//! There are two lists, each twice, written in turn: whatever writes are lost or torn, one of them is
//! that before or that after.
use super::block::{BLOCK, GENERATIONS, checksum, put, u32_at, u64_at};
use super::error::ImageError;
use super::geometry::ImageGeometry;
use super::store::{ImageStore, ReadAt};
use super::superblock::FileLayout;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use zonal_blk::{Buf, Sector, ZoneNo};

const MAGIC: &[u8; 4] = b"ZNLW";
const HEADER: usize = 64;
const ENTRY: usize = 8;
/// Most regions on a list.
const MAX: usize = (BLOCK - HEADER) / ENTRY;

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
        let region = |index| Region { zone, index: u32::try_from(index).expect("a zone has 64") };
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

fn encode(image: u64, number: u64, regions: impl ExactSizeIterator<Item = Region>) -> Buf {
    let mut both = Buf::zeroed(2 * BLOCK);
    let (block, copy) = both.split_at_mut(BLOCK);
    put(block, 0, MAGIC);
    put(block, 8, &image.to_le_bytes());
    put(block, 16, &number.to_le_bytes());
    let count = u32::try_from(regions.len()).expect("a list has up to 504 regions");
    put(block, 24, &count.to_le_bytes());
    for (region, to) in regions.zip(block[HEADER..].chunks_exact_mut(ENTRY)) {
        put(to, 0, &region.zone.0.to_le_bytes());
        put(to, 4, &region.index.to_le_bytes());
    }
    let crc = checksum(block, 4);
    put(block, 4, &crc.to_le_bytes());
    copy.copy_from_slice(block);
    both
}

/// The number of a list; `None` unless the checksum and the image are right, and the numbers possible.
fn number_of(block: &[u8], image: u64) -> Option<u64> {
    let intact = block[..4] == *MAGIC
        && u32_at(block, 4) == checksum(block, 4)
        && u64_at(block, 8) == image
        && u64_at(block, 16) < GENERATIONS
        && u32_at(block, 24) as usize <= MAX;
    intact.then(|| u64_at(block, 16))
}

fn decode(
    block: &[u8],
    layout: &FileLayout,
    geometry: &ImageGeometry,
) -> Result<Vec<Region>, ImageError> {
    let count = u32_at(block, 24) as usize;
    let entries = block[HEADER..].chunks_exact(ENTRY).take(count);
    let regions = entries.map(|at| Region { zone: ZoneNo(u32_at(at, 0)), index: u32_at(at, 4) });
    let regions: Vec<Region> = regions.collect();
    let exists = |region: &Region| {
        region.zone.0 < geometry.conventional && u64::from(region.index) < layout.regions()
    };
    match regions.iter().position(|region| !exists(region)) {
        Some(entry) => Err(ImageError::Region { entry }),
        None => Ok(regions),
    }
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
        number_of(copies[copy], image).filter(|number| number % 2 == (copy / 2) as u64)
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

/// The regions on the list, and which of them are being written now.
pub(super) struct Regions {
    layout: FileLayout,
    image: u64,
    number: u64,
    /// On the durable list, with the commands in flight in each.
    listed: BTreeMap<Region, u32>,
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
        let listed = list.regions.iter().map(|&region| (region, 0)).collect();
        Regions { layout, image, number: list.number, listed }
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
        let is_new = |listed: &BTreeMap<Region, u32>| {
            regions.iter().filter(|region| !listed.contains_key(region)).count()
        };
        let mut new = is_new(&self.listed);
        if self.listed.len() + new > MAX {
            settle()?;
            self.listed.retain(|_, in_flight| *in_flight > 0);
            new = is_new(&self.listed);
            if self.listed.len() + new > MAX {
                return Ok(Begun::Later);
            }
        }
        for region in regions {
            *self.listed.entry(*region).or_default() += 1;
        }
        if new > 0 {
            self.write(store)?;
        }
        Ok(Begun::Yes)
    }

    /// A command has overwritten its regions, and their checksums are set.
    pub(super) fn end(&mut self, regions: &[Region]) {
        for region in regions {
            let in_flight = self.listed.get_mut(region).expect("a region in use is on the list");
            *in_flight -= 1;
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
        self.number += 1;
        let list = encode(self.image, self.number, self.listed.keys().copied());
        store.write(self.layout.region_list(self.number), &list)?;
        store.sync()
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
        Superblock::new([1; 16], geometry, Profile::Spec("null".to_owned())).unwrap()
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
            let list = encode(image, 2, [region].into_iter());
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
        let both = encode(5, 9, regions.iter().copied());
        assert!(both[..BLOCK] == both[BLOCK..]);
        let block = &both[..BLOCK];
        assert_eq!(number_of(block, 5), Some(9));
        assert_eq!(number_of(block, 6), None, "a list of another image");
        for at in [0, 5, 20, 24, 64, 4095] {
            let mut block = block.to_vec();
            block[at] ^= 1;
            assert_eq!(number_of(&block, 5), None, "byte {at}");
        }
        let last = encode(5, u64::MAX, regions.iter().copied());
        assert_eq!(number_of(&last[..BLOCK], 5), None, "no list can follow");
    }
}
