//! The zones of a device: conditions, write pointers, and the commands that change them.
//!
//! Takes writes and zone management commands; gives each a status, and the zones as a device
//! reports them. Keeps true: a sequential zone is written at its write pointer only, never beyond
//! its capacity; no more zones are open or active than the limits allow.
//!
//! The conditions are those of NVMe ZNS 1.1 section 2.1.1; where the standards leave a choice, it
//! is that of Linux's null_blk: an open zone that was not written becomes empty when it is closed,
//! finishing an empty or closed zone needs the resources that writing it would need, closing a
//! closed zone and finishing a full one succeed and change nothing.
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
//! # Locks
//!
//! A zone has its own lock. One more lock guards the accounts of open and active zones. It is
//! taken by transitions alone, always after the zone's, so a write to a zone that is open takes
//! one uncontended lock; a device without limits has no accounts.
//!
//! A zone that opens at the limit must close *another* zone, whose lock it cannot wait for: two
//! zones could wait for each other. So the condition of a zone is an atomic beside its lock, and
//! the accounts' lock is enough for this one transition:
//!
//! - every transition of a zone holds the accounts' lock; all but ImplicitOpen -> Closed hold the
//!   zone's lock too. So nobody ever holds or waits for two zones' locks, and the order zone, then
//!   accounts has no cycle.
//! - a transition reads the condition that it starts from under the accounts' lock, where it is
//!   settled, and not before.
//! - a write that found its zone open and then loses the zone to an implicit close counts as done
//!   before the close: it holds the zone's lock until its write pointer has moved, and reports
//!   take that lock, so nobody can see the zone closed with the write still to come.
//! - an implicitly open zone has been written, or its writer holds its lock and is about to move
//!   its write pointer. So the implicit close leads to Closed, never to Empty, and need not know
//!   the write pointer.
mod resources;
mod slot;

pub use resources::ResourceCounts;
use resources::Resources;
use slot::Slot;
use std::sync::Mutex;
use zonal_blk::{Sector, Status, Zone, ZoneCondition, ZoneKind, ZoneNo};

/// How a device's zones lie and what it limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneLayout {
    /// Number of zones.
    pub nr_zones: u32,
    /// Distance between zone starts.
    pub zone_size: Sector,
    /// Writable sectors of a sequential zone, at most `zone_size`. Conventional zones have all.
    pub zone_capacity: Sector,
    /// Leading zones that are conventional.
    pub conventional: u32,
    /// Zones that may be open at once, 0 for no limit. A limit that all sequential zones stay
    /// within is none.
    pub max_open: u32,
    /// Zones that may be active at once, with the same rules.
    pub max_active: u32,
}

impl ZoneLayout {
    /// The limit on open zones that can be felt; 0 for none.
    pub fn open_limit(&self) -> u32 {
        self.effective(self.max_open)
    }

    /// The limit on active zones that can be felt; 0 for none.
    pub fn active_limit(&self) -> u32 {
        self.effective(self.max_active)
    }

    /// `limit`, or 0 if the sequential zones cannot exceed it, as null_blk has it.
    fn effective(&self, limit: u32) -> u32 {
        if limit < self.nr_zones.saturating_sub(self.conventional) { limit } else { 0 }
    }
}

/// The zones of a device. Shared by all of its queues.
///
/// Positions are absolute, in sectors. Zone numbers come from the block layer, which has checked
/// them; one beyond the last zone is a bug and panics.
pub struct Zones {
    slots: Box<[Slot]>,
    zone_size: u64,
    zone_capacity: u64,
    conventional: u32,
    max_open: u32,
    max_active: u32,
    /// In a box, so that taking the lock does not disturb who reads the fields above.
    resources: Option<Box<Mutex<Resources>>>,
}

impl Zones {
    /// Makes the zones of a new device: all sequential zones empty.
    ///
    /// # Panics
    /// If more zones are conventional than there are, or the capacity is larger than the zone.
    pub fn new(layout: &ZoneLayout) -> Self {
        assert!(layout.conventional <= layout.nr_zones);
        assert!(layout.zone_capacity <= layout.zone_size);
        let max_open = layout.open_limit();
        let max_active = layout.active_limit();
        let slot = |zone| {
            Slot::new(if zone < layout.conventional {
                ZoneCondition::NotWritePointer
            } else {
                ZoneCondition::Empty
            })
        };
        Zones {
            slots: (0..layout.nr_zones).map(slot).collect(),
            zone_size: layout.zone_size.0,
            zone_capacity: layout.zone_capacity.0,
            conventional: layout.conventional,
            max_open,
            max_active,
            resources: (max_open > 0 || max_active > 0).then(|| {
                let resources = Resources::new(layout.nr_zones, max_open, max_active);
                Box::new(Mutex::new(resources))
            }),
        }
    }

