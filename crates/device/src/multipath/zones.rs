//! The known state of each sequential zone, and whether a command whose completion was lost has been
//! executed.
//!
//! The known write pointer counts only what the device has written since the last reset, so that the
//! device's own write pointer is there or beyond.
use zonal_blk::lock::{SpinLock, SpinLockGuard};
use zonal_blk::{Nanos, Op, Request, Sector, Zone, ZoneCondition, ZoneKind, ZoneNo};

/// The known state of a zone.
#[derive(Debug, Default)]
pub(super) struct ZoneState {
    start: Sector,
    /// The write pointer after all writes that are known to be done.
    pub known: Sector,
    /// The highest end of a write sent since the zone was last reset or finished.
    pub reached: Sector,
    /// Until when a lost write may still execute.
    pub quiesce_until: Nanos,
    /// Counts resets, when they are sent and when they complete: a write from before one says nothing
    /// about the zone's contents after it.
    epoch: u32,
    /// Commands in flight on a path.
    pub in_flight: u16,
    /// Commands in the recovery queue.
    pub held: u16,
    /// The path of the commands in flight.
    pub path: usize,
}

/// The state of a zone when a command is sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ZoneSnapshot {
    epoch: u32,
    /// [`ZoneState::known`] then.
    pub known: Sector,
}

impl ZoneSnapshot {
    /// The snapshot of a command that is resent at `now`.
    pub fn again(self, now: ZoneSnapshot) -> ZoneSnapshot {
        ZoneSnapshot { epoch: now.epoch, known: self.known }
    }
}

impl ZoneState {
    fn new(zone: &Zone) -> Self {
        let known = match zone.cond {
            ZoneCondition::Full => zone.writable_end(),
            cond if cond.is_active() => zone.wp,
            _ => zone.start,
        };
        ZoneState { start: zone.start, known, ..ZoneState::default() }
    }

    /// A command is sent over a path.
    pub fn send(&mut self, request: &Request, path: usize) -> ZoneSnapshot {
        self.in_flight += 1;
        self.path = path;
        match request.op() {
            Op::ZoneReset => self.reset(),
            Op::ZoneFinish => self.reached = self.start,
            Op::Write | Op::WriteZeroes => self.reached = self.reached.max(request.end()),
            _ => {}
        }
        ZoneSnapshot { epoch: self.epoch, known: self.known }
    }

    /// The device has executed a command.
    pub fn done(&mut self, request: &Request, snapshot: ZoneSnapshot) {
        match request.op() {
            Op::ZoneReset => self.reset(),
            op if op.is_write() && snapshot.epoch == self.epoch => {
                self.known += Sector(u64::from(request.nr_sectors()));
            }
            _ => {}
        }
    }

    fn reset(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
        (self.known, self.reached) = (self.start, self.start);
    }
}

/// The zones of a device.
#[derive(Debug)]
pub(super) struct ZoneTable {
    sequential: Box<[bool]>,
    zones: Box<[SpinLock<ZoneState>]>,
}

impl ZoneTable {
    pub fn new(zones: &[Zone]) -> Self {
        ZoneTable {
            sequential: zones.iter().map(|zone| zone.kind != ZoneKind::Conventional).collect(),
            zones: zones.iter().map(|zone| SpinLock::new(ZoneState::new(zone))).collect(),
        }
    }

    /// Whether the command is ordered among others of its zone.
    #[inline]
    pub fn is_ordered(&self, request: &Request) -> bool {
        let op = request.op();
        (op.is_write() || op.is_zone_management())
            && self.sequential.get(request.zone().index()).is_some_and(|&sequential| sequential)
    }

    #[inline]
    pub fn lock(&self, zone: ZoneNo) -> SpinLockGuard<'_, ZoneState> {
        self.zones[zone.index()].lock()
    }

    /// All zones are being reset, or were.
    pub fn reset_all(&self) {
        self.zones.iter().for_each(|zone| zone.lock().reset());
    }
}

/// The proof of a zone report about a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It was executed.
    Done,
    /// It was not executed, or can safely be executed again.
    Resend,
    /// Part of it was executed.
    Torn,
    /// Nothing.
    Unknown,
}

/// Judges a write or an append by a report of its zone, with nothing of the zone in flight.
/// `snapshot` is from when the command was first sent.
pub(super) fn resolve(
    request: &Request,
    snapshot: ZoneSnapshot,
    zone: &Zone,
    state: &ZoneState,
) -> Verdict {
    if !request.op().is_write() || zone.kind == ZoneKind::Conventional {
        return Verdict::Resend;
    }
    let wp = match zone.cond {
        // A zone that writes have filled was written to its end; a finished one can be full from anywhere.
        ZoneCondition::Full if state.reached.max(state.known) >= zone.writable_end() => {
            zone.writable_end()
        }
        ZoneCondition::Full | ZoneCondition::ReadOnly | ZoneCondition::Offline => {
            return Verdict::Unknown;
        }
        ZoneCondition::Empty => zone.start,
        _ => zone.wp,
    };
    if request.op() == Op::ZoneAppend {
        return if wp == state.known { Verdict::Resend } else { Verdict::Unknown };
    }
    of_write(request.sector(), request.end(), snapshot.known, wp)
}

/// Judges a write from `start` to `end` that was sent with the write pointer at `then` or beyond.
fn of_write(start: Sector, end: Sector, then: Sector, wp: Sector) -> Verdict {
    // Below the write pointer when it was sent: the device could not execute it, and will fail it.
    if start < then || wp <= start {
        Verdict::Resend
    } else if wp < end {
        Verdict::Torn
    } else {
        Verdict::Done
    }
}
