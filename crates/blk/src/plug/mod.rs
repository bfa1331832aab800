//! Zone write plugging: at most one write in flight per sequential zone, the rest wait in order.
//!
//! Every write to a sequential zone starts where the one before it ended and reaches the device
//! only after that one has completed. A write that is not at the write pointer fails here, without
//! reaching the device (A16).
//!
//! ```text
//!            enter                      complete
//!   idle ------------> in flight ---------------------> idle        nothing waits
//!                       ^  |  enter: park at the tail
//!                       |  v
//!                       +--+  complete: issue the first that waits, merged with
//!                             those that follow it on the medium (A20)
//! ```
//!
//! Each zone has one slot of 64 bytes with a lock of its own; the slot is the plug. The write
//! pointer advances when a write is accepted, not when it completes (A13), so a write that waits
//! has been checked already. No lock is held while a device starts a request.
pub(crate) mod attach;
#[cfg(all(test, loom))]
mod loom_tests;
mod qd1;
mod revalidate;
mod state;
#[cfg(all(test, not(loom)))]
mod tests;
mod zone_plug;

use crate::device::Device;
use crate::lazy::LazyTable;
use crate::lock::SpinLock;
use crate::names::did_you_mean;
use crate::op::Op;
use crate::probe::{mark, mutant};
use crate::request::{Request, RequestList};
use crate::status::Status;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::units::{Nanos, Sector, ZoneNo};
use crate::zone::{Zone, ZoneCondition};
pub use attach::AttachError;
use qd1::Qd1;
pub use state::{PlugFlags, PlugInfo, ZonePhase};
use std::ops::DerefMut;
use std::str::FromStr;
use std::sync::Arc;
pub use zone_plug::ZoneCounters;
pub(crate) use zone_plug::ZonePlug;
use zone_plug::ZoneState;

/// How writes to sequential zones are kept in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneWrite {
    /// Zone write plugging: one write in flight per zone.
    Plug,
    /// One write to sequential zones in flight per disk: plugs take turns in the order in which
    /// they got something to write, each drained before the next (the kernel's `zoned_qd1_writes`).
    /// For rotating disks, where each change of zone costs a seek.
    Qd1,
    /// Zone write locking, the policy before plugging (kernels up to 6.9): the scheduler
    /// mq-deadline holds back the writes of a zone that has one in flight.
    Lock,
    /// Not at all: writes go to the device as they are submitted. It fails those that it executes
    /// out of order.
    Off,
}

/// No zone-write policy has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no policy is called `{name}`, expected {} or {}{}",
    ZoneWrite::NAMES[..3].join(", "),
    ZoneWrite::NAMES[3],
    did_you_mean(name, ZoneWrite::NAMES)
)]
pub struct UnknownZoneWrite {
    name: String,
}

impl FromStr for ZoneWrite {
    type Err = UnknownZoneWrite;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let known = ZoneWrite::ALL.into_iter().find(|policy| policy.name() == name);
        known.ok_or_else(|| UnknownZoneWrite { name: name.to_owned() })
    }
}

impl ZoneWrite {
    /// All policies.
    pub const ALL: [ZoneWrite; 4] =
        [ZoneWrite::Plug, ZoneWrite::Qd1, ZoneWrite::Lock, ZoneWrite::Off];
    /// Their names, in this order.
    pub const NAMES: [&'static str; 4] = ["plug", "qd1", "lock", "off"];

    /// The default for a device: [`ZoneWrite::Qd1`] if it rotates, else [`ZoneWrite::Plug`] (A33).
    pub fn default_for(limits: &crate::Limits) -> Self {
        if limits.rotational { ZoneWrite::Qd1 } else { ZoneWrite::Plug }
    }

    /// The policy as options and reports name it.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// The policy in a sentence, for the help of an option.
    pub const fn help(self) -> &'static str {
        match self {
            ZoneWrite::Plug => "Zone write plugging: one write in flight per zone",
            ZoneWrite::Qd1 => "One write to sequential zones in flight per device",
            ZoneWrite::Lock => {
                "Zone write locking, the policy before plugging: the scheduler mq-deadline holds \
                 back the writes of a zone that has one in flight"
            }
            ZoneWrite::Off => "Nothing: the device fails writes that arrive out of order",
        }
    }

