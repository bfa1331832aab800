//! Options for logs of bandwidth, IOPS and latencies.

/// Which logs a job writes, and what their lines hold (`write_bw_log`, `log_avg_msec`, ...).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// `write_bw_log`: the prefix of the file name; empty for the job's name.
    pub bw: Option<String>,
    /// `write_iops_log`.
    pub iops: Option<String>,
    /// `write_lat_log`: submission, completion and total latency.
    pub lat: Option<String>,
    /// `write_hist_log`: histograms of completion latency.
    pub hist: Option<String>,
    /// Milliseconds that a line sums up; 0 for a line for each I/O.
    pub avg_msec: u32,
    /// Milliseconds between histograms; 0 for none.
    pub hist_msec: u32,
    /// Each step halves the number of bins of a histogram; at most 6.
    pub hist_coarseness: u8,
    /// The value of lines of several I/Os.
    pub window_value: WindowValue,
    /// Lines hold the offset.
    pub offset: bool,
    /// Lines hold when the I/O was issued, in nanoseconds since the start of the job.
    pub issue_time: bool,
    /// Lines hold the priority, not only whether it is real time.
    pub prio: bool,
    /// The priority as in ioprio_set(2); 0 if the job has none.
    pub ioprio: u16,
    /// Times are those of a clock, not since the start of the job (`log_alternate_epoch`); that of day with
    /// `log_unix_epoch`.
    pub of_clock: bool,
    /// The clock (`log_alternate_epoch_clock_id`), as in clock_gettime(2).
    pub clock: u32,
    /// Each clone has files of its own.
    pub per_job: bool,
    /// The JSON report says what the device did (`disk_util`).
    pub disk_util: bool,
}

/// The value of a line that sums up several I/Os (`log_window_value`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowValue {
    /// The mean.
    Mean,
    /// The largest value.
    Max,
    /// Both, in this order, in each line of all logs but histograms.
    Both,
}

/// Where the class is in an ioprio.
const IOPRIO_CLASS_SHIFT: u32 = 13;
/// The number of the class of best effort in the kernel.
const BEST_EFFORT: u8 = 2;

/// A priority as in ioprio_set(2), from its class and level. Class 0 counts as best effort.
pub(crate) fn ioprio(class: u8, level: u8) -> u16 {
    let class = if class == 0 { BEST_EFFORT } else { class };
    u16::from(class) << IOPRIO_CLASS_SHIFT | u16::from(level)
}

/// Whether a priority as in ioprio_set(2) is of the class real time.
pub(crate) fn is_realtime(ioprio: u16) -> bool {
    ioprio >> IOPRIO_CLASS_SHIFT == 1
}

impl Default for LogOptions {
    fn default() -> Self {
        LogOptions {
            bw: None,
            iops: None,
            lat: None,
            hist: None,
            avg_msec: 0,
            hist_msec: 0,
            hist_coarseness: 0,
            window_value: WindowValue::Mean,
            offset: false,
            issue_time: false,
            prio: false,
            ioprio: 0,
            of_clock: false,
            clock: 0,
            per_job: true,
            disk_util: true,
        }
    }
}

impl LogOptions {
    /// The logs to write: option, prefix of the file name, and the words between it and `.log`.
    pub fn wanted(&self) -> impl Iterator<Item = (&'static str, &str, &'static [LogKind])> {
        use LogKind::{Bandwidth, Clat, Histogram, Iops, Lat, Slat};
        let all: [(_, _, &'static [LogKind]); 4] = [
            ("write_bw_log", &self.bw, &[Bandwidth]),
            ("write_iops_log", &self.iops, &[Iops]),
            ("write_lat_log", &self.lat, &[Slat, Clat, Lat]),
            ("write_hist_log", &self.hist, &[Histogram]),
        ];
        all.into_iter().filter_map(|(option, name, kinds)| Some((option, name.as_deref()?, kinds)))
    }
}

/// The contents of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum LogKind {
    /// Bandwidth in KiB/s; of single I/Os, as in fio, in kB/s.
    Bandwidth = 0,
    /// I/Os per second; 1 for a single I/O.
    Iops = 1,
    /// Submission latency in nanoseconds.
    Slat = 2,
    /// Completion latency in nanoseconds.
    Clat = 3,
    /// Total latency in nanoseconds.
    Lat = 4,
    /// Histograms of completion latency.
    Histogram = 5,
}

impl LogKind {
    /// The word for it in names of files.
    pub fn word(self) -> &'static str {
        ["bw", "iops", "slat", "clat", "lat", "clat_hist"][self as usize]
    }
}
