//! A hardware queue over several paths, with one hardware queue of each.
//!
//! Invariants: a request is either with one path or held, and completes once; while a zone recovers,
//! one of its commands is in flight at a time.
use super::path::{IoPolicy, PathSet, PathState, Slot};
use super::zones::{Verdict, ZoneSnapshot, resolve};
use super::{MultipathDevice, count, is_path_error};
use std::collections::BTreeSet;
use std::mem;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use zonal_blk::{Device, HwQueue, Nanos, Op, Request, Sector, Status, Wake, Zone, ZoneNo};

/// How often held commands are checked: a path may be back, or another queue may have completed the
/// command that this one waits for.
const HELD_INTERVAL: Nanos = Nanos(1_000_000);
/// When to retry over a path that has failed for this command, if there is no other.
const RETRY: Nanos = Nanos(100_000_000);

/// The state of a command beside its request.
#[derive(Clone, Copy, Debug, Default)]
struct CommandState {
    /// The zone when the command was first sent.
    snapshot: ZoneSnapshot,
    /// When it was held first.
    since: Option<Nanos>,
    /// Paths that have failed for it.
    avoid: PathSet,
    path: usize,
    /// Whether it has been sent before.
    resent: bool,
}

/// Why a command is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HoldReason {
    /// No path has accepted it.
    Unsent,
    /// It was sent and its completion was lost.
    Lost,
    /// It was resent and failed: the first attempt may have executed meanwhile.
    Refused(Status),
}

/// A held command.
struct Held {
    request: Box<Request>,
    state: CommandState,
    reason: HoldReason,
    /// Its position in the recovery queue, if it is for a sequential zone.
    position: Option<RecoveryPosition>,
    /// The earliest time to send it.
    at: Nanos,
}

/// A position in the recovery queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RecoveryPosition {
    zone: ZoneNo,
    sector: Sector,
    number: u64,
}

/// The order in which the commands of recovering zones are sent: writes of a zone by sector, whichever
/// hardware queues they belong to, then its zone management. Used only after a path has failed.
#[derive(Debug, Default)]
pub(super) struct RecoveryQueue {
    positions: BTreeSet<RecoveryPosition>,
    number: u64,
}

impl RecoveryQueue {
    fn join(&mut self, request: &Request) -> RecoveryPosition {
        let last = Sector(u64::MAX);
        let writes = request.op().is_write();
        let sector = if writes { request.sector() } else { last };
        debug_assert!(writes || request.op() != Op::ZoneResetAll, "it belongs to no zone");
        self.number += 1;
        let position = RecoveryPosition { zone: request.zone(), sector, number: self.number };
        self.positions.insert(position);
        position
    }

    /// Whether it is the first of its zone.
    fn is_first(&self, position: &RecoveryPosition) -> bool {
        let begin = RecoveryPosition { zone: position.zone, sector: Sector(0), number: 0 };
        self.positions.range(begin..).next() == Some(position)
    }

    fn leave(&mut self, position: &RecoveryPosition) {
        let was_queued = self.positions.remove(position);
        debug_assert!(was_queued, "it joined the queue");
    }
}

struct PathQueue {
    queue: Box<dyn HwQueue>,
    in_flight: usize,
}

pub(super) struct MultipathQueue {
    device: Arc<MultipathDevice>,
    paths: Vec<PathQueue>,
    /// By tag.
    states: Vec<CommandState>,
    held: Vec<Held>,
    /// Completions of a path; kept for its capacity.
    completed: Vec<Box<Request>>,
    /// For a zone report; kept for its capacity.
    zone: Vec<Zone>,
    /// The path of the last command.
    last: usize,
    /// When held commands were last checked.
    checked_at: Nanos,
}

/// The action on a held command.
enum Next {
    Wait,
    Send(usize),
    Complete(Status),
}

