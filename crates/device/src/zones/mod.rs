//! The zone state machine: conditions, write pointers, and the commands that change them.
//!
//! Invariants: a sequential zone is written only at its write pointer and never beyond its
//! capacity; no more zones are open or active than the limits allow.
//!
//! The conditions are those of NVMe ZNS 1.1 section 2.1.1. Where the standards leave a choice, this
//! follows Linux's null_blk: closing an open zone that was not written makes it empty; finishing an
//! empty or closed zone needs the resources that writing it would need; closing a closed zone and
//! finishing a full one are successful no-ops.
//!
//! ```text
//!               write                      write up to the capacity, finish
//!     Empty ----------> ImplicitOpen ------------------------------------> Full
//!       |  open            |  |  ^  write                                   ^
//!       +-------> Explicit-|--|--|------------------------------------------+
//!                   Open <-+  |  |                                          |
//!                     |       v  |                                          |
//!                     +----> Closed ----------------------------------------+
//!                     close, or implicitly, for another zone to open
//!
//!     reset: any of these -> Empty           ReadOnly, Offline: by set_condition only
//! ```
//!
//! A zone whose descriptor extension is set becomes closed, until it is reset.
//!
//! A zone that is opened with a random write area ([`Zones::open_zrwa`]) has it until it is no longer
//! active; it is not empty, whatever its write pointer, so closing it leads to Closed.
//!
//! # Locks
//!
//! Each zone has a lock, and one more lock guards the counts of open and active zones. Only
//! transitions take the counts lock, always after the zone's, so a write to an open zone takes one
//! uncontended lock. A device without limits has no counts.
//!
//! A zone that opens at the limit must close *another* zone, whose lock it cannot wait for: two
//! zones could wait for each other. So the condition of a zone is an atomic beside its lock, and
//! this one transition, ImplicitOpen to Closed, needs only the counts lock:
//!
//! - Every transition holds the counts lock; all but ImplicitOpen to Closed also hold the zone's
//!   lock. So no thread ever holds or waits for the locks of two zones, and the order zone, then
//!   counts has no cycle.
//! - A transition reads the condition that it starts from under the counts lock, where it is
//!   stable, and not before.
//! - A write that found its zone open and then loses the zone to an implicit close counts as done
//!   before the close. It holds the zone's lock until its write pointer has moved, and zone reports
//!   take that lock, so no report shows the zone closed with the write still to come.
//! - An implicitly open zone has been written, or its writer holds its lock and is about to move
//!   its write pointer. So an implicit close leads to Closed, never to Empty, and need not read the
//!   write pointer.
mod extensions;
mod resources;
mod zrwa;

use extensions::Extensions;
pub use resources::ResourceCounts;
use resources::Resources;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use zonal_blk::lazy::LazyTable;
use zonal_blk::lock::{SpinLock, SpinLockGuard};
use zonal_blk::{
    Sector, Status, Zone, ZoneAttributes, ZoneCondition, ZoneExtensions, ZoneKind, ZoneNo,
    ZrwaLimits,
};
use zrwa::Areas;

/// Zone geometry and limits of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneLayout {
    /// Number of zones.
    pub nr_zones: u32,
    /// Zone size: the distance between zone starts.
    pub zone_size: Sector,
    /// Zone capacity of sequential zones, at most `zone_size`. Conventional zones have no other.
    pub zone_capacity: Sector,
    /// Leading zones that are conventional.
    pub conventional: u32,
    /// Maximum open zones, 0 for no limit. A limit of at least the number of sequential zones is
    /// no limit.
    pub max_open: u32,
    /// Maximum active zones, with the same rules.
    pub max_active: u32,
    /// Random write areas.
    pub zrwa: ZrwaLimits,
    /// Bytes of a zone's descriptor extension; 0 for none.
    pub extension: u32,
}

impl ZoneLayout {
    /// The limit on open zones that can take effect; 0 for none.
    pub fn open_limit(&self) -> u32 {
        self.effective(self.max_open)
    }

    /// The limit on active zones that can take effect; 0 for none.
    pub fn active_limit(&self) -> u32 {
        self.effective(self.max_active)
    }

    /// `limit`, or 0 if the sequential zones cannot exceed it, as in null_blk.
    fn effective(&self, limit: u32) -> u32 {
        if limit < self.nr_zones.saturating_sub(self.conventional) { limit } else { 0 }
    }
}

