//! Logs.
use super::{ANY_U32, OptionSpec, ValueKind, number, to_u8, to_u32};

options! {
    pub(super) const OPTIONS;
    "write_bw_log":
        ValueKind::OptionalText(|draft, text| draft.job.logs.bw = Some(text.to_owned())),
        "",
        "Log the bandwidth to TEXT_bw.N.log, where N is the number of the clone among all of the \
         run; without a text, the job's name.";
    "write_iops_log":
        ValueKind::OptionalText(|draft, text| draft.job.logs.iops = Some(text.to_owned())),
        "", "Log I/Os per second to TEXT_iops.N.log.";
    "write_lat_log":
        ValueKind::OptionalText(|draft, text| draft.job.logs.lat = Some(text.to_owned())),
        "", "Log latencies in nanoseconds to TEXT_slat.N.log, TEXT_clat.N.log and TEXT_lat.N.log.";
    "write_hist_log":
        ValueKind::OptionalText(|draft, text| draft.job.logs.hist = Some(text.to_owned())),
        "", "Log histograms of completion latencies to TEXT_clat_hist.N.log; see log_hist_msec.";
    "log_avg_msec": number(0, ANY_U32, |draft, n| draft.job.logs.avg_msec = to_u32(n)),
        "0", "Milliseconds that a line of a log averages; 0 for a line for each I/O.";
    "log_hist_msec": number(0, ANY_U32, |draft, n| draft.job.logs.hist_msec = to_u32(n)),
        "0", "Milliseconds between histograms; with 0 the log stays empty.";
    "log_hist_coarseness": number(0, 6, |draft, n| draft.job.logs.hist_coarseness = to_u8(n)),
        "0", "Each step halves the 1856 bins of a histogram.";
    "log_max_value": ValueKind::Bool(|draft, on| draft.job.logs.max_value = on),
        "0", "With log_avg_msec, log the largest value instead of the mean.";
    "log_offset": ValueKind::Bool(|draft, on| draft.job.logs.offset = on),
        "0", "Log the offset of each I/O.";
    "log_prio": ValueKind::Bool(|draft, on| draft.job.logs.prio = on),
        "0", "Log the priority of each I/O in hexadecimal, as in ioprio_set(2).";
    "per_job_logs": ValueKind::Bool(|draft, on| draft.job.logs.per_job = on),
        "1", "Each clone has its own files; 0 leaves the number out of their names.";
}
