//! The queue of one process: its requests, weight and budget, and how long it thinks between
//! requests.
use super::BfqOptions;
use super::inject::InjectLimit;
use super::service::Timestamps;
use crate::bio::PrioClass;
use crate::request::Request;
use crate::sched::waiting::{Key, Store, WaitQueue};
use crate::units::Nanos;

/// The factor by which a weight is raised (Linux 6.12 `bfq_wr_coeff`).
const RAISE: u64 = 30;
/// How long a process must have been idle for its weight to be raised when it continues.
pub(super) const RAISE_AFTER: Nanos = Nanos(2_000_000_000);

/// The synchronous or the asynchronous requests of one process.
pub(super) struct Queue {
    pub(super) waiting_requests: WaitQueue,
    pub(super) process: usize,
    pub(super) is_async: bool,
    pub(super) class: PrioClass,
    /// From the priority, unless one was set.
    weight: u16,
    weight_is_set: bool,
    pub(super) raised_until: Nanos,
    /// Whether the weight is raised in the slot that it waits for or has.
    pub(super) is_raised: bool,
    pub(super) stamps: Timestamps,
    /// Sectors that may be served in the next slot.
    pub(super) budget: u64,
    /// Sectors that were injected since it began to wait for a slot.
    pub(super) injected: u64,
    /// While the device idles for this process.
    pub(super) inject_limit: InjectLimit,
    pub(super) in_flight: u32,
    /// When it became idle; its think time from then to the next request, an average in which the
    /// last sample counts for an eighth; and the number of samples up to eight.
    idle_since: Nanos,
    think_time: u64,
    think_samples: u32,
    /// The end of what was sent last.
    pub(super) position: u64,
}

impl Queue {
    pub(super) fn new(process: usize, is_async: bool, budget: u64) -> Self {
        Queue {
            waiting_requests: WaitQueue::default(),
            process,
            is_async,
            class: PrioClass::BestEffort,
            weight: 1,
            weight_is_set: false,
            raised_until: Nanos(0),
            is_raised: false,
            stamps: Timestamps::default(),
            budget,
            injected: 0,
            inject_limit: InjectLimit::default(),
            in_flight: 0,
            idle_since: Nanos(0),
            think_time: 0,
            think_samples: 0,
            position: 0,
        }
    }

    pub(super) fn set_weight(&mut self, weight: u16) {
        self.weight = weight.clamp(1, 1000);
        self.weight_is_set = true;
    }

    /// Takes over the class and, unless one was set, the weight of a request's priority. Returns
    /// whether the class has changed.
    pub(super) fn update_prio(&mut self, request: &Request) -> bool {
        let prio = request.prio();
        if !self.weight_is_set {
            self.weight = u16::from(8 - prio.level()) * 10;
        }
        if self.class == prio.class() {
            return false;
        }
        self.class = prio.class();
        // Each class has a virtual time of its own: with timestamps of the old one the queue might
        // have to wait for as much service as it ever got.
        self.stamps = Timestamps::default();
        true
    }

    /// The weight in a slot that the queue begins to wait for at `now`.
    pub(super) fn effective_weight(&mut self, now: Nanos) -> u64 {
        self.is_raised = now < self.raised_until;
        u64::from(self.weight) * if self.is_raised { RAISE } else { 1 }
    }

    /// Whether the process has been idle so long that it counts as one that begins.
    pub(super) fn starts_new_burst(&self, now: Nanos) -> bool {
        self.think_samples == 0 || self.idle_since + RAISE_AFTER <= now
    }

    /// Nothing waits any more and the last command has completed.
    pub(super) fn becomes_idle(&mut self, now: Nanos) {
        self.idle_since = now;
        self.think_samples = self.think_samples.max(1);
    }

    /// The process continues after it was idle.
    pub(super) fn resume(&mut self, now: Nanos, longest: Nanos) {
        let sample = (now.0.saturating_sub(self.idle_since.0)).min(2 * longest.0);
        self.think_time = match self.think_samples {
            0 | 1 => sample,
            _ => (7 * self.think_time + sample) / 8,
        };
        self.think_samples = (self.think_samples + 1).min(8);
    }

    /// Whether the process thinks no longer than `time`, as far as is known.
    pub(super) fn think_time_within(&self, time: Nanos) -> bool {
        self.think_samples < 2 || self.think_time <= time.0
    }

    /// The charge of a command against the budget. Asynchronous ones are charged more, so that they do
    /// not crowd out the rest.
    pub(super) fn charge(&self, sectors: u64) -> u64 {
        const ASYNC_CHARGE: u64 = 3;
        sectors * if self.is_async { ASYNC_CHARGE } else { 1 }
    }

    /// The request to dispatch next: the nearest, where distances backwards are limited and count
    /// more; else the one at the lowest sector.
    pub(super) fn next(&mut self, store: &Store, options: &BfqOptions) -> Option<Key> {
        if self.waiting_requests.len() == 0 {
            return None;
        }
        let sorted = self.waiting_requests.sorted();
        if let Some(single) = sorted.single() {
            return Some(single);
        }
        let ahead = sorted.at_or_after(self.position);
        let back = sorted
            .before()
            .filter(|key| self.position - key.sector() <= u64::from(options.back_seek_max) * 2);
        let key = match (ahead, back) {
            (Some(ahead), Some(back)) => {
                let way_back = self.position - store.get(back).sector().0;
                let way_back = way_back.saturating_mul(u64::from(options.back_seek_penalty));
                if ahead.sector() - self.position <= way_back { ahead } else { back }
            }
            (Some(ahead), None) => ahead,
            (None, Some(back)) => back,
            (None, None) => sorted.at_or_after(0)?,
        };
        Some(key)
    }

    /// The sectors of the request to dispatch next, if the budget allows it to be injected.
    pub(super) fn next_in_budget(&mut self, store: &Store, options: &BfqOptions) -> Option<u32> {
        let sectors = store.get(self.next(store, options)?).nr_sectors();
        (self.injected + self.charge(sectors.into()) <= self.budget).then_some(sectors)
    }

    /// The oldest request, if it has expired.
    pub(super) fn expired(
        &mut self,
        store: &Store,
        options: &BfqOptions,
        now: Nanos,
    ) -> Option<Key> {
        let expire = match self.is_async {
            true => options.fifo_expire_async,
            false => options.fifo_expire_sync,
        };
        let key = self.waiting_requests.oldest(store)?;
        (store.get(key).queued_at() + expire <= now).then_some(key)
    }

    /// A command is dispatched.
    pub(super) fn note_sent(&mut self, command: &Request) {
        self.position = command.end().0;
        self.in_flight += 1;
    }
}
