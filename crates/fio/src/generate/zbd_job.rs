//! One job's offsets on a zoned device (`zonemode=zbd`).
//!
//! Writes go to the write pointer of the zone that the offset falls in; a full zone is reset before
//! it is written again; a zone with less room than a block is finished. Reads stay below write
//! pointers, unless `read_beyond_wp` is set; as in fio they go up to the end of a zone that was finished.
//! A trim resets its zone. With `zone_reset_frequency` every Nth write resets its zone first. A job that
//! reads and writes begins with a write, as in fio, and at random offsets writes where there is nothing
//! to read. A job that verifies what it writes resets its zones first, and none after but early ones, before which it verifies.
mod owned;
mod reads;
mod resets;
mod source;
mod trims;
mod writes;

use super::addresses::Addresses;
use super::zbd::{OwnedZone, Purpose, ZbdTable};
use super::{Io, NextIo, Region};
use crate::job::{DataDir, Job, Rw};
use crate::rng::Rng;
use owned::OwnedZones;
use resets::{EarlyResets, FirstResets};
use source::Source;
use std::sync::Arc;
use zonal_blk::{BioFlags, Device, Op, ZoneCondition, ZoneNo};

pub(super) struct ZbdJob {
    table: Arc<ZbdTable>,
    id: u32,
    random: bool,
    /// Smallest block sizes by direction.
    smallest: [u64; 3],
    /// Largest block size of writes.
    largest_write: u64,
    /// A zone with less room is full: the smallest block of writes, or a logical block with
    /// `write_zone_remainder`.
    least_room: u64,
    source: Source,
    /// Writes are appends.
    appends: bool,
    /// Bytes of a zone.
    zone_size: u64,
    /// Bytes from the start of the first zone to that of the region.
    skew: u64,
    first: u32,
    /// Zones are counted from `first` on.
    owned: OwnedZones,
    purpose: Purpose,
    /// The job may keep zones that it has no I/O in: it only writes, to any number of zones. It does
    /// so for as long as no other job uses the table, which saves the table's locks with each I/O.
    keeps: bool,
    /// Each zone is finished after its first write.
    finishes: bool,
    /// Zones released so far.
    releases: u64,
    read_beyond_wp: bool,
    /// The job reads and writes.
    mixed: bool,
    /// It has written in this pass.
    has_data: bool,
    resets: Option<Box<EarlyResets>>,
    /// What the job has written is verified: the next write may reset its zone.
    is_verified: bool,
    /// With `resets`, where the last write was before the one that was drawn last.
    drawn_after: u64,
    first_resets: Option<FirstResets>,
    leaves_zones: bool,
    /// The zone that the last write waits for: another job has it, or it is being reset.
    wanted: Option<u32>,
    /// Targets that could not be used yet, by direction.
    pending: [Option<Target>; 3],
    /// Zones below this one are streamed: the next write follows the last one if there is room. In a job
    /// that writes from beginning to end they are the zones that lie wholly in its region.
    streamed: u32,
    /// The zone of the last write, if the next one follows it: the source then learns where the job is
    /// only when this ends.
    stream: Option<u32>,
    /// The zone without room that the next write was to go to: once nothing is in flight, it goes to another.
    choice: Option<u32>,
    /// A zone was reset or finished for the next write, which follows.
    is_prepared: bool,
    /// Zones that are being finished because they have too little room. The next write waits for them, as
    /// they count as open until then.
    finishing: u32,
    /// Why nothing can be done.
    problem: Option<String>,
    /// With `recover_zbd_write_error`, the device that knows where write pointers are.
    recovery: Option<Arc<dyn Device>>,
    rng: Rng,
}

/// Where an I/O would be if it were not for zones.
#[derive(Clone, Copy, Debug)]
struct Target {
    /// Counted from the first zone of the region.
    zone: u32,
    /// Bytes from the start of the zone.
    at: u64,
    len: u64,
}

