//! A thread's connection to the block layer: bios go down, completions come up.
//!
//! Bios go in with [`Channel::submit`] and come out as completions of [`Channel::poll`]. Every bio
//! completes exactly once, on the channel that submitted it. A channel belongs to one thread: its
//! hardware queue, its pool of requests and its completions have no locks.
use crate::bio::{Bio, Completion};
use crate::completion::{ChannelMail, SplitBios};
use crate::gate::ChannelUsage;
use crate::hctx::{Hctx, HctxRef};
use crate::iostat::IoCounters;
use crate::op::Op;
use crate::plug::PlugResult;
use crate::probe::{mark, mutant};
use crate::queue::{ChannelConfig, Queue};
use crate::request::{Request, RequestList, RequestPool};
use crate::sched::{SchedHandle, Scheduler};
use crate::split;
use crate::status::Status;
use crate::trace::{ChannelTrace, TraceAction, TraceEvent};
use crate::units::{Nanos, ZoneNo};
use crate::wake::{Wake, WakeUp};
use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::Arc;

/// The number of requests after which [`Channel::poll`] returns, so that a thread that issues the
/// waiting writes of others returns to its own work.
const POLL_BUDGET: usize = 256;

/// A thread's connection to a [`Queue`].
///
/// Must be polled when [`Channel::next_event`] says, also without bios outstanding: writes of other
/// channels that wait in a plug are issued by the channel whose write they wait for.
pub struct Channel {
    queue: Arc<Queue>,
    id: u32,
    hctx: HctxRef,
    config: ChannelConfig,
    /// Requests are gathered for the scheduler, if there is one, as a batch.
    batching: bool,
    mailbox: Arc<ChannelMail>,
    outbox: Vec<Outgoing>,
    /// Scratch space for the contents of the mailbox.
    mail: Vec<Box<Request>>,
    pool: RequestPool,
    parents: SplitBios,
    /// Completions of bios that failed the checks.
    ended: Vec<Completion>,
    /// Waiting requests that were aborted because of another one's failure or completion.
    aborted: RequestList,
    /// Scratch space for requests that came back from the device.
    done: Vec<Box<Request>>,
    /// Bios submitted while the queue was frozen.
    held: VecDeque<Bio>,
    /// Bios inside the layer.
    nr_bios: usize,
    usage: Arc<ChannelUsage>,
    /// `None` without [`QueueOptions::iostats`](crate::QueueOptions::iostats).
    iostat: Option<Arc<IoCounters>>,
    /// `None` unless the queue is traced.
    trace: Option<Box<ChannelTrace>>,
    /// The first write inside takes one lock to enter both the layer and its plug.
    enters_by_plug: bool,
    draining: bool,
    /// [`Channel::is_idle`] has returned true after `drain`. Remembered, because the other users of
    /// a shared hardware queue may drain later.
    told_may_close: bool,
}

/// Requests to return to the channel that submitted them.
struct Outgoing {
    owner: u32,
    mailbox: Arc<ChannelMail>,
    requests: Vec<Box<Request>>,
}

impl Channel {
    pub(crate) fn new(
        queue: Arc<Queue>,
        id: u32,
        mailbox: Arc<ChannelMail>,
        usage: Arc<ChannelUsage>,
        iostat: Option<Arc<IoCounters>>,
        mut hctx: HctxRef,
        config: ChannelConfig,
    ) -> Self {
        let trace = queue.tracing().map(|tracing| Box::new(ChannelTrace::open(tracing, id)));
        let enters_by_plug = config.plugs && trace.is_none();
        hctx.with(|hctx| hctx.configure(config.nr_requests, config.io_timeout));
        Channel {
            queue,
            id,
            hctx,
            config,
            batching: false,
            mailbox,
            outbox: Vec::new(),
            mail: Vec::new(),
            pool: RequestPool::default(),
            parents: SplitBios::default(),
            ended: Vec::new(),
            aborted: RequestList::new(),
            done: Vec::new(),
            held: VecDeque::new(),
            nr_bios: 0,
            usage,
            iostat,
            trace,
            enters_by_plug,
            draining: false,
            told_may_close: false,
        }
    }

