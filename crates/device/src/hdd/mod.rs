//! The rotating disk: conventional or shingled, with the times of its mechanics.
//!
//! Takes requests through its hardware queue; gives them back when a disk would have done them.
//! Keeps true: what [`crate::zones`] keeps true; what the files here say each.
//!
//! ```text
//!   config     numbers, and the rules between them
//!   geometry   address -> radius, track, angle          seek     distance -> time
//!   buffer     what waits to be written                 segments what has been read
//!   drive      commands, and time passing               trace    what the head did
//!   link       commands and data in, answers out        head     reads and writes, in which order
//! ```
//!
//! All commands pass through one hardware queue, as AHCI has it.
mod buffer;
mod config;
mod drive;
mod geometry;
mod head;
mod link;
mod medium;
mod model;
mod seek;
mod segments;
mod trace;

use crate::null::{ConfigError, NullDevice};
pub use config::{HddConfig, HostInterface, Order, Recording};
use drive::Drive;
pub use geometry::{DiskLocation, Geometry};
use medium::DiskMedium;
pub use seek::SeekCurve;
use std::sync::{Arc, Mutex, MutexGuard};
pub use trace::{Counters, HeadActivity, TraceEntry};
use zonal_blk::{Bytes, Device, HwQueue, Limits, Nanos, Request, Status, Wake, Zone, ZoneNo};

/// A rotating disk.
pub struct HddDevice {
    config: HddConfig,
    limits: Limits,
    /// Zones and data, which cost no time.
    store: DiskMedium,
    drive: Mutex<Drive>,
}

impl HddDevice {
    /// Makes a disk, its heads at the outer edge, all of its sequential zones empty.
    ///
    /// # Errors
    /// The first rule that the configuration breaks.
    pub fn new(config: &HddConfig) -> Result<Self, ConfigError> {
        Self::with_trace(config, None)
    }

    /// The same, with a record of up to so many activities of the head.
    ///
    /// # Errors
    /// The first rule that the configuration breaks.
    pub fn with_trace(config: &HddConfig, entries: Option<usize>) -> Result<Self, ConfigError> {
        config.validate()?;
        let store = NullDevice::new(&config.null_config())?;
        let limits = config.disk_limits(store.limits());
        Ok(Self::with_store(config, limits, DiskMedium::owned(store), entries))
    }

    /// A disk that takes time for commands whose zones and data are elsewhere.
    ///
    /// # Errors
    /// The first rule that the configuration breaks.
    pub fn timing(config: &HddConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        let limits = config.disk_limits(NullDevice::new(&config.null_config())?.limits());
        let zone_size = limits.zone_size;
        Ok(Self::with_store(config, limits, DiskMedium::timing_only(zone_size), None))
    }

    fn with_store(
        config: &HddConfig,
        limits: Limits,
        store: DiskMedium,
        entries: Option<usize>,
    ) -> Self {
        HddDevice {
            config: config.clone(),
            limits,
            store,
            drive: Mutex::new(Drive::new(config, entries)),
        }
    }

    /// What the drive has done so far.
    pub fn counters(&self) -> Counters {
        self.drive().counters()
    }

    /// What waits in the drive's buffer to be written: bytes, and the commands they are of.
    pub fn buffered(&self) -> (Bytes, u32) {
        let (bytes, commands) = self.drive().buffered();
        (Bytes(bytes), commands)
    }

    /// What the head did, as far as the record goes; nothing without one.
    pub fn trace(&self) -> Vec<TraceEntry> {
        self.drive().trace().to_vec()
    }

    fn drive(&self) -> MutexGuard<'_, Drive> {
        self.drive.lock().expect("lock of the drive")
    }
}

impl Device for HddDevice {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn report_zones(&self, first: ZoneNo, max: usize, zones: &mut Vec<Zone>) -> Result<(), Status> {
        self.store.device()?.report_zones(first, max, zones)
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        Box::new(DriveQueue(self))
    }
}

/// The hardware queue. The drive outlives it, since it may still have something to write.
struct DriveQueue(Arc<HddDevice>);

impl HwQueue for DriveQueue {
    fn start(&mut self, now: Nanos, request: Box<Request>) -> Result<(), Box<Request>> {
        self.0.drive().start(now, request, &self.0.store);
        Ok(())
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Box<Request>>) {
        self.0.drive().poll(now, done, &self.0.store);
    }

    fn next_event(&self) -> Wake {
        self.0.drive().next_event().map_or(Wake::Idle, Wake::At)
    }
}
