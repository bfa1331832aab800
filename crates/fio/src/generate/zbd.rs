//! The zones of a device as shared by all jobs with `zonemode=zbd`.
//!
//! Invariants: one job at a time has writes in flight to a zone (fio holds the zone's lock
//! meanwhile); no job opens a zone while as many are being written as a limit allows. A zone that is
//! partly written counts until it is full or reset, also after the job that opened it has ended: it
//! is active on the device.
use super::Region;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use zonal_blk::lazy::LazyTable;
use zonal_blk::lock::{SpinLock, SpinLockGuard};
use zonal_blk::{Device, REPORT_BATCH, Status, Zone, ZoneCondition, ZoneKind, ZoneNo};

/// The zones of a device as the jobs see them.
#[derive(Debug)]
pub struct ZbdTable {
    /// Zones that do not exist in it were empty when they were read.
    zones: LazyTable<SpinLock<Entry>>,
    /// In bytes, of all zones.
    zone_size: u64,
    /// In bytes.
    device: u64,
    /// In bytes, of the zones that were empty.
    capacity: u64,
    write_zones: Mutex<WriteZones>,
    /// The number of zones being written, to be read without the lock.
    nr_write_zones: AtomicU32,
    /// From how many zones on none may be opened; changes as regions are entered.
    max_write_zones: AtomicU32,
    /// The limit of `max_open_zones` and the device's of open zones.
    max_open: u32,
    /// The device's limit of active zones, which those that no job writes count against as well.
    max_active: u32,
    /// Zones that were partially written before, in order.
    partial: Vec<u32>,
    /// Bytes of data in the regions of all jobs, for `zone_reset_threshold`.
    data: Option<AtomicU64>,
    /// Jobs that have entered.
    jobs: AtomicU32,
    /// The region of the jobs with `zone_reset_threshold`.
    reset_region: Mutex<Option<Range<u64>>>,
}

/// The zones being written: not empty and not full, in the region of a job that writes.
#[derive(Debug, Default)]
struct WriteZones {
    zones: Vec<u32>,
    /// By job, the number of zones that it has opened.
    opened_by: BTreeMap<u32, u32>,
}

#[derive(Debug)]
struct Entry {
    start: u64,
    capacity: u64,
    /// Bytes from the start; includes submitted writes. As in fio it is the end of a zone that a job has
    /// finished, up to which it is read.
    wp: u64,
    usable: bool,
    offline: bool,
    conventional: bool,
    is_write_zone: bool,
    /// The job that opened it, if it is being written.
    opener: Option<u32>,
    /// The job that wrote or reset it last; `None` if what it holds is from before.
    writer: Option<u32>,
    owner: Option<u32>,
    /// Number of resets.
    resets: u32,
    /// Its data are in [`ZbdTable::data`].
    counted: bool,
}

/// A zone acquired by a job: no other job writes to it meanwhile.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnedZone {
    /// First byte.
    pub start: u64,
    /// Zone capacity in bytes.
    pub capacity: u64,
    /// Write pointer, in bytes from the start.
    pub wp: u64,
    /// A conventional zone, without a write pointer.
    pub conventional: bool,
}

/// The purpose for which a job wants a zone.
#[derive(Clone, Copy, Debug)]
pub struct Purpose {
    /// The job.
    pub job: u32,
    /// Zones that it may have opened at a time.
    pub max_opened: u32,
    /// The room that it needs if it does not reset zones; 0 if it does.
    pub room: u64,
    /// A zone with less room than this that is not full has to be finished.
    pub least: u64,
}

/// The result of [`ZbdTable::acquire`].
#[derive(Debug)]
pub enum Acquire {
    /// The zone is the job's until it releases it.
    Granted(OwnedZone),
    /// Another job has I/O in it.
    Busy,
    /// The limit of zones being written is reached.
    TooMany,
    /// The zone is the job's, but what is left of it is less than the job can write: it is to be
    /// finished.
    Rest(OwnedZone),
    /// There is no room for a block, and the zone is not to be reset.
    Full,
    /// The zone is read-only or offline.
    Unusable,
}

