//! Logs of bandwidth, IOPS and latencies, in fio's formats (fio(1), "Log file formats").
//!
//! ```text
//!  record ---(each I/O)-----------------> slat, clat, lat, clat_hist; without log_avg_msec also bw, iops
//!  sample ---(every 500 ms or less)-----> bw, iops with log_avg_msec
//!                 line, or Window of log_avg_msec ---> LogFile
//! ```
//!
//! The details that fio's manual leaves out were found by running fio 3.33: a window ends with the first
//! I/O that is at least `log_avg_msec` after its start, and the next one starts at a multiple of
//! `log_avg_msec`; the bandwidth of a single I/O is in kB/s.
//!
//! Lines are written to the files as they come, so logs of any length take little memory.
mod file;
mod window;

pub use file::LogFile;

use crate::job::{DataDir, Job, LogKind, LogOptions, WindowValue, is_realtime};
use crate::stats::{BUCKETS, Histogram, IoCounts, SAMPLE_PERIOD};
use file::Lines;
use std::fmt::Write;
use std::sync::Arc;
use window::Window;
use zonal_blk::Nanos;

/// Milliseconds by which a window of samples may be short: real timers are not exact.
const SAMPLE_SLACK: u64 = 1;
const NANOS_PER_MSEC: u64 = 1_000_000;

/// The files of a clone's logs, by [`LogKind`].
pub type LogFiles = [Option<Arc<LogFile>>; 6];

/// A completed I/O.
#[derive(Clone, Copy, Debug)]
pub struct LoggedIo {
    /// Its direction.
    pub dir: DataDir,
    /// Its length in bytes.
    pub bytes: u64,
    /// Its offset in bytes.
    pub offset: u64,
    /// Its submission latency.
    pub slat: Nanos,
    /// Its completion latency.
    pub clat: Nanos,
    /// Its priority as in ioprio_set(2), if it is not that of the job.
    pub ioprio: Option<u16>,
}

/// The logs of a clone.
pub struct Logs {
    options: LogOptions,
    /// The last column.
    prio: String,
    /// All but histograms, by [`LogKind`].
    logs: [Option<Log>; 5],
    histograms: Option<HistogramLog>,
    /// When the measured part of the job began; nothing is logged before.
    epoch: Option<Nanos>,
    /// When bandwidth and IOPS were last sampled, and what had been done by then.
    sampled: Nanos,
    counted: IoCounts,
}

/// A log with a value in each line.
struct Log {
    lines: Lines,
    /// By [`DataDir`].
    windows: [Window; 3],
}

struct HistogramLog {
    lines: Lines,
    /// By [`DataDir`].
    windows: [(Window, Histogram); 3],
}

/// A value to log, with what stands beside it.
#[derive(Clone, Copy)]
struct Entry {
    dir: DataDir,
    value: u64,
    /// The second value with [`WindowValue::Both`].
    max: u64,
    bytes: u64,
    offset: u64,
    ioprio: Option<u16>,
    /// When the I/O was issued, since the start of the job.
    issued: Nanos,
}

impl Entry {
    /// The entry of several I/Os.
    fn of_many(dir: DataDir, value: u64, max: u64) -> Self {
        Entry { dir, value, max, bytes: 0, offset: 0, ioprio: None, issued: Nanos(0) }
    }
}

/// The column of the priority.
fn prio_text(ioprio: u16, options: &LogOptions) -> String {
    match options.prio {
        true => format!("0x{ioprio:04x}"),
        false => u8::from(is_realtime(ioprio)).to_string(),
    }
}

