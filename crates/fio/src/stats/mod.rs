//! Statistics of a job, cheap enough to be kept for every I/O.
//!
//! No call made for an I/O divides or reads a clock; only the first of a direction allocates. Merging the statistics of two jobs
//! gives those of one job that did the I/Os of both.
//!
//! ```text
//!  record ---> run of equal I/Os ---(its place is needed)-----> LatStat, Histogram, LatencyBands
//!  submitted, completed ------------------------------------> DepthLevels, BatchSizes
//!  sample ---(every 500 ms)---------------------------------> Samples
//! ```
mod counts;
mod halves;
mod histogram;
mod io_stats;
mod moments;
mod runs;
mod steady_state;

pub use crate::job::PERCENTILES;
pub use counts::{BATCH_LABELS, BatchSizes, DEPTH_LABELS, DepthLevels, Errors, FsCounters};
pub use histogram::{BUCKETS, Histogram, LatencyBands, MSEC_LABELS, NSEC_LABELS, USEC_LABELS};
pub(crate) use io_stats::per_second;
pub use io_stats::{IoCounts, IoStats, PrioStats, SAMPLE_PERIOD, SyncStats, Usage};
pub use moments::{LatStat, Samples};
pub use steady_state::SteadyState;
