//! Counts of what the device did, for whoever watches a queue (the kernel's `/sys/block/*/stat`).
//!
//! Takes each request that the device is done with; gives sums over all channels. Keeps true: a
//! channel writes its own counters only, so that counting is an addition and no atomic operation.
use crate::bio::Op;
use crate::request::Request;
use crate::status::Status;
use crate::sync::{AtomicU64, Ordering};
use std::sync::Arc;

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

const FIELDS: usize = 8;

/// The counters of one channel, in the order of [`IoStat`].
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct IoCounters([AtomicU64; FIELDS]);

impl IoCounters {
    fn add(&self, field: usize, more: u64) {
        let counter = &self.0[field];
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    /// Counts a request that the device is done with. For the owner of the counters only.
    pub(crate) fn count(&self, request: &Request) {
        let succeeded = request.status() == Status::Ok;
        let sectors = if succeeded { u64::from(request.nr_sectors()) } else { 0 };
        match request.op() {
            Op::Read => {
                self.add(0, 1);
                self.add(1, sectors);
            }
            Op::Write | Op::ZoneAppend | Op::WriteZeroes => {
                self.add(2, 1);
                self.add(3, sectors);
            }
            Op::Discard => self.add(4, 1),
            Op::Flush => self.add(5, 1),
            Op::ZoneOpen | Op::ZoneClose | Op::ZoneFinish | Op::ZoneReset | Op::ZoneResetAll => {
                self.add(6, 1);
            }
        }
        if !succeeded {
            self.add(7, 1);
        }
    }
}

impl IoStat {
    /// The sum of what channels counted, each as of some moment during the call.
    pub(crate) fn sum(channels: &[Arc<IoCounters>]) -> Self {
        let mut sums = [0_u64; FIELDS];
        for IoCounters(counters) in channels.iter().map(AsRef::as_ref) {
            for (sum, counter) in sums.iter_mut().zip(counters) {
                *sum = sum.wrapping_add(counter.load(Ordering::Relaxed));
            }
        }
        let [
            reads,
            sectors_read,
            writes,
            sectors_written,
            discards,
            flushes,
            zone_management,
            failures,
        ] = sums;
        IoStat {
            reads,
            sectors_read,
            writes,
            sectors_written,
            discards,
            flushes,
            zone_management,
            failures,
        }
    }
}
