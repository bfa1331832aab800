//! Kyber: limits the commands in flight so that reads and writes meet their latency targets.
//!
//! Requests are dispatched in the order of arrival within a domain; the domains take turns. A
//! domain never has more commands in flight than tokens. Every tenth of a second in which commands
//! complete, domains lose or regain tokens, depending on how the latencies compare with the
//! targets.
//!
//! The rules are those of the kernel (Linux 6.12, block/kyber-iosched.c); `docs/schedulers.md` lists
//! what differs.
mod options;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

use super::elevator::{BatchKind, BatchOrder, CompletedRequest, Elevator, InFlight, MergeLimit};
use super::registered::{Registered, Setup, Started};
use crate::op::{Op, OpClass};
use crate::request::{Request, RequestList};
use crate::units::{Nanos, Sector};
pub use options::KyberOptions;

impl Registered for KyberOptions {
    fn start(self, setup: Setup<'_>) -> Started {
        Started::new(Kyber::new(self, setup.limit))
    }
}

/// Reads, writes, discards, all else.
const NR_DOMAINS: usize = 4;
const READ: usize = 0;
const WRITE: usize = 1;
const DISCARD: usize = 2;
const OTHER: usize = 3;

/// The most tokens of each domain.
const MAX_TOKENS: [u32; NR_DOMAINS] = [256, 128, 64, 16];
/// Commands of each domain in a turn.
const BATCH_SIZE: [u32; NR_DOMAINS] = [16, 8, 1, 1];
/// The target latency of discards.
const DISCARD_TARGET: Nanos = Nanos(5_000_000_000);
/// How often the numbers of tokens are adjusted.
const PERIOD: Nanos = Nanos(100_000_000);

fn domain_of(op: Op) -> usize {
    match op.info().class {
        OpClass::Read => READ,
        OpClass::Write => WRITE,
        OpClass::Discard => DISCARD,
        OpClass::Flush | OpClass::Zone => OTHER,
    }
}

/// The domain of all operations of a set, if it is one.
fn domain_of_all(ops: u16) -> Option<usize> {
    const WRITES: u16 = Op::set_of_class(OpClass::Write);
    const READS: u16 = Op::set_of_class(OpClass::Read);
    const DISCARDS: u16 = Op::set_of_class(OpClass::Discard);
    match ops {
        READS => Some(READ),
        DISCARDS => Some(DISCARD),
        _ if ops & !WRITES == 0 => Some(WRITE),
        _ if ops & (READS | WRITES | DISCARDS) == 0 => Some(OTHER),
        _ => None,
    }
}

#[derive(Debug, Default)]
struct DomainState {
    queue: RequestList,
    tokens: u32,
    in_flight: u32,
    /// Latencies since insertion, and since dispatch.
    total: Latencies,
    device: Latencies,
    /// The total latency's percentile that was not acted upon.
    seen: Option<u32>,
}

/// The kyber scheduler.
pub(super) struct Kyber {
    options: KyberOptions,
    limit: MergeLimit,
    domains: [DomainState; NR_DOMAINS],
    /// The domain whose turn it is, and its commands dispatched in this turn.
    turn: usize,
    sent: u32,
    /// Requests in all domains.
    waiting: usize,
    /// When tokens are adjusted next; `None` if nothing has completed since the last time.
    resize_at: Option<Nanos>,
    merged: [u64; 3],
}

impl Kyber {
    /// A scheduler in which nothing waits.
    pub(super) fn new(options: KyberOptions, limit: MergeLimit) -> Self {
        let mut domains: [DomainState; NR_DOMAINS] = Default::default();
        for (domain, tokens) in domains.iter_mut().zip(MAX_TOKENS) {
            domain.tokens = tokens;
        }
        let (turn, sent, waiting) = (READ, 0, 0);
        Kyber { options, limit, domains, turn, sent, waiting, resize_at: None, merged: [0; 3] }
    }

    fn take(&mut self, domain: usize) -> Option<Box<Request>> {
        let limit = self.limit;
        let domain = &mut self.domains[domain];
        if domain.in_flight >= domain.tokens {
            return None;
        }
        let mut request = domain.queue.pop_front()?;
        domain.in_flight += 1;
        self.waiting -= 1;
        while let Some(next) = domain.queue.front()
            && limit.joins(&request, next)
        {
            request.append(domain.queue.pop_front().expect("there is a front"));
            self.merged[request.prio().class().index()] += 1;
            self.waiting -= 1;
        }
        Some(request)
    }

    /// Adjusts the numbers of tokens if it is time.
    fn resize_tokens(&mut self, now: Nanos) {
        if self.resize_at.is_none_or(|at| at > now) {
            return;
        }
        self.resize_at = None;
        // If commands take long within the device, all domains are cut back to what their total
        // latency allows; otherwise a domain that misses its target gets more.
        let mut congested = false;
        for domain in &mut self.domains[..OTHER] {
            congested |= domain.device.percentile(now, 90).is_some_and(|bucket| bucket >= GOOD);
        }
        for (domain, most) in self.domains[..OTHER].iter_mut().zip(MAX_TOKENS) {
            let mut bucket = domain.total.percentile(now, 99);
            if congested {
                let seen = domain.seen.take();
                bucket = bucket.or(seen);
            } else if bucket.is_some() {
                domain.seen = bucket;
            }
            let Some(bucket) = bucket else { continue };
            if congested || bucket >= GOOD {
                domain.tokens = (domain.tokens * (bucket + 1) / GOOD).clamp(1, most);
            }
        }
    }
}

