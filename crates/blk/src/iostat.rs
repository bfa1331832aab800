//! Counts of what the device did, for observers of a queue (the kernel's `/sys/block/*/stat`).
//!
//! Each channel counts the requests that the device has completed; readers sum over the channels. A
//! channel writes its own counters only, so counting is a plain addition. Counters that are off cost a
//! comparison.
use crate::op::{Op, OpClass};
use crate::request::Request;
use crate::status::Status;
use crate::sync::{AtomicBool, AtomicU64, Ordering};
use crate::units::Nanos;

/// The device's counts since the queue was attached. Requests are counted, not bios: merged ones
/// are one, the parts of a split one are several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoStat {
    /// Reads.
    pub reads: u64,
    /// Sectors that reads which succeeded had.
    pub sectors_read: u64,
    /// Writes, appends and write zeroes.
    pub writes: u64,
    /// Sectors that writes which succeeded had.
    pub sectors_written: u64,
    /// Discards.
    pub discards: u64,
    /// Flushes.
    pub flushes: u64,
    /// Opened, closed, finished and reset zones.
    pub zone_management: u64,
    /// Requests of any kind that failed.
    pub failures: u64,
    /// Reads that were merged into the reads counted.
    pub read_merges: u64,
    /// Writes that were merged into the writes counted.
    pub write_merges: u64,
}

/// How long requests were with the device, since the queue was attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoTimes {
    /// The time of all reads, each from its start to its completion.
    pub reads: Nanos,
    /// The time of all writes, appends and write zeroes.
    pub writes: Nanos,
    /// The time of everything else.
    pub others: Nanos,
    /// The time in which the busiest hardware queue had requests with the device.
    pub busy: Nanos,
    /// From the first start to the last completion.
    pub span: Nanos,
}

impl IoStat {
    /// The counts of what the device did, with their names.
    pub fn entries(&self) -> [(&'static str, u64); 8] {
        let &IoStat { reads, sectors_read, writes, sectors_written, .. } = self;
        let &IoStat { discards, flushes, zone_management, failures, .. } = self;
        [
            ("reads", reads),
            ("sectors_read", sectors_read),
            ("writes", writes),
            ("sectors_written", sectors_written),
            ("discards", discards),
            ("flushes", flushes),
            ("zone_management", zone_management),
            ("failures", failures),
        ]
    }

    /// The sum of what channels counted, each as of some moment during the call.
    pub(crate) fn sum<'a>(channels: impl Iterator<Item = &'a IoCounters> + Clone) -> Self {
        let sum = |counter: fn(&IoCounters) -> &AtomicU64| {
            let counts = channels.clone().map(|channel| counter(channel).load(Ordering::Relaxed));
            counts.fold(0, u64::wrapping_add)
        };
        IoStat {
            reads: sum(|of| &of.reads),
            sectors_read: sum(|of| &of.sectors_read),
            writes: sum(|of| &of.writes),
            sectors_written: sum(|of| &of.sectors_written),
            discards: sum(|of| &of.discards),
            flushes: sum(|of| &of.flushes),
            zone_management: sum(|of| &of.zone_management),
            failures: sum(|of| &of.failures),
            read_merges: sum(|of| &of.read_merges),
            write_merges: sum(|of| &of.write_merges),
        }
    }
}

/// Ranges of time that [`IoHistograms`] counts by.
pub const TIME_RANGES: usize = 128;

/// Reads and writes by the time that they were with the device, since the queue was attached: in
/// ranges that begin at [`IoHistograms::range_start`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoHistograms {
    /// Reads.
    pub reads: [u64; TIME_RANGES],
    /// Writes, appends and write zeroes.
    pub writes: [u64; TIME_RANGES],
    /// Requests that are with the device now.
    pub in_flight: u64,
}

impl IoHistograms {
    /// The shortest time of a range: four ranges to each power of two, from 256 ns on. The first
    /// range also has what is shorter, the last what is longer.
    pub const fn range_start(range: usize) -> Nanos {
        Nanos(((4 + range % 4) as u64) << (6 + range / 4))
    }

    /// The range of a time.
    #[inline]
    fn range_of(time: Nanos) -> usize {
        let log = time.0.max(256).ilog2();
        let quarter = (time.0.max(256) >> (log - 2)) & 3;
        ((log as usize - 8) * 4 + quarter as usize).min(TIME_RANGES - 1)
    }
}

