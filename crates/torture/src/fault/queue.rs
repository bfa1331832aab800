//! A hardware queue of a device with injected faults.
//!
//! Commands that are due at the same time are executed newest first, as by the null device.
use super::log::{BioPart, Event};
use super::{AbortResponse, CommandObserver, Effect, FaultDevice, FaultSpec, note_effect};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::os::fd::RawFd;
use std::sync::Arc;
use zonal_blk::{Abort, Device, HwQueue, Nanos, Op, Request, Status, Tag, Wake};

pub(super) struct FaultQueue {
    device: Arc<FaultDevice>,
    inner: Box<dyn HwQueue>,
    number: u16,
    pending: BinaryHeap<Pending>,
    /// Commands in the device inside, by tag.
    inside: Vec<Option<InnerCommand>>,
    started: u64,
    /// The epoch of the device at the last poll.
    epoch: u32,
    /// Completions of the device inside; kept for its capacity.
    out: Vec<Box<Request>>,
}

/// A command in the device inside.
#[derive(Clone, Copy)]
struct InnerCommand {
    epoch: u32,
    status: Option<Status>,
}

struct Pending {
    due: Nanos,
    number: u64,
    epoch: u32,
    fault: Option<FaultSpec>,
    request: Box<Request>,
}

impl FaultQueue {
    pub(super) fn new(device: Arc<FaultDevice>, inner: Box<dyn HwQueue>, number: u16) -> Self {
        FaultQueue {
            inside: vec![None; usize::from(device.limits().queue_depth)],
            device,
            inner,
            number,
            pending: BinaryHeap::new(),
            started: 0,
            epoch: 0,
            out: Vec::new(),
        }
    }

    /// Executes a command that is due. It goes to `done` if it completes immediately; the device inside
    /// may keep it.
    fn execute(&mut self, now: Nanos, pending: Pending, done: &mut Vec<Box<Request>>) {
        let Pending { fault, mut request, .. } = pending;
        if self.device.is_beyond_end(&request) {
            return self.complete(request, Status::IoError, true, done);
        }
        match fault.map_or(Effect::All, |fault| fault.effect) {
            Effect::Nothing => {
                let status = fault.and_then(|fault| fault.status).unwrap_or(Status::IoError);
                self.complete(request, status, true, done);
            }
            Effect::Part(lbas) if request.op().is_write() => {
                let status = self.torn_write(&mut request, lbas);
                let status = fault.and_then(|fault| fault.status).unwrap_or(status);
                self.complete(request, status, true, done);
            }
            _ => {
                if !self.device.observes {
                    self.device.before(&request);
                }
                let status = fault.and_then(|fault| fault.status);
                let inside = InnerCommand { epoch: pending.epoch, status };
                self.inside[usize::from(request.tag().0)] = Some(inside);
                if let Err(request) = self.inner.start(now, request) {
                    // The device inside is busy.
                    let (number, epoch) = (pending.number, pending.epoch);
                    self.pending.push(Pending { due: now, number, epoch, fault, request });
                }
            }
        }
    }

    /// A torn write, without at least its last LBA. It ends between two units that zones are written in.
    fn torn_write(&mut self, request: &mut Request, lbas: u32) -> Status {
        let lba = self.device.limits.lba_sectors();
        let nr_sectors = (lbas * lba).min(request.nr_sectors() - lba);
        let nr_sectors = nr_sectors - nr_sectors % self.device.limits.zone_write_sectors();
        if nr_sectors == 0 {
            return Status::IoError;
        }
        let device = &self.device;
        let mut state = device.state();
        if let Some(cache) = &mut state.cache {
            cache.before(&*device.inner, request);
        }
        let before = append_target(device, request);
        let result = device.inner.write_part(request, nr_sectors);
        let landed = before.unwrap_or(request.sector());
        let nr_sectors = if result.is_ok() { nr_sectors } else { 0 };
        if let Some(cache) = &mut state.cache
            && result.is_ok()
        {
            note_effect(cache, request, nr_sectors, landed);
        }
        state.log.events.push(Event::Executed {
            queue: self.number,
            tag: request.tag(),
            sector: landed,
            nr_sectors,
            status: result.err().unwrap_or(Status::Ok),
        });
        Status::IoError
    }

    fn complete(
        &mut self,
        mut request: Box<Request>,
        status: Status,
        faulty: bool,
        done: &mut Vec<Box<Request>>,
    ) {
        request.set_status(status);
        let (queue, tag) = (self.number, request.tag());
        self.device.state().log.events.push(Event::Done { queue, tag, status, faulty });
        done.push(request);
    }

    /// Collects completions of the device inside.
    fn collect(&mut self, now: Nanos, done: &mut Vec<Box<Request>>) {
        let mut out = std::mem::take(&mut self.out);
        self.inner.poll(now, &mut out);
        for request in out.drain(..) {
            let inside = self.inside[usize::from(request.tag().0)].take();
            let real = request.status();
            if !self.device.observes {
                self.device.after(Some(self.number), &request, real);
            }
            let lost = {
                let state = self.device.state();
                state.removed || inside.is_some_and(|inside| inside.epoch != state.epoch)
            };
            let reported = match lost {
                true => Some(Status::Offline),
                false => inside.and_then(|inside| inside.status),
            };
            self.complete(request, reported.unwrap_or(real), reported.is_some(), done);
        }
        self.out = out;
    }
}

