//! The superblock: what an image is, once and for all.
//!
//! Takes a geometry and a profile; gives a block, and back. Keeps true: it is written when the image
//! is made and never again, twice, so no loss of power can tear it; whatever it says makes sense.
use super::block::{BLOCK, checksum, put, u32_at, u64_at};
use super::error::ImageError;
use super::file_layout::FileLayout;
use crate::quantity::format_size;
use crate::zones::ZoneLayout;
use zonal_blk::{Bytes, Limits, Sector, Zone, ZoneKind};

const MAGIC: &[u8; 8] = b"ZONALIMG";
/// The format that is written, and the newest that can be read.
pub const VERSION: u32 = 1;
/// Where the profile begins in the superblock.
const PROFILE: usize = 160;
/// The longest profile, in bytes.
pub const MAX_PROFILE: usize = BLOCK - PROFILE;
/// The most zones of an image.
pub const MAX_ZONES: u32 = 1 << 20;
/// Blocks of each copy of the log.
const LOG_BLOCKS: u32 = 128;
const MAX_LOG_BLOCKS: u32 = 1 << 16;

/// How a device with zones is laid out, and what it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageGeometry {
    /// Number of zones.
    pub zones: u32,
    /// Leading zones that are conventional.
    pub conventional: u32,
    /// Distance between zone starts.
    pub zone_size: Sector,
    /// Writable sectors of a sequential zone.
    pub zone_capacity: Sector,
    /// Zones that may be open at once; 0 for no limit.
    pub max_open: u32,
    /// Zones that may be active at once; 0 for no limit.
    pub max_active: u32,
    /// Logical block size in bytes.
    pub lba: u32,
    /// Longest command in sectors.
    pub max_sectors: u32,
    /// Longest native zone append in sectors; 0 for none.
    pub append_max_sectors: u32,
    /// Hardware queues.
    pub nr_queues: u16,
    /// Commands in flight on one hardware queue.
    pub queue_depth: u16,
    /// Whether seeks cost time on the device that it stands for.
    pub rotational: bool,
}

impl ImageGeometry {
    /// The geometry of a device, by its limits and zones.
    ///
    /// # Errors
    /// [`ImageError::Geometry`] for a device that no image can have the geometry of.
    pub fn of(limits: &Limits, zones: &[Zone]) -> Result<Self, ImageError> {
        let bad = |what: &str| ImageError::Geometry(what.to_owned());
        if limits.nr_zones == 0 || zones.len() != limits.nr_zones as usize {
            return Err(bad("a device without zones; expected one with zones"));
        }
        let sequential = |zone: &&Zone| zone.kind == ZoneKind::SequentialRequired;
        let conventional = zones.iter().position(|zone| sequential(&zone)).unwrap_or(zones.len());
        let zone_capacity = zones.get(conventional).map_or(limits.zone_size, |zone| zone.capacity);
        let uniform = |zone: &Zone| sequential(&zone) && zone.capacity == zone_capacity;
        if !zones[conventional..].iter().all(uniform) {
            return Err(bad("zones that differ; expected conventional zones only in front"));
        }
        let geometry = ImageGeometry {
            zones: limits.nr_zones,
            conventional: u32::try_from(conventional).unwrap_or(limits.nr_zones),
            zone_size: limits.zone_size,
            zone_capacity,
            max_open: limits.max_open_zones,
            max_active: limits.max_active_zones,
            lba: limits.lba_size,
            max_sectors: limits.max_sectors,
            append_max_sectors: limits.append_max_sectors,
            nr_queues: limits.nr_queues,
            queue_depth: limits.queue_depth,
            rotational: limits.rotational,
        };
        geometry.check()?;
        Ok(geometry)
    }

    /// Checks that it makes sense.
    fn check(&self) -> Result<(), ImageError> {
        let lbas = |length: u64| length > 0 && length.is_multiple_of(u64::from(self.lba) / 512);
        let rules = [
            (matches!(self.lba, 512 | 4096), "blocks of 512 or 4096 bytes"),
            ((1..=MAX_ZONES).contains(&self.zones), "from 1 to 1048576 zones"),
            (self.conventional <= self.zones, "no more conventional zones than zones"),
            (
                matches!(self.lba, 512 | 4096) && lbas(self.zone_size.0),
                "a zone size in whole blocks",
            ),
            (
                matches!(self.lba, 512 | 4096) && lbas(self.zone_capacity.0),
                "a zone capacity in whole blocks",
            ),
            (self.zone_capacity <= self.zone_size, "a zone capacity up to the zone size"),
            (
                u64::from(self.zones).checked_mul(self.zone_size.0).is_some_and(|n| n < 1 << 52),
                "less than 2 EiB",
            ),
            (
                (1..=1 << 21).contains(&self.max_sectors) && lbas(self.max_sectors.into()),
                "commands of at most 1 GiB, in whole blocks",
            ),
            (self.append_max_sectors <= self.max_sectors, "appends no longer than commands"),
            (self.nr_queues > 0 && self.queue_depth > 0, "hardware queues with commands"),
        ];
        match rules.into_iter().find(|(holds, _)| !holds) {
            Some((_, expected)) => {
                Err(ImageError::Geometry(format!("{}; expected {expected}", self.summary())))
            }
            None => Ok(()),
        }
    }

