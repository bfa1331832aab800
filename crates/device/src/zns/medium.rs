//! What a command does to the drive's zones, data and write buffer, apart from the time it takes;
//! and the rules of zone random write areas.
//!
//! ```text
//!        write pointer
//!    ...------|---------------|---------------|
//!     written       ZRWA         implicit commit region: a write that ends here advances the
//!                                write pointer by whole granules until its end is in the ZRWA
//! ```
//!
//! The rules are those of NVMe ZNS 1.1, section 5.7 (implicit commits and the ZRWA flush). The
//! areas are memory of their own: what lies in one takes no space in the write buffer until it is
//! committed.
use super::ZnsConfig;
use crate::storage::{ModelStorage, Storage};
use zonal_blk::{Op, Request, Sector, Status, ZoneNo};

/// The zones of a drive and their data.
pub(super) struct Medium {
    /// Without storage of its own, this is a model of time: commands always succeed.
    pub(super) storage: ModelStorage,
    nr_zones: u32,
    zrwa: Option<Zrwa>,
}

/// What a command means for the write buffer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Effect {
    /// Bytes by which the write pointer advances; they need space in the buffer.
    pub(super) buffer_bytes: u64,
    /// Zones that a reset has emptied.
    pub(super) emptied: Vec<ZoneNo>,
}

impl Effect {
    /// Nothing, as of a new command.
    pub(super) fn clear(&mut self) {
        self.buffer_bytes = 0;
        self.emptied.clear();
    }
}

fn bytes_of(request: &Request) -> u64 {
    Sector(request.nr_sectors().into()).to_bytes().0
}

impl Medium {
    pub(super) fn new(config: &ZnsConfig, storage: ModelStorage) -> Self {
        Medium { storage, nr_zones: config.zones, zrwa: Zrwa::new(config) }
    }

    /// Executes a command of a hardware queue. Adds what it means for the write buffer to `effect`,
    /// which is without meaning if the command fails.
    #[inline(always)]
    pub(super) fn execute(
        &self,
        queue: usize,
        request: &mut Request,
        effect: &mut Effect,
    ) -> Result<(), Status> {
        match (request.op(), self.storage.unobserved()) {
            (Op::Write, Some(storage)) if self.zrwa.is_none() => {
                effect.buffer_bytes = bytes_of(request);
                storage.write(request)
            }
            (Op::Read, Some(storage)) => storage.read(request),
            _ => self.execute_any(queue, request, effect),
        }
    }

    /// The same for every kind of command.
    #[inline(never)]
    fn execute_any(
        &self,
        queue: usize,
        request: &mut Request,
        effect: &mut Effect,
    ) -> Result<(), Status> {
        let queue = u16::try_from(queue).expect("hardware queues are counted in 16 bits");
        self.storage.observed(Some(queue), request, |storage, request| match storage {
            Some(storage) => self.apply(storage, request, effect),
            None => {
                self.timing_effect(request, effect);
                Ok(())
            }
        })
    }

    /// The effect of a command that was executed elsewhere.
    fn timing_effect(&self, request: &Request, effect: &mut Effect) {
        match request.op() {
            op if op.is_write() => effect.buffer_bytes = bytes_of(request),
            Op::ZoneReset => effect.emptied.push(request.zone()),
            Op::ZoneResetAll => effect.emptied.extend((0..self.nr_zones).map(ZoneNo)),
            _ => {}
        }
    }

    fn apply(
        &self,
        storage: &Storage,
        request: &mut Request,
        effect: &mut Effect,
    ) -> Result<(), Status> {
        match (&self.zrwa, request.op()) {
            (Some(zrwa), Op::Write | Op::WriteZeroes) => {
                effect.buffer_bytes = write_zrwa(storage, zrwa, request)?.to_bytes().0;
            }
            (_, op) => {
                storage.apply(request, |zone| effect.emptied.push(zone))?;
                if op.is_write() {
                    effect.buffer_bytes = bytes_of(request);
                }
            }
        }
        Ok(())
    }

    /// Commits a zone's ZRWA up to `to`; returns how far the write pointer has advanced.
    pub(super) fn commit(&self, zone: ZoneNo, to: Sector) -> Result<Sector, Status> {
        let zrwa = self.zrwa.as_ref().ok_or(Status::NotSupported)?;
        let zones = self.storage.get()?.zones()?;
        let start = zones.start(zone);
        let wp = zones.write_pointer(zone);
        let to = to.0.checked_sub(start.0).ok_or(Status::Invalid)?;
        let advance = zrwa.commit(wp - start, Sector(to))?;
        let nr_sectors = u32::try_from(advance.0).expect("an area is short");
        zones.write(zone, wp, nr_sectors, || {})?;
        Ok(advance)
    }
}