/// The zones of a device. Shared by all of its queues.
///
/// Positions are absolute, in sectors. The block layer has checked zone numbers; one beyond the
/// last zone is a bug and panics.
pub struct Zones {
    /// Zones that do not exist in it are as new.
    slots: LazyTable<Slot>,
    zone_size: u64,
    zone_capacity: u64,
    conventional: u32,
    max_open: u32,
    max_active: u32,
    /// Boxed, so that taking the lock does not invalidate the cache line of the fields above.
    resources: Option<Box<Mutex<Resources>>>,
    areas: Areas,
    extensions: Extensions,
}

impl Zones {
    /// The zones of a new device: all sequential zones empty.
    ///
    /// # Panics
    /// If more zones are conventional than there are, or the capacity is larger than the zone.
    pub fn new(layout: &ZoneLayout) -> Self {
        assert!(layout.conventional <= layout.nr_zones);
        assert!(layout.zone_capacity <= layout.zone_size);
        let max_open = layout.open_limit();
        let max_active = layout.active_limit();
        Zones {
            slots: LazyTable::new(layout.nr_zones as usize),
            zone_size: layout.zone_size.0,
            zone_capacity: layout.zone_capacity.0,
            conventional: layout.conventional,
            max_open,
            max_active,
            resources: (max_open > 0 || max_active > 0).then(|| {
                let resources = Resources::new(layout.nr_zones, max_open, max_active);
                Box::new(Mutex::new(resources))
            }),
            areas: Areas::new(layout.zrwa, layout.zone_capacity.0),
            extensions: Extensions::new(layout.extension),
        }
    }

    /// The zones of a device that has been used: `state` returns the condition of each sequential
    /// zone and its write pointer, as an offset in the zone. More zones may be active than the limit
    /// allows; no other becomes active then until some no longer are.
    ///
    /// # Panics
    /// As [`Zones::new`], or if `state` calls a zone open or conventional.
    pub fn restore(
        layout: &ZoneLayout,
        mut state: impl FnMut(ZoneNo) -> (ZoneCondition, Sector),
    ) -> Self {
        let zones = Zones::new(layout);
        for zone in (layout.conventional..layout.nr_zones).map(ZoneNo) {
            let (cond, wp) = state(zone);
            assert!(
                !cond.is_open() && cond != ZoneCondition::NotWritePointer,
                "no zone is open after power on"
            );
            if cond != ZoneCondition::Empty {
                zones.account(zone, ZoneCondition::Empty, cond);
                *zones.slot(zone).lock() = wp.0;
            }
        }
        zones
    }

    /// Sets a condition that needs no open or active resource.
    fn account(&self, zone: ZoneNo, from: ZoneCondition, to: ZoneCondition) {
        if let Some(resources) = &self.resources {
            resources.lock().expect(COUNTS).moved(zone, from, to);
        }
        self.set_condition_of(zone, self.slot(zone), to);
    }

    /// Sets the condition of a zone. One that is no longer active gives its random write area back, and
    /// one that is empty has no descriptor extension.
    fn set_condition_of(&self, zone: ZoneNo, slot: &Slot, to: ZoneCondition) {
        if slot.cond.set(to) {
            self.areas.give_back();
        }
        // What is recommended of an active zone holds until it no longer is.
        if !to.is_active() {
            slot.advice.store(0, Ordering::Relaxed);
        }
        if to == ZoneCondition::Empty && slot.has_extension() {
            slot.extended.store(false, Ordering::Relaxed);
            self.extensions.clear(zone);
        }
    }

    /// Zones that have a random write area.
    pub fn zrwas_in_use(&self) -> u32 {
        self.areas.in_use()
    }

    /// Maximum open zones; 0 for no limit.
    pub fn max_open(&self) -> u32 {
        self.max_open
    }

    /// Maximum active zones; 0 for no limit.
    pub fn max_active(&self) -> u32 {
        self.max_active
    }

    /// A zone's condition. Takes no lock.
    pub fn condition(&self, zone: ZoneNo) -> ZoneCondition {
        self.used(zone).map_or_else(|| self.first_condition(zone), |slot| slot.cond.get())
    }

    #[inline(always)]
    fn slot(&self, zone: ZoneNo) -> &Slot {
        let zone_of = |index| ZoneNo(u32::try_from(index).expect("zones have 32-bit numbers"));
        self.slots.get(zone.index(), |index| Slot::new(self.first_condition(zone_of(index))))
    }