    /// The most important numbers, for people.
    pub fn summary(&self) -> String {
        let size = |sectors: Sector| match sectors.0.checked_mul(512) {
            Some(bytes) => format_size(bytes),
            None => format!("{sectors} sectors"),
        };
        let mut parts = vec![format!("{} zones of {}", self.zones, size(self.zone_size))];
        if self.zone_capacity != self.zone_size {
            parts.push(format!("zone capacity {}", size(self.zone_capacity)));
        }
        for (count, what) in [
            (self.conventional, "conventional"),
            (self.max_open, "open at most"),
            (self.max_active, "active at most"),
        ] {
            if count > 0 {
                parts.push(format!("{count} {what}"));
            }
        }
        parts.push(format!("{}B blocks", self.lba));
        parts.join(", ")
    }

    /// How the zones lie.
    pub(super) fn layout(&self) -> ZoneLayout {
        ZoneLayout {
            nr_zones: self.zones,
            zone_size: self.zone_size,
            zone_capacity: self.zone_capacity,
            conventional: self.conventional,
            max_open: self.max_open,
            max_active: self.max_active,
        }
    }

    /// What the block layer is to know. Zeroes are written as data.
    pub(super) fn limits(&self) -> Limits {
        let layout = self.layout();
        Limits {
            lba_size: self.lba,
            capacity: Sector(u64::from(self.zones) * self.zone_size.0),
            zone_size: self.zone_size,
            nr_zones: self.zones,
            max_open_zones: layout.open_limit(),
            max_active_zones: layout.active_limit(),
            max_sectors: self.max_sectors,
            append_max_sectors: self.append_max_sectors,
            max_write_zeroes_sectors: 0,
            nr_queues: self.nr_queues,
            queue_depth: self.queue_depth,
            rotational: self.rotational,
        }
    }

    /// The most data that a zone has.
    pub(super) fn most_data(&self) -> Bytes {
        let conventional = if self.conventional > 0 { self.zone_size } else { Sector(0) };
        conventional.max(self.zone_capacity).to_bytes()
    }
}

/// The device that an image was made as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Profile {
    /// A device specification.
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

/// What an image is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Its name for ever (RFC 9562).
    pub uuid: [u8; 16],
    /// Its zones and limits.
    pub geometry: ImageGeometry,
    /// Blocks of each copy of the log.
    pub log_blocks: u32,
    /// The device that it was made as.
    pub profile: Profile,
}

impl Superblock {
    /// What a new image is.
    ///
    /// # Errors
    /// [`ImageError::Geometry`] for a geometry that no image can have; [`ImageError::LongProfile`].
    pub fn new(
        uuid: [u8; 16],
        geometry: ImageGeometry,
        profile: Profile,
    ) -> Result<Self, ImageError> {
        geometry.check()?;
        let len = profile.text().len();
        if len > MAX_PROFILE {
            return Err(ImageError::LongProfile { len });
        }
        Ok(Superblock { uuid, geometry, log_blocks: LOG_BLOCKS, profile })
    }

    /// The number by which blocks say which image they are of.
    pub(super) fn image(&self) -> u64 {
        u64_at(&self.uuid, 0)
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut block = vec![0; BLOCK];
        let (geometry, place) = (&self.geometry, FileLayout::new(self));
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
            (104, place.data()),
            (112, place.stride()),
        ];
        for (at, number) in long {
            put(&mut block, at, &number.to_le_bytes());
        }
        put(&mut block, PROFILE, self.profile.text().as_bytes());
        let crc = checksum(&block, 12);
        put(&mut block, 12, &crc.to_le_bytes());
        block
    }

    /// Reads a block.
    ///
    /// # Errors
    /// [`ImageError::NotAnImage`] without the magic number; [`ImageError::Superblock`] if the
    /// checksum is another; [`ImageError::Version`]; what makes no sense.
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
            return Err(ImageError::Version { found: version });
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
        let place = FileLayout::new(&superblock);
        if u64_at(block, 104) != place.data() || u64_at(block, 112) != place.stride() {
            return Err(odd("a place of the data"));
        }
        Ok(superblock)
    }
}
