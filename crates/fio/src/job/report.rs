//! Options for what a report shows of a job.
use super::LeftOut;
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
    /// The measurements that are not in it.
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