impl Logs {
    /// The logs of a clone of `job`; `None` if it has none.
    pub fn new(job: &Job, files: &LogFiles) -> Option<Self> {
        let options = job.logs.clone();
        use LogKind::{Bandwidth, Clat, Iops, Lat, Slat};
        let left_out = |kind| match kind {
            Slat => job.report.left_out.slat,
            Clat | LogKind::Histogram => job.report.left_out.clat,
            Lat => job.report.left_out.lat,
            Bandwidth | Iops => false,
        };
        let file = |kind: LogKind| files[kind as usize].clone().filter(|_| !left_out(kind));
        let lines = |kind: LogKind| file(kind).map(Lines::new);
        let logs = [Bandwidth, Iops, Slat, Clat, Lat]
            .map(|kind| lines(kind).map(|lines| Log { lines, windows: Default::default() }));
        let histograms = lines(LogKind::Histogram)
            .filter(|_| options.hist_msec > 0)
            .map(|lines| HistogramLog { lines, windows: Default::default() });
        let prio = prio_text(options.ioprio, &options);
        let is_empty = histograms.is_none() && logs.iter().all(Option::is_none);
        let (epoch, sampled, counted) = (None, Nanos(0), IoCounts::default());
        (!is_empty).then_some(Logs { options, prio, logs, histograms, epoch, sampled, counted })
    }

    /// The measured part of the job begins.
    pub fn start(&mut self, now: Nanos) {
        (self.epoch, self.sampled, self.counted) = (Some(now), now, IoCounts::default());
        let logs = self.logs.iter_mut().flatten().map(|log| &mut log.lines);
        let histograms = self.histograms.iter_mut().map(|log| &mut log.lines);
        logs.chain(histograms).for_each(|lines| lines.start(now));
    }

    /// When [`Logs::sample`] is next due, if ever.
    pub fn next_sample(&self) -> Option<Nanos> {
        let samples = [LogKind::Bandwidth, LogKind::Iops];
        let samples = samples.iter().any(|kind| self.logs[*kind as usize].is_some());
        let due = (samples && self.options.avg_msec > 0).then(|| self.sampled + self.period());
        self.epoch.and(due)
    }

    fn period(&self) -> Nanos {
        Nanos(u64::from(self.options.avg_msec) * NANOS_PER_MSEC).min(SAMPLE_PERIOD)
    }

    /// Logs bandwidth and IOPS if a sample is due. `counts` gives those of all I/Os so far; they were
    /// the same when the sample became due, as nothing has completed since.
    pub fn sample(&mut self, now: Nanos, counts: impl FnOnce() -> IoCounts) {
        let (Some(due), Some(epoch)) = (self.next_sample(), self.epoch) else { return };
        if now < due {
            return;
        }
        let counts = counts();
        let msec = self.period().0 / NANOS_PER_MSEC;
        let elapsed = (due - epoch).0 / NANOS_PER_MSEC;
        for dir in [DataDir::Read, DataDir::Write, DataDir::Trim] {
            let since =
                |all: &[u64; 3], before: &[u64; 3]| all[dir as usize] - before[dir as usize];
            let bytes = since(&counts.bytes, &self.counted.bytes);
            if bytes == 0 {
                continue;
            }
            let ios = since(&counts.ios, &self.counted.ios);
            let entry = |value| Entry::of_many(dir, value, 0);
            self.add(LogKind::Bandwidth, elapsed, SAMPLE_SLACK, entry(bytes * 1000 / msec / 1024));
            self.add(LogKind::Iops, elapsed, SAMPLE_SLACK, entry(ios * 1000 / msec));
        }
        self.counted = counts;
        // Idle periods between have nothing to log.
        self.sampled = now - Nanos((now - due).0 % self.period().0);
    }

    /// Logs a successful I/O that completes now.
    pub fn record(&mut self, now: Nanos, io: LoggedIo) {
        let Some(epoch) = self.epoch else { return };
        let elapsed = (now - epoch).0 / NANOS_PER_MSEC;
        let LoggedIo { dir, bytes, offset, slat, clat, ioprio } = io;
        let entry = |value| Entry { value, bytes, offset, ioprio, ..Entry::of_many(dir, value, 0) };
        let issued = Nanos(now.0.saturating_sub(epoch.0 + clat.0));
        self.add(LogKind::Slat, elapsed, 0, Entry { issued, ..entry(slat.0) });
        self.add(LogKind::Clat, elapsed, 0, Entry { issued, ..entry(clat.0) });
        self.add(LogKind::Lat, elapsed, 0, entry((slat + clat).0));
        if self.options.avg_msec == 0 {
            let rate = (bytes * NANOS_PER_MSEC).checked_div(clat.0).unwrap_or(0);
            self.add(LogKind::Bandwidth, elapsed, 0, entry(rate));
            self.add(LogKind::Iops, elapsed, 0, entry(1));
        }
        if let Some(log) = &mut self.histograms {
            log.record(elapsed, entry(clat.0), &self.options);
        }
    }