    /// A zone's slot, unless the zone is as new.
    #[inline]
    fn used(&self, zone: ZoneNo) -> Option<&Slot> {
        self.slots.peek(zone.index())
    }

    /// The condition of a new device's zone.
    fn first_condition(&self, zone: ZoneNo) -> ZoneCondition {
        match self.is_conventional(zone) {
            true => ZoneCondition::NotWritePointer,
            false => ZoneCondition::Empty,
        }
    }

    /// Whether a zone is conventional.
    pub fn is_conventional(&self, zone: ZoneNo) -> bool {
        zone.0 < self.conventional
    }

    /// The first sector of a zone.
    pub(crate) fn start(&self, zone: ZoneNo) -> Sector {
        Sector(u64::from(zone.0) * self.zone_size)
    }

    pub(crate) fn zone_size(&self) -> Sector {
        Sector(self.zone_size)
    }

    /// Whether the zone can be read. Takes no lock.
    ///
    /// # Errors
    /// [`Status::Offline`] if the zone is offline.
    #[inline]
    pub fn check_read(&self, zone: ZoneNo) -> Result<(), Status> {
        match self.used(zone) {
            Some(slot) if slot.cond.get() == ZoneCondition::Offline => Err(Status::Offline),
            _ => Ok(()),
        }
    }

    /// Writes `nr_sectors` at `sector`. `store` runs if the write is accepted; in a sequential zone
    /// under its lock, so that a reset comes before or after the write and its data.
    ///
    /// # Errors
    /// [`Status::IoError`] if the write is not at the write pointer (with a random write area: not in
    /// the area or the region after it) or crosses the zone capacity, or the zone is full or read-only;
    /// [`Status::Offline`] if it is offline;
    /// [`Status::ZoneActiveResource`] or [`Status::ZoneOpenResource`] if it cannot be opened.
    #[inline(always)]
    pub fn write(
        &self,
        zone: ZoneNo,
        sector: Sector,
        nr_sectors: u32,
        store: impl FnOnce(),
    ) -> Result<(), Status> {
        self.write_moving(zone, sector, nr_sectors, store).map(|_| ())
    }

    /// As [`Zones::write`]; returns how far the write pointer moves, in a zone with a random write area
    /// less or more than the length of the write.
    #[inline(always)]
    pub(crate) fn write_moving(
        &self,
        zone: ZoneNo,
        sector: Sector,
        nr_sectors: u32,
        store: impl FnOnce(),
    ) -> Result<Sector, Status> {
        let slot = self.slot(zone);
        if self.is_conventional(zone) {
            check_writable(slot.cond.get())?;
            store();
            return Ok(Sector(nr_sectors.into()));
        }
        let mut wp = slot.lock();
        let at = sector.0.wrapping_sub(self.start(zone).0);
        let moved = self.advance(zone, slot, &mut wp, at, nr_sectors)?;
        store();
        Ok(Sector(moved))
    }

    /// Whether a write would surely be accepted, and leave its zone as it is but for the write pointer.
    #[inline]
    pub(crate) fn accepts(&self, zone: ZoneNo, sector: Sector, nr_sectors: u32) -> bool {
        let Some(slot) = self.used(zone).filter(|_| !self.is_conventional(zone)) else {
            return false;
        };
        let at = sector.0.wrapping_sub(self.start(zone).0);
        let end = at.wrapping_add(u64::from(nr_sectors));
        at == *slot.lock() && end < self.zone_capacity && slot.cond.is_open()
    }

    /// Prefetches the state of a zone that will be written soon.
    #[inline]
    pub fn prefetch_for_write(&self, zone: ZoneNo) {
        self.slot(zone).prefetch();
    }

    /// Writes `nr_sectors` at the write pointer. `store` gets their first sector and runs under the
    /// zone's lock.
    ///
    /// # Errors
    /// As [`Zones::write`]; [`Status::IoError`] for a conventional zone and for one with a random write
    /// area.
    pub fn append(
        &self,
        zone: ZoneNo,
        nr_sectors: u32,
        store: impl FnOnce(Sector),
    ) -> Result<(), Status> {
        self.check_sequential(zone)?;
        let slot = self.slot(zone);
        let mut wp = slot.lock();
        if slot.cond.has_zrwa() {
            return Err(Status::IoError);
        }
        let at = *wp;
        self.advance(zone, slot, &mut wp, at, nr_sectors)?;
        store(Sector(self.start(zone).0 + at));
        Ok(())
    }

