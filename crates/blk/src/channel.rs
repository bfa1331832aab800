//! A thread's way into the block layer: one straight way down, one straight way up.
//!
//! Takes bios ([`Channel::submit`]); gives completions ([`Channel::poll`]). Keeps true: every bio
//! completes exactly once, on this channel. Belongs to one thread; its hardware queue, its stock of
//! requests and its completions have no locks.
use crate::bio::{Bio, Completion, Op};
use crate::completion::{Mailbox, Parents};
use crate::hctx::HctxRef;
use crate::plug::{self, Entered};
use crate::queue::Queue;
use crate::request::{Request, RequestList, RequestPool};
use crate::split;
use crate::status::Status;
use crate::units::{Nanos, ZoneNo};
use std::sync::Arc;

/// How many requests one [`Channel::poll`] finishes at the most, so that a thread that issues the
/// waiting writes of others comes back to its own work.
const POLL_BUDGET: usize = 256;

/// A thread's connection to a [`Queue`].
///
/// Whoever has bios outstanding must go on calling [`Channel::poll`], also for the others' sake:
/// the writes that wait in a plug are issued by the channel whose write they wait for.
pub struct Channel {
    queue: Arc<Queue>,
    id: u32,
    hctx: HctxRef,
    /// By channel, those opened later being added when one is first met.
    mailboxes: Vec<Arc<Mailbox>>,
    pool: RequestPool,
    parents: Parents,
    /// Bios that ended before they reached a device.
    ended: Vec<Completion>,
    /// Requests that came back from the device; kept for its capacity.
    done: Vec<Box<Request>>,
    outstanding: usize,
    retiring: bool,
}

impl Channel {
    pub(crate) fn new(
        queue: Arc<Queue>,
        id: u32,
        mailboxes: Vec<Arc<Mailbox>>,
        hctx: HctxRef,
    ) -> Self {
        Channel {
            queue,
            id,
            hctx,
            mailboxes,
            pool: RequestPool::default(),
            parents: Parents::default(),
            ended: Vec::new(),
            done: Vec::new(),
            outstanding: 0,
            retiring: false,
        }
    }

    /// The queue that the channel belongs to.
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// Bios submitted and not yet completed.
    pub fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Sends a bio down. It completes in a later [`Channel::poll`], also if it fails at once.
    pub fn submit(&mut self, now: Nanos, bio: Bio) {
        self.outstanding += 1;
        let limits = self.queue.limits();
        if let Err(status) = split::check(limits, &bio) {
            self.end(bio, status);
            return;
        }
        if bio.op.has_range()
            && split::fitting(limits, bio.op, bio.sector, bio.nr_sectors) < bio.nr_sectors
        {
            let parts = split::parts(limits, &bio);
            let count = u32::try_from(parts.len()).expect("a bio has fewer parts than sectors");
            let parent = self.parents.insert(bio, count);
            for part in parts {
                self.enter(now, part, Some(parent));
            }
        } else {
            self.enter(now, bio, None);
        }
    }

    /// Completes a bio that got no further than the check.
    fn end(&mut self, bio: Bio, status: Status) {
        let Bio {
            user_data,
            sector,
            buf,
            ..
        } = bio;
        self.ended.push(Completion {
            user_data,
            status,
            sector,
            buf,
        });
    }

    /// Into the plug of the bio's zone, if it has one.
    fn enter(&mut self, now: Nanos, bio: Bio, parent: Option<u32>) {
        let limits = self.queue.limits();
        let op = bio.op;
        let zone = if limits.nr_zones > 0 && !matches!(op, Op::Flush | Op::ZoneResetAll) {
            limits.zone_of(bio.sector)
        } else {
            ZoneNo(0)
        };
        let mut request = self.pool.get();
        request.load(bio, self.id, zone, parent);
        let entered = match &self.queue.plugs {
            Some(plugs) if plug::passes_through(op) => plugs.enter(now, request),
            Some(plugs) if op == Op::ZoneResetAll => {
                plugs.begin_reset_all();
                Entered::Issue(request)
            }
            _ => Entered::Issue(request),
        };
        match entered {
            Entered::Issue(request) => self.issue(now, request),
            Entered::Parked => {}
            Entered::Failed(mut request, status) => {
                request.set_status(status);
                let completion = self.finish(request);
                self.ended.extend(completion);
            }
        }
    }

