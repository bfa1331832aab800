//! The interface of schedulers.
//!
//! A scheduler is a plain type without locks and without a clock, used by one thread at a time.
//! Each request that is inserted is dispatched once, itself or merged after another.
use crate::bio::{BioFlags, PrioClass};
use crate::op::Op;
use crate::request::Request;
use crate::units::{Nanos, Sector, ZoneNo};

/// A scheduler (`struct elevator_mq_ops`, Linux 6.12).
pub(super) trait Elevator: Send {
    /// Inserts a request. Requests come in the order of [`Request::queued_at`].
    fn insert(&mut self, now: Nanos, request: Box<Request>);

    /// Returns the request to send next, if one may be sent now.
    fn dispatch(&mut self, now: Nanos, flight: &InFlight) -> Option<Box<Request>>;

    /// [`Elevator::insert`], then [`Elevator::dispatch`], for a scheduler that can do both in one step at
    /// less cost.
    fn insert_and_dispatch(
        &mut self,
        now: Nanos,
        request: Box<Request>,
        flight: &InFlight,
    ) -> Option<Box<Request>> {
        self.insert(request.queued_at(), request);
        self.dispatch(now, flight)
    }

    /// Whether a batch can go to the device immediately, because its requests would be sent one after the
    /// other, and nothing else between them. Returns their order. If so, the scheduler counts on it, and
    /// [`Elevator::sent_batch`] follows.
    fn takes_batch(&mut self, _now: Nanos, _kind: &BatchKind) -> Option<BatchOrder> {
        None
    }

    /// The batch was sent in this many commands, with requests merged; `end` is where the last one ends.
    fn sent_batch(&mut self, _kind: &BatchKind, _commands: u32, _end: Sector) {}

    /// Whether [`Elevator::takes_batch`] may be true.
    fn can_take_batches(&self) -> bool {
        false
    }

    /// Requests that are alike have completed. Need not be called unless
    /// [`Elevator::wants_completions`].
    fn completed(&mut self, _end: &CompletedRequest) {}

    /// Whether the scheduler uses completions.
    fn wants_completions(&self) -> bool {
        false
    }

    /// Whether it treats requests by process, length and [`BioFlags::ASYNC`]. If not, a [`BatchKind`] or a
    /// [`CompletedRequest`] may stand for requests that differ in these, and has those of the first.
    fn is_by_process(&self) -> bool {
        false
    }

    /// When [`Elevator::dispatch`] may return a request even if nothing is inserted or completes until
    /// then; `None` if time alone changes nothing.
    fn next_event(&self) -> Option<Nanos>;

    /// Requests inside.
    fn len(&self) -> usize;

    /// Whether nothing waits.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Requests that were merged after another, by class.
    fn merged(&self) -> [u64; 3];

    /// Forgets what is known of a process of which nothing is inside: its number now belongs to another process.
    fn forget(&mut self, _process: u32) {}

    /// Sets the weight of a process, 1 to 1000.
    fn set_weight(&mut self, _process: u32, _weight: u16) {}
}

/// Commands in flight, as far as schedulers distinguish them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct InFlight {
    /// Commands by priority class.
    pub by_class: [u64; 3],
    /// Commands that are not reads.
    pub not_reads: u64,
}

impl InFlight {
    /// A request has been sent.
    pub fn sent(&mut self, request: &Request) {
        self.by_class[request.prio().class().index()] += 1;
        self.not_reads += u64::from(request.op() != Op::Read);
    }
}

/// The order in which a scheduler takes a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BatchOrder {
    /// The order in which the requests came.
    Arrival,
    /// The order of sectors, from this one on.
    SectorsFrom(Sector),
}