/// The sector that a native append will write to.
fn append_target(device: &FaultDevice, request: &Request) -> Option<zonal_blk::Sector> {
    if request.op() != Op::ZoneAppend {
        return None;
    }
    let mut zones = Vec::with_capacity(1);
    device.inner.report_zones(request.zone(), 1, &mut zones).ok()?;
    zones.first().map(|zone| zone.wp)
}

impl HwQueue for FaultQueue {
    fn start(&mut self, now: Nanos, mut request: Box<Request>) -> Result<(), Box<Request>> {
        let device = &self.device;
        let mut state = device.state();
        if state.busy > 0 {
            state.busy -= 1;
            state.log.events.push(Event::Refused);
            return Err(request);
        }
        let fault = state.take_fault(&request);
        let before = state.log.parts.len();
        let parts = &mut state.log.parts;
        request.for_each_bio(|bio| {
            parts.push(BioPart {
                id: bio.user_data,
                sector: bio.sector,
                nr_sectors: bio.nr_sectors,
                flags: bio.flags,
                prio: bio.prio,
                stream: bio.stream,
            });
        });
        let bios = parts.len() - before;
        let started = Event::Started {
            queue: self.number,
            tag: request.tag(),
            op: request.op(),
            flags: request.flags(),
            zone: request.zone(),
            sector: request.sector(),
            nr_sectors: request.nr_sectors(),
            bios: u32::try_from(bios).expect("a command has fewer bios than sectors"),
            at: now,
        };
        state.log.events.push(started);
        let epoch = state.epoch;
        drop(state);
        let delay = fault.map_or(0, |fault| fault.delay.0);
        let takes = device.config.latency.0 + device.jitter_of(&request);
        let due = Nanos(now.0.saturating_add(takes.saturating_add(delay)));
        self.started += 1;
        self.pending.push(Pending { due, number: self.started, epoch, fault, request });
        Ok(())
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Box<Request>>) {
        let (removed, epoch) = {
            let state = self.device.state();
            (state.removed, state.epoch)
        };
        if removed || epoch != self.epoch {
            self.epoch = epoch;
            // Commands in flight at a removal are lost, and all others until the device is back.
            let mut kept = BinaryHeap::new();
            for pending in std::mem::take(&mut self.pending).into_sorted_vec().into_iter().rev() {
                if removed || pending.epoch != epoch {
                    self.complete(pending.request, Status::Offline, true, done);
                } else {
                    kept.push(pending);
                }
            }
            self.pending = kept;
        }
        while self.pending.peek().is_some_and(|first| first.due <= now)
            && let Some(pending) = self.pending.pop()
        {
            self.execute(now, pending, done);
            self.collect(now, done);
        }
        if self.inner.next_event() != Wake::Idle {
            self.collect(now, done);
        }
    }

    fn next_event(&self) -> Wake {
        let state = self.device.state();
        let lost = state.removed || self.epoch != state.epoch;
        drop(state);
        let own = match self.pending.peek() {
            Some(_) if lost => Wake::Now,
            Some(first) => Wake::At(first.due),
            None => Wake::Idle,
        };
        own.min(self.inner.next_event())
    }

    fn wait_fds(&self, fds: &mut Vec<RawFd>) {
        self.inner.wait_fds(fds);
    }

    fn reopen(&mut self) {
        self.inner.reopen();
    }

    fn abort(&mut self, now: Nanos, tag: Tag, done: &mut Vec<Box<Request>>) -> Abort {
        let mut pending = std::mem::take(&mut self.pending).into_vec();
        let place = pending.iter().position(|pending| pending.request.tag() == tag);
        let found = place.map(|place| pending.swap_remove(place));
        self.pending = pending.into();
        match found {
            Some(found) => self.abort_pending(now, found, done),
            None => {
                // The device inside is executing it and will complete it.
                self.log_abort(now, tag, true);
                Abort::Accepted
            }
        }
    }
}

impl FaultQueue {
    /// Aborts a command that has not reached the device inside.
    fn abort_pending(
        &mut self,
        now: Nanos,
        mut pending: Pending,
        done: &mut Vec<Box<Request>>,
    ) -> Abort {
        let on_abort = pending.fault.map_or(AbortResponse::NotExecuted, |fault| fault.on_abort);
        let ignores = matches!(on_abort, AbortResponse::ResetTimer(times) if times > 0);
        self.log_abort(now, pending.request.tag(), !ignores);
        match on_abort {
            AbortResponse::ResetTimer(times) if times > 0 => {
                let fault = pending.fault.as_mut().expect("its fault ignores aborts");
                fault.on_abort = AbortResponse::ResetTimer(times - 1);
                self.pending.push(pending);
                return Abort::ResetTimer;
            }
            AbortResponse::NotExecuted | AbortResponse::ResetTimer(_) => {
                self.complete(pending.request, Status::Timeout, true, done);
            }
            AbortResponse::Executed => {
                pending.due = now;
                self.execute(now, pending, done);
                self.collect(now, done);
            }
            AbortResponse::Delayed(delay) => {
                pending.due = now.saturating_add(delay);
                self.pending.push(pending);
            }
        }
        Abort::Accepted
    }

    fn log_abort(&self, at: Nanos, tag: Tag, stops: bool) {
        let event = Event::Aborted { queue: self.number, tag, stops, at };
        self.device.state().log.events.push(event);
    }
}

impl Ord for Pending {
    fn cmp(&self, other: &Self) -> Ordering {
        other.due.cmp(&self.due).then(self.number.cmp(&other.number))
    }
}

impl PartialOrd for Pending {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Pending {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Pending {}
