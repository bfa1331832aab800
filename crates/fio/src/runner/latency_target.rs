//! Finds the largest depth at which latencies keep a target (`latency_target`).
//!
//! As fio does (HOWTO, `latency_target`): from depth 1 on the depth is doubled while the target is
//! kept, then it is halved between the highest that kept it and the lowest that did not. A depth is
//! tried for `latency_window`; with `latency_percentile=100` a single I/O above the target ends the
//! trial. When the depth is found, the job runs for one more window, which is all that its report
//! covers, and ends. With `latency_run` it goes on, and after four windows tries the next depth.
use super::verdict::Verdict;
use crate::job::LatencyOptions;
use zonal_blk::{Nanos, Status};

/// With `latency_run`, windows at a depth before the next one is tried.
const STABLE_WINDOWS: u32 = 4;

#[derive(Debug)]
pub(super) struct LatencyTarget {
    options: LatencyOptions,
    max_depth: u32,
    depth: u32,
    /// The highest depth that kept the target.
    kept: u32,
    /// The lowest depth that did not; one more than `max_depth` if none is known.
    missed: u32,
    /// When the trial of the depth began; I/Os submitted before do not count.
    since: Option<Nanos>,
    ios: u64,
    slow: u64,
    stable: u32,
    /// The depth is found: the last window is measured.
    is_last: bool,
}

impl LatencyTarget {
    pub fn new(options: LatencyOptions, max_depth: u32) -> Option<Self> {
        (options.target > Nanos(0)).then_some(LatencyTarget {
            options,
            max_depth,
            depth: 1,
            kept: 0,
            missed: max_depth + 1,
            since: None,
            ios: 0,
            slow: 0,
            stable: 0,
            is_last: false,
        })
    }

    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// An I/O that was submitted at `started` has completed.
    pub fn completed(&mut self, started: Nanos, now: Nanos, latency: Nanos) -> Verdict {
        let since = *self.since.get_or_insert(started);
        if started < since {
            return Verdict::Continue;
        }
        self.ios += 1;
        if latency > self.options.target {
            if self.options.percentile >= 100.0 {
                return self.miss(now, latency);
            }
            self.slow += 1;
        }
        if now - since < self.options.window {
            return Verdict::Continue;
        }
        let kept = (self.ios - self.slow) as f64 * 100.0 / self.ios as f64;
        if kept >= self.options.percentile {
            return self.keep(now);
        }
        match self.depth {
            // Too slow at depth 1: as in fio, the job goes on.
            1 => self.restart(now, 1),
            _ => self.miss(now, latency),
        }
    }

    fn restart(&mut self, now: Nanos, depth: u32) -> Verdict {
        let is_lower = depth < self.depth;
        (self.depth, self.since, self.ios, self.slow) = (depth, Some(now), 0, 0);
        Verdict::Depth { depth, drains: is_lower }
    }

    fn keep(&mut self, now: Nanos) -> Verdict {
        self.kept = self.depth;
        if self.is_last {
            return Verdict::End;
        }
        let is_known = self.missed <= self.max_depth;
        let next = match is_known {
            true => (self.depth + self.missed) / 2,
            false => (self.depth * 2).min(self.max_depth),
        };
        if next != self.depth {
            return self.restart(now, next);
        }
        if !self.options.run {
            self.is_last = true;
            self.restart(now, self.depth);
            return Verdict::Remeasure;
        }
        self.stable += 1;
        let raise = self.stable >= STABLE_WINDOWS && self.depth < self.max_depth;
        if raise {
            (self.stable, self.missed) = (0, self.missed + 1);
        }
        self.restart(now, if raise { self.depth + 1 } else { self.depth })
    }