impl MultipathQueue {
    pub fn open(device: Arc<MultipathDevice>) -> Self {
        let depth = usize::from(device.limits.queue_depth);
        let open =
            |slot: &Slot| PathQueue { queue: Arc::clone(&slot.path).open_queue(), in_flight: 0 };
        MultipathQueue {
            paths: device.slots.iter().map(open).collect(),
            states: vec![CommandState::default(); depth],
            held: Vec::with_capacity(depth),
            completed: Vec::with_capacity(depth),
            zone: Vec::with_capacity(1),
            last: device.slots.len() - 1,
            checked_at: Nanos(0),
            device,
        }
    }

    #[inline]
    fn choose(&self, avoid: PathSet) -> Option<usize> {
        self.device.config.policy.choose(&self.device.slots, self.last, avoid)
    }

    fn is_usable(&self, path: usize) -> bool {
        self.device.slots[path].path.state().is_usable()
    }

    /// Counts commands in flight where the policy goes by them.
    #[inline]
    fn active(&self, path: usize) -> Option<&AtomicU32> {
        let counts = self.device.config.policy == IoPolicy::QueueDepth;
        counts.then(|| &self.device.slots[path].active)
    }

    /// Sends a request over a path.
    #[inline]
    fn submit(
        &mut self,
        now: Nanos,
        request: Box<Request>,
        path: usize,
        state: CommandState,
    ) -> Result<(), Box<Request>> {
        self.states[usize::from(request.tag().0)] = CommandState { path, ..state };
        self.paths[path].queue.start(now, request)?;
        self.paths[path].in_flight += 1;
        if let Some(active) = self.active(path) {
            active.fetch_add(1, Ordering::Relaxed);
        }
        self.last = path;
        Ok(())
    }

    /// Starts a command that has no order among others.
    fn start_free(&mut self, now: Nanos, mut request: Box<Request>) -> Result<(), Box<Request>> {
        let (mut avoid, mut busy) = (0, false);
        if request.op() == Op::ZoneResetAll {
            self.device.zones.reset_all();
        }
        while let Some(path) = self.choose(avoid) {
            match self.submit(now, request, path, CommandState::default()) {
                Ok(()) => return Ok(()),
                Err(back) => request = back,
            }
            busy |= self.is_usable(path);
            avoid |= 1 << path;
        }
        if busy {
            return Err(request);
        }
        self.hold(now, request, CommandState::default(), HoldReason::Unsent, now, false);
        Ok(())
    }

    /// Starts a command that writes or manages a sequential zone.
    fn start_ordered(&mut self, now: Nanos, request: Box<Request>) -> Result<(), Box<Request>> {
        let (path, snapshot) = match self.enter(now, &request) {
            Ok(entered) => entered,
            Err(at) => {
                self.hold(now, request, CommandState::default(), HoldReason::Unsent, at, false);
                return Ok(());
            }
        };
        match self.submit(now, request, path, CommandState { snapshot, ..CommandState::default() })
        {
            Ok(()) => Ok(()),
            Err(request) if self.is_usable(path) => {
                self.device.zones.lock(request.zone()).in_flight -= 1;
                Err(request)
            }
            Err(request) => {
                self.hold(now, request, CommandState::default(), HoldReason::Unsent, now, true);
                Ok(())
            }
        }
    }

    /// Counts a command as in flight in its zone and returns its path and a snapshot of the zone; or
    /// the earliest time to send it.
    #[inline]
    fn enter(&self, now: Nanos, request: &Request) -> Result<(usize, ZoneSnapshot), Nanos> {
        let mut state = self.device.zones.lock(request.zone());
        if !request.op().is_write() && now < state.quiesce_until {
            return Err(state.quiesce_until);
        }
        let path = match state.in_flight {
            _ if state.held > 0 => None,
            0 => self.choose(0),
            // Commands on different paths can overtake each other.
            _ => Some(state.path).filter(|&path| self.is_usable(path)),
        };
        let path = path.ok_or(now)?;
        Ok((path, state.send(request, path)))
    }

