//! A channel's connection to the scheduler.
//!
//! Takes requests out of the plug; sends requests to the channel's hardware queue when the
//! scheduler says that it is their turn. Keeps true: when nothing waits and the device has room, a
//! request costs the scheduler two loads of lines that nobody writes.
//!
//! ```text
//!   issue        nothing waits, room  ------------------------------> hctx
//!   issue_batch  nothing waits, room for all, one kind --sorted-----> hctx
//!   else         queued --> Dispatcher: collect, order, up to room -> hctx
//! ```
use super::batch::{self, Batch};
use super::dispatcher::Dispatcher;
use super::elevator::{Ended, Route};
use super::intake::{Intake, News};
use super::merge::MergeLimit;
use super::prio::PrioClass;
use crate::hctx::HctxRef;
use crate::request::Request;
use crate::units::Nanos;
use std::sync::Arc;

/// How batches may be sorted by the channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sorting {
    pub(super) limit: MergeLimit,
    pub(super) front_merges: bool,
    /// Batches longer than this go through the scheduler.
    pub(super) longest: usize,
}

/// What a channel has of its queue's scheduler.
pub(crate) struct Link {
    dispatcher: Arc<Dispatcher>,
    intake: Arc<Intake>,
    /// What the scheduler does not know yet.
    news: News,
    /// What it gave; kept for its capacity.
    out: Vec<Box<Request>>,
    batch: Box<Batch>,
    sorting: Sorting,
    /// Where this channel's sorted batches of reads and of writes left off.
    stands_at: [u64; 2],
}

impl Link {
    pub(super) fn new(dispatcher: Arc<Dispatcher>, sorting: Sorting) -> Self {
        let intake = dispatcher.open();
        Link {
            dispatcher,
            intake,
            news: News::default(),
            out: Vec::new(),
            batch: Box::new(Batch::new()),
            sorting,
            stands_at: [0; 2],
        }
    }

    /// Sends a request now or when the scheduler will have it.
    #[inline]
    pub(crate) fn issue(&mut self, now: Nanos, mut request: Box<Request>, hctx: &mut HctxRef) {
        let class = request.prio().class;
        let read = Route::of(request.op()) != Route::Write;
        if self.dispatcher.lets_pass(class.index(), read) {
            let is_read = request.op() == crate::Op::Read;
            match hctx.with(|hctx| hctx.dispatch_if_room(now, request)) {
                Ok(()) => return self.intake.tally.sent(class, 1, is_read),
                Err(back) => request = back,
            }
        }
        request.queued_at = now;
        self.news.requests.push_back(request);
        self.run(now, hctx);
    }

    /// Adds a request to the batch that [`Link::issue_batch`] sends.
    #[inline]
    pub(crate) fn add_to_batch(&mut self, request: Box<Request>) {
        self.batch.push(request);
    }

    /// Sends the batch, or as much of it as the scheduler will have now.
    pub(crate) fn issue_batch(&mut self, now: Nanos, hctx: &mut HctxRef) {
        if let Some(first) = self.batch.of_one_kind()
            && self.batch.len() <= self.sorting.longest
        {
            let (class, read) = (first.prio().class, Route::of(first.op()) == Route::Read);
            if self.dispatcher.lets_pass(class.index(), read)
                && hctx.with(|hctx| hctx.room()) >= self.batch.len()
            {
                return self.send_sorted(now, hctx, class, read);
            }
        }
        for mut request in self.batch.drain() {
            request.queued_at = now;
            self.news.requests.push_back(request);
        }
        self.run(now, hctx);
    }

    fn send_sorted(&mut self, now: Nanos, hctx: &mut HctxRef, class: PrioClass, read: bool) {
        let count = self.batch.len() as u64;
        let stands_at = &mut self.stands_at[usize::from(!read)];
        let Sorting { limit, front_merges, .. } = self.sorting;
        let merged = hctx.with(|hctx| {
            let send = |request| hctx.dispatch(now, request);
            let (stood, merged) = self.batch.drain_sorted(*stands_at, limit, front_merges, send);
            *stands_at = stood;
            merged
        });
        self.intake.tally.sent(class, count - merged, read);
        if merged > 0 {
            self.intake.tally.merged(class, merged);
        }
    }

    /// Notes the end of commands on this channel's hardware queue.
    #[inline]
    pub(crate) fn ended(&mut self, now: Nanos, done: &[Box<Request>]) {
        match self.dispatcher.only_class() {
            Some(class) => self.intake.tally.ended_in(class, done.len() as u64),
            None => self.intake.tally.ended(done),
        }
        if self.dispatcher.wants_ends() {
            let ends = done.iter().map(|request| Ended::new(now, request));
            self.news.ends.extend(ends);
        }
    }

    /// Commands have ended: what waited may have its turn.
    #[inline]
    pub(crate) fn after_ends(&mut self, now: Nanos, hctx: &mut HctxRef) {
        if self.dispatcher.has_work() || !self.news.is_empty() {
            self.run(now, hctx);
        }
    }

    /// Sends what waits, if it is time.
    #[inline]
    pub(crate) fn poll(&mut self, now: Nanos, hctx: &mut HctxRef) {
        if self.next_event(hctx).is_some_and(|at| at <= now) {
            self.run(now, hctx);
        }
    }

    fn run(&mut self, now: Nanos, hctx: &mut HctxRef) {
        let room = hctx.with(|hctx| hctx.room());
        self.dispatcher.dispatch(now, room, &self.intake, &mut self.news, &mut self.out);
        if !self.out.is_empty() {
            self.out.reverse();
            hctx.with(|hctx| {
                while let Some(request) = self.out.pop() {
                    hctx.dispatch(now, request);
                }
            });
        }
    }

    /// When the channel will have something to send; `None` if that depends on what happens.
    pub(crate) fn next_event(&self, hctx: &mut HctxRef) -> Option<Nanos> {
        let at = self.dispatcher.next_event()?;
        (hctx.with(|hctx| hctx.room()) > 0).then_some(at)
    }

    /// Sets the channel's share of the device.
    pub(crate) fn set_weight(&self, process: u32, weight: u16) {
        self.dispatcher.set_weight(process, weight);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.dispatcher.close(&self.intake);
    }
}

/// How a channel may sort batches for a device of `capacity` sectors.
pub(super) fn longest_sorted(capacity: u64) -> usize {
    if capacity <= batch::SECTORS_MAX { batch::LONGEST } else { 0 }
}
