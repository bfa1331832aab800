//! A hardware queue over several paths: one hardware queue of each.
//!
//! Takes requests; gives each to a path, and takes back what a path could not do. Keeps true: a
//! request is with one path, or held, and comes back once; what is sent of a zone while it recovers
//! goes alone.
use super::held::{CommandState, Held, HoldReason};
use super::policy::{IoPolicy, PathSet};
use super::verdict::{Verdict, resolve};
use super::zones::ZoneSnapshot;
use super::{MultipathDevice, PathState, Slot, count, is_path_error};
use std::mem;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use zonal_blk::{Device, HwQueue, Nanos, Op, Request, Status, Wake, Zone};

/// How often it is looked whether what is held can go: a path may be back, or the zone's turn may
/// have come in another queue.
const HELD_INTERVAL: Nanos = Nanos(1_000_000);
/// When to try again over a path that is live and has failed for this command, if there is no other.
const RETRY: Nanos = Nanos(100_000_000);

struct PathQueue {
    queue: Box<dyn HwQueue>,
    in_flight: usize,
}

pub(super) struct MultipathQueue {
    device: Arc<MultipathDevice>,
    paths: Vec<PathQueue>,
    /// By tag.
    sent: Vec<CommandState>,
    held: Vec<Held>,
    /// What a path gave back; kept for its capacity.
    out: Vec<Box<Request>>,
    /// For a zone report; kept for its capacity.
    zone: Vec<Zone>,
    /// The path of the last command.
    last: usize,
    /// When what is held was last looked at.
    looked_at: Nanos,
}

/// What is to be done with a command that is held.
enum Next {
    Wait,
    Send(usize),
    End(Status),
}

impl MultipathQueue {
    pub fn open(device: Arc<MultipathDevice>) -> Self {
        let depth = usize::from(device.limits.queue_depth);
        let open =
            |slot: &Slot| PathQueue { queue: Arc::clone(&slot.path).open_queue(), in_flight: 0 };
        MultipathQueue {
            paths: device.slots.iter().map(open).collect(),
            sent: vec![CommandState::default(); depth],
            held: Vec::with_capacity(depth),
            out: Vec::with_capacity(depth),
            zone: Vec::with_capacity(1),
            last: device.slots.len() - 1,
            looked_at: Nanos(0),
            device,
        }
    }

    #[inline]
    fn choose(&self, avoid: PathSet) -> Option<usize> {
        self.device.config.policy.choose(&self.device.slots, self.last, avoid)
    }

    fn is_live(&self, path: usize) -> bool {
        self.device.slots[path].path.state() == PathState::Live
    }

    /// Counts commands in flight where the policy goes by them.
    #[inline]
    fn active(&self, path: usize) -> Option<&AtomicU32> {
        let counts = self.device.config.policy == IoPolicy::QueueDepth;
        counts.then(|| &self.device.slots[path].active)
    }

    /// Gives a request to a path.
    #[inline]
    fn submit(
        &mut self,
        now: Nanos,
        request: Box<Request>,
        path: usize,
        sent: CommandState,
    ) -> Result<(), Box<Request>> {
        self.sent[usize::from(request.tag().0)] = CommandState { path, ..sent };
        self.paths[path].queue.start(now, request)?;
        self.paths[path].in_flight += 1;
        if let Some(active) = self.active(path) {
            active.fetch_add(1, Ordering::Relaxed);
        }
        self.last = path;
        Ok(())
    }