impl ZbdJob {
    /// `offsets` and `lengths` are streams of random numbers.
    pub(super) fn new(
        job: &Job,
        region: Region,
        table: Arc<ZbdTable>,
        zone_size: u64,
        id: u32,
        (offsets, lengths): (Rng, Rng),
    ) -> Self {
        let zone_no = |at: u64| u32::try_from(at / zone_size).expect("zones are counted in u32");
        let first = zone_no(region.start);
        let count = zone_no(region.end.next_multiple_of(zone_size)) - first;
        let zones = first..first + count;
        let smallest = DataDir::ALL.map(|dir| job.min_bs(dir));
        let writes = job.uses(DataDir::Write);
        table.enter(zones.clone(), writes.then_some(id));
        let verifies = writes && job.verify.method.is_some();
        let write_len = smallest[DataDir::Write as usize];
        let least_room = if job.zbd.write_remainder { region.lba } else { write_len };
        let in_order = job.rw == Rw::Write && !job.random && job.rw_modifier == 0;
        let streams = in_order && !job.zbd.finish && !Addresses::needed(job);
        let resets = EarlyResets::new(job, region).map(Box::new);
        let whole = zone_no(region.end) - first;
        let max_opened =
            if job.job_max_open_zones == 0 { u32::MAX } else { job.job_max_open_zones };
        ZbdJob {
            id,
            random: job.random,
            smallest,
            largest_write: job.bs[DataDir::Write as usize],
            least_room,
            source: Source::new(job, region, offsets.clone(), lengths),
            appends: job.zone_append,
            zone_size,
            skew: region.start % zone_size,
            first,
            owned: OwnedZones::new(count),
            purpose: Purpose {
                job: id,
                max_opened,
                room: if verifies { least_room } else { 0 },
                least: least_room,
            },
            keeps: job.rw == Rw::Write && job.job_max_open_zones == 0 && !job.zbd.finish,
            finishes: job.zbd.finish,
            releases: 0,
            read_beyond_wp: job.zbd.read_beyond_wp,
            mixed: job.rw == Rw::Mixed,
            has_data: false,
            streamed: if streams && resets.is_none() { whole } else { 0 },
            stream: None,
            resets,
            is_verified: false,
            drawn_after: 0,
            first_resets: verifies.then(|| FirstResets::new(&table, zones, id)).flatten(),
            leaves_zones: false,
            wanted: None,
            pending: [None; 3],
            choice: None,
            is_prepared: false,
            finishing: 0,
            problem: None,
            recovery: None,
            table,
            rng: offsets,
        }
    }

    #[inline(always)]
    pub(super) fn next(&mut self, dir: DataDir, len: u64) -> NextIo {
        if self.keeps && self.table.is_shared() {
            self.stop_keeping();
        }
        if self.first_resets.is_some()
            && let Some(next) = self.reset_first()
        {
            return next;
        }
        match dir {
            DataDir::Read => self.read_or_write(len),
            DataDir::Write => self.write(len),
            DataDir::Trim => self.trim(len),
        }
    }

    fn read_or_write(&mut self, len: u64) -> NextIo {
        match self.read(len) {
            // The writes in flight are not readable yet.
            NextIo::EndOfPass if self.mixed && self.owned.len() > 0 => NextIo::Wait,
            NextIo::EndOfPass if self.mixed && self.random => {
                let len = self.smallest[DataDir::Write as usize];
                // As in fio, at the same place.
                if let Some(target) = self.pending[DataDir::Read as usize].take() {
                    let write = Target { len, ..target };
                    self.pending[DataDir::Write as usize].get_or_insert(write);
                }
                self.write(len)
            }
            next => next,
        }
    }

    /// The next of the resets before the first write.
    #[cold]
    fn reset_first(&mut self) -> Option<NextIo> {
        let zone = self.first_resets.as_mut()?.next(&self.table);
        let Some(zone) = zone else {
            // As in fio, a zone counts as being written until it has been reset.
            if self.owned.any_busy() {
                return Some(NextIo::Wait);
            }
            self.first_resets = None;
            return None;
        };
        match self.table.acquire_to_reset(zone, self.id) {
            super::zbd::Acquire::Granted(owned) => {
                let zone = zone - self.first;
                self.owned.add(zone, owned);
                self.owned.get(zone).trimmed = true;
                Some(NextIo::Manage(self.manage(Op::ZoneReset, zone)))
            }
            // Another job begins to write it.
            _ => self.reset_first(),
        }
    }

    /// The direction of an I/O that would be a read in a job that reads and writes.
    pub(super) fn instead_of_read(&self) -> DataDir {
        match self.has_data || self.read_beyond_wp {
            true => DataDir::Read,
            false => DataDir::Write,
        }
    }

    /// The zones of the region.
    fn region(&self) -> std::ops::Range<u32> {
        self.first..self.first + self.count()
    }

    fn count(&self) -> u32 {
        self.owned.nr_zones()
    }

    /// Where the next I/O would be; `None` at the end of the region.
    fn target(&mut self, dir: DataDir, len: u64) -> Option<Target> {
        if let Some(target) = self.pending[dir as usize].take() {
            return Some(target);
        }
        let Io { offset, len, .. } = self.source.next(dir, len)?;
        let zone = u32::try_from(offset / self.zone_size).expect("zones are counted in u32");
        Some(Target { zone: zone - self.first, at: offset % self.zone_size, len })
    }

