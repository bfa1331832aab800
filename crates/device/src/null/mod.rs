//! The null device: a zoned or regular block device that takes no time unless configured to.
//!
//! It is the user-space counterpart of Linux's null_blk: reads beyond the write pointer succeed and
//! return zeroes, flushes succeed, and data are kept only with `memory=true`. A command takes effect
//! at one moment between its start and its completion.
mod config;
mod kind;
mod queue;

use crate::config::ConfigError;
use crate::control::{DeviceControl, Lateness, MediumAccess};
use crate::rng::Rng;
use crate::storage::{Storage, Stored};
use crate::zones::Zones;
pub(crate) use config::KIND;
pub use config::NullConfig;
use queue::{Constant, Immediate, Jittered};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use zonal_blk::{
    Device, HwQueue, Limits, Nanos, Op, ReadBufs, Request, Status, Zone, ZoneCondition,
    ZoneExtensions, ZoneNo,
};

/// A null device.
pub struct NullDevice {
    limits: Limits,
    storage: Storage,
    latency: Nanos,
    jitter: Nanos,
    seed: u64,
    /// Hardware queues opened so far: each has its own random sequence.
    opened: AtomicU64,
    /// Commands that have completed, and those of them that were late, if commands take time.
    completions: AtomicU64,
    late: AtomicU64,
    /// The sum of the times by which they were late, and the largest, in nanoseconds.
    total: AtomicU64,
    largest: AtomicU64,
}

impl NullDevice {
    /// Creates a device, all of its sequential zones empty.
    ///
    /// # Errors
    /// The first rule that the configuration breaks.
    pub fn new(config: &NullConfig) -> Result<Self, ConfigError> {
        let limits = config.limits()?;
        Ok(NullDevice {
            storage: config.storage(&limits),
            limits,
            latency: config.latency,
            jitter: config.jitter,
            seed: config.seed,
            opened: AtomicU64::new(0),
            completions: AtomicU64::new(0),
            late: AtomicU64::new(0),
            total: AtomicU64::new(0),
            largest: AtomicU64::new(0),
        })
    }

    /// Counts what a hardware queue has completed.
    fn count(&self, Lateness { completions, late, total, largest }: Lateness) {
        if completions > 0 {
            self.completions.fetch_add(completions, Ordering::Relaxed);
        }
        if late > 0 {
            self.late.fetch_add(late, Ordering::Relaxed);
        }
        if total.0 > 0 {
            self.total.fetch_add(total.0, Ordering::Relaxed);
            self.largest.fetch_max(largest.0, Ordering::Relaxed);
        }
    }

    /// The random numbers of one more hardware queue.
    fn next_rng(&self) -> Rng {
        Rng::new(self.seed.wrapping_add(self.opened.fetch_add(1, Ordering::Relaxed)))
    }

    /// The device's zones; `None` for a regular device.
    pub fn zones(&self) -> Option<&Zones> {
        self.storage.zones().ok()
    }

    /// Makes a zone read-only or offline, or repairs it, which loses the data of a sequential zone:
    /// see [`Zones::set_condition`].
    ///
    /// # Errors
    /// [`Status::NotSupported`] without zones; [`Status::Invalid`] for a zone that does not exist or
    /// a condition that cannot be set.
    pub fn set_condition(&self, zone: ZoneNo, to: ZoneCondition) -> Result<(), Status> {
        self.storage.set_condition(zone, to)
    }

    /// Executes a command and sets its status.
    #[inline(always)]
    fn execute(&self, request: &mut Request) {
        let result = match request.op() {
            Op::Write => self.storage.write(request),
            Op::Read => self.storage.read(request),
            _ => self.storage.apply(request, |_| {}),
        };
        match result {
            Ok(()) => request.set_status(Status::Ok),
            Err(status) => request.refuse(status),
        }
    }

    /// Prepares for a request that is executed soon: another thread may have written the zone last.
    #[inline]
    fn prefetch(&self, request: &Request) {
        if request.op() == Op::Write
            && let Ok(zones) = self.storage.zones()
        {
            zones.prefetch_for_write(request.zone());
        }
    }
}

impl Device for NullDevice {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn report_zones(&self, first: ZoneNo, max: usize, zones: &mut Vec<Zone>) -> Result<(), Status> {
        self.storage.zones()?.report(first, max, zones)
    }

    fn zones_as_new(&self, first: ZoneNo, max: u32) -> u32 {
        self.storage.zones().map_or(0, |zones| zones.as_new(first, max))
    }

    fn read_bufs(&self) -> ReadBufs {
        self.storage.read_bufs()
    }

    fn zone_extensions(&self) -> Option<&dyn ZoneExtensions> {
        self.zones()?.extensions()
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        let (latency, jitter) = (self.latency, self.jitter);
        match (latency, jitter) {
            (Nanos(0), Nanos(0)) => Box::new(Immediate::new(self)),
            (_, Nanos(0)) => Box::new(Constant::new(self, latency)),
            _ => {
                let rng = self.next_rng();
                Box::new(Jittered::new(self, latency, jitter, rng))
            }
        }
    }
}

impl DeviceControl for NullDevice {
    fn lateness(&self) -> Option<Lateness> {
        let takes_time = self.latency > Nanos(0) || self.jitter > Nanos(0);
        let counts = [&self.completions, &self.late, &self.total, &self.largest];
        let [completions, late, total, largest] = counts.map(|count| count.load(Ordering::Relaxed));
        let (total, largest) = (Nanos(total), Nanos(largest));
        takes_time.then_some(Lateness { completions, late, total, largest })
    }

    fn set_condition(&self, zone: ZoneNo, to: ZoneCondition) -> Result<(), Status> {
        NullDevice::set_condition(self, zone, to)
    }

    fn medium(&self) -> Option<&dyn MediumAccess> {
        Some(self)
    }
}

impl Stored for NullDevice {
    fn storage(&self) -> Result<&Storage, Status> {
        Ok(&self.storage)
    }
}
