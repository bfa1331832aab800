//! What all jobs on a zoned device know of its zones, as fio's `zonemode=zbd` keeps it.
//!
//! Takes the device's report once; gives zones to write to. Keeps true: one job at a time has I/O
//! in a zone that it writes (fio locks a zone while a job has I/O in flight in it); no more zones
//! than `max_open_zones` are being written.
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use zonal_blk::lock::{SpinLock, SpinLockGuard};
use zonal_blk::{Device, Status, Zone, ZoneCondition, ZoneKind, ZoneNo};

/// The zones of a device as the jobs see them.
#[derive(Debug)]
pub struct ZbdTable {
    zones: Vec<SpinLock<Entry>>,
    /// The zones being written: begun and not yet full.
    targets: Mutex<Vec<u32>>,
    /// The length of `targets`, to look at without the lock.
    nr_targets: AtomicU32,
    max_targets: u32,
}

#[derive(Debug)]
struct Entry {
    start: u64,
    capacity: u64,
    /// Bytes from the start; the end of what was submitted.
    wp: u64,
    usable: bool,
    conventional: bool,
    target: bool,
    owner: Option<u32>,
    /// Resets so far.
    resets: u32,
}

/// A zone that a job holds: nobody else writes to it meanwhile.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnedZone {
    /// First byte.
    pub start: u64,
    /// Bytes that can be written.
    pub capacity: u64,
    /// Where the next write goes, from the start.
    pub wp: u64,
    /// Written anywhere, no write pointer.
    pub conventional: bool,
}

/// The answer to the wish for a zone.
#[derive(Debug)]
pub enum Acquire {
    /// The zone is the job's until it lets go.
    Granted(OwnedZone),
    /// Another job has I/O in it.
    Busy,
    /// So many zones are being written that no other may be begun.
    TooMany,
    /// The zone is read-only or offline.
    Unusable,
}

impl ZbdTable {
    /// Reads the device's zones. `max_open_zones` limits the zones being written; 0 for the
    /// device's own limit.
    ///
    /// # Errors
    /// The status with which the device refused to report its zones.
    pub fn new(device: &dyn Device, max_open_zones: u32) -> Result<Self, Status> {
        let limits = device.limits();
        let mut report: Vec<Zone> = Vec::with_capacity(limits.nr_zones as usize);
        device.report_zones(ZoneNo(0), limits.nr_zones as usize, &mut report)?;
        let limit = |value| if value == 0 { u32::MAX } else { value };
        let max_targets = limit(max_open_zones)
            .min(limit(limits.max_open_zones))
            .min(limit(limits.max_active_zones));
        Ok(ZbdTable {
            zones: report.iter().map(|zone| SpinLock::new(Entry::new(zone))).collect(),
            nr_targets: AtomicU32::new(0),
            targets: Mutex::default(),
            max_targets,
        })
    }

    /// Asks for a zone for `job` to write to.
    pub fn acquire(&self, zone: u32, job: u32) -> Acquire {
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
        if !entry.target {
            let mut targets = self.targets.lock().expect("targets lock");
            if targets.len() >= self.max_targets as usize {
                return Acquire::TooMany;
            }
            targets.push(zone);
            self.nr_targets.fetch_add(1, Ordering::Relaxed);
            entry.target = true;
        }
        entry.owner = Some(job);
        Acquire::Granted(entry.owned())
    }

    /// Lets a zone go; `wp` is where its next write must be. If it `leaves`, it no longer counts as
    /// being written.
    pub fn release(&self, zone: u32, wp: u64, leaves: bool) {
        let mut entry = self.entry(zone);
        entry.wp = wp;
        entry.owner = None;
        if leaves {
            self.remove_target(zone, &mut entry);
        }
    }

    /// The same as if all sequential zones were empty: for a job that only pretends to write.
    ///
    /// # Errors
    /// As [`ZbdTable::new`].
    pub fn all_empty(device: &dyn Device, max_open_zones: u32) -> Result<Self, Status> {
        let mut table = Self::new(device, max_open_zones)?;
        table.zones.iter_mut().for_each(|zone| zone.lock().wp = 0);
        Ok(table)
    }

    /// A job is about to reset a zone.
    pub fn note_reset(&self, zone: u32) {
        let mut entry = self.entry(zone);
        entry.resets = entry.resets.wrapping_add(1);
    }

    /// How often jobs have reset a zone, or were about to.
    pub fn resets(&self, zone: u32) -> u32 {
        self.entry(zone).resets
    }

    /// A job begins to write in a region: the zones there that are partially written count as
    /// being written.
    pub fn enter(&self, region: Range<u32>) {
        for zone in region {
            let mut entry = self.entry(zone);
            if entry.wp > 0 && entry.wp < entry.capacity && !entry.target && entry.usable {
                entry.target = true;
                self.targets.lock().expect("targets lock").push(zone);
                self.nr_targets.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// A job has written its last in a region: no zone that nobody holds there counts any more.
    pub fn leave(&self, region: Range<u32>) {
        for zone in region {
            let mut entry = self.entry(zone);
            if entry.owner.is_none() {
                self.remove_target(zone, &mut entry);
            }
        }
    }

    fn remove_target(&self, zone: u32, entry: &mut Entry) {
        if std::mem::take(&mut entry.target) {
            let mut targets = self.targets.lock().expect("targets lock");
            let at = targets.iter().position(|&t| t == zone).expect("a target is listed");
            targets.swap_remove(at);
            self.nr_targets.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// One of the zones of `region` that are being written, where `pick` out of 2^32 says; `None`
    /// if there is none.
    pub fn target(&self, region: Range<u32>, pick: u32) -> Option<u32> {
        let targets = self.targets.lock().expect("targets lock");
        let at = usize::try_from((u64::from(pick) * targets.len() as u64) >> 32).expect("an index");
        let (before, from) = targets.split_at(at);
        from.iter().chain(before).copied().find(|zone| region.contains(zone))
    }

    /// Whether a zone is being written.
    pub fn is_target(&self, zone: u32) -> bool {
        self.entry(zone).target
    }

    /// Whether as many zones are being written as may be.
    pub fn is_at_limit(&self) -> bool {
        self.nr_targets.load(Ordering::Relaxed) >= self.max_targets
    }

    /// First byte of a zone and the bytes in it that can be read.
    pub fn readable(&self, zone: u32) -> (u64, u64) {
        let entry = self.entry(zone);
        (entry.start, if entry.conventional { entry.capacity } else { entry.wp })
    }

    fn entry(&self, zone: u32) -> SpinLockGuard<'_, Entry> {
        self.zones[zone as usize].lock()
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
            start: zone.start.to_bytes().0,
            capacity,
            wp,
            usable: !matches!(zone.cond, ZoneCondition::ReadOnly | ZoneCondition::Offline),
            conventional,
            target: false,
            owner: None,
            resets: 0,
        }
    }

    fn owned(&self) -> OwnedZone {
        let &Entry { start, capacity, wp, conventional, .. } = self;
        OwnedZone { start, capacity, wp, conventional }
    }
}
