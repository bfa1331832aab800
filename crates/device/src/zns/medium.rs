//! The effect of a command on the drive's zones, data and write buffer, apart from the time it takes.
//!
//! Zone random write areas are memory of their own: what lies in one takes no space in the write
//! buffer until it is committed.
use super::ZnsConfig;
use crate::storage::{ModelStorage, Storage};
use zonal_blk::{Op, Request, Sector, Status, ZoneNo};

/// The zones of a drive and their data.
pub(super) struct Medium {
    /// Without storage of its own, this is a model of time: commands always succeed.
    pub(super) storage: ModelStorage,
    nr_zones: u32,
    /// Zones can have random write areas.
    has_zrwa: bool,
}

/// The effect of a command on the write buffer.
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
        Medium { storage, nr_zones: config.zones, has_zrwa: config.zrwa.0 > 0 }
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
            (Op::Write, Some(storage)) if !self.has_zrwa => {
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
        let moved = match request.op() {
            Op::Write | Op::WriteZeroes if self.has_zrwa => {
                let (zone, sector, len) = (request.zone(), request.sector(), request.nr_sectors());
                storage.zones()?.write_moving(zone, sector, len, || storage.store(request))?
            }
            Op::ZrwaFlush => {
                let to = Sector(request.nr_sectors().into());
                storage.zones()?.commit(request.zone(), to)?
            }
            op => {
                storage.apply(request, |zone| effect.emptied.push(zone))?;
                Sector(if op.is_write() { request.nr_sectors().into() } else { 0 })
            }
        };
        effect.buffer_bytes = moved.to_bytes().0;
        Ok(())
    }
}