    /// Adds a value to a log if the job writes it. `slack` is the time in milliseconds by which its
    /// window may be short.
    fn add(&mut self, kind: LogKind, elapsed: u64, slack: u64, entry: Entry) {
        let Some(log) = &mut self.logs[kind as usize] else { return };
        let avg_msec = u64::from(self.options.avg_msec);
        if avg_msec == 0 {
            let own = entry.ioprio.map(|ioprio| prio_text(ioprio, &self.options));
            let prio = own.as_ref().unwrap_or(&self.prio);
            return log.lines.entry(elapsed, entry, &self.options, prio);
        }
        let window = &mut log.windows[entry.dir as usize];
        window.add(entry.value);
        if elapsed.saturating_sub(window.start) + slack >= avg_msec {
            log.write_window(elapsed, entry.dir, &self.options);
            log.windows[entry.dir as usize].start = elapsed - elapsed % avg_msec;
        }
    }

    /// The last I/O has completed: writes what is left. As in fio, the rest of a window of bandwidth
    /// or IOPS and of a histogram is not logged.
    pub fn finish(&mut self, now: Nanos) {
        let elapsed = self.epoch.map_or(0, |epoch| (now - epoch).0 / NANOS_PER_MSEC);
        for log in self.logs.iter_mut().flatten() {
            for dir in [DataDir::Read, DataDir::Write, DataDir::Trim] {
                log.write_window(elapsed, dir, &self.options);
            }
            log.lines.flush();
        }
        if let Some(log) = &mut self.histograms {
            log.lines.flush();
        }
    }
}

impl Log {
    /// Writes the line of a window that has a value, and empties it.
    fn write_window(&mut self, elapsed: u64, dir: DataDir, options: &LogOptions) {
        if let Some((mean, max)) = self.windows[dir as usize].take() {
            let value = if options.window_value == WindowValue::Max { max } else { mean };
            let entry = Entry::of_many(dir, value, max);
            let none = if options.prio { "0x0000" } else { "0" };
            self.lines.entry(elapsed, entry, options, none);
        }
    }
}

impl Lines {
    fn entry(&mut self, elapsed: u64, entry: Entry, options: &LogOptions, prio: &str) {
        let Entry { dir, value, max, bytes, offset, issued, .. } = entry;
        let (dir, time) = (dir as u8, self.time(elapsed));
        self.line(|text| {
            write!(text, "{time}, {value}, ")?;
            if options.window_value == WindowValue::Both {
                write!(text, "{max}, ")?;
            }
            write!(text, "{dir}, {bytes}, ")?;
            if options.offset {
                write!(text, "{offset}, ")?;
            }
            write!(text, "{prio}")?;
            if options.issue_time { write!(text, ", {}", issued.0) } else { Ok(()) }
        });
    }
}

impl HistogramLog {
    fn record(&mut self, elapsed: u64, entry: Entry, options: &LogOptions) {
        let (window, histogram) = &mut self.windows[entry.dir as usize];
        histogram.record(entry.value, 1);
        if window.start == 0 {
            window.start = elapsed;
        }
        let hist_msec = u64::from(options.hist_msec);
        let length = elapsed - window.start;
        if length < hist_msec {
            return;
        }
        window.start += length - length % hist_msec;
        let width = 1 << options.hist_coarseness;
        let Entry { dir, bytes, .. } = entry;
        let time = self.lines.time(elapsed);
        self.lines.line(|text| {
            write!(text, "{time}, {}, {bytes}", dir as u8)?;
            let bins = histogram.counts().chunks(width).map(|bins| bins.iter().sum::<u64>());
            debug_assert_eq!(BUCKETS % width, 0);
            bins.into_iter().try_for_each(|count| write!(text, ", {count}"))
        });
        *histogram = Histogram::new();
    }
}

#[cfg(test)]
mod tests;