    /// Advances the write pointer of a locked zone for a write at `at`, an offset in the zone. Returns
    /// by how much.
    #[inline]
    fn advance(
        &self,
        zone: ZoneNo,
        slot: &Slot,
        wp: &mut u64,
        at: u64,
        nr_sectors: u32,
    ) -> Result<u64, Status> {
        let end = at.wrapping_add(u64::from(nr_sectors));
        if at == *wp && end < self.zone_capacity && slot.cond.is_open() {
            *wp = end;
            return Ok(nr_sectors.into());
        }
        self.advance_to_other_condition(zone, slot, wp, (at, end))
    }

    #[inline(never)]
    fn advance_to_other_condition(
        &self,
        zone: ZoneNo,
        slot: &Slot,
        wp: &mut u64,
        (at, end): (u64, u64),
    ) -> Result<u64, Status> {
        check_writable(slot.cond.get())?;
        let moves = if slot.cond.has_zrwa() {
            self.areas.write(*wp, at, end)?
        } else if at != *wp || end > self.zone_capacity {
            return Err(Status::IoError);
        } else {
            end - at
        };
        self.move_pointer(zone, slot, wp, moves)?;
        Ok(moves)
    }

    /// Moves the write pointer of a locked zone, which opens unless it is open, or becomes full.
    fn move_pointer(
        &self,
        zone: ZoneNo,
        slot: &Slot,
        wp: &mut u64,
        moves: u64,
    ) -> Result<(), Status> {
        let end = *wp + moves;
        if end == self.zone_capacity {
            self.transition(zone, ZoneCondition::Full)?;
        } else if !slot.cond.get().is_open() {
            self.transition(zone, ZoneCondition::ImplicitOpen)?;
        }
        *wp = end;
        Ok(())
    }

    /// Rolls back writes that were accepted and then failed: the write pointer moves back to `to`,
    /// an offset in the zone. A zone that they filled stays full, as on a drive: other zones may
    /// have its resources already.
    pub fn roll_back(&self, zone: ZoneNo, to: Sector) {
        let slot = self.slot(zone);
        let mut wp = slot.lock();
        if !slot.cond.get().is_active() {
            return;
        }
        if to == Sector(0) {
            self.transition(zone, ZoneCondition::Empty).expect("a zone can always become empty");
        }
        *wp = to.0;
    }

    /// The write pointer of a zone; meaningless for a conventional one.
    pub fn write_pointer(&self, zone: ZoneNo) -> Sector {
        self.start(zone) + Sector(self.used(zone).map_or(0, |slot| *slot.lock()))
    }

    /// Opens a zone explicitly.
    ///
    /// # Errors
    /// [`Status::IoError`] if the zone is conventional, full or read-only; [`Status::Offline`];
    /// [`Status::ZoneActiveResource`] or [`Status::ZoneOpenResource`] if the limit is reached.
    pub fn open(&self, zone: ZoneNo) -> Result<(), Status> {
        self.check_sequential(zone)?;
        let slot = self.slot(zone);
        let _locked = slot.lock();
        match slot.cond.get() {
            ZoneCondition::ExplicitOpen => Ok(()),
            cond => check_writable(cond)
                .and_then(|()| self.transition(zone, ZoneCondition::ExplicitOpen)),
        }
    }

    /// Opens an empty zone explicitly, with a random write area (NVMe ZNS 1.1 section 3.4.3, Open Zone
    /// with ZRWAA).
    ///
    /// # Errors
    /// As [`Zones::open`]; [`Status::IoError`] if the zone is not empty; [`Status::NoSpace`] if as many
    /// zones as may have an area have one; [`Status::NotSupported`] if the device has none.
    pub fn open_zrwa(&self, zone: ZoneNo) -> Result<(), Status> {
        self.check_sequential(zone)?;
        let slot = self.slot(zone);
        let _locked = slot.lock();
        check_empty(slot.cond.get())?;
        self.areas.take()?;
        let opened = self.transition(zone, ZoneCondition::ExplicitOpen);
        match opened {
            Ok(()) => slot.cond.set_zrwa(),
            Err(_) => self.areas.give_back(),
        }
        opened
    }