    /// Makes the zones of a device that has been used: `state` gives the condition of each
    /// sequential zone, and where its next write must begin, from the zone's start. More zones may
    /// be active than the limit allows; then no other becomes active until some are not.
    ///
    /// # Panics
    /// As [`Zones::new`]; for a zone that is said to be open, or conventional and is not.
    pub fn restore(
        layout: &ZoneLayout,
        mut state: impl FnMut(ZoneNo) -> (ZoneCondition, Sector),
    ) -> Self {
        let zones = Zones::new(layout);
        for zone in (layout.conventional..layout.nr_zones).map(ZoneNo) {
            let (cond, wp) = state(zone);
            assert!(!cond.is_open() && cond != ZoneCondition::NotWritePointer, "as after power on");
            if cond != ZoneCondition::Empty {
                zones.account(zone, ZoneCondition::Empty, cond);
                *zones.slots[zone.index()].lock() = wp.0;
            }
        }
        zones
    }

    /// Notes a condition that needs no room among the open or active zones.
    fn account(&self, zone: ZoneNo, from: ZoneCondition, to: ZoneCondition) {
        if let Some(resources) = &self.resources {
            resources.lock().expect(ACCOUNTS).moved(zone, from, to);
        }
        self.slots[zone.index()].cond.set(to);
    }

    /// Zones that may be open at once; 0 for no limit.
    pub fn max_open(&self) -> u32 {
        self.max_open
    }

    /// Zones that may be active at once; 0 for no limit.
    pub fn max_active(&self) -> u32 {
        self.max_active
    }

    /// A zone's condition. Takes no lock.
    pub fn condition(&self, zone: ZoneNo) -> ZoneCondition {
        self.slots[zone.index()].cond.get()
    }

    /// Whether a zone is conventional.
    pub fn is_conventional(&self, zone: ZoneNo) -> bool {
        zone.0 < self.conventional
    }

    fn start(&self, zone: ZoneNo) -> u64 {
        u64::from(zone.0) * self.zone_size
    }

    /// Whether the zone can be read. Takes no lock.
    ///
    /// # Errors
    /// [`Status::Offline`] if the zone is offline.
    #[inline]
    pub fn check_read(&self, zone: ZoneNo) -> Result<(), Status> {
        if self.slots[zone.index()].cond.get() == ZoneCondition::Offline {
            return Err(Status::Offline);
        }
        Ok(())
    }

    /// Writes `nr_sectors` at `sector`. `store` runs if the write is accepted; in a sequential
    /// zone under its lock, so that a reset comes before or after write and data.
    ///
    /// # Errors
    /// [`Status::IoError`] if the write is not at the write pointer or goes beyond the capacity,
    /// or the zone is full or read-only; [`Status::Offline`] if it is offline;
    /// [`Status::ZoneActiveResource`] or [`Status::ZoneOpenResource`] if it cannot be opened.
    #[inline]
    pub fn write(
        &self,
        zone: ZoneNo,
        sector: Sector,
        nr_sectors: u32,
        store: impl FnOnce(),
    ) -> Result<(), Status> {
        let slot = &self.slots[zone.index()];
        if self.is_conventional(zone) {
            check_writable(slot.cond.get())?;
            store();
            return Ok(());
        }
        let mut wp = slot.lock();
        let at = sector.0.wrapping_sub(self.start(zone));
        self.advance(zone, &mut wp, at, nr_sectors)?;
        store();
        Ok(())
    }

    /// Says that a zone will be written soon, so that its state is at hand by then.
    #[inline]
    pub fn prefetch_for_write(&self, zone: ZoneNo) {
        self.slots[zone.index()].prefetch();
    }

    /// Writes `nr_sectors` at the write pointer. `store` is told where they land and runs under
    /// the zone's lock.
    ///
    /// # Errors
    /// As [`Zones::write`]; [`Status::IoError`] for a conventional zone.
    pub fn append(
        &self,
        zone: ZoneNo,
        nr_sectors: u32,
        store: impl FnOnce(Sector),
    ) -> Result<(), Status> {
        self.check_sequential(zone)?;
        let mut wp = self.slots[zone.index()].lock();
        let at = *wp;
        self.advance(zone, &mut wp, at, nr_sectors)?;
        store(Sector(self.start(zone) + at));
        Ok(())
    }

