//! Options for what a report shows of a job.
use crate::stats::SAMPLE_PERIOD;
use zonal_blk::Nanos;

/// fio's default `percentile_list`, in percent.
pub const PERCENTILES: [f64; 17] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95,
    99.99,
];

/// Which directions a report shows (`unified_rw_reporting=`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnifiedReporting {
    /// Reads, writes and trims.
    #[default]
    None,
    /// All together.
    Mixed,
    /// Reads, writes, trims, and all together.
    Both,
}

/// Measurements that a report leaves out (`disable_lat=` and the like, `gtod_reduce=`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Submission latencies.
    pub slat: bool,
    /// Completion latencies.
    pub clat: bool,
    /// Total latencies.
    pub lat: bool,
    /// Samples of bandwidth and IOPS.
    pub samples: bool,
}

impl LeftOut {
    /// All of them, or none.
    pub const fn all(on: bool) -> Self {
        LeftOut { slat: on, clat: on, lat: on, samples: on }
    }

    /// What either leaves out.
    pub(crate) const fn or(self, other: Self) -> Self {
        LeftOut {
            slat: self.slat || other.slat,
            clat: self.clat || other.clat,
            lat: self.lat || other.lat,
            samples: self.samples || other.samples,
        }
    }
}

/// Options for a job's report, and for the name of its threads in the system's lists.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportOptions {
    /// `percentile_list=`, ascending.
    pub percentiles: Vec<f64>,
    /// `clat_percentiles=`: percentiles of completion latencies.
    pub clat_percentiles: bool,
    /// `lat_percentiles=`: percentiles of total latencies.
    pub lat_percentiles: bool,
    /// `slat_percentiles=`: percentiles of submission latencies.
    pub slat_percentiles: bool,
    /// `unified_rw_reporting=`.
    pub unified: UnifiedReporting,
    /// `stats=`: the job is in the report.
    pub stats: bool,
    /// `significant_figures=`: digits of numbers in the text.
    pub significant_figures: u8,
    /// `bwavgtime=`: time between samples of the bandwidth.
    pub bandwidth_period: Nanos,
    /// `iopsavgtime=`: time between samples of the IOPS.
    pub iops_period: Nanos,
    /// What is not in it.
    pub left_out: LeftOut,
    /// `comm=`: the name of the clones' threads.
    pub comm: Option<String>,
}

impl Default for ReportOptions {
    fn default() -> Self {
        ReportOptions {
            percentiles: PERCENTILES.to_vec(),
            clat_percentiles: true,
            lat_percentiles: false,
            slat_percentiles: false,
            unified: UnifiedReporting::None,
            stats: true,
            significant_figures: 4,
            bandwidth_period: SAMPLE_PERIOD,
            iops_period: SAMPLE_PERIOD,
            left_out: LeftOut::all(false),
            comm: None,
        }
    }
}
