//! The drive at work: a link that takes commands and data, a head that reads and writes.
//!
//! Takes commands, and the time; gives commands back when they are done. Keeps true: nothing is
//! written before it has come over the link; a command that has come is given back once.
//!
//! ```text
//!   commands --> queue --> link: overhead, data piece by piece --> buffer --> head: seek, turn,
//!                           ^    waits for room in the buffer                 |     transfer
//!                           +------------- reads that are here <--------------+
//! ```
//!
//! Link and head each are in the middle of a step with a known end, or have nothing to do. Steps
//! are worked off in the order of their ends, so it makes no difference how often, and how late,
//! the drive is looked at.
use super::buffer::{Buffer, RunId};
use super::config::{HddConfig, Order};
use super::geometry::Geometry;
use super::head::{Head, Position};
use super::link::{CurrentCommand, Link};
use super::seek::SeekCurve;
use super::segments::Segments;
use super::trace::{Counters, Trace, TraceEntry};
use crate::rng::Rng;
use std::collections::VecDeque;
use zonal_blk::{Nanos, Op, Request};

/// What a command does beyond taking time.
pub(super) trait CommandExecutor {
    /// Checks the request, does it to zones and data, and sets its status.
    fn execute(&self, request: &mut Request);
    /// The first byte of the request's zone, and that behind its last.
    fn zone(&self, request: &Request) -> (u64, u64);
}

/// Mechanics, memory and queues of a drive. Times are in nanoseconds, addresses in bytes.
pub(super) struct Drive {
    // What it is like.
    pub(super) geometry: Geometry,
    pub(super) curve: SeekCurve,
    pub(super) capacity: u64,
    pub(super) link_rate: u64,
    pub(super) command: u64,
    pub(super) piece: u64,
    pub(super) stay: u64,
    pub(super) reserve: u64,
    /// However many commands wait, one piece can arrive while another is written.
    pub(super) max_reserved: u64,
    pub(super) order: Order,
    pub(super) max_age: u64,
    pub(super) write_cache: bool,
    pub(super) reset: u64,
    pub(super) finish: u64,
    pub(super) error_rate: u64,
    pub(super) max_retries: u64,
    pub(super) rng: Rng,
    // Commands.
    /// All but reads, in the order in which they take effect. The first is on the link.
    pub(super) queue: VecDeque<Box<Request>>,
    pub(super) current_command: CurrentCommand,
    /// The shares of all in the queue in the buffer.
    pub(super) reserved: u64,
    /// Reads that need the head, and when they came.
    pub(super) reads: Vec<(u64, Box<Request>)>,
    /// Reads whose data are here.
    pub(super) responses: VecDeque<Box<Request>>,
    pub(super) done: Vec<Box<Request>>,
    // Memory.
    pub(super) buffer: Buffer,
    pub(super) segments: Segments,
    // What goes on.
    pub(super) now: u64,
    pub(super) link: Link,
    pub(super) link_until: u64,
    pub(super) head: Head,
    /// When the head's step ends; if it has nothing to do, when its last one ended.
    pub(super) head_until: u64,
    pub(super) position: Position,
    /// The run that the head is at, while it writes.
    pub(super) current: Option<RunId>,
    /// How long it has been writing there.
    pub(super) spent: u64,
    /// How long data pass under the head in the present step.
    pub(super) transfer: u64,
    /// The present step reads what cannot be read.
    pub(super) gave_up: bool,
    pub(super) counters: Counters,
    pub(super) trace: Option<Trace>,
}

/// The bytes that a request covers.
pub(super) fn bytes(request: &Request) -> (u64, u64) {
    (request.sector().to_bytes().0, request.end().to_bytes().0)
}

