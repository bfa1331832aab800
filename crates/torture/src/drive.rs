//! The device inside the failing one: small and fast, so that much happens in a run, with the limits
//! of its kind.
use crate::config::Config;
use crate::random::Random;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use zonal_blk::{Bytes, Nanos};
use zonal_device::control::FaultHooks;
use zonal_device::hdd::{HostInterface, Order, Recording};
use zonal_device::{HddConfig, HddDevice, NullConfig, NullDevice, ZnsConfig, ZnsDevice};

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

    /// Removes features that devices of the kind do not have.
    pub(super) fn adapt(&self, config: &mut Config) {
        match self {
            DriveConfig::Null => {}
            DriveConfig::Hdd(disk) => {
                config.capacity_lbas = config.zone_lbas;
                config.append_lbas = 0;
                config.emulate_append = false;
                config.max_active = 0;
                config.queues = 1;
                config.share_queues = config.share_queues || config.channels > 1;
                config.depth = if disk.ata { 1 } else { config.depth.min(32) };
                config.rotational = true;
            }
            DriveConfig::Zns(_) => {
                config.conventional = 0;
                if config.max_active > 0 {
                    config.max_open = config.max_open.max(1);
                }
            }
        }
    }

    pub(super) fn medium(&self, config: &Config) -> Result<Arc<dyn FaultHooks>, String> {
        let error = |error: zonal_device::ConfigError| error.to_string();
        Ok(match self {
            DriveConfig::Null => Arc::new(NullDevice::new(&null(config)).map_err(error)?),
            DriveConfig::Hdd(disk) => Arc::new(HddDevice::new(&hdd(config, disk)).map_err(error)?),
            DriveConfig::Zns(flash) => {
                Arc::new(ZnsDevice::new(&zns(config, flash)).map_err(error)?)
            }
        })
    }
}

fn null(config: &Config) -> NullConfig {
    NullConfig {
        zoned: config.zones > 0,
        zones: config.zones,
        zone_size: config.bytes(config.zone_lbas),
        zone_capacity: Some(config.bytes(config.capacity_lbas)),
        conventional: config.conventional,
        max_open: Some(config.max_open),
        max_active: config.max_active,
        append_max: config.bytes(config.append_lbas),
        size: config.bytes(config.zone_lbas),
        lba: config.lba,
        queues: config.queues,
        depth: config.depth,
        max_io: config.bytes(config.max_io_lbas),
        memory: config.data,
        ..NullConfig::default()
    }
}

/// A common disk with seeks that are 60 times as fast, at the highest speed.
fn hdd(config: &Config, disk: &HddParams) -> HddConfig {
    const PIECE: u64 = 4096;
    HddConfig {
        recording: if config.zones > 0 { Recording::Smr } else { Recording::Cmr },
        zones: config.zones,
        zone_size: config.bytes(config.zone_lbas),
        conventional: config.conventional,
        max_open: config.max_open,
        size: config.bytes(config.zone_lbas),
        lba: config.lba,
        host: if disk.ata { HostInterface::Ata } else { HostInterface::Ahci },
        depth: config.depth,
        max_io: config.bytes(config.max_io_lbas),
        command: Nanos(1000),
        rpm: 30_000,
        heads: disk.heads,
        rings: 4,
        track_outer: Bytes(64 << 10),
        track_inner: Bytes(16 << 10),
        skew: Nanos(20_000),
        settle: Nanos(20_000),
        seek_average: Nanos(142_000),
        seek_full: Nanos(267_000),
        cache: Bytes(u64::from(disk.pieces) * PIECE),
        cache_commands: disk.commands,
        write_cache: disk.write_cache,
        piece: Bytes(PIECE),
        order: if disk.fifo { Order::Fifo } else { Order::Satf },
        max_age: Nanos(5_000_000),
        read_ahead: Bytes(u64::from(disk.ahead) * PIECE),
        segments: 2,
        reset: Nanos(10_000),
        finish: Nanos(10_000),
        memory: config.data,
        ..HddConfig::default()
    }
}

/// A drive with few and small dies.
fn zns(config: &Config, flash: &ZnsParams) -> ZnsConfig {
    let page = config.bytes(flash.page_lbas);
    let unit = page.0 * u64::from(flash.cell_pages);
    let program = u64::from(flash.program) * 1000;
    let together = unit * 1_000_000_000 / program * u64::from(flash.zone_dies);
    let drive = ZnsConfig {
        zones: config.zones,
        zone_size: config.bytes(config.zone_lbas),
        zone_capacity: config.bytes(config.capacity_lbas),
        max_open: config.max_open,
        max_active: config.max_active,
        append_max: config.bytes(config.append_lbas),
        lba: config.lba,
        queues: config.queues,
        depth: config.depth,
        max_io: config.bytes(config.max_io_lbas),
        write_time: Nanos(1000),
        append_time: Nanos(1500),
        read_time: Nanos(800),
        manage_time: Nanos(2000),
        zone_switch: Nanos(500),
        zone_rate: Bytes(together.min(500_000_000)),
        buffer: Bytes(0),
        power_safe: flash.power_safe,
        channels: 1,
        dies: 2 * flash.zone_dies,
        zone_dies: flash.zone_dies,
        planes: 1,
        page,
        cell_pages: flash.cell_pages,
        block: Bytes(4 * unit),
        page_read: Nanos(5000),
        program: Nanos(program),
        erase: Nanos(100_000),
        suspend: flash.suspend,
        suspend_time: Nanos(1000),
        memory: config.data,
        ..ZnsConfig::default()
    };
    let buffer = drive.min_buffer().0 + u64::from(flash.units) * unit;
    ZnsConfig { buffer: Bytes(buffer), ..drive }
}
