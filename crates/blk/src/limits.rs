//! The limits of a device, and the rules that follow from them.
use crate::units::{Sector, ZoneNo};
use crate::zone::{Zone, ZoneAttributes, ZoneCondition, ZoneKind};

/// A device's limits (`struct queue_limits`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Logical block size in bytes: 512 or 4096. I/O is aligned to it.
    pub lba_size: u32,
    /// Size of the device.
    pub capacity: Sector,
    /// Distance between zone starts; 0 for a device without zones. Need not be a power of two.
    pub zone_size: Sector,
    /// Number of zones; 0 for a device without zones.
    pub nr_zones: u32,
    /// Zones that may be open at the same time; 0 for no limit.
    pub max_open_zones: u32,
    /// Zones that may be active (open or closed) at the same time; 0 for no limit.
    pub max_active_zones: u32,
    /// Longest command in sectors.
    pub max_sectors: u32,
    /// Longest native zone append in sectors; 0 if the device has none.
    pub append_max_sectors: u32,
    /// Longest write zeroes in sectors; 0 if the device has none, so that the layer writes zeroes
    /// as data.
    pub max_write_zeroes_sectors: u32,
    /// Hardware queues that the device offers; channels beyond that share them.
    pub nr_queues: u16,
    /// Commands in flight on one hardware queue.
    pub queue_depth: u16,
    /// Whether seeks cost time.
    pub rotational: bool,
    /// Unit of writes to sequential zones in bytes, to which they are aligned, where that is more than an
    /// LBA, as on a disk that emulates blocks of 512 bytes; 0 for an LBA.
    pub write_granularity: u32,
    /// The random write areas that zones can have.
    pub zrwa: ZrwaLimits,
}

/// Zone random write areas (NVMe ZNS 1.1 section 5.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZrwaLimits {
    /// Sectors of an area, from the write pointer on (ZRWASZ).
    pub size: u32,
    /// Sectors that the write pointer moves by (ZRWAFG); divides `size`.
    pub granularity: u32,
    /// Zones that may have an area at the same time (NUMZRWA); 0 if the device has none.
    pub max: u32,
}

impl ZrwaLimits {
    /// No areas.
    pub const NONE: ZrwaLimits = ZrwaLimits { size: 0, granularity: 0, max: 0 };
}

impl Limits {
    /// A device without zones, of 512-byte blocks: commands of up to 1 MiB, one hardware queue of 64
    /// commands.
    pub const fn regular(capacity: Sector) -> Self {
        Limits {
            lba_size: 512,
            capacity,
            zone_size: Sector(0),
            nr_zones: 0,
            max_open_zones: 0,
            max_active_zones: 0,
            max_sectors: 2048,
            append_max_sectors: 0,
            max_write_zeroes_sectors: 0,
            nr_queues: 1,
            queue_depth: 64,
            rotational: false,
            write_granularity: 0,
            zrwa: ZrwaLimits::NONE,
        }
    }

    /// The same with zones, any number of which may be open. Zone append is left to the layer.
    pub const fn zoned(nr_zones: u32, zone_size: Sector) -> Self {
        let capacity = Sector(nr_zones as u64 * zone_size.0);
        Limits { nr_zones, zone_size, ..Limits::regular(capacity) }
    }

    /// The limits of a device that has only its first `zones` zones left. Of a device that has no more
    /// than these, its own.
    pub(crate) fn with_zones(&self, zones: u32) -> Self {
        if zones >= self.nr_zones {
            return self.clone();
        }
        Limits { nr_zones: zones, capacity: self.zone_start(ZoneNo(zones)), ..self.clone() }
    }

    /// The number of sectors in an LBA.
    pub const fn lba_sectors(&self) -> u32 {
        self.lba_size >> crate::units::SECTOR_SHIFT
    }

    /// Unit of writes to sequential zones in bytes, to which they are aligned (the kernel's
    /// `zone_write_granularity`).
    pub fn zone_write_granularity(&self) -> u32 {
        self.write_granularity.max(self.lba_size)
    }

    /// The same in sectors.
    pub fn zone_write_sectors(&self) -> u32 {
        self.zone_write_granularity() >> crate::units::SECTOR_SHIFT
    }

    /// The zone that `sector` lies in, for a zoned device.
    pub fn zone_of(&self, sector: Sector) -> ZoneNo {
        let zone = if self.zone_size.0.is_power_of_two() {
            sector.0 >> self.zone_size.0.trailing_zeros()
        } else {
            sector.0 / self.zone_size.0
        };
        ZoneNo(u32::try_from(zone).expect("a sector of the device lies in one of its zones"))
    }

    /// The first sector of a zone.
    pub fn zone_start(&self, zone: ZoneNo) -> Sector {
        Sector(u64::from(zone.0) * self.zone_size.0)
    }

    /// Up to `max` zones from `first` on, as a new device reports them: sequential, writable to their
    /// ends, and empty.
    pub fn empty_zones(&self, first: ZoneNo, max: usize) -> impl Iterator<Item = Zone> {
        let (kind, cond) = (ZoneKind::SequentialRequired, ZoneCondition::Empty);
        (first.0..self.nr_zones).take(max).map(move |zone| {
            let (start, len) = (self.zone_start(ZoneNo(zone)), self.zone_size);
            let attributes = ZoneAttributes::NONE;
            Zone { start, len, capacity: len, wp: start, kind, cond, attributes }
        })
    }
}
