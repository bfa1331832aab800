//! The drive: a link that takes commands and data, and a head that reads and writes.
//!
//! ```text
//!   commands --> queue --> link: overhead, data piece by piece --> buffer --> head: seek, rotate,
//!                           ^    waits for room in the buffer                 |     transfer
//!                           +------------- reads whose data are here <--------+
//! ```
//!
//! Link and head are each idle or in a step whose end is known. Steps are processed in the order of
//! their ends, so it makes no difference how often and how late the drive is polled.
use super::config::HddConfig;
use super::head::Head;
use super::link::Link;
use super::state::{Counters, DiskShared, Medium, byte_range};
use super::trace::{HeadState, HeadTraceSink, TraceEntry};
use crate::control::Lateness;
use zonal_blk::{Nanos, Op, Request, Status};

/// Link, head and memory of a drive.
pub(super) struct Drive {
    shared: DiskShared,
    link: Link,
    head: Head,
    lateness: Lateness,
}

/// The time of the next event; `u64::MAX` for never.
pub(super) struct Upcoming {
    /// When the drive has something to do.
    pub(super) step: u64,
    /// When a command may complete, as far as is known without looking beyond the next step.
    pub(super) event: u64,
    /// The time before which none completes unless others are started.
    pub(super) completion: u64,
}

impl Drive {
    /// A drive at rest, its head over the first byte. `trace` is the length of its trace.
    pub(super) fn new(config: &HddConfig, trace: Option<usize>) -> Self {
        Drive {
            shared: DiskShared::new(config),
            link: Link::new(config),
            head: Head::new(config, trace),
            lateness: Lateness::default(),
        }
    }

    /// The drive's counts so far: times are those that have passed, in the middle of a step too.
    pub(super) fn counters(&self) -> Counters {
        let mut counters = self.shared.counters;
        counters.idle_time.0 += self.head.idle_time(self.shared.now);
        let [seek, rotation, transfer] = self.head.to_come(self.shared.now);
        counters.seek_time.0 -= seek;
        counters.rotate_time.0 -= rotation;
        counters.transfer_time.0 -= transfer;
        counters
    }

    /// Commands that completed late.
    pub(super) fn lateness(&self) -> Lateness {
        self.lateness
    }

    /// The activities of the head.
    pub(super) fn trace(&self) -> &[TraceEntry] {
        self.head.trace()
    }

    /// Where the head is.
    pub(super) fn head(&self) -> HeadState {
        self.head.state()
    }

    /// Sends the activities of the head to `sink` from now on.
    pub(super) fn trace_to(&mut self, sink: HeadTraceSink) {
        self.head.trace_to(sink);
    }

    /// Bytes and commands in the write buffer.
    pub(super) fn buffered(&self) -> (u64, u32) {
        (self.shared.buffer.bytes(), self.shared.buffer.commands())
    }

    /// Accepts a command.
    pub(super) fn start(&mut self, now: Nanos, request: Box<Request>, medium: &Medium) {
        self.advance(now, medium);
        let shared = &mut self.shared;
        if request.op() == Op::Read {
            let (start, end) = byte_range(&request);
            if shared.buffer.holds(start, end) || shared.segments.hit(start, end) {
                shared.counters.cache_hits += 1;
                shared.responses.push_back(request);
            } else {
                shared.reads.push((shared.now, request));
            }
            self.head.wake(shared, self.link.needs_writes());
        } else {
            self.link.enqueue(request);
        }
        self.link.wake(shared);
    }

    /// Processes all steps up to `now` and appends the commands that have completed to `done`.
    pub(super) fn poll(&mut self, now: Nanos, done: &mut Vec<Box<Request>>, medium: &Medium) {
        self.advance(now, medium);
        if !self.shared.done.is_empty() {
            done.append(&mut self.shared.done);
        }
    }

    /// The next event.
    #[inline]
    pub(super) fn upcoming(&mut self, medium: &Medium) -> Upcoming {
        let (mut step, mut event, mut completion) = (u64::MAX, u64::MAX, u64::MAX);
        if !self.shared.done.is_empty() {
            (step, event, completion) = (0, self.shared.now, self.shared.now);
        } else if let Some(next) = self.next_step() {
            step = next;
            if self.has_outstanding() {
                (event, completion) = (next, self.next_completion(next, medium));
            }
        }
        Upcoming { step, event, completion }
    }

    /// Nothing was due until this time, as [`Drive::due`] had said.
    #[inline]
    pub(super) fn was_idle_until(&mut self, polled: Nanos) {
        self.shared.now = self.shared.now.max(polled.0);
    }

    /// Whether the host waits for a command.
    #[inline]
    fn has_outstanding(&self) -> bool {
        self.link.is_busy()
            || self.link.has_commands()
            || self.head.is_reading()
            || !self.shared.reads.is_empty()
            || self.shared.buffer.has_waiting_commands()
    }

    /// The time before which no command completes unless others are started; `step` is that of the next
    /// step, and nothing is done.
    #[inline]
    fn next_completion(&mut self, step: u64, medium: &Medium) -> u64 {
        let shared = &self.shared;
        // The head may have a command complete, or the link go on.
        let needs_head = self.head.is_reading()
            || !shared.reads.is_empty()
            || shared.buffer.has_waiting_commands()
            || self.link.needs_writes();
        let link = if needs_head { None } else { self.link.completes_at(medium) };
        link.unwrap_or(step)
    }

    #[inline]
    fn next_step(&self) -> Option<u64> {
        match (self.link.step_end(), self.head.step_end()) {
            (Some(link), Some(head)) => Some(link.min(head)),
            (link, head) => link.or(head),
        }
    }

    /// Completes all work immediately.
    pub(super) fn drain(&mut self, medium: &Medium) {
        let now = self.shared.now;
        while let Some(step) = self.next_step() {
            self.advance(Nanos(step), medium);
        }
        self.shared.now = now;
        self.head.drained(now);
    }

    /// The disk was formatted with another layout; the drive has been drained.
    pub(super) fn lay_out(&mut self, config: &HddConfig) {
        self.head.lay_out(config);
        self.shared.forget_reads(config);
    }

    /// Completes a command without executing it.
    pub(super) fn refuse(&mut self, mut request: Box<Request>, status: Status) {
        request.refuse(status);
        self.shared.done.push(request);
    }

    #[inline]
    fn advance(&mut self, now: Nanos, medium: &Medium) {
        while let Some(step) = self.next_step()
            && step <= now.0
        {
            self.step(step, now, medium);
        }
        // Two threads may read slightly different clocks.
        self.shared.now = self.shared.now.max(now.0);
    }

    /// Finishes the step that ends at `step`. The drive is polled at `now`.
    fn step(&mut self, step: u64, now: Nanos, medium: &Medium) {
        self.shared.now = step;
        let completed = self.shared.done.len();
        if self.link.step_end() == Some(step) {
            self.link.step(&mut self.shared, &mut self.head, medium);
        } else if self.head.step(&mut self.shared, self.link.needs_writes()) {
            self.link.wake(&mut self.shared);
        }
        let completed = self.shared.done.len() - completed;
        self.lateness.count(completed as u64, Nanos(step), now);
    }
}
