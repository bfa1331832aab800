//! The plug of one zone: its write pointer, whether a write is in flight, and what waits.
use crate::request::{Request, RequestList};
use crate::status::Status;
use crate::units::{Nanos, Sector};
use crate::zone::{Zone, ZoneCondition, ZoneKind};

/// What the layer knows of a zone's condition. Whether a zone is open is the device's affair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ZoneState {
    Conventional,
    /// Writable, at the write pointer.
    Sequential,
    /// A write failed and the device did not say where the write pointer is.
    WritePointerLost,
    ReadOnly,
    Offline,
}

#[derive(Debug)]
pub(crate) struct ZonePlug {
    /// Where the next write to come must begin, from the zone's start: behind all that are in
    /// flight or wait.
    wp: Sector,
    parked: RequestList,
    /// Resets and finishes on their way; writes fail meanwhile.
    managing: u16,
    in_flight: bool,
    state: ZoneState,
}

impl ZonePlug {
    pub(crate) fn new(zone: &Zone) -> Self {
        let mut plug = ZonePlug {
            wp: Sector(0),
            parked: RequestList::new(),
            managing: 0,
            in_flight: false,
            state: ZoneState::Conventional,
        };
        plug.sync(zone);
        plug
    }

    pub(crate) fn state(&self) -> ZoneState {
        self.state
    }

    pub(crate) fn wp(&self) -> Sector {
        self.wp
    }

    pub(crate) fn is_idle(&self) -> bool {
        !self.in_flight && self.managing == 0
    }

    /// Takes over what the device reports. Nothing may wait.
    pub(crate) fn sync(&mut self, zone: &Zone) {
        debug_assert!(
            self.parked.is_empty(),
            "waiting writes were checked against the old pointer"
        );
        self.wp = match zone.cond {
            ZoneCondition::Full => zone.capacity,
            ZoneCondition::NotWritePointer | ZoneCondition::ReadOnly | ZoneCondition::Offline => {
                Sector(0)
            }
            _ => zone.wp - zone.start,
        };
        self.state = match (zone.kind, zone.cond) {
            (_, ZoneCondition::ReadOnly) => ZoneState::ReadOnly,
            (_, ZoneCondition::Offline) => ZoneState::Offline,
            (ZoneKind::Conventional, _) => ZoneState::Conventional,
            (ZoneKind::SequentialRequired, _) => ZoneState::Sequential,
        };
    }

    pub(crate) fn lose_write_pointer(&mut self) {
        self.state = ZoneState::WritePointerLost;
    }

    /// Checks a write of `len` at `at` and moves the write pointer behind it.
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
        if self.managing > 0 || at != self.wp || at + len > capacity {
            return Err(Status::IoError);
        }
        self.wp += len;
        Ok(())
    }

    /// Gives the accepted write back if nothing is in flight, else keeps it.
    pub(crate) fn start_or_park(
        &mut self,
        now: Nanos,
        mut request: Box<Request>,
    ) -> Option<Box<Request>> {
        if self.in_flight {
            request.parked_at = now;
            self.parked.push_back(request);
            return None;
        }
        self.in_flight = true;
        Some(request)
    }

    /// The write in flight has ended: gives the next, merged with those behind it.
    pub(crate) fn next(&mut self, merge_max_sectors: u32) -> Option<Box<Request>> {
        let Some(mut request) = self.parked.pop_front() else {
            self.in_flight = false;
            return None;
        };
        while let Some(behind) = self.parked.front()
            && request.can_append(behind, merge_max_sectors)
        {
            request.append(self.parked.pop_front().expect("there is a front"));
        }
        Some(request)
    }

    pub(crate) fn abort(&mut self, aborted: &mut RequestList) {
        while let Some(mut request) = self.parked.pop_front() {
            request.set_status(Status::IoError);
            aborted.push_back(request);
        }
    }

    pub(crate) fn begin_management(&mut self) {
        self.managing += 1;
    }

    pub(crate) fn end_management(&mut self) {
        self.managing -= 1;
    }

    /// The zone was reset or finished: what waits can no longer be written where it was to go.
    pub(crate) fn set_wp(&mut self, wp: Sector, aborted: &mut RequestList) {
        self.abort(aborted);
        self.wp = wp;
        self.state = ZoneState::Sequential;
    }
}
