//! The plug of one zone: its write pointer, what is in flight, and what waits.
use crate::op::Op;
use crate::probe::{mark, mutant};
use crate::request::{Request, RequestFifo, RequestList};
use crate::status::Status;
use crate::units::{Nanos, Sector};
use crate::zone::{Zone, ZoneCondition, ZoneKind};

/// A zone's condition as the layer knows it. Whether a zone is open, only the device knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ZoneState {
    Conventional,
    /// Writable, at the write pointer.
    Sequential,
    /// A write failed, and the write pointer has not been read from the device since (the kernel's
    /// `BLK_ZONE_WPLUG_NEED_WP_UPDATE`).
    NeedWpUpdate,
    /// Native appends moved the write pointer; the next write reads it from the device.
    Appended,
    /// The zone has a random write area: its writes need no order and pass the plug.
    Zrwa,
    ReadOnly,
    Offline,
}

/// Counts of what went through a zone's plug since the queue was attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneCounters {
    /// Writes accepted, emulated appends not among them.
    pub writes: u32,
    /// Emulated and native appends accepted.
    pub appends: u32,
    /// Waiting writes that were merged after another.
    pub merges: u32,
    /// Nanoseconds that writes waited, summed.
    pub parked_ns: u64,
}

/// The plug of a zone. It is live while the zone is partially written or has I/O in the layer;
/// otherwise it is an unused slot of the table.
#[derive(Debug)]
pub(crate) struct ZonePlug {
    /// Where the next write must begin, from the zone's start: after all writes that are in flight
    /// or wait.
    wp: Sector,
    parked: RequestFifo,
    nr_parked: u32,
    /// Resets and finishes in flight; writes fail meanwhile.
    managing: u16,
    /// Native appends in flight.
    appending: u16,
    in_flight: bool,
    /// In the disk's list of plugs with waiting writes (QD=1), or the one being drained.
    listed: bool,
    alive: bool,
    state: ZoneState,
    writes: u32,
    appends: u32,
    merges: u32,
    /// Nanoseconds that writes waited, minus the time at which each of those that wait now began to.
    /// So a thread that takes one need not look up when that was: the submitter has written it last.
    parked_ns: u64,
}

impl ZonePlug {
    /// The plug of an empty sequential zone.
    pub(crate) const EMPTY: ZonePlug = ZonePlug {
        wp: Sector(0),
        parked: RequestFifo::new(),
        nr_parked: 0,
        managing: 0,
        appending: 0,
        in_flight: false,
        listed: false,
        alive: false,
        state: ZoneState::Sequential,
        writes: 0,
        appends: 0,
        merges: 0,
        parked_ns: 0,
    };

    pub(crate) fn new(zone: &Zone) -> Self {
        let mut plug = ZonePlug::EMPTY;
        plug.sync(Some(zone));
        plug
    }

    pub(crate) fn state(&self) -> ZoneState {
        self.state
    }

    pub(crate) fn wp(&self) -> Sector {
        self.wp
    }

    pub(crate) fn nr_parked(&self) -> u32 {
        self.nr_parked
    }

    /// Since when the first of the writes that wait does so.
    pub(crate) fn waiting_since(&mut self) -> Option<Nanos> {
        self.parked.front().map(|request| request.parked_at)
    }

    pub(crate) fn in_flight(&self) -> bool {
        self.in_flight
    }

    /// Whether no reset, finish or native append is in flight.
    pub(crate) fn has_no_zone_ops(&self) -> bool {
        self.managing == 0 && self.appending == 0
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.alive
    }

    /// Whether the write pointer can be replaced by the device's: nothing that moves it is in
    /// flight.
    pub(crate) fn is_idle(&self) -> bool {
        !self.in_flight && self.nr_parked == 0 && self.has_no_zone_ops()
    }

    pub(crate) fn counters(&mut self) -> ZoneCounters {
        let &mut ZonePlug { writes, appends, merges, mut parked_ns, .. } = self;
        self.parked.for_each(|waiting| parked_ns = parked_ns.wrapping_add(waiting.parked_at.0));
        // Threads may see time a little apart, so that the sum is below zero.
        let parked_ns = if parked_ns.cast_signed() < 0 { 0 } else { parked_ns };
        ZoneCounters { writes, appends, merges, parked_ns }
    }

