//! What faults may do to a drive's zones and data past its commands, and who sees these.
use super::ZnsDevice;
use crate::control::{CommandObserver, FaultHooks};
use std::sync::Weak;
use zonal_blk::{Op, Request, Sector, Status, ZoneNo};

impl ZnsDevice {
    /// A zone's write pointer was moved by no command: what the buffer has of it is another.
    pub(super) fn moved(&self, zone: ZoneNo) {
        self.lock().reload_zone(zone);
    }
}

impl FaultHooks for ZnsDevice {
    fn write_part(&self, request: &mut Request, nr_sectors: u32) -> Result<(), Status> {
        let (zone, sector) = (request.zone(), request.sector());
        let medium = &self.medium;
        let zones = medium.zones()?;
        if request.op() == Op::ZoneAppend {
            zones.append(zone, nr_sectors, |landed| {
                medium.store_part(request, landed, nr_sectors);
            })?;
        } else {
            zones.write(zone, sector, nr_sectors, || {
                medium.store_part(request, sector, nr_sectors);
            })?;
        }
        self.moved(zone);
        Ok(())
    }

    fn read_raw(&self, sector: Sector, to: &mut [u8]) {
        match self.medium.memory() {
            Some(memory) => memory.read(sector, to),
            None => to.fill(0),
        }
    }

    fn write_raw(&self, sector: Sector, from: &[u8]) {
        if let Some(memory) = self.medium.memory() {
            memory.write(sector, from);
        }
    }

    fn rewind(&self, zone: ZoneNo, wp: Sector) -> Result<(), Status> {
        self.medium.zones()?.rewind(zone, wp, || self.medium.forget(zone, wp))?;
        self.moved(zone);
        Ok(())
    }

    fn close_all(&self) {
        if let Ok(zones) = self.medium.zones() {
            zones.close_all();
        }
    }

    fn drain(&self) {
        self.lock().drain();
    }

    fn set_observer(&self, observer: Weak<dyn CommandObserver>) -> bool {
        self.medium.observer.set(observer).is_ok()
    }
}
