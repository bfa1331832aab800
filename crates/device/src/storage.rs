//! The zones and data of an emulated device, and the one place where a command is applied to it.
//!
//! [`apply`] checks a command against its zone, changes the zone and moves the data. In a
//! sequential zone all of that happens under the zone's lock, so that a reset comes before or after
//! a write, never between the write and its data.
//!
//! The null device, the disk and the ZNS drive keep their data in memory, or not at all. An image
//! applies commands with [`Deferred`] data and transfers them to or from its file afterwards.
use crate::config::WrittenZones;
use crate::control::{CommandObserver, DeviceControl, FaultHooks};
use crate::memory::Memory;
use crate::zones::{ZoneLayout, Zones};
use std::sync::{Arc, OnceLock, Weak};
use zonal_blk::{Limits, Op, ReadBufs, Request, Sector, Status, ZoneCondition, ZoneNo};

/// The data of a device, as far as a command moves them.
pub(crate) trait Data {
    /// Stores what a write or an append holds, at the request's sector.
    fn write(&self, request: &mut Request);

    /// Fills the buffers of a read.
    fn read(&self, request: &mut Request);

    /// Makes a range read as zeroes.
    fn zero(&self, sector: Sector, nr_sectors: u64);
}

impl Data for Option<Memory> {
    #[inline]
    fn write(&self, request: &mut Request) {
        if let Some(memory) = self {
            request.for_each_segment(|sector, nr_sectors, buf| match buf {
                Some(buf) => memory.write(sector, buf),
                None => memory.zero(sector, nr_sectors.into()),
            });
        }
    }

    #[inline]
    fn read(&self, request: &mut Request) {
        if let Some(memory) = self {
            request.for_each_segment(|sector, _, buf| {
                if let Some(buf) = buf {
                    memory.read(sector, buf);
                }
            });
        }
    }

    fn zero(&self, sector: Sector, nr_sectors: u64) {
        if let Some(memory) = self {
            memory.zero(sector, nr_sectors);
        }
    }
}

/// Data that the caller moves once the command has been applied.
pub(crate) struct Deferred;

impl Data for Deferred {
    fn write(&self, _request: &mut Request) {}
    fn read(&self, _request: &mut Request) {}
    fn zero(&self, _sector: Sector, _nr_sectors: u64) {}
}

/// Applies a command to the zones and data of a zoned device. `emptied` is called for each zone
/// that a reset has emptied, under the zone's lock.
///
/// # Errors
/// The status that the command fails with; it has changed nothing then.
#[inline]
pub(crate) fn apply(
    zones: &Zones,
    data: &impl Data,
    native_append: bool,
    request: &mut Request,
    mut emptied: impl FnMut(ZoneNo),
) -> Result<(), Status> {
    let zone = request.zone();
    let (sector, nr_sectors) = (request.sector(), request.nr_sectors());
    let zero = || data.zero(sector, nr_sectors.into());
    let mut empty = |zone| {
        data.zero(zones.start(zone), zones.zone_size().0);
        emptied(zone);
    };
    match request.op() {
        Op::Write => zones.write(zone, sector, nr_sectors, || data.write(request)),
        Op::Read => zones.check_read(zone).map(|()| data.read(request)),
        Op::WriteZeroes => zones.write(zone, sector, nr_sectors, zero),
        Op::ZoneAppend if !native_append => Err(Status::NotSupported),
        Op::ZoneAppend => zones.append(zone, nr_sectors, |landed| {
            request.set_append_sector(landed);
            data.write(request);
        }),
        Op::Flush => Ok(()),
        Op::Discard if !zones.is_conventional(zone) => Err(Status::NotSupported),
        Op::Discard => zones.write(zone, sector, nr_sectors, zero),
        Op::ZoneOpen => zones.open(zone),
        Op::ZoneOpenZrwa => zones.open_zrwa(zone),
        Op::ZrwaFlush => zones.commit(zone, Sector(nr_sectors.into())).map(|_| ()),
        Op::ZoneClose => zones.close(zone),
        Op::ZoneFinish => zones.finish(zone),
        Op::ZoneReset => zones.reset(zone, || empty(zone)),
        Op::ZoneResetAll => {
            zones.reset_all(empty);
            Ok(())
        }
    }
}

/// The zones of a device, if it has any, and its data, if it keeps them.
pub(crate) struct Storage {
    zones: Option<Zones>,
    data: Option<Memory>,
    native_append: bool,
}

