//! What a disk's commands do to its zones and data, who sees it, and what faults may do to them past
//! the drive.
use super::HddDevice;
use super::drive::Execute;
use crate::fault::{Medium, Witness};
use crate::null::NullDevice;
use std::sync::{OnceLock, Weak};
use zonal_blk::{Device, Request, Sector, Status, ZoneCondition, ZoneNo};

/// Zones and data, which cost no time.
pub(super) struct Store {
    pub(super) device: NullDevice,
    witness: OnceLock<Weak<dyn Witness>>,
}

impl Store {
    pub(super) fn new(device: NullDevice) -> Self {
        Store { device, witness: OnceLock::new() }
    }
}

impl Execute for Store {
    fn execute(&self, request: &mut Request) {
        let witness = self.witness.get().and_then(Weak::upgrade);
        if let Some(witness) = &witness {
            witness.before(request);
        }
        self.device.execute(request);
        if let Some(witness) = witness {
            witness.after(None, request, request.status());
        }
    }

    fn zone(&self, request: &Request) -> (u64, u64) {
        let limits = self.device.limits();
        let start = limits.zone_start(request.zone());
        (start.to_bytes().0, (start + limits.zone_size).to_bytes().0)
    }
}

impl Medium for HddDevice {
    fn write_part(&self, request: &mut Request, nr_sectors: u32) -> Result<(), Status> {
        self.store.device.write_part(request, nr_sectors)
    }

    fn set_condition(&self, zone: ZoneNo, to: ZoneCondition) -> Result<(), Status> {
        self.store.device.set_condition(zone, to)
    }

    fn read_raw(&self, sector: Sector, to: &mut [u8]) {
        self.store.device.read_raw(sector, to);
    }

    fn write_raw(&self, sector: Sector, from: &[u8]) {
        self.store.device.write_raw(sector, from);
    }

    fn rewind(&self, zone: ZoneNo, wp: Sector) -> Result<(), Status> {
        self.store.device.rewind(zone, wp)
    }

    fn close_all(&self) {
        self.store.device.close_all();
    }

    fn settle(&self) {
        self.drive().settle(&self.store);
    }

    fn watch(&self, witness: Weak<dyn Witness>) -> bool {
        self.store.witness.set(witness).is_ok()
    }
}