impl ZbdTable {
    /// Reads the device's zones. `max_open_zones` limits the zones being written, besides the device's
    /// own limit; 0 for that alone.
    ///
    /// # Errors
    /// The status of a failed zone report.
    pub fn new(device: &dyn Device, max_open_zones: u32) -> Result<Self, Status> {
        let limits = device.limits();
        let limit = |value| if value == 0 { u32::MAX } else { value };
        let max_open = limit(max_open_zones).min(limit(limits.max_open_zones));
        let max_active = limit(limits.max_active_zones);
        let mut table = ZbdTable {
            zones: LazyTable::new(limits.nr_zones as usize),
            zone_size: limits.zone_size.to_bytes().0,
            device: limits.capacity.to_bytes().0,
            capacity: 0,
            nr_write_zones: AtomicU32::new(0),
            write_zones: Mutex::default(),
            max_write_zones: AtomicU32::new(0),
            max_open,
            max_active,
            partial: Vec::new(),
            data: None,
            jobs: AtomicU32::new(0),
            reset_region: Mutex::default(),
        };
        let mut report: Vec<Zone> = Vec::with_capacity(REPORT_BATCH.min(limits.nr_zones as usize));
        for first in (0..limits.nr_zones).step_by(REPORT_BATCH) {
            report.clear();
            let count = REPORT_BATCH.min((limits.nr_zones - first) as usize);
            // Those are not in the table, once it has the usual capacity.
            let wanted = u32::try_from(count).expect("no more than a report has");
            if table.capacity > 0 && device.zones_as_new(ZoneNo(first), wanted) == wanted {
                continue;
            }
            device.report_zones(ZoneNo(first), count, &mut report)?;
            for (zone_no, zone) in (first..limits.nr_zones).zip(&report) {
                table.add(zone_no, zone);
            }
        }
        table.set_limit();
        Ok(table)
    }

    /// Derives the limit from what no job writes: active on the device, but in no region.
    fn set_limit(&self) {
        let written = |&&zone: &&u32| self.entry(zone).is_write_zone;
        let others = self.partial.len() - self.partial.iter().filter(written).count();
        let others = u32::try_from(others).expect("zones are counted in u32");
        let limit = self.max_open.min(self.max_active.saturating_sub(others));
        self.max_write_zones.store(limit, Ordering::Relaxed);
    }

    /// The table with what is known from the jobs that used the device last: which of the zones they
    /// finished, and which they left partly written, which count as being written, as in fio.
    #[must_use]
    pub fn after(mut self, before: &ZbdTable) -> Self {
        let reset_region = before.reset_region.lock().expect("the lock of a region").clone();
        self.reset_region = Mutex::new(reset_region);
        for zone in before.write_zones.lock().expect("write zones lock").zones.iter().copied() {
            let mut entry = self.entry(zone);
            if entry.is_partial() {
                let mut write_zones = self.write_zones.lock().expect("write zones lock");
                self.add_write_zone(zone, None, &mut entry, &mut write_zones);
            }
        }
        for (zone, entry) in before.zones.iter() {
            let (wp, capacity) = {
                let entry = entry.lock();
                (entry.wp, entry.capacity)
            };
            if wp > capacity {
                let mut entry = self.entry(u32::try_from(zone).expect("zones are counted in u32"));
                entry.wp = if entry.wp == capacity { wp } else { entry.wp };
            }
        }
        self.set_limit();
        self
    }

    /// The table without the limit of the device.
    pub fn ignoring_device_limit(self, max_open_zones: u32) -> Self {
        let max_open = if max_open_zones == 0 { u32::MAX } else { max_open_zones };
        let table = ZbdTable { max_open, max_active: u32::MAX, ..self };
        table.set_limit();
        table
    }

    /// Adds a zone of the report. One that is empty, as those before it, need not be in the table.
    fn add(&mut self, zone_no: u32, zone: &Zone) {
        let is_empty =
            zone.kind == ZoneKind::SequentialRequired && zone.cond == ZoneCondition::Empty;
        if is_empty && self.capacity == 0 {
            self.capacity = zone.capacity.to_bytes().0;
        }
        let is_usual = is_empty && self.capacity == zone.capacity.to_bytes().0;
        if is_usual && self.zones.peek(zone_no as usize).is_none() {
            return;
        }
        let entry = Entry::new(zone);
        if entry.is_partial() {
            self.partial.push(zone_no);
        }
        *self.entry(zone_no) = entry;
    }

    /// Has the table count the data of zones, for jobs with `zone_reset_frequency`.
    #[must_use]
    pub fn counting_data(mut self) -> Self {
        self.data = Some(AtomicU64::new(0));
        self
    }

