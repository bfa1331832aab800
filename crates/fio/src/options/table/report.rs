//! The contents of a report.
use super::{ANY_U32, OptionSpec, ValueKind, millis, number, to_u8};
use crate::job::UnifiedReporting;

options! {
    pub(super) const OPTIONS;
    "percentile_list": ValueKind::Percentiles(|draft, list| draft.job.report.percentiles = list),
        "1:5:10:20:30:40:50:60:70:80:90:95:99:99.5:99.9:99.95:99.99",
        "Percentiles of latencies, at most 20.";
    "clat_percentiles": ValueKind::Bool(|draft, on| draft.job.report.clat_percentiles = on),
        "1", "Report percentiles of completion latencies.";
    "lat_percentiles": ValueKind::Bool(|draft, on| draft.job.report.lat_percentiles = on),
        "0", "Report percentiles of total latencies.";
    "slat_percentiles": ValueKind::Bool(|draft, on| draft.job.report.slat_percentiles = on),
        "0", "Report percentiles of submission latencies.";
    "stats": ValueKind::Bool(|draft, on| draft.job.report.stats = on),
        "1", "Report the job; 0 leaves it out.";
    "significant_figures": number(1, 10, |draft, n| {
        draft.job.report.significant_figures = to_u8(n);
    }),
        "4", "Digits of bytes, rates and IOPS in the text; JSON has all.";
    "bwavgtime": number(1, ANY_U32, |draft, n| draft.job.report.bandwidth_period = millis(n)),
        "500", "Milliseconds between the samples of the bandwidth of which min, max and mean are reported.";
    "iopsavgtime": number(1, ANY_U32, |draft, n| draft.job.report.iops_period = millis(n)),
        "500", "The same for IOPS.";
    "unified_rw_reporting": ValueKind::Word(&[
        ("none", Ok(|draft| draft.job.report.unified = UnifiedReporting::None)),
        ("mixed", Ok(|draft| draft.job.report.unified = UnifiedReporting::Mixed)),
        ("both", Ok(|draft| draft.job.report.unified = UnifiedReporting::Both)),
        ("0", Ok(|draft| draft.job.report.unified = UnifiedReporting::None)),
        ("1", Ok(|draft| draft.job.report.unified = UnifiedReporting::Mixed)),
        ("2", Ok(|draft| draft.job.report.unified = UnifiedReporting::Both)),
    ]),
        "none", "Report reads, writes and trims, all of them together, or both.";
}
