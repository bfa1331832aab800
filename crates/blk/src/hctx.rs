//! The hardware queue: tags, dispatch, requeue.
//!
//! Takes requests; gives them to the device, each with a tag, and back when they are done. Keeps
//! true: no more requests are with the device than there are tags; a request that the device was
//! too busy for goes first when there is room again.
use crate::device::{Device, HwQueue};
use crate::probe::{mark, mutant};
use crate::request::{Request, RequestList};
use crate::status::Status;
use crate::sync::Mutex;
use crate::units::{Nanos, Tag};
use std::sync::Arc;

/// When to try again what the device was too busy for, if nothing that could end is with it: the
/// kernel's `BLK_MQ_RESOURCE_DELAY`, 3 ms (block/blk-mq.c, Linux 6.12).
const RETRY: Nanos = Nanos(3_000_000);

pub(crate) struct Hctx {
    hw: Box<dyn HwQueue>,
    free_tags: Vec<Tag>,
    depth: usize,
    waiting: RequestList,
    /// When the device last refused a request.
    refused_at: Nanos,
    /// Channels that share the queue and will go on polling it.
    sharers: u32,
}

impl Hctx {
    pub(crate) fn open(device: &Arc<dyn Device>) -> Self {
        let depth = device.limits().queue_depth;
        Hctx {
            hw: Arc::clone(device).open_queue(),
            free_tags: (0..depth).rev().map(Tag).collect(),
            depth: usize::from(depth),
            waiting: RequestList::new(),
            refused_at: Nanos(0),
            sharers: 0,
        }
    }

    /// Sends a request to the device, after those that wait.
    pub(crate) fn dispatch(&mut self, now: Nanos, request: Box<Request>) {
        if self.waiting.is_empty() {
            if let Err(request) = self.start(now, request) {
                self.waiting.push_front(request);
            }
        } else {
            self.waiting.push_back(request);
        }
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

    /// How many requests the device could be sent.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        if self.waiting.is_empty() { self.free_tags.len() } else { 0 }
    }

    fn start(&mut self, now: Nanos, mut request: Box<Request>) -> Result<(), Box<Request>> {
        mark!(NoTag if self.free_tags.is_empty());
        let Some(tag) = self.free_tags.pop() else {
            return Err(request);
        };
        request.tag = tag;
        self.hw.start(now, request).inspect_err(|_| {
            mark!(BusyRequeue if true);
            self.free_tags.push(tag);
            self.refused_at = now;
        })
    }

    /// Moves what is done to the end of `done`.
    pub(crate) fn reap(&mut self, now: Nanos, done: &mut Vec<Box<Request>>) {
        let before = done.len();
        self.hw.poll(now, done);
        if done.len() > before {
            self.free_tags.extend(done[before..].iter().map(|request| request.tag));
            if mutant!(TagReleasedTwice) && done[before].status() != Status::Ok {
                self.free_tags.push(done[before].tag);
            }
        } else if !mutant!(MissedRequeue) {
            // Nothing ends, so nobody else will try again what the device was too busy for.
            self.run(now);
        }
    }

    /// Starts what waited for a tag or for the device.
    pub(crate) fn run(&mut self, now: Nanos) {
        while let Some(request) = self.waiting.pop_front() {
            if let Err(request) = self.start(now, request) {
                self.waiting.push_front(request);
                break;
            }
        }
    }

    pub(crate) fn next_event(&self) -> Option<Nanos> {
        if !self.waiting.is_empty() && self.free_tags.len() == self.depth {
            return Some(self.refused_at + RETRY);
        }
        self.hw.next_event()
    }

    /// Whether nothing is with the device and nothing waits for it.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.free_tags.len() == self.depth
    }
}

/// A channel's hardware queue: its own, or one that it shares with other channels.
pub(crate) enum HctxRef {
    Own(Hctx),
    Shared(Arc<Mutex<Hctx>>),
}

impl HctxRef {
    /// Uses the hardware queue. The lock of a shared one stands for the device's own, which takes
    /// one command at a time.
    pub(crate) fn with<R>(&mut self, f: impl FnOnce(&mut Hctx) -> R) -> R {
        match self {
            HctxRef::Own(hctx) => f(hctx),
            HctxRef::Shared(hctx) => f(&mut hctx.lock().expect("hardware queue lock")),
        }
    }

    /// A way to a hardware queue that others use too.
    pub(crate) fn share(hctx: &Arc<Mutex<Hctx>>) -> Self {
        hctx.lock().expect("hardware queue lock").sharers += 1;
        HctxRef::Shared(Arc::clone(hctx))
    }

    /// The channel will stop polling as soon as it may.
    pub(crate) fn retire(&mut self) {
        self.with(|hctx| hctx.sharers = hctx.sharers.saturating_sub(1));
    }

    /// Whether nobody misses the channel's polling: nothing is on its way, or another channel sees
    /// to it.
    pub(crate) fn can_go(&mut self, retiring: bool) -> bool {
        self.with(|hctx| hctx.is_idle() || hctx.sharers > u32::from(!retiring))
    }
}