impl Drive {
    /// A drive at rest, its head over the first byte. `trace` is the length of its record.
    pub(super) fn new(config: &HddConfig, trace: Option<usize>) -> Self {
        let geometry = Geometry::new(config);
        let depth = usize::from(config.queue_depth());
        Drive {
            curve: SeekCurve::new(config),
            capacity: config.capacity().0,
            link_rate: config.link_rate,
            command: config.command.0,
            piece: config.piece.0,
            stay: config.stay.into(),
            reserve: config.reserve.0,
            max_reserved: config.cache.0.saturating_sub(2 * config.piece.0),
            order: config.order,
            max_age: config.max_age.0,
            write_cache: config.write_cache,
            reset: config.reset.0,
            finish: config.finish.0,
            error_rate: config.error_rate.into(),
            max_retries: config.retries.into(),
            rng: Rng::new(config.seed),
            queue: VecDeque::with_capacity(depth),
            current_command: CurrentCommand::default(),
            reserved: 0,
            reads: Vec::with_capacity(depth),
            responses: VecDeque::with_capacity(depth),
            done: Vec::with_capacity(depth),
            buffer: Buffer::new(config.cache.0, config.cache_commands),
            segments: Segments::new(config.segments as usize, config.read_ahead.0),
            now: 0,
            link: Link::Idle,
            link_until: 0,
            head: Head::Idle,
            head_until: 0,
            position: Position { at: 0, place: geometry.locate(0) },
            current: None,
            spent: 0,
            transfer: 0,
            gave_up: false,
            counters: Counters::default(),
            trace: trace.map(Trace::new),
            geometry,
        }
    }

    /// What it has done so far.
    pub(super) fn counters(&self) -> Counters {
        let mut counters = self.counters;
        if matches!(self.head, Head::Idle) {
            counters.idle_time.0 += self.now - self.head_until;
        }
        counters
    }

    /// What the head did.
    pub(super) fn trace(&self) -> &[TraceEntry] {
        self.trace.as_ref().map_or(&[], Trace::entries)
    }

    /// What waits in the buffer: bytes, and commands.
    pub(super) fn buffered(&self) -> (u64, u32) {
        (self.buffer.bytes(), self.buffer.commands())
    }

    /// Takes a command.
    pub(super) fn start(
        &mut self,
        now: Nanos,
        request: Box<Request>,
        execute: &impl CommandExecutor,
    ) {
        self.advance(now, execute);
        if request.op() == Op::Read {
            let (start, end) = bytes(&request);
            if self.buffer.holds(start, end) || self.segments.hit(start, end) {
                self.counters.cache_hits += 1;
                self.responses.push_back(request);
            } else {
                self.reads.push((self.now, request));
            }
            self.wake_head();
        } else {
            self.enqueue(request);
        }
        self.wake_link();
    }

    /// Works off all steps up to `now`; gives the commands that are done by then.
    pub(super) fn poll(
        &mut self,
        now: Nanos,
        done: &mut Vec<Box<Request>>,
        execute: &impl CommandExecutor,
    ) {
        self.advance(now, execute);
        done.append(&mut self.done);
    }

    /// When a command may be done next; `None` if the host waits for none.
    pub(super) fn next_event(&self) -> Option<Nanos> {
        if !self.done.is_empty() {
            return Some(Nanos(self.now));
        }
        let awaited = self.link.is_busy()
            || matches!(self.head, Head::Read(..))
            || !self.queue.is_empty()
            || !self.reads.is_empty()
            || self.buffer.has_waiting_commands();
        self.next_step().filter(|_| awaited).map(Nanos)
    }

    fn next_step(&self) -> Option<u64> {
        let link = self.link.is_busy().then_some(self.link_until);
        let head = (!matches!(self.head, Head::Idle)).then_some(self.head_until);
        link.into_iter().chain(head).min()
    }

    /// Works off all that there is to do, now.
    pub(super) fn drain(&mut self, execute: &impl CommandExecutor) {
        let now = self.now;
        while let Some(step) = self.next_step() {
            self.advance(Nanos(step), execute);
        }
        self.now = now;
        self.head_until = now;
    }

    fn advance(&mut self, now: Nanos, execute: &impl CommandExecutor) {
        while let Some(step) = self.next_step()
            && step <= now.0
        {
            self.now = step;
            if self.link.is_busy() && self.link_until == step {
                self.link_step(execute);
            } else {
                self.head_step();
            }
        }
        // The clocks of two threads can differ a little.
        self.now = self.now.max(now.0);
    }
}
