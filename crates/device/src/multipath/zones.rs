//! What is known of each zone that is written in order.
//!
//! Takes what is sent and what has ended; gives what a verdict needs. Keeps true: what is counted as
//! written is no more than the device has written since the zone was last emptied, so that the
//! pointer is there or beyond.
use zonal_blk::lock::{SpinLock, SpinLockGuard};
use zonal_blk::{Nanos, Op, Request, Sector, Zone, ZoneCondition, ZoneKind, ZoneNo};

/// A zone.
#[derive(Debug, Default)]
pub(super) struct ZoneState {
    start: Sector,
    /// Where the write pointer is if nothing was written but what is known to be.
    pub known: Sector,
    /// The end of the farthest write that was sent since the zone was last emptied or finished.
    pub reached: Sector,
    /// Until when a write that was given up may be done.
    pub quiesce_until: Nanos,
    /// Counts resets, when they are sent and when they have ended: a write from before says nothing
    /// of what is written now.
    epoch: u32,
    /// Commands with a path.
    pub in_flight: u16,
    /// Commands in line.
    pub held: u16,
    /// The path of those in flight.
    pub path: usize,
}

/// What is remembered of a command when it is sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ZoneSnapshot {
    epoch: u32,
    /// [`ZoneState::known`] then.
    pub known: Sector,
}

impl ZoneSnapshot {
    /// The same for a command that is sent once more.
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

    /// A command goes to a path.
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

    /// The device has done a command.
    pub fn done(&mut self, request: &Request, seen: ZoneSnapshot) {
        match request.op() {
            Op::ZoneReset => self.reset(),
            op if op.is_write() && seen.epoch == self.epoch => {
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

    /// Whether the order matters in which this command and others of its zone are done.
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

    /// All zones are about to be emptied, or were.
    pub fn reset_all(&self) {
        self.zones.iter().for_each(|zone| zone.lock().reset());
    }
}