    /// Moves the write pointer of a locked zone behind a write at `at`, from the zone's start.
    #[inline]
    fn advance(&self, zone: ZoneNo, wp: &mut u64, at: u64, nr_sectors: u32) -> Result<(), Status> {
        let end = at.wrapping_add(u64::from(nr_sectors));
        if at == *wp && end < self.zone_capacity && self.slots[zone.index()].cond.is_open() {
            *wp = end;
            return Ok(());
        }
        self.advance_to_other_condition(zone, wp, at, end)
    }

    #[inline(never)]
    fn advance_to_other_condition(
        &self,
        zone: ZoneNo,
        wp: &mut u64,
        at: u64,
        end: u64,
    ) -> Result<(), Status> {
        check_writable(self.slots[zone.index()].cond.get())?;
        if at != *wp || end > self.zone_capacity {
            return Err(Status::IoError);
        }
        let to = if end == self.zone_capacity {
            ZoneCondition::Full
        } else {
            ZoneCondition::ImplicitOpen
        };
        self.transition(zone, to)?;
        *wp = end;
        Ok(())
    }

    /// Takes back writes that were accepted and then failed: the next write must begin at `to`,
    /// from the zone's start. A zone that they made full stays full, as a drive may have it: its
    /// resources are gone to others.
    pub fn roll_back(&self, zone: ZoneNo, to: Sector) {
        let slot = &self.slots[zone.index()];
        let mut wp = slot.lock();
        if !slot.cond.get().is_active() {
            return;
        }
        if to == Sector(0) {
            self.transition(zone, ZoneCondition::Empty).expect("a zone can always become empty");
        }
        *wp = to.0;
    }

    /// Where the next write to a zone must begin; means nothing for a conventional one.
    pub fn write_pointer(&self, zone: ZoneNo) -> Sector {
        Sector(self.start(zone) + *self.slots[zone.index()].lock())
    }

    /// Opens a zone explicitly.
    ///
    /// # Errors
    /// [`Status::IoError`] if the zone is conventional, full or read-only; [`Status::Offline`];
    /// [`Status::ZoneActiveResource`] or [`Status::ZoneOpenResource`] if there is no room.
    pub fn open(&self, zone: ZoneNo) -> Result<(), Status> {
        self.check_sequential(zone)?;
        let slot = &self.slots[zone.index()];
        let _locked = slot.lock();
        match slot.cond.get() {
            ZoneCondition::ExplicitOpen => Ok(()),
            cond => check_writable(cond)
                .and_then(|()| self.transition(zone, ZoneCondition::ExplicitOpen)),
        }
    }

    /// Closes an open zone. One that was not written becomes empty.
    ///
    /// # Errors
    /// [`Status::IoError`] if the zone is neither open nor closed; [`Status::Offline`].
    pub fn close(&self, zone: ZoneNo) -> Result<(), Status> {
        self.check_sequential(zone)?;
        let slot = &self.slots[zone.index()];
        let wp = slot.lock();
        match slot.cond.get() {
            ZoneCondition::Closed => Ok(()),
            cond if cond.is_open() && *wp == 0 => self.transition(zone, ZoneCondition::Empty),
            cond if cond.is_open() => self.transition(zone, ZoneCondition::Closed),
            ZoneCondition::Offline => Err(Status::Offline),
            _ => Err(Status::IoError),
        }
    }

