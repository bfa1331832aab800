//! What a disk's commands do to its zones and data, who sees it, and what faults may do to them past
//! the drive.
use super::HddDevice;
use super::drive::CommandExecutor;
use crate::control::{CommandObserver, FaultHooks};
use crate::null::NullDevice;
use std::sync::{OnceLock, Weak};
use zonal_blk::{Device, Request, Sector, Status, ZoneNo};

/// Zones and data, which cost no time.
pub(super) struct DiskMedium {
    place: Backing,
    observer: OnceLock<Weak<dyn CommandObserver>>,
}

enum Backing {
    Own(Box<NullDevice>),
    /// With the device that asks how long commands take.
    External {
        zone_size: Sector,
    },
}

impl DiskMedium {
    pub(super) fn owned(device: NullDevice) -> Self {
        DiskMedium { place: Backing::Own(Box::new(device)), observer: OnceLock::new() }
    }

    pub(super) fn timing_only(zone_size: Sector) -> Self {
        DiskMedium { place: Backing::External { zone_size }, observer: OnceLock::new() }
    }

    pub(super) fn device(&self) -> Result<&NullDevice, Status> {
        match &self.place {
            Backing::Own(device) => Ok(device),
            Backing::External { .. } => Err(Status::NotSupported),
        }
    }
}

impl CommandExecutor for DiskMedium {
    fn execute(&self, request: &mut Request) {
        let observer = self.observer.get().and_then(Weak::upgrade);
        if let Some(observer) = &observer {
            observer.before(request);
        }
        match &self.place {
            Backing::Own(device) => device.execute(request),
            Backing::External { .. } => request.set_status(Status::Ok),
        }
        if let Some(observer) = observer {
            observer.after(None, request, request.status());
        }
    }

    fn zone(&self, request: &Request) -> (u64, u64) {
        let zone_size = match &self.place {
            Backing::Own(device) => device.limits().zone_size,
            Backing::External { zone_size } => *zone_size,
        };
        let start = Sector(u64::from(request.zone().0) * zone_size.0);
        (start.to_bytes().0, (start + zone_size).to_bytes().0)
    }
}

impl FaultHooks for HddDevice {
    fn write_part(&self, request: &mut Request, nr_sectors: u32) -> Result<(), Status> {
        self.store.device()?.write_part(request, nr_sectors)
    }

    fn read_raw(&self, sector: Sector, to: &mut [u8]) {
        if let Ok(device) = self.store.device() {
            device.read_raw(sector, to);
        }
    }

    fn write_raw(&self, sector: Sector, from: &[u8]) {
        if let Ok(device) = self.store.device() {
            device.write_raw(sector, from);
        }
    }

    fn rewind(&self, zone: ZoneNo, wp: Sector) -> Result<(), Status> {
        self.store.device()?.rewind(zone, wp)
    }

    fn close_all(&self) {
        if let Ok(device) = self.store.device() {
            device.close_all();
        }
    }

    fn drain(&self) {
        self.drive().drain(&self.store);
    }

    fn set_observer(&self, observer: Weak<dyn CommandObserver>) -> bool {
        self.store.observer.set(observer).is_ok()
    }
}
