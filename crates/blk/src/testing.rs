//! Helpers for tests of this crate: limits, and a scripted device.
use crate::device::{Abort, Device, HwQueue};
use crate::limits::Limits;
use crate::request::Request;
use crate::status::Status;
use crate::units::{Nanos, Sector, Tag, ZoneNo};
use crate::wake::{Wake, WakeUp};
use crate::zone::{Zone, ZoneAttributes, ZoneCondition, ZoneKind};
use crate::{Channel, Completion, Op};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

mod rig;
pub(crate) use rig::{Rig, Setup, ZONE};

/// Limits of a device of `nr_zones` zones of `zone_size` sectors.
pub(crate) fn limits(nr_zones: u32, zone_size: u64) -> Limits {
    Limits {
        max_sectors: 2560,
        max_write_zeroes_sectors: u32::MAX,
        nr_queues: u16::MAX,
        ..Limits::zoned(nr_zones, Sector(zone_size))
    }
}

/// The zones of a device with `limits`, all sequential and empty.
pub(crate) fn sequential_zones(limits: &Limits) -> Vec<Zone> {
    limits.empty_zones(ZoneNo(0), usize::MAX).collect()
}

/// A device that completes requests when the test says so.
pub(crate) struct ScriptedDevice {
    pub(crate) limits: Limits,
    pub(crate) zones: Mutex<Vec<Zone>>,
    pub(crate) reports: Mutex<u32>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Everything ever started: operation, sector, length.
    log: Vec<(Op, u64, u32)>,
    /// Requests in flight on each queue.
    in_flight: Vec<VecDeque<Box<Request>>>,
    ended: Vec<Vec<Box<Request>>>,
    busy: bool,
    refuses_reports: bool,
    /// Zones that it has left, if it has lost some.
    zones_left: Option<u32>,
    /// The device's reaction to requests that time out: nothing by default.
    on_abort: Option<OnAbort>,
    most_per_zone: usize,
    most_per_disk: usize,
}

/// A device's reaction to a request that has timed out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OnAbort {
    /// Gives it back immediately.
    GivesBack,
    /// Gives it back when the test completes it.
    Later,
}

/// How a request completes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    /// With this status; a success has its effect, and must be possible for a device.
    Forced(Status),
    /// An I/O error after this number of sectors.
    Torn(u32),
    /// As the zone's rules say.
    ByZoneRules,
}

/// The status that a device that follows the rules of zones gives a request.
fn check_zone_rules(zones: &[Zone], request: &Request) -> Status {
    let Some(zone) = zones.get(request.zone().index()) else {
        return Status::Ok;
    };
    let op = request.op();
    if op == Op::ZoneResetAll || zone.kind == ZoneKind::Conventional {
        return Status::Ok;
    }
    let end = match op {
        Op::ZoneAppend => zone.wp + Sector(u64::from(request.nr_sectors())),
        _ => request.end(),
    };
    let at_wp = op == Op::ZoneAppend || request.sector() == zone.wp || zone.has_zrwa();
    match (op, zone.cond) {
        (_, ZoneCondition::Offline) => Status::Offline,
        (Op::ZoneReset | Op::ZoneFinish, ZoneCondition::ReadOnly) => Status::IoError,
        (_, ZoneCondition::ReadOnly | ZoneCondition::Full) if op.is_write() => Status::IoError,
        _ if op.is_write() && (!at_wp || end > zone.writable_end()) => Status::IoError,
        _ => Status::Ok,
    }
}