    /// Commits the random write area of a zone up to `to`, an offset in the zone: the explicit ZRWA
    /// flush. Returns how far the write pointer moves.
    ///
    /// # Errors
    /// [`Status::IoError`] if the zone has no area; [`Status::Invalid`] if `to` is not the end of a
    /// granule of it; [`Status::ZoneOpenResource`] if the zone is closed and cannot be opened.
    pub fn commit(&self, zone: ZoneNo, to: Sector) -> Result<Sector, Status> {
        let slot = self.slot(zone);
        let mut wp = slot.lock();
        match slot.cond.get() {
            ZoneCondition::Offline => return Err(Status::Offline),
            _ if !slot.cond.has_zrwa() => return Err(Status::IoError),
            _ => {}
        }
        let moves = self.areas.commit(*wp, to.0)?;
        self.move_pointer(zone, slot, &mut wp, moves)?;
        Ok(Sector(moves))
    }

    /// Finishes a zone if it is active, on the device's own account: that needs no resources. Returns
    /// whether it was.
    pub(crate) fn finish_by_device(&self, zone: ZoneNo) -> bool {
        let slot = self.slot(zone);
        let mut wp = slot.lock();
        let mut resources =
            self.resources.as_ref().map(|resources| resources.lock().expect(COUNTS));
        let from = slot.cond.get();
        if !from.is_active() {
            return false;
        }
        if let Some(resources) = &mut resources {
            resources.moved(zone, from, ZoneCondition::Full);
        }
        self.set_condition_of(zone, slot, ZoneCondition::Full);
        slot.advise(ZoneAttributes::FINISHED_BY_DEVICE);
        *wp = self.zone_capacity;
        true
    }

    /// Recommends to finish a zone, if it is active, or to reset it, if it is full. Returns whether it
    /// was.
    pub(crate) fn advise(&self, zone: ZoneNo, advice: ZoneAttributes) -> bool {
        let slot = self.slot(zone);
        let _locked = slot.lock();
        let cond = slot.cond.get();
        let fits = match advice {
            ZoneAttributes::FINISH_RECOMMENDED => cond.is_active(),
            _ => cond == ZoneCondition::Full,
        };
        if fits {
            slot.advise(advice);
        }
        fits
    }

    /// The zones as they keep descriptor extensions, if they do.
    pub(crate) fn extensions(&self) -> Option<&dyn ZoneExtensions> {
        (self.extensions.size() > 0).then_some(self)
    }

    /// Closes an open zone; one that was not written, and has neither a random write area nor a
    /// descriptor extension, becomes empty.
    ///
    /// # Errors
    /// [`Status::IoError`] if the zone is neither open nor closed; [`Status::Offline`].
    pub fn close(&self, zone: ZoneNo) -> Result<(), Status> {
        self.check_sequential(zone)?;
        let slot = self.slot(zone);
        let wp = slot.lock();
        match slot.cond.get() {
            ZoneCondition::Closed => Ok(()),
            cond if cond.is_open() && *wp == 0 && !slot.is_kept() => {
                self.transition(zone, ZoneCondition::Empty)
            }
            cond if cond.is_open() => self.transition(zone, ZoneCondition::Closed),
            ZoneCondition::Offline => Err(Status::Offline),
            _ => Err(Status::IoError),
        }
    }

    /// Finishes a zone. An empty or closed one needs the resources of an open zone for a moment.
    ///
    /// # Errors
    /// [`Status::IoError`] if the zone is conventional or read-only; [`Status::Offline`];
    /// [`Status::ZoneActiveResource`] or [`Status::ZoneOpenResource`] if the limit is reached.
    pub fn finish(&self, zone: ZoneNo) -> Result<(), Status> {
        self.check_sequential(zone)?;
        let slot = self.slot(zone);
        let mut wp = slot.lock();
        match slot.cond.get() {
            ZoneCondition::Full => Ok(()),
            cond => {
                check_writable(cond)?;
                self.transition(zone, ZoneCondition::Full)?;
                *wp = self.zone_capacity;
                Ok(())
            }
        }
    }

    /// Resets a zone. `forget` runs under its lock unless the zone was empty.
    ///
    /// # Errors
    /// [`Status::IoError`] if the zone is conventional or read-only; [`Status::Offline`].
    pub fn reset(&self, zone: ZoneNo, forget: impl FnOnce()) -> Result<(), Status> {
        self.check_sequential(zone)?;
        let slot = self.slot(zone);
        let mut wp = slot.lock();
        match slot.cond.get() {
            ZoneCondition::Empty => return Ok(()),
            ZoneCondition::ReadOnly => return Err(Status::IoError),
            ZoneCondition::Offline => return Err(Status::Offline),
            _ => {}
        }
        self.transition(zone, ZoneCondition::Empty)?;
        *wp = 0;
        forget();
        Ok(())
    }

