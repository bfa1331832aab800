//! The contents of a report.
use super::{ANY_U32, OptionSpec, ValueKind, millis, number, to_u8};
use crate::job::{LeftOut, UnifiedReporting};

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
    "disable_slat": ValueKind::Bool(|draft, on| draft.job.report.left_out.slat = on),
        "0", "Leave submission latencies out of report and logs.";
    "disable_clat": ValueKind::Bool(|draft, on| draft.job.report.left_out.clat = on),
        "0", "Leave completion latencies out.";
    "disable_lat": ValueKind::Bool(|draft, on| draft.job.report.left_out.lat = on),
        "0", "Leave total latencies out.";
    "disable_bw_measurement" or "disable_bw":
        ValueKind::Bool(|draft, on| draft.job.report.left_out.samples = on),
        "0", "Leave the samples of bandwidth and IOPS out of the report.";
    "gtod_reduce": ValueKind::Bool(|draft, on| draft.job.report.left_out = LeftOut::all(on)),
        "0", "Leave out all of these.";
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
