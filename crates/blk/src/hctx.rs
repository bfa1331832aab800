//! The hardware queue: tags, dispatch, requeue, timeout.
//!
//! Requests go to the device, each with a tag, and come back completed. There are no more requests
//! in flight than tags. A request that the device was too busy for is sent first when there is room
//! again. A tag is released when its request is back and not before, also after a timeout.
//!
//! # Timeouts
//!
//! Each tag has the time when its request was started, and the queue has one time at which to check
//! them all, never later than the first timeout. So an I/O costs a store, a poll costs a
//! comparison, and the tags are scanned every thirty seconds.
use crate::device::{Abort, Device, HwQueue};
use crate::iostat::HctxTimes;
use crate::probe::{mark, mutant};
use crate::request::{Request, RequestList};
use crate::status::Status;
use crate::sync::Mutex;
use crate::trace::{HctxTrace, TraceAction};
use crate::units::{Nanos, Tag};
use crate::wake::Wake;
use std::os::fd::RawFd;
use std::sync::Arc;

/// When to retry what the device was too busy for, if nothing is in flight whose completion could
/// trigger it: the kernel's `BLK_MQ_RESOURCE_DELAY`, 3 ms (block/blk-mq.c, Linux 6.12).
const RETRY: Nanos = Nanos(3_000_000);

/// The default I/O timeout, the kernel's 30 s (block/blk-mq.c, Linux 6.12; `queue/io_timeout`).
pub(crate) const IO_TIMEOUT: Nanos = Nanos(30_000_000_000);

pub(crate) struct Hctx {
    hw: Box<dyn HwQueue>,
    free_tags: Vec<Tag>,
    depth: usize,
    /// Tags left unused by an `nr_requests` below the queue depth.
    unused_tags: usize,
    waiting: RequestList,
    /// By tag: when its request was started or last timed out.
    started: Box<[Nanos]>,
    io_timeout: Nanos,
    /// When to check for timeouts; meaningless with nothing in flight.
    next_timeout_check: Nanos,
    /// Tags whose requests were aborted and are not back yet.
    aborting: Vec<Tag>,
    /// When the device last refused a request.
    refused_at: Nanos,
    /// Channels that share the queue and are not draining.
    sharers: u32,
    /// Requests given to the device so far.
    starts: u64,
    /// `None` without [`QueueOptions::iostats`](crate::QueueOptions::iostats).
    times: Option<Arc<HctxTimes>>,
    /// `None` unless the queue is traced.
    trace: Option<HctxTrace>,
}

impl Hctx {
    pub(crate) fn open(
        device: &Arc<dyn Device>,
        times: Option<Arc<HctxTimes>>,
        trace: Option<HctxTrace>,
    ) -> Self {
        let depth = device.limits().queue_depth;
        Hctx {
            hw: Arc::clone(device).open_queue(),
            free_tags: (0..depth).rev().map(Tag).collect(),
            depth: usize::from(depth),
            unused_tags: 0,
            waiting: RequestList::new(),
            started: vec![Nanos(0); usize::from(depth)].into(),
            io_timeout: IO_TIMEOUT,
            next_timeout_check: Nanos(0),
            aborting: Vec::new(),
            refused_at: Nanos(0),
            sharers: 0,
            starts: 0,
            times,
            trace,
        }
    }

    /// Requests given to the device so far.
    #[inline]
    pub(crate) fn starts(&self) -> u64 {
        self.starts
    }

    /// Whether there may be something to reap at the time of the last [`Hctx::reap`], after which there
    /// had been `starts`: what was started since, or what the device knows of.
    #[inline]
    pub(crate) fn may_have_more(&self, now: Nanos, starts: u64) -> bool {
        self.starts != starts
            || self.free_tags.len() < self.depth && self.hw.next_event().is_due(now)
    }

    /// Another channel takes over: as if opened anew.
    pub(crate) fn reopen(&mut self) {
        assert!(self.is_idle(), "a hardware queue changes hands with nothing in flight");
        self.hw.reopen();
        self.free_tags.clear();
        self.free_tags.extend((0..self.depth()).rev().map(Tag));
        self.refused_at = Nanos(0);
        self.sharers = 0;
    }