    /// Starts a command that may be done in any order with others.
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
            busy |= self.is_live(path);
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
        let (path, seen) = match self.enter(now, &request) {
            Ok(entered) => entered,
            Err(at) => {
                self.hold(now, request, CommandState::default(), HoldReason::Unsent, at, false);
                return Ok(());
            }
        };
        match self.submit(now, request, path, CommandState { seen, ..CommandState::default() }) {
            Ok(()) => Ok(()),
            Err(request) if self.is_live(path) => {
                self.device.zones.lock(request.zone()).in_flight -= 1;
                Err(request)
            }
            Err(request) => {
                self.hold(now, request, CommandState::default(), HoldReason::Unsent, now, true);
                Ok(())
            }
        }
    }

    /// The path of a command and what is known of its zone, which then counts it; or else not
    /// before when it is to be sent.
    #[inline]
    fn enter(&self, now: Nanos, request: &Request) -> Result<(usize, ZoneSnapshot), Nanos> {
        let mut state = self.device.zones.lock(request.zone());
        if !request.op().is_write() && now < state.quiesce_until {
            return Err(state.quiesce_until);
        }
        let path = match state.in_flight {
            _ if state.held > 0 => None,
            0 => self.choose(0),
            // Commands over different paths pass one another.
            _ => Some(state.path).filter(|&path| self.is_live(path)),
        };
        let path = path.ok_or(now)?;
        Ok((path, state.send(request, path)))
    }

    /// Keeps a command that no path has; `counted` if its zone counts it as in flight.
    fn hold(
        &mut self,
        now: Nanos,
        request: Box<Request>,
        sent: CommandState,
        doubt: HoldReason,
        at: Nanos,
        counted: bool,
    ) {
        let device = &self.device;
        let place = device.zones.is_ordered(&request).then(|| {
            let mut line = device.line();
            let place = line.join(&request);
            let mut state = device.zones.lock(request.zone());
            state.held += 1;
            if counted {
                state.in_flight -= 1;
            }
            if doubt == HoldReason::Lost && request.op().is_write() {
                state.quiesce_until = now + device.config.quiesce;
            }
            place
        });
        let sent = CommandState { since: sent.since.or(Some(now)), ..sent };
        self.held.push(Held { request, sent, doubt, place, at });
    }

    /// A path gave a request back.
    #[inline]
    fn ended(&mut self, now: Nanos, request: Box<Request>, done: &mut Vec<Box<Request>>) {
        let sent = self.sent[usize::from(request.tag().0)];
        if let Some(active) = self.active(sent.path) {
            active.fetch_sub(1, Ordering::Relaxed);
        }
        let (op, status) = (request.op(), request.status());
        if is_path_error(status) {
            return self.lost(now, request, sent);
        }
        if self.device.zones.is_ordered(&request) {
            if status == Status::IoError && sent.again && matches!(op, Op::Write | Op::WriteZeroes)
            {
                return self.hold(now, request, sent, HoldReason::Refused(status), now, true);
            }
            let mut state = self.device.zones.lock(request.zone());
            state.in_flight -= 1;
            if status == Status::Ok {
                state.done(&request, sent.seen);
            }
        } else if op == Op::ZoneResetAll && status == Status::Ok {
            self.device.zones.reset_all();
        }
        done.push(request);
    }

    fn lost(&mut self, now: Nanos, request: Box<Request>, sent: CommandState) {
        count(&self.device.counters.path_errors);
        let harmless = match request.op() {
            Op::Read | Op::Flush => true,
            Op::Write | Op::WriteZeroes => self.device.zones.is_ordered(&request),
            _ => false,
        };
        let at = if harmless { now } else { now + self.device.config.quiesce };
        let sent = CommandState { avoid: sent.avoid | 1 << sent.path, again: true, ..sent };
        self.hold(now, request, sent, HoldReason::Lost, at, true);
    }

    /// Sends and ends what is held and can be.
    fn process_held(&mut self, now: Nanos, done: &mut Vec<Box<Request>>) {
        self.looked_at = now;
        let mut at = 0;
        while at < self.held.len() {
            match self.next(now, at) {
                Next::Wait => at += 1,
                Next::Send(path) => {
                    let held = self.held.remove(at);
                    self.send_held(now, held, path);
                }
                Next::End(status) => {
                    let held = self.held.remove(at);
                    self.end_held(held, status, done);
                }
            }
        }
    }

    fn next(&mut self, now: Nanos, at: usize) -> Next {
        let held = &self.held[at];
        if self.has_timed_out(now, &held.sent) {
            count(&self.device.counters.no_path);
            return Next::End(Status::Transport);
        }
        if now < held.at || !self.is_next(held) {
            return Next::Wait;
        }
        let Some(path) = self.choose(held.sent.avoid) else {
            if self.choose(0).is_some() {
                let held = &mut self.held[at];
                (held.sent.avoid, held.at) = (0, now + RETRY);
            }
            return Next::Wait;
        };
        let doubt = held.doubt;
        if doubt == HoldReason::Unsent {
            return Next::Send(path);
        }
        match (self.verdict(at), doubt) {
            (None, _) => {
                self.held[at].at = now + RETRY;
                Next::Wait
            }
            (Some(Verdict::Done), _) => {
                count(&self.device.counters.found_done);
                Next::End(Status::Ok)
            }
            (Some(_), HoldReason::Refused(status)) => Next::End(status),
            (Some(Verdict::Resend), _) => {
                count(&self.device.counters.resent);
                Next::Send(path)
            }
            (Some(Verdict::Torn), _) => Next::End(Status::IoError),
            (Some(Verdict::Unknown), _) => {
                count(&self.device.counters.in_doubt);
                Next::End(Status::Transport)
            }
        }
    }

    /// Whether there will be no path for a command, or not in time.
    fn has_timed_out(&self, now: Nanos, sent: &CommandState) -> bool {
        let too_long = |hold: Nanos| sent.since.is_some_and(|since| now >= since + hold);
        self.device.config.hold.is_some_and(too_long)
            || self.device.states().all(|state| state == PathState::Gone)
    }

    fn is_next(&self, held: &Held) -> bool {
        let Some(place) = &held.place else { return true };
        let line = self.device.line();
        line.is_first(place) && self.device.zones.lock(place.zone).in_flight == 0
    }

    /// What the device's zones say of a command in doubt; `None` if they cannot be asked.
    fn verdict(&mut self, at: usize) -> Option<Verdict> {
        let held = &self.held[at];
        let request = &held.request;
        if held.place.is_none() || !request.op().is_write() {
            return Some(Verdict::Resend);
        }
        self.zone.clear();
        self.device.report_zones(request.zone(), 1, &mut self.zone).ok()?;
        let zone = self.zone.first()?;
        let state = self.device.zones.lock(request.zone());
        Some(resolve(request, held.sent.seen, zone, &state))
    }

    /// Sends what has its turn.
    fn send_held(&mut self, now: Nanos, held: Held, path: usize) {
        let Held { request, mut sent, place, .. } = held;
        let device = Arc::clone(&self.device);
        if let Some(place) = &place {
            let mut line = device.line();
            line.leave(place);
            let mut state = device.zones.lock(place.zone);
            state.held -= 1;
            let seen = state.send(&request, path);
            sent.seen = if sent.again { sent.seen.again(seen) } else { seen };
        }
        if request.op() == Op::ZoneResetAll {
            device.zones.reset_all();
        }
        if let Err(request) = self.submit(now, request, path, sent) {
            self.hold(now, request, sent, HoldReason::Unsent, now + HELD_INTERVAL, true);
        }
    }

    fn end_held(&mut self, held: Held, status: Status, done: &mut Vec<Box<Request>>) {
        let Held { mut request, sent, place, .. } = held;
        if let Some(place) = &place {
            let mut line = self.device.line();
            line.leave(place);
            let mut state = self.device.zones.lock(place.zone);
            state.held -= 1;
            if status == Status::Ok {
                state.done(&request, sent.seen);
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
        let mut out = mem::take(&mut self.out);
        for path in 0..self.paths.len() {
            if self.paths[path].in_flight > 0 {
                self.paths[path].queue.poll(now, &mut out);
                self.paths[path].in_flight -= out.len();
                out.drain(..).for_each(|request| self.ended(now, request, done));
            }
        }
        self.out = out;
        if !self.held.is_empty() {
            self.process_held(now, done);
        }
    }

    fn next_event(&self) -> Wake {
        let busy = self.paths.iter().filter(|path| path.in_flight > 0);
        let flying = busy.map(|path| path.queue.next_event());
        let look = |held: &Held| {
            Wake::At(if held.at > self.looked_at {
                held.at
            } else {
                self.looked_at + HELD_INTERVAL
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