    /// The queue that the channel belongs to.
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// Bios submitted and not yet completed.
    pub fn outstanding(&self) -> usize {
        self.nr_bios + self.held.len()
    }

    /// Submits a bio. It completes in a later [`Channel::poll`], even if it fails immediately. While the
    /// queue is frozen it is held back, in order.
    #[inline(always)]
    pub fn submit(&mut self, now: Nanos, bio: Bio) {
        if bio.op == Op::Write
            && self.nr_bios == 0
            && self.enters_by_plug
            && self.held.is_empty()
            && let Some(zone) = self.config.fast_path.zone_of(&bio)
        {
            self.submit_first(now, zone, bio);
        } else {
            self.submit_any(now, bio);
        }
    }

    /// Submits the first write inside: takes one lock to enter both the layer and the plug.
    #[inline(always)]
    fn submit_first(&mut self, now: Nanos, zone: ZoneNo, bio: Bio) {
        self.usage.announce();
        let request = self.request_in_zone(now, zone, bio, None);
        match self.queue.enter_first(now, request, self.config.changes) {
            Ok(issue) => {
                self.nr_bios += 1;
                if let Some(request) = issue {
                    self.issue(now, request);
                }
            }
            Err(request) => self.submit_again(now, request),
        }
    }

    /// A first write that could not enter with one lock: it does so step by step.
    #[inline(never)]
    fn submit_again(&mut self, now: Nanos, mut request: Box<Request>) {
        self.usage.leave();
        let bio = request.take_whole_bio();
        self.pool.put(request);
        self.submit_any(now, bio);
    }

    /// [`Channel::submit`] of any bio.
    #[inline(always)]
    fn submit_any(&mut self, now: Nanos, bio: Bio) {
        if self.is_open() {
            self.admit(now, bio);
        } else {
            mark!(HeldByFreeze if true);
            self.held.push_back(bio);
        }
    }

    /// Submits bios together (the kernel's `blk_start_plug`): adjacent ones go as one command, and a
    /// scheduler orders them as one set. Leaves `bios` empty.
    // A call for each batch costs nothing; inlined, it takes registers from the caller's loop.
    #[inline(never)]
    pub fn submit_batch(&mut self, now: Nanos, bios: &mut Vec<Bio>) {
        self.batching = true;
        let mut last: Option<Box<Request>> = None;
        for bio in bios.drain(..) {
            // Before `fast_path` is used: entering the queue may reload the configuration that it
            // belongs to.
            let zone = if self.is_open() { self.config.fast_path.zone_of(&bio) } else { None };
            let Some(zone) = zone else {
                if let Some(request) = last.take() {
                    self.enter_plug(now, request);
                }
                self.submit(now, bio);
                continue;
            };
            self.nr_bios += 1;
            let request = self.request_in_zone(now, zone, bio, None);
            if let Some(sched) = &mut self.config.sched
                && request.op() == Op::Read
            {
                // Reads pass no plug, and the scheduler merges what it orders.
                sched.add_to_batch(request);
                continue;
            }
            let Some(front) = &mut last else {
                last = Some(request);
                continue;
            };
            if self.config.merge.joins(front, &request) {
                front.append(request);
            } else {
                let request = std::mem::replace(front, request);
                self.enter_plug(now, request);
            }
        }
        if let Some(request) = last {
            self.enter_plug(now, request);
        }
        self.batching = false;
        if let Some(sched) = &mut self.config.sched {
            sched.issue_batch(now, &mut self.hctx);
        }
    }

    /// Whether a bio may enter.
    #[inline(always)]
    fn is_open(&mut self) -> bool {
        let gate = self.queue.gate();
        // Held bios go first, even if the queue has been unfrozen since.
        self.held.is_empty()
            && if self.nr_bios == 0 {
                self.usage.enter(gate) && self.refresh_config()
            } else {
                !gate.is_frozen() || mutant!(FreezeIgnored)
            }
    }

    /// Reloads the configuration if it has changed, when the channel's first bio enters. Always true.
    #[inline(always)]
    fn refresh_config(&mut self) -> bool {
        if self.is_config_stale() {
            self.reload_config();
        }
        true
    }

    #[inline(always)]
    fn is_config_stale(&self) -> bool {
        self.queue.gate().changes() != self.config.changes
    }

