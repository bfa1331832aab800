//! The header of a log: which device was recorded, and its zones when the recording began.
use super::{LogError, VERSION};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use zonal_blk::{Device, Limits, Sector, Zone, ZoneCondition, ZoneKind, ZoneNo};
use zonal_device::image::{ImageError, ImageGeometry, Profile, Superblock};

const MAGIC: [u8; 8] = *b"ZONALCRL";
/// Longest header.
const MAX: u32 = 256 << 20;

/// The properties of a recording and its device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The device, as its user named it.
    pub device: String,
    /// The image that was recorded, or one that the device could be in. The states of a device without
    /// zones are plain copies of the disk.
    pub superblock: Superblock,
    /// Zones that were not empty.
    pub zones: Vec<ZoneStart>,
}

/// A zone when the recording began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneStart {
    /// Its number.
    pub zone: u32,
    /// Whether it was full, by data or by a finish.
    pub full: bool,
    /// Where its data end, in sectors from its start; of a full zone, its capacity.
    pub written: u64,
}

/// The header as it is stored.
#[derive(Serialize, Deserialize)]
struct Stored {
    device: String,
    uuid: [u8; 16],
    toml: bool,
    profile: String,
    checksums: bool,
    zones: u32,
    conventional: u32,
    zone_size: u64,
    zone_capacity: u64,
    max_open: u32,
    max_active: u32,
    lba: u32,
    max_sectors: u32,
    append_max_sectors: u32,
    nr_queues: u16,
    queue_depth: u16,
    rotational: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    regular: bool,
    not_empty: Vec<ZoneStart>,
}

impl Header {
    /// The header for a recording that begins now. `superblock` is that of the device if it is an
    /// image, and `profile` describes any other.
    ///
    /// # Errors
    /// No image can have the device's zones, or it does not report them.
    pub fn of(
        name: &str,
        device: &dyn Device,
        superblock: Option<Superblock>,
        profile: Profile,
    ) -> Result<Self, ImageError> {
        let mut zones = Vec::new();
        let limits = device.limits();
        if limits.nr_zones > 0 {
            device.report_zones(ZoneNo(0), limits.nr_zones as usize, &mut zones).map_err(
                |status| {
                    ImageError::Geometry(format!(
                        "a device that does not report its zones: {status}"
                    ))
                },
            )?;
        }
        let superblock = match superblock {
            Some(superblock) => superblock,
            None => Superblock::new([0; 16], ImageGeometry::of(limits, &zones)?, profile)?,
        };
        let zones = (0..).zip(&zones).filter_map(|(number, zone)| ZoneStart::of(number, zone));
        Ok(Header { device: name.to_owned(), superblock, zones: zones.collect() })
    }

    /// The header for a disk without zones.
    ///
    /// # Errors
    /// There is no such disk.
    pub fn of_disk(name: &str, capacity: Sector, lba_size: u32) -> Result<Self, ImageError> {
        let limits = Limits { lba_size, ..Limits::regular(capacity) };
        let profile = Profile::Spec(name.to_owned());
        let superblock = Superblock::new([0; 16], ImageGeometry::of(&limits, &[])?, profile)?;
        Ok(Header { device: name.to_owned(), superblock, zones: Vec::new() })
    }

    /// The size of the device.
    pub fn capacity(&self) -> Sector {
        Sector(self.geometry().zone_size.0 * u64::from(self.geometry().zones))
    }

    /// The most important numbers, for people.
    pub fn summary(&self) -> String {
        self.geometry().summary()
    }

    /// The geometry of the device.
    pub fn geometry(&self) -> &ImageGeometry {
        &self.superblock.geometry
    }

    /// The zones as the device reported them, and its limits as far as states depend on them.
    pub fn zoned(&self) -> (Limits, Vec<Zone>) {
        let geometry = self.geometry();
        let limits =
            Limits { lba_size: geometry.lba, ..Limits::zoned(geometry.zones, geometry.zone_size) };
        let mut zones: Vec<Zone> = limits.empty_zones(ZoneNo(0), geometry.zones as usize).collect();
        for zone in &mut zones[..geometry.conventional as usize] {
            zone.kind = ZoneKind::Conventional;
            zone.cond = ZoneCondition::NotWritePointer;
        }
        for zone in &mut zones[geometry.conventional as usize..] {
            zone.capacity = geometry.zone_capacity;
        }
        for start in &self.zones {
            let zone = &mut zones[start.zone as usize];
            zone.wp = zone.start + Sector(start.written);
            zone.cond = if start.full { ZoneCondition::Full } else { ZoneCondition::Closed };
        }
        (limits, zones)
    }