fn take_effect(zones: &mut [Zone], request: &mut Request) {
    let writable = |zone: &Zone| {
        zone.kind == ZoneKind::SequentialRequired
            && !matches!(zone.cond, ZoneCondition::ReadOnly | ZoneCondition::Offline)
    };
    if request.op() == Op::ZoneResetAll {
        zones.iter_mut().filter(|zone| writable(zone)).for_each(|zone| move_to(zone, 0));
        return;
    }
    let zone = &mut zones[request.zone().index()];
    if !writable(zone) {
        return;
    }
    match request.op() {
        // The write pointer of a zone with a random write area moves as the test says.
        Op::Write | Op::WriteZeroes if zone.has_zrwa() => {}
        Op::ZoneOpenZrwa => {
            zone.cond = ZoneCondition::ExplicitOpen;
            zone.attributes = ZoneAttributes::ZRWA;
        }
        Op::Write | Op::WriteZeroes => {
            assert_eq!(zone.wp, request.sector(), "a write that succeeds is at the write pointer");
            advance(zone, u64::from(request.nr_sectors()));
        }
        Op::ZoneAppend => {
            request.set_append_sector(zone.wp);
            advance(zone, u64::from(request.nr_sectors()));
        }
        Op::ZoneReset => move_to(zone, 0),
        Op::ZoneFinish => move_to(zone, zone.capacity.0),
        _ => {}
    }
}

fn advance(zone: &mut Zone, sectors: u64) {
    move_to(zone, (zone.wp - zone.start).0 + sectors);
}

/// Moves a zone's write pointer, given from the zone's start.
pub(crate) fn move_to(zone: &mut Zone, wp: u64) {
    assert!(wp <= zone.capacity.0, "a write pointer stays in its zone");
    zone.wp = zone.start + Sector(wp);
    zone.attributes = ZoneAttributes::NONE;
    zone.cond = match wp {
        0 => ZoneCondition::Empty,
        wp if wp == zone.capacity.0 => ZoneCondition::Full,
        _ => ZoneCondition::ImplicitOpen,
    };
}

impl ScriptedDevice {
    pub(crate) fn new(limits: Limits) -> Arc<Self> {
        let zones = Mutex::new(sequential_zones(&limits));
        let (reports, state) = (Mutex::default(), Mutex::default());
        Arc::new(ScriptedDevice { limits, zones, reports, state })
    }

    pub(crate) fn set_zone(&self, zone: usize, change: impl FnOnce(&mut Zone)) {
        change(&mut self.zones.lock().unwrap()[zone]);
    }

    /// The commands started since the last call: operation, first sector, length.
    pub(crate) fn started(&self) -> Vec<(Op, u64, u32)> {
        std::mem::take(&mut self.state.lock().unwrap().log)
    }

    /// Completes the oldest request in flight on a queue, with its effect if the status is success.
    pub(crate) fn end(&self, queue: usize, status: Status) {
        self.end_nth(queue, 0, End::Forced(status));
    }

    /// Completes one of the requests in flight on a queue.
    pub(crate) fn end_nth(&self, queue: usize, nth: usize, how: End) {
        let mut state = self.state.lock().unwrap();
        let mut request = state.in_flight[queue].remove(nth).expect("it is in flight");
        let mut zones = self.zones.lock().unwrap();
        let status = match how {
            End::Forced(status) => status,
            End::Torn(written) => {
                advance(&mut zones[request.zone().index()], u64::from(written));
                Status::IoError
            }
            End::ByZoneRules => check_zone_rules(&zones, &request),
        };
        request.set_status(status);
        if status == Status::Ok && self.limits.nr_zones > 0 {
            take_effect(&mut zones, &mut request);
        }
        state.ended[queue].push(request);
    }

    /// The number of requests in flight on a queue.
    pub(crate) fn in_flight(&self, queue: usize) -> usize {
        self.state.lock().unwrap().in_flight.get(queue).map_or(0, VecDeque::len)
    }

    /// The most writes to one sequential zone that were ever in flight at the same time.
    pub(crate) fn most_per_zone(&self) -> usize {
        self.state.lock().unwrap().most_per_zone
    }

    /// The most writes to sequential zones that were ever in flight at the same time.
    pub(crate) fn most_per_disk(&self) -> usize {
        self.state.lock().unwrap().most_per_disk
    }

    /// From now on zone reports fail, or succeed again.
    pub(crate) fn refuse_reports(&self, refuse: bool) {
        self.state.lock().unwrap().refuses_reports = refuse;
    }

