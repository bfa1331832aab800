//! mq-deadline: batches in the order of sectors, and a deadline for each request.
//!
//! Dispatches by priority class, and within a class in batches of one direction in the order of
//! sectors. A request past its expiry is served at the next choice of its direction. Reads are
//! preferred over writes `writes_starved` times in a row. A class is served when those above it
//! have nothing waiting or in flight, or after `prio_aging_expire`.
//!
//! ```text
//!            real time   best effort     idle
//!  reads      [queue]      [queue]      [queue]    a queue: one order of sectors, one of arrival
//!  writes     [queue]      [queue]      [queue]
//! ```
//!
//! The rules are those of the kernel (Linux 6.12, block/mq-deadline.c and
//! Documentation/block/deadline-iosched.rst); `docs/schedulers.md` lists what differs.
mod dir_queue;
mod options;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

use super::dispatcher::BypassPolicy;
use super::elevator::{CompletedRequest, Elevator, InFlight, MergeLimit};
use super::registered::{Registered, Setup, Started};
use super::waiting::{Key, Store};
use super::zone_locks::ZoneLocks;
use crate::bio::PrioClass;
use crate::op::Direction;
use crate::request::{Request, RequestList};
use crate::units::Nanos;
use dir_queue::DirQueue;
pub use options::MqDeadlineOptions;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Dir {
    #[default]
    Read,
    Write,
}

impl Registered for MqDeadlineOptions {
    const LOCKS_ZONES: bool = true;

    fn start(self, setup: Setup<'_>) -> Started {
        // With nothing to wait for, even the newest request of a batch has expired, and the order is
        // that of arrival.
        let sorts = self.read_expire > Nanos(0) && self.write_expire > Nanos(0);
        Started {
            sorts,
            front_merges: self.front_merges,
            bypass: BypassPolicy { bypass_allowed: true, limits_writes: self.async_depth > 0 },
            ..Started::new(MqDeadline::new(self, setup.limit, setup.zones))
        }
    }
}

/// The mq-deadline scheduler.
pub(super) struct MqDeadline {
    options: MqDeadlineOptions,
    limit: MergeLimit,
    zones: Option<ZoneLocks>,
    store: Store,
    /// Flushes and zone management.
    first: RequestList,
    /// By class and direction.
    queues: [[DirQueue; 2]; 3],
    /// The direction of the batch, and the number of its requests dispatched so far.
    dir: Dir,
    batch: u32,
    /// How often reads were preferred while writes waited.
    starved: u32,
    merged: [u64; 3],
    /// Requests in the queues, by class.
    waiting: [usize; 3],
    /// The earliest time at which a held-back class has waited long enough.
    aging_at: Option<Nanos>,
}

impl MqDeadline {
    /// A scheduler in which nothing waits. With `zones` it keeps to one write per sequential zone.
    pub(super) fn new(
        options: MqDeadlineOptions,
        limit: MergeLimit,
        zones: Option<ZoneLocks>,
    ) -> Self {
        MqDeadline {
            options,
            limit,
            zones,
            store: Store::default(),
            first: RequestList::new(),
            queues: Default::default(),
            dir: Dir::default(),
            batch: 0,
            starved: 0,
            merged: [0; 3],
            waiting: [0; 3],
            aging_at: None,
        }
    }

    fn next(&mut self, class: usize, dir: Dir, flight: &InFlight) -> Option<Key> {
        if dir == Dir::Write && self.holds_writes(flight) {
            return None;
        }
        let zones = self.zones.as_ref().filter(|_| dir == Dir::Write);
        self.queues[class][dir as usize].next(&self.store, zones)
    }

    fn oldest(&mut self, class: usize, dir: Dir, flight: &InFlight) -> Option<Key> {
        if dir == Dir::Write && self.holds_writes(flight) {
            return None;
        }
        let zones = self.zones.as_ref().filter(|_| dir == Dir::Write);
        self.queues[class][dir as usize].oldest(&self.store, zones)
    }

    fn holds_writes(&self, flight: &InFlight) -> bool {
        let depth = u64::from(self.options.async_depth);
        depth > 0 && flight.not_reads >= depth
    }