/// The properties of completed requests that a scheduler needs; they are alike in these.
#[derive(Clone, Copy, Debug)]
pub(super) struct CompletedRequest {
    /// How many they are.
    pub count: u32,
    /// When.
    pub at: Nanos,
    /// When the request came to the scheduler.
    pub queued_at: Nanos,
    /// When it was sent to the device.
    pub sent_at: Nanos,
    /// The process that the request came from.
    pub process: u32,
    /// Length of each in sectors.
    pub nr_sectors: u32,
    /// Its operation.
    pub op: Op,
    /// Its priority class.
    pub class: PrioClass,
    /// Whether it was asynchronous ([`BioFlags::ASYNC`]).
    pub is_async: bool,
    /// Its zone.
    pub zone: ZoneNo,
}

impl CompletedRequest {
    /// How long the request took in the scheduler and at the device. Zero if the clocks of two threads
    /// disagree about the order.
    pub fn total(&self) -> Nanos {
        Nanos(self.at.0.saturating_sub(self.queued_at.0))
    }

    /// How long the request took at the device.
    pub fn at_device(&self) -> Nanos {
        Nanos(self.at.0.saturating_sub(self.sent_at.0))
    }

    /// `request` completed at `at`.
    pub fn new(at: Nanos, request: &Request) -> Self {
        CompletedRequest {
            count: 1,
            at,
            queued_at: request.queued_at(),
            sent_at: request.sent_at(),
            process: request.process(),
            nr_sectors: request.nr_sectors(),
            op: request.op(),
            class: request.prio().class(),
            is_async: request.flags().contains(BioFlags::ASYNC),
            zone: request.zone(),
        }
    }

    /// Whether a request that completes at the same time is like these for a scheduler that
    /// [treats requests by process](Elevator::is_by_process) or does not. The zone of a read is nobody's
    /// concern.
    #[inline]
    pub fn is_like(&self, request: &Request, by_process: bool) -> bool {
        self.queued_at == request.queued_at()
            && self.sent_at == request.sent_at()
            && self.op == request.op()
            && self.class == request.prio().class()
            && (self.op == Op::Read || self.zone == request.zone())
            && (!by_process
                || self.process == request.process()
                    && self.nr_sectors == request.nr_sectors()
                    && self.is_async == request.flags().contains(BioFlags::ASYNC))
    }
}

/// The properties that the requests of a batch have in common, or those of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BatchKind {
    /// The process that they came from.
    pub process: u32,
    /// Whether they are asynchronous ([`BioFlags::ASYNC`]).
    pub is_async: bool,
    /// Their priority class.
    pub class: PrioClass,
    /// Their operations as a set: a bit for each.
    pub ops: u16,
    /// How many they are.
    pub requests: u32,
    /// Their length in all.
    pub sectors: u64,
}

impl BatchKind {
    /// The kind of one request.
    pub fn of(request: &Request) -> Self {
        BatchKind {
            process: request.process(),
            is_async: request.flags().contains(BioFlags::ASYNC),
            class: request.prio().class(),
            ops: request.op().bit(),
            requests: 1,
            sectors: request.nr_sectors().into(),
        }
    }
}

/// The limit on merging requests into commands. Requests are merged when they are dispatched:
/// neighbours are then side by side in the order of sectors, and insertion searches nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MergeLimit {
    /// The longest command in sectors; 0 for no merging.
    pub max_sectors: u32,
}

impl MergeLimit {
    /// Whether `back` can follow `front` in one command. A write that holds its zone's plug
    /// cannot: the plug lets one through at a time and has merged what waits there already.
    pub(crate) fn joins(self, front: &Request, back: &Request) -> bool {
        front.can_append(back, self.max_sectors)
            && matches!(front.op(), Op::Read | Op::Write)
            && front.zone() == back.zone()
            && front.prio() == back.prio()
            && !front.plugged
            && !back.plugged
    }

    /// Whether a request that begins at `sector` can be the front of one at `next`, as far as the
    /// sectors say.
    pub(super) fn reaches(self, sector: u64, next: u64) -> bool {
        next - sector < u64::from(self.max_sectors)
    }
}
