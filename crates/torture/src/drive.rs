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
            _ => DriveConfig::Null,
        }
    }

    /// The name of the kind.
    pub fn name(&self) -> &'static str {
        match self {
            DriveConfig::Null => "null",
            DriveConfig::Hdd(_) => "hdd",
            DriveConfig::Zns(_) => "zns",
        }
    }
}
