//! A channel's connection to the scheduler.
//!
//! Requests come from the plug and go to the channel's hardware queue when the scheduler dispatches
//! them. With nothing waiting and room on the hardware queue, that costs two loads of cache lines
//! that no thread writes.
//!
//! ```text
//!   issue        nothing waits, room  ------------------------------> hctx
//!                the same, and bfq or kyber would send it next -----> hctx
//!   issue_batch  nothing waits, room for all, one kind --sorted-----> hctx
//!                the same, and bfq's slot is its process's --sorted-> hctx
//!                the same, and kyber has tokens for all ------------> hctx
//!   else         queued --> Dispatcher: collect, order, up to room -> hctx
//! ```
use super::batch::{self, Batch};
use super::dispatcher::{Dispatcher, InsertList, PendingUpdates};
use super::elevator::{BatchKind, BatchOrder, CompletedRequest, MergeLimit};
use crate::bio::PrioClass;
use crate::hctx::HctxRef;
use crate::op::Direction;
use crate::request::Request;
use crate::units::Nanos;
use crate::wake::Wake;
use std::sync::Arc;

/// How batches may be sorted by the channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchSorting {
    pub(super) limit: MergeLimit,
    pub(super) front_merges: bool,
    /// Batches longer than this go through the scheduler.
    pub(super) longest: usize,
}

/// A channel's handle on the scheduler of its queue.
pub(crate) struct SchedHandle {
    dispatcher: Arc<Dispatcher>,
    insert_list: Arc<InsertList>,
    /// The completions that the scheduler does not know yet.
    updates: PendingUpdates,
    /// Requests that it dispatched; kept for its capacity.
    out: Vec<Box<Request>>,
    batch: Box<Batch>,
    sorting: BatchSorting,
    /// Where this channel's sorted batches of reads and of writes left off.
    latest_pos: [u64; 2],
}

impl SchedHandle {
    pub(super) fn new(dispatcher: Arc<Dispatcher>, sorting: BatchSorting, channel: u32) -> Self {
        let insert_list = dispatcher.open(channel);
        SchedHandle {
            dispatcher,
            insert_list,
            updates: PendingUpdates::default(),
            out: Vec::new(),
            batch: Box::new(Batch::new()),
            sorting,
            latest_pos: [0; 2],
        }
    }

    /// Sends a request to the device, now or when the scheduler dispatches it.
    #[inline]
    pub(crate) fn issue(&mut self, now: Nanos, mut request: Box<Request>, hctx: &mut HctxRef) {
        let class = request.prio().class();
        let read = request.op().direction() != Direction::Write;
        if self.dispatcher.may_bypass(class.index(), read) {
            let is_read = request.op() == crate::Op::Read;
            match hctx.with(|hctx| hctx.dispatch_if_room(now, request)) {
                Ok(()) => return self.insert_list.counters.sent(class, 1, is_read),
                Err(back) => request = back,
            }
        }
        if self.dispatcher.may_take_batch() {
            match self.send_single(now, hctx, request) {
                Ok(()) => return,
                Err(back) => request = back,
            }
        }
        request.queued_at = now;
        self.updates.requests.push_back(request);
        self.run(now, hctx);
    }

    /// Sends a request that has just come if the scheduler takes it immediately, as a batch of one.
    fn send_single(
        &mut self,
        now: Nanos,
        hctx: &mut HctxRef,
        mut request: Box<Request>,
    ) -> Result<(), Box<Request>> {
        let class_of_op = request.op().direction();
        if class_of_op == Direction::None || hctx.with(|hctx| hctx.room()) == 0 {
            return Err(request);
        }
        let end = request.end();
        let kind = BatchKind::of(&request);
        if !self.dispatcher.send_batch(now, &kind, &mut self.updates, |_| (1, end)) {
            return Err(request);
        }
        (request.queued_at, request.sent_at) = (now, now);
        self.insert_list.counters.sent(kind.class, 1, class_of_op == Direction::Read);
        hctx.with(|hctx| hctx.dispatch(now, request));
        Ok(())
    }

