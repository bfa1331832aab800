//! What a drive's commands do to its zones and data, apart from the time that it takes.
//!
//! Takes requests; gives each a status, and what it means for the write buffer. Keeps true: what
//! [`crate::zones`] keeps true; with `memory=true` reads give what was last written, a reset
//! forgetting it.
use super::ZnsConfig;
use super::zrwa::Zrwa;
use crate::control::CommandObserver;
use crate::memory::Memory;
use crate::zones::Zones;
use std::sync::{OnceLock, Weak};
use zonal_blk::{Op, Request, Sector, Status, ZoneNo};

/// The zones of a drive and the data that they have.
pub(super) struct Medium {
    /// `None` if they are those of the device that asks how long commands take.
    zones: Option<Zones>,
    nr_zones: u32,
    memory: Option<Memory>,
    zone_size: Sector,
    area: Option<Zrwa>,
    pub(super) observer: OnceLock<Weak<dyn CommandObserver>>,
}

/// What a command means for the write buffer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Effect {
    /// Bytes that the write pointer of the zone moves by, and that need room.
    pub(super) room: u64,
    /// Zones that were emptied.
    pub(super) emptied: Vec<ZoneNo>,
}

impl Medium {
    pub(super) fn new(config: &ZnsConfig, capacity: Sector) -> Self {
        Medium {
            zones: Some(Zones::new(&config.layout())),
            nr_zones: config.zones,
            memory: config.memory.then(|| Memory::new(capacity)),
            zone_size: config.zone_size.to_sectors(),
            area: Zrwa::new(config),
            observer: OnceLock::new(),
        }
    }

    /// A medium whose zones and data are elsewhere: commands always succeed.
    pub(super) fn timing_only(config: &ZnsConfig) -> Self {
        Medium {
            zones: None,
            nr_zones: config.zones,
            memory: None,
            zone_size: config.zone_size.to_sectors(),
            area: None,
            observer: OnceLock::new(),
        }
    }

    /// The zones, if they are here.
    pub(super) fn zones(&self) -> Result<&Zones, Status> {
        self.zones.as_ref().ok_or(Status::NotSupported)
    }

    /// What a command means that was done elsewhere.
    fn timing_effect(&self, request: &Request) -> Effect {
        let mut effect = Effect::default();
        match request.op() {
            op if op.is_write() => {
                effect.room = Sector(request.nr_sectors().into()).to_bytes().0;
            }
            Op::ZoneReset => effect.emptied.push(request.zone()),
            Op::ZoneResetAll => effect.emptied.extend((0..self.nr_zones).map(ZoneNo)),
            _ => {}
        }
        effect
    }

    pub(super) fn memory(&self) -> Option<&Memory> {
        self.memory.as_ref()
    }

    pub(super) fn zone_start(&self, zone: ZoneNo) -> Sector {
        Sector(u64::from(zone.0) * self.zone_size.0)
    }

    /// Executes a command of a hardware queue.
    pub(super) fn execute(&self, queue: usize, request: &mut Request) -> Result<Effect, Status> {
        let Some(observer) = self.observer.get().and_then(Weak::upgrade) else {
            return self.take_effect(request);
        };
        observer.before(request);
        let result = self.take_effect(request);
        let queue = u16::try_from(queue).expect("hardware queues are counted in 16 bits");
        observer.after(Some(queue), request, result.as_ref().map_or_else(|&e| e, |_| Status::Ok));
        result
    }

    fn take_effect(&self, request: &mut Request) -> Result<Effect, Status> {
        let Some(zones) = &self.zones else {
            return Ok(self.timing_effect(request));
        };
        let zone = request.zone();
        let (sector, nr_sectors) = (request.sector(), request.nr_sectors());
        let mut effect = Effect::default();
        match request.op() {
            Op::Write | Op::WriteZeroes => {
                let moves = match &self.area {
                    None => {
                        zones.write(zone, sector, nr_sectors, || self.store(request))?;
                        Sector(nr_sectors.into())
                    }
                    Some(area) => self.write_in_area(zones, area, request)?,
                };
                effect.room = moves.to_bytes().0;
            }
            Op::ZoneAppend => {
                zones.append(zone, nr_sectors, |landed| {
                    request.set_append_sector(landed);
                    self.store(request);
                })?;
                effect.room = Sector(nr_sectors.into()).to_bytes().0;
            }
            Op::Read => {
                zones.check_read(zone)?;
                self.load(request);
            }
            Op::Flush => {}
            Op::Discard => return Err(Status::NotSupported),
            Op::ZoneOpen => zones.open(zone)?,
            Op::ZoneClose => zones.close(zone)?,
            Op::ZoneFinish => zones.finish(zone)?,
            Op::ZoneReset => {
                zones.reset(zone, || {
                    self.forget(zone, Sector(0));
                    effect.emptied.push(zone);
                })?;
            }
            Op::ZoneResetAll => zones.reset_all(|zone| {
                self.forget(zone, Sector(0));
                effect.emptied.push(zone);
            }),
        }
        Ok(effect)
    }

    /// A write in a random write area, or behind it; gives how far the write pointer moves.
    fn write_in_area(
        &self,
        zones: &Zones,
        area: &Zrwa,
        request: &mut Request,
    ) -> Result<Sector, Status> {
        let zone = request.zone();
        let start = self.zone_start(zone);
        let wp = zones.write_pointer(zone);
        let moves = area.write(wp - start, request.sector() - start, request.end() - start)?;
        let nr_sectors = u32::try_from(moves.0).expect("an area and a command are short");
        zones.write(zone, wp, nr_sectors, || self.store(request))?;
        Ok(moves)
    }

    /// Moves the write pointer of a zone with a random write area up to `to`; gives by how much.
    pub(super) fn commit(&self, zone: ZoneNo, to: Sector) -> Result<Sector, Status> {
        let area = self.area.as_ref().ok_or(Status::NotSupported)?;
        let zones = self.zones()?;
        let start = self.zone_start(zone);
        let wp = zones.write_pointer(zone);
        let to = to.0.checked_sub(start.0).ok_or(Status::Invalid)?;
        let moves = area.commit(wp - start, Sector(to))?;
        let nr_sectors = u32::try_from(moves.0).expect("an area is short");
        zones.write(zone, wp, nr_sectors, || {})?;
        Ok(moves)
    }

    /// Keeps a write's data; a bio without a buffer writes zeroes.
    fn store(&self, request: &mut Request) {
        if let Some(memory) = &self.memory {
            request.for_each_segment(|sector, nr_sectors, buf| match buf {
                Some(buf) => memory.write(sector, buf),
                None => memory.zero(sector, nr_sectors.into()),
            });
        }
    }

    /// Gives a read its data.
    fn load(&self, request: &mut Request) {
        if let Some(memory) = &self.memory {
            request.for_each_segment(|sector, _, buf| {
                if let Some(buf) = buf {
                    memory.read(sector, buf);
                }
            });
        }
    }

    /// Keeps the first `nr_sectors` of a write that goes to `at`.
    pub(super) fn store_part(&self, request: &mut Request, at: Sector, nr_sectors: u32) {
        if let Some(memory) = &self.memory {
            memory.write_part(request, at, nr_sectors);
        }
    }

    /// Forgets the data of a zone from `from` on, from its start.
    pub(super) fn forget(&self, zone: ZoneNo, from: Sector) {
        if let Some(memory) = &self.memory {
            memory.zero(self.zone_start(zone) + from, (self.zone_size - from).0);
        }
    }
}
