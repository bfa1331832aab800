//! The ZNS drive: an NVMe flash drive with zones, as a model of what takes time in it.
//!
//! Takes requests through its hardware queues; gives them back when a drive of these parts would.
//! Keeps true: what [`crate::zones`] keeps true, and what each part below says of itself; the same
//! commands at the same times end at the same times.
//!
//! ```text
//!  queue --\
//!  queue ---+--> drive      the controller takes commands up, one at a time
//!  queue --/       |
//!                medium     zones, write pointers, data: what a command does
//!                  |
//!                buffer     data of writes, gathered into units that can be programmed
//!                  |        (stripe: which unit lies on which die)
//!                flash      dies that read, program and erase, and the channels to them
//! ```
//!
//! Everything happens at a time that is known when its cause happens, so the drive is a list of
//! events to come (`events`), and whoever starts or polls a command lets all happen that is due.
//! The hardware queues share the drive behind one lock, taken once a call.
//!
//! `docs/models.md` has the parameters, where they come from, and what the model leaves out.
mod buffer;
mod config;
mod drive;
mod event_queue;
mod fault;
mod flash;
mod medium;
mod model;
mod stripe;
mod zrwa;

use crate::null::{ConfigError, rule};
use crate::quantity::format_size;
use crate::zones::Zones;
pub use config::ZnsConfig;
use drive::Drive;
use medium::Medium;
use std::sync::{Arc, Mutex, MutexGuard};
use zonal_blk::{
    Bytes, Device, HwQueue, Limits, Nanos, Request, Sector, Status, Wake, Zone, ZoneCondition,
    ZoneNo,
};

/// A ZNS drive.
pub struct ZnsDevice {
    config: ZnsConfig,
    limits: Limits,
    medium: Arc<Medium>,
    drive: Mutex<Drive>,
}

impl ZnsDevice {
    /// Makes a drive, all of its zones empty.
    ///
    /// # Errors
    /// The first rule that the configuration breaks.
    pub fn new(config: &ZnsConfig) -> Result<Self, ConfigError> {
        let limits = config.limits()?;
        let medium = Arc::new(Medium::new(config, limits.capacity));
        let drive = Mutex::new(Drive::new(config, Arc::clone(&medium)));
        Ok(ZnsDevice { config: config.clone(), limits, medium, drive })
    }

    /// A drive that takes time for commands whose zones and data are elsewhere; `state` says how
    /// many bytes each zone has, and its condition. A command that such a drive could not do must not
    /// come here.
    ///
    /// # Errors
    /// The first rule that the configuration breaks; it must have no random write areas.
    pub fn timing(
        config: &ZnsConfig,
        state: impl Fn(ZoneNo) -> (Bytes, ZoneCondition),
    ) -> Result<Self, ConfigError> {
        rule("zrwa", config.zrwa == Bytes(0), format_size(config.zrwa.0), || {
            "0 for a drive whose zones are in an image".to_owned()
        })?;
        let limits = config.limits()?;
        let medium = Arc::new(Medium::timing_only(config));
        let mut drive = Drive::new(config, Arc::clone(&medium));
        for zone in (0..config.zones).map(ZoneNo) {
            let (written, cond) = state(zone);
            drive.load_zone(zone, written, cond);
        }
        Ok(ZnsDevice { config: config.clone(), limits, medium, drive: Mutex::new(drive) })
    }

    /// The drive's zones, if it has them itself.
    pub fn zones(&self) -> Option<&Zones> {
        self.medium.zones().ok()
    }

    /// Bytes that the write buffer holds.
    pub fn buffered(&self) -> Bytes {
        Bytes(self.lock().buffered())
    }

    /// Commits a zone's random write area up to `to`: the explicit ZRWA flush of NVMe ZNS 1.1, for
    /// which the block layer has no operation.
    ///
    /// # Errors
    /// [`Status::NotSupported`] for a drive without such areas; [`Status::Invalid`] for a zone that
    /// the drive does not have or if `to` is not a granule's end in the area;
    /// [`Status::Again`] if the write buffer has no room at `now`; as [`Zones::write`].
    pub fn commit(&self, now: Nanos, zone: ZoneNo, to: Sector) -> Result<(), Status> {
        if zone.0 >= self.limits.nr_zones {
            return Err(Status::Invalid);
        }
        self.lock().commit(now, zone, to)
    }

    fn lock(&self) -> MutexGuard<'_, Drive> {
        self.drive.lock().expect("a thread died in the drive")
    }
}

impl Device for ZnsDevice {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn report_zones(&self, first: ZoneNo, max: usize, zones: &mut Vec<Zone>) -> Result<(), Status> {
        self.medium.zones()?.report(first, max, zones)
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        let number = self.lock().open_queue();
        Box::new(Queue { device: self, number })
    }
}

/// A hardware queue of the drive.
struct Queue {
    device: Arc<ZnsDevice>,
    number: usize,
}

impl HwQueue for Queue {
    fn start(&mut self, now: Nanos, request: Box<Request>) -> Result<(), Box<Request>> {
        self.device.lock().start(now, self.number, request);
        Ok(())
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Box<Request>>) {
        self.device.lock().poll(now, self.number, done);
    }

    fn next_event(&self) -> Wake {
        self.device.lock().next_event(self.number)
    }
}

/// How long so many bytes take at so many bytes a second, rounded up.
fn time_of(bytes: u64, rate: Bytes) -> Nanos {
    let nanos = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(rate.0));
    Nanos(u64::try_from(nanos).expect("rates of 1 MiB a second and more"))
}
