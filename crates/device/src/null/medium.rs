//! What faults may do to a null device past its hardware queues.
use super::NullDevice;
use crate::control::FaultHooks;
use zonal_blk::{Op, Request, Sector, Status, ZoneNo};

impl NullDevice {
    /// Keeps the first `nr_sectors` of a write that goes to `at`.
    fn store_part(&self, request: &mut Request, at: Sector, nr_sectors: u32) {
        if let Some(memory) = &self.memory {
            memory.write_part(request, at, nr_sectors);
        }
    }
}

impl FaultHooks for NullDevice {
    fn write_part(&self, request: &mut Request, nr_sectors: u32) -> Result<(), Status> {
        let (zone, sector) = (request.zone(), request.sector());
        match &self.zones {
            None => {
                self.store_part(request, sector, nr_sectors);
                Ok(())
            }
            Some(zones) if request.op() == Op::ZoneAppend => {
                zones.append(zone, nr_sectors, |landed| {
                    self.store_part(request, landed, nr_sectors);
                })
            }
            Some(zones) => zones.write(zone, sector, nr_sectors, || {
                self.store_part(request, sector, nr_sectors);
            }),
        }
    }

    fn read_raw(&self, sector: Sector, to: &mut [u8]) {
        match &self.memory {
            Some(memory) => memory.read(sector, to),
            None => to.fill(0),
        }
    }

    fn write_raw(&self, sector: Sector, from: &[u8]) {
        if let Some(memory) = &self.memory {
            memory.write(sector, from);
        }
    }

    fn rewind(&self, zone: ZoneNo, wp: Sector) -> Result<(), Status> {
        let zones = self.zones.as_ref().ok_or(Status::NotSupported)?;
        zones.rewind(zone, wp, || self.zero_from(zone, wp))
    }

    fn close_all(&self) {
        if let Some(zones) = &self.zones {
            zones.close_all();
        }
    }
}

impl NullDevice {
    fn zero_from(&self, zone: ZoneNo, wp: Sector) {
        if let Some(memory) = &self.memory {
            let from = self.limits.zone_start(zone) + wp;
            memory.zero(from, (self.limits.zone_size - wp).0);
        }
    }
}