    /// Adds a request to the batch that [`SchedHandle::issue_batch`] sends.
    #[inline]
    pub(crate) fn add_to_batch(&mut self, request: Box<Request>) {
        self.batch.push(request);
    }

    /// Sends the batch, or as much of it as the scheduler dispatches now.
    pub(crate) fn issue_batch(&mut self, now: Nanos, hctx: &mut HctxRef) {
        if let Some(first) = self.batch.uniform()
            && self.batch.len() <= self.sorting.longest
        {
            let (class, read) = (first.prio().class(), first.op().direction() == Direction::Read);
            if self.dispatcher.may_bypass(class.index(), read)
                && hctx.with(|hctx| hctx.room()) >= self.batch.len()
            {
                return self.send_sorted(now, hctx, class, read);
            }
            if self.dispatcher.may_take_batch()
                && hctx.with(|hctx| hctx.room()) >= self.batch.len()
                && self.send_taken(now, hctx, class, read)
            {
                return;
            }
        }
        for mut request in self.batch.drain() {
            request.queued_at = now;
            self.updates.requests.push_back(request);
        }
        self.run(now, hctx);
    }

    /// Sends the batch if the scheduler takes it as it is. The device is called after that, without the
    /// scheduler's lock.
    // Inlined, it takes registers from the loop that fills the batch.
    #[inline(never)]
    fn send_taken(&mut self, now: Nanos, hctx: &mut HctxRef, class: PrioClass, read: bool) -> bool {
        let Some(kind) = self.batch.kind(self.dispatcher.is_by_process()) else { return false };
        let BatchSorting { limit, front_merges, .. } = self.sorting;
        let count = self.batch.len() as u64;
        let (batch, out) = (&mut self.batch, &mut self.out);
        let sort = |order: BatchOrder| {
            let send = |mut request: Box<Request>| {
                (request.queued_at, request.sent_at) = (now, now);
                out.push(request);
            };
            match order {
                BatchOrder::Arrival => match batch.end_if_apart(limit) {
                    Some(end) => return (kind.requests, end),
                    None => batch.drain_merged(limit, send),
                },
                BatchOrder::SectorsFrom(from) => {
                    batch.drain_sorted(from.0, limit, front_merges, send);
                }
            }
            let commands = u32::try_from(out.len()).expect("a batch is short");
            (commands, out.last().expect("a batch has requests").end())
        };
        if !self.dispatcher.send_batch(now, &kind, &mut self.updates, sort) {
            return false;
        }
        let commands = (self.batch.len() + self.out.len()) as u64;
        self.insert_list.counters.sent(class, commands, read);
        self.insert_list.counters.merged(class, count - commands);
        let (batch, out) = (&mut self.batch, &mut self.out);
        hctx.with(|hctx| {
            let mut device = hctx.begin_batch(now, batch.len() + out.len());
            batch.drain_first(|mut request| {
                (request.queued_at, request.sent_at) = (now, now);
                device.dispatch(request);
            });
            out.drain(..).for_each(|request| device.dispatch(request));
        });
        true
    }

    fn send_sorted(&mut self, now: Nanos, hctx: &mut HctxRef, class: PrioClass, read: bool) {
        let count = self.batch.len() as u64;
        let latest_pos = &mut self.latest_pos[usize::from(!read)];
        let BatchSorting { limit, front_merges, .. } = self.sorting;
        let batch = &mut self.batch;
        let mut merged = 0;
        hctx.with(|hctx| {
            let mut device = hctx.begin_batch(now, batch.len());
            let send = |request| device.dispatch(request);
            (*latest_pos, merged) = batch.drain_sorted(*latest_pos, limit, front_merges, send);
        });
        self.insert_list.counters.sent(class, count - merged, read);
        if merged > 0 {
            self.insert_list.counters.merged(class, merged);
        }
    }

