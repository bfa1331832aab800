//! Rates and latencies that a clone has to keep while it runs, and the steady state at which it ends.
use super::latency_target::LatencyTarget;
use super::steady_state::{SteadyGroup, SteadyMember};
use super::verdict::Verdict;
use crate::job::{DataDir, Job, LimitOptions};
use crate::stats::{IoCounts, SteadyState, per_second};
use std::sync::Arc;
use zonal_blk::{Nanos, Status};

/// Nothing is judged before: as in fio, a job may take two seconds to get going.
const SETTLING: Nanos = Nanos(2_000_000_000);

/// The limits of a clone, and how far it is from them.
pub(crate) struct RunLimits {
    /// By [`DataDir`]; 0 for no limit.
    max_latency: [Nanos; 3],
    target: Option<LatencyTarget>,
    min_rate: Option<MinRate>,
    steady: Option<SteadyMember>,
}

impl RunLimits {
    /// The limits of a clone of `job`; `None` if it has none.
    pub fn new(job: &Job, steady: Option<&Arc<SteadyGroup>>) -> Option<Box<Self>> {
        let options = &job.limits;
        let limits = RunLimits {
            max_latency: options.max_latency,
            target: LatencyTarget::new(options.latency, job.iodepth),
            min_rate: MinRate::new(options),
            steady: steady.map(|group| SteadyMember::new(Arc::clone(group), options.steady)),
        };
        let has_any = limits.max_latency != [Nanos(0); 3]
            || limits.target.is_some()
            || limits.min_rate.is_some()
            || limits.steady.is_some();
        has_any.then(|| Box::new(limits))
    }

    /// The depth that `latency_target` wants.
    pub fn depth(&self) -> Option<u32> {
        self.target.as_ref().map(LatencyTarget::depth)
    }

    /// The measured part of the job begins.
    pub fn start(&mut self, now: Nanos) {
        if let Some(min_rate) = &mut self.min_rate {
            min_rate.start(now);
        }
        if let Some(steady) = &mut self.steady {
            steady.start(now);
        }
    }

    /// An I/O that was submitted at `started` has completed, `latency` after its preparation began.
    pub fn completed(
        &mut self,
        started: Nanos,
        now: Nanos,
        dir: DataDir,
        latency: Nanos,
    ) -> Verdict {
        let max = self.max_latency[dir as usize];
        if max > Nanos(0) && latency > max {
            let why = format!("latency of {latency} nsec exceeds specified max ({max} nsec)");
            return Verdict::Fail(Status::Timeout, why);
        }
        match &mut self.target {
            Some(target) => target.completed(started, now, latency),
            None => Verdict::Continue,
        }
    }

    /// When [`RunLimits::sample`] is next due, if ever.
    pub fn next_sample(&self) -> Option<Nanos> {
        let min_rate = self.min_rate.as_ref().map(|it| it.next);
        let steady = self.steady.as_ref().map(SteadyMember::next_sample);
        min_rate.into_iter().chain(steady).min()
    }

    /// Judges what is due. `counts` are those of all I/Os so far.
    pub fn sample(&mut self, now: Nanos, counts: IoCounts) -> Verdict {
        if let Some(why) = self.min_rate.as_mut().and_then(|it| it.sample(now, counts)) {
            return Verdict::Fail(Status::IoError, why);
        }
        match self.steady.as_mut().is_some_and(|it| it.sample(now, counts)) {
            true => Verdict::End,
            false => Verdict::Continue,
        }
    }

    /// The clone has ended: its steady state.
    pub fn finish(&mut self) -> Option<SteadyState> {
        self.steady.take().map(|steady| steady.finish())
    }
}

/// Rates that a clone has to keep, on average over `rate_cycle` (`rate_min`, `rate_iops_min`).
struct MinRate {
    /// By [`DataDir`]: bytes and I/Os per second; 0 for no limit.
    bytes: [u64; 3],
    ios: [u64; 3],
    cycle: Nanos,
    next: Nanos,
    /// When the cycle began, and what had been done by then; `None` while the job gets going.
    cycle_start: Option<(Nanos, IoCounts)>,
}

impl MinRate {
    fn new(options: &LimitOptions) -> Option<Self> {
        let &LimitOptions { rate_min: bytes, rate_iops_min: ios, rate_cycle: cycle, .. } = options;
        let next = Nanos(u64::MAX);
        let has_any = [bytes, ios] != [[0; 3]; 2];
        has_any.then_some(MinRate { bytes, ios, cycle, next, cycle_start: None })
    }

    fn start(&mut self, now: Nanos) {
        (self.next, self.cycle_start) = (now + SETTLING, None);
    }

    /// The rate that was not kept, if one was not.
    fn sample(&mut self, now: Nanos, counts: IoCounts) -> Option<String> {
        if now < self.next {
            return None;
        }
        let (start, before) = self.cycle_start.replace((now, counts)).unwrap_or((now, counts));
        self.next = now + self.cycle;
        if start == now {
            return None;
        }
        let rate =
            |all: [u64; 3], before: [u64; 3], dir| per_second(all[dir] - before[dir], now - start);
        // As in fio, directions without I/O so far are not judged.
        let mut active = (0..3).filter(|&dir| counts.ios[dir] > 0);
        active.find_map(|dir| {
            let (bytes, ios) = (self.bytes[dir], self.ios[dir]);
            let did = rate(counts.bytes, before.bytes, dir);
            if did < bytes {
                return Some(format!("rate_min={bytes}B/s not met, got {did}B/s"));
            }
            let did = rate(counts.ios, before.ios, dir);
            (did < ios).then(|| format!("rate_iops_min={ios} not met, got {did} IOPS"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_judged_over_each_cycle_once_the_job_has_got_going() {
        let second = |n: u64| Nanos(n * 1_000_000_000);
        let rate_cycle = second(1);
        let options = LimitOptions { rate_min: [1000; 3], rate_cycle, ..Default::default() };
        let mut rate = MinRate::new(&options).expect("a limit");
        let done = |bytes| IoCounts { ios: [bytes, 0, 0], bytes: [bytes, 0, 0] };
        rate.start(second(5));
        assert_eq!(rate.sample(second(6), done(0)), None, "it may take two seconds");
        assert_eq!(rate.sample(second(7), done(10)), None, "the first cycle begins");
        assert_eq!(rate.sample(second(8), done(1010)), None);
        let found = rate.sample(second(10), done(3000));
        assert_eq!(found.as_deref(), Some("rate_min=1000B/s not met, got 995B/s"));
        assert!(MinRate::new(&LimitOptions::default()).is_none());
    }

    #[test]
    fn io_slower_than_max_latency_fails_the_job() {
        let limits = LimitOptions {
            max_latency: [Nanos(0), Nanos(1000), Nanos(0)],
            ..LimitOptions::default()
        };
        let job = Job { limits, ..Job::default() };
        let mut limits = RunLimits::new(&job, None).expect("a limit");
        let mut of = |dir, latency| limits.completed(Nanos(0), Nanos(0), dir, Nanos(latency));
        assert!(matches!(of(DataDir::Read, 5000), Verdict::Continue));
        assert!(matches!(of(DataDir::Write, 1000), Verdict::Continue));
        let Verdict::Fail(Status::Timeout, why) = of(DataDir::Write, 1001) else { panic!() };
        assert_eq!(why, "latency of 1001 nsec exceeds specified max (1000 nsec)");
        assert!(RunLimits::new(&Job::default(), None).is_none());
    }
}
