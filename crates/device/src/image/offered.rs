//! The interface of the device in an image: its hardware queues, and [`DeviceControl`].
use super::device::ImageDevice;
use super::queue::ImageQueue;
use super::superblock::{Profile, Superblock};
use crate::control::{
    DeviceControl, DeviceStats, Lateness, Level, MediumAccess, PowerHistory, ScrubStep,
    TranslationStats,
};
use crate::flash::FlashTraceSink;
use crate::hdd::{HeadState, HeadTraceSink};
use crate::quantity::format_size;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use zonal_blk::{DataPlacement, Device, HwQueue, Limits, ReadBufs, Sector, Status, Zone, ZoneNo};

impl Device for ImageDevice {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn report_zones(&self, first: ZoneNo, max: usize, zones: &mut Vec<Zone>) -> Result<(), Status> {
        if self.superblock.geometry.regular {
            return Err(Status::NotSupported);
        }
        self.zones().report(first, max, zones)
    }

    /// Parts for which the file has no data are zeroed.
    fn read_bufs(&self) -> ReadBufs {
        ReadBufs::Filled
    }

    fn placement(&self) -> Option<&dyn DataPlacement> {
        self.model()?.device.placement()?;
        Some(self)
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        Box::new(ImageQueue::new(self))
    }
}

impl DeviceControl for ImageDevice {
    fn characteristics(&self) -> Vec<(&'static str, String)> {
        let profile = match &self.superblock.profile {
            Profile::Spec(text) => text.clone(),
            Profile::Toml(_) => "a profile of its own".to_owned(),
        };
        let checksums = if self.sums.is_some() { "CRC-32C of each block" } else { "none" };
        let space = if self.superblock.preallocated { "preallocated" } else { "that of the data" };
        vec![
            ("made as", profile),
            ("slot", format_size(self.layout().slot_size())),
            ("checksums", checksums.to_owned()),
            ("space", space.to_owned()),
        ]
    }

    fn levels(&self) -> Vec<Level> {
        self.model().map_or_else(Vec::new, |model| model.device.levels())
    }

    fn trace_head(&self, sink: HeadTraceSink) -> bool {
        self.timing().is_some_and(|model| model.trace_head(sink))
    }

    fn trace_flash(&self, sink: FlashTraceSink) -> bool {
        self.timing().is_some_and(|model| model.trace_flash(sink))
    }

    fn head(&self) -> Option<HeadState> {
        self.timing()?.head()
    }

    fn lateness(&self) -> Option<Lateness> {
        self.timing()?.lateness()
    }

    fn stats(&self) -> DeviceStats {
        let generation = self.journal().generation();
        let mut counts = vec![("zone tables written", generation)];
        if self.sums.is_some() {
            counts.push(("damaged blocks read", self.damaged_blocks.load(Ordering::Relaxed)));
        }
        if self.kept().is_some() {
            counts.extend(self.model().map_or_else(Vec::new, |model| model.device.stats().counts));
        }
        DeviceStats { counts, times: Vec::new() }
    }

    fn translation(&self) -> Option<TranslationStats> {
        self.model()?.device.translation()
    }

    fn scrub(&self, from: Sector) -> Result<ScrubStep, Status> {
        self.scrub_step(from)
    }

    fn superblock(&self) -> Option<&Superblock> {
        Some(&self.superblock)
    }

    fn power_history(&self) -> Option<PowerHistory> {
        self.layout().has_sessions().then(|| self.session().history)
    }

    /// Not of an image with the latencies of a model, which knows its zones by itself.
    fn medium(&self) -> Option<&dyn MediumAccess> {
        self.timing().is_none().then_some(self as _)
    }
}
