//! A zoned device as one without zones, by a translation layer in the host: what a log-structured store
//! or a device mapper target does, so that a job with random overwrites can run on zones.
//!
//! ```text
//!  queue --\
//!  queue ---+--> mapper       host I/O: pages get their places, in one zone at a time
//!  queue --/       |
//!             translation     that of `ssd`, with zones as superblocks
//!                  |
//!              collection     reads the valid pages of a zone, writes them to another, resets it
//!                  |
//!               channel       the block layer, with zone write plugging
//!                  |
//!             zoned device
//! ```
//!
//! It models time: no data are moved, and the map is lost with the device.
mod collection;
mod mapper;
mod moves;

use crate::control::{DeviceControl, DeviceStats, Lateness, Level, TranslationStats};
use crate::flash::{FlashTraceSink, Port};
use crate::ssd::page::PAGE;
use crate::ssd::translation::{Isolation, Policy, Shape, ShapeError, Translation};
use mapper::Mapper;
use std::sync::Arc;
use zonal_blk::{
    AttachError, Bytes, Device, HwQueue, Limits, NoQueueLeft, Queue, QueueOptions, ReadBufs,
    Sector, Status, Zone, ZoneCondition, ZoneKind, ZoneNo, ZoneWrite,
};

/// Zones that have to be allowed to be open: those that host and collection write, and those before them,
/// whose last writes are under way.
const OPEN_ZONES: u32 = 4;

/// A zoned device that cannot be mapped.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// It has no zones, or not zones of pages.
    #[error("found {found}, expected sequential zones of whole pages of 4096 bytes")]
    Zones {
        /// Its zones.
        found: String,
    },
    /// Too few of its zones may be open.
    #[error("max_open: found {found}, expected 0 or at least {OPEN_ZONES}")]
    OpenZones {
        /// How many.
        found: u32,
    },
    /// Its zones do not suit the size.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The block layer refuses it.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// It has no hardware queue.
    #[error(transparent)]
    Queue(#[from] NoQueueLeft),
}

/// How a zoned device is mapped.
#[derive(Clone, Copy, Debug)]
pub struct MapOptions {
    /// The size of the device without zones.
    pub size: Bytes,
    /// Which zone is collected next.
    pub policy: Policy,
    /// Empty zones below which the collection begins, and those with which it ends.
    pub watermarks: (u32, u32),
}

/// A zoned device as one without zones.
pub struct MappedDevice {
    inner: Arc<dyn DeviceControl>,
    limits: Limits,
    port: Arc<Port<Mapper>>,
}

impl MappedDevice {
    /// Maps a device whose zones are all empty, and which keeps no data.
    ///
    /// # Errors
    /// The device has no such zones, or they are too few for the size.
    pub fn new(inner: Arc<dyn DeviceControl>, options: MapOptions) -> Result<Self, MapError> {
        let shape = shape(&*inner, options)?;
        let zoned = inner.limits();
        let limits = Limits {
            lba_size: zoned.lba_size,
            max_sectors: zoned.max_sectors,
            max_write_zeroes_sectors: 0,
            nr_queues: zoned.nr_queues,
            queue_depth: zoned.queue_depth,
            ..Limits::regular(options.size.to_sectors())
        };
        let queue_options =
            QueueOptions { zone_write: Some(ZoneWrite::Plug), ..QueueOptions::default() };
        let queue = Queue::attach(Arc::clone(&inner) as Arc<dyn Device>, queue_options)?;
        let channel = queue.channel()?;
        let port = Port::new(Mapper::new(channel, Translation::new(shape)?));
        Ok(MappedDevice { inner, limits, port })
    }
}

/// The translation layer whose superblocks are the zones of a device.
fn shape(inner: &dyn DeviceControl, options: MapOptions) -> Result<Shape, MapError> {
    let limits = inner.limits();
    let mut zones = Vec::new();
    let reported = inner.report_zones(ZoneNo(0), limits.nr_zones as usize, &mut zones);
    let capacity = zones.first().map_or(Sector(0), |zone| zone.capacity);
    let page = Bytes(PAGE.into()).to_sectors();
    let alike = |zone: &Zone| {
        zone.kind == ZoneKind::SequentialRequired
            && zone.cond == ZoneCondition::Empty
            && zone.capacity == capacity
    };
    let usable = reported.is_ok() && zones.iter().all(alike) && capacity.0.is_multiple_of(page.0);
    if zones.is_empty() || !usable {
        let found = format!("{} zones, the first of {} sectors", limits.nr_zones, capacity.0);
        return Err(MapError::Zones { found });
    }
    if (1..OPEN_ZONES).contains(&limits.max_open_zones) {
        return Err(MapError::OpenZones { found: limits.max_open_zones });
    }
    let pages = |sectors: Sector| u32::try_from(sectors.0 / page.0).unwrap_or(u32::MAX);
    let (low, high) = options.watermarks;
    Ok(Shape {
        logical_pages: pages(options.size.to_sectors()),
        superblocks: limits.nr_zones,
        superblock_pages: pages(capacity),
        groups: 1,
        streams: vec![Isolation::Initial],
        // The host's pages and those of the collection each have their place in the order in which
        // they are written.
        separate: true,
        policy: options.policy,
        low,
        high,
    })
}

impl Device for MappedDevice {
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
        ReadBufs::Untouched
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        self.port.open_queue()
    }
}

impl DeviceControl for MappedDevice {
    fn characteristics(&self) -> Vec<(&'static str, String)> {
        self.inner.characteristics()
    }

    fn stats(&self) -> DeviceStats {
        self.inner.stats()
    }

    fn translation(&self) -> Option<TranslationStats> {
        Some(self.port.with(|mapper| mapper.stats()))
    }

    fn levels(&self) -> Vec<Level> {
        self.inner.levels()
    }

    fn trace_flash(&self, sink: FlashTraceSink) -> bool {
        self.inner.trace_flash(sink)
    }

    fn lateness(&self) -> Option<Lateness> {
        self.inner.lateness()
    }
}
