//! The terminal: lines of progress, notices and errors.
use crate::args::Eta;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use zonal_fio::runner::Progress;
use zonal_lab::devices::Notices;
use zonal_lab::progress::{JobProgress, PhaseProgress, StepProgress};

/// Prints a line on standard error. If nobody reads it, there is nobody to tell.
pub fn print_error(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Notices about devices, in the log.
pub fn notices() -> Notices {
    Notices::new(|notice| tracing::warn!("{notice}"))
}

/// A bar for work in steps, shown on a terminal only.
pub struct StepBar {
    bar: ProgressBar,
}

impl StepBar {
    /// A bar that is drawn by one of `indicatif`'s templates.
    ///
    /// # Panics
    /// The template is malformed.
    pub fn new(template: &str) -> Self {
        let style = ProgressStyle::with_template(template).expect("the template is well formed");
        StepBar { bar: ProgressBar::hidden().with_style(style) }
    }
}

impl StepProgress for StepBar {
    fn start(&self, title: &str, total: u64) {
        self.bar.set_draw_target(ProgressDrawTarget::stderr());
        self.bar.set_prefix(title.to_owned());
        self.bar.reset();
        self.bar.set_length(total);
    }

    fn message(&self, text: &str) {
        self.bar.set_message(text.to_owned());
    }

    fn advance(&self, steps: u64) {
        self.bar.inc(steps);
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
        self.phase = Some(Line::new(self.eta, phase));
    }

    fn update(&mut self) {
        if let Some(line) = &mut self.phase {
            line.show();
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
    /// Without a terminal each update is a new line.
    lines: bool,
    phase: PhaseProgress,
    started: Instant,
    last: (Instant, u64, u64),
}

impl Line {
    fn new(eta: Eta, phase: PhaseProgress) -> Self {
        let target = match eta {
            Eta::Never => ProgressDrawTarget::hidden(),
            Eta::Auto | Eta::Always => ProgressDrawTarget::stderr(),
        };
        let bar = ProgressBar::with_draw_target(Some(1000), target);
        let style = ProgressStyle::with_template("{msg} [{bar:24}] {percent}%");
        bar.set_style(style.expect("the template is well formed"));
        let now = Instant::now();
        let lines = eta == Eta::Always && bar.is_hidden();
        Line { bar, lines, phase, started: now, last: (now, 0, 0) }
    }

    fn show(&mut self) {
        if self.bar.is_hidden() && !self.lines {
            return;
        }
        let sum =
            |count: fn(&Progress) -> u64| self.phase.jobs.iter().map(|job| count(job)).sum::<u64>();
        let ios = sum(|job| job.ios.load(Ordering::Relaxed));
        let bytes = sum(|job| job.bytes.load(Ordering::Relaxed));
        let now = Instant::now();
        let (then, ios_then, bytes_then) = self.last;
        let seconds = (now - then).as_secs_f64().max(1e-3);
        if seconds < 0.25 {
            return;
        }
        self.last = (now, ios, bytes);
        let rate = |count: u64, before: u64| count.saturating_sub(before) as f64 / seconds;
        let done = self.done(bytes, now);
        self.bar.set_position((done * 1000.0) as u64);
        let elapsed = (now - self.started).as_secs_f64();
        let eta = if done > 0.0 { elapsed / done - elapsed } else { 0.0 };
        let message = format!(
            "Jobs: {} {:.2} MIOPS, {:.0} MiB/s, eta {:02}m:{:02}s",
            self.phase.jobs.len(),
            rate(ios, ios_then) / 1e6,
            rate(bytes, bytes_then) / f64::from(1 << 20),
            eta as u64 / 60,
            eta as u64 % 60,
        );
        if self.lines {
            print_error(format_args!("{message}"));
        } else {
            self.bar.set_message(message);
        }
    }

    /// The fraction that is done, by bytes or by time, whichever is further.
    fn done(&self, bytes: u64, now: Instant) -> f64 {
        let by_amount = self.phase.total.map_or(0.0, |total| bytes as f64 / total.max(1) as f64);
        let elapsed = (now - self.started).as_secs_f64();
        let limit = self.phase.time_limit.map(|limit| Duration::from_nanos(limit.0));
        let by_time = limit.map_or(0.0, |limit| elapsed / limit.as_secs_f64().max(1e-3));
        by_amount.max(by_time).min(1.0)
    }
}
