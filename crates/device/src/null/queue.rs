//! The hardware queues of the null device: when a command executes, and in which order.
//!
//! A command executes in `poll`, when it is due, never in `start`, and **commands of a queue that
//! are due together execute newest first**. NVMe guarantees no order among outstanding commands
//! (NVMe Base 2.0, section 3.4.1); a host that relies on one fails here with its second write in
//! flight to a zone.
//!
//! Without latency a command is due at the next poll, so all commands started since the last poll
//! are due together. With latency a command is due at its start time plus latency plus jitter;
//! commands due at different times execute in the order of those times, however late the poll.
//!
//! The block layer never exceeds the queue depth, so no queue refuses a command.
use super::NullDevice;
use crate::control::Lateness;
use crate::rng::Rng;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use zonal_blk::{HwQueue, Nanos, Request, Wake};

/// A queue of a device without latency.
pub(super) struct Immediate {
    device: Arc<NullDevice>,
    pending: Vec<Box<Request>>,
}

impl Immediate {
    pub(super) fn new(device: Arc<NullDevice>) -> Self {
        Immediate { device, pending: Vec::new() }
    }
}

impl HwQueue for Immediate {
    #[inline]
    fn start(&mut self, _now: Nanos, request: Box<Request>) -> Result<(), Box<Request>> {
        self.device.prefetch(&request);
        self.pending.push(request);
        Ok(())
    }

    #[inline]
    fn poll(&mut self, _now: Nanos, done: &mut Vec<Box<Request>>) {
        while let Some(mut request) = self.pending.pop() {
            self.device.execute(&mut request);
            done.push(request);
        }
    }

    fn next_event(&self) -> Wake {
        if self.pending.is_empty() { Wake::Idle } else { Wake::Now }
    }
}

/// A queue of a device with the same latency for every command.
pub(super) struct Constant {
    device: Arc<NullDevice>,
    latency: Nanos,
    /// By due time, which is the order in which they were started.
    pending: VecDeque<(Nanos, Box<Request>)>,
}

impl Constant {
    pub(super) fn new(device: Arc<NullDevice>, latency: Nanos) -> Self {
        Constant { device, latency, pending: VecDeque::new() }
    }
}

impl Constant {
    /// Executes the commands that are due first, at this time, newest first. Returns their number.
    #[inline]
    fn execute_due_at(&mut self, due: Nanos, done: &mut Vec<Box<Request>>) -> u64 {
        let is_alone = self.pending.get(1).is_none_or(|&(next, _)| next != due);
        if is_alone && let Some((_, mut request)) = self.pending.pop_front() {
            self.device.execute(&mut request);
            done.push(request);
            return 1;
        }
        let together = self.pending.partition_point(|&(d, _)| d == due);
        for (_, mut request) in self.pending.drain(..together).rev() {
            self.device.execute(&mut request);
            done.push(request);
        }
        together as u64
    }
}

impl HwQueue for Constant {
    fn start(&mut self, now: Nanos, request: Box<Request>) -> Result<(), Box<Request>> {
        let due = now.saturating_add(self.latency);
        // Two threads that share the queue may read slightly different clocks.
        let last = self.pending.back().map_or(due, |&(due, _)| due);
        self.pending.push_back((due.max(last), request));
        Ok(())
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Box<Request>>) {
        let mut lateness = Lateness::default();
        while let Some(&(due, _)) = self.pending.front()
            && due <= now
        {
            lateness.count(self.execute_due_at(due, done), due, now);
        }
        self.device.count(lateness);
    }

    fn next_event(&self) -> Wake {
        self.pending.front().map_or(Wake::Idle, |&(due, _)| Wake::At(due))
    }
}

/// A queue of a device with random latency.
pub(super) struct Jittered {
    device: Arc<NullDevice>,
    latency: Nanos,
    jitter: Nanos,
    rng: Rng,
    pending: BinaryHeap<Timed>,
    started: u64,
}

impl Jittered {
    pub(super) fn new(device: Arc<NullDevice>, latency: Nanos, jitter: Nanos, rng: Rng) -> Self {
        Jittered { device, latency, jitter, rng, pending: BinaryHeap::new(), started: 0 }
    }
}

impl HwQueue for Jittered {
    fn start(&mut self, now: Nanos, request: Box<Request>) -> Result<(), Box<Request>> {
        let extra = self.rng.below(self.jitter.0);
        let due = now.saturating_add(self.latency).saturating_add(Nanos(extra));
        self.started += 1;
        let number = self.started;
        self.pending.push(Timed { due, number, request });
        Ok(())
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Box<Request>>) {
        let mut lateness = Lateness::default();
        while let Some(first) = self.pending.peek()
            && first.due <= now
            && let Some(Timed { due, mut request, .. }) = self.pending.pop()
        {
            self.device.execute(&mut request);
            done.push(request);
            lateness.count(1, due, now);
        }
        self.device.count(lateness);
    }

    fn reopen(&mut self) {
        self.rng = self.device.next_rng();
    }

    fn next_event(&self) -> Wake {
        self.pending.peek().map_or(Wake::Idle, |first| Wake::At(first.due))
    }
}

/// A command in a max-heap: greatest is the earliest due, and among those the newest.
struct Timed {
    due: Nanos,
    /// Counts the commands of the queue.
    number: u64,
    request: Box<Request>,
}

impl Ord for Timed {
    fn cmp(&self, other: &Self) -> Ordering {
        let earlier = other.due.cmp(&self.due);
        earlier.then(self.number.cmp(&other.number))
    }
}

impl PartialOrd for Timed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Timed {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Timed {}
