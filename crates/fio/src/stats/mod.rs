//! Statistics of a job, cheap enough to be kept for every I/O.
//!
//! Takes: one call for each batch of like completions, and the time. Gives: what fio reports of a
//! job: latency minimum, mean and percentiles, bandwidth samples, depths. Keeps true: no call made
//! for an I/O allocates, divides or reads a clock, and merging two jobs' statistics gives what one
//! job that did the I/Os of both would have counted.
//!
//! ```text
//!  record ---> run of equal I/Os ---(a different one comes)---> LatStat, Histogram, LatencyBands
//!  submitted, completed ------------------------------------> DepthLevels, BatchSizes
//!  sample ---(every 500 ms)---------------------------------> Samples
//! ```
mod depth;
mod errors;
mod figures;
mod histogram;
mod io_stats;
mod lat_stat;
mod latency_bands;
mod samples;

pub use depth::{BATCH_LABELS, BatchSizes, DEPTH_LABELS, DepthLevels};
pub use errors::Errors;
pub use histogram::{BUCKETS, Histogram, PERCENTILES};
pub(crate) use io_stats::per_second;
pub use io_stats::{IoStats, LiveCounts, SAMPLE_PERIOD, SyncStats, Usage};
pub use lat_stat::LatStat;
pub use latency_bands::{LatencyBands, MSEC_LABELS, NSEC_LABELS, USEC_LABELS};
pub use samples::Samples;