    fn depth(&self) -> u16 {
        u16::try_from(self.depth).expect("a tag has 16 bits")
    }

    /// Changes how many requests may be in flight, and for how long. Nothing may be in flight.
    pub(crate) fn configure(&mut self, nr_requests: u16, io_timeout: Nanos) {
        self.unused_tags = self.depth.saturating_sub(nr_requests.into());
        self.io_timeout = io_timeout;
    }

    /// Sends a request to the device, after those that wait.
    #[inline(always)]
    pub(crate) fn dispatch(&mut self, now: Nanos, request: Box<Request>) {
        if self.waiting.is_empty() {
            if let Err(request) = self.start(now, request) {
                self.wait(now, request);
            }
        } else {
            self.wait(now, request);
        }
    }

    /// [`Hctx::dispatch`] where it is one of many.
    #[inline(never)]
    fn dispatch_next(&mut self, now: Nanos, request: Box<Request>) {
        self.dispatch(now, request);
    }

    #[inline(never)]
    fn wait(&mut self, now: Nanos, mut request: Box<Request>) {
        if let Some(trace) = &mut self.trace {
            trace.event(now, TraceAction::Sleep, &mut request);
        }
        self.waiting.push_back(request);
    }

    /// Sends a request to the device, unless others wait or there is no tag for it.
    #[inline]
    pub(crate) fn dispatch_if_room(
        &mut self,
        now: Nanos,
        request: Box<Request>,
    ) -> Result<(), Box<Request>> {
        if self.room() == 0 {
            return Err(request);
        }
        self.dispatch(now, request);
        Ok(())
    }