impl Default for IoHistograms {
    fn default() -> Self {
        IoHistograms { reads: [0; TIME_RANGES], writes: [0; TIME_RANGES], in_flight: 0 }
    }
}

/// The counters of one channel: [`IoStat`]'s.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct IoCounters {
    on: AtomicBool,
    reads: AtomicU64,
    sectors_read: AtomicU64,
    writes: AtomicU64,
    sectors_written: AtomicU64,
    discards: AtomicU64,
    flushes: AtomicU64,
    zone_management: AtomicU64,
    failures: AtomicU64,
    read_merges: AtomicU64,
    write_merges: AtomicU64,
}

impl IoCounters {
    /// Counts from now on, or no longer.
    pub(crate) fn switch(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }

    /// Counts a request that the device is done with. For the owner of the counters only.
    #[inline]
    pub(crate) fn count(&self, request: &Request) {
        if self.on.load(Ordering::Relaxed) {
            self.add(request);
        }
    }

    #[inline]
    fn add(&self, request: &Request) {
        let succeeded = request.status() == Status::Ok;
        let sectors = if succeeded { u64::from(request.nr_sectors()) } else { 0 };
        match request.op().info().class {
            OpClass::Read => {
                add(&self.reads, 1);
                add(&self.sectors_read, sectors);
            }
            OpClass::Write => {
                add(&self.writes, 1);
                add(&self.sectors_written, sectors);
            }
            OpClass::Discard => add(&self.discards, 1),
            OpClass::Flush => add(&self.flushes, 1),
            OpClass::Zone => add(&self.zone_management, 1),
        }
        if !succeeded {
            add(&self.failures, 1);
        }
    }
}

impl IoCounters {
    /// Counts requests that were merged into one with this operation, as [`IoCounters::count`].
    pub(crate) fn merged(&self, op: Op, requests: u64) {
        if !self.on.load(Ordering::Relaxed) {
            return;
        }
        let merges = if op == Op::Read { &self.read_merges } else { &self.write_merges };
        add(merges, requests);
    }
}

/// The times of one hardware queue. The thread that uses it writes them; readers see each as of some moment.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct HctxTimes {
    /// Whether times are counted; requests in flight always are.
    on: AtomicBool,
    reads: AtomicU64,
    writes: AtomicU64,
    others: AtomicU64,
    busy: AtomicU64,
    /// When the first request was started.
    first: AtomicU64,
    /// When the last one completed.
    last: AtomicU64,
    /// When the first of those that are with the device was started; `u64::MAX` if that was not
    /// counted.
    busy_since: AtomicU64,
    in_flight: AtomicU64,
    /// Reads and writes by the range of their time.
    histograms: [[AtomicU64; TIME_RANGES]; 2],
}

impl HctxTimes {
    pub(crate) fn new() -> Self {
        let zero = || AtomicU64::new(0);
        HctxTimes {
            on: AtomicBool::new(false),
            reads: zero(),
            writes: zero(),
            others: zero(),
            busy: zero(),
            first: AtomicU64::new(u64::MAX),
            last: zero(),
            busy_since: zero(),
            in_flight: zero(),
            histograms: std::array::from_fn(|_| std::array::from_fn(|_| zero())),
        }
    }

