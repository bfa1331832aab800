//! What a disk's commands do to its zones and data, who sees it, and what faults may do to them past
//! the drive.
use super::HddDevice;
use super::drive::Execute;
use crate::medium::{Medium, Witness};
use crate::null::NullDevice;
use std::sync::{OnceLock, Weak};
use zonal_blk::{Device, Request, Sector, Status, ZoneCondition, ZoneNo};

/// Zones and data, which cost no time.
pub(super) struct Store {
    place: Place,
    witness: OnceLock<Weak<dyn Witness>>,
}

enum Place {
    Here(Box<NullDevice>),
    /// With the device that asks how long commands take.
    Elsewhere {
        zone_size: Sector,
    },
}

impl Store {
    pub(super) fn own(device: NullDevice) -> Self {
        Store { place: Place::Here(Box::new(device)), witness: OnceLock::new() }
    }

    pub(super) fn elsewhere(zone_size: Sector) -> Self {
        Store { place: Place::Elsewhere { zone_size }, witness: OnceLock::new() }
    }

    pub(super) fn device(&self) -> Result<&NullDevice, Status> {
        match &self.place {
            Place::Here(device) => Ok(device),
            Place::Elsewhere { .. } => Err(Status::NotSupported),
        }
    }
}

impl Execute for Store {
    fn execute(&self, request: &mut Request) {
        let witness = self.witness.get().and_then(Weak::upgrade);
        if let Some(witness) = &witness {
            witness.before(request);
        }
        match &self.place {
            Place::Here(device) => device.execute(request),
            Place::Elsewhere { .. } => request.set_status(Status::Ok),
        }
        if let Some(witness) = witness {
            witness.after(None, request, request.status());
        }
    }

    fn zone(&self, request: &Request) -> (u64, u64) {
        let zone_size = match &self.place {
            Place::Here(device) => device.limits().zone_size,
            Place::Elsewhere { zone_size } => *zone_size,
        };
        let start = Sector(u64::from(request.zone().0) * zone_size.0);
        (start.to_bytes().0, (start + zone_size).to_bytes().0)
    }
}

impl Medium for HddDevice {
    fn write_part(&self, request: &mut Request, nr_sectors: u32) -> Result<(), Status> {
        self.store.device()?.write_part(request, nr_sectors)
    }

    fn set_condition(&self, zone: ZoneNo, to: ZoneCondition) -> Result<(), Status> {
        self.store.device()?.set_condition(zone, to)
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

    fn settle(&self) {
        self.drive().settle(&self.store);
    }

    fn watch(&self, witness: Weak<dyn Witness>) -> bool {
        self.store.witness.set(witness).is_ok()
    }
}