    /// Takes over the state that the device reports; without a report, the write pointer is
    /// unknown.
    pub(crate) fn sync(&mut self, report: Option<&Zone>) {
        debug_assert!(self.nr_parked == 0, "waiting writes were checked against the old pointer");
        let Some(zone) = report else {
            self.state = ZoneState::NeedWpUpdate;
            return;
        };
        self.wp = match zone.cond {
            ZoneCondition::Full => zone.capacity,
            ZoneCondition::NotWritePointer | ZoneCondition::ReadOnly | ZoneCondition::Offline => {
                Sector(0)
            }
            _ => Sector(zone.wp.0.wrapping_sub(zone.start.0)),
        };
        self.state = match (zone.kind, zone.cond) {
            // Whatever its condition: otherwise the plug would take it for a zone with a write
            // pointer when the condition changes. The device decides on each write.
            (ZoneKind::Conventional, _) => ZoneState::Conventional,
            (_, ZoneCondition::ReadOnly) => ZoneState::ReadOnly,
            (_, ZoneCondition::Offline) => ZoneState::Offline,
            (ZoneKind::SequentialRequired, _) if zone.has_zrwa() => ZoneState::Zrwa,
            (ZoneKind::SequentialRequired, _) => ZoneState::Sequential,
        };
        if self.wp > zone.capacity {
            // A pointer outside of the zone is invalid.
            self.state = ZoneState::NeedWpUpdate;
        }
    }

    /// Checks a write of `len` at `at` and moves the write pointer after it (A13, A16).
    #[inline]
    pub(crate) fn accept(
        &mut self,
        at: Sector,
        len: Sector,
        capacity: Sector,
    ) -> Result<(), Status> {
        match self.state {
            ZoneState::Sequential => {}
            ZoneState::Offline => return Err(Status::Offline),
            _ => return Err(Status::IoError),
        }
        mark!(RefusedDuringReset if self.managing > 0);
        let managed = self.managing > 0 && !mutant!(WriteDuringReset);
        if managed || at != self.wp || at + len > capacity {
            return Err(Status::IoError);
        }
        self.wp += len;
        Ok(())
    }

    pub(crate) fn count_write(&mut self, is_append: bool) {
        if is_append {
            self.appends = self.appends.saturating_add(1);
        } else {
            self.writes = self.writes.saturating_add(1);
        }
    }

    /// Returns the accepted write if nothing is in flight, else parks it.
    #[inline]
    pub(crate) fn start_or_park(
        &mut self,
        now: Nanos,
        request: Box<Request>,
    ) -> Option<Box<Request>> {
        if self.in_flight {
            self.park(now, request);
            return None;
        }
        self.in_flight = true;
        Some(request)
    }

    pub(crate) fn park(&mut self, now: Nanos, mut request: Box<Request>) {
        request.parked_at = now;
        self.parked_ns = self.parked_ns.wrapping_sub(now.0);
        self.parked.push_back(request);
        self.nr_parked += 1;
    }

    /// No write is in flight any more: returns the next, merged with those after it (A20).
    #[inline]
    pub(crate) fn next(&mut self, now: Nanos, merge_max_sectors: u32) -> Option<Box<Request>> {
        if self.nr_parked == 0 {
            self.in_flight = false;
            return None;
        }
        self.next_parked(now, merge_max_sectors)
    }

    #[inline(always)]
    fn next_parked(&mut self, now: Nanos, merge_max_sectors: u32) -> Option<Box<Request>> {
        let Some(mut request) = self.unpark(now) else {
            self.in_flight = false;
            return None;
        };
        self.in_flight = true;
        if merge_max_sectors > 0 && self.nr_parked > 0 && request.op() == Op::Write {
            let merged = request.append_from(&mut self.parked, merge_max_sectors);
            self.parked_ns = self.parked_ns.wrapping_add(now.0.wrapping_mul(merged.into()));
            self.nr_parked -= merged;
            self.merges = self.merges.saturating_add(merged);
        }
        Some(request)
    }