impl Storage {
    /// New storage, all of its sequential zones empty.
    pub(crate) fn new(limits: &Limits, layout: Option<&ZoneLayout>, keeps_data: bool) -> Self {
        Storage {
            zones: layout.map(Zones::new),
            data: keeps_data.then(|| Memory::new(limits.capacity)),
            native_append: limits.append_max_sectors > 0,
        }
    }

    /// The zones; [`Status::NotSupported`] on a regular device.
    #[inline]
    pub(crate) fn zones(&self) -> Result<&Zones, Status> {
        self.zones.as_ref().ok_or(Status::NotSupported)
    }

    /// Applies a command; see [`apply`].
    #[inline]
    pub(crate) fn apply(
        &self,
        request: &mut Request,
        emptied: impl FnMut(ZoneNo),
    ) -> Result<(), Status> {
        match &self.zones {
            Some(zones) => apply(zones, &self.data, self.native_append, request, emptied),
            None => self.apply_regular(request),
        }
    }

    /// Applies a write; see [`apply`].
    #[inline(always)]
    pub(crate) fn write(&self, request: &mut Request) -> Result<(), Status> {
        let Some(zones) = &self.zones else { return self.apply_regular(request) };
        let (zone, sector, nr_sectors) = (request.zone(), request.sector(), request.nr_sectors());
        zones.write(zone, sector, nr_sectors, || self.data.write(request))
    }

    /// Applies a read; see [`apply`].
    #[inline]
    pub(crate) fn read(&self, request: &mut Request) -> Result<(), Status> {
        if let Some(zones) = &self.zones {
            zones.check_read(request.zone())?;
        }
        self.data.read(request);
        Ok(())
    }

    fn apply_regular(&self, request: &mut Request) -> Result<(), Status> {
        match request.op() {
            Op::Write => self.data.write(request),
            Op::Read => self.data.read(request),
            Op::WriteZeroes | Op::Discard => {
                self.data.zero(request.sector(), request.nr_sectors().into());
            }
            Op::Flush => {}
            _ => return Err(Status::NotSupported),
        }
        Ok(())
    }

    /// The treatment of buffers by reads.
    pub(crate) fn read_bufs(&self) -> ReadBufs {
        if self.data.is_some() { ReadBufs::Filled } else { ReadBufs::Untouched }
    }

    /// Stores the data of a write whose effect on the zone the caller sees to.
    pub(crate) fn store(&self, request: &mut Request) {
        self.data.write(request);
    }

    /// See [`DeviceControl::set_condition`].
    pub(crate) fn set_condition(&self, zone: ZoneNo, to: ZoneCondition) -> Result<(), Status> {
        let zones = self.zones()?;
        if zone.0 >= zones.nr_zones() {
            return Err(Status::Invalid);
        }
        zones.set_condition(zone, to, || self.data.zero(zones.start(zone), zones.zone_size().0))
    }

    /// Empties all zones, in whatever condition they are. Zones that were never used cost nothing.
    pub(crate) fn format(&self) -> Result<(), Status> {
        let zones = self.zones()?;
        let nr_zones = zones.nr_zones();
        let mut next = 0;
        while next < nr_zones {
            let zone = ZoneNo(next);
            match zones.as_new(zone, nr_zones - next) {
                0 => {
                    let conventional = zones.is_conventional(zone);
                    if conventional {
                        self.data.zero(zones.start(zone), zones.zone_size().0);
                    }
                    let to = if conventional {
                        ZoneCondition::NotWritePointer
                    } else {
                        ZoneCondition::Empty
                    };
                    self.set_condition(zone, to)?;
                    next += 1;
                }
                unused => next += unused,
            }
        }
        Ok(())
    }

    fn write_part(&self, request: &mut Request, nr_sectors: u32) -> Result<(), Status> {
        let (zone, sector) = (request.zone(), request.sector());
        let store = |request: &mut Request, at| {
            if let Some(memory) = &self.data {
                memory.write_part(request, at, nr_sectors);
            }
        };
        match &self.zones {
            None => {
                store(request, sector);
                Ok(())
            }
            Some(zones) if request.op() == Op::ZoneAppend => {
                zones.append(zone, nr_sectors, |landed| store(request, landed))
            }
            Some(zones) => zones.write(zone, sector, nr_sectors, || store(request, sector)),
        }
    }