    #[cold]
    fn reload_config(&mut self) {
        self.config = self.queue.channel_config(self.id);
        self.enters_by_plug = self.config.plugs && self.trace.is_none();
        let (nr_requests, io_timeout) = (self.config.nr_requests, self.config.io_timeout);
        self.hctx.with(|hctx| hctx.configure(nr_requests, io_timeout));
        if mutant!(SwitchLosesHeld) {
            self.held.clear();
        }
    }

    #[inline(always)]
    fn admit(&mut self, now: Nanos, bio: Bio) {
        self.nr_bios += 1;
        match self.config.fast_path.zone_of(&bio) {
            Some(zone) => {
                let request = self.request_in_zone(now, zone, bio, None);
                self.pass_plug(now, request);
            }
            None => self.check_and_split(now, bio),
        }
    }

    /// Admits a bio that the fast path does not cover.
    #[inline(never)]
    fn check_and_split(&mut self, now: Nanos, mut bio: Bio) {
        if let Err(status) = split::check(&self.config.limits, &bio) {
            self.end(bio, status);
            return;
        }
        let is_conventional = |zone| self.queue.is_conventional(zone);
        if split::is_too_fine(&self.config.limits, &bio, is_conventional) {
            return self.end(bio, Status::Invalid);
        }
        if split::needs_split(&self.config.limits, &bio) {
            let reads = self.queue.device().read_bufs();
            let bufs = self.parents.bufs();
            let has_buf = bio.buf.is_some();
            let Some(parts) = split::parts(&self.config.limits, &mut bio, reads, bufs) else {
                return self.end(bio, Status::Again);
            };
            let count = u32::try_from(parts.len()).expect("a bio has fewer parts than sectors");
            let divided = has_buf && bio.buf.is_none();
            let parent = self.parents.insert(bio, count, divided);
            for part in parts {
                let request = self.request_for(now, part, Some(parent));
                self.enter_plug(now, request);
            }
        } else {
            let request = self.request_for(now, bio, None);
            self.enter_plug(now, request);
        }
    }

    /// Completes a bio that does not enter the layer.
    fn end(&mut self, bio: Bio, status: Status) {
        self.queue.failed((bio.op, bio.sector, bio.nr_sectors), status);
        let Bio { user_data, sector, buf, .. } = bio;
        self.ended.push(Completion { user_data, status, refused: true, sector, buf });
    }

    /// A request for a bio.
    #[inline]
    fn request_for(&mut self, now: Nanos, bio: Bio, parent: Option<u32>) -> Box<Request> {
        let limits = &self.config.limits;
        let op = bio.op;
        let zone = if limits.nr_zones > 0 && !matches!(op, Op::Flush | Op::ZoneResetAll) {
            limits.zone_of(bio.sector)
        } else {
            ZoneNo(0)
        };
        self.request_in_zone(now, zone, bio, parent)
    }

    #[inline(always)]
    fn request_in_zone(
        &mut self,
        now: Nanos,
        zone: ZoneNo,
        bio: Bio,
        parent: Option<u32>,
    ) -> Box<Request> {
        let mut request = self.pool.get();
        request.init(bio, self.id, zone, parent);
        if let Some(trace) = &mut self.trace {
            trace.now = now;
            trace.queue(&mut request);
        }
        request
    }

    /// Whatever is traced from here on happens at `now`.
    #[inline(always)]
    fn trace_at(&mut self, now: Nanos) {
        if let Some(trace) = &mut self.trace {
            trace.now = now;
        }
    }

    /// [`Channel::pass_plug`] where it is one of many.
    #[inline(never)]
    fn enter_plug(&mut self, now: Nanos, request: Box<Request>) {
        self.pass_plug(now, request);
    }

    /// Passes a request through the plug of its zone, if it has one.
    #[inline(always)]
    fn pass_plug(&mut self, now: Nanos, mut request: Box<Request>) {
        let plugged = self.trace.as_ref().and_then(|trace| trace.before_plug(&mut request));
        match self.queue.enter(now, request) {
            Ok(Some(request)) => self.issue(now, request),
            Ok(None) => self.trace.iter_mut().for_each(|trace| trace.send(plugged)),
            Err(unusual) => self.pass_plug_unusual(now, unusual, plugged),
        }
    }