    /// The next write, in the zone of this offset.
    pub(super) fn write_at(&mut self, offset: u64, len: u64) -> NextIo {
        let zone = u32::try_from(offset / self.zone_size).expect("zones are counted in u32");
        let (zone, at) = (zone - self.first, offset % self.zone_size);
        self.pending[DataDir::Write as usize].get_or_insert(Target { zone, at, len });
        self.write_target(len)
    }

    /// Tries a target again later.
    fn defer(&mut self, dir: DataDir, target: Target, next: NextIo) -> NextIo {
        self.pending[dir as usize] = Some(target);
        next
    }

    /// Notes that an I/O of the direction ended here, in bytes from the start of its zone. As in fio, one that
    /// ends before the region does so beyond all of it.
    fn moved(&mut self, dir: DataDir, zone: u32, end: u64) {
        let end = u64::from(zone) * self.zone_size + end;
        let beyond = u64::from(self.count()) * self.zone_size;
        self.source.moved(dir, end.checked_sub(self.skew).unwrap_or(beyond));
    }

    /// Starts at the begin of the region again.
    pub(super) fn rewind(&mut self) {
        self.source.rewind();
        (self.pending, self.stream, self.choice) = ([None; 3], None, None);
        (self.has_data, self.is_prepared) = (false, false);
        self.resets.iter_mut().for_each(|resets| resets.restart());
        if self.purpose.room > 0 {
            // The table knows what zones hold that the job does not keep.
            self.release_idle();
            if !std::mem::take(&mut self.leaves_zones) {
                self.first_resets = FirstResets::new(&self.table, self.region(), self.id);
            }
        }
    }

    /// The next pass does not reset the zones that the last one has written.
    pub(super) fn leave_zones(&mut self) {
        self.leaves_zones = true;
    }

    /// Whether it decides where a sequential job writes which of the writes in flight have completed: they may
    /// reach from the first to the last of the zones that may be open.
    pub(super) fn goes_by_completions(&self, iodepth: u32) -> bool {
        let limit = self.table.write_zones().1.min(self.purpose.max_opened);
        let in_flight = u64::from(iodepth).saturating_mul(self.largest_write);
        let zones = u64::from(limit.saturating_sub(1));
        let capacity = self.table.capacity_of(self.first);
        !self.random && limit > 1 && in_flight > zones.saturating_mul(capacity)
    }

    /// Whether a zone was reset or finished for a write that has not followed yet.
    pub(super) fn is_prepared(&self) -> bool {
        self.is_prepared
    }

    /// Why there is nothing to do, if that is not plain.
    pub(super) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Text that says what the job waits for while other jobs hold it.
    pub(super) fn waits_for(&self) -> String {
        let (open, limit) = self.table.write_zones();
        let wanted = self.wanted.or_else(|| self.pending.iter().flatten().map(|it| it.zone).next());
        match wanted {
            Some(zone) if self.table.is_busy(self.first + zone, self.id) => {
                format!("waits for zone {}, which another job has", self.first + zone)
            }
            _ => format!(
                "waits to open a zone: {open} zones are being written, the limit is {limit}, and the \
                 job can write none of them"
            ),
        }
    }

    #[inline(never)]
    fn manage(&mut self, op: Op, zone: u32) -> Io {
        self.end_stream();
        let wp = self.owned.get(zone).owned.wp;
        if op == Op::ZoneReset {
            self.table.note_reset(self.first + zone, wp);
        }
        let slot = self.owned.get(zone);
        slot.managing = true;
        slot.in_flight += 1;
        let start = slot.owned.start;
        Self::io(op, DataDir::Write, start, 0, zone)
    }

    fn io(op: Op, dir: DataDir, offset: u64, len: u64, zone: u32) -> Io {
        Io { op, dir, offset, len, zone: Some(zone), flags: BioFlags::NONE }
    }

    /// Has the job go on at the device's write pointer after a write has failed.
    pub(super) fn recover_from(&mut self, device: Arc<dyn Device>) {
        self.recovery = Some(device);
    }

    /// A write to a zone has failed, and is about to be [`done`](Self::done).
    pub(super) fn failed(&mut self, zone: u32) {
        self.owned.get(zone).failed = self.recovery.is_some();
    }