    fn rewind(&self, zone: ZoneNo, wp: Sector) -> Result<(), Status> {
        let zones = self.zones()?;
        zones.rewind(zone, wp, || {
            self.data.zero(zones.start(zone) + wp, (zones.zone_size() - wp).0);
        })
    }
}

/// The storage of a device model: its own, or none in a model that only adds latency to an image.
pub(crate) struct ModelStorage {
    own: Option<Storage>,
    observer: OnceLock<Weak<dyn CommandObserver>>,
}

impl ModelStorage {
    pub(crate) fn own(storage: Storage) -> Self {
        ModelStorage { own: Some(storage), observer: OnceLock::new() }
    }

    /// For a model of time: zones and data are elsewhere.
    pub(crate) fn timing_only() -> Self {
        ModelStorage { own: None, observer: OnceLock::new() }
    }

    /// The storage; [`Status::NotSupported`] in a model of time.
    pub(crate) fn get(&self) -> Result<&Storage, Status> {
        self.own.as_ref().ok_or(Status::NotSupported)
    }

    /// The storage, if there is any and nobody observes it.
    #[inline]
    pub(crate) fn unobserved(&self) -> Option<&Storage> {
        self.own.as_ref().filter(|_| self.observer.get().is_none())
    }

    /// Applies a command of hardware queue `queue` with `apply`, which gets the storage if there is
    /// any, and shows it to the observer before and after.
    pub(crate) fn observed<R>(
        &self,
        queue: Option<u16>,
        request: &mut Request,
        apply: impl FnOnce(Option<&Storage>, &mut Request) -> Result<R, Status>,
    ) -> Result<R, Status> {
        let Some(observer) = self.observer.get().and_then(Weak::upgrade) else {
            return apply(self.own.as_ref(), request);
        };
        observer.before(request);
        let result = apply(self.own.as_ref(), request);
        let status = result.as_ref().map_or_else(|&status| status, |_| Status::Ok);
        observer.after(queue, request, status);
        result
    }

    /// Sets the observer, once.
    pub(crate) fn set_observer(&self, observer: Weak<dyn CommandObserver>) -> bool {
        self.observer.set(observer).is_ok()
    }
}

/// A device of this crate whose storage fault hooks reach.
pub(crate) trait Stored: DeviceControl {
    /// The storage, if it is here.
    fn storage(&self) -> Result<&Storage, Status>;

    /// A zone's write pointer or condition has changed past the hardware queues.
    fn zone_changed(&self, _zone: ZoneNo) {}

    /// See [`FaultHooks::drain`].
    fn complete_pending(&self) {}

    /// See [`FaultHooks::set_observer`].
    fn observe(&self, _observer: Weak<dyn CommandObserver>) -> bool {
        false
    }
}

/// The device with these zones finished, as if they had been written.
pub(crate) fn with_written(
    device: impl Stored + 'static,
    written: &WrittenZones,
) -> Arc<dyn DeviceControl> {
    if let Ok(zones) = device.storage().and_then(Storage::zones) {
        for zone in written.zones(zones.nr_zones()) {
            // Conventional zones have no write pointer.
            if zones.finish(zone).is_ok() {
                device.zone_changed(zone);
            }
        }
    }
    Arc::new(device)
}

impl<D: Stored> FaultHooks for D {
    fn write_part(&self, request: &mut Request, nr_sectors: u32) -> Result<(), Status> {
        self.storage()?.write_part(request, nr_sectors)?;
        self.zone_changed(request.zone());
        Ok(())
    }

    fn read_raw(&self, sector: Sector, to: &mut [u8]) {
        match self.storage().map(|storage| &storage.data) {
            Ok(Some(memory)) => memory.read(sector, to),
            _ => to.fill(0),
        }
    }

    fn write_raw(&self, sector: Sector, from: &[u8]) {
        if let Ok(Some(memory)) = self.storage().map(|storage| &storage.data) {
            memory.write(sector, from);
        }
    }

    fn rewind(&self, zone: ZoneNo, wp: Sector) -> Result<(), Status> {
        self.storage()?.rewind(zone, wp)?;
        self.zone_changed(zone);
        Ok(())
    }

    fn close_all(&self) {
        if let Ok(zones) = self.storage().and_then(Storage::zones) {
            zones.close_all();
        }
    }

    fn drain(&self) {
        self.complete_pending();
    }

    fn set_observer(&self, observer: Weak<dyn CommandObserver>) -> bool {
        self.observe(observer)
    }
}
