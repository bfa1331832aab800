//! What faults may do to a null device past its hardware queues.
use super::NullDevice;
use crate::fault::Medium;
use zonal_blk::{Op, Request, Sector, Status, ZoneCondition, ZoneNo};

impl NullDevice {
    /// Keeps the first `nr_sectors` of a write that goes to `at`.
    fn store_part(&self, request: &mut Request, at: Sector, nr_sectors: u32) {
        let Some(memory) = &self.memory else {
            return;
        };
        let first = request.sector();
        let zeroes = request.op() == Op::WriteZeroes;
        let end = at + Sector(u64::from(nr_sectors));
        request.for_each_segment(|sector, len, buf| {
            let to = at + (sector - first);
            let len = u64::from(len).min(end.0.saturating_sub(to.0));
            match buf.filter(|_| !zeroes) {
                Some(buf) => {
                    let bytes = usize::try_from(len * 512).expect("a buffer fits in memory");
                    memory.write(to, &buf[..bytes]);
                }
                None => memory.zero(to, len),
            }
        });
    }
}

impl Medium for NullDevice {
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

    fn set_condition(&self, zone: ZoneNo, to: ZoneCondition) -> Result<(), Status> {
        NullDevice::set_condition(self, zone, to)
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
        let start = self.limits.zone_start(zone);
        zones.reset(zone, || self.zero_from(zone, wp))?;
        if wp > Sector(0) {
            let len = u32::try_from(wp.0).map_err(|_| Status::Invalid)?;
            zones.write(zone, start, len, || ())?;
            zones.close(zone)?;
        }
        Ok(())
    }

    fn close_all(&self) {
        let Some(zones) = &self.zones else {
            return;
        };
        for zone in (0..self.limits.nr_zones).map(ZoneNo) {
            // A zone that is not open stays as it is.
            let _not_open = zones.close(zone);
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