    /// Counts from now on, or no longer.
    pub(crate) fn switch(&self, on: bool) {
        self.busy_since.store(u64::MAX, Ordering::Relaxed);
        self.on.store(on, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Sets the number of requests in flight on the device.
    #[inline]
    pub(crate) fn set_in_flight(&self, requests: usize) {
        self.in_flight.store(requests as u64, Ordering::Relaxed);
    }

    /// A request is started with no other at the device.
    #[inline]
    pub(crate) fn becomes_busy(&self, now: Nanos) {
        if !self.is_on() {
            return;
        }
        self.busy_since.store(now.0, Ordering::Relaxed);
        if self.first.load(Ordering::Relaxed) == u64::MAX {
            self.first.store(now.0, Ordering::Relaxed);
        }
    }

    /// A request is back that was started at this time.
    #[inline]
    pub(crate) fn count(&self, op: Op, started: Nanos, now: Nanos) {
        let time = Nanos(now.0.saturating_sub(started.0));
        let (sum, histogram) = match op {
            Op::Read => (&self.reads, Some(&self.histograms[0])),
            Op::Write | Op::ZoneAppend | Op::WriteZeroes => {
                (&self.writes, Some(&self.histograms[1]))
            }
            _ => (&self.others, None),
        };
        add(sum, time.0);
        if let Some(histogram) = histogram {
            add(&histogram[IoHistograms::range_of(time)], 1);
        }
    }

    /// Requests are back; `others` are still with the device.
    #[inline]
    pub(crate) fn came_back(&self, now: Nanos, in_flight: usize) {
        self.set_in_flight(in_flight);
        if !self.is_on() {
            return;
        }
        self.last.store(now.0, Ordering::Relaxed);
        if in_flight == 0 {
            let since = self.busy_since.load(Ordering::Relaxed);
            add(&self.busy, now.0.saturating_sub(since));
        }
    }

    /// The times of all hardware queues of a device.
    pub(crate) fn sum<'a>(all: impl Iterator<Item = &'a HctxTimes>) -> IoTimes {
        let (mut times, mut first, mut last) = (IoTimes::default(), u64::MAX, 0);
        for of in all {
            let get = |time: &AtomicU64| time.load(Ordering::Relaxed);
            times.reads.0 += get(&of.reads);
            times.writes.0 += get(&of.writes);
            times.others.0 += get(&of.others);
            times.busy = times.busy.max(Nanos(get(&of.busy)));
            first = first.min(get(&of.first));
            last = last.max(get(&of.last));
        }
        times.span = Nanos(last.saturating_sub(first));
        times
    }

    /// The histograms of all hardware queues of a device.
    pub(crate) fn histograms<'a>(all: impl Iterator<Item = &'a HctxTimes>) -> IoHistograms {
        let mut sum = IoHistograms::default();
        for of in all {
            sum.in_flight += of.in_flight.load(Ordering::Relaxed);
            for (to, from) in [&mut sum.reads, &mut sum.writes].into_iter().zip(&of.histograms) {
                for (to, from) in to.iter_mut().zip(from) {
                    *to += from.load(Ordering::Relaxed);
                }
            }
        }
        sum
    }
}

/// Adds to a counter that nobody else writes.
#[inline]
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn requests_take_their_time_each_and_queues_are_busy_once() {
        let times = HctxTimes::new();
        times.switch(true);
        let at = |n: u64| Nanos(1000 + n);
        times.becomes_busy(at(0));
        times.count(Op::Write, at(0), at(30));
        times.came_back(at(30), 1);
        times.count(Op::Read, at(10), at(40));
        times.came_back(at(40), 0);
        times.becomes_busy(at(90));
        times.count(Op::Flush, at(90), at(100));
        times.came_back(at(100), 0);
        let found = HctxTimes::sum([&times, &HctxTimes::new()].into_iter());
        let [reads, writes, others, busy, span] = [30, 30, 10, 50, 100].map(Nanos);
        assert_eq!(found, IoTimes { reads, writes, others, busy, span });
    }

    #[test]
    fn times_are_counted_in_ranges_of_a_quarter_of_a_power_of_two() {
        for range in 0..TIME_RANGES {
            let start = IoHistograms::range_start(range);
            assert_eq!(IoHistograms::range_of(start), range);
            assert_eq!(IoHistograms::range_of(start - Nanos(1)), range.saturating_sub(1));
        }
        assert_eq!(IoHistograms::range_of(Nanos(u64::MAX)), TIME_RANGES - 1);
        let times = HctxTimes::new();
        times.switch(true);
        times.count(Op::Read, Nanos(0), Nanos(300));
        times.count(Op::ZoneAppend, Nanos(0), Nanos(320));
        times.count(Op::Flush, Nanos(0), Nanos(320));
        times.came_back(Nanos(320), 7);
        let found = HctxTimes::histograms([&times, &HctxTimes::new()].into_iter());
        assert_eq!((found.reads[0], found.writes[1], found.in_flight), (1, 1, 7));
        assert_eq!(found.reads.iter().chain(&found.writes).sum::<u64>(), 2);
    }
}
