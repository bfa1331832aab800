//! One flash, and the drives that can be made of it.
use anyhow::{Context, Result};
use std::sync::Arc;
use zonal_backend::{Stack, Unattached, load};
use zonal_blk::{Bytes, Nanos};
use zonal_device::mapped::{MapOptions, MappedDevice};
use zonal_device::quantity::{format_percent, format_size};
use zonal_device::{DeviceConfig, DeviceControl, SsdConfig, SsdDevice, ZnsConfig, ZnsDevice};

/// The flash that drives have unless another is named: that of the default `ssd`, but a few dies and
/// small blocks, so that a drive is soon in its steady state.
pub const FLASH: &str = "ssd:size=2040M,overprovision=12.5%,dies=4,channels=2,block=1536K";

/// Reclaim unit handles of the drive with data placement, unless the flash is that of a drive that has some.
const HANDLES: u32 = 8;

/// Zones of the ZNS drive that may be open.
const OPEN_ZONES: u32 = 14;

/// A kind of drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drive {
    /// With zones, which the host maps.
    Zns,
    /// With a translation layer.
    Ssd,
    /// With one, and with data placement: each job has a reclaim unit handle, or those that it names.
    Fdp,
}

impl Drive {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Drive::Zns => "zns",
            Drive::Ssd => "ssd",
            Drive::Fdp => "fdp",
        }
    }
}

/// Flash, as an ordinary drive has it.
pub(super) struct Flash {
    config: SsdConfig,
    superblocks: u32,
}

impl Flash {
    /// The flash of an ordinary drive.
    pub(super) fn of(name: &str) -> Result<Self> {
        let spec = load(name)?;
        let expected = || format!("found a device of kind {}, expected ssd", spec.kind());
        let config: SsdConfig = spec.config_of().cloned().with_context(expected)?;
        config.validate()?;
        let layer = SsdDevice::new(&config)?.translation();
        let superblocks = layer.expect("an ordinary drive has one").superblocks;
        Ok(Flash { config, superblocks })
    }

    /// The size that jobs see, and that of the flash.
    pub(super) fn sizes(&self) -> (Bytes, Bytes) {
        let flash = u64::from(self.superblocks) * self.config.superblock().0;
        (self.config.size, Bytes(flash))
    }

    /// One line that describes a drive.
    pub(super) fn describe(&self, drive: Drive) -> Result<String> {
        Ok(match drive {
            Drive::Ssd | Drive::Fdp => {
                let config = if drive == Drive::Fdp { self.placed() } else { self.ordinary() };
                config.validate()?;
                format!("{}, {}", drive.name(), config.describe().join(", "))
            }
            Drive::Zns => {
                let config = self.zns();
                config.validate()?;
                format!(
                    "zns, {} zones of {}, mapped by the host: {} without zones, {} more flash",
                    config.zones,
                    format_size(config.zone_capacity.0),
                    format_size(self.config.size.0),
                    format_percent(self.config.overprovision.into())
                )
            }
        })
    }

    /// A drive of its own.
    pub(super) fn stack(&self, drive: Drive) -> Result<Stack<Unattached>> {
        let model: Arc<dyn DeviceControl> = match drive {
            Drive::Ssd => Arc::new(SsdDevice::new(&self.ordinary())?),
            Drive::Fdp => Arc::new(SsdDevice::new(&self.placed())?),
            Drive::Zns => {
                let options = MapOptions {
                    size: self.config.size,
                    policy: self.config.gc,
                    watermarks: (self.config.gc_low, self.config.gc_high),
                };
                Arc::new(MappedDevice::new(Arc::new(ZnsDevice::new(&self.zns())?), options)?)
            }
        };
        Ok(Stack::of_model(drive.name(), drive.name(), self.describe(drive)?, model, usize::MAX))
    }

    /// The drive without data placement.
    fn ordinary(&self) -> SsdConfig {
        SsdConfig { fdp_handles: 0, fdp_persistent: 0, fdp_groups: 1, ..self.config.clone() }
    }

    /// The drive with data placement.
    fn placed(&self) -> SsdConfig {
        let handles = self.config.fdp_handles;
        let fdp_handles = if handles == 0 { HANDLES } else { handles };
        SsdConfig { fdp_handles, ..self.config.clone() }
    }

    /// The placement identifiers of the drive with data placement.
    pub(super) fn ids(&self) -> usize {
        (self.placed().fdp_handles * self.config.fdp_groups) as usize
    }

    /// The ZNS drive: a zone is a superblock, and the controller has the times of the ordinary one.
    fn zns(&self) -> ZnsConfig {
        let ssd = &self.config;
        let open = OPEN_ZONES.min(self.superblocks);
        ZnsConfig {
            zones: self.superblocks,
            zone_size: ssd.superblock(),
            zone_capacity: ssd.superblock(),
            zone_dies: ssd.dies_of_superblock(),
            zone_rate: Bytes(0),
            zone_switch: Nanos(0),
            max_open: open,
            max_active: open,
            lba: ssd.lba,
            queues: ssd.queues,
            depth: ssd.depth,
            max_io: ssd.max_io,
            append_max: ssd.max_io,
            write_time: ssd.write_time,
            append_time: ssd.write_time,
            read_time: ssd.read_time,
            manage_time: ssd.manage_time,
            latency: ssd.latency,
            link_rate: ssd.link_rate,
            read_link_rate: ssd.read_link_rate,
            send_time: ssd.send_time,
            reads: ssd.reads,
            buffer: ssd.buffer,
            channels: ssd.channels,
            dies: ssd.dies,
            planes: ssd.planes,
            page: ssd.page,
            cell_pages: ssd.cell_pages,
            block: ssd.block,
            channel_rate: ssd.channel_rate,
            page_read: ssd.page_read,
            page_spread: ssd.page_spread,
            transfer_time: ssd.transfer_time,
            cache_read: ssd.cache_read,
            read_ahead: ssd.read_ahead,
            program: ssd.program,
            program_spread: ssd.program_spread,
            erase: ssd.erase,
            suspend: ssd.suspend,
            suspend_time: ssd.suspend_time,
            suspend_step: ssd.suspend_step,
            reads_in_a_row: ssd.reads_in_a_row,
            ..ZnsConfig::default()
        }
    }
}
