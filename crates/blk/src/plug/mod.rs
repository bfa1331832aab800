//! Zone write plugging: at most one write in flight per sequential zone, the rest wait in order.
//!
//! Takes write requests; gives each on when it is its turn. Keeps true: every write to a
//! sequential zone begins where the one before it ended, and reaches the device only after that
//! one has completed. A write that is not at the write pointer fails here, without reaching the
//! device (A16).
//!
//! ```text
//!            submit                     complete
//!   idle ------------> in flight ---------------------> idle        nothing waits
//!                       ^  |  submit: park at the tail
//!                       |  v
//!                       +--+  complete: issue the first that waits, merged with
//!                             those that follow it on the medium (A20)
//! ```
//!
//! Each zone has one slot of 64 bytes with a lock of its own; the slot is the plug. The write
//! pointer advances when a write is accepted, not when it completes (A13), so a write that waits
//! has been checked already.
pub(crate) mod attach;
mod zone_plug;

use crate::bio::Op;
use crate::device::Device;
use crate::request::{Request, RequestList};
use crate::status::Status;
use crate::sync::Mutex;
use crate::units::{Nanos, Sector, ZoneNo};
pub use attach::AttachError;
use std::sync::Arc;
use zone_plug::{ZonePlug, ZoneState};

/// How writes to sequential zones are kept in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ZoneWrite {
    /// Zone write plugging: one write in flight per zone.
    #[default]
    Plug,
    /// Not at all: writes go to the device as they come. It will fail those it takes up out of
    /// order.
    Off,
}

/// What became of a request that entered its zone's plug.
pub(crate) enum Entered {
    /// It is its turn.
    Issue(Box<Request>),
    /// It waits in the plug.
    Parked,
    /// It ended here.
    Failed(Box<Request>, Status),
}

#[repr(align(64))]
struct Slot(Mutex<ZonePlug>);

#[cfg(not(loom))]
const _: () = assert!(size_of::<Slot>() == 64, "an idle zone costs one cache line");

/// The plugs of a device's zones.
pub(crate) struct ZonePlugs {
    slots: Box<[Slot]>,
    device: Arc<dyn Device>,
    zone_size: Sector,
    /// Writable sectors of every zone but the last.
    capacity: Sector,
    last_capacity: Sector,
    merge_max_sectors: u32,
    /// Whether the layer makes appends into writes (A23).
    emulate_append: bool,
}

impl ZonePlugs {
    /// Passes a write, append or zone management request through the plug of its zone.
    pub(crate) fn enter(&self, now: Nanos, mut request: Box<Request>) -> Entered {
        let zone = request.zone;
        let mut plug = self.lock(zone);
        let op = request.op();
        if plug.state() == ZoneState::Conventional {
            // Random writes only (A14, A26).
            return match op {
                Op::Write | Op::WriteZeroes => Entered::Issue(request),
                _ => Entered::Failed(request, Status::IoError),
            };
        }
        if !op.is_write() {
            plug.begin_management();
            request.plugged = true;
            return Entered::Issue(request);
        }
        if op == Op::ZoneAppend {
            if !self.emulate_append {
                return Entered::Issue(request);
            }
            request.make_append_a_write(self.start(zone) + plug.wp());
        }
        let at = request.sector() - self.start(zone);
        let len = Sector(u64::from(request.nr_sectors()));
        if at != plug.wp() && plug.is_idle() {
            // Somebody may have reset or written the zone past the layer (A31): ask the device
            // before the write is refused.
            self.resync(zone, &mut plug);
        }
        if let Err(status) = plug.accept(at, len, self.capacity(zone)) {
            return Entered::Failed(request, status);
        }
        request.plugged = true;
        match plug.start_or_park(now, request) {
            Some(request) => Entered::Issue(request),
            None => Entered::Parked,
        }
    }

    /// Notes that a plugged write has ended. Gives the next one to issue; writes that cannot be
    /// done any more because this one failed go to `aborted` (A30).
    pub(crate) fn complete(
        &self,
        request: &Request,
        aborted: &mut RequestList,
    ) -> Option<Box<Request>> {
        let mut plug = self.lock(request.zone);
        if request.status() != Status::Ok {
            plug.abort(aborted);
            self.resync(request.zone, &mut plug);
        }
        plug.next(self.merge_max_sectors)
    }

    /// Notes that a zone management request has ended (A27).
    pub(crate) fn end_management(&self, request: &Request, aborted: &mut RequestList) {
        let mut plug = self.lock(request.zone);
        plug.end_management();
        if request.status() != Status::Ok {
            return;
        }
        match request.op() {
            Op::ZoneReset => plug.set_wp(Sector(0), aborted),
            Op::ZoneFinish => plug.set_wp(self.capacity(request.zone), aborted),
            _ => {}
        }
    }

    /// Announces a reset of all zones.
    pub(crate) fn begin_reset_all(&self) {
        self.for_each_slot(|_, plug| plug.begin_management());
    }

    /// Notes that a reset of all zones has ended.
    pub(crate) fn end_reset_all(&self, status: Status, aborted: &mut RequestList) {
        self.for_each_slot(|_, plug| {
            plug.end_management();
            if status == Status::Ok && plug.state() == ZoneState::Sequential {
                plug.set_wp(Sector(0), aborted);
            }
        });
    }

    fn for_each_slot(&self, mut visit: impl FnMut(ZoneNo, &mut ZonePlug)) {
        for (zone, slot) in (0..).map(ZoneNo).zip(&self.slots) {
            visit(zone, &mut slot.0.lock().expect("zone plug lock"));
        }
    }

    /// Takes over the zone's write pointer and state from the device.
    fn resync(&self, zone: ZoneNo, plug: &mut ZonePlug) {
        let mut report = Vec::with_capacity(1);
        match self.device.report_zones(zone, 1, &mut report) {
            Ok(()) if report.len() == 1 => plug.sync(&report[0]),
            _ => plug.lose_write_pointer(),
        }
    }

    fn lock(&self, zone: ZoneNo) -> impl std::ops::DerefMut<Target = ZonePlug> {
        self.slots[zone.index()].0.lock().expect("zone plug lock")
    }

    fn start(&self, zone: ZoneNo) -> Sector {
        Sector(u64::from(zone.0) * self.zone_size.0)
    }

    fn capacity(&self, zone: ZoneNo) -> Sector {
        if zone.index() + 1 == self.slots.len() {
            self.last_capacity
        } else {
            self.capacity
        }
    }
}

/// Whether requests of this kind pass through the plug of their zone.
pub(crate) fn passes_through(op: Op) -> bool {
    op.is_write() || matches!(op, Op::ZoneReset | Op::ZoneFinish)
}
