//! Zones and limits of the device in an image, and what of them an image can have.
use super::error::ImageError;
use crate::quantity::format_size;
use crate::zones::ZoneLayout;
use zonal_blk::{Bytes, Limits, Sector, Zone, ZoneKind, ZrwaLimits};

/// Most zones of an image.
pub const MAX_ZONES: u32 = 1 << 20;

/// Zones and limits of the device in an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageGeometry {
    /// Number of zones.
    pub zones: u32,
    /// Leading zones that are conventional.
    pub conventional: u32,
    /// Zone size.
    pub zone_size: Sector,
    /// Zone capacity of sequential zones.
    pub zone_capacity: Sector,
    /// Maximum open zones; 0 for no limit.
    pub max_open: u32,
    /// Maximum active zones; 0 for no limit.
    pub max_active: u32,
    /// Logical block size in bytes.
    pub lba: u32,
    /// Longest command in sectors.
    pub max_sectors: u32,
    /// Longest native zone append in sectors; 0 for none.
    pub append_max_sectors: u32,
    /// Hardware queues.
    pub nr_queues: u16,
    /// Queue depth of a hardware queue.
    pub queue_depth: u16,
    /// Whether the emulated drive is rotational.
    pub rotational: bool,
    /// Whether the device has no zones: in the image all of it is one conventional zone.
    pub regular: bool,
}

impl ImageGeometry {
    /// The geometry of a device with these limits and zones.
    ///
    /// # Errors
    /// [`ImageError::Geometry`] if an image cannot have it.
    pub fn of(limits: &Limits, zones: &[Zone]) -> Result<Self, ImageError> {
        let bad = |what: &str| ImageError::Geometry(what.to_owned());
        if zones.len() != limits.nr_zones as usize {
            return Err(bad("a device that does not report its zones"));
        }
        if limits.nr_zones == 0 {
            return Self::without_zones(limits);
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
            // Where zones take whole units of a granularity, the image has blocks of it.
            lba: limits.zone_write_granularity(),
            max_sectors: limits.max_sectors,
            append_max_sectors: limits.append_max_sectors,
            nr_queues: limits.nr_queues,
            queue_depth: limits.queue_depth,
            rotational: limits.rotational,
            regular: false,
        };
        geometry.check()?;
        Ok(geometry)
    }

    /// The geometry of a device without zones that has these limits.
    fn without_zones(limits: &Limits) -> Result<Self, ImageError> {
        let geometry = ImageGeometry {
            zones: 1,
            conventional: 1,
            zone_size: limits.capacity,
            zone_capacity: limits.capacity,
            max_open: 0,
            max_active: 0,
            lba: limits.lba_size,
            max_sectors: limits.max_sectors,
            append_max_sectors: 0,
            nr_queues: limits.nr_queues,
            queue_depth: limits.queue_depth,
            rotational: limits.rotational,
            regular: true,
        };
        geometry.check()?;
        Ok(geometry)
    }

    /// Validates the geometry.
    pub(super) fn check(&self) -> Result<(), ImageError> {
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
            (
                !self.regular || (self.zones, self.conventional) == (1, 1),
                "one conventional zone for a device without zones",
            ),
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
        let all = size(self.zone_size);
        if self.regular {
            return format!("{all} without zones, {}B blocks", self.lba);
        }
        let mut parts = vec![format!("{} zones of {all}", self.zones)];
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

    /// The zone layout.
    pub(super) fn layout(&self) -> ZoneLayout {
        ZoneLayout {
            nr_zones: self.zones,
            zone_size: self.zone_size,
            zone_capacity: self.zone_capacity,
            conventional: self.conventional,
            max_open: self.max_open,
            max_active: self.max_active,
            zrwa: ZrwaLimits::NONE,
            extension: 0,
        }
    }

    /// The device limits. Zeroes are written as data.
    pub(super) fn limits(&self) -> Limits {
        let layout = self.layout();
        let capacity = Sector(u64::from(self.zones) * self.zone_size.0);
        if self.regular {
            return Limits {
                lba_size: self.lba,
                max_sectors: self.max_sectors,
                nr_queues: self.nr_queues,
                queue_depth: self.queue_depth,
                rotational: self.rotational,
                ..Limits::regular(capacity)
            };
        }
        Limits {
            lba_size: self.lba,
            capacity,
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
            write_granularity: 0,
            zrwa: ZrwaLimits::NONE,
        }
    }

    /// Most data of a zone.
    pub(super) fn max_zone_data(&self) -> Bytes {
        let conventional = if self.conventional > 0 { self.zone_size } else { Sector(0) };
        conventional.max(self.zone_capacity).to_bytes()
    }
}

impl ImageGeometry {
    /// Blocks of 512 bytes, commands of up to 64 sectors, a queue of depth 8 and no limits, as tests
    /// need it.
    pub fn simple(zones: u32, conventional: u32, zone_size: Sector) -> Self {
        ImageGeometry {
            zones,
            conventional,
            zone_size,
            zone_capacity: zone_size,
            max_open: 0,
            max_active: 0,
            lba: 512,
            max_sectors: 64,
            append_max_sectors: 0,
            nr_queues: 1,
            queue_depth: 8,
            rotational: false,
            regular: false,
        }
    }
}