impl Elevator for Kyber {
    fn insert(&mut self, _now: Nanos, request: Box<Request>) {
        self.domains[domain_of(request.op())].queue.push_back(request);
        self.waiting += 1;
    }

    fn dispatch(&mut self, now: Nanos, _flight: &InFlight) -> Option<Box<Request>> {
        self.resize_tokens(now);
        if self.sent < BATCH_SIZE[self.turn]
            && let Some(request) = self.take(self.turn)
        {
            self.sent += 1;
            return Some(request);
        }
        for _ in 0..NR_DOMAINS {
            self.turn = (self.turn + 1) % NR_DOMAINS;
            if let Some(request) = self.take(self.turn) {
                self.sent = 1;
                return Some(request);
            }
        }
        self.sent = 0;
        None
    }

    fn insert_and_dispatch(
        &mut self,
        now: Nanos,
        request: Box<Request>,
        flight: &InFlight,
    ) -> Option<Box<Request>> {
        let kind = BatchKind::of(&request);
        if self.takes_batch(now, &kind).is_some() {
            self.sent_batch(&kind, 1, request.end());
            return Some(request);
        }
        self.insert(request.queued_at(), request);
        self.dispatch(now, flight)
    }

    fn takes_batch(&mut self, now: Nanos, kind: &BatchKind) -> Option<BatchOrder> {
        self.resize_tokens(now);
        let domain = &self.domains[domain_of_all(kind.ops)?];
        let takes = self.is_empty() && domain.in_flight + kind.requests <= domain.tokens;
        takes.then_some(BatchOrder::Arrival)
    }

    /// Counts the commands, and the turns that they are sent in.
    fn sent_batch(&mut self, kind: &BatchKind, commands: u32, _end: Sector) {
        let domain = domain_of_all(kind.ops).expect("the batch was taken");
        self.domains[domain].in_flight += commands;
        let sent_before = if self.turn == domain { self.sent } else { 0 };
        self.turn = domain;
        self.sent = (sent_before + commands - 1) % BATCH_SIZE[domain] + 1;
    }

    fn can_take_batches(&self) -> bool {
        true
    }

    fn completed(&mut self, end: &CompletedRequest) {
        self.resize_tokens(end.at);
        let domain = domain_of(end.op);
        let target = match domain {
            READ => self.options.read_lat,
            WRITE => self.options.write_lat,
            _ => DISCARD_TARGET,
        };
        let domain = &mut self.domains[domain];
        domain.in_flight -= end.count;
        domain.total.add(end.total(), target, end.count);
        domain.device.add(end.at_device(), target, end.count);
        self.resize_at.get_or_insert(end.at + PERIOD);
    }

    fn wants_completions(&self) -> bool {
        true
    }

    fn next_event(&self) -> Option<Nanos> {
        self.resize_at
    }

    fn len(&self) -> usize {
        self.waiting
    }

    fn merged(&self) -> [u64; 3] {
        self.merged
    }
}

/// Buckets up to the target, each a quarter of it wide, and buckets in all: latencies in the upper
/// half missed the target.
const GOOD: u32 = 4;
const BUCKETS: usize = 8;

/// Fewer samples than this are used only after [`MAX_WAIT`].
const ENOUGH_SAMPLES: u64 = 500;
const MAX_WAIT: Nanos = Nanos(1_000_000_000);

/// A histogram of the latencies since they were last used.
#[derive(Debug, Default)]
struct Latencies {
    buckets: [u64; BUCKETS],
    /// When fewer samples will do.
    settle_by: Option<Nanos>,
}

impl Latencies {
    /// Counts a latency that this many commands had.
    fn add(&mut self, latency: Nanos, target: Nanos, count: u32) {
        let part = (target.0 / u64::from(GOOD)).max(1);
        let bucket = latency.0.saturating_sub(1) / part;
        let bucket = usize::try_from(bucket).map_or(BUCKETS - 1, |b| b.min(BUCKETS - 1));
        self.buckets[bucket] += u64::from(count);
    }

    /// The bucket that `percent` of the latencies do not exceed, if there are enough samples, which
    /// are then discarded.
    fn percentile(&mut self, now: Nanos, percent: u64) -> Option<u32> {
        let samples: u64 = self.buckets.iter().sum();
        if samples == 0 {
            return None;
        }
        let settle_by = *self.settle_by.get_or_insert(now + MAX_WAIT);
        if samples < ENOUGH_SAMPLES && now < settle_by {
            return None;
        }
        let mut needed = (samples * percent).div_ceil(100);
        let bucket = (0..).zip(self.buckets).find(|(_, n)| {
            needed = needed.saturating_sub(*n);
            needed == 0
        });
        *self = Latencies::default();
        bucket.map(|(bucket, _)| bucket)
    }
}
