//! The live line of progress.
use crate::cli::Eta;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use zonal_blk::Clock;
use zonal_fio::runner::{Progress, SteppedBy};

/// Shows how far the jobs of a phase are, what they do a second and how long they still need.
pub struct ProgressLine {
    bar: ProgressBar,
    /// Wanted, and no terminal to draw on: a new line each time.
    lines: bool,
    jobs: Vec<Arc<Progress>>,
    /// Bytes to do, over all jobs; `None` if only time limits them.
    total: Option<u64>,
    /// The longest time limit.
    limit: Option<Duration>,
    started: Instant,
    last: (Instant, u64, u64),
}

impl ProgressLine {
    /// A line for `runners`, hidden unless there is a terminal or `eta` wants it.
    pub fn new<C: Clock>(eta: Eta, runners: &[Box<dyn SteppedBy<C>>]) -> Self {
        let target = match eta {
            Eta::Never => ProgressDrawTarget::hidden(),
            Eta::Auto | Eta::Always => ProgressDrawTarget::stderr(),
        };
        let bar = ProgressBar::with_draw_target(Some(1000), target);
        let style = ProgressStyle::with_template("{msg} [{bar:24}] {percent}%");
        bar.set_style(style.expect("the template is well formed"));
        let total = runners.iter().try_fold(0_u64, |sum, runner| Some(sum + runner.total()?));
        let limit = runners.iter().map(|runner| runner.time_limit()).max().flatten();
        let now = Instant::now();
        ProgressLine {
            lines: eta == Eta::Always && bar.is_hidden(),
            bar,
            jobs: runners.iter().map(|runner| runner.progress()).collect(),
            total,
            limit: limit.map(|limit| Duration::from_nanos(limit.0)),
            started: now,
            last: (now, 0, 0),
        }
    }

    /// Brings the line up to date.
    pub fn show(&mut self) {
        if self.bar.is_hidden() && !self.lines {
            return;
        }
        let sum = |count: fn(&Progress) -> u64| self.jobs.iter().map(|job| count(job)).sum::<u64>();
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
            self.jobs.len(),
            rate(ios, ios_then) / 1e6,
            rate(bytes, bytes_then) / f64::from(1 << 20),
            eta as u64 / 60,
            eta as u64 % 60,
        );
        if self.lines {
            eprintln!("{message}");
        } else {
            self.bar.set_message(message);
        }
    }

    /// The share that is done, by amount or by time, whichever ends the jobs first.
    fn done(&self, bytes: u64, now: Instant) -> f64 {
        let by_amount = self.total.map_or(0.0, |total| bytes as f64 / total.max(1) as f64);
        let elapsed = (now - self.started).as_secs_f64();
        let by_time = self.limit.map_or(0.0, |limit| elapsed / limit.as_secs_f64().max(1e-3));
        by_amount.max(by_time).min(1.0)
    }

    /// Takes the line away.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