    fn unpark(&mut self, now: Nanos) -> Option<Box<Request>> {
        let request = self.parked.pop_front()?;
        self.nr_parked -= 1;
        self.parked_ns = self.parked_ns.wrapping_add(now.0);
        Some(request)
    }

    /// Aborts all waiting writes.
    pub(crate) fn abort(&mut self, status: Status, aborted: &mut RequestList) {
        self.nr_parked = 0;
        while let Some(mut request) = self.parked.pop_front() {
            self.parked_ns = self.parked_ns.wrapping_add(request.parked_at.0);
            if mutant!(AbortedNotDelivered) {
                std::mem::forget(request);
                continue;
            }
            request.refuse(status);
            aborted.push_back(request);
        }
    }

    /// A reset or finish is issued.
    ///
    /// # Errors
    /// [`Status::Again`] if more are in flight than can be counted.
    pub(crate) fn begin_management(&mut self) -> Result<(), Status> {
        self.managing = self.managing.checked_add(1).ok_or(Status::Again)?;
        Ok(())
    }

    pub(crate) fn end_management(&mut self) {
        self.managing -= 1;
    }

    /// A native append is issued, past the plug: the write pointer is no longer known here, and
    /// waiting writes are aborted (A24).
    ///
    /// # Errors
    /// [`Status::Again`] if more are in flight than can be counted; [`Status::IoError`] for a zone with
    /// a random write area, which takes no appends.
    pub(crate) fn begin_append(&mut self, aborted: &mut RequestList) -> Result<(), Status> {
        if self.state == ZoneState::Zrwa {
            return Err(Status::IoError);
        }
        self.appending = self.appending.checked_add(1).ok_or(Status::Again)?;
        self.abort(Status::IoError, aborted);
        self.state = ZoneState::Appended;
        Ok(())
    }

    pub(crate) fn end_append(&mut self) {
        self.appending -= 1;
    }

    /// The zone was reset or finished: waiting writes no longer begin at the write pointer.
    pub(crate) fn set_wp(&mut self, wp: Sector, aborted: &mut RequestList) {
        if !mutant!(ResetKeepsWaiting) {
            self.abort(Status::IoError, aborted);
        }
        self.wp = wp;
        self.state = if self.appending > 0 { ZoneState::Appended } else { ZoneState::Sequential };
    }

    /// The zone was opened with a random write area. Writes that wait are sent in order.
    pub(crate) fn set_zrwa(&mut self) {
        self.state = ZoneState::Zrwa;
    }

    /// Enters the disk's list. Returns whether it was not in it.
    pub(crate) fn enlist(&mut self) -> bool {
        !std::mem::replace(&mut self.listed, true) || mutant!(Qd1QueuedTwice)
    }

    pub(crate) fn is_listed(&self) -> bool {
        self.listed
    }

    pub(crate) fn delist(&mut self) {
        self.listed = mutant!(Qd1ReferenceLeaked);
    }

    /// Updates whether the plug is live. Returns `Some` on a change.
    #[inline]
    pub(crate) fn update_alive(&mut self, capacity: Sector) -> Option<bool> {
        let partial = match self.state {
            ZoneState::Sequential => self.wp > Sector(0) && self.wp < capacity,
            ZoneState::NeedWpUpdate => true,
            _ => false,
        };
        let in_use = (self.in_flight || self.nr_parked > 0) && !mutant!(PlugSettledInUse);
        let alive = partial || in_use;
        (std::mem::replace(&mut self.alive, alive) != alive).then_some(alive)
    }

    /// The number of references to the plug: of the table while it is live, of each write in the
    /// layer, of each management operation, and of the disk's list.
    pub(crate) fn references(&self) -> u32 {
        u32::from(self.alive)
            + u32::from(self.in_flight)
            + self.nr_parked
            + u32::from(self.managing)
            + u32::from(self.appending)
            + u32::from(self.listed)
    }
}
