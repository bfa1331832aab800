//! The terminal: lines of progress, notices and errors.
mod shown;

use crate::args::Eta;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use shown::shown;
pub use shown::stdout;
use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use zonal_backend::Notices;
use zonal_blk::Nanos;
use zonal_fio::runner::Progress;
use zonal_lab::progress::{JobProgress, PhaseProgress, StepProgress};

/// Prints a line on standard error. If nobody reads it, there is nobody to tell.
pub fn print_error(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{}", shown(line));
}

/// Notices about devices, in the log.
pub fn notices() -> Notices {
    Notices::new(|notice| tracing::warn!("{notice}"))
}

/// Without a terminal, the time between two lines of progress.
const LINE_INTERVAL: Duration = Duration::from_secs(30);
/// On a terminal, and with `--eta=always`, the shortest time between two updates.
const UPDATE_INTERVAL: Duration = Duration::from_millis(250);

/// A bar for work in steps; a line now and then without a terminal.
pub struct StepBar {
    bar: ProgressBar,
    /// Without a terminal, when the work began and when the next line is due.
    lines: Mutex<(Instant, Instant)>,
}

impl StepBar {
    /// A bar that is drawn by one of `indicatif`'s templates.
    ///
    /// # Panics
    /// The template is malformed.
    pub fn new(template: &str) -> Self {
        let style = ProgressStyle::with_template(template).expect("the template is well formed");
        let now = Instant::now();
        let lines = Mutex::new((now, now + LINE_INTERVAL));
        StepBar { bar: ProgressBar::hidden().with_style(style), lines }
    }

    /// The line that is due at `now`; `None` if none is, or on a terminal.
    fn line(&self, now: Instant) -> Option<String> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let (started, due) = *lines;
        if now < due || !self.bar.is_hidden() {
            return None;
        }
        lines.1 = now + LINE_INTERVAL;
        let (done, total) = (self.bar.position(), self.bar.length().unwrap_or(0));
        let elapsed = (now - started).as_secs();
        let left = elapsed * total.saturating_sub(done) / done.max(1);
        let title = self.bar.prefix();
        let title = if title.is_empty() { title } else { title + ": " };
        Some(format!("{title}{done} of {total} done in {elapsed} s, eta {left} s"))
    }
}

impl StepProgress for StepBar {
    fn start(&self, title: &str, total: u64) {
        self.bar.set_draw_target(ProgressDrawTarget::stderr());
        self.bar.set_prefix(shown(title));
        self.bar.reset();
        self.bar.set_length(total);
        let now = Instant::now();
        *self.lines.lock().unwrap_or_else(PoisonError::into_inner) = (now, now + LINE_INTERVAL);
    }

    fn message(&self, text: &str) {
        self.bar.set_message(shown(text));
    }

    fn advance(&self, steps: u64) {
        self.bar.inc(steps);
        if let Some(line) = self.line(Instant::now()) {
            print_error(format_args!("{line}"));
        }
    }

    fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// The line of the jobs of a phase: how far they are, what they do a second and how long they still
/// need.
pub struct JobLine {
    eta: Eta,
    phase: Option<Line>,
}

impl JobLine {
    /// A line that is shown as `eta` says.
    pub fn new(eta: Eta) -> Self {
        JobLine { eta, phase: None }
    }
}

impl JobProgress for JobLine {
    fn start(&mut self, phase: PhaseProgress) {
        let target = match self.eta {
            Eta::Never => ProgressDrawTarget::hidden(),
            Eta::Auto | Eta::Always => ProgressDrawTarget::stderr(),
        };
        self.phase = Some(Line::new(self.eta, phase, target));
    }

    fn update(&mut self, elapsed: Nanos) {
        let Some(line) = &mut self.phase else { return };
        if let Some(message) = line.message(Instant::now(), elapsed) {
            print_error(format_args!("{message}"));
        }
    }

    fn finish(&mut self) {
        if let Some(line) = self.phase.take() {
            line.bar.finish_and_clear();
        }
    }
}

struct Line {
    bar: ProgressBar,
    /// Each update is a new line.
    lines: bool,
    /// The shortest time between two updates; `None` for no updates.
    interval: Option<Duration>,
    phase: PhaseProgress,
    started: Instant,
    last: Shown,
}

/// The last text of the line.
#[derive(Clone, Copy)]
struct Shown {
    at: Instant,
    /// By the clock of the jobs.
    elapsed: Nanos,
    ios: u64,
    bytes: u64,
}

impl Line {
    fn new(eta: Eta, phase: PhaseProgress, target: ProgressDrawTarget) -> Self {
        let bar = ProgressBar::with_draw_target(Some(1000), target);
        let style = ProgressStyle::with_template("{msg} [{bar:24}] {percent}%");
        bar.set_style(style.expect("the template is well formed"));
        let lines = bar.is_hidden();
        let interval = match eta {
            Eta::Never => None,
            Eta::Auto if lines => Some(LINE_INTERVAL),
            Eta::Auto | Eta::Always => Some(UPDATE_INTERVAL),
        };
        let started = Instant::now();
        let last = Shown { at: started, elapsed: Nanos(0), ios: 0, bytes: 0 };
        Line { bar, lines, interval, phase, started, last }
    }

