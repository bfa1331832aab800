//! What a device can do, and the rules that follow from it.
use crate::units::{Sector, ZoneNo};

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
    /// Zones that may be open at once; 0 for no limit.
    pub max_open_zones: u32,
    /// Zones that may be active (open or closed) at once; 0 for no limit.
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
}

impl Limits {
    /// The number of sectors in an LBA.
    pub const fn lba_sectors(&self) -> u32 {
        self.lba_size >> crate::units::SECTOR_SHIFT
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
}