    /// Whether writes pass through plugs.
    pub const fn plugs(self) -> bool {
        matches!(self, ZoneWrite::Plug | ZoneWrite::Qd1)
    }
}

/// How the layer learns a zone's write pointer after a write to it has failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WpRecovery {
    /// Asks the device immediately, so that the next write can be checked.
    #[default]
    Report,
    /// As the kernel: all writes fail until a zone report, reset or finish (A30).
    OnRequest,
}

/// The action on a request that entered its zone's plug.
pub(crate) enum PlugResult {
    /// Send it to the device.
    Issue(Box<Request>),
    /// It waits in the plug.
    Parked,
    /// It failed here.
    Failed(Box<Request>, Status),
}

impl PlugResult {
    /// The plug refused the request, which holds no reference to it.
    fn refused(mut request: Box<Request>, status: Status) -> Self {
        request.plugged = false;
        PlugResult::Failed(request, status)
    }

    /// The request passes the plug, which does not wait for its completion.
    fn unordered(mut request: Box<Request>) -> Self {
        request.plugged = false;
        PlugResult::Issue(request)
    }
}

#[repr(align(64))]
struct Slot(SpinLock<ZonePlug>);

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<Slot>() == 64, "a zone costs one cache line, plug included");

/// The plugs of a device's zones.
pub(crate) struct ZonePlugs {
    /// Zones that do not exist in it were empty when the queue was attached, and nothing has used them.
    slots: LazyTable<Slot>,
    device: Arc<dyn Device>,
    zone_size: Sector,
    /// Writable sectors of every zone but the last.
    capacity: Sector,
    /// How many zones there are, the first ones of the table, and the writable sectors of the last of
    /// them. Change only while nothing is inside.
    nr_zones: AtomicU32,
    last_capacity: AtomicU64,
    /// Changes only while nothing is inside.
    merge_max_sectors: AtomicU32,
    /// Whether the layer makes appends into writes (A23).
    emulate_append: bool,
    recovery: WpRecovery,
    qd1: Qd1,
    /// Live plugs.
    alive: AtomicU32,
}

impl ZonePlugs {
    /// Passes a write through the plug of its zone: the fast path of [`ZonePlugs::enter`]. Returns it if
    /// it can be issued, `None` if it waits. `Err` hands back a request that needs the slow path, or
    /// that may not enter: `may_enter` is asked under the plug's lock.
    #[inline(always)]
    pub(crate) fn enter_write<const ONE_PER_DISK: bool>(
        &self,
        now: Nanos,
        mut request: Box<Request>,
        may_enter: impl FnOnce() -> bool,
    ) -> Result<Option<Box<Request>>, Box<Request>> {
        let zone = request.zone;
        let mut plug = self.lock(zone);
        if !may_enter() {
            drop(plug);
            return Err(request);
        }
        // A request before the zone's start would be in another zone.
        let at = request.sector() - self.start(zone);
        let len = Sector(u64::from(request.nr_sectors()));
        if plug.accept(at, len, self.capacity(zone)).is_err() {
            drop(plug);
            return Err(request);
        }
        request.plugged = true;
        plug.count_write(false);
        let issue = self.start_or_park(now, zone, &mut plug, request, ONE_PER_DISK);
        if !plug.is_alive() {
            self.update_alive(zone, &mut plug);
        }
        Ok(issue)
    }

