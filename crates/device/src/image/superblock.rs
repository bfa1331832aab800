//! The superblock, which says what the image is, and the layout of the file that follows from it.
//!
//! The superblock is written twice when the image is created, and never changes, so no loss of power
//! can tear both copies.
use super::block::{BLOCK, ENTRIES, checksum, put, u32_at, u64_at};
use super::error::ImageError;
use super::geometry::ImageGeometry;
use super::kept_layout::StateLayout;
use zonal_blk::{Sector, ZoneNo};

const MAGIC: &[u8; 8] = b"ZONALIMG";
/// The bytes that block 0 begins with until the image has been written.
const UNFINISHED: &[u8; 8] = b"ZONALNEW";
/// The format version that is written, and the newest that can be read. Version 1 has no features; in
/// versions 1 and 2 the checksums of data are in the file when a flush has completed; before version 4
/// there are no sessions, and the ends of zones do not survive the process.
pub const VERSION: u32 = 4;
/// Bits of the features: the blocks of data have checksums; the device has no zones; the image keeps the
/// state of the device's model.
const CHECKSUMS: u32 = 1;
const REGULAR: u32 = 2;
const STATE: u32 = 4;
/// Offset of the profile in the superblock.
const PROFILE: usize = 160;
/// Longest profile, in bytes.
pub const MAX_PROFILE: usize = BLOCK - PROFILE;
/// Blocks of each copy of the log.
const LOG_BLOCKS: u32 = 512;
/// The largest log that can be read: the log is read whole.
const MAX_LOG_BLOCKS: u32 = 1 << 12;

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

    /// The profile in one line: the spec, or that it is a TOML text.
    pub fn summary(&self) -> String {
        match self {
            Profile::Spec(text) => text.clone(),
            Profile::Toml(text) => format!("of {} lines, in TOML", text.lines().count()),
        }
    }

    /// The profile of the same device with another number of zones.
    #[must_use]
    pub fn with_zones(&self, zones: u32) -> Self {
        // The size of a device with zones stands for a number of them.
        let counts = |option: &str| {
            let name = option.split('=').next().unwrap_or_default().trim();
            matches!(name, "zones" | "size")
        };
        match self {
            Profile::Spec(text) => {
                let (device, options) = text.split_once(':').unwrap_or((text, ""));
                let options = options.split(',').filter(|it| !it.is_empty() && !counts(it));
                let count = format!("zones={zones}");
                let options: Vec<&str> = options.chain([count.as_str()]).collect();
                Profile::Spec(format!("{device}:{}", options.join(",")))
            }
            Profile::Toml(text) => {
                let lines = text.lines().filter(|line| !counts(line));
                let lines: String = lines.map(|line| format!("{line}\n")).collect();
                Profile::Toml(format!("zones = {zones}\n{lines}"))
            }
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
    /// The format version.
    pub version: u32,
    /// Whether each block of data has a checksum.
    pub checksums: bool,
    /// Whether each zone has its slot from the beginning, whose space was written when the image was
    /// created and is kept by resets.
    pub preallocated: bool,
    /// Blocks for the state of the device's model; 0 if it has none to keep.
    pub state_blocks: u32,
}

impl Superblock {
    /// The superblock of a new image, with checksums.
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
        let (version, log_blocks) = (VERSION, LOG_BLOCKS);
        Ok(Superblock {
            uuid,
            geometry,
            log_blocks,
            profile,
            version,
            checksums: true,
            preallocated: false,
            state_blocks: 0,
        })
    }

    /// The same for a device whose model has a state of up to `bytes` to keep.
    ///
    /// # Errors
    /// [`ImageError::Geometry`] if that is too much.
    pub fn with_state(self, bytes: u64) -> Result<Self, ImageError> {
        let state_blocks = StateLayout::map_blocks(bytes).ok_or_else(|| {
            ImageError::Geometry(format!("a model with a state of {bytes} bytes; expected less"))
        })?;
        Ok(Superblock { state_blocks, ..self })
    }

    /// How long the file of a preallocated image is, in bytes.
    pub fn full_len(&self) -> u64 {
        self.layout().slot(self.geometry.zones)
    }

    /// The number that identifies the image in its blocks.
    pub(super) fn image(&self) -> u64 {
        u64_at(&self.uuid, 0)
    }

    /// Whether recovery computes the checksums of all data that the log covers, so that a flush need not
    /// write them.
    pub(super) fn logs_cover_sums(&self) -> bool {
        self.version >= 3
    }

    /// Where things are in the file.
    pub(super) fn layout(&self) -> FileLayout {
        FileLayout::new(self)
    }

    fn features(&self) -> u32 {
        let bits = [
            (self.checksums, CHECKSUMS),
            (self.geometry.regular, REGULAR),
            (self.state_blocks > 0, STATE),
        ];
        bits.into_iter().filter(|(has, _)| *has).map(|(_, bit)| bit).sum()
    }

    /// Encodes the superblock.
    pub fn encode(&self) -> Vec<u8> {
        let mut block = vec![0; BLOCK];
        let (geometry, layout) = (&self.geometry, self.layout());
        put(&mut block, 0, MAGIC);
        put(&mut block, 8, &self.version.to_le_bytes());
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
            (84, self.features()),
            (120, u32::from(self.preallocated)),
            (124, self.state_blocks),
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

    /// The bytes in the place of a superblock while the image is being created.
    pub(super) fn unfinished() -> Vec<u8> {
        let mut block = vec![0; BLOCK];
        put(&mut block, 0, UNFINISHED);
        block
    }

    /// Decodes a superblock.
    ///
    /// # Errors
    /// [`ImageError::NotAnImage`] without the magic number; [`ImageError::Unfinished`];
    /// [`ImageError::Superblock`] if the checksum is wrong; [`ImageError::Version`];
    /// [`ImageError::Features`]; [`ImageError::Geometry`] for invalid contents.
    pub fn decode(block: &[u8]) -> Result<Self, ImageError> {
        if block.starts_with(UNFINISHED) {
            return Err(ImageError::Unfinished);
        }
        if block.len() < BLOCK || &block[..8] != MAGIC {
            return Err(ImageError::NotAnImage);
        }
        let block = &block[..BLOCK];
        if checksum(block, 12) != u32_at(block, 12) {
            return Err(ImageError::Superblock);
        }
        let version = u32_at(block, 8);
        if !(1..=VERSION).contains(&version) {
            return Err(ImageError::Version { found: version, expected: VERSION });
        }
        let features = if version == 1 { 0 } else { u32_at(block, 84) };
        let unknown = features & !(CHECKSUMS | REGULAR | STATE);
        if unknown != 0 {
            return Err(ImageError::Features { found: unknown });
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
            regular: features & REGULAR != 0,
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
        let checksums = features & CHECKSUMS != 0;
        let preallocated = u32_at(block, 120) != 0;
        let state_blocks = if features & STATE == 0 { 0 } else { u32_at(block, 124) };
        let superblock = Superblock {
            uuid,
            geometry,
            log_blocks,
            profile,
            version,
            checksums,
            preallocated,
            state_blocks,
        };
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
/// Blocks of the lists of regions: two lists, each twice.
const LIST_BLOCKS: u64 = 4;
/// Checksums in a block.
pub(super) const SUMS_PER_PAGE: u64 = (BLOCK / SUM_BYTES) as u64;
/// Size of a checksum.
pub(super) const SUM_BYTES: usize = 4;
/// Blocks that say what the session is: two, each twice.
const SESSION_BLOCKS: u64 = 4;
/// Size of the ends of a zone.
const ENDS_BYTES: usize = 64;
/// Most regions of a conventional zone, before version 4.
const MAX_REGIONS: u64 = 64;
/// Size of a region from version 4 on, in bytes, unless a zone had more of them than this.
const REGION: u64 = 16 << 20;
const MAX_SMALL_REGIONS: u64 = 1 << 31;

/// Where things are in the file. All addresses are in bytes.
///
/// ```text
///  block 0, 1   superblock, twice
///        2, 3   roots, of even and of odd generations
///        4 ...  half 0: zone table, each block twice; log, each block twice
///               half 1: the same, for odd generations
///               with checksums: two lists of regions, each block twice
///               from version 4 on: two blocks of sessions, each twice; ends of zones
///               with the state of a model: see `kept`
///  1 MiB * n    slot 0, slot 1, ...: the checksums of a zone's data, then the data; slots are in
///               the order of the zones' first writes
/// ```
#[derive(Clone, Copy, Debug)]
pub(super) struct FileLayout {
    table_blocks: u32,
    log_blocks: u32,
    stride: u64,
    lba: u64,
    /// Blocks of checksums in a slot; 0 without checksums.
    sum_pages: u64,
    /// Blocks for the state of a model; 0 if there is none.
    state_blocks: u32,
    /// Blocks of the ends of zones; `None` before version 4.
    end_blocks: Option<u64>,
}

impl FileLayout {
    fn new(superblock: &Superblock) -> Self {
        let &Superblock { ref geometry, log_blocks, checksums, state_blocks, .. } = superblock;
        let entries = u32::try_from(ENTRIES).expect("a block has 126 entries");
        let ends = u64::from(geometry.zones) * ENDS_BYTES as u64;
        let stride = geometry.max_zone_data().0.next_multiple_of(BLOCK as u64);
        let lba = u64::from(geometry.lba);
        FileLayout {
            table_blocks: geometry.zones.div_ceil(entries),
            log_blocks,
            stride,
            lba,
            sum_pages: if checksums { (stride / lba).div_ceil(SUMS_PER_PAGE) } else { 0 },
            state_blocks,
            end_blocks: (superblock.version >= 4).then(|| ends.div_ceil(BLOCK as u64)),
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

    /// The first copy of list number `list % 2` of regions; the second follows it.
    pub(super) fn region_list(&self, list: u64) -> u64 {
        (HALVES + 2 * self.half_blocks() + 2 * (list % 2)) * BLOCK as u64
    }

    fn after_lists(&self) -> u64 {
        let lists = if self.sum_pages > 0 { LIST_BLOCKS } else { 0 };
        (HALVES + 2 * self.half_blocks() + lists) * BLOCK as u64
    }

    /// Whether the image has sessions, and keeps the ends of zones.
    pub(super) fn has_sessions(&self) -> bool {
        self.end_blocks.is_some()
    }

    /// The first copy of session block `number % 2`; the second follows it.
    pub(super) fn session(&self, number: u64) -> u64 {
        self.after_lists() + 2 * (number % 2) * BLOCK as u64
    }

    /// The address and the length of the ends of all zones.
    pub(super) fn ends(&self) -> (u64, u64) {
        let at = self.after_lists() + SESSION_BLOCKS * BLOCK as u64;
        (at, self.end_blocks.unwrap_or(0) * BLOCK as u64)
    }

    /// Where the ends of a zone begin among those of all, in bytes.
    pub(super) fn ends_of(&self, zone: ZoneNo) -> usize {
        zone.index() * ENDS_BYTES
    }

    /// The end of what all images have before slot 0.
    pub(super) fn head(&self) -> u64 {
        let (ends, len) = self.ends();
        if self.has_sessions() { ends + len } else { self.after_lists() }
    }

    /// Where the state of a model is; `None` if the image keeps none.
    pub(super) fn state(&self) -> Option<StateLayout> {
        let map_blocks = self.state_blocks;
        let copies = if self.has_sessions() { 2 } else { 1 };
        (map_blocks > 0).then(|| StateLayout { at: self.head(), map_blocks, copies })
    }

    /// The start of slot 0.
    pub(super) fn data(&self) -> u64 {
        let state = self.state().map_or(0, |state| state.bytes());
        (self.head() + state).next_multiple_of(MIB)
    }

    /// Bytes of data in a slot.
    pub(super) fn stride(&self) -> u64 {
        self.stride
    }

    /// Bytes of checksums in a slot.
    pub(super) fn sums(&self) -> u64 {
        self.sum_pages * BLOCK as u64
    }

    /// Size of a slot.
    pub(super) fn slot_size(&self) -> u64 {
        self.sums() + self.stride
    }

    /// The start of a slot, with its checksums.
    pub(super) fn slot(&self, slot: u32) -> u64 {
        self.data() + u64::from(slot) * self.slot_size()
    }

    /// The start of the data in a slot.
    pub(super) fn slot_data(&self, slot: u32) -> u64 {
        self.slot(slot) + self.sums()
    }

    /// The address at offset `at` of the data in a slot.
    pub(super) fn in_slot(&self, slot: u32, at: Sector) -> u64 {
        self.slot_data(slot) + at.to_bytes().0
    }

    /// Slot and block in it of the data at an address.
    pub(super) fn block_at(&self, address: u64) -> (u32, u64) {
        let at = address - self.data();
        let slot = u32::try_from(at / self.slot_size()).expect("an image has up to 2^20 slots");
        (slot, (at % self.slot_size() - self.sums()) / self.lba)
    }

    /// The address of a page of checksums of a slot.
    pub(super) fn sum_page(&self, slot: u32, page: u64) -> u64 {
        self.slot(slot) + page * BLOCK as u64
    }

    /// Pages of checksums of a slot.
    pub(super) fn sum_pages(&self) -> u64 {
        self.sum_pages
    }

    /// Size of a logical block.
    pub(super) fn lba(&self) -> u64 {
        self.lba
    }

    /// Blocks of data in a region of a conventional zone.
    pub(super) fn region_blocks(&self) -> u64 {
        if !self.has_sessions() {
            return self.sum_pages.div_ceil(MAX_REGIONS) * SUMS_PER_PAGE;
        }
        let pages =
            (REGION / self.lba / SUMS_PER_PAGE).max(self.sum_pages.div_ceil(MAX_SMALL_REGIONS));
        pages * SUMS_PER_PAGE
    }

    /// Regions of a conventional zone.
    pub(super) fn regions(&self) -> u64 {
        (self.stride / self.lba).div_ceil(self.region_blocks())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_gets_another_number_of_zones_and_nothing_else() {
        let spec = |text: &str| Profile::Spec(text.to_owned());
        for (before, after) in [
            ("zns-1t", "zns-1t:zones=7"),
            ("zns-1t:zones=64,zone_size=16M", "zns-1t:zone_size=16M,zones=7"),
            ("smr-30t:size=10G", "smr-30t:zones=7"),
        ] {
            assert_eq!(spec(before).with_zones(7), spec(after));
        }
        let toml =
            Profile::Toml("device = \"zns-1t\"\nzones = 4\nzone_size = \"16M\"\n".to_owned());
        let text = "zones = 7\ndevice = \"zns-1t\"\nzone_size = \"16M\"\n";
        assert_eq!(toml.with_zones(7), Profile::Toml(text.to_owned()));
    }
}
