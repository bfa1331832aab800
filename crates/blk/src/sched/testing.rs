//! Requests for the tests of schedulers.
use crate::bio::{Bio, BioFlags, Prio};
use crate::op::Op;
use crate::request::Request;
use crate::units::{Nanos, Sector, ZoneNo};

/// A request as it comes to a scheduler; its user data names it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spec {
    pub(super) id: u64,
    pub(super) op: Op,
    pub(super) sector: u64,
    pub(super) len: u32,
    pub(super) prio: Prio,
    pub(super) at: u64,
    pub(super) nomerge: bool,
    pub(super) zone_size: u64,
    pub(super) process: u32,
    pub(super) is_async: bool,
}

impl Default for Spec {
    fn default() -> Self {
        Spec {
            id: 0,
            op: Op::Read,
            sector: 0,
            len: 8,
            prio: Prio::default(),
            at: 0,
            nomerge: false,
            zone_size: 0,
            process: 0,
            is_async: false,
        }
    }
}

impl Spec {
    pub(super) fn build(self) -> Box<Request> {
        let mut request = Box::new(Request::empty());
        let mut flags = BioFlags::NONE;
        if self.nomerge {
            flags = flags | BioFlags::NOMERGE;
        }
        if self.is_async {
            flags = flags | BioFlags::ASYNC;
        }
        let bio = Bio {
            prio: self.prio,
            flags,
            ..Bio::new(self.op, Sector(self.sector), self.len, self.id)
        };
        let zone = ZoneNo(u32::try_from(self.zone()).unwrap());
        request.init(bio, self.process, zone, None);
        request.queued_at = Nanos(self.at);
        request
    }

    pub(super) fn zone(self) -> u64 {
        self.sector.checked_div(self.zone_size).unwrap_or(0)
    }

    pub(super) fn end(self) -> u64 {
        self.sector + u64::from(self.len)
    }
}

/// Takes a command apart: the names of its requests, in the order of the sectors.
pub(super) fn ids(mut request: Box<Request>) -> Vec<u64> {
    let mut merged = request.unmerge();
    let mut ids = vec![request.take_bio().0.user_data];
    while let Some(mut request) = merged.pop_front() {
        ids.push(request.take_bio().0.user_data);
    }
    ids
}