    /// Shows on a terminal what has been done at `at`, by `elapsed` of the jobs' clock, whose seconds
    /// the rates are for. Without a terminal, returns it if a line is due.
    fn message(&mut self, at: Instant, elapsed: Nanos) -> Option<String> {
        if self.interval.is_none_or(|interval| at - self.last.at < interval) {
            return None;
        }
        let sum =
            |count: fn(&Progress) -> u64| self.phase.jobs.iter().map(|job| count(job)).sum::<u64>();
        let ios = sum(|job| job.ios.load(Ordering::Relaxed));
        let bytes = sum(|job| job.bytes.load(Ordering::Relaxed));
        let last = std::mem::replace(&mut self.last, Shown { at, elapsed, ios, bytes });
        let seconds = ((elapsed - last.elapsed).0 as f64 / 1e9).max(1e-9);
        let rate = |count: u64, before: u64| count.saturating_sub(before) as f64 / seconds;
        let done = self.done(bytes, elapsed);
        self.bar.set_position((done * 1000.0) as u64);
        let spent = (at - self.started).as_secs_f64();
        let eta = if done > 0.0 { spent / done - spent } else { 0.0 };
        let message = format!(
            "Jobs: {} at {:.1} s, {} IOPS, {:.0} MiB/s, eta {:02}m:{:02}s",
            self.phase.jobs.len(),
            elapsed.0 as f64 / 1e9,
            short(rate(ios, last.ios)),
            rate(bytes, last.bytes) / f64::from(1 << 20),
            eta as u64 / 60,
            eta as u64 % 60,
        );
        if self.lines {
            return Some(message);
        }
        self.bar.set_message(message);
        None
    }

    /// The fraction that is done, by bytes or by time, whichever is further.
    fn done(&self, bytes: u64, elapsed: Nanos) -> f64 {
        let share = |done: u64, of: u64| done as f64 / of.max(1) as f64;
        let by_amount = self.phase.total.map_or(0.0, |total| share(bytes, total));
        let by_time = self.phase.time_limit.map_or(0.0, |limit| share(elapsed.0, limit.0));
        by_amount.max(by_time).min(1.0)
    }
}

/// A rate with three digits: `987`, `12.3k`, `4.56M`.
fn short(rate: f64) -> String {
    match rate {
        rate if rate >= 999_500.0 => format!("{:.2}M", rate / 1e6),
        rate if rate >= 999.5 => format!("{:.1}k", rate / 1e3),
        rate => format!("{rate:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::Arc;

    #[test]
    fn without_a_terminal_steps_give_a_line_every_30_seconds() {
        let bar = StepBar::new("{pos}");
        bar.bar.set_length(10);
        bar.bar.set_prefix("zwp-zns");
        bar.bar.inc(4);
        let begun = bar.lines.lock().unwrap().0;
        let line = |seconds| bar.line(begun + Duration::from_secs(seconds));
        assert_eq!(line(29), None);
        assert_eq!(line(30).as_deref(), Some("zwp-zns: 4 of 10 done in 30 s, eta 45 s"));
        assert_eq!(line(59), None);
        assert_eq!(line(61).as_deref(), Some("zwp-zns: 4 of 10 done in 61 s, eta 91 s"));
    }

    #[test]
    fn without_a_terminal_jobs_give_a_line_every_30_seconds_unless_told_otherwise() {
        let message = |eta, after: &[u64]| {
            let job = Arc::new(Progress::default());
            let time_limit = Some(Nanos(4_000_000_000));
            let phase = PhaseProgress {
                begin: Nanos(0),
                jobs: vec![Arc::clone(&job)],
                total: None,
                time_limit,
            };
            let mut line = Line::new(eta, phase, ProgressDrawTarget::hidden());
            job.ios.store(2000, Ordering::Relaxed);
            job.bytes.store(2 << 20, Ordering::Relaxed);
            let begun = line.started;
            let show = |&millis: &u64| {
                line.message(begun + Duration::from_millis(millis), Nanos(1_000_000_000))
            };
            after.iter().map(show).collect::<Vec<_>>()
        };
        let told = |eta| Some(format!("Jobs: 1 at 1.0 s, 2.0k IOPS, 2 MiB/s, eta {eta}"));
        assert_eq!(message(Eta::Auto, &[29_999, 30_000]), [None, told("01m:30s")]);
        assert_eq!(message(Eta::Always, &[249, 1000]), [None, told("00m:03s")]);
        assert_eq!(message(Eta::Never, &[60_000]), [None]);
    }
}
