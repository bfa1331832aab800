//! bfq: each process gets its share of the sectors, a budget at a time.
//!
//! Dispatches the requests of one process at a time, in the order of sectors, then those of the
//! process that [`service`] chooses. Processes that always have requests waiting share the device
//! in proportion to their weights. A process that is about to continue does not lose its slot
//! because it has nothing waiting at the moment; meanwhile, as many commands of others are injected
//! as do not delay it ([`inject`]).
//!
//! ```text
//!   process --> Queue: budget, weight, sectors in order      one is in service:
//!   process --> Queue                                          until its budget is used up, or
//!   process --> Queue                                          timeout_sync is over, or
//!                 \                                            it has nothing waiting and is not
//!                  Tree (one a class): B-WF2Q+                 worth waiting for, or slice_idle is over
//! ```
//!
//! A process is a channel. A request of the process in service that arrives when none of its
//! requests waits is dispatched without being queued ([`Elevator::insert_and_dispatch`]). The rules
//! are those of the kernel (Linux 6.12, block/bfq-iosched.c and
//! Documentation/block/bfq-iosched.rst); `docs/schedulers.md` lists what differs.
#[cfg(test)]
mod comparison;
mod inject;
mod options;
mod queue;
mod rate;
#[cfg(test)]
mod reference;
mod service;
#[cfg(test)]
mod tests;

use super::elevator::{BatchKind, BatchOrder, CompletedRequest, Elevator, InFlight, MergeLimit};
use super::registered::{Registered, Setup, Started};
use super::waiting::{Store, TakenCommand};
use crate::bio::{BioFlags, PrioClass};
use crate::op::Direction;
use crate::request::{Request, RequestList};
use crate::units::{Nanos, Sector};
use inject::Sampling;
pub use options::BfqOptions;
use queue::Queue;
use rate::Rate;
use service::Tree;
use std::collections::BTreeSet;

impl Registered for BfqOptions {
    fn start(self, setup: Setup<'_>) -> Started {
        Started::new(Bfq::new(self, setup.limit, setup.limits.rotational))
    }
}

/// How long the weight of a process that begins is raised: as long as the kernel's reference
/// devices take to load a large program.
const RAISE_FOR_ROTATING: Nanos = Nanos(7_000_000_000);
const RAISE_FOR: Nanos = Nanos(3_000_000_000);

/// While the device idles for a process, commands of this many sectors or more are injected only if
/// none is in flight (Linux 6.12 `BFQQ_SECT_THR_NONROT`).
const LARGE: u32 = 64;

/// A process whose weight is raised is delayed by others that have nothing waiting if this many more
/// commands are with the device than there are backlogged processes (Linux 6.12
/// `idling_needed_for_service_guarantees`).
const CROWDED: usize = 4;

/// The service slot of the queue in service.
#[derive(Clone, Copy, Debug)]
struct Service {
    queue: usize,
    since: Nanos,
    /// Sectors charged, those that were injected before the slot included.
    served: u64,
    /// Nothing was sent in it yet.
    fresh: bool,
    /// Nothing waits, and the device idles for the process until then.
    idle_until: Option<Nanos>,
}

/// Where the next command comes from.
enum Source {
    InService(Service),
    /// The device idles for the process in service; this is another's queue.
    Injected(usize),
}

/// Why a service slot is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExpireReason {
    BudgetExhausted,
    BudgetTimeout,
    NoMoreRequests,
}

/// The bfq scheduler.
pub(super) struct Bfq {
    options: BfqOptions,
    limit: MergeLimit,
    rotational: bool,
    store: Store,
    first: RequestList,
    queues: Vec<Queue>,
    /// Queues of processes that are gone, for reuse; one may still be in service.
    left: BTreeSet<usize>,
    /// Two for each process: for synchronous and for asynchronous requests.
    by_process: Vec<[Option<usize>; 2]>,
    /// Set before the process did I/O.
    weights: Vec<Option<u16>>,
    /// By class.
    trees: [Tree; 3],
    service: Option<Service>,
    rate: Rate,
    in_flight: u32,
    sampling: Sampling,
    waiting: usize,
    merged: [u64; 3],
}

