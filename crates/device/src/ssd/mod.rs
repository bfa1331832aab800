//! The ordinary flash drive: the same NAND as a ZNS drive, below a translation layer.
//!
//! The same commands at the same times complete at the same times.
//!
//! ```text
//!  queue --\
//!  queue ---+--> drive         the controller fetches commands, one at a time
//!  queue --/       |            (`flash::Drive`; below it `drive`, its media)
//!                units         data in the buffer, gathered into units that can be programmed
//!                  |           (layout: which unit is on which die)
//!             translation      where each page is, and which superblock is collected next
//!                  |           (closed_forms: its write amplification in theory)
//!               collect        moves the valid pages of victims, at the pace of the host
//!                  |
//!                flash         dies that read, program and erase, and their channels
//! ```
//!
//! With `map_cache` a part of the map is in memory and the rest on the flash: `map`, and `look_up`, which has
//! commands wait for it. `kept` is what an image of a drive keeps of it. `docs/models.md` lists what the model leaves out.
pub mod closed_forms;
mod collect;
mod collector;
mod config;
mod drive;
mod kept;
pub(crate) mod kind;
mod layout;
mod look_up;
mod map;
pub(crate) mod pace;
pub(crate) mod page;
mod placement;
mod placement_events;
mod prefill;
pub mod translation;
mod units;

use crate::config::ConfigError;
use crate::control::{
    CommandObserver, DeviceControl, DeviceStats, Estimate, KeptState, Lateness, Level, MapStats,
    MediumAccess, TranslationStats,
};
use crate::flash::{FlashTraceSink, Port};
use crate::quantity::{format_percent, format_rate, format_size, format_time};
use crate::storage::{ModelStorage, Storage, Stored};
pub(crate) use config::KIND;
pub use config::SsdConfig;
use drive::Drive;
use placement::Placement;
pub use prefill::Prefill;
use std::sync::{Arc, Weak};
use translation::Translation;
use zonal_blk::{DataPlacement, Device, HwQueue, Limits, ReadBufs, Status, Zone, ZoneNo};

/// An ordinary flash drive.
pub struct SsdDevice {
    config: SsdConfig,
    limits: Limits,
    storage: Arc<ModelStorage>,
    port: Arc<Port<Drive>>,
    placement: Option<Placement>,
}

impl SsdDevice {
    /// Creates a drive that has been written as the configuration says.
    ///
    /// # Errors
    /// The first rule that the configuration breaks.
    pub fn new(config: &SsdConfig) -> Result<Self, ConfigError> {
        let limits = config.limits()?;
        let storage = Storage::new(&limits, None, config.memory);
        Self::with_storage(config, limits, ModelStorage::own(storage))
    }

    /// A drive that only models time, for commands whose data are elsewhere: they always succeed.
    ///
    /// # Errors
    /// The first rule that the configuration breaks.
    pub fn timing(config: &SsdConfig) -> Result<Self, ConfigError> {
        Self::with_storage(config, config.limits()?, ModelStorage::timing_only())
    }

    fn with_storage(
        config: &SsdConfig,
        limits: Limits,
        storage: ModelStorage,
    ) -> Result<Self, ConfigError> {
        let translation = Translation::new(config.shape()?).expect("the shape was checked");
        let storage = Arc::new(storage);
        let port = Port::new(drive::drive(config, translation, Arc::clone(&storage)));
        let placement =
            config.placement().map(|layout| Placement { layout, port: Arc::clone(&port) });
        Ok(SsdDevice { config: config.clone(), limits, storage, port, placement })
    }
}

impl Device for SsdDevice {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn report_zones(
        &self,
        _first: ZoneNo,
        _max: usize,
        _zones: &mut Vec<Zone>,
    ) -> Result<(), Status> {
        Err(Status::NotSupported)
    }

    fn read_bufs(&self) -> ReadBufs {
        self.storage().map_or(ReadBufs::Untouched, Storage::read_bufs)
    }

    fn placement(&self) -> Option<&dyn DataPlacement> {
        self.placement.as_ref().map(|placement| placement as &dyn DataPlacement)
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        self.port.open_queue()
    }
}

impl DeviceControl for SsdDevice {
    fn lateness(&self) -> Option<Lateness> {
        Some(self.port.with(|drive| drive.lateness()))
    }

    fn stats(&self) -> DeviceStats {
        let TranslationStats { host, media, discarded, erased_superblocks, waited, map, .. } =
            self.port.with(|drive| drive.stats());
        let mut counts = vec![
            ("bytes written by the host", host.0),
            ("bytes written to flash", media.0),
            ("bytes discarded", discarded.0),
            ("erased superblocks", erased_superblocks),
            ("bytes that waited for the collection", waited.0),
        ];
        if let Some(MapStats { written, lookups, misses }) = map {
            counts.extend([
                ("bytes of the map written to flash", written.0),
                ("pages looked up in the map", lookups),
                ("translation pages read for that", misses),
            ]);
        }
        if self.placement.is_some() {
            counts.extend(self.port.with(|drive| drive.placement_counts()));
        }
        DeviceStats { counts, times: Vec::new() }
    }

    fn translation(&self) -> Option<TranslationStats> {
        Some(self.port.with(|drive| drive.stats()))
    }

    fn levels(&self) -> Vec<Level> {
        self.port.with(|drive| drive.levels())
    }

    fn trace_flash(&self, sink: FlashTraceSink) -> bool {
        self.port.with(|drive| drive.trace_to(sink));
        true
    }

    fn characteristics(&self) -> Vec<(&'static str, String)> {
        let config = &self.config;
        vec![
            (
                "controller",
                format!(
                    "{} a write, {} a read",
                    format_time(config.write_time.0),
                    format_time(config.read_time.0)
                ),
            ),
            ("link", format_rate(config.link_rate.0)),
            (
                "write buffer",
                format!(
                    "{}, {} of them for the collection",
                    format_size(config.buffer.0),
                    format_size(config.gc_buffer.0)
                ),
            ),
            (
                "flash",
                format!(
                    "{} dies on {} channels of {}",
                    config.dies,
                    config.channels,
                    format_rate(config.channel_rate.0)
                ),
            ),
            ("over-provisioning", format_percent(config.overprovision.into())),
            ("superblock", format_size(config.superblock().0)),
            ("map in memory", config.map_text().unwrap_or_else(|| "all".to_owned())),
            ("data placement", config.placement_text().unwrap_or_else(|| "none".to_owned())),
        ]
    }

    fn estimates(&self) -> Vec<Estimate> {
        self.config.estimates()
    }

    fn kept(&self) -> Option<&dyn KeptState> {
        Some(self)
    }

    fn medium(&self) -> Option<&dyn MediumAccess> {
        Some(self)
    }
}

impl Stored for SsdDevice {
    fn storage(&self) -> Result<&Storage, Status> {
        self.storage.get()
    }

    fn complete_pending(&self) {
        self.port.with(Drive::drain);
    }

    fn observe(&self, observer: Weak<dyn CommandObserver>) -> bool {
        self.storage.set_observer(observer)
    }
}
