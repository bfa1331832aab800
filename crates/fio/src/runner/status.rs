//! Reports of jobs that still run (`--status-interval`): each clone publishes its statistics when an
//! interval of the run's clock ends.
use crate::stats::IoStats;
use std::fmt;
use std::sync::Arc;
use zonal_blk::Nanos;

/// Takes the statistics of clones that still run.
pub trait StatusSink: Send + Sync {
    /// A clone has started.
    fn start(&self, clone: usize);
    /// The measurements of a clone at the end of an interval; the first one has the number 1.
    fn publish(&self, clone: usize, interval: u64, stats: IoStats);
    /// The clone has ended, with these statistics.
    fn finish(&self, clone: usize, stats: IoStats);
}

/// Where a clone publishes its statistics.
#[derive(Clone)]
pub struct StatusReports {
    /// The sink.
    pub sink: Arc<dyn StatusSink>,
    /// The number by which the sink knows the clone.
    pub clone: usize,
    /// The interval.
    pub interval: Nanos,
}

impl fmt::Debug for StatusReports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StatusReports of clone {} every {} ns", self.clone, self.interval.0)
    }
}

impl StatusReports {
    /// When the interval of this time ends.
    pub(super) fn next(&self, now: Nanos) -> Nanos {
        Nanos((now.0 / self.interval.0 + 1).saturating_mul(self.interval.0))
    }

    /// Publishes the statistics of a clone that still runs.
    #[cold]
    pub(super) fn publish(&self, now: Nanos, stats: &IoStats) {
        let mut stats = stats.clone();
        stats.finish(now);
        self.sink.publish(self.clone, now.0 / self.interval.0, stats);
    }

    /// Publishes the statistics of a clone that has ended.
    pub(super) fn finish(&self, stats: &IoStats) {
        self.sink.finish(self.clone, stats.clone());
    }
}