impl Bfq {
    /// A scheduler in which nothing waits, for a device on which seeks cost time or not.
    pub(super) fn new(options: BfqOptions, limit: MergeLimit, rotational: bool) -> Self {
        Bfq {
            options,
            limit,
            rotational,
            store: Store::default(),
            first: RequestList::new(),
            queues: Vec::new(),
            left: BTreeSet::new(),
            by_process: Vec::new(),
            weights: Vec::new(),
            trees: Default::default(),
            service: None,
            rate: Rate::new(),
            in_flight: 0,
            sampling: Sampling::default(),
            waiting: 0,
            merged: [0; 3],
        }
    }

    fn max_budget(&self) -> u64 {
        match self.options.max_budget {
            0 => self.rate.sectors(),
            set => u64::from(set),
        }
    }

    /// The queue that a request of `process` belongs to.
    #[inline]
    fn queue_of(&mut self, process: u32, is_async: bool) -> usize {
        let process = process as usize;
        match self.by_process.get(process).map(|queues| queues[usize::from(is_async)]) {
            Some(Some(queue)) => queue,
            _ => self.add_queue(process, is_async),
        }
    }

    #[cold]
    fn add_queue(&mut self, process: usize, is_async: bool) -> usize {
        if process >= self.by_process.len() {
            self.by_process.resize(process + 1, [None; 2]);
        }
        let mut queue = Queue::new(process, is_async, self.max_budget());
        if let Some(weight) = self.weights.get(process).copied().flatten() {
            queue.set_weight(weight);
        }
        let in_service = self.service.map(|service| service.queue);
        let unused = self.left.iter().copied().find(|&index| Some(index) != in_service);
        let index = if let Some(index) = unused {
            self.left.remove(&index);
            self.queues[index] = queue;
            index
        } else {
            self.queues.push(queue);
            self.queues.len() - 1
        };
        self.by_process[process][usize::from(is_async)] = Some(index);
        index
    }

    /// A request comes to an empty queue.
    fn wake(&mut self, index: usize, now: Nanos) {
        let queue = &mut self.queues[index];
        if queue.in_flight == 0 {
            let anew = queue.starts_new_burst(now);
            queue.resume(now, self.options.slice_idle);
            if anew && self.options.low_latency && !queue.is_async {
                let time = if self.rotational { RAISE_FOR_ROTATING } else { RAISE_FOR };
                queue.raised_until = now + time;
            }
        }
        if !queue.is_async {
            let in_service = self.service.is_some_and(|service| service.queue == index);
            let thinks_long = !queue.think_time_within(self.options.slice_idle);
            let limit = &mut queue.inject_limit;
            self.sampling.first_comes(limit, now, thinks_long, in_service, self.in_flight);
        }
    }

    /// A queue is no longer empty.
    fn activate(&mut self, index: usize, now: Nanos) {
        self.wake(index, now);
        match &mut self.service {
            // The device idled for it.
            Some(service) if service.queue == index => service.idle_until = None,
            _ => self.add_to_tree(index, now, false),
        }
    }

    /// Enters the queue in the tree of the class that its oldest request has.
    fn add_to_tree(&mut self, index: usize, now: Nanos, mut still: bool) {
        let queue = &mut self.queues[index];
        let oldest = queue.waiting_requests.oldest(&self.store).expect("something waits");
        still &= !queue.update_prio(self.store.get(oldest));
        let weight = queue.effective_weight(now);
        let tree = &mut self.trees[queue.class.index()];
        tree.add(index, &mut queue.stamps, queue.budget, weight, still);
    }

    /// Whether nothing is sent until what is with the device has completed.
    fn waits_for_device(&self) -> bool {
        self.options.strict_guarantees && self.in_flight > 0
    }

    /// Whether the device idles for a process that has nothing waiting.
    fn better_to_idle(&self, index: usize) -> bool {
        if self.options.strict_guarantees {
            return true;
        }
        let queue = &self.queues[index];
        let goes_on = self.options.slice_idle > Nanos(0)
            && !queue.is_async
            && queue.class != PrioClass::Idle
            && queue.think_time_within(self.options.slice_idle);
        // If all processes weigh the same, this one is served again soon enough; on a disk that
        // would cost two seeks.
        goes_on && (self.rotational || self.raise_needs_idling(index) || self.is_asymmetric(index))
    }

