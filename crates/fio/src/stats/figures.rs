//! The figures that a report reads from [`IoStats`].
//!
//! Takes: statistics that are [finished](IoStats::finish) or merged. Gives: counts, rates and
//! distributions of each direction. Keeps true: reading changes nothing.
use super::depth::{BatchSizes, DepthLevels};
use super::errors::Errors;
use super::histogram::Histogram;
use super::io_stats::{IoStats, SyncStats, Usage, per_second};
use super::lat_stat::LatStat;
use super::latency_bands::LatencyBands;
use super::samples::Samples;
use crate::job::DataDir;
use zonal_blk::Nanos;

impl IoStats {
    /// Successful I/Os of `dir`.
    pub fn ios(&self, dir: DataDir) -> u64 {
        self.of(dir).ios()
    }

    /// Bytes moved by `dir`.
    pub fn bytes(&self, dir: DataDir) -> u64 {
        self.of(dir).bytes
    }

    /// Time from start to finish if the job did I/O of `dir`; of merged jobs the longest.
    pub fn runtime(&self, dir: DataDir) -> Nanos {
        self.of(dir).runtime
    }

    /// Bytes per second of `dir` over its runtime, rounded down.
    pub fn bytes_per_second(&self, dir: DataDir) -> u64 {
        per_second(self.bytes(dir), self.runtime(dir))
    }

    /// I/Os per second of `dir` over its runtime.
    pub fn ios_per_second(&self, dir: DataDir) -> f64 {
        let runtime = self.runtime(dir).0;
        if runtime == 0 { 0.0 } else { self.ios(dir) as f64 * 1e9 / runtime as f64 }
    }

    /// Submission latencies of `dir`.
    pub fn slat(&self, dir: DataDir) -> &LatStat {
        &self.of(dir).slat
    }

    /// Completion latencies of `dir`: from submission to completion.
    pub fn clat(&self, dir: DataDir) -> &LatStat {
        &self.of(dir).clat
    }

    /// Total latencies of `dir`.
    pub fn lat(&self, dir: DataDir) -> &LatStat {
        &self.of(dir).lat
    }

    /// Histogram of the completion latencies of `dir`.
    pub fn clat_histogram(&self, dir: DataDir) -> &Histogram {
        &self.of(dir).clat_histogram
    }

    /// Sampled bandwidth of `dir` in KiB/s.
    pub fn bandwidth_samples(&self, dir: DataDir) -> &Samples {
        &self.of(dir).bandwidth
    }

    /// Sampled I/Os per second of `dir`.
    pub fn iops_samples(&self, dir: DataDir) -> &Samples {
        &self.of(dir).iops
    }

    /// Completion latencies of all directions in fio's coarse bands.
    pub fn latency_bands(&self) -> &LatencyBands {
        &self.bands
    }

    /// Depths at which I/Os were submitted.
    pub fn depth_levels(&self) -> &DepthLevels {
        &self.depths
    }

    /// Sizes of submitted batches.
    pub fn submit_sizes(&self) -> &BatchSizes {
        &self.submit
    }

    /// Sizes of reaped batches.
    pub fn complete_sizes(&self) -> &BatchSizes {
        &self.complete
    }

    /// Failed I/Os.
    pub fn errors(&self) -> &Errors {
        &self.errors
    }

    /// Zones reset on the way to writing.
    pub fn zone_reset_count(&self) -> u64 {
        self.zone_resets
    }

    /// Flushes that the job waited for, if there were any.
    pub fn syncs(&self) -> Option<&SyncStats> {
        self.sync.as_deref()
    }

    /// Time from start to finish, summed over merged jobs.
    pub fn elapsed(&self) -> Nanos {
        self.elapsed
    }

    /// What the operating system counted.
    pub fn usage(&self) -> Usage {
        self.usage
    }
}
