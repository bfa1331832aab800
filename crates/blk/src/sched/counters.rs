//! What went through a scheduler, by priority class.
use super::elevator::InFlight;
use super::prio::PrioClass;
use crate::bio::Op;
use crate::request::Request;
use crate::sync::{AtomicU64, Ordering};

/// The requests of one priority class. What was inserted and neither merged nor dispatched waits;
/// what was dispatched and has not completed is with the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounters {
    /// Requests that came to the scheduler.
    pub inserted: u64,
    /// Requests that went on as part of another's command.
    pub merged: u64,
    /// Commands sent to the device.
    pub dispatched: u64,
    /// Commands that the device has ended.
    pub completed: u64,
}

/// What one channel sent past the waiting line and what ended on it. One thread writes, any may
/// read.
///
/// What ended is counted in the one order of all sequentially consistent operations: a thread
/// counts and then looks for waiting requests, the dispatcher announces them and then sums the
/// counters, so one of the two sees the other ([`super::dispatcher`]).
#[derive(Debug)]
pub(super) struct ChannelCounters {
    sent: [AtomicU64; 3],
    merged: [AtomicU64; 3],
    completed: [AtomicU64; 3],
    not_reads_sent: AtomicU64,
    not_reads_ended: AtomicU64,
}

fn zero() -> AtomicU64 {
    AtomicU64::new(0)
}

/// Adds without the cost of an atomic addition: nobody else writes.
fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
}

impl ChannelCounters {
    pub(super) fn new() -> Self {
        ChannelCounters {
            sent: std::array::from_fn(|_| zero()),
            merged: std::array::from_fn(|_| zero()),
            completed: std::array::from_fn(|_| zero()),
            not_reads_sent: zero(),
            not_reads_ended: zero(),
        }
    }

    /// Commands of one class went straight to the device.
    #[inline]
    pub(super) fn sent(&self, class: PrioClass, commands: u64, reads: bool) {
        add(&self.sent[class.index()], commands);
        if !reads {
            add(&self.not_reads_sent, commands);
        }
    }

    pub(super) fn merged(&self, class: PrioClass, requests: u64) {
        add(&self.merged[class.index()], requests);
    }

    /// Commands of one class have ended. Whether they were reads is not counted.
    #[inline]
    pub(super) fn completed_in(&self, class: usize, commands: u64) {
        self.completed[class].fetch_add(commands, Ordering::SeqCst);
    }

    /// Commands have ended.
    pub(super) fn completed(&self, done: &[Box<Request>]) {
        let (mut classes, mut not_reads) = ([0; 3], 0);
        for request in done {
            classes[request.prio().class.index()] += 1;
            not_reads += u64::from(request.op() != Op::Read);
        }
        self.not_reads_ended.fetch_add(not_reads, Ordering::SeqCst);
        for (counter, n) in self.completed.iter().zip(classes) {
            counter.fetch_add(n, Ordering::SeqCst);
        }
    }
}

/// The sums of what went through the waiting line and of tallies.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CounterSums {
    pub(super) classes: [ClassCounters; 3],
    pub(super) not_reads: u64,
}

impl CounterSums {
    pub(super) fn add(&mut self, counters: &ChannelCounters) {
        let get = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        for (class, total) in self.classes.iter_mut().enumerate() {
            let (sent, merged) = (get(&counters.sent[class]), get(&counters.merged[class]));
            total.inserted += sent + merged;
            total.merged += merged;
            total.dispatched += sent;
            total.completed += get(&counters.completed[class]);
        }
        let not_reads = get(&counters.not_reads_sent).wrapping_sub(get(&counters.not_reads_ended));
        self.not_reads = self.not_reads.wrapping_add(not_reads);
    }

    /// What is with the device. A command that one thread sends while another counts may be
    /// missing, its end never counts without it.
    pub(super) fn in_flight(&self) -> InFlight {
        let flying = |c: ClassCounters| c.dispatched.saturating_sub(c.completed);
        InFlight { by_class: self.classes.map(flying), not_reads: self.not_reads }
    }
}