    /// Whether a process whose weight is raised would lose what that gives it. It does not if the others
    /// are raised, too, as those of jobs that begin together: they are symmetric.
    fn raise_needs_idling(&self, index: usize) -> bool {
        let busy: usize = self.trees.iter().map(|tree| tree.backlogged.len()).sum();
        self.queues[index].is_raised && self.in_flight as usize >= busy + CROWDED
    }

    /// Whether another backlogged process has a class or weight other than this one's.
    fn is_asymmetric(&self, index: usize) -> bool {
        let counts = |index: usize| {
            let queue = &self.queues[index];
            (queue.class, queue.stamps.weight)
        };
        let mut others = self.trees.iter().flat_map(|tree| &tree.backlogged);
        others.any(|&other| counts(other) != counts(index))
    }

    /// The service slot at `now`, a new one if the last is over; or a queue to inject from, while
    /// the device idles.
    fn select_queue(&mut self, now: Nanos) -> Option<Source> {
        if let Some(service) = self.service {
            let queue = &self.queues[service.queue];
            let waits = queue.waiting_requests.len() > 0;
            // A slot times out only while requests wait, not while the device idles for its
            // process.
            if waits && now >= service.since + self.options.timeout_sync {
                self.expire(now, ExpireReason::BudgetTimeout);
            } else if waits {
                return Some(Source::InService(service));
            } else if self.better_to_idle(service.queue)
                && (queue.in_flight > 0 || service.idle_until.is_some_and(|until| now < until))
            {
                return self.queue_to_inject(service.queue).map(Source::Injected);
            } else {
                self.expire(now, ExpireReason::NoMoreRequests);
            }
        }
        let queues = &self.queues;
        let chosen = self.trees.iter_mut().find_map(|tree| tree.choose(|q| queues[q].stamps))?;
        let served = std::mem::take(&mut self.queues[chosen].injected);
        let service = Service { queue: chosen, since: now, served, fresh: true, idle_until: None };
        self.service = Some(service);
        Some(Source::InService(service))
    }

    /// A queue whose next request can be sent while the device idles for that of `idle`: first the
    /// asynchronous one of the same process, else that which B-WF2Q+ would finish first. On a disk
    /// only the former: the device idles there so that the head does not leave.
    fn queue_to_inject(&mut self, idle: usize) -> Option<usize> {
        let Queue { process, is_raised, inject_limit, .. } = self.queues[idle];
        let own = self.by_process.get(process).filter(|queues| queues[0] == Some(idle));
        if let Some(own) = own.and_then(|queues| queues[1])
            && self.queues[own].next_in_budget(&self.store, &self.options).is_some()
        {
            return Some(own);
        }
        let limit = inject_limit.commands;
        if self.rotational || self.in_flight >= limit {
            return None;
        }
        for tree in &self.trees {
            let mut soonest = None;
            for &index in &tree.backlogged {
                let queue = &mut self.queues[index];
                if is_raised && !queue.is_raised {
                    continue;
                }
                let next = queue.next_in_budget(&self.store, &self.options);
                let fits = next.is_some_and(|sectors| sectors < LARGE || self.in_flight == 0);
                let finish = (queue.stamps.finish, index);
                if fits && soonest.is_none_or(|soonest| finish < soonest) {
                    soonest = Some(finish);
                }
            }
            if let Some((_, index)) = soonest {
                self.sampling.injected = true;
                return Some(index);
            }
        }
        None
    }

    /// Sends a command of a queue that is not in service.
    fn inject(&mut self, index: usize) -> Option<Box<Request>> {
        let queue = &mut self.queues[index];
        let key = queue.next(&self.store, &self.options)?;
        let taken = queue.waiting_requests.take(&mut self.store, key, self.limit, true);
        queue.note_sent(&taken.request);
        let charge = queue.charge(taken.request.nr_sectors().into());
        queue.injected += charge;
        let tree = &mut self.trees[queue.class.index()];
        tree.served(charge);
        if queue.waiting_requests.len() == 0 {
            tree.remove(index, &queue.stamps);
            queue.stamps.end(std::mem::take(&mut queue.injected));
        }
        self.in_flight += 1;
        self.note_taken(taken)
    }