    /// The same for what is neither a read nor a write at the write pointer.
    #[inline(never)]
    fn pass_plug_unusual(
        &mut self,
        now: Nanos,
        request: Box<Request>,
        plugged: Option<TraceEvent>,
    ) {
        match self.queue.enter_unusual(now, request, &mut self.aborted) {
            PlugResult::Issue(request) => self.issue(now, request),
            PlugResult::Parked => self.trace.iter_mut().for_each(|trace| trace.send(plugged)),
            PlugResult::Failed(request, status) => self.plug_refused(now, request, status),
        }
        if !self.aborted.is_empty() {
            // The aborted bios of this channel complete in the next poll.
            let mut ended = std::mem::take(&mut self.ended);
            self.deliver_aborted(&mut ended);
            self.ended = ended;
            self.send_mail();
        }
    }

    /// The plug refused a request. Merged bios are retried one by one: one that is not at the write
    /// pointer must not fail the others (A17).
    #[cold]
    fn plug_refused(&mut self, now: Nanos, mut request: Box<Request>, status: Status) {
        if !request.is_merged() {
            self.queue.failed(request.command(), status);
            request.refuse(status);
            self.aborted.push_back(request);
            return;
        }
        mark!(RefusedMerged if true);
        let mut behind = request.unmerge();
        self.enter_plug(now, request);
        while let Some(request) = behind.pop_front() {
            self.enter_plug(now, request);
        }
    }

    /// Sends a request that has passed its plug to the scheduler or the device.
    #[inline(always)]
    fn issue(&mut self, now: Nanos, mut request: Box<Request>) {
        let Some(sched) = &mut self.config.sched else {
            return self.hctx.with(|hctx| hctx.dispatch(now, request));
        };
        if let Some(trace) = &mut self.trace {
            trace.event(TraceAction::Insert, &mut request);
        }
        match self.batching {
            true => sched.add_to_batch(request),
            false => sched.issue(now, request, &mut self.hctx),
        }
    }

