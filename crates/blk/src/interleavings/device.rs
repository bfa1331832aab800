//! A device for interleavings: slow, in no order, and with all that it must never see asserted.
use crate::Op;
use crate::device::{Abort, Device, HwQueue};
use crate::limits::Limits;
use crate::request::Request;
use crate::status::Status;
use crate::testing::sequential_zones;
use crate::units::{Nanos, Sector, Tag, ZoneNo};
use crate::wake::Wake;
use crate::zone::{Zone, ZoneCondition};
use shuttle::rand::{Rng, thread_rng};
use std::sync::{Arc, Mutex, MutexGuard};

/// True with a probability in percent, drawn by shuttle.
pub(super) fn percent(times: u32) -> bool {
    thread_rng().gen_range(0..100) < times
}

pub(super) struct Slow {
    limits: Limits,
    state: Mutex<State>,
    /// Commands of a hundred that fail, are denied though done, or never come back.
    faults: u32,
    /// Nobody resets or finishes zones: a write off the write pointer is the layer's doing.
    strict: bool,
}

struct State {
    zones: Vec<Zone>,
    /// By sector, the bio that wrote it.
    content: Vec<Option<u64>>,
    /// By zone, writes that the device has.
    writing: Vec<u32>,
    /// One write to the whole disk.
    qd1: bool,
}

impl Slow {
    pub(super) fn new(limits: Limits, faults: u32, strict: bool) -> Arc<Self> {
        let state = State {
            zones: sequential_zones(&limits),
            content: vec![None; usize::try_from(limits.capacity.0).unwrap()],
            writing: vec![0; limits.nr_zones as usize],
            qd1: false,
        };
        Arc::new(Slow { limits, state: Mutex::new(state), faults, strict })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// From now on there may be one write on the disk, or one in each zone.
    pub(super) fn expect_qd1(&self, qd1: bool) {
        self.state().qd1 = qd1;
    }

    pub(super) fn zone(&self, zone: u32) -> Zone {
        self.state().zones[zone as usize]
    }

    pub(super) fn written_by(&self, sector: Sector) -> Option<u64> {
        self.state().content[usize::try_from(sector.0).unwrap()]
    }

    fn execute(&self, request: &mut Request) -> Status {
        let mut state = self.state();
        let State { zones, content, .. } = &mut *state;
        let zone = &mut zones[request.zone().index()];
        let wp = match request.op() {
            Op::ZoneReset => zone.start,
            Op::ZoneFinish => zone.writable_end(),
            Op::Write if request.sector() != zone.wp || request.end() > zone.writable_end() => {
                assert!(!self.strict, "a write off the write pointer {}: {request:?}", zone.wp);
                return Status::IoError;
            }
            Op::Write => {
                let mut sector = request.sector();
                request.for_each_bio(|bio| {
                    for _ in 0..bio.nr_sectors {
                        content[usize::try_from(sector.0).unwrap()] = Some(bio.user_data);
                        sector += Sector(1);
                    }
                });
                sector
            }
            _ => return Status::Ok,
        };
        zone.wp = wp;
        zone.cond = match wp {
            wp if wp == zone.start => ZoneCondition::Empty,
            wp if wp == zone.writable_end() => ZoneCondition::Full,
            _ => ZoneCondition::ImplicitOpen,
        };
        Status::Ok
    }

    fn begin(&self, request: &Request) {
        if request.op() == Op::Write {
            let mut state = self.state();
            state.writing[request.zone().index()] += 1;
            assert_eq!(state.writing[request.zone().index()], 1, "one write in flight in a zone");
            let all: u32 = state.writing.iter().sum();
            assert!(!state.qd1 || all == 1, "one write in flight on the disk");
        }
    }

    fn end(&self, request: &Request) {
        if request.op() == Op::Write {
            self.state().writing[request.zone().index()] -= 1;
        }
    }
}

impl Device for Slow {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn report_zones(&self, first: ZoneNo, max: usize, zones: &mut Vec<Zone>) -> Result<(), Status> {
        zones.extend(self.state().zones.iter().skip(first.index()).take(max));
        Ok(())
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        let tags = vec![false; usize::from(self.limits.queue_depth)];
        let (started, lost, stopped) = (Vec::new(), Vec::new(), Vec::new());
        Box::new(SlowQueue { device: self, started, lost, stopped, tags })
    }
}

struct SlowQueue {
    device: Arc<Slow>,
    started: Vec<Box<Request>>,
    /// The requests that only an abort brings back.
    lost: Vec<Box<Request>>,
    /// ... but not immediately.
    stopped: Vec<Box<Request>>,
    /// Tags in use.
    tags: Vec<bool>,
}

impl SlowQueue {
    fn give_back(
        &mut self,
        mut request: Box<Request>,
        status: Status,
        done: &mut Vec<Box<Request>>,
    ) {
        self.device.end(&request);
        self.tags[usize::from(request.tag().0)] = false;
        request.set_status(status);
        done.push(request);
    }
}

impl HwQueue for SlowQueue {
    fn start(&mut self, _now: Nanos, request: Box<Request>) -> Result<(), Box<Request>> {
        if self.device.faults > 0 && percent(10) {
            return Err(request);
        }
        let tag = &mut self.tags[usize::from(request.tag().0)];
        assert!(!std::mem::replace(tag, true), "a tag names one command at a time");
        self.device.begin(&request);
        self.started.push(request);
        Ok(())
    }

    fn poll(&mut self, _now: Nanos, done: &mut Vec<Box<Request>>) {
        for request in std::mem::take(&mut self.stopped) {
            self.give_back(request, Status::Ok, done);
        }
        for mut request in std::mem::take(&mut self.started).into_iter().rev() {
            if percent(40) {
                self.started.push(request);
            } else if !percent(self.device.faults) {
                let status = self.device.execute(&mut request);
                self.give_back(request, status, done);
            } else if percent(40) {
                self.lost.push(request);
            } else {
                if percent(50) {
                    self.device.execute(&mut request);
                }
                self.give_back(request, Status::IoError, done);
            }
        }
    }

    fn next_event(&self) -> Wake {
        Wake::Idle
    }

    fn abort(&mut self, _now: Nanos, tag: Tag, done: &mut Vec<Box<Request>>) -> Abort {
        let Some(at) = self.lost.iter().position(|request| request.tag() == tag) else {
            return Abort::ResetTimer;
        };
        let mut request = self.lost.remove(at);
        if percent(50) {
            self.device.execute(&mut request);
        }
        if percent(50) {
            self.give_back(request, Status::Ok, done);
        } else {
            self.stopped.push(request);
        }
        Abort::Accepted
    }
}