    /// A request of a lower class that has waited too long for those above it.
    fn dispatch_aged(&mut self, now: Nanos, flight: &InFlight) -> Option<Box<Request>> {
        self.aging_at = None;
        let classes = self.waiting.iter().filter(|&&n| n > 0).count();
        let behind_flight = |class: usize| flight.by_class[..class].iter().any(|&n| n > 0);
        for class in [PrioClass::BestEffort, PrioClass::Idle].map(PrioClass::index) {
            if self.waiting[class] == 0 || classes < 2 && !behind_flight(class) {
                continue;
            }
            for dir in [Dir::Read, Dir::Write] {
                let Some(since) = self.queues[class][dir as usize].oldest_queued_at(&self.store)
                else {
                    continue;
                };
                let due = since + self.options.prio_aging_expire;
                if due > now {
                    self.aging_at = Some(self.aging_at.map_or(due, |at| at.min(due)));
                } else if let Some(key) = self.oldest(class, dir, flight) {
                    self.begin_batch(dir);
                    return Some(self.take(class, dir, key));
                }
            }
        }
        None
    }

    /// The next request of a class.
    fn dispatch_class(
        &mut self,
        class: usize,
        now: Nanos,
        flight: &InFlight,
    ) -> Option<Box<Request>> {
        if self.waiting[class] == 0 {
            return None;
        }
        if self.batch < self.options.fifo_batch
            && let Some(key) = self.next(class, self.dir, flight)
        {
            return Some(self.take(class, self.dir, key));
        }
        let (dir, oldest) = self.choose_direction(class, flight)?;
        self.begin_batch(dir);
        let expired = self.store.get(oldest).queued_at() + self.expire(dir) <= now;
        let key = if expired { oldest } else { self.next(class, dir, flight).unwrap_or(oldest) };
        Some(self.take(class, dir, key))
    }

    /// The direction of the next batch, with the oldest request that may go there.
    fn choose_direction(&mut self, class: usize, flight: &InFlight) -> Option<(Dir, Key)> {
        let write = self.oldest(class, Dir::Write, flight);
        let read = self.oldest(class, Dir::Read, flight);
        match (read, write) {
            (Some(read), None) => Some((Dir::Read, read)),
            (Some(read), Some(_)) if self.starved < self.options.writes_starved => {
                self.starved += 1;
                Some((Dir::Read, read))
            }
            (_, Some(write)) => {
                self.starved = 0;
                Some((Dir::Write, write))
            }
            (None, None) => None,
        }
    }

    fn begin_batch(&mut self, dir: Dir) {
        self.dir = dir;
        self.batch = 0;
    }

    fn expire(&self, dir: Dir) -> Nanos {
        match dir {
            Dir::Read => self.options.read_expire,
            Dir::Write => self.options.write_expire,
        }
    }

    fn take(&mut self, class: usize, dir: Dir, key: Key) -> Box<Request> {
        let queue = &mut self.queues[class][dir as usize];
        let front_merges = self.options.front_merges;
        let (request, merged) = queue.take(&mut self.store, key, self.limit, front_merges);
        self.batch += 1;
        self.waiting[class] -= 1 + merged;
        self.merged[class] += merged as u64;
        if let Some(zones) = &mut self.zones {
            zones.sent(request.op(), request.zone());
        }
        request
    }
}

impl Elevator for MqDeadline {
    fn insert(&mut self, _now: Nanos, request: Box<Request>) {
        let dir = match request.op().direction() {
            Direction::None => return self.first.push_back(request),
            Direction::Read => Dir::Read,
            Direction::Write => Dir::Write,
        };
        let class = request.prio().class().index();
        self.waiting[class] += 1;
        self.queues[class][dir as usize].insert(&mut self.store, request);
    }

    fn dispatch(&mut self, now: Nanos, flight: &InFlight) -> Option<Box<Request>> {
        if let Some(request) = self.first.pop_front() {
            return Some(request);
        }
        if let Some(request) = self.dispatch_aged(now, flight) {
            return Some(request);
        }
        for class in PrioClass::ALL.map(PrioClass::index) {
            let request = self.dispatch_class(class, now, flight);
            if request.is_some() {
                return request;
            }
            if self.waiting[class] > 0 || flight.by_class[class] > 0 {
                return None;
            }
        }
        None
    }

    fn completed(&mut self, end: &CompletedRequest) {
        if let Some(zones) = &mut self.zones {
            zones.completed(end.op, end.zone);
        }
    }

    fn wants_completions(&self) -> bool {
        self.zones.is_some()
    }

    fn next_event(&self) -> Option<Nanos> {
        self.aging_at
    }

    fn len(&self) -> usize {
        self.first.len() + self.waiting.iter().sum::<usize>()
    }

    fn merged(&self) -> [u64; 3] {
        self.merged
    }
}