/// A write in a zone's ZRWA or beyond it; returns how far it advances the write pointer.
fn write_zrwa(storage: &Storage, zrwa: &Zrwa, request: &mut Request) -> Result<Sector, Status> {
    let zones = storage.zones()?;
    let zone = request.zone();
    let start = zones.start(zone);
    let wp = zones.write_pointer(zone);
    let advance = zrwa.write(wp - start, request.sector() - start, request.end() - start)?;
    let nr_sectors = u32::try_from(advance.0).expect("an area and a command are short");
    zones.write(zone, wp, nr_sectors, || storage.store(request))?;
    Ok(advance)
}

/// The zone random write area (ZRWA) of a drive's zones, in sectors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Zrwa {
    size: u64,
    granularity: u64,
    capacity: u64,
}

impl Zrwa {
    /// `None` for a drive without ZRWA.
    pub(super) fn new(config: &ZnsConfig) -> Option<Self> {
        let sectors = |bytes: zonal_blk::Bytes| bytes.to_sectors().0;
        (config.zrwa.0 > 0).then(|| Zrwa {
            size: sectors(config.zrwa),
            granularity: sectors(config.zrwa_granularity),
            capacity: sectors(config.zone_capacity),
        })
    }

    /// How far a write of `from..to` advances the write pointer from `wp`; all are offsets in the
    /// zone.
    ///
    /// # Errors
    /// [`Status::IoError`] for a write below the write pointer or too far beyond it.
    pub(super) fn write(&self, wp: Sector, from: Sector, to: Sector) -> Result<Sector, Status> {
        let zrwa_end = wp.0 + self.size;
        if from < wp || to.0 > zrwa_end + self.size || to.0 > self.capacity {
            return Err(Status::IoError);
        }
        let beyond = to.0.saturating_sub(zrwa_end);
        Ok(Sector(beyond.next_multiple_of(self.granularity).min(self.capacity - wp.0)))
    }

    /// How far a commit up to `to` advances the write pointer from `wp`.
    ///
    /// # Errors
    /// [`Status::Invalid`] if `to` is not the end of a granule in the ZRWA.
    pub(super) fn commit(&self, wp: Sector, to: Sector) -> Result<Sector, Status> {
        let moves = to.0.checked_sub(wp.0).ok_or(Status::Invalid)?;
        let in_zrwa = to.0 <= (wp.0 + self.size).min(self.capacity);
        let whole = moves.is_multiple_of(self.granularity) || to.0 == self.capacity;
        if in_zrwa && whole { Ok(Sector(moves)) } else { Err(Status::Invalid) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZRWA: Zrwa = Zrwa { size: 8, granularity: 2, capacity: 30 };

    /// One granule at a time, until the end of the write is in the ZRWA.
    fn model(wp: u64, from: u64, to: u64) -> Option<u64> {
        let mut moved = wp;
        while to > moved + ZRWA.size && moved < ZRWA.capacity {
            moved = (moved + ZRWA.granularity).min(ZRWA.capacity);
        }
        (from >= wp && to <= ZRWA.capacity && to <= wp + 2 * ZRWA.size).then_some(moved - wp)
    }

    #[test]
    fn every_write_moves_the_pointer_as_if_granule_by_granule() {
        for wp in 0..=30 {
            for from in 0..=30 {
                for to in from + 1..=34 {
                    let moves = ZRWA.write(Sector(wp), Sector(from), Sector(to));
                    let moves = moves.ok().map(|moves| moves.0);
                    assert_eq!(moves, model(wp, from, to), "{wp}: {from}..{to}");
                }
            }
        }
    }

    #[test]
    fn commits_end_at_granules_of_the_zrwa_or_at_the_capacity() {
        for (wp, to, expected) in [
            (4, 4, Ok(0)),
            (4, 6, Ok(2)),
            (4, 12, Ok(8)),
            (4, 14, Err(Status::Invalid)),
            (4, 7, Err(Status::Invalid)),
            (4, 2, Err(Status::Invalid)),
            (25, 30, Ok(5)),
            (25, 31, Err(Status::Invalid)),
        ] {
            let moves = ZRWA.commit(Sector(wp), Sector(to)).map(|moves| moves.0);
            assert_eq!(moves, expected, "{wp} to {to}");
        }
    }
}