    fn miss(&mut self, now: Nanos, latency: Nanos) -> Verdict {
        if self.depth == 1 {
            let target = self.options.target;
            let why = format!("latency of {latency} nsec exceeds the target of {target} nsec");
            return Verdict::Fail(Status::Timeout, why);
        }
        (self.missed, self.stable, self.is_last) = (self.depth, 0, false);
        // What kept the target before does so no longer.
        self.kept = self.kept.min(self.depth - 1);
        let next = ((self.depth + self.kept) / 2).max(1);
        self.restart(now, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: u64 = 1_000_000;

    /// A device whose latency is `per_io` nanoseconds for each I/O in flight, from `slow_from` on ten
    /// times that. Returns the depths tried, and how it ended.
    fn search(options: LatencyOptions, max_depth: u32, per_io: u64) -> (Vec<u32>, Option<Verdict>) {
        let mut target = LatencyTarget::new(options, max_depth).expect("a target");
        let (mut now, mut depths) = (Nanos(0), vec![1]);
        for _ in 0..100_000 {
            let latency = Nanos(per_io * u64::from(target.depth()));
            let started = now;
            now += latency;
            match target.completed(started, now, latency) {
                Verdict::Continue | Verdict::Remeasure => {}
                Verdict::Depth { depth, .. } => depths.push(depth),
                end @ (Verdict::End | Verdict::Fail(..)) => return (depths, Some(end)),
            }
        }
        (depths, None)
    }

    fn options(target: u64) -> LatencyOptions {
        LatencyOptions {
            target: Nanos(target),
            window: Nanos(100 * MILLI),
            percentile: 100.0,
            run: false,
        }
    }

    #[test]
    fn the_largest_depth_that_keeps_the_target_is_found_for_any_target() {
        for best in 1..=64 {
            let (depths, end) = search(options(best * MILLI), 64, MILLI);
            assert_eq!(depths.last(), Some(&(best as u32)), "{best}: {depths:?}");
            assert!(matches!(end, Some(Verdict::End)), "{end:?}");
            assert!(depths.len() <= 14, "doubled, then halved: {depths:?}");
        }
        let (depths, _) = search(options(1000 * MILLI), 64, MILLI);
        assert_eq!(depths, [1, 2, 4, 8, 16, 32, 64]);
    }

    #[test]
    fn a_device_too_slow_at_depth_1_fails_the_job() {
        let (depths, end) = search(options(MILLI / 2), 64, MILLI);
        let Some(Verdict::Fail(Status::Timeout, why)) = end else { panic!("{end:?}") };
        assert_eq!(depths, [1]);
        assert_eq!(why, "latency of 1000000 nsec exceeds the target of 500000 nsec");
    }

    #[test]
    fn a_percentile_lets_some_ios_be_slow() {
        let tried = |percentile: f64| {
            let options = LatencyOptions { percentile, ..options(5 * MILLI) };
            let mut target = LatencyTarget::new(options, 2).expect("a target");
            let mut now = Nanos(0);
            // Every tenth I/O is slow.
            for io in 0..1000 {
                let latency = Nanos(if io % 10 == 9 { 9 * MILLI } else { MILLI });
                let started = now;
                now += latency;
                let verdict = target.completed(started, now, latency);
                if !matches!(verdict, Verdict::Continue) {
                    return verdict;
                }
            }
            Verdict::Continue
        };
        assert!(matches!(tried(85.0), Verdict::Depth { depth: 2, drains: false }));
        assert!(matches!(tried(95.0), Verdict::Depth { depth: 1, .. }), "tried again");
        assert!(matches!(tried(100.0), Verdict::Fail(..)));
    }

    #[test]
    fn with_latency_run_the_job_goes_on_at_the_depth_and_tries_the_next_one_at_times() {
        let (depths, end) = search(LatencyOptions { run: true, ..options(5 * MILLI) }, 64, MILLI);
        assert!(end.is_none());
        let settled = &depths[10..];
        assert!(settled.iter().all(|depth| (5..=6).contains(depth)), "{settled:?}");
        assert!(settled.contains(&6) && settled.contains(&5));
    }

    #[test]
    fn ios_of_the_depth_before_do_not_count() {
        let mut target = LatencyTarget::new(options(10 * MILLI), 8).expect("a target");
        let at = |ms: u64| Nanos(ms * MILLI);
        assert!(matches!(
            target.completed(at(0), at(100), at(5)),
            Verdict::Depth { depth: 1 | 2, .. }
        ));
        assert!(matches!(target.completed(at(99), at(150), at(51)), Verdict::Continue));
        assert!(matches!(
            target.completed(at(100), at(150), at(50)),
            Verdict::Depth { depth: 1, drains: true }
        ));
    }
}