    /// Commands on this channel's hardware queue have completed.
    #[inline]
    pub(crate) fn completed(&mut self, now: Nanos, done: &[Box<Request>]) {
        if self.dispatcher.counts_in_flight() {
            match self.dispatcher.only_class() {
                Some(class) => self.insert_list.counters.completed_in(class, done.len() as u64),
                None => self.insert_list.counters.completed(done),
            }
            if !self.dispatcher.wants_completions() {
                return;
            }
        }
        self.note_completed(now, done);
    }

    #[inline(never)]
    fn note_completed(&mut self, now: Nanos, done: &[Box<Request>]) {
        let known = self.updates.completions.len();
        let by_process = self.dispatcher.is_by_process();
        note_completions(now, done, by_process, &mut self.updates.completions);
        if !self.dispatcher.counts_in_flight() {
            for end in &self.updates.completions[known..] {
                self.insert_list.counters.note_completed(end.class, end.count.into());
            }
        }
    }

    /// Dispatches after completions: what waited may be sent now.
    #[inline]
    pub(crate) fn after_completions(&mut self, now: Nanos, hctx: &mut HctxRef) {
        let idle = self.updates.is_empty() && !self.dispatcher.has_work();
        if !idle && !self.dispatcher.count_completions(&mut self.updates) {
            self.run(now, hctx);
        }
    }

    /// Sends what waits, if it is time.
    #[inline]
    pub(crate) fn poll(&mut self, now: Nanos, hctx: &mut HctxRef) {
        if self.next_event(hctx).is_due(now) {
            self.run(now, hctx);
        }
    }

    fn run(&mut self, now: Nanos, hctx: &mut HctxRef) {
        let room = hctx.with(|hctx| hctx.room());
        self.dispatcher.dispatch(now, room, &self.insert_list, &mut self.updates, &mut self.out);
        if !self.out.is_empty() {
            self.dispatch_out(now, hctx);
        }
    }

    /// Sends what the scheduler dispatched.
    fn dispatch_out(&mut self, now: Nanos, hctx: &mut HctxRef) {
        hctx.with(|hctx| self.out.drain(..).for_each(|request| hctx.dispatch(now, request)));
    }

    /// When the channel will have something to send; [`Wake::Idle`] if no time is known.
    pub(crate) fn next_event(&self, hctx: &mut HctxRef) -> Wake {
        match self.dispatcher.next_event() {
            Some(at) if hctx.with(|hctx| hctx.room()) > 0 => {
                if at == Nanos(0) {
                    Wake::Now
                } else {
                    Wake::At(at)
                }
            }
            _ => Wake::Idle,
        }
    }

    /// Whether requests wait in the scheduler.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        self.dispatcher.has_work()
    }

    /// Sets the weight of the channel.
    pub(crate) fn set_weight(&self, process: u32, weight: u16) {
        self.dispatcher.set_weight(process, weight);
    }
}

impl Drop for SchedHandle {
    fn drop(&mut self) {
        self.dispatcher.close(&self.insert_list);
    }
}

/// Adds what completes at `now` to `completions`: an entry for as many as are alike and side by side.
#[inline]
pub(super) fn note_completions(
    now: Nanos,
    mut done: &[Box<Request>],
    by_process: bool,
    completions: &mut Vec<CompletedRequest>,
) {
    while let Some((first, rest)) = done.split_first() {
        let mut end = CompletedRequest::new(now, first);
        let alike = rest.iter().take_while(|request| end.is_like(request, by_process)).count();
        end.count += u32::try_from(alike).expect("fewer than there are tags");
        completions.push(end);
        done = &rest[alike..];
    }
}

/// The longest batch that a channel may sort for a device of `capacity` sectors.
pub(super) fn longest_sorted(capacity: u64) -> usize {
    if capacity <= batch::SECTORS_MAX { batch::LONGEST } else { 0 }
}
