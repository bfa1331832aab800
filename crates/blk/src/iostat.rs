//! Counts of what the device did, for whoever watches a queue (the kernel's `/sys/block/*/stat`).
//!
//! Each channel counts the requests that the device has completed; readers sum over the channels. A
//! channel writes its own counters only, so counting is a plain addition.
use crate::bio::Op;
use crate::request::Request;
use crate::status::Status;
use crate::sync::{AtomicU64, Ordering};

/// What the device did since the queue was attached. Requests are counted, not bios: merged ones
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
}

impl IoStat {
    /// The counts with their names.
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
        }
    }
}

/// The counters of one channel: [`IoStat`]'s.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct IoCounters {
    reads: AtomicU64,
    sectors_read: AtomicU64,
    writes: AtomicU64,
    sectors_written: AtomicU64,
    discards: AtomicU64,
    flushes: AtomicU64,
    zone_management: AtomicU64,
    failures: AtomicU64,
}

impl IoCounters {
    /// Counts a request that the device is done with. For the owner of the counters only.
    pub(crate) fn count(&self, request: &Request) {
        let succeeded = request.status() == Status::Ok;
        let sectors = if succeeded { u64::from(request.nr_sectors()) } else { 0 };
        match request.op() {
            Op::Read => {
                add(&self.reads, 1);
                add(&self.sectors_read, sectors);
            }
            Op::Write | Op::ZoneAppend | Op::WriteZeroes => {
                add(&self.writes, 1);
                add(&self.sectors_written, sectors);
            }
            Op::Discard => add(&self.discards, 1),
            Op::Flush => add(&self.flushes, 1),
            Op::ZoneOpen | Op::ZoneClose | Op::ZoneFinish | Op::ZoneReset | Op::ZoneResetAll => {
                add(&self.zone_management, 1);
            }
        }
        if !succeeded {
            add(&self.failures, 1);
        }
    }
}

/// Adds to a counter that nobody else writes.
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}
