//! The ZNS drive: a model of the parts of an NVMe flash drive with zones that take time.
//!
//! The same commands at the same times complete at the same times.
//!
//! ```text
//!  queue --\
//!  queue ---+--> drive      the controller fetches commands, one at a time
//!  queue --/       |         (`flash::Drive`; below it `drive`, its media)
//!                medium     zones, write pointers, data: what a command does
//!                  |
//!                buffer     data of writes, gathered into units that can be programmed
//!                  |        (stripe: which unit is on which die)
//!                flash      dies that read, program and erase, and their channels
//! ```
//!
//! The time of an event is known when its cause happens, so the drive is a queue of events to come,
//! and every call from a hardware queue first processes the events that are due.
//!
//! `docs/models.md` lists the parameters, where they come from, and what the model leaves out.
mod aging;
mod buffer;
mod config;
mod drive;
mod kind;
mod medium;
mod resets;
mod stripe;

use crate::config::{ConfigError, rule};
use crate::control::{CommandObserver, DeviceControl, Estimate, Lateness, Level, MediumAccess};
use crate::flash::{FlashTraceSink, Port};
use crate::quantity::{format_rate, format_rate_rounded, format_size, format_time};
use crate::storage::{ModelStorage, Storage, Stored};
use crate::zones::Zones;
pub(crate) use config::KIND;
pub use config::ZnsConfig;
use drive::Drive;
use medium::Medium;
use std::sync::{Arc, Weak};
use zonal_blk::{
    AgingLimits, Bytes, Device, HwQueue, Limits, Nanos, ReadBufs, Status, Zone, ZoneAging,
    ZoneCondition, ZoneExtensions, ZoneNo,
};

/// A ZNS drive.
pub struct ZnsDevice {
    config: ZnsConfig,
    limits: Limits,
    medium: Arc<Medium>,
    port: Arc<Port<Drive>>,
}

impl ZnsDevice {
    /// Creates a drive, all of its zones empty.
    ///
    /// # Errors
    /// The first rule that the configuration breaks.
    pub fn new(config: &ZnsConfig) -> Result<Self, ConfigError> {
        let limits = config.limits()?;
        let storage = Storage::new(&limits, Some(&config.layout()), config.memory);
        Ok(Self::with_storage(config, limits, ModelStorage::own(storage)))
    }

    /// A drive that only models time, for commands whose zones and data are elsewhere: they always
    /// succeed. `state` returns the bytes written to each zone, and its condition.
    ///
    /// # Errors
    /// The first rule that the configuration breaks; it must have no random write areas and no descriptor
    /// extensions.
    pub fn timing(
        config: &ZnsConfig,
        state: impl Fn(ZoneNo) -> (Bytes, ZoneCondition),
    ) -> Result<Self, ConfigError> {
        rule("zrwa", config.zrwa == Bytes(0), format_size(config.zrwa.0), || {
            "0 for a drive whose zones are in an image".to_owned()
        })?;
        rule("finish_after", !config.ages(), "zones that age", || {
            "finish_recommended, finish_after and reset_recommended of 0 for a drive whose zones are in \
             an image"
                .to_owned()
        })?;
        let extension = config.descriptor_extension;
        rule("descriptor_extension", extension == 0, extension, || {
            "0 for a drive whose zones are in an image".to_owned()
        })?;
        let device = Self::with_storage(config, config.limits()?, ModelStorage::timing_only());
        for zone in (0..config.zones).map(ZoneNo) {
            let (written, cond) = state(zone);
            device.port.with(|drive| drive.load_zone(zone, written, cond));
        }
        Ok(device)
    }

    fn with_storage(config: &ZnsConfig, limits: Limits, storage: ModelStorage) -> Self {
        let medium = Arc::new(Medium::new(config, storage));
        let port = Port::new(drive::drive(config, Arc::clone(&medium)));
        ZnsDevice { config: config.clone(), limits, medium, port }
    }

    /// The drive's zones; `None` in a model of time.
    pub fn zones(&self) -> Option<&Zones> {
        self.storage().and_then(Storage::zones).ok()
    }

    /// Bytes in the write buffer.
    pub fn buffered(&self) -> Bytes {
        Bytes(self.port.with(|drive| drive.buffered()))
    }
}