    /// From now on it has its first `zones` zones, as it says in reply to [`Device::nr_zones`].
    pub(crate) fn keep_zones(&self, zones: u32) {
        self.state.lock().unwrap().zones_left = Some(zones);
    }

    pub(crate) fn on_abort(&self, what: OnAbort) {
        self.state.lock().unwrap().on_abort = Some(what);
    }

    pub(crate) fn set_busy(&self, busy: bool) {
        self.state.lock().unwrap().busy = busy;
    }
}

impl Device for ScriptedDevice {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn nr_zones(&self) -> u32 {
        self.state.lock().unwrap().zones_left.unwrap_or(self.limits.nr_zones)
    }

    fn report_zones(&self, first: ZoneNo, max: usize, zones: &mut Vec<Zone>) -> Result<(), Status> {
        *self.reports.lock().unwrap() += 1;
        if self.state.lock().unwrap().refuses_reports {
            return Err(Status::Timeout);
        }
        zones.extend(self.zones.lock().unwrap().iter().skip(first.index()).take(max));
        Ok(())
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        let mut state = self.state.lock().unwrap();
        let queue = state.in_flight.len();
        state.in_flight.push(VecDeque::new());
        state.ended.push(Vec::new());
        drop(state);
        Box::new(ScriptedQueue { device: self, queue })
    }
}

impl State {
    /// Notes how many writes to sequential zones are in flight.
    fn count_writes(&mut self, zones: &[Zone]) {
        let mut per_zone = vec![0; zones.len()];
        for request in self.in_flight.iter().flatten() {
            let zone = request.zone().index();
            let ordered = zones.get(zone).is_some_and(|z| z.kind != ZoneKind::Conventional);
            if ordered && matches!(request.op(), Op::Write | Op::WriteZeroes) {
                per_zone[zone] += 1;
            }
        }
        self.most_per_disk = self.most_per_disk.max(per_zone.iter().sum());
        let most = per_zone.into_iter().max().unwrap_or(0);
        self.most_per_zone = self.most_per_zone.max(most);
    }
}

struct ScriptedQueue {
    device: Arc<ScriptedDevice>,
    queue: usize,
}

impl HwQueue for ScriptedQueue {
    fn start(&mut self, _now: Nanos, request: Box<Request>) -> Result<(), Box<Request>> {
        let mut state = self.device.state.lock().unwrap();
        if state.busy {
            return Err(request);
        }
        state.log.push((request.op(), request.sector().0, request.nr_sectors()));
        state.in_flight[self.queue].push_back(request);
        state.count_writes(&self.device.zones.lock().unwrap());
        Ok(())
    }

    fn poll(&mut self, _now: Nanos, done: &mut Vec<Box<Request>>) {
        done.append(&mut self.device.state.lock().unwrap().ended[self.queue]);
    }

    fn next_event(&self) -> Wake {
        Wake::Idle
    }

    fn abort(&mut self, _now: Nanos, tag: Tag, done: &mut Vec<Box<Request>>) -> Abort {
        let mut state = self.device.state.lock().unwrap();
        match state.on_abort {
            None => return Abort::ResetTimer,
            Some(OnAbort::Later) => {}
            Some(OnAbort::GivesBack) => {
                let with_device = &mut state.in_flight[self.queue];
                let at = with_device.iter().position(|request| request.tag() == tag);
                done.extend(at.and_then(|at| with_device.remove(at)));
            }
        }
        Abort::Accepted
    }
}

/// The user data and status of each completion.
pub(crate) fn outcomes(completions: &[Completion]) -> Vec<(u64, Status)> {
    completions.iter().map(|c| (c.user_data, c.status)).collect()
}

/// Counts how often a channel is woken.
#[derive(Default)]
pub(crate) struct Alarm(AtomicU32);

impl Alarm {
    pub(crate) fn of(channel: &mut Channel) -> Arc<Self> {
        let alarm = Arc::new(Alarm::default());
        channel.set_waker(Arc::clone(&alarm) as _);
        alarm
    }

    pub(crate) fn rings(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

impl WakeUp for Alarm {
    fn wake(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}