    /// Holds a command that no path has; `counted` if its zone counts it as in flight.
    fn hold(
        &mut self,
        now: Nanos,
        request: Box<Request>,
        state: CommandState,
        reason: HoldReason,
        at: Nanos,
        counted: bool,
    ) {
        let device = &self.device;
        let position = device.zones.is_ordered(&request).then(|| {
            let mut recovery = device.recovery();
            let position = recovery.join(&request);
            let mut zone = device.zones.lock(request.zone());
            zone.held += 1;
            if counted {
                zone.in_flight -= 1;
            }
            if reason == HoldReason::Lost && request.op().is_write() {
                zone.quiesce_until = now + device.config.quiesce;
            }
            position
        });
        let state = CommandState { since: state.since.or(Some(now)), ..state };
        self.held.push(Held { request, state, reason, position, at });
    }

    /// A path has completed a request.
    #[inline]
    fn completed(&mut self, now: Nanos, request: Box<Request>, done: &mut Vec<Box<Request>>) {
        let state = self.states[usize::from(request.tag().0)];
        if let Some(active) = self.active(state.path) {
            active.fetch_sub(1, Ordering::Relaxed);
        }
        let (op, status) = (request.op(), request.status());
        if is_path_error(status) {
            return self.lost(now, request, state);
        }
        if self.device.zones.is_ordered(&request) {
            if status == Status::IoError
                && state.resent
                && matches!(op, Op::Write | Op::WriteZeroes)
            {
                return self.hold(now, request, state, HoldReason::Refused(status), now, true);
            }
            let mut zone = self.device.zones.lock(request.zone());
            zone.in_flight -= 1;
            if status == Status::Ok {
                zone.done(&request, state.snapshot);
            }
        } else if op == Op::ZoneResetAll && status == Status::Ok {
            self.device.zones.reset_all();
        }
        done.push(request);
    }

    fn lost(&mut self, now: Nanos, request: Box<Request>, state: CommandState) {
        count(&self.device.counters.path_errors);
        let harmless = match request.op() {
            Op::Read | Op::Flush => true,
            Op::Write | Op::WriteZeroes => self.device.zones.is_ordered(&request),
            _ => false,
        };
        let at = if harmless { now } else { now + self.device.config.quiesce };
        let avoid = state.avoid | 1 << state.path;
        let state = CommandState { avoid, resent: true, ..state };
        self.hold(now, request, state, HoldReason::Lost, at, true);
    }

    /// Sends and completes held commands that can be.
    fn process_held(&mut self, now: Nanos, done: &mut Vec<Box<Request>>) {
        self.checked_at = now;
        let mut at = 0;
        while at < self.held.len() {
            match self.next(now, at) {
                Next::Wait => at += 1,
                Next::Send(path) => {
                    let held = self.held.remove(at);
                    self.send_held(now, held, path);
                }
                Next::Complete(status) => {
                    let held = self.held.remove(at);
                    self.complete_held(held, status, done);
                }
            }
        }
    }

    fn next(&mut self, now: Nanos, at: usize) -> Next {
        let held = &self.held[at];
        if self.has_timed_out(now, &held.state) {
            count(&self.device.counters.no_path);
            return Next::Complete(Status::Transport);
        }
        if now < held.at || !self.is_next(held) {
            return Next::Wait;
        }
        let Some(path) = self.choose(held.state.avoid) else {
            if self.choose(0).is_some() {
                let held = &mut self.held[at];
                (held.state.avoid, held.at) = (0, now + RETRY);
            }
            return Next::Wait;
        };
        let reason = held.reason;
        if reason == HoldReason::Unsent {
            return Next::Send(path);
        }
        match (self.verdict(at), reason) {
            (None, _) => {
                self.held[at].at = now + RETRY;
                Next::Wait
            }
            (Some(Verdict::Done), _) => {
                count(&self.device.counters.found_done);
                Next::Complete(Status::Ok)
            }
            (Some(_), HoldReason::Refused(status)) => Next::Complete(status),
            (Some(Verdict::Resend), _) => {
                count(&self.device.counters.resent);
                Next::Send(path)
            }
            (Some(Verdict::Torn), _) => Next::Complete(Status::IoError),
            (Some(Verdict::Unknown), _) => {
                count(&self.device.counters.in_doubt);
                Next::Complete(Status::Transport)
            }
        }
    }