    /// Begins to send at most `count` requests: what they have in common is checked once. There need
    /// not be room for them, since another channel may have taken tags of a shared queue.
    #[inline]
    pub(crate) fn begin_batch(&mut self, now: Nanos, count: usize) -> BatchDispatch<'_> {
        let plain = self.trace.is_none() && self.times.is_none() && self.room() >= count;
        if plain {
            self.leave_idle(now);
        }
        BatchDispatch { hctx: self, now, plain }
    }

    /// The device is about to get its first request.
    #[inline(always)]
    fn leave_idle(&mut self, now: Nanos) {
        if self.free_tags.len() == self.depth {
            self.next_timeout_check = now.saturating_add(self.io_timeout);
            if let Some(times) = &self.times {
                times.becomes_busy(now);
            }
        }
    }

    /// How many requests could be sent now.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        if self.waiting.is_empty() {
            self.free_tags.len().saturating_sub(self.unused_tags)
        } else {
            0
        }
    }

    #[inline(always)]
    fn start(&mut self, now: Nanos, mut request: Box<Request>) -> Result<(), Box<Request>> {
        let free = self.free_tags.len();
        mark!(NoTag if free <= self.unused_tags);
        if free <= self.unused_tags {
            return Err(request);
        }
        self.leave_idle(now);
        let tag = self.take_tag(now, &mut request);
        if let Some(trace) = &mut self.trace {
            trace.issue(now, &mut request);
        }
        let started = match self.hw.start(now, request) {
            Ok(()) => Ok(()),
            Err(request) => Err(self.requeue(now, tag, request)),
        };
        if let Some(times) = &self.times {
            times.set_in_flight(self.depth - self.free_tags.len());
        }
        started
    }

    /// Gives a tag to a request that is started; one must be free.
    #[inline(always)]
    fn take_tag(&mut self, now: Nanos, request: &mut Request) -> Tag {
        let tag = self.free_tags.pop().expect("more tags are free than are unused");
        request.tag = tag;
        self.starts += 1;
        self.started[usize::from(tag.0)] = now;
        tag
    }

    /// The device was too busy for a request.
    #[cold]
    fn requeue(&mut self, now: Nanos, tag: Tag, mut request: Box<Request>) -> Box<Request> {
        mark!(BusyRequeue if true);
        self.free_tags.push(tag);
        self.refused_at = now;
        if let Some(trace) = &mut self.trace {
            trace.event(now, TraceAction::Requeue, &mut request);
        }
        request
    }

    /// Moves completed requests to the end of `done`.
    #[inline(always)]
    pub(crate) fn reap(&mut self, now: Nanos, done: &mut Vec<Box<Request>>) {
        let before = done.len();
        self.hw.poll(now, done);
        if now >= self.next_timeout_check && self.free_tags.len() < self.depth {
            self.time_out(now, before, done);
        }
        if done.len() > before {
            if !self.aborting.is_empty() {
                self.end_aborted(before, done);
            }
            // One by one: most often there is one.
            for request in &done[before..] {
                assert!(request.is_done(), "the device gave back a request without a status");
                self.free_tags.push(request.tag);
            }
            if let Some(times) = &self.times {
                if times.is_on() {
                    for request in &done[before..] {
                        times.count(request.op(), self.started[usize::from(request.tag.0)], now);
                    }
                }
                times.came_back(now, self.depth - self.free_tags.len());
            }
            if mutant!(TagReleasedTwice) && done[before].status() != Status::Ok {
                self.free_tags.push(done[before].tag);
            }
        } else if !mutant!(MissedRequeue) {
            // Nothing completed that would trigger a retry of what the device was too busy for.
            self.run(now);
        }
    }

    /// Aborts what has timed out. Requests that the device gives back immediately go to `done`, in which
    /// those from `before` on have just come back.
    #[cold]
    fn time_out(&mut self, now: Nanos, before: usize, done: &mut Vec<Box<Request>>) {
        let mut with_device = vec![true; self.depth];
        let settled = self.free_tags.iter().chain(&self.aborting);
        settled.for_each(|tag| with_device[usize::from(tag.0)] = false);
        let mut seen = before;
        let mut oldest = now;
        for at in 0..self.depth {
            // An abort may give back other requests too.
            done[seen..].iter().for_each(|back| with_device[usize::from(back.tag.0)] = false);
            seen = done.len();
            if !with_device[at] {
                continue;
            }
            if self.started[at].saturating_add(self.io_timeout) > now {
                oldest = oldest.min(self.started[at]);
            } else {
                self.started[at] = now;
                self.abort(now, Tag(u16::try_from(at).expect("a tag has 16 bits")), done);
            }
        }
        self.next_timeout_check = oldest.saturating_add(self.io_timeout);
    }

    fn abort(&mut self, now: Nanos, tag: Tag, done: &mut Vec<Box<Request>>) {
        let before = done.len();
        match self.hw.abort(now, tag, done) {
            Abort::ResetTimer => {
                mark!(TimeoutReset if true);
            }
            Abort::Accepted => {
                mark!(TimedOutAtOnce if done.len() > before);
                self.aborting.push(tag);
                if mutant!(TimedOutTagReleased) && done.len() == before {
                    self.free_tags.push(tag);
                }
            }
        }
    }

    /// Aborted requests have come back. Whether they were executed is unknown, whatever status the
    /// device gave them.
    #[cold]
    fn end_aborted(&mut self, before: usize, done: &mut Vec<Box<Request>>) {
        for at in before..done.len() {
            let request = &mut done[at];
            if let Some(place) = self.aborting.iter().position(|&tag| tag == request.tag) {
                self.aborting.swap_remove(place);
                mark!(AbortedWasDone if request.status() == Status::Ok);
                request.set_status(Status::Timeout);
                if mutant!(TimeoutCompletesTwice) {
                    let again = request.duplicate();
                    done.push(again);
                }
            }
        }
    }

    /// Starts requests that waited for a tag or for the device.
    #[inline]
    pub(crate) fn run(&mut self, now: Nanos) {
        if !self.waiting.is_empty() {
            self.run_waiting(now);
        }
    }

    fn run_waiting(&mut self, now: Nanos) {
        while let Some(request) = self.waiting.pop_front() {
            if let Err(request) = self.start(now, request) {
                self.waiting.push_front(request);
                break;
            }
        }
    }

    #[inline]
    pub(crate) fn next_event(&self) -> Wake {
        self.wake_with(|hw| hw.next_event())
    }

    /// The same for a poll that finds something: see [`HwQueue::next_completion`].
    #[inline]
    pub(crate) fn next_completion(&self) -> Wake {
        self.wake_with(|hw| hw.next_completion())
    }

    /// Whether a poll would find a request done, has to start one again or to look for timeouts.
    pub(crate) fn has_done(&mut self, now: Nanos) -> bool {
        !self.waiting.is_empty() || now >= self.next_timeout_check || self.hw.has_done(now)
    }

    #[inline(always)]
    fn wake_with(&self, next: impl FnOnce(&dyn HwQueue) -> Wake) -> Wake {
        if self.free_tags.len() < self.depth {
            match next(&*self.hw) {
                Wake::Now => Wake::Now,
                Wake::At(at) => Wake::At(at.min(self.next_timeout_check)),
                Wake::External | Wake::Idle => Wake::At(self.next_timeout_check),
            }
        } else if self.waiting.is_empty() {
            Wake::Idle
        } else {
            Wake::At(self.refused_at + RETRY)
        }
    }

    pub(crate) fn wait_fds(&self, fds: &mut Vec<RawFd>) {
        self.hw.wait_fds(fds);
    }

    /// Whether nothing is with the device and nothing waits for it.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.free_tags.len() == self.depth
    }
}