    /// Passes a write, append, reset or finish through the plug of its zone. Waiting writes that it
    /// makes impossible go to `aborted`.
    pub(crate) fn enter(
        &self,
        now: Nanos,
        mut request: Box<Request>,
        one_per_disk: bool,
        aborted: &mut RequestList,
    ) -> PlugResult {
        let zone = request.zone;
        let mut plug = self.lock(zone);
        let op = request.op();
        if plug.state() == ZoneState::Conventional {
            // Random writes only (A14, A26).
            return match op {
                Op::Write | Op::WriteZeroes => PlugResult::Issue(request),
                _ => PlugResult::Failed(request, Status::IoError),
            };
        }
        request.plugged = true;
        match op {
            Op::ZoneReset | Op::ZoneFinish | Op::ZoneOpenZrwa => {
                return match plug.begin_management() {
                    Ok(()) => PlugResult::Issue(request),
                    Err(status) => PlugResult::refused(request, status),
                };
            }
            Op::ZoneAppend if !self.emulate_append => {
                mark!(AbortByAppend if plug.nr_parked() > 0);
                if let Err(status) = plug.begin_append(aborted) {
                    return PlugResult::refused(request, status);
                }
                plug.count_write(true);
                self.leave_qd1_list(zone, &mut plug);
                self.update_alive(zone, &mut plug);
                return PlugResult::Issue(request);
            }
            _ => {}
        }
        let is_append = op == Op::ZoneAppend;
        let mut at = if is_append { plug.wp() } else { request.sector() - self.start(zone) };
        self.resync_if_stale(zone, &mut plug, at);
        if plug.state() == ZoneState::Zrwa {
            self.update_alive(zone, &mut plug);
            // The device orders nothing within the area, and refuses what is outside.
            return match is_append {
                true => PlugResult::refused(request, Status::IoError),
                false => PlugResult::unordered(request),
            };
        }
        mark!(AppendAfterError if is_append && at != plug.wp());
        if is_append && !mutant!(AppendPlacedBeforeRecovery) {
            at = plug.wp();
        }
        let len = Sector(u64::from(request.nr_sectors()));
        if let Err(status) = plug.accept(at, len, self.capacity(zone)) {
            // The device may just have reported that the zone is empty or full.
            self.update_alive(zone, &mut plug);
            return PlugResult::refused(request, status);
        }
        if is_append {
            request.make_append_a_write(self.start(zone) + at);
        }
        plug.count_write(is_append);
        let issue = self.start_or_park(now, zone, &mut plug, request, one_per_disk);
        if !plug.is_alive() {
            self.update_alive(zone, &mut plug);
        }
        issue.map_or(PlugResult::Parked, PlugResult::Issue)
    }

    /// Returns an accepted write if it can be issued now, else parks it.
    #[inline(always)]
    fn start_or_park(
        &self,
        now: Nanos,
        zone: ZoneNo,
        plug: &mut ZonePlug,
        request: Box<Request>,
        one_per_disk: bool,
    ) -> Option<Box<Request>> {
        // A plug in the disk's list waits for its turn, or has a write in flight.
        if one_per_disk && (!plug.enlist() || !self.qd1.acquire_or_wait(zone)) {
            plug.park(now, request);
            return None;
        }
        plug.start_or_park(now, request)
    }

    /// Asks the device for the write pointer if a write at `at` would fail and the plug may be out
    /// of date: the zone may have been reset or written past the layer (A31), a native append may
    /// have moved the pointer, an earlier report may have failed.
    fn resync_if_stale(&self, zone: ZoneNo, plug: &mut ZonePlug, at: Sector) {
        let stale = match plug.state() {
            ZoneState::Appended => true,
            ZoneState::Zrwa => false,
            ZoneState::Sequential if at == plug.wp() => false,
            _ => self.recovery == WpRecovery::Report,
        };
        if stale && plug.is_idle() {
            mark!(WriteAfterAppend if plug.state() == ZoneState::Appended);
            plug.sync(self.report_zone(zone).as_ref());
        }
    }

    /// A request that went through its plug has completed. Returns the write to issue next; waiting
    /// writes that have become impossible go to `aborted`.
    #[inline(always)]
    pub(crate) fn complete(
        &self,
        now: Nanos,
        request: &Request,
        one_per_disk: bool,
        aborted: &mut RequestList,
    ) -> Option<Box<Request>> {
        if request.op() == Op::Write && request.status() == Status::Ok && !one_per_disk {
            let zone = request.zone;
            return self.next_write(now, zone, &mut self.lock(zone));
        }
        self.complete_any(now, request, one_per_disk, aborted)
    }

    /// The same for every kind of request.
    #[inline(never)]
    fn complete_any(
        &self,
        now: Nanos,
        request: &Request,
        one_per_disk: bool,
        aborted: &mut RequestList,
    ) -> Option<Box<Request>> {
        let zone = request.zone;
        let mut plug = self.lock(zone);
        match request.op() {
            Op::ZoneReset | Op::ZoneFinish => {
                plug.end_management();
                if request.status() == Status::Ok {
                    mark!(AbortByReset if plug.nr_parked() > 0);
                    plug.set_wp(self.wp_after(request.op(), zone), aborted);
                    self.leave_qd1_list(zone, &mut plug);
                }
                self.update_alive(zone, &mut plug);
                return None;
            }
            Op::ZoneOpenZrwa => {
                plug.end_management();
                if request.status() == Status::Ok {
                    plug.set_zrwa();
                }
                self.update_alive(zone, &mut plug);
                return None;
            }
            Op::ZoneAppend => {
                plug.end_append();
                self.update_alive(zone, &mut plug);
                return None;
            }
            _ => {}
        }
        if request.status() != Status::Ok {
            self.fail(zone, &mut plug, request.status(), aborted);
            if mutant!(LostWakeUp) {
                return None;
            }
        }
        if !one_per_disk {
            return self.next_write(now, zone, &mut plug);
        }
        if let Some(next) = plug.next(now, self.merge_max_sectors()) {
            return Some(next);
        }
        plug.delist();
        self.update_alive(zone, &mut plug);
        drop(plug);
        self.next_plug(now)
    }