    /// Appends what has completed by `now` to `completions` and issues the requests that waited for it.
    /// Returns the number of completions.
    pub fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) -> usize {
        self.trace_at(now);
        self.admit_held(now);
        let before = completions.len();
        if !self.ended.is_empty() {
            completions.append(&mut self.ended);
        }
        self.collect_mail(now, completions);
        let mut budget = POLL_BUDGET;
        loop {
            let starts = self.hctx.with(|hctx| {
                hctx.reap(now, &mut self.done);
                hctx.starts()
            });
            if self.done.is_empty() {
                break;
            }
            budget = budget.saturating_sub(self.done.len());
            // On a shared hardware queue they may belong to other channels and to a newer
            // configuration than this channel's, which cannot change again while they are inside.
            if self.is_config_stale() {
                self.reload_config();
            }
            if let Some(sched) = &mut self.config.sched {
                sched.completed(now, &self.done);
            }
            match self.done.pop() {
                Some(only) if self.done.is_empty() => self.complete(now, only, completions),
                Some(last) => self.complete_all(now, last, completions),
                None => {}
            }
            if let Some(sched) = &mut self.config.sched {
                self.hctx.with(|hctx| hctx.run(now));
                sched.after_completions(now, &mut self.hctx);
            }
            let has_more = self.hctx.with(|hctx| {
                hctx.run(now);
                budget > 0 && hctx.may_have_more(now, starts)
            });
            if !has_more {
                break;
            }
        }
        let leaving = self.is_leaving();
        if let Some(sched) = &mut self.config.sched
            && !leaving
        {
            sched.poll(now, &mut self.hctx);
        }
        if !self.outbox.is_empty() {
            self.send_mail();
        }
        let count = completions.len() - before;
        self.nr_bios -= count;
        if count > 0 && self.nr_bios == 0 {
            self.usage.leave();
        }
        if self.config.sched.as_ref().is_some_and(SchedHandle::has_work) {
            self.offer_work();
        }
        count
    }

    /// Admits held bios if the queue is no longer frozen.
    #[inline(always)]
    fn admit_held(&mut self, now: Nanos) {
        if !self.held.is_empty() && !self.queue.gate().is_frozen() {
            self.admit_all(now);
        }
    }

    #[cold]
    fn admit_all(&mut self, now: Nanos) {
        if self.nr_bios > 0 || self.usage.enter(self.queue.gate()) && self.refresh_config() {
            mark!(Unfrozen if true);
            if mutant!(HeldOutOfOrder) {
                self.held.make_contiguous().reverse();
            }
            while let Some(bio) = self.held.pop_front() {
                self.admit(now, bio);
            }
        }
    }

    #[inline(always)]
    fn collect_mail(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        if self.has_mail() {
            self.take_mail(now, completions);
        }
    }

    #[inline(never)]
    fn take_mail(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        let mut mail = std::mem::take(&mut self.mail);
        self.mailbox.take(&mut mail);
        for request in mail.drain(..) {
            if request.is_done() {
                self.finish(request, completions);
            } else {
                self.issue(now, request);
            }
        }
        self.mail = mail;
    }

    /// Completes all requests that are done, in their order; `last` is the last one.
    #[inline(never)]
    fn complete_all(&mut self, now: Nanos, last: Box<Request>, completions: &mut Vec<Completion>) {
        let mut done = std::mem::take(&mut self.done);
        done.push(last);
        done.reverse();
        while let Some(request) = done.pop() {
            self.complete(now, request, completions);
        }
        self.done = done;
    }

    /// The device has completed a request: issues the next write of its plug, then completes the
    /// bios.
    #[inline(always)]
    fn complete(&mut self, now: Nanos, request: Box<Request>, completions: &mut Vec<Completion>) {
        if let Some(iostat) = &self.iostat {
            iostat.count(&request);
        }
        if request.status() != Status::Ok {
            self.queue.failed(request.command(), request.status());
        }
        if let Some(next) = self.queue.release(now, &request, &mut self.aborted) {
            self.issue_next(now, next);
        }
        self.deliver(request, completions);
        if !self.aborted.is_empty() {
            self.deliver_aborted(completions);
        }
    }

    /// Issues a write that waited in a plug, or has its channel do so.
    #[inline(always)]
    fn issue_next(&mut self, now: Nanos, mut next: Box<Request>) {
        if let Some(trace) = &mut self.trace {
            trace.event(TraceAction::Unplug, &mut next);
        }
        mark!(FrozenWithWaiting if self.queue.gate().is_frozen());
        if self.draining && next.owner != self.id {
            mark!(MailedWrite if true);
            self.mail(next);
        } else {
            self.issue(now, next);
        }
    }

    #[cold]
    fn deliver_aborted(&mut self, completions: &mut Vec<Completion>) {
        while let Some(request) = self.aborted.pop_front() {
            self.deliver(request, completions);
        }
    }

    /// Completes the bios of a request, each on the channel that submitted it.
    #[inline(always)]
    fn deliver(&mut self, mut request: Box<Request>, completions: &mut Vec<Completion>) {
        if let Some(trace) = &mut self.trace {
            trace.event(TraceAction::Complete, &mut request);
        }
        if request.is_merged() {
            self.deliver_merged(request, completions);
        } else {
            self.deliver_one(request, completions);
        }
    }

    fn deliver_merged(&mut self, mut request: Box<Request>, completions: &mut Vec<Completion>) {
        let mut merged = request.unmerge();
        let (op, status, refused) = (request.op(), request.status(), request.is_refused());
        self.deliver_one(request, completions);
        let mut merges = 0;
        while let Some(mut request) = merged.pop_front() {
            request.set_status(status);
            request.refused = refused;
            if let Some(trace) = &mut self.trace {
                trace.event(TraceAction::Complete, &mut request);
            }
            self.deliver_one(request, completions);
            merges += 1;
        }
        if let Some(iostat) = &self.iostat {
            iostat.merged(op, merges);
        }
    }

    #[inline(always)]
    fn deliver_one(&mut self, request: Box<Request>, completions: &mut Vec<Completion>) {
        if request.owner == self.id {
            self.finish(request, completions);
        } else {
            mark!(MailedCompletion if true);
            self.mail(request);
        }
    }

    fn mail(&mut self, request: Box<Request>) {
        let owner = request.owner;
        match self.outbox.iter_mut().find(|outgoing| outgoing.owner == owner) {
            Some(outgoing) => outgoing.requests.push(request),
            None => {
                let mailbox = self.queue.mailbox(owner);
                self.outbox.push(Outgoing { owner, mailbox, requests: vec![request] });
            }
        }
    }

    /// Delivers the outbox.
    fn send_mail(&mut self) {
        for Outgoing { mailbox, requests, .. } in &mut self.outbox {
            if requests.is_empty() || mutant!(MailLost) && self.draining {
                continue;
            }
            mailbox.push_all(requests);
        }
    }

    /// Completes the bio of one of this channel's requests, unless other parts of it are in flight.
    #[inline(always)]
    fn finish(&mut self, mut request: Box<Request>, completions: &mut Vec<Completion>) {
        match request.parent() {
            Some(parent) => completions.extend(self.parents.part_done(parent, &mut request)),
            None => {
                let (status, refused) = (request.status(), request.is_refused());
                let (bio, buf) = request.take_bio();
                let (user_data, sector) = (bio.user_data, bio.sector);
                completions.push(Completion { user_data, status, refused, sector, buf });
            }
        }
        self.pool.put(request);
    }

    /// When to call [`Channel::poll`] next. Holds until then unless the channel is woken
    /// ([`Channel::set_waker`]): what other channels do can bring the time forward. Follow it also
    /// without bios outstanding, as a write of another channel may be in flight here.
    #[inline]
    pub fn next_event(&mut self) -> Wake {
        self.wake_with(|hctx| hctx.next_event())
    }

    /// The same for a channel that is alone on its queue and submits nothing before: the time before
    /// which [`Channel::poll`] finds nothing, whatever the device does until then
    /// ([`HwQueue::next_completion`](crate::HwQueue::next_completion)).
    #[inline]
    pub fn next_completion(&mut self) -> Wake {
        match self.config.sched {
            None => self.wake_with(|hctx| hctx.next_completion()),
            Some(_) => self.next_event(),
        }
    }

    /// Whether [`Channel::poll`] would find something at `now`: a completion, a request that another channel left
    /// here, or one of the scheduler's. The device does what is due until then.
    pub fn has_completed(&mut self, now: Nanos) -> bool {
        self.wake_with(|_| Wake::Idle).is_due(now) || self.hctx.with(|hctx| hctx.has_done(now))
    }

    #[inline(always)]
    fn wake_with(&mut self, next: impl FnOnce(&Hctx) -> Wake) -> Wake {
        let admits = !self.held.is_empty() && !self.queue.gate().is_frozen();
        if admits || !self.ended.is_empty() || self.has_mail() {
            return Wake::Now;
        }
        let mut wake = self.hctx.with(|hctx| next(hctx));
        if let Some(sched) = &self.config.sched
            && !self.is_leaving()
        {
            wake = wake.min(sched.next_event(&mut self.hctx));
        }
        // What is not on this hardware queue waits in a plug, in the scheduler, on another channel's
        // hardware queue or for the queue to be unfrozen.
        if wake == Wake::Idle && self.outstanding() > 0 { Wake::External } else { wake }
    }

    /// Appends the file descriptors that become readable when [`Channel::poll`] may find something
    /// ([`HwQueue::wait_fds`](crate::HwQueue::wait_fds)).
    pub fn wait_fds(&mut self, fds: &mut Vec<RawFd>) {
        self.hctx.with(|hctx| hctx.wait_fds(fds));
    }

    /// Sets how to wake the thread that drives the channel, for [`Channel::prepare_to_sleep`].
    pub fn set_waker(&mut self, waker: Arc<dyn WakeUp>) {
        self.mailbox.sleeper().set_waker(waker);
    }

    /// Announces that the thread is about to sleep: from now on the channel is woken, once, when
    /// other threads leave it something to do. Returns false if there is something to poll already;
    /// do not sleep then. Otherwise sleep until [`Channel::next_event`], then call
    /// [`Channel::awake`].
    pub fn prepare_to_sleep(&mut self) -> bool {
        let dispatches = self.config.sched.is_some() && !self.is_leaving();
        let has_room = dispatches && self.hctx.with(|hctx| hctx.room()) > 0;
        if has_room {
            self.mailbox.sleeper().fall_asleep_with_room();
            self.queue.expect_work();
        } else {
            self.mailbox.sleeper().fall_asleep();
        }
        let sleeps = self.next_event() != Wake::Now;
        if !sleeps {
            self.awake();
        }
        sleeps
    }

    /// Has the waker be called the next time that another channel leaves something here, asleep or
    /// not: for a driver that steps many channels in turn.
    pub fn expect_mail(&mut self) {
        self.mailbox.sleeper().fall_asleep();
    }

    /// The thread no longer sleeps.
    pub fn awake(&mut self) {
        self.mailbox.sleeper().awake();
    }

    /// Unless there is something to poll, calls `wait` to sleep until the time that it is given or until
    /// the thread is woken ([`Channel::set_waker`]). For a thread that waits for nothing else.
    pub fn wait_with(&mut self, wait: impl FnOnce(Wake)) {
        if self.prepare_to_sleep() {
            wait(self.next_event());
            self.awake();
        }
    }

    /// Whether the channel leaves requests that wait in the scheduler to others.
    fn is_leaving(&self) -> bool {
        self.draining && self.nr_bios == 0
    }

    /// Requests wait in the scheduler: wakes other channels if this one cannot send them.
    #[cold]
    fn offer_work(&mut self) {
        if self.is_leaving() || self.hctx.with(|hctx| hctx.room()) == 0 {
            self.queue.wake_sleepers_with_room();
        }
    }

    /// Sets the weight that the scheduler bfq gives this channel, 1 to 1000. Until this is called it
    /// follows from the I/O priority as in the kernel: 10 * (8 - level).
    pub fn set_weight(&mut self, weight: u16) {
        if let Some(sched) = &self.config.sched {
            sched.set_weight(self.id, weight);
        }
    }

    /// Whether the queue has a scheduler; unlike [`Queue::scheduler`] without a lock, but when the
    /// configuration has changed since the channel last entered the queue.
    #[inline]
    pub fn has_scheduler(&self) -> bool {
        match self.is_config_stale() {
            true => self.queue.scheduler() != Scheduler::None,
            false => self.config.sched.is_some(),
        }
    }

    /// Whether another channel has left requests here for the next [`Channel::poll`].
    #[inline]
    pub fn has_mail(&self) -> bool {
        !self.mailbox.is_empty()
    }

    /// Whether bios wait for the queue to be unfrozen.
    pub fn has_held_bios(&self) -> bool {
        !self.held.is_empty()
    }

    /// Begins to drain the channel: from now on it leaves the waiting writes of other channels to those.
    /// Once [`Channel::is_idle`], it can be dropped.
    pub fn drain(&mut self) {
        if !std::mem::replace(&mut self.draining, true) {
            self.hctx.drain();
            if self.config.sched.as_ref().is_some_and(SchedHandle::has_work) {
                self.offer_work();
            }
        }
    }

    /// Whether nothing depends on this channel any more.
    pub fn is_idle(&mut self) -> bool {
        let may_close = self.hctx.may_close(self.draining);
        self.told_may_close = self.draining && may_close;
        self.outstanding() == 0 && !self.has_mail() && may_close
    }
}

impl Drop for Channel {
    /// Leaves its number and its hardware queue to the next channel. If the thread panics neither
    /// is reused, as the channel may have bios outstanding.
    fn drop(&mut self) {
        if std::thread::panicking() {
            if let HctxRef::Own(_) = self.hctx {
                self.queue.forget_hctx();
            }
            return;
        }
        self.drain();
        let idle = self.outstanding() == 0 && !self.has_mail() && self.told_may_close;
        assert!(idle || self.is_idle(), "a channel was dropped with I/O outstanding");
        // The others have to poll what is left on a shared hardware queue.
        if !self.hctx.with(|hctx| hctx.is_idle()) {
            self.queue.wake_all();
        }
        // Before its number is given to another bio.
        self.config.sched = None;
        let hctx = std::mem::replace(&mut self.hctx, HctxRef::Closed);
        self.queue.close_channel(self.id, hctx);
    }
}