    pub(super) fn write(&self, file: &mut impl Write) -> std::io::Result<()> {
        let Superblock { uuid, geometry, profile, checksums, .. } = &self.superblock;
        let stored = Stored {
            device: self.device.clone(),
            uuid: *uuid,
            toml: matches!(profile, Profile::Toml(_)),
            profile: match profile {
                Profile::Spec(text) | Profile::Toml(text) => text.clone(),
            },
            checksums: *checksums,
            zones: geometry.zones,
            conventional: geometry.conventional,
            zone_size: geometry.zone_size.0,
            zone_capacity: geometry.zone_capacity.0,
            max_open: geometry.max_open,
            max_active: geometry.max_active,
            lba: geometry.lba,
            max_sectors: geometry.max_sectors,
            append_max_sectors: geometry.append_max_sectors,
            nr_queues: geometry.nr_queues,
            queue_depth: geometry.queue_depth,
            rotational: geometry.rotational,
            regular: geometry.regular,
            not_empty: self.zones.clone(),
        };
        let text = serde_json::to_vec(&stored)?;
        let len = u32::try_from(text.len()).map_err(std::io::Error::other)?;
        file.write_all(&MAGIC)?;
        for number in [VERSION, len, crc_fast::crc32_iscsi(&text)] {
            file.write_all(&number.to_le_bytes())?;
        }
        file.write_all(&text)
    }

    /// Reads a header; also its length in bytes.
    pub(super) fn read(file: &mut impl Read) -> Result<(Self, u64), LogError> {
        let mut start = [0; 20];
        file.read_exact(&mut start).map_err(|_| LogError::NotALog)?;
        let u32_at =
            |at: usize| u32::from_le_bytes(start[at..at + 4].try_into().expect("four bytes"));
        if start[..8] != MAGIC {
            return Err(LogError::NotALog);
        }
        let (version, len, sum) = (u32_at(8), u32_at(12), u32_at(16));
        if !(1..=VERSION).contains(&version) {
            return Err(LogError::Version(version));
        }
        let mut text = Vec::new();
        file.take(len.min(MAX).into()).read_to_end(&mut text)?;
        if text.len() != len as usize || crc_fast::crc32_iscsi(&text) != sum {
            return Err(LogError::Header(
                "found a truncated or damaged one, expected a whole one".to_owned(),
            ));
        }
        let bad = |error: &dyn std::fmt::Display| LogError::Header(error.to_string());
        let stored: Stored = serde_json::from_slice(&text).map_err(|error| bad(&error))?;
        let header = stored.header().map_err(|error| bad(&error))?;
        Ok((header, 20 + u64::from(len)))
    }
}

impl Stored {
    fn header(self) -> Result<Header, ImageError> {
        let geometry = ImageGeometry {
            zones: self.zones,
            conventional: self.conventional,
            zone_size: Sector(self.zone_size),
            zone_capacity: Sector(self.zone_capacity),
            max_open: self.max_open,
            max_active: self.max_active,
            lba: self.lba,
            max_sectors: self.max_sectors,
            append_max_sectors: self.append_max_sectors,
            nr_queues: self.nr_queues,
            queue_depth: self.queue_depth,
            rotational: self.rotational,
            regular: self.regular,
        };
        let outside = self.not_empty.iter().find(|start| {
            start.zone < self.conventional
                || start.zone >= self.zones
                || start.written > self.zone_capacity
        });
        if let Some(start) = outside {
            let what = format!("{start:?}; expected a sequential zone, written up to its capacity");
            return Err(ImageError::Geometry(what));
        }
        let profile =
            if self.toml { Profile::Toml(self.profile) } else { Profile::Spec(self.profile) };
        let superblock = Superblock::new(self.uuid, geometry, profile)?;
        let superblock = Superblock { checksums: self.checksums, ..superblock };
        Ok(Header { device: self.device, superblock, zones: self.not_empty })
    }
}

impl ZoneStart {
    /// A zone that is not empty.
    pub fn of(number: u32, zone: &Zone) -> Option<Self> {
        let full = zone.cond == ZoneCondition::Full;
        let written = match zone.cond {
            ZoneCondition::Full => zone.capacity.0,
            cond if cond.is_active() => (zone.wp - zone.start).0,
            _ => 0,
        };
        (full || written > 0).then_some(ZoneStart { zone: number, full, written })
    }
}
