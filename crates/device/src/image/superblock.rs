//! The superblock, which says what the image is, and the layout of the file that follows from it.
//!
//! The superblock is written twice when the image is created, and never changes, so no loss of power
//! can tear both copies.
use super::block::{BLOCK, ENTRIES, checksum, put, u32_at, u64_at};
use super::error::ImageError;
use super::geometry::ImageGeometry;
use zonal_blk::Sector;

const MAGIC: &[u8; 8] = b"ZONALIMG";
/// The format version that is written, and the newest that can be read.
pub const VERSION: u32 = 1;
/// Offset of the profile in the superblock.
const PROFILE: usize = 160;
/// Longest profile, in bytes.
pub const MAX_PROFILE: usize = BLOCK - PROFILE;
/// Blocks of each copy of the log.
const LOG_BLOCKS: u32 = 128;
const MAX_LOG_BLOCKS: u32 = 1 << 16;

/// The device that the image emulates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Profile {
    /// A device spec.
    Spec(String),
    /// The text of a profile.
    Toml(String),
}

impl Profile {
    fn text(&self) -> &str {
        match self {
            Profile::Spec(text) | Profile::Toml(text) => text,
        }
    }
}

/// The contents of the superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// The UUID of the image (RFC 9562).
    pub uuid: [u8; 16],
    /// Its zones and limits.
    pub geometry: ImageGeometry,
    /// Blocks of each copy of the log.
    pub log_blocks: u32,
    /// The device that the image emulates.
    pub profile: Profile,
}

impl Superblock {
    /// The superblock of a new image.
    ///
    /// # Errors
    /// [`ImageError::Geometry`] if an image cannot have the geometry; [`ImageError::LongProfile`].
    pub fn new(
        uuid: [u8; 16],
        geometry: ImageGeometry,
        profile: Profile,
    ) -> Result<Self, ImageError> {
        geometry.check()?;
        let len = profile.text().len();
        if len > MAX_PROFILE {
            return Err(ImageError::LongProfile { len, max: MAX_PROFILE });
        }
        Ok(Superblock { uuid, geometry, log_blocks: LOG_BLOCKS, profile })
    }

    /// The number that identifies the image in its blocks.
    pub(super) fn image(&self) -> u64 {
        u64_at(&self.uuid, 0)
    }

    /// Where things are in the file.
    pub(super) fn layout(&self) -> FileLayout {
        FileLayout::new(&self.geometry, self.log_blocks)
    }

    /// Encodes the superblock.
    pub fn encode(&self) -> Vec<u8> {
        let mut block = vec![0; BLOCK];
        let (geometry, layout) = (&self.geometry, self.layout());
        put(&mut block, 0, MAGIC);
        put(&mut block, 8, &VERSION.to_le_bytes());
        put(&mut block, 16, &self.uuid);
        let numbers = [
            (32, geometry.zones),
            (36, geometry.conventional),
            (40, geometry.max_open),
            (44, geometry.max_active),
            (48, geometry.lba),
            (52, geometry.max_sectors),
            (56, geometry.append_max_sectors),
            (60, u32::from(geometry.nr_queues)),
            (64, u32::from(geometry.queue_depth)),
            (68, u32::from(geometry.rotational)),
            (72, self.log_blocks),
            (76, u32::from(matches!(self.profile, Profile::Toml(_)))),
            (80, u32::try_from(self.profile.text().len()).expect("a profile fits in a block")),
        ];
        for (at, number) in numbers {
            put(&mut block, at, &number.to_le_bytes());
        }
        let long = [
            (88, geometry.zone_size.0),
            (96, geometry.zone_capacity.0),
            (104, layout.data()),
            (112, layout.stride()),
        ];
        for (at, number) in long {
            put(&mut block, at, &number.to_le_bytes());
        }
        put(&mut block, PROFILE, self.profile.text().as_bytes());
        let crc = checksum(&block, 12);
        put(&mut block, 12, &crc.to_le_bytes());
        block
    }