    /// The write in flight in a zone is back: returns the next one.
    #[inline(always)]
    fn next_write(&self, now: Nanos, zone: ZoneNo, plug: &mut ZonePlug) -> Option<Box<Request>> {
        let next = plug.next(now, self.merge_max_sectors());
        if next.is_none() && !(mutant!(FullPlugKept) && plug.wp() == self.capacity(zone)) {
            self.update_alive(zone, plug);
        }
        next
    }

    /// A write failed: those after it are aborted (A30), with the status Offline if the zone went
    /// offline, and the write pointer is read from the device.
    fn fail(&self, zone: ZoneNo, plug: &mut ZonePlug, status: Status, aborted: &mut RequestList) {
        let settled = plug.has_no_zone_ops() || mutant!(StaleReport);
        let asks = self.recovery == WpRecovery::Report && settled;
        let report = if asks { self.report_zone(zone) } else { None };
        mark!(ErrorRecovery if report.is_some());
        mark!(RecoveryDeferred if !asks);
        mark!(ReportRefused if asks && report.is_none());
        mark!(AbortByFailure if plug.nr_parked() > 0);
        let offline = report.is_some_and(|zone| zone.cond == ZoneCondition::Offline);
        mark!(AbortOffline if offline && plug.nr_parked() > 0);
        plug.abort(if offline { Status::Offline } else { Status::IoError }, aborted);
        mark!(WpAfterTimeout if status == Status::Timeout && report.is_some());
        let forgets = mutant!(WpKeptAfterError);
        if !(forgets || status == Status::Timeout && mutant!(WpKeptAfterTimeout)) {
            plug.sync(report.as_ref());
        }
    }

    /// A write that passed its plug has failed: its zone may have lost its random write area since, as
    /// it does when it is full, or when somebody resets it past the layer.
    pub(crate) fn unordered_failed(&self, zone: ZoneNo) {
        let Some(mut plug) = self.lock_used(zone) else { return };
        if plug.state() == ZoneState::Zrwa && plug.is_idle() {
            plug.sync(self.report_zone(zone).as_ref());
            self.update_alive(zone, &mut plug);
        }
    }

    /// QD=1: the plug that had the disk is drained. Returns the first write of the next plug that
    /// has one.
    fn next_plug(&self, now: Nanos) -> Option<Box<Request>> {
        while let Some(zone) = self.qd1.next() {
            let mut plug = self.lock(zone);
            if let Some(request) = plug.next(now, self.merge_max_sectors()) {
                mark!(Qd1NextPlug if true);
                return Some(request);
            }
            // Its writes were aborted meanwhile (A37).
            plug.delist();
        }
        None
    }

    /// QD=1: a plug whose waiting writes were aborted leaves the queue (A37). The one that has the
    /// disk leaves when its write has completed.
    fn leave_qd1_list(&self, zone: ZoneNo, plug: &mut ZonePlug) {
        let drained = plug.is_listed() && plug.nr_parked() == 0 && !plug.in_flight();
        let left = drained && self.qd1.leave(zone);
        mark!(Qd1LeftQueue if left);
        if left || mutant!(Qd1ReferenceDroppedTwice) {
            plug.delist();
        }
    }

    /// Announces a reset of all zones.
    ///
    /// # Errors
    /// [`Status::Again`] if more resets of a zone are in flight than can be counted.
    pub(crate) fn begin_reset_all(&self) -> Result<(), Status> {
        for zone in self.zone_numbers() {
            let begun = self.lock(zone).begin_management();
            if begun.is_err() {
                (0..zone.0).for_each(|zone| self.lock(ZoneNo(zone)).end_management());
                return begun;
            }
        }
        Ok(())
    }

