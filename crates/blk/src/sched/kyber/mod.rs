//! Kyber: few enough commands with the device that reads and writes meet their latency targets.
//!
//! Takes requests; gives them in the order they came, in turns of the kinds. Keeps true: no more
//! commands of a kind are with the device than the kind has tokens. Every tenth of a second in
//! which commands end, tokens are taken away from kinds, or given back, by how the latencies lie
//! against the targets.
//!
//! The rules are those of the kernel (Linux 6.12, block/kyber-iosched.c); `docs/schedulers.md` lists
//! what differs.
#[cfg(test)]
mod comparison;
mod latency;
mod options;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

use super::elevator::{Elevator, Ended, InFlight};
use super::merge::MergeLimit;
use crate::bio::Op;
use crate::request::{Request, RequestList};
use crate::units::Nanos;
use latency::{GOOD, Latencies};
pub use options::KyberOptions;

/// Reads, writes, discards, all else.
const KINDS: usize = 4;
const READ: usize = 0;
const WRITE: usize = 1;
const DISCARD: usize = 2;
const OTHER: usize = 3;

/// The most tokens of each kind.
const TOKENS: [u32; KINDS] = [256, 128, 64, 16];
/// Commands of each kind in a turn.
const TURN: [u32; KINDS] = [16, 8, 1, 1];
/// The latency that discards are to have.
const DISCARD_TARGET: Nanos = Nanos(5_000_000_000);
/// How often tokens are counted anew.
const PERIOD: Nanos = Nanos(100_000_000);

fn kind_of(op: Op) -> usize {
    match op {
        Op::Read => READ,
        Op::Write | Op::WriteZeroes | Op::ZoneAppend => WRITE,
        Op::Discard => DISCARD,
        _ => OTHER,
    }
}

#[derive(Debug, Default)]
struct Kind {
    queue: RequestList,
    tokens: u32,
    in_flight: u32,
    /// From the scheduler on, and from the device on.
    total: Latencies,
    device: Latencies,
    /// The total latency's percentile that was not acted upon.
    seen: Option<u32>,
}

/// The kyber scheduler.
pub struct Kyber {
    options: KyberOptions,
    limit: MergeLimit,
    kinds: [Kind; KINDS],
    /// Whose turn it is, and what was sent in it.
    turn: usize,
    sent: u32,
    /// When tokens are counted next; `None` if nothing has ended since the last time.
    counts_at: Option<Nanos>,
    merged: [u64; 3],
}

impl Kyber {
    /// A scheduler in which nothing waits.
    pub fn new(options: KyberOptions, limit: MergeLimit) -> Self {
        let mut kinds: [Kind; KINDS] = Default::default();
        for (kind, tokens) in kinds.iter_mut().zip(TOKENS) {
            kind.tokens = tokens;
        }
        Kyber { options, limit, kinds, turn: READ, sent: 0, counts_at: None, merged: [0; 3] }
    }

    /// The tokens that reads and writes have now: commands that may be with the device.
    pub fn tokens(&self) -> (u32, u32) {
        (self.kinds[READ].tokens, self.kinds[WRITE].tokens)
    }

    fn take(&mut self, kind: usize) -> Option<Box<Request>> {
        let limit = self.limit;
        let kind = &mut self.kinds[kind];
        if kind.in_flight >= kind.tokens {
            return None;
        }
        let mut request = kind.queue.pop_front()?;
        kind.in_flight += 1;
        while let Some(next) = kind.queue.front()
            && limit.joins(&request, next)
        {
            request.append(kind.queue.pop_front().expect("there is a front"));
            self.merged[request.prio().class.index()] += 1;
        }
        Some(request)
    }

    /// Counts tokens anew if it is time.
    fn count(&mut self, now: Nanos) {
        if self.counts_at.is_none_or(|at| at > now) {
            return;
        }
        self.counts_at = None;
        // If commands take long within the device, all kinds are cut back to what their total
        // latency allows; otherwise a kind that misses its target gets more.
        let mut congested = false;
        for kind in &mut self.kinds[..OTHER] {
            congested |= kind.device.percentile(now, 90).is_some_and(|bucket| bucket >= GOOD);
        }
        for (kind, most) in self.kinds[..OTHER].iter_mut().zip(TOKENS) {
            let mut bucket = kind.total.percentile(now, 99);
            if congested {
                let seen = kind.seen.take();
                bucket = bucket.or(seen);
            } else if bucket.is_some() {
                kind.seen = bucket;
            }
            let Some(bucket) = bucket else { continue };
            if congested || bucket >= GOOD {
                kind.tokens = (kind.tokens * (bucket + 1) / GOOD).clamp(1, most);
            }
        }
    }
}

impl Elevator for Kyber {
    fn insert(&mut self, _now: Nanos, request: Box<Request>) {
        self.kinds[kind_of(request.op())].queue.push_back(request);
    }

    fn dispatch(&mut self, now: Nanos, _flight: &InFlight) -> Option<Box<Request>> {
        self.count(now);
        if self.sent < TURN[self.turn]
            && let Some(request) = self.take(self.turn)
        {
            self.sent += 1;
            return Some(request);
        }
        for _ in 0..KINDS {
            self.turn = (self.turn + 1) % KINDS;
            if let Some(request) = self.take(self.turn) {
                self.sent = 1;
                return Some(request);
            }
        }
        self.sent = 0;
        None
    }

    fn completed(&mut self, end: &Ended) {
        self.count(end.at);
        let kind = kind_of(end.op);
        let target = match kind {
            READ => self.options.read_lat,
            WRITE => self.options.write_lat,
            _ => DISCARD_TARGET,
        };
        let kind = &mut self.kinds[kind];
        kind.in_flight -= 1;
        kind.total.add(end.total(), target);
        kind.device.add(end.at_device(), target);
        self.counts_at.get_or_insert(end.at + PERIOD);
    }

    fn wants_ends(&self) -> bool {
        true
    }

    fn next_event(&self) -> Option<Nanos> {
        self.counts_at
    }

    fn len(&self) -> usize {
        self.kinds.iter().map(|kind| kind.queue.len()).sum()
    }

    fn merged(&self) -> [u64; 3] {
        self.merged
    }
}