    /// Whether all jobs with `zone_reset_threshold`, of this and the earlier phases, write the same region
    /// as this one.
    pub fn has_one_reset_region(&self, region: Region) -> bool {
        let mut first = self.reset_region.lock().expect("the lock of a region");
        let zones = region.start..region.end;
        first.get_or_insert_with(|| zones.clone()) == &zones
    }

    /// Capacity of the first sequential zone of a region in bytes.
    pub fn zone_capacity(&self, region: Region) -> Option<u64> {
        let mut zones = (region.start / self.zone_size)..region.end.div_ceil(self.zone_size);
        zones.find_map(|zone| {
            let entry = self.entry(u32::try_from(zone).expect("zones are counted in u32"));
            (!entry.conventional).then_some(entry.capacity)
        })
    }

    /// Bytes of data in the regions of all jobs, if they are counted.
    pub fn data(&self) -> u64 {
        self.data.as_ref().map_or(0, |data| data.load(Ordering::Relaxed))
    }

    /// Counts a write that is about to be issued.
    #[inline]
    pub fn note_write(&self, bytes: u64) {
        if let Some(data) = &self.data {
            data.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Acquires a zone to write to.
    pub fn acquire(&self, zone: u32, purpose: Purpose) -> Acquire {
        let Purpose { job, max_opened, room, least } = purpose;
        let mut entry = self.entry(zone);
        if !entry.usable {
            return Acquire::Unusable;
        }
        if entry.conventional {
            return Acquire::Granted(entry.owned());
        }
        if entry.owner.is_some_and(|owner| owner != job) {
            return Acquire::Busy;
        }
        if entry.has_rest(least) {
            entry.owner = Some(job);
            return Acquire::Rest(entry.owned());
        }
        if room > 0 && entry.wp + room > entry.capacity {
            return Acquire::Full;
        }
        if !entry.is_write_zone {
            let mut write_zones = self.write_zones.lock().expect("write zones lock");
            let opened = write_zones.opened_by.get(&job).copied().unwrap_or(0);
            let limit = self.max_write_zones.load(Ordering::Relaxed) as usize;
            if write_zones.zones.len() >= limit || opened >= max_opened {
                return Acquire::TooMany;
            }
            self.add_write_zone(zone, Some(job), &mut entry, &mut write_zones);
        }
        (entry.owner, entry.writer) = (Some(job), Some(job));
        Acquire::Granted(entry.owned())
    }

    /// Acquires a zone for `job` to reset it. It counts as empty from now on, and against no limit.
    pub fn acquire_to_reset(&self, zone: u32, job: u32) -> Acquire {
        let mut entry = self.entry(zone);
        if !entry.usable {
            return Acquire::Unusable;
        }
        if entry.owner.is_some_and(|owner| owner != job) {
            return Acquire::Busy;
        }
        let owned = entry.owned();
        if !owned.conventional {
            (entry.owner, entry.writer, entry.wp) = (Some(job), Some(job), 0);
        }
        Acquire::Granted(owned)
    }

    fn add_write_zone(
        &self,
        zone: u32,
        opener: Option<u32>,
        entry: &mut Entry,
        all: &mut WriteZones,
    ) {
        all.zones.push(zone);
        if let Some(job) = opener {
            *all.opened_by.entry(job).or_default() += 1;
        }
        entry.opener = opener;
        self.nr_write_zones.fetch_add(1, Ordering::Relaxed);
        entry.is_write_zone = true;
    }

    /// Releases a zone with its new write pointer. With `is_done` it no longer counts as being
    /// written.
    pub fn release(&self, zone: u32, wp: u64, is_done: bool) {
        let mut entry = self.entry(zone);
        entry.wp = wp;
        entry.owner = None;
        if is_done {
            self.remove_write_zone(zone, &mut entry);
        }
    }

    /// The same with all sequential zones empty, for the dry run of `verify_only`.
    ///
    /// # Errors
    /// As [`ZbdTable::new`].
    pub fn all_empty(device: &dyn Device, max_open_zones: u32) -> Result<Self, Status> {
        let mut table = Self::new(device, max_open_zones)?;
        table.zones.iter().for_each(|(_, zone)| zone.lock().wp = 0);
        table.partial.clear();
        table.set_limit();
        Ok(table)
    }

    /// Counts a reset that is about to be issued, of a zone with this write pointer in bytes from its start. As in
    /// fio, one that was finished takes as much away from the data as it has bytes: what is counted may then be
    /// below zero, which is more than any threshold.
    pub fn note_reset(&self, zone: u32, wp: u64) {
        let mut entry = self.entry(zone);
        if let Some(data) = &self.data {
            data.fetch_sub(wp, Ordering::Relaxed);
        }
        entry.resets = entry.resets.wrapping_add(1);
    }

    /// Resets of a zone by jobs, including those about to be issued.
    pub fn resets(&self, zone: u32) -> u32 {
        self.entry(zone).resets
    }

    /// A job starts in a region. If it writes, the zones there that are partially written count as
    /// being written, opened by `writer`.
    pub fn enter(&self, region: Range<u32>, writer: Option<u32>) {
        self.jobs.fetch_add(1, Ordering::Relaxed);
        if self.data.is_some() {
            for zone in region.clone() {
                let mut entry = self.entry(zone);
                if !std::mem::replace(&mut entry.counted, true) {
                    self.note_write(entry.wp);
                }
            }
        }
        let Some(writer) = writer else { return };
        for &zone in self.partial.iter().filter(|zone| region.contains(zone)) {
            let mut entry = self.entry(zone);
            if !entry.is_write_zone {
                let mut write_zones = self.write_zones.lock().expect("write zones lock");
                self.add_write_zone(zone, Some(writer), &mut entry, &mut write_zones);
            }
        }
        self.set_limit();
    }

    /// Whether several jobs have entered, at whatever time.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.jobs.load(Ordering::Relaxed) > 1
    }

    /// The sequential zones of a region that hold data from before the jobs, or of `job`.
    pub fn with_data_of(&self, region: Range<u32>, job: u32) -> Vec<u32> {
        let number = |zone: usize| u32::try_from(zone).expect("zones are counted in u32");
        let known = self.zones.iter().map(|(zone, entry)| (number(zone), entry));
        let in_region = known.filter(|(zone, _)| region.contains(zone));
        in_region.filter(|(_, entry)| entry.lock().has_data_of(job)).map(|(zone, _)| zone).collect()
    }

    /// Whether a zone holds data from before the jobs, or of `job`.
    pub fn has_data_of(&self, zone: u32, job: u32) -> bool {
        self.entry(zone).has_data_of(job)
    }

    /// The zone of `region` nearest to `zone` that at least this many bytes can be read from; with
    /// `sequential_only` no conventional one. Of two that are equally near it is the one after `zone`.
    pub fn nearest_with_data(
        &self,
        region: Range<u32>,
        zone: u32,
        bytes: u64,
        sequential_only: bool,
    ) -> Option<u32> {
        let holds = |zone: &u32| {
            let entry = self.entry(*zone);
            let counts = !(sequential_only && (entry.conventional || !entry.usable));
            counts && entry.readable() >= bytes
        };

        (0..region.end - region.start).find_map(|distance| {
            let after = zone.checked_add(distance).filter(|it| region.contains(it));
            let before = zone.checked_sub(distance).filter(|it| region.contains(it));
            after.filter(holds).or_else(|| before.filter(holds))
        })
    }

    /// Of how many zones that are being written, and the limit of them.
    pub fn write_zones(&self) -> (u32, u32) {
        let limit = self.max_write_zones.load(Ordering::Relaxed);
        (self.nr_write_zones.load(Ordering::Relaxed), limit)
    }

    fn remove_write_zone(&self, zone: u32, entry: &mut Entry) {
        if std::mem::take(&mut entry.is_write_zone) {
            let mut write_zones = self.write_zones.lock().expect("write zones lock");
            let zones = &mut write_zones.zones;
            let at = zones.iter().position(|&z| z == zone).expect("a write zone is listed");
            zones.remove(at);
            if let Some(job) = entry.opener.take() {
                *write_zones.opened_by.get_mut(&job).expect("it has opened a zone") -= 1;
            }
            self.nr_write_zones.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The zone that a write to `zone` goes to if it may open none, and that one has no room: the one of `region`
    /// whose place among those being written is that of `zone` in the region, as in fio. `None` if none of the
    /// region is being written.
    pub fn write_zone_at(&self, region: &Range<u32>, zone: u32) -> Option<u32> {
        let write_zones = &self.write_zones.lock().expect("write zones lock").zones;
        let (place, count) = (u64::from(zone - region.start), u64::from(region.end - region.start));
        let at = place * write_zones.len() as u64 / count;
        let (before, from) = write_zones.split_at(usize::try_from(at).expect("an index"));
        from.iter().chain(before).copied().find(|zone| region.contains(zone))
    }

    /// The zones of `region` that are being written, in the order in which they were opened.
    pub fn write_zones_of(&self, region: &Range<u32>) -> Vec<u32> {
        let write_zones = &self.write_zones.lock().expect("write zones lock").zones;
        write_zones.iter().copied().filter(|zone| region.contains(zone)).collect()
    }

    /// Whether a block of this length fits after the write pointer of a zone, as the table has it: without
    /// the writes of a job that owns the zone.
    pub fn has_room(&self, zone: u32, block: u64) -> bool {
        let entry = self.entry(zone);
        entry.wp + block <= entry.capacity
    }

    /// Whether a zone is being written and another job than `job` has I/O in it.
    pub fn is_busy(&self, zone: u32, job: u32) -> bool {
        let entry = self.entry(zone);
        entry.usable && entry.is_write_zone && entry.owner.is_some_and(|owner| owner != job)
    }

    /// Whether a zone is being written.
    pub fn is_write_zone(&self, zone: u32) -> bool {
        self.entry(zone).is_write_zone
    }

    /// Whether there is a limit of zones being written.
    pub fn is_limited(&self) -> bool {
        self.max_write_zones.load(Ordering::Relaxed) != u32::MAX
    }

    /// Whether the limit of zones being written is reached.
    #[inline]
    pub fn is_at_limit(&self) -> bool {
        let limit = self.max_write_zones.load(Ordering::Relaxed);
        self.nr_write_zones.load(Ordering::Relaxed) >= limit
    }

    /// First byte of a zone and its size in bytes, 0 if it is offline.
    pub fn extent(&self, zone: u32) -> (u64, u64) {
        let entry = self.entry(zone);
        let size = self.zone_size.min(self.device - entry.start);
        (entry.start, if entry.offline { 0 } else { size })
    }

    /// Capacity of a zone in bytes.
    pub fn capacity_of(&self, zone: u32) -> u64 {
        self.entry(zone).capacity
    }

    /// Whether a zone is a conventional one.
    pub fn is_conventional(&self, zone: u32) -> bool {
        self.entry(zone).conventional
    }

    /// First byte of a zone and the number of bytes that can be read.
    pub fn readable(&self, zone: u32) -> (u64, u64) {
        let entry = self.entry(zone);
        (entry.start, entry.readable())
    }

    fn entry(&self, zone: u32) -> SpinLockGuard<'_, Entry> {
        let make = |zone| SpinLock::new(Entry::empty(zone as u64 * self.zone_size, self.capacity));
        self.zones.get(zone as usize, make).lock()
    }
}

impl Entry {
    fn new(zone: &Zone) -> Self {
        let conventional = zone.kind == ZoneKind::Conventional;
        let capacity = zone.capacity.to_bytes().0;
        let wp = match zone.cond {
            ZoneCondition::Full => capacity,
            cond if cond.is_active() => (zone.wp - zone.start).to_bytes().0,
            _ => 0,
        };
        Entry {
            wp,
            usable: !matches!(zone.cond, ZoneCondition::ReadOnly | ZoneCondition::Offline),
            offline: zone.cond == ZoneCondition::Offline,
            conventional,
            ..Entry::empty(zone.start.to_bytes().0, capacity)
        }
    }

    /// An empty sequential zone.
    fn empty(start: u64, capacity: u64) -> Self {
        Entry {
            start,
            capacity,
            wp: 0,
            usable: true,
            offline: false,
            conventional: false,
            is_write_zone: false,
            opener: None,
            writer: None,
            owner: None,
            resets: 0,
            counted: false,
        }
    }

    /// Bytes from the start that can be read.
    fn readable(&self) -> u64 {
        match self.conventional && !self.offline {
            true => self.capacity,
            false => self.wp,
        }
    }

    /// Whether it is partly written.
    fn is_partial(&self) -> bool {
        self.usable && (1..self.capacity).contains(&self.wp) && !self.conventional
    }

    /// Whether there is room left, but less than this much.
    fn has_rest(&self, least: u64) -> bool {
        (1..self.capacity).contains(&self.wp) && self.wp + least > self.capacity
    }

    fn has_data_of(&self, job: u32) -> bool {
        let is_own = self.writer.is_none_or(|writer| writer == job);
        self.wp > 0 && self.usable && !self.conventional && is_own
    }

    fn owned(&self) -> OwnedZone {
        let &Entry { start, capacity, wp, conventional, .. } = self;
        OwnedZone { start, capacity, wp, conventional }
    }
}
