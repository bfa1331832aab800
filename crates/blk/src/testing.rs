//! Helpers for tests of this crate: limits, and a device that does what the test tells it.
use crate::device::{Device, HwQueue};
use crate::limits::Limits;
use crate::request::Request;
use crate::status::Status;
use crate::units::{Nanos, Sector, ZoneNo};
use crate::zone::{Zone, ZoneCondition, ZoneKind};
use crate::{Completion, Op};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// Limits of a device of `nr_zones` zones of `zone_size` sectors.
pub(crate) fn limits(nr_zones: u32, zone_size: u64) -> Limits {
    Limits {
        lba_size: 512,
        capacity: Sector(u64::from(nr_zones) * zone_size),
        zone_size: Sector(zone_size),
        nr_zones,
        max_open_zones: 0,
        max_active_zones: 0,
        max_sectors: 2560,
        append_max_sectors: 0,
        nr_queues: u16::MAX,
        queue_depth: 64,
        rotational: false,
    }
}

/// A device that starts what it is given and ends it when the test says so.
pub(crate) struct Manual {
    pub(crate) limits: Limits,
    pub(crate) zones: Mutex<Vec<Zone>>,
    pub(crate) reports: Mutex<u32>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Everything ever started: operation, sector, length.
    log: Vec<(Op, u64, u32)>,
    /// Started on each queue and not ended.
    in_flight: Vec<VecDeque<Box<Request>>>,
    ended: Vec<Vec<Box<Request>>>,
    busy: bool,
}

impl Manual {
    pub(crate) fn new(limits: Limits) -> Arc<Self> {
        let zone = |zone| {
            let start = limits.zone_start(ZoneNo(zone));
            let len = limits.zone_size;
            let (kind, cond) = (ZoneKind::SequentialRequired, ZoneCondition::Empty);
            Zone {
                start,
                len,
                capacity: len,
                wp: start,
                kind,
                cond,
            }
        };
        let zones = Mutex::new((0..limits.nr_zones).map(zone).collect());
        let (reports, state) = (Mutex::default(), Mutex::default());
        Arc::new(Manual {
            limits,
            zones,
            reports,
            state,
        })
    }

    pub(crate) fn set_zone(&self, zone: usize, change: impl FnOnce(&mut Zone)) {
        change(&mut self.zones.lock().unwrap()[zone]);
    }

    /// What was started since the last call: operation, first sector, length.
    pub(crate) fn started(&self) -> Vec<(Op, u64, u32)> {
        std::mem::take(&mut self.state.lock().unwrap().log)
    }

    /// Ends the oldest request in flight on a queue; a write that succeeds moves the write pointer.
    pub(crate) fn end(&self, queue: usize, status: Status) {
        let mut state = self.state.lock().unwrap();
        let mut request = state.in_flight[queue]
            .pop_front()
            .expect("something in flight");
        request.set_status(status);
        if status == Status::Ok && self.limits.nr_zones > 0 {
            let zone = &mut self.zones.lock().unwrap()[request.zone().index()];
            match request.op() {
                Op::Write | Op::WriteZeroes => zone.wp = request.end(),
                Op::ZoneReset => zone.wp = zone.start,
                Op::ZoneFinish => zone.wp = zone.writable_end(),
                _ => {}
            }
            zone.cond = match zone.wp {
                wp if wp == zone.start => ZoneCondition::Empty,
                wp if wp == zone.writable_end() => ZoneCondition::Full,
                _ => ZoneCondition::ImplicitOpen,
            };
        }
        state.ended[queue].push(request);
    }

    pub(crate) fn set_busy(&self, busy: bool) {
        self.state.lock().unwrap().busy = busy;
    }
}

impl Device for Manual {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn report_zones(&self, first: ZoneNo, max: usize, zones: &mut Vec<Zone>) -> Result<(), Status> {
        *self.reports.lock().unwrap() += 1;
        zones.extend(
            self.zones
                .lock()
                .unwrap()
                .iter()
                .skip(first.index())
                .take(max),
        );
        Ok(())
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        let mut state = self.state.lock().unwrap();
        let queue = state.in_flight.len();
        state.in_flight.push(VecDeque::new());
        state.ended.push(Vec::new());
        drop(state);
        Box::new(ManualQueue {
            device: self,
            queue,
        })
    }
}

struct ManualQueue {
    device: Arc<Manual>,
    queue: usize,
}

impl HwQueue for ManualQueue {
    fn start(&mut self, _now: Nanos, request: Box<Request>) -> Result<(), Box<Request>> {
        let mut state = self.device.state.lock().unwrap();
        if state.busy {
            return Err(request);
        }
        state
            .log
            .push((request.op(), request.sector().0, request.nr_sectors()));
        state.in_flight[self.queue].push_back(request);
        Ok(())
    }

    fn poll(&mut self, _now: Nanos, done: &mut Vec<Box<Request>>) {
        done.append(&mut self.device.state.lock().unwrap().ended[self.queue]);
    }

    fn next_event(&self) -> Option<Nanos> {
        None
    }
}

/// The user data and status of each completion.
pub(crate) fn outcomes(completions: &[Completion]) -> Vec<(u64, Status)> {
    completions
        .iter()
        .map(|c| (c.user_data, c.status))
        .collect()
}