impl Device for ZnsDevice {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn report_zones(&self, first: ZoneNo, max: usize, zones: &mut Vec<Zone>) -> Result<(), Status> {
        self.storage()?.zones()?.report(first, max, zones)
    }

    fn zones_as_new(&self, first: ZoneNo, max: u32) -> u32 {
        self.storage().and_then(Storage::zones).map_or(0, |zones| zones.as_new(first, max))
    }

    fn read_bufs(&self) -> ReadBufs {
        self.storage().map_or(ReadBufs::Untouched, Storage::read_bufs)
    }

    fn zone_extensions(&self) -> Option<&dyn ZoneExtensions> {
        self.zones()?.extensions()
    }

    fn zone_aging(&self) -> Option<&dyn ZoneAging> {
        self.config.ages().then_some(self)
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        self.port.open_queue()
    }
}

impl ZoneAging for ZnsDevice {
    fn limits(&self) -> AgingLimits {
        let &ZnsConfig { finish_recommended, finish_after, .. } = &self.config;
        let recommends = finish_recommended.0 > 0 && finish_after.0 > 0;
        AgingLimits {
            excursions: finish_after.0 > 0,
            finish: if recommends { finish_after - finish_recommended } else { Nanos(0) },
        }
    }

    fn age(&self, now: Nanos, changed: &mut Vec<ZoneNo>) -> Option<Nanos> {
        self.port.with(|drive| drive.zone_changes(now, changed))
    }
}

impl DeviceControl for ZnsDevice {
    fn lateness(&self) -> Option<Lateness> {
        Some(self.port.with(|drive| drive.lateness()))
    }

    fn levels(&self) -> Vec<Level> {
        let config = &self.config;
        let (bytes, dies) = self.port.with(|drive| (drive.buffered(), drive.busy_dies()));
        vec![
            Level { name: "write buffer, bytes", value: bytes, of: config.buffer.0 },
            Level { name: "dies programming or erasing", value: dies, of: config.dies.into() },
        ]
    }

    fn trace_flash(&self, sink: FlashTraceSink) -> bool {
        self.port.with(|drive| drive.trace_to(sink));
        true
    }

    fn set_condition(&self, zone: ZoneNo, to: ZoneCondition) -> Result<(), Status> {
        self.storage()?.set_condition(zone, to)?;
        self.zone_changed(zone);
        Ok(())
    }

    fn characteristics(&self) -> Vec<(&'static str, String)> {
        let config = &self.config;
        vec![
            (
                "controller",
                format!(
                    "{} a write, {} a read, {} more for another zone",
                    format_time(config.write_time.0),
                    format_time(config.read_time.0),
                    format_time(config.zone_switch.0)
                ),
            ),
            ("link", format_rate(config.link_rate.0)),
            ("a zone's way in", format_rate(config.zone_rate.0)),
            ("write buffer", format_size(config.buffer.0)),
            (
                "flash",
                format!(
                    "{} dies on {} channels of {}, {} to a zone",
                    config.dies,
                    config.channels,
                    format_rate(config.channel_rate.0),
                    config.zone_dies
                ),
            ),
            (
                "unit",
                format!(
                    "{} programmed in {}, {} the dies of a zone, {} all",
                    format_size(config.unit().0),
                    format_time(config.program.0),
                    format_rate_rounded(config.program_rate(config.zone_dies).0),
                    format_rate_rounded(config.program_rate(config.dies).0)
                ),
            ),
        ]
    }

    fn estimates(&self) -> Vec<Estimate> {
        self.config.estimates()
    }

    fn medium(&self) -> Option<&dyn MediumAccess> {
        Some(self)
    }
}

impl Stored for ZnsDevice {
    fn storage(&self) -> Result<&Storage, Status> {
        self.medium.storage.get()
    }

    fn zone_changed(&self, zone: ZoneNo) {
        self.port.with(|drive| drive.reload_zone(zone));
    }

    fn complete_pending(&self) {
        self.port.with(Drive::drain);
    }

    fn observe(&self, observer: Weak<dyn CommandObserver>) -> bool {
        self.medium.storage.set_observer(observer)
    }
}