    /// The write pointer of a zone with a failed write, in bytes from its start.
    #[cold]
    fn recovered_wp(&self, zone: u32) -> Option<u64> {
        let mut report = Vec::with_capacity(1);
        let zone = ZoneNo(self.first + zone);
        self.recovery.as_ref()?.report_zones(zone, 1, &mut report).ok()?;
        let found = report.first()?;
        Some(match found.cond {
            ZoneCondition::Full => found.capacity.to_bytes().0,
            _ => (found.wp - found.start).to_bytes().0,
        })
    }

    /// One of the job's I/Os in a zone has completed. The last one releases the zone, unless the job is to
    /// finish it, or keeps it.
    #[inline(always)]
    pub(super) fn done(&mut self, op: Op, zone: u32) -> Option<Io> {
        let slot = self.owned.get(zone);
        slot.in_flight -= 1;
        if matches!(op, Op::Write | Op::ZoneAppend) {
            if slot.in_flight > 0 {
                return None;
            }
            let is_full = slot.owned.wp >= slot.owned.capacity;
            if self.keeps && !is_full && !slot.failed && !self.table.is_shared() {
                slot.managing = false;
                self.releases += 1;
                return None;
            }
        }
        self.done_with(op, zone)
    }

    /// The same if the zone may be released, or is not written.
    #[inline(never)]
    fn done_with(&mut self, op: Op, zone: u32) -> Option<Io> {
        let slot = self.owned.get(zone);
        match op {
            Op::ZoneReset => slot.owned.wp = 0,
            Op::ZoneFinish => {
                slot.owned.wp = self.table.extent(self.first + zone).1;
                self.finishing = self.finishing.saturating_sub(1);
            }
            _ => {}
        }
        let slot = self.owned.get(zone);
        if slot.in_flight > 0 {
            return None;
        }
        if std::mem::take(&mut slot.failed)
            && let Some(wp) = self.recovered_wp(zone)
        {
            self.owned.get(zone).owned.wp = wp;
        }
        let slot = self.owned.get(zone);
        let (OwnedZone { wp, capacity, .. }, trimmed) = (slot.owned, slot.trimmed);
        let full = wp >= capacity;
        if self.finishes && !full && !trimmed && wp > 0 {
            let finish = self.manage(Op::ZoneFinish, zone);
            return Some(Io { dir: DataDir::Trim, len: capacity - wp, ..finish });
        }
        self.releases += 1;
        // One that was reset before the first write is still to be opened.
        if self.keeps && !full && !trimmed && !self.table.is_shared() {
            slot.managing = false;
            return None;
        }
        self.release(zone, wp, full || trimmed);
        None
    }

    #[inline(never)]
    fn release(&mut self, zone: u32, wp: u64, is_done: bool) {
        if self.stream == Some(zone) {
            self.end_stream();
        }
        self.owned.remove(zone);
        self.table.release(self.first + zone, wp, is_done);
    }

    /// From now on others see what the job has written where it has no I/O.
    #[cold]
    fn stop_keeping(&mut self) {
        self.keeps = false;
        self.release_idle();
    }

    fn release_idle(&mut self) {
        for zone in self.owned.idle() {
            let wp = self.owned.get(zone).owned.wp;
            self.release(zone, wp, false);
        }
    }

    /// Whether the job waits for a zone that another job still has, so that the next attempt would only
    /// find the same.
    pub(super) fn is_blocked(&self) -> bool {
        let is_busy = |zone| self.table.is_busy(self.first + zone, self.id);
        let pending = self.pending.iter().flatten().map(|target| target.zone).next();
        self.owned.len() == 0 && self.wanted.or(pending).is_some_and(is_busy)
    }

    /// The job verifies what it has written before the next write resets its zone: this is the next read, or there
    /// is none left. As in fio, the read takes the place of a random write, whose block in the random map counts as
    /// visited; the next write counts anew, and reads of the job itself go on where this one ended.
    pub(super) fn verified(&mut self, read: Option<&Io>) {
        self.is_verified = read.is_none();
        let Some(read) = read else { return };
        if let Some(resets) = &mut self.resets {
            resets.count_again();
        }
        if self.random && self.pending[DataDir::Write as usize].take().is_some() {
            self.source.moved(DataDir::Write, self.drawn_after);
        }
        let end = read.offset + read.len - u64::from(self.first) * self.zone_size;
        self.moved(DataDir::Read, 0, end);
    }

    /// How often the last I/O in a zone has completed.
    pub(super) fn releases(&self) -> u64 {
        self.releases
    }

    /// The job has done its last write: others see what it has written.
    pub(super) fn finish(&mut self) {
        if self.keeps {
            self.stop_keeping();
        }
    }
}

#[cfg(test)]
mod tests;
