//! Logs.
use super::{ANY_U32, OptionSpec, ValueKind, number, to_u8, to_u32};
use crate::job::WindowValue;

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
    "log_window_value" or "log_max_value": ValueKind::Word(&[
        ("avg", Ok(|draft| draft.job.logs.window_value = WindowValue::Mean)),
        ("max", Ok(|draft| draft.job.logs.window_value = WindowValue::Max)),
        ("both", Ok(|draft| draft.job.logs.window_value = WindowValue::Both)),
        ("0", Ok(|draft| draft.job.logs.window_value = WindowValue::Mean)),
        ("1", Ok(|draft| draft.job.logs.window_value = WindowValue::Max)),
    ]),
        "avg",
        "With log_avg_msec, log the mean, the largest value, or both, the mean first; 0 is avg, 1 max.";
    "log_offset": ValueKind::Bool(|draft, on| draft.job.logs.offset = on),
        "0", "Log the offset of each I/O.";
    "log_issue_time": ValueKind::Bool(|draft, on| draft.job.logs.issue_time = on),
        "0",
        "Log when each I/O was issued, in nanoseconds since the start of the job, in the logs of \
         submission and completion latency; with write_lat_log and log_offset.";
    "log_unix_epoch": ValueKind::Bool(|draft, on| draft.job.logs.of_clock |= on),
        "0",
        "Log times since 1970 instead of those since the start of the job; in virtual time since the \
         start of the run.";
    "log_alternate_epoch": ValueKind::Bool(|draft, on| draft.job.logs.of_clock |= on),
        "0", "The same with the clock of log_alternate_epoch_clock_id.";
    "log_alternate_epoch_clock_id":
        number(0, ANY_U32, |draft, n| draft.job.logs.clock = to_u32(n)),
        "0", "The clock as in clock_gettime(2): 0 for the time of day, 1 for that since the machine started.";
    "log_prio": ValueKind::Bool(|draft, on| draft.job.logs.prio = on),
        "0", "Log the priority of each I/O in hexadecimal, as in ioprio_set(2).";
    "per_job_logs": ValueKind::Bool(|draft, on| draft.job.logs.per_job = on),
        "1", "Each clone has its own files; 0 leaves the number out of their names.";
}