    /// Whether there will be no path for a command, or not in time.
    fn has_timed_out(&self, now: Nanos, state: &CommandState) -> bool {
        let too_long = |hold: Nanos| state.since.is_some_and(|since| now >= since + hold);
        self.device.config.hold_timeout.is_some_and(too_long)
            || self.device.states().all(|state| state == PathState::Gone)
    }

    fn is_next(&self, held: &Held) -> bool {
        let Some(position) = &held.position else { return true };
        let recovery = self.device.recovery();
        recovery.is_first(position) && self.device.zones.lock(position.zone).in_flight == 0
    }

    /// The verdict of the device's zones on a command; `None` if they cannot be asked.
    fn verdict(&mut self, at: usize) -> Option<Verdict> {
        let held = &self.held[at];
        let request = &held.request;
        if held.position.is_none() || !request.op().is_write() {
            return Some(Verdict::Resend);
        }
        self.zone.clear();
        self.device.report_zones(request.zone(), 1, &mut self.zone).ok()?;
        let zone = self.zone.first()?;
        let state = self.device.zones.lock(request.zone());
        Some(resolve(request, held.state.snapshot, zone, &state))
    }

    /// Sends a held command.
    fn send_held(&mut self, now: Nanos, held: Held, path: usize) {
        let Held { request, mut state, position, .. } = held;
        let device = Arc::clone(&self.device);
        if let Some(position) = &position {
            let mut recovery = device.recovery();
            recovery.leave(position);
            let mut zone = device.zones.lock(position.zone);
            zone.held -= 1;
            let snapshot = zone.send(&request, path);
            state.snapshot = if state.resent { state.snapshot.again(snapshot) } else { snapshot };
        }
        if request.op() == Op::ZoneResetAll {
            device.zones.reset_all();
        }
        if let Err(request) = self.submit(now, request, path, state) {
            self.hold(now, request, state, HoldReason::Unsent, now + HELD_INTERVAL, true);
        }
    }

    fn complete_held(&mut self, held: Held, status: Status, done: &mut Vec<Box<Request>>) {
        let Held { mut request, state, position, .. } = held;
        if let Some(position) = &position {
            let mut recovery = self.device.recovery();
            recovery.leave(position);
            let mut zone = self.device.zones.lock(position.zone);
            zone.held -= 1;
            if status == Status::Ok {
                zone.done(&request, state.snapshot);
            }
        }
        request.set_status(status);
        done.push(request);
    }
}

impl HwQueue for MultipathQueue {
    fn start(&mut self, now: Nanos, request: Box<Request>) -> Result<(), Box<Request>> {
        if self.device.zones.is_ordered(&request) {
            self.start_ordered(now, request)
        } else {
            self.start_free(now, request)
        }
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Box<Request>>) {
        let mut completed = mem::take(&mut self.completed);
        for path in 0..self.paths.len() {
            if self.paths[path].in_flight > 0 {
                self.paths[path].queue.poll(now, &mut completed);
                self.paths[path].in_flight -= completed.len();
                completed.drain(..).for_each(|request| self.completed(now, request, done));
            }
        }
        self.completed = completed;
        if !self.held.is_empty() {
            self.process_held(now, done);
        }
    }

    fn next_event(&self) -> Wake {
        let busy = self.paths.iter().filter(|path| path.in_flight > 0);
        let flying = busy.map(|path| path.queue.next_event());
        let look = |held: &Held| {
            Wake::At(if held.at > self.checked_at {
                held.at
            } else {
                self.checked_at + HELD_INTERVAL
            })
        };
        flying.chain(self.held.iter().map(look)).min().unwrap_or(Wake::Idle)
    }

    fn wait_fds(&self, fds: &mut Vec<RawFd>) {
        self.paths.iter().for_each(|path| path.queue.wait_fds(fds));
    }

    fn reopen(&mut self) {
        self.paths.iter_mut().for_each(|path| path.queue.reopen());
    }
}