    /// Makes a zone full. An empty or closed zone is opened for it.
    ///
    /// # Errors
    /// [`Status::IoError`] if the zone is conventional or read-only; [`Status::Offline`];
    /// [`Status::ZoneActiveResource`] or [`Status::ZoneOpenResource`] if there is no room.
    pub fn finish(&self, zone: ZoneNo) -> Result<(), Status> {
        self.check_sequential(zone)?;
        let slot = &self.slots[zone.index()];
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

    /// Empties a zone. `forget` runs under its lock if there was something to empty.
    ///
    /// # Errors
    /// [`Status::IoError`] if the zone is conventional or read-only; [`Status::Offline`].
    pub fn reset(&self, zone: ZoneNo, forget: impl FnOnce()) -> Result<(), Status> {
        self.check_sequential(zone)?;
        let slot = &self.slots[zone.index()];
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

    /// Empties all sequential zones that can be emptied, one after the other.
    pub fn reset_all(&self, mut forget: impl FnMut(ZoneNo)) {
        for zone in (self.conventional..self.nr_zones()).map(ZoneNo) {
            // A zone that is read-only or offline stays so, and is no failure of the others.
            let _refused = self.reset(zone, || forget(zone));
        }
    }

    /// Moves a zone's write pointer back to `wp`, from the zone's start, and closes the zone.
    /// `forget` runs under its lock if there was something behind it.
    ///
    /// # Errors
    /// As [`Zones::reset`] and [`Zones::write`].
    pub fn rewind(&self, zone: ZoneNo, wp: Sector, forget: impl FnOnce()) -> Result<(), Status> {
        self.reset(zone, forget)?;
        if wp > Sector(0) {
            let len = u32::try_from(wp.0).map_err(|_| Status::Invalid)?;
            self.write(zone, Sector(self.start(zone)), len, || ())?;
            self.close(zone)?;
        }
        Ok(())
    }

    /// Closes all open zones.
    pub fn close_all(&self) {
        for zone in (0..self.nr_zones()).map(ZoneNo) {
            // A zone that is not open stays as it is.
            let _not_open = self.close(zone);
        }
    }

    /// Makes a zone fail, or mends it: `ReadOnly` or `Offline` from any condition; `Empty` for a
    /// sequential zone and `NotWritePointer` for a conventional one mend it. `forget` runs under
    /// the lock of a sequential zone that becomes empty.
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
        let mut wp = self.slots[zone.index()].lock();
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

    /// Appends the descriptors of up to `max` zones from `first` on to `zones`. The write pointer
    /// of a zone that has none, conventional or full, is the end of the zone, as in Linux.
    ///
    /// # Errors
    /// [`Status::Invalid`] if `first` lies beyond the last zone.
    pub fn report(&self, first: ZoneNo, max: usize, zones: &mut Vec<Zone>) -> Result<(), Status> {
        if first.0 >= self.nr_zones() {
            return Err(Status::Invalid);
        }
        let count = u32::try_from(max).unwrap_or(u32::MAX);
        let end = first.0.saturating_add(count).min(self.nr_zones());
        zones.extend((first.0..end).map(|zone| self.describe(ZoneNo(zone))));
        Ok(())
    }

    fn describe(&self, zone: ZoneNo) -> Zone {
        let slot = &self.slots[zone.index()];
        let wp = slot.lock();
        let cond = slot.cond.get();
        let start = self.start(zone);
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
            wp: Sector(start + if has_wp { *wp } else { self.zone_size }),
            kind,
            cond,
        }
    }

    /// How many zones hold resources, at one moment. Looks at every zone.
    ///
    /// # Panics
    /// If the zones do not add up to the accounts, which is a bug.
    pub fn in_use(&self) -> ResourceCounts {
        let accounts = self.resources.as_ref().map(|r| r.lock().expect(ACCOUNTS));
        let mut in_use = ResourceCounts::default();
        for slot in &self.slots {
            if let Some(count) = in_use.counter(slot.cond.get()) {
                *count += 1;
            }
        }
        if let Some(accounts) = accounts {
            assert_eq!(in_use, accounts.in_use(), "every zone is accounted for");
        }
        in_use
    }

    fn nr_zones(&self) -> u32 {
        u32::try_from(self.slots.len()).expect("zones have 32-bit numbers")
    }

    fn check_sequential(&self, zone: ZoneNo) -> Result<(), Status> {
        if !self.is_conventional(zone) {
            return Ok(());
        }
        match self.slots[zone.index()].cond.get() {
            ZoneCondition::Offline => Err(Status::Offline),
            _ => Err(Status::IoError),
        }
    }

    /// Brings a zone whose lock the caller holds to condition `to`, closing another zone if that
    /// is what it takes.
    fn transition(&self, zone: ZoneNo, to: ZoneCondition) -> Result<(), Status> {
        let cond = &self.slots[zone.index()].cond;
        let Some(resources) = &self.resources else {
            cond.set(to);
            return Ok(());
        };
        let mut resources = resources.lock().expect(ACCOUNTS);
        // Only now is it settled: until the lock was ours, the zone could be closed implicitly.
        let from = cond.get();
        let opens = to.is_open() || to == ZoneCondition::Full;
        if opens
            && matches!(from, ZoneCondition::Empty | ZoneCondition::Closed)
            && let Some(victim) = resources.make_room(from)?
        {
            resources.moved(victim, ZoneCondition::ImplicitOpen, ZoneCondition::Closed);
            self.slots[victim.index()].cond.set(ZoneCondition::Closed);
        }
        resources.moved(zone, from, to);
        cond.set(to);
        Ok(())
    }
}

/// The lock that a panicking thread would have poisoned.
const ACCOUNTS: &str = "lock of the open and active accounts";

/// Whether a zone in this condition can be written at all.
fn check_writable(cond: ZoneCondition) -> Result<(), Status> {
    match cond {
        ZoneCondition::Full | ZoneCondition::ReadOnly => Err(Status::IoError),
        ZoneCondition::Offline => Err(Status::Offline),
        _ => Ok(()),
    }
}