    /// A reset of all zones has completed (A27, A28).
    pub(crate) fn end_reset_all(&self, status: Status, aborted: &mut RequestList) {
        self.for_each(|zone, plug| {
            plug.end_management();
            let resets = !matches!(
                plug.state(),
                ZoneState::Conventional | ZoneState::ReadOnly | ZoneState::Offline
            );
            if status == Status::Ok && resets {
                plug.set_wp(Sector(0), aborted);
                self.leave_qd1_list(zone, plug);
                self.update_alive(zone, plug);
            }
        });
    }

    #[inline]
    fn merge_max_sectors(&self) -> u32 {
        self.merge_max_sectors.load(Ordering::Relaxed)
    }

    /// Changes what waiting writes are merged up to; 0 for no merging.
    pub(crate) fn set_merge_max_sectors(&self, max_sectors: u32) {
        self.merge_max_sectors.store(max_sectors, Ordering::Relaxed);
    }

    /// Visits all plugs, used or not.
    fn for_each(&self, mut visit: impl FnMut(ZoneNo, &mut ZonePlug)) {
        for zone in self.zone_numbers() {
            visit(zone, &mut self.lock(zone));
        }
    }

    /// Visits the plugs that have been used, and some of their neighbours.
    fn for_each_used(&self, mut visit: impl FnMut(ZoneNo, &mut ZonePlug)) {
        for zone in self.zone_numbers() {
            if let Some(mut plug) = self.lock_used(zone) {
                visit(zone, &mut plug);
            }
        }
    }

    fn zone_numbers(&self) -> impl Iterator<Item = ZoneNo> + use<> {
        (0..self.nr_zones()).map(ZoneNo)
    }

    /// The number of zones.
    #[inline]
    pub(crate) fn nr_zones(&self) -> u32 {
        self.nr_zones.load(Ordering::Relaxed)
    }

    /// The zone as the device reports it now.
    fn report_zone(&self, zone: ZoneNo) -> Option<Zone> {
        let mut report = Vec::with_capacity(1);
        self.device.report_zones(zone, 1, &mut report).ok()?;
        report.first().copied()
    }

    #[inline]
    fn update_alive(&self, zone: ZoneNo, plug: &mut ZonePlug) {
        match plug.update_alive(self.capacity(zone)) {
            Some(true) => _ = self.alive.fetch_add(1, Ordering::Relaxed),
            Some(false) => {
                mark!(PlugFreedAtFull if plug.wp() == self.capacity(zone));
                mark!(PlugFreedAtReset if plug.wp() == Sector(0));
                self.alive.fetch_sub(1, Ordering::Relaxed);
            }
            None => {}
        }
    }

    fn wp_after(&self, op: Op, zone: ZoneNo) -> Sector {
        if op == Op::ZoneReset { Sector(0) } else { self.capacity(zone) }
    }

    #[inline(always)]
    fn lock(&self, zone: ZoneNo) -> impl DerefMut<Target = ZonePlug> {
        self.slots.get(zone.index(), |_| Slot(SpinLock::new(ZonePlug::EMPTY))).0.lock()
    }

    /// The plug of a zone, if it has been used.
    fn lock_used(&self, zone: ZoneNo) -> Option<impl DerefMut<Target = ZonePlug>> {
        self.slots.peek(zone.index()).map(|slot| slot.0.lock())
    }

    /// Whether a zone has no write pointer. Such a zone has had its plug since the queue was attached.
    pub(crate) fn is_conventional(&self, zone: ZoneNo) -> bool {
        self.lock_used(zone).is_some_and(|plug| plug.state() == ZoneState::Conventional)
    }

    fn start(&self, zone: ZoneNo) -> Sector {
        Sector(u64::from(zone.0) * self.zone_size.0)
    }

    fn capacity(&self, zone: ZoneNo) -> Sector {
        if zone.0 + 1 == self.nr_zones() {
            Sector(self.last_capacity.load(Ordering::Relaxed))
        } else {
            self.capacity
        }
    }
}

/// Whether requests of this kind pass through the plug of their zone.
pub(crate) fn passes_through(op: Op) -> bool {
    op.is_write() || matches!(op, Op::ZoneReset | Op::ZoneFinish | Op::ZoneOpenZrwa)
}