    /// Ends the service slot.
    fn expire(&mut self, now: Nanos, why: ExpireReason) {
        let Some(service) = self.service.take() else {
            return;
        };
        self.sampling.stop();
        let max_budget = self.max_budget();
        let queue = &mut self.queues[service.queue];
        self.trees[queue.class.index()].remove(service.queue, &queue.stamps);
        queue.stamps.end(service.served);
        // A process that uses up its budget in time gets a larger one, one that does not a smaller
        // one.
        queue.budget = match why {
            ExpireReason::BudgetExhausted => queue.budget * 4,
            ExpireReason::BudgetTimeout => queue.budget * 2,
            ExpireReason::NoMoreRequests => service.served,
        }
        .clamp(max_budget / 32, max_budget)
        .max(1);
        if queue.waiting_requests.len() > 0 {
            self.add_to_tree(service.queue, now, true);
        }
    }

    fn take(&mut self, service: Service, now: Nanos) -> Option<Box<Request>> {
        let queue = &mut self.queues[service.queue];
        // The oldest is checked once a slot: more often would upset the order of sectors.
        let expired = match service.fresh {
            true => queue.expired(&self.store, &self.options, now),
            false => None,
        };
        let key = expired.or_else(|| queue.next(&self.store, &self.options))?;
        let charge = queue.charge(self.store.get(key).nr_sectors().into());
        if service.served > 0 && service.served + charge > queue.budget {
            self.expire(now, ExpireReason::BudgetExhausted);
            return None;
        }
        let taken = queue.waiting_requests.take(&mut self.store, key, self.limit, true);
        self.note_sent(now, service, &taken.request);
        self.note_taken(taken)
    }

    /// Counts what no longer waits.
    fn note_taken(&mut self, taken: TakenCommand) -> Option<Box<Request>> {
        self.waiting -= 1 + taken.merged;
        self.merged[taken.request.prio().class().index()] += taken.merged as u64;
        Some(taken.request)
    }

    /// Notes that the queue in service sends a command.
    fn note_sent(&mut self, now: Nanos, service: Service, command: &Request) {
        let queue = &mut self.queues[service.queue];
        queue.note_sent(command);
        let charge = queue.charge(command.nr_sectors().into());
        self.trees[queue.class.index()].served(charge);
        let served = service.served + charge;
        self.service = Some(Service { served, fresh: false, ..service });
        self.sampling.sent(now);
        self.in_flight += 1;
    }

    /// The service slot in which a request or batch that has just come can be dispatched immediately: its queue is in service and empty, and the slot is not over.
    fn service_for(&mut self, now: Nanos, kind: &BatchKind) -> Option<Service> {
        let service = self.service?;
        if !self.first.is_empty() {
            return None;
        }
        let index = self.queue_of(kind.process, kind.is_async);
        let queue = &self.queues[index];
        let served = service.served + queue.charge(kind.sectors);
        let goes_on = index == service.queue
            && queue.waiting_requests.len() == 0
            && queue.class == kind.class
            && now < service.since + self.options.timeout_sync
            && served <= queue.budget
            && !self.waits_for_device();
        goes_on.then_some(service)
    }
}

impl Elevator for Bfq {
    fn insert(&mut self, now: Nanos, request: Box<Request>) {
        if request.op().direction() == Direction::None {
            return self.first.push_back(request);
        }
        let is_async = request.flags().contains(BioFlags::ASYNC);
        let index = self.queue_of(request.process(), is_async);
        let queue = &self.queues[index];
        let in_service = self.service.is_some_and(|service| service.queue == index);
        let wants = queue.waiting_requests.len() > 0;
        if in_service && !wants && queue.class != request.prio().class() {
            // It is to be served in another class.
            self.expire(now, ExpireReason::NoMoreRequests);
        }
        self.queues[index].waiting_requests.insert(&mut self.store, request);
        self.waiting += 1;
        if !wants {
            self.activate(index, now);
        }
    }