    /// Resets all sequential zones that are neither read-only nor offline, one by one.
    pub fn reset_all(&self, mut forget: impl FnMut(ZoneNo)) {
        for zone in (self.conventional..self.nr_zones()).map(ZoneNo) {
            if self.used(zone).is_none() {
                continue;
            }
            // Zones that are read-only or offline are skipped, as the standards have it.
            let _refused = self.reset(zone, || forget(zone));
        }
    }

    /// Moves a zone's write pointer back to `wp`, an offset in the zone, and closes the zone.
    /// `forget` runs under its lock unless the zone was empty.
    ///
    /// # Errors
    /// As [`Zones::reset`] and [`Zones::write`].
    pub fn rewind(&self, zone: ZoneNo, wp: Sector, forget: impl FnOnce()) -> Result<(), Status> {
        self.reset(zone, forget)?;
        if wp > Sector(0) {
            let len = u32::try_from(wp.0).map_err(|_| Status::Invalid)?;
            self.write(zone, self.start(zone), len, || ())?;
            self.close(zone)?;
        }
        Ok(())
    }

    /// Closes all open zones.
    pub fn close_all(&self) {
        for zone in (0..self.nr_zones()).map(ZoneNo).filter(|&zone| self.used(zone).is_some()) {
            // Fails for a zone that is not open, which stays as it is.
            let _not_open = self.close(zone);
        }
    }

    /// Makes a zone fail, or repairs it: `ReadOnly` or `Offline` from any condition; `Empty` repairs
    /// a sequential zone, `NotWritePointer` a conventional one. `forget` runs under the lock of a
    /// sequential zone that becomes empty.
    ///
    /// # Errors
    /// [`Status::Invalid`] for a condition that cannot be set.
    pub fn set_condition(
        &self,
        zone: ZoneNo,
        to: ZoneCondition,
        forget: impl FnOnce(),
    ) -> Result<(), Status> {
        use ZoneCondition::{Empty, NotWritePointer, Offline, ReadOnly};
        let mut wp = self.slot(zone).lock();
        match (to, self.is_conventional(zone)) {
            (ReadOnly | Offline, _) | (NotWritePointer, true) => self.transition(zone, to),
            (Empty, false) => {
                self.transition(zone, to)?;
                *wp = 0;
                forget();
                Ok(())
            }
            _ => Err(Status::Invalid),
        }
    }

    /// Appends the descriptors of up to `max` zones from `first` on to `zones`. As in Linux, the
    /// write pointer of a conventional or full zone is reported as the end of the zone.
    ///
    /// # Errors
    /// [`Status::Invalid`] if `first` is beyond the last zone.
    pub fn report(&self, first: ZoneNo, max: usize, zones: &mut Vec<Zone>) -> Result<(), Status> {
        if first.0 >= self.nr_zones() {
            return Err(Status::Invalid);
        }
        let count = u32::try_from(max).unwrap_or(u32::MAX);
        let end = first.0.saturating_add(count).min(self.nr_zones());
        zones.extend((first.0..end).map(|zone| self.describe(ZoneNo(zone))));
        Ok(())
    }

    /// How many zones from `first` on, up to `max`, are sequential and nothing has been done to them:
    /// [`zonal_blk::Device::zones_as_new`].
    pub fn as_new(&self, first: ZoneNo, max: u32) -> u32 {
        if self.is_conventional(first) {
            return 0;
        }
        let missing = self.slots.missing_from(first.index(), max as usize);
        u32::try_from(missing).expect("zones have 32-bit numbers")
    }

    fn describe(&self, zone: ZoneNo) -> Zone {
        let (wp, cond, attributes) = match self.used(zone) {
            None => (0, self.first_condition(zone), ZoneAttributes::NONE),
            Some(slot) => {
                let wp = slot.lock();
                (*wp, slot.cond.get(), slot.attributes())
            }
        };
        let start = self.start(zone).0;
        let (kind, capacity) = if self.is_conventional(zone) {
            (ZoneKind::Conventional, self.zone_size)
        } else {
            (ZoneKind::SequentialRequired, self.zone_capacity)
        };
        let has_wp = kind == ZoneKind::SequentialRequired && cond != ZoneCondition::Full;
        Zone {
            start: Sector(start),
            len: Sector(self.zone_size),
            capacity: Sector(capacity),
            wp: Sector(start + if has_wp { wp } else { self.zone_size }),
            kind,
            cond,
            attributes,
        }
    }