    /// Decodes a superblock.
    ///
    /// # Errors
    /// [`ImageError::NotAnImage`] without the magic number; [`ImageError::Superblock`] if the
    /// checksum is wrong; [`ImageError::Version`]; [`ImageError::Geometry`] for invalid contents.
    pub fn decode(block: &[u8]) -> Result<Self, ImageError> {
        if block.len() < BLOCK || &block[..8] != MAGIC {
            return Err(ImageError::NotAnImage);
        }
        let block = &block[..BLOCK];
        if checksum(block, 12) != u32_at(block, 12) {
            return Err(ImageError::Superblock);
        }
        let version = u32_at(block, 8);
        if version != VERSION {
            return Err(ImageError::Version { found: version, expected: VERSION });
        }
        let odd = |what: &str| ImageError::Geometry(format!("{what} that makes no sense"));
        let short = |at: usize, what: &str| u16::try_from(u32_at(block, at)).map_err(|_| odd(what));
        let geometry = ImageGeometry {
            zones: u32_at(block, 32),
            conventional: u32_at(block, 36),
            zone_size: Sector(u64_at(block, 88)),
            zone_capacity: Sector(u64_at(block, 96)),
            max_open: u32_at(block, 40),
            max_active: u32_at(block, 44),
            lba: u32_at(block, 48),
            max_sectors: u32_at(block, 52),
            append_max_sectors: u32_at(block, 56),
            nr_queues: short(60, "a number of queues")?,
            queue_depth: short(64, "a queue depth")?,
            rotational: u32_at(block, 68) != 0,
        };
        geometry.check()?;
        let log_blocks = u32_at(block, 72);
        if !(1..=MAX_LOG_BLOCKS).contains(&log_blocks) {
            return Err(odd("a log length"));
        }
        let len = usize::try_from(u32_at(block, 80)).unwrap_or(usize::MAX);
        let text = block[PROFILE..].get(..len).and_then(|text| std::str::from_utf8(text).ok());
        let text = text.ok_or_else(|| odd("a profile"))?.to_owned();
        let profile = match u32_at(block, 76) {
            0 => Profile::Spec(text),
            1 => Profile::Toml(text),
            _ => return Err(odd("a profile")),
        };
        let uuid = block[16..32].try_into().expect("sixteen bytes");
        let superblock = Superblock { uuid, geometry, log_blocks, profile };
        let layout = superblock.layout();
        if u64_at(block, 104) != layout.data() || u64_at(block, 112) != layout.stride() {
            return Err(odd("a place of the data"));
        }
        Ok(superblock)
    }
}

const ROOTS: u64 = 2;
const HALVES: u64 = 4;
const MIB: u64 = 1 << 20;

/// Where things are in the file. All addresses are in bytes.
///
/// ```text
///  block 0, 1   superblock, twice
///        2, 3   roots, of even and of odd generations
///        4 ...  half 0: zone table, each block twice; log, each block twice
///               half 1: the same, for odd generations
///  1 MiB * n    slot 0, slot 1, ...: the data of the zones, in the order of their first writes
/// ```
#[derive(Clone, Copy, Debug)]
pub(super) struct FileLayout {
    table_blocks: u32,
    log_blocks: u32,
    stride: u64,
}

impl FileLayout {
    fn new(geometry: &ImageGeometry, log_blocks: u32) -> Self {
        let entries = u32::try_from(ENTRIES).expect("a block has 126 entries");
        FileLayout {
            table_blocks: geometry.zones.div_ceil(entries),
            log_blocks,
            stride: geometry.max_zone_data().0.next_multiple_of(BLOCK as u64),
        }
    }

    /// Blocks of a zone table.
    pub(super) fn table_blocks(&self) -> u32 {
        self.table_blocks
    }

    /// Blocks of a log.
    pub(super) fn log_blocks(&self) -> u32 {
        self.log_blocks
    }

    pub(super) fn superblock(copy: u64) -> u64 {
        copy * BLOCK as u64
    }

    /// The address of a generation's root.
    pub(super) fn root(generation: u64) -> u64 {
        (ROOTS + generation % 2) * BLOCK as u64
    }

    fn half_blocks(&self) -> u64 {
        2 * (u64::from(self.table_blocks) + u64::from(self.log_blocks))
    }

    /// The first copy of a table block of a generation; the second follows it.
    pub(super) fn table(&self, generation: u64, index: u32) -> u64 {
        let first = HALVES + generation % 2 * self.half_blocks();
        (first + 2 * u64::from(index)) * BLOCK as u64
    }

    /// The first copy of a log block of a generation; the second follows it.
    pub(super) fn log(&self, generation: u64, index: u32) -> u64 {
        self.table(generation, self.table_blocks + index)
    }

    /// The start of the data: slot 0.
    pub(super) fn data(&self) -> u64 {
        ((HALVES + 2 * self.half_blocks()) * BLOCK as u64).next_multiple_of(MIB)
    }

    /// Size of a slot.
    pub(super) fn stride(&self) -> u64 {
        self.stride
    }

    /// The start of a slot.
    pub(super) fn slot(&self, slot: u32) -> u64 {
        self.data() + u64::from(slot) * self.stride
    }

    /// The address at offset `at` of a slot.
    pub(super) fn in_slot(&self, slot: u32, at: Sector) -> u64 {
        self.slot(slot) + at.to_bytes().0
    }
}