    fn dispatch(&mut self, now: Nanos, _flight: &InFlight) -> Option<Box<Request>> {
        if let Some(request) = self.first.pop_front() {
            return Some(request);
        }
        if self.waiting == 0 || self.waits_for_device() {
            return None;
        }
        loop {
            let request = match self.select_queue(now)? {
                Source::InService(service) => self.take(service, now),
                Source::Injected(queue) => self.inject(queue),
            };
            if request.is_some() {
                return request;
            }
        }
    }

    fn insert_and_dispatch(
        &mut self,
        now: Nanos,
        request: Box<Request>,
        flight: &InFlight,
    ) -> Option<Box<Request>> {
        let is_first = request.op().direction() == Direction::None;
        let service = if is_first { None } else { self.service_for(now, &BatchKind::of(&request)) };
        let Some(service) = service else {
            self.insert(request.queued_at(), request);
            return self.dispatch(now, flight);
        };
        self.wake(service.queue, request.queued_at());
        self.note_sent(now, Service { idle_until: None, ..service }, &request);
        Some(request)
    }

    fn takes_batch(&mut self, now: Nanos, kind: &BatchKind) -> Option<BatchOrder> {
        if self.waiting > 0 {
            return None;
        }
        let service = self.service_for(now, kind)?;
        self.wake(service.queue, now);
        let queue = &self.queues[service.queue];
        let charge = queue.charge(kind.sectors);
        self.trees[queue.class.index()].served(charge);
        let served = service.served + charge;
        self.service = Some(Service { served, fresh: false, idle_until: None, ..service });
        self.sampling.sent(now);
        Some(BatchOrder::SectorsFrom(Sector(self.queues[service.queue].position)))
    }

    fn sent_batch(&mut self, _kind: &BatchKind, commands: u32, end: Sector) {
        let service = self.service.as_ref().expect("the batch was taken in a slot");
        let queue = &mut self.queues[service.queue];
        queue.position = end.0;
        queue.in_flight += commands;
        self.in_flight += commands;
    }

    fn can_take_batches(&self) -> bool {
        // With strict guarantees one command is with the device at a time; on a disk the nearest comes
        // first, also if it lies behind.
        !self.options.strict_guarantees && !self.rotational
    }

    fn completed(&mut self, end: &CompletedRequest) {
        if end.op.direction() == Direction::None {
            return;
        }
        let index = self.queue_of(end.process, end.is_async);
        let queue = &mut self.queues[index];
        self.sampling.note_in_flight(self.in_flight);
        if self.service.is_some_and(|service| service.queue == index) {
            let limit = &mut queue.inject_limit;
            // The first of those that are alike ends the measurement.
            self.sampling.completed(limit, end.at, end.sent_at, self.in_flight);
        }
        for _ in 0..end.count {
            self.in_flight -= 1;
            self.rate.ended(end, self.in_flight > 0, self.options.timeout_sync);
        }
        queue.in_flight -= end.count;
        if queue.in_flight > 0 || queue.waiting_requests.len() > 0 {
            return;
        }
        queue.becomes_idle(end.at);
        if let Some(service) = &mut self.service
            && service.queue == index
        {
            service.idle_until = Some(end.at + self.options.slice_idle);
        }
    }

    fn wants_completions(&self) -> bool {
        true
    }

    fn is_by_process(&self) -> bool {
        true
    }

    fn next_event(&self) -> Option<Nanos> {
        self.service?.idle_until.filter(|_| !self.waits_for_device())
    }

    fn len(&self) -> usize {
        self.first.len() + self.waiting
    }

    fn merged(&self) -> [u64; 3] {
        self.merged
    }

    fn forget(&mut self, process: u32) {
        let process = process as usize;
        if let Some(queues) = self.by_process.get_mut(process) {
            self.left.extend(std::mem::take(queues).into_iter().flatten());
        }
        if let Some(weight) = self.weights.get_mut(process) {
            *weight = None;
        }
    }

    fn set_weight(&mut self, process: u32, weight: u16) {
        let index = process as usize;
        if index >= self.weights.len() {
            self.weights.resize(index + 1, None);
        }
        self.weights[index] = Some(weight);
        let queues = self.by_process.get(index).into_iter().flatten().flatten();
        for &queue in queues {
            self.queues[queue].set_weight(weight);
        }
    }
}
