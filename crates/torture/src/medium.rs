//! The device that a run drives: that of its drive, with the shape of its configuration.
use crate::config::Config;
use crate::drive::{DriveConfig, HddParams, SsdParams, ZnsParams};
use std::sync::Arc;
use zonal_blk::{Bytes, Nanos};
use zonal_device::control::FaultHooks;
use zonal_device::hdd::{HostInterface, Order, Recording};
use zonal_device::ssd::translation::Policy;
use zonal_device::{
    HddConfig, HddDevice, NullConfig, NullDevice, SsdConfig, SsdDevice, ZnsConfig, ZnsDevice,
};

/// The size of an ordinary flash drive is a multiple of this, in bytes.
const SSD_STEP: u64 = 64 << 10;
/// A page of the map of such a drive.
const PAGE: u64 = 4096;

impl DriveConfig {
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
            DriveConfig::Ssd(_) => {
                // Whole pages, and some of them, so that over-provisioning has a limit.
                let lbas =
                    u32::try_from(SSD_STEP / u64::from(config.lba)).expect("a step is short");
                config.zone_lbas = config.zone_lbas.next_multiple_of(lbas);
                config.capacity_lbas = config.zone_lbas;
                config.last_lbas = config.zone_lbas;
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
            DriveConfig::Ssd(flash) => {
                Arc::new(SsdDevice::new(&ssd(config, flash)).map_err(error)?)
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

/// A drive with few and small superblocks, which soon has to collect.
fn ssd(config: &Config, flash: &SsdParams) -> SsdConfig {
    let size = config.bytes(config.zone_lbas);
    let unit = u64::from(flash.cell_pages) * PAGE;
    let superblock = unit * u64::from(flash.block_units) * u64::from(flash.dies);
    let gc_low = 2;
    let gc_high = gc_low + flash.ahead;
    // Beside the data two are filled, gc_high are free, and one has room to collect.
    let beside = 2 + gc_high + 1 + flash.spare;
    let superblocks = size.0.div_ceil(superblock) + u64::from(beside);
    let beyond = (superblocks * superblock).saturating_sub(size.0) * 100_000;
    let max_io = config.bytes(config.max_io_lbas);
    let units = Bytes(4 * unit);
    SsdConfig {
        size,
        overprovision: u32::try_from(beyond.div_ceil(size.0.max(1))).unwrap_or(u32::MAX),
        gc: [Policy::Greedy, Policy::Fifo, Policy::CostBenefit][usize::from(flash.policy % 3)],
        separate: flash.separate,
        gc_low,
        gc_high,
        gc_buffer: units,
        lba: config.lba,
        queues: config.queues,
        depth: config.depth,
        max_io,
        write_time: Nanos(1000),
        read_time: Nanos(800),
        manage_time: Nanos(2000),
        buffer: Bytes(2 * units.0 + max_io.0),
        channels: 1,
        dies: flash.dies,
        planes: 1,
        page: Bytes(PAGE),
        cell_pages: flash.cell_pages,
        block: Bytes(u64::from(flash.block_units) * unit),
        page_read: Nanos(5000),
        program: Nanos(u64::from(flash.program) * 1000),
        erase: Nanos(100_000),
        suspend: flash.suspend,
        suspend_time: Nanos(1000),
        memory: config.data,
        ..SsdConfig::default()
    }
}
