//! The null device: a zoned or regular device that costs no more time than it is told to.
//!
//! Takes requests through its hardware queues; gives them back with the status that a zoned
//! device would give. Keeps true: what [`crate::zones`] keeps true; a command has its effect at
//! one moment between its start and its completion; with `memory=true` reads give what was last
//! written, with a reset forgetting it.
//!
//! Like Linux's null_blk, after which it is named: reads beyond the write pointer succeed and give
//! zeroes, flushes succeed, and data are kept only if asked for.
mod config;
mod medium;
mod queue;

use crate::control::DeviceControl;
use crate::memory::Memory;
use crate::rng::Rng;
use crate::zones::Zones;
pub(crate) use config::rule;
pub use config::{ConfigError, NullConfig};
use queue::{Constant, Immediate, Jittered};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use zonal_blk::{
    Device, HwQueue, Limits, Nanos, Op, Request, Sector, Status, Zone, ZoneCondition, ZoneNo,
};

/// A null device.
pub struct NullDevice {
    limits: Limits,
    zones: Option<Zones>,
    memory: Option<Memory>,
    latency: Nanos,
    jitter: Nanos,
    seed: u64,
    /// Hardware queues opened so far: each has its own sequence of random numbers.
    opened: AtomicU64,
}

impl NullDevice {
    /// Makes a device, all of its sequential zones empty.
    ///
    /// # Errors
    /// The first rule that the configuration breaks.
    pub fn new(config: &NullConfig) -> Result<Self, ConfigError> {
        let mut limits = config.regular_limits()?;
        let zones = config.zoned.then(|| Zones::new(&config.layout()));
        if let Some(zones) = &zones {
            limits.zone_size = config.zone_size.to_sectors();
            limits.nr_zones = config.zones;
            limits.max_open_zones = zones.max_open();
            limits.max_active_zones = zones.max_active();
        }
        Ok(NullDevice {
            zones,
            memory: config.memory.then(|| Memory::new(limits.capacity)),
            limits,
            latency: config.latency,
            jitter: config.jitter,
            seed: config.seed,
            opened: AtomicU64::new(0),
        })
    }

    /// The random numbers of one more hardware queue.
    fn next_rng(&self) -> Rng {
        Rng::new(self.seed.wrapping_add(self.opened.fetch_add(1, Ordering::Relaxed)))
    }

    /// The device's zones; `None` for a regular device.
    pub fn zones(&self) -> Option<&Zones> {
        self.zones.as_ref()
    }

    /// Makes a zone fail, or mends it: see [`Zones::set_condition`]. Mending a sequential zone
    /// forgets its data.
    ///
    /// # Errors
    /// [`Status::NotSupported`] without zones; [`Status::Invalid`] for a zone that the device does
    /// not have or a condition that cannot be set.
    pub fn set_condition(&self, zone: ZoneNo, to: ZoneCondition) -> Result<(), Status> {
        let zones = self.zones.as_ref().ok_or(Status::NotSupported)?;
        if zone.0 >= self.limits.nr_zones {
            return Err(Status::Invalid);
        }
        zones.set_condition(zone, to, || self.forget(zone))
    }

    /// Takes a command up and ends it.
    #[inline]
    pub(crate) fn execute(&self, request: &mut Request) {
        let result = match &self.zones {
            Some(zones) => self.execute_zoned(zones, request),
            None => self.execute_regular(request),
        };
        request.set_status(result.err().unwrap_or(Status::Ok));
    }

    /// Prepares for a request that is executed soon. Another thread may have written the zone last.
    #[inline]
    fn prefetch(&self, request: &Request) {
        if request.op() == Op::Write
            && let Some(zones) = &self.zones
        {
            zones.prefetch_for_write(request.zone());
        }
    }

    #[inline]
    fn execute_zoned(&self, zones: &Zones, request: &mut Request) -> Result<(), Status> {
        let zone = request.zone();
        let (sector, nr_sectors) = (request.sector(), request.nr_sectors());
        match request.op() {
            Op::Write => zones.write(zone, sector, nr_sectors, || self.store(request)),
            Op::Read => zones.check_read(zone).map(|()| self.load(request)),
            Op::WriteZeroes => {
                zones.write(zone, sector, nr_sectors, || self.zero(sector, nr_sectors))
            }
            Op::ZoneAppend if self.limits.append_max_sectors == 0 => Err(Status::NotSupported),
            Op::ZoneAppend => zones.append(zone, nr_sectors, |landed| {
                request.set_append_sector(landed);
                self.store(request);
            }),
            Op::Flush => Ok(()),
            Op::Discard if !zones.is_conventional(zone) => Err(Status::NotSupported),
            Op::Discard => zones.write(zone, sector, nr_sectors, || self.zero(sector, nr_sectors)),
            Op::ZoneOpen => zones.open(zone),
            Op::ZoneClose => zones.close(zone),
            Op::ZoneFinish => zones.finish(zone),
            Op::ZoneReset => zones.reset(zone, || self.forget(zone)),
            Op::ZoneResetAll => {
                zones.reset_all(|zone| self.forget(zone));
                Ok(())
            }
        }
    }

    fn execute_regular(&self, request: &mut Request) -> Result<(), Status> {
        match request.op() {
            Op::Write => self.store(request),
            Op::Read => self.load(request),
            Op::WriteZeroes | Op::Discard => self.zero(request.sector(), request.nr_sectors()),
            Op::Flush => {}
            _ => return Err(Status::NotSupported),
        }
        Ok(())
    }

    /// Keeps a write's data; a bio without a buffer writes zeroes.
    #[inline]
    fn store(&self, request: &mut Request) {
        if let Some(memory) = &self.memory {
            request.for_each_segment(|sector, nr_sectors, buf| match buf {
                Some(buf) => memory.write(sector, buf),
                None => memory.zero(sector, nr_sectors.into()),
            });
        }
    }

    /// Gives a read its data.
    #[inline]
    fn load(&self, request: &mut Request) {
        if let Some(memory) = &self.memory {
            request.for_each_segment(|sector, _, buf| {
                if let Some(buf) = buf {
                    memory.read(sector, buf);
                }
            });
        }
    }

    fn zero(&self, sector: Sector, nr_sectors: u32) {
        if let Some(memory) = &self.memory {
            memory.zero(sector, nr_sectors.into());
        }
    }

    fn forget(&self, zone: ZoneNo) {
        if let Some(memory) = &self.memory {
            memory.zero(self.limits.zone_start(zone), self.limits.zone_size.0);
        }
    }
}

impl Device for NullDevice {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn report_zones(&self, first: ZoneNo, max: usize, zones: &mut Vec<Zone>) -> Result<(), Status> {
        let own = self.zones.as_ref().ok_or(Status::NotSupported)?;
        own.report(first, max, zones)
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
    fn set_condition(&self, zone: ZoneNo, to: ZoneCondition) -> Result<(), Status> {
        NullDevice::set_condition(self, zone, to)
    }
}
