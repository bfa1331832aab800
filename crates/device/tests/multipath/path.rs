//! A path to a null device that can be cut.
//!
//! A command takes time to arrive, executes then, and its completion takes time back. If the
//! path is cut, commands in flight are lost, or executed later all the same; completions are lost.
use std::sync::{Arc, Mutex, MutexGuard};
use zonal_blk::{
    Bio, Buf, Device, HwQueue, Limits, Nanos, Op, Request, Status, Wake, Zone, ZoneNo,
};
use zonal_device::NullDevice;
use zonal_device::multipath::{Path, PathState};
use zonal_device::rng::Rng;

/// How a path behaves.
#[derive(Clone, Debug)]
pub struct Habits {
    /// Each way.
    pub latency: Nanos,
    /// Up to this much more.
    pub jitter: Nanos,
    /// How long after a cut a command may be done; 0 if it never is.
    pub ghosts: Nanos,
    /// One in this many commands fails with a path error on a live path; 0 for none.
    pub flaky: u64,
    pub seed: u64,
}

impl Default for Habits {
    fn default() -> Self {
        let (latency, none) = (Nanos(1000), Nanos(0));
        Habits { latency, jitter: none, ghosts: none, flaky: 0, seed: 0 }
    }
}

pub struct TestPath {
    name: &'static str,
    device: Arc<NullDevice>,
    limits: Limits,
    habits: Habits,
    wire: Mutex<Wire>,
}

struct Wire {
    state: PathState,
    /// Counts cuts.
    cuts: u32,
    rng: Rng,
    /// Commands that were given up and will be done, and when.
    ghosts: Vec<(Nanos, Bio)>,
    /// Commands that this path brought to the device.
    arrived: u64,
    /// Those that the device refused.
    refused: u64,
    reports: u64,
}

impl TestPath {
    pub fn new(name: &'static str, device: &Arc<NullDevice>, habits: Habits) -> Arc<Self> {
        TestPath::with_limits(name, device, habits, device.limits().clone())
    }

    pub fn with_limits(
        name: &'static str,
        device: &Arc<NullDevice>,
        habits: Habits,
        limits: Limits,
    ) -> Arc<Self> {
        let wire = Wire {
            state: PathState::Live,
            cuts: 0,
            rng: Rng::new(habits.seed),
            ghosts: Vec::new(),
            arrived: 0,
            refused: 0,
            reports: 0,
        };
        let device = Arc::clone(device);
        Arc::new(TestPath { name, device, limits, habits, wire: Mutex::new(wire) })
    }

    fn wire(&self) -> MutexGuard<'_, Wire> {
        self.wire.lock().unwrap()
    }

    pub fn cut(&self) {
        let mut wire = self.wire();
        wire.state = PathState::Connecting;
        wire.cuts += 1;
    }

    pub fn mend(&self) {
        self.wire().state = PathState::Live;
    }

    /// The controller reports another access to the device, with its connection intact.
    pub fn access(&self, state: PathState) {
        self.wire().state = state;
    }

    pub fn give_up(&self) {
        self.cut();
        self.wire().state = PathState::Gone;
    }

    /// Commands that the device has seen over this path.
    pub fn arrived(&self) -> u64 {
        self.wire().arrived
    }

    /// The commands of them that it did not execute.
    pub fn refused(&self) -> u64 {
        self.wire().refused
    }

    /// When the next ghost is due.
    pub fn next_ghost(&self) -> Option<Nanos> {
        self.wire().ghosts.iter().map(|&(at, _)| at).min()
    }

    /// Takes a ghost that is due.
    pub fn ghost(&self, now: Nanos) -> Option<Bio> {
        let mut wire = self.wire();
        let at = wire.ghosts.iter().position(|&(at, _)| at <= now)?;
        Some(wire.ghosts.remove(at).1)
    }
}

impl Device for TestPath {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn report_zones(&self, first: ZoneNo, max: usize, zones: &mut Vec<Zone>) -> Result<(), Status> {
        let mut wire = self.wire();
        if !wire.state.is_usable() {
            return Err(Status::Transport);
        }
        wire.reports += 1;
        self.device.report_zones(first, max, zones)
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        let inner: Arc<dyn Device> = Arc::clone(&self.device) as _;
        Box::new(TestQueue { inner: inner.open_queue(), path: self, flights: Vec::new(), cuts: 0 })
    }
}

impl Path for TestPath {
    fn state(&self) -> PathState {
        self.wire().state
    }

    fn name(&self) -> String {
        self.name.to_owned()
    }
}