    /// How many zones hold open and active resources, at one moment. Visits every zone.
    ///
    /// # Panics
    /// If the zones do not add up to the counts, which is a bug.
    pub fn in_use(&self) -> ResourceCounts {
        let counts = self.resources.as_ref().map(|r| r.lock().expect(COUNTS));
        let mut in_use = ResourceCounts::default();
        for (_, slot) in self.slots.iter() {
            if let Some(count) = in_use.counter(slot.cond.get()) {
                *count += 1;
            }
        }
        if let Some(counts) = counts {
            assert_eq!(in_use, counts.in_use(), "every zone is counted");
        }
        in_use
    }

    pub(crate) fn nr_zones(&self) -> u32 {
        u32::try_from(self.slots.len()).expect("zones have 32-bit numbers")
    }

    fn check_sequential(&self, zone: ZoneNo) -> Result<(), Status> {
        if !self.is_conventional(zone) {
            return Ok(());
        }
        match self.condition(zone) {
            ZoneCondition::Offline => Err(Status::Offline),
            _ => Err(Status::IoError),
        }
    }

    /// Changes the condition of a zone whose lock the caller holds to `to`, implicitly closing
    /// another zone if the limit requires it.
    fn transition(&self, zone: ZoneNo, to: ZoneCondition) -> Result<(), Status> {
        let slot = self.slot(zone);
        let Some(resources) = &self.resources else {
            self.set_condition_of(zone, slot, to);
            return Ok(());
        };
        let mut resources = resources.lock().expect(COUNTS);
        // Stable only now: without this lock the zone could be closed implicitly.
        let from = slot.cond.get();
        if (from, to) == (ZoneCondition::Empty, ZoneCondition::Closed) {
            resources.check_active()?;
        }
        let opens = to.is_open() || to == ZoneCondition::Full;
        if opens
            && matches!(from, ZoneCondition::Empty | ZoneCondition::Closed)
            && let Some(victim) = resources.make_room(from)?
        {
            resources.moved(victim, ZoneCondition::ImplicitOpen, ZoneCondition::Closed);
            self.set_condition_of(victim, self.slot(victim), ZoneCondition::Closed);
        }
        resources.moved(zone, from, to);
        self.set_condition_of(zone, slot, to);
        Ok(())
    }
}

impl ZoneExtensions for Zones {
    fn size(&self) -> usize {
        self.extensions.size() as usize
    }

    fn get(&self, zone: ZoneNo, to: &mut [u8]) {
        self.extensions.get(zone, to);
    }

    fn set(&self, zone: ZoneNo, data: &[u8], zrwa: bool) -> Result<(), Status> {
        if zone.0 >= self.nr_zones() || data.len() != self.size() {
            return Err(Status::Invalid);
        }
        self.check_sequential(zone)?;
        let slot = self.slot(zone);
        let _locked = slot.lock();
        check_empty(slot.cond.get())?;
        if zrwa {
            self.areas.take()?;
        }
        let closed = self.transition(zone, ZoneCondition::Closed);
        match closed {
            Ok(()) => {
                self.extensions.set(zone, data);
                slot.extended.store(true, Ordering::Relaxed);
                if zrwa {
                    slot.cond.set_zrwa();
                }
            }
            Err(_) if zrwa => self.areas.give_back(),
            Err(_) => {}
        }
        closed
    }
}

const COUNTS: &str = "no thread panics while it holds the counts of open and active zones";

/// Fails for the condition of a zone that is not empty.
fn check_empty(cond: ZoneCondition) -> Result<(), Status> {
    match cond {
        ZoneCondition::Empty => Ok(()),
        ZoneCondition::Offline => Err(Status::Offline),
        _ => Err(Status::IoError),
    }
}

/// Fails for a condition in which no write is accepted.
fn check_writable(cond: ZoneCondition) -> Result<(), Status> {
    match cond {
        ZoneCondition::Full | ZoneCondition::ReadOnly => Err(Status::IoError),
        ZoneCondition::Offline => Err(Status::Offline),
        _ => Ok(()),
    }
}

