//! The device inside the failing one: small and fast, so that much happens in a run, with the limits
//! of its kind.
use crate::random::Random;
use serde::{Deserialize, Serialize};

/// A kind of device with its parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum DriveConfig {
    /// A null device: the failing device around it adds all latency.
    Null,
    /// A rotating disk, shingled if it has zones.
    Hdd(HddParams),
    /// A ZNS drive.
    Zns(ZnsParams),
    /// An ordinary flash drive.
    Ssd(SsdParams),
}

/// Parameters of a rotating disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HddParams {
    /// One command at a time.
    pub ata: bool,
    /// Commands are executed in FIFO order instead of by shortest access time.
    pub fifo: bool,
    /// A write completes once it is in the buffer.
    pub write_cache: bool,
    /// Size of the buffer in units of 4 KiB.
    pub pieces: u32,
    /// Commands that the buffer holds.
    pub commands: u32,
    /// Read-ahead in units of 4 KiB.
    pub ahead: u32,
    /// Recording surfaces.
    pub heads: u32,
}

/// Parameters of a ZNS drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZnsParams {
    /// Dies that a zone is striped over, which are half of all.
    pub zone_dies: u32,
    /// Pages that are programmed together.
    pub cell_pages: u32,
    /// LBAs of a page.
    pub page_lbas: u32,
    /// Program time in microseconds.
    pub program: u32,
    /// Buffer space in program units beyond the required minimum.
    pub units: u32,
    /// The buffer survives a power loss, so a flush has nothing to do.
    pub power_safe: bool,
    /// Reads suspend programs.
    pub suspend: bool,
}

/// Parameters of an ordinary flash drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SsdParams {
    /// Dies, of which each superblock has a block.
    pub dies: u32,
    /// Pages of 4 KiB that are programmed together.
    pub cell_pages: u32,
    /// Programs that fill a block.
    pub block_units: u32,
    /// Superblocks beyond those without which it could not collect.
    pub spare: u32,
    /// Free superblocks with which a collection ends, beyond those with which it begins.
    pub ahead: u32,
    /// Which superblock is collected next: 0 for the one with the fewest valid pages, 1 by age, 2 by both.
    pub policy: u8,
    /// Collected data have superblocks of their own.
    pub separate: bool,
    /// Program time in microseconds.
    pub program: u32,
    /// Reads suspend programs.
    pub suspend: bool,
}

impl DriveConfig {
    pub(super) fn draw(random: &mut Random, zoned: bool) -> Self {
        match random.below(100) {
            0..74 => DriveConfig::Null,
            74..87 => DriveConfig::Hdd(HddParams {
                ata: random.percent(20),
                fifo: random.percent(40),
                write_cache: random.percent(60),
                pieces: random.skewed(1, 32),
                commands: random.skewed(1, 16),
                ahead: random.range(0, 4),
                heads: random.range(1, 4),
            }),
            _ if zoned => DriveConfig::Zns(ZnsParams {
                zone_dies: random.pick(&[1, 2, 4]),
                cell_pages: random.range(1, 3),
                page_lbas: random.skewed(1, 8),
                program: random.skewed(4, 60),
                units: random.skewed(0, 16),
                power_safe: random.percent(50),
                suspend: random.percent(50),
            }),
            _ => DriveConfig::Ssd(SsdParams {
                dies: random.range(1, 2),
                cell_pages: random.range(1, 2),
                block_units: random.range(2, 3),
                spare: random.range(0, 4),
                ahead: random.range(0, 2),
                policy: random.range(0, 2) as u8,
                separate: random.percent(70),
                program: random.skewed(4, 60),
                suspend: random.percent(50),
            }),
        }
    }

    /// The name of the kind.
    pub fn name(&self) -> &'static str {
        match self {
            DriveConfig::Null => "null",
            DriveConfig::Hdd(_) => "hdd",
            DriveConfig::Zns(_) => "zns",
            DriveConfig::Ssd(_) => "ssd",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::DriveConfig;
    use crate::{History, Profile};

    #[test]
    fn ordinary_flash_drives_are_drawn_that_can_collect() {
        let configs = (0..400).map(|seed| History::draw(seed, Profile::Regular).config);
        let drives = configs.filter(|config| matches!(config.drive, DriveConfig::Ssd(_)));
        let made = drives.inspect(|config| {
            config.device().unwrap_or_else(|error| panic!("{error}: {config:?}"));
        });
        assert!(made.count() > 20);
    }
}