/// Sends a batch of requests.
pub(crate) struct BatchDispatch<'a> {
    hctx: &'a mut Hctx,
    now: Nanos,
    /// Nothing is traced or counted, and there is room for all.
    plain: bool,
}

impl BatchDispatch<'_> {
    /// [`Hctx::dispatch`] of the next request.
    #[inline(always)]
    pub(crate) fn dispatch(&mut self, mut request: Box<Request>) {
        let (hctx, now) = (&mut *self.hctx, self.now);
        if !self.plain || !hctx.waiting.is_empty() {
            return hctx.dispatch_next(now, request);
        }
        let tag = hctx.take_tag(now, &mut request);
        if let Err(request) = hctx.hw.start(now, request) {
            let request = hctx.requeue(now, tag, request);
            hctx.wait(now, request);
        }
    }
}

/// A channel's hardware queue: its own, or one that it shares with other channels.
pub(crate) enum HctxRef {
    Own(Hctx),
    Shared(Arc<Mutex<Hctx>>),
    /// None: the channel is being dropped.
    Closed,
}

impl HctxRef {
    /// Uses the hardware queue. The lock of a shared one stands for the device's own, which takes
    /// one command at a time.
    #[inline(always)]
    pub(crate) fn with<R>(&mut self, f: impl FnOnce(&mut Hctx) -> R) -> R {
        match self {
            HctxRef::Own(hctx) => f(hctx),
            other => other.with_shared(f),
        }
    }

    #[inline(never)]
    fn with_shared<R>(&mut self, f: impl FnOnce(&mut Hctx) -> R) -> R {
        match self {
            HctxRef::Own(hctx) => f(hctx),
            HctxRef::Shared(hctx) => f(&mut hctx.lock().expect("hardware queue lock")),
            HctxRef::Closed => unreachable!("a channel is being dropped"),
        }
    }

    /// Shares a hardware queue.
    pub(crate) fn share(hctx: &Arc<Mutex<Hctx>>) -> Self {
        hctx.lock().expect("hardware queue lock").sharers += 1;
        HctxRef::Shared(Arc::clone(hctx))
    }

    /// The channel will stop polling as soon as it may.
    pub(crate) fn drain(&mut self) {
        self.with(|hctx| hctx.sharers = hctx.sharers.saturating_sub(1));
    }

    /// Whether the channel need not poll any more: nothing is in flight, or another channel polls too.
    pub(crate) fn may_close(&mut self, draining: bool) -> bool {
        self.with(|hctx| hctx.is_idle() || hctx.sharers > u32::from(!draining))
    }
}