struct TestQueue {
    path: Arc<TestPath>,
    inner: Box<dyn HwQueue>,
    flights: Vec<Flight>,
    /// The path's when last looked at.
    cuts: u32,
}

struct Flight {
    arrives: Nanos,
    answered: Nanos,
    request: Box<Request>,
    done: bool,
    fails: bool,
}

impl TestQueue {
    /// The device does a command, immediately.
    fn arrive(&mut self, now: Nanos, at: usize) {
        let Flight { arrives, answered, request, fails, .. } = self.flights.remove(at);
        assert!(self.inner.start(now, request).is_ok(), "it has room");
        let mut done = Vec::new();
        self.inner.poll(now, &mut done);
        let request = done.pop().expect("it takes no time");
        let mut wire = self.path.wire();
        wire.arrived += 1;
        wire.refused += u64::from(request.status() != Status::Ok);
        self.flights.insert(at, Flight { arrives, answered, request, done: true, fails });
    }

    /// Loses the commands in flight: the path was cut.
    fn lose(&mut self, now: Nanos, done: &mut Vec<Box<Request>>) {
        for Flight { mut request, done: was_done, .. } in self.flights.drain(..) {
            let mut wire = self.path.wire();
            if !was_done && self.path.habits.ghosts.0 > 0 && wire.rng.below(2) == 0 {
                let at = now + Nanos(wire.rng.below(self.path.habits.ghosts.0));
                wire.ghosts.push((at, copy(&mut request)));
            }
            forget(&mut request, &self.path.limits);
            request.set_status(Status::Transport);
            done.push(request);
        }
    }
}

/// A path that lost the answer does not know where an append landed.
fn forget(request: &mut Request, limits: &Limits) {
    if request.op() == Op::ZoneAppend {
        request.set_append_sector(limits.zone_start(request.zone()));
    }
}

/// The command once more, with its data in one piece.
fn copy(request: &mut Request) -> Bio {
    let mut data = Vec::new();
    request.for_each_segment(|_, nr_sectors, buf| match buf {
        Some(buf) => data.extend_from_slice(buf),
        None => data.resize(data.len() + nr_sectors as usize * 512, 0),
    });
    let (op, sector, len) = (request.op(), request.sector(), request.nr_sectors());
    Bio { buf: (!data.is_empty()).then(|| Buf::from(&data[..])), ..Bio::new(op, sector, len, 0) }
}

impl HwQueue for TestQueue {
    fn start(&mut self, now: Nanos, request: Box<Request>) -> Result<(), Box<Request>> {
        let mut wire = self.path.wire();
        if matches!(wire.state, PathState::Connecting | PathState::Gone) {
            return Err(request);
        }
        self.cuts = if self.flights.is_empty() { wire.cuts } else { self.cuts };
        if self.cuts != wire.cuts {
            // What was cut has not been given back yet.
            return Err(request);
        }
        let Habits { latency, jitter, flaky, .. } = self.path.habits;
        let mut way = || latency + Nanos(wire.rng.below(jitter.0 + 1));
        let arrives = now + way();
        let answered = arrives + way();
        let fails = flaky > 0 && wire.rng.below(flaky) == 0;
        drop(wire);
        self.flights.push(Flight { arrives, answered, request, done: false, fails });
        Ok(())
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Box<Request>>) {
        if self.path.wire().cuts != self.cuts {
            self.lose(now, done);
            self.cuts = self.path.wire().cuts;
            return;
        }
        while let Some((at, _)) = (self.flights.iter().enumerate())
            .filter(|(_, flight)| !flight.done && flight.arrives <= now)
            .min_by_key(|(_, flight)| flight.arrives)
        {
            let flight = &mut self.flights[at];
            let mut wire = self.path.wire();
            if wire.state == PathState::Inaccessible || flight.fails && wire.rng.below(2) == 0 {
                // The controller refuses it, and the device does not see it.
                (flight.fails, flight.done) = (true, true);
                continue;
            }
            drop(wire);
            self.arrive(now, at);
        }
        while let Some(at) =
            self.flights.iter().position(|flight| flight.done && flight.answered <= now)
        {
            let Flight { mut request, fails, .. } = self.flights.remove(at);
            if fails {
                forget(&mut request, &self.path.limits);
                request.set_status(Status::Transport);
            }
            done.push(request);
        }
    }

    fn next_event(&self) -> Wake {
        if !self.flights.is_empty() && self.path.wire().cuts != self.cuts {
            return Wake::Now;
        }
        let due = |flight: &Flight| if flight.done { flight.answered } else { flight.arrives };
        self.flights.iter().map(due).min().map_or(Wake::Idle, Wake::At)
    }
}
