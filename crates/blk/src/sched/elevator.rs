//! What every scheduler does, and what it is told.
//!
//! Takes requests; gives them back in its own order. A scheduler is a plain type without locks and
//! without a clock: it is used by one thread at a time and told the time. Keeps true: each request
//! that goes in comes out once, itself or merged behind another.
use super::mq_deadline::ZoneLocks;
use super::prio::PrioClass;
use crate::bio::{BioFlags, Op};
use crate::request::Request;
use crate::units::{Nanos, ZoneNo};

/// A scheduler (`struct elevator_mq_ops`, Linux 6.12).
pub trait Elevator: Send {
    /// Takes in a request. When it came to the scheduler is in the request
    /// ([`Request::queued_at`]); requests come in the order of those times.
    fn insert(&mut self, now: Nanos, request: Box<Request>);

    /// Gives the request to send next, if it is anybody's turn.
    fn dispatch(&mut self, now: Nanos, flight: &InFlight) -> Option<Box<Request>>;

    /// Takes in a request and gives the one to send next: [`Elevator::insert`], then
    /// [`Elevator::dispatch`], for a scheduler that can do both at once at less cost.
    fn insert_and_dispatch(
        &mut self,
        now: Nanos,
        request: Box<Request>,
        flight: &InFlight,
    ) -> Option<Box<Request>> {
        self.insert(request.queued_at(), request);
        self.dispatch(now, flight)
    }

    /// Notes that a request has ended. Need not be called unless
    /// [`Elevator::wants_completions`].
    fn completed(&mut self, _end: &CompletedRequest) {}

    /// Whether the scheduler decides by what has ended.
    fn wants_completions(&self) -> bool {
        false
    }

    /// When [`Elevator::dispatch`] may give something though nothing was inserted and nothing has
    /// ended since it last gave nothing; `None` if time alone changes nothing.
    fn next_event(&self) -> Option<Nanos>;

    /// Requests inside.
    fn len(&self) -> usize;

    /// Whether nothing waits.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Requests that went on merged behind another, by class.
    fn merged(&self) -> [u64; 3];

    /// Forgets what is known of a process of which nothing is inside: its number is now another's.
    fn forget(&mut self, _process: u32) {}

    /// Sets a process's share of the device, 1 to 1000.
    fn set_weight(&mut self, _process: u32, _weight: u16) {}

    /// Holds writes back by zone from now on, or no longer. Only for a scheduler that said it can.
    fn set_zone_locks(&mut self, zones: Option<ZoneLocks>) {
        assert!(zones.is_none(), "the scheduler has no zone write locking");
    }
}

/// What is with the device, by what schedulers tell apart. Who sends the requests knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InFlight {
    /// Commands by priority class.
    pub by_class: [u64; 3],
    /// Commands that are not reads.
    pub not_reads: u64,
}

impl InFlight {
    /// Notes that a request has been sent.
    pub fn sent(&mut self, request: &Request) {
        self.by_class[request.prio().class.index()] += 1;
        self.not_reads += u64::from(request.op() != Op::Read);
    }

    /// Notes that a request has ended.
    pub fn completed(&mut self, request: &Request) {
        self.by_class[request.prio().class.index()] -= 1;
        self.not_reads -= u64::from(request.op() != Op::Read);
    }
}

/// The end of a request, as far as a scheduler wants to know it.
#[derive(Clone, Copy, Debug)]
pub struct CompletedRequest {
    /// When.
    pub at: Nanos,
    /// When the request came to the scheduler.
    pub queued_at: Nanos,
    /// When it was sent to the device.
    pub sent_at: Nanos,
    /// The process that the request came from.
    pub process: u32,
    /// Length in sectors.
    pub nr_sectors: u32,
    /// What it was.
    pub op: Op,
    /// Its class.
    pub class: PrioClass,
    /// Whether nobody waited for it.
    pub is_async: bool,
    /// Its zone.
    pub zone: ZoneNo,
}

impl CompletedRequest {
    /// How long the request took in the scheduler and at the device. Threads read their clocks at
    /// different times, so a start may seem to lie after the end.
    pub fn total(&self) -> Nanos {
        Nanos(self.at.0.saturating_sub(self.queued_at.0))
    }

    /// How long the request took at the device.
    pub fn at_device(&self) -> Nanos {
        Nanos(self.at.0.saturating_sub(self.sent_at.0))
    }

    /// The end of `request` at `at`.
    pub fn new(at: Nanos, request: &Request) -> Self {
        CompletedRequest {
            at,
            queued_at: request.queued_at(),
            sent_at: request.sent_at(),
            process: request.process(),
            nr_sectors: request.nr_sectors(),
            op: request.op(),
            class: request.prio().class,
            is_async: request.flags().contains(BioFlags::ASYNC),
            zone: request.zone(),
        }
    }
}

/// How a scheduler treats an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpClass {
    /// Before all others, in the order they came: flushes and zone management, which have no place
    /// among the sectors and which somebody waits for.
    First,
    Read,
    Write,
}

impl OpClass {
    pub(super) const fn of(op: Op) -> OpClass {
        match op {
            Op::Read => OpClass::Read,
            Op::Write | Op::WriteZeroes | Op::ZoneAppend | Op::Discard => OpClass::Write,
            Op::Flush
            | Op::ZoneOpen
            | Op::ZoneClose
            | Op::ZoneFinish
            | Op::ZoneReset
            | Op::ZoneResetAll => OpClass::First,
        }
    }
}