    /// Out of the plug, to the device.
    fn issue(&mut self, now: Nanos, request: Box<Request>) {
        self.hctx.with(|hctx| hctx.dispatch(now, request));
    }

    /// Brings up what is done at `now`, appending to `completions`, and sends down what that
    /// releases. Gives the number of completions.
    pub fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) -> usize {
        let before = completions.len();
        completions.append(&mut self.ended);
        self.collect_mail(now, completions);
        let mut budget = POLL_BUDGET;
        let mut done = std::mem::take(&mut self.done);
        while budget > 0 {
            self.hctx.with(|hctx| hctx.reap(now, &mut done));
            if done.is_empty() {
                break;
            }
            budget = budget.saturating_sub(done.len());
            for request in done.drain(..) {
                self.complete(now, request, completions);
            }
            self.hctx.with(|hctx| hctx.run(now));
        }
        self.done = done;
        let count = completions.len() - before;
        self.outstanding -= count;
        count
    }

    fn collect_mail(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        if !self.has_mail() {
            return;
        }
        let mut mail = self.mailboxes[self.id as usize].take();
        while let Some(request) = mail.pop_front() {
            if request.is_done() {
                completions.extend(self.finish(request));
            } else {
                self.issue(now, request);
            }
        }
    }

    /// The device is done with a request: lets the plug send its next write, then ends the bios.
    fn complete(&mut self, now: Nanos, request: Box<Request>, completions: &mut Vec<Completion>) {
        let mut aborted = RequestList::new();
        if let Some(next) = self.queue.release(&request, &mut aborted) {
            if self.retiring && next.owner != self.id {
                self.mail(next);
            } else {
                self.issue(now, next);
            }
        }
        self.deliver(request, completions);
        while let Some(request) = aborted.pop_front() {
            self.deliver(request, completions);
        }
    }

    /// Ends the bios of a request, each on the channel it came from.
    fn deliver(&mut self, mut request: Box<Request>, completions: &mut Vec<Completion>) {
        let mut merged = request.take_merged();
        let status = request.status();
        self.deliver_one(request, completions);
        while let Some(mut request) = merged.pop_front() {
            request.set_status(status);
            self.deliver_one(request, completions);
        }
    }

    fn deliver_one(&mut self, request: Box<Request>, completions: &mut Vec<Completion>) {
        if request.owner == self.id {
            completions.extend(self.finish(request));
        } else {
            self.mail(request);
        }
    }

    fn mail(&mut self, request: Box<Request>) {
        let owner = request.owner as usize;
        if owner >= self.mailboxes.len() {
            self.mailboxes = self.queue.mailboxes();
        }
        self.mailboxes[owner].push(request);
    }

    /// Ends the bio of one of this channel's requests; `None` if parts of it are still out.
    fn finish(&mut self, mut request: Box<Request>) -> Option<Completion> {
        let completion = match request.parent {
            Some(parent) => self.parents.part_done(parent, &mut request),
            None => {
                let status = request.status();
                let (bio, buf) = request.unload();
                let (user_data, sector) = (bio.user_data, bio.sector);
                Some(Completion {
                    user_data,
                    status,
                    sector,
                    buf,
                })
            }
        };
        self.pool.put(request);
        completion
    }

    /// When to call [`Channel::poll`] next; `None` if nothing is known to happen. A time that has
    /// passed means now.
    pub fn next_event(&mut self) -> Option<Nanos> {
        if !self.ended.is_empty() || self.has_mail() {
            return Some(Nanos(0));
        }
        self.hctx.with(|hctx| hctx.next_event())
    }

    /// Whether another channel has left something here for the next [`Channel::poll`].
    pub fn has_mail(&self) -> bool {
        !self.mailboxes[self.id as usize].is_empty()
    }

    /// From now on leaves the waiting writes of other channels to them. When [`Channel::is_idle`],
    /// the channel can go.
    pub fn retire(&mut self) {
        self.retiring = true;
    }

    /// Whether nothing that anybody waits for depends on this channel.
    pub fn is_idle(&mut self) -> bool {
        self.outstanding == 0
            && !self.has_mail()
            && match &mut self.hctx {
                HctxRef::Own(hctx) => hctx.is_idle(),
                // Whoever shares the queue goes on polling it.
                HctxRef::Shared(_) => true,
            }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(self.is_idle(), "a channel was dropped with I/O outstanding");
        }
        if let HctxRef::Own(_) = self.hctx {
            self.queue.give_back();
        }
    }
}