/// A zone's condition and write pointer. Aligned so that threads that write neighbouring zones do
/// not share a cache line.
#[repr(align(64))]
struct Slot {
    /// Guarded by the lock below, but for the implicit close that the module documentation explains.
    cond: Condition,
    /// The write pointer, in sectors from the zone's start.
    wp: SpinLock<u64>,
    /// Written to prefetch the line, never read.
    touched: AtomicU8,
    /// The zone has a descriptor extension. Changed under the lock.
    extended: AtomicBool,
    /// Recommendations and own actions of the device: [`ZoneAttributes`]. Changed under the lock.
    advice: AtomicU8,
}

const _: () = assert!(size_of::<Slot>() == 64, "a zone costs one cache line");

impl Slot {
    fn new(cond: ZoneCondition) -> Self {
        Slot {
            cond: Condition(AtomicU8::new(cond as u8)),
            wp: SpinLock::new(0),
            touched: AtomicU8::new(0),
            extended: AtomicBool::new(false),
            advice: AtomicU8::new(0),
        }
    }

    /// Fetches the zone's cache line for writing without waiting for it: a store retires while the
    /// line is in flight, an atomic read-modify-write does not.
    #[inline]
    fn prefetch(&self) {
        self.touched.store(1, Ordering::Relaxed);
    }

    fn attributes(&self) -> ZoneAttributes {
        let of = |has, attribute| if has { attribute } else { ZoneAttributes::NONE };
        of(self.cond.has_zrwa(), ZoneAttributes::ZRWA)
            | of(self.has_extension(), ZoneAttributes::EXTENSION)
            | ZoneAttributes::from_bits(self.advice.load(Ordering::Relaxed))
    }

    /// Adds an attribute. The caller holds the lock.
    fn advise(&self, advice: ZoneAttributes) {
        self.advice.fetch_or(advice.bits(), Ordering::Relaxed);
    }

    fn has_extension(&self) -> bool {
        self.extended.load(Ordering::Relaxed)
    }

    /// Whether the zone holds something although its write pointer is at its start.
    fn is_kept(&self) -> bool {
        self.cond.has_zrwa() || self.has_extension()
    }

    /// Locks the zone and returns its write pointer.
    #[inline]
    fn lock(&self) -> SpinLockGuard<'_, u64> {
        self.wp.lock()
    }
}

/// A zone's condition, readable without its lock, and whether it has a random write area. The areas
/// are in the same byte so that a write to an open zone without one need not look for them.
///
/// Accesses are relaxed: the condition publishes no other data, and a reader that must see a change
/// is ordered after it by a lock or by the completion that it has received.
struct Condition(AtomicU8);

const IMPLICIT_OPEN: u8 = ZoneCondition::ImplicitOpen as u8;
const EXPLICIT_OPEN: u8 = ZoneCondition::ExplicitOpen as u8;
/// The zone has a random write area.
const HAS_ZRWA: u8 = 1 << 4;

/// Conditions by their 4-bit codes; unused codes are never stored.
const BY_CODE: [ZoneCondition; 16] = {
    use ZoneCondition::*;
    let mut table = [NotWritePointer; 16];
    let written = [Empty, ImplicitOpen, ExplicitOpen, Closed, ReadOnly, Full, Offline];
    let mut i = 0;
    while i < written.len() {
        table[written[i] as usize] = written[i];
        i += 1;
    }
    table
};

impl Condition {
    /// Whether the zone is open and has no random write area, without decoding: every write needs
    /// this.
    #[inline]
    fn is_open(&self) -> bool {
        matches!(self.0.load(Ordering::Relaxed), IMPLICIT_OPEN | EXPLICIT_OPEN)
    }

    #[inline]
    fn get(&self) -> ZoneCondition {
        BY_CODE[usize::from(self.0.load(Ordering::Relaxed) & 0xf)]
    }

    /// Changes the condition. Returns whether the zone loses its random write area by that.
    fn set(&self, cond: ZoneCondition) -> bool {
        let area = self.0.load(Ordering::Relaxed) & HAS_ZRWA;
        let kept = if cond.is_active() { area } else { 0 };
        self.0.store(cond as u8 | kept, Ordering::Relaxed);
        area != kept
    }

    fn has_zrwa(&self) -> bool {
        self.0.load(Ordering::Relaxed) & HAS_ZRWA != 0
    }

    fn set_zrwa(&self) {
        self.0.store(self.0.load(Ordering::Relaxed) | HAS_ZRWA, Ordering::Relaxed);
    }
}
