//! The steady state at which a job ends (`steadystate`): for `steadystate_duration`, measurements of
//! IOPS or bandwidth deviate from their mean by less than a limit, or their regression line has less
//! than a limiting slope (fio, HOWTO, `steadystate`).
//!
//! Clones of a group with `group_reporting` are judged by their sum.
use crate::job::SteadyOptions;
use crate::stats::{IoCounts, SteadyState, per_second};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};
use zonal_blk::Nanos;

/// The clones that are judged together.
#[derive(Debug)]
pub struct SteadyGroup {
    shared: Mutex<SteadyShared>,
    is_attained: AtomicBool,
}

#[derive(Debug)]
struct SteadyShared {
    state: SteadyState,
    /// Clones that have not ended.
    members: usize,
    /// The number of the first of the `pending` ones.
    first: u64,
    /// Sums of measurements that not all clones have made, with how many have.
    pending: VecDeque<(usize, u64, u64)>,
}

impl SteadyGroup {
    /// A group of this many clones; `None` if they do not end at a steady state.
    pub fn new(options: &SteadyOptions, members: usize) -> Option<Arc<Self>> {
        let state = SteadyState::new(options.criterion?, options);
        let shared =
            Mutex::new(SteadyShared { state, members, first: 0, pending: VecDeque::new() });
        Some(Arc::new(SteadyGroup { shared, is_attained: AtomicBool::new(false) }))
    }

    fn shared(&self) -> MutexGuard<'_, SteadyShared> {
        self.shared.lock().expect("steady state lock")
    }

    /// Adds a clone's measurement of this number.
    fn add(&self, number: u64, iops: u64, bandwidth: u64) {
        let mut shared = self.shared();
        // Before the clone's first one, others have ended: what they did is judged already.
        let Some(at) = number.checked_sub(shared.first) else { return };
        let at = usize::try_from(at).expect("few measurements are pending");
        while shared.pending.len() <= at {
            shared.pending.push_back((0, 0, 0));
        }
        let (count, ios, bytes) = &mut shared.pending[at];
        (*count, *ios, *bytes) = (*count + 1, *ios + iops, *bytes + bandwidth);
        self.judge(&mut shared);
    }

    fn leave(&self) {
        let mut shared = self.shared();
        shared.members -= 1;
        if shared.members > 0 {
            self.judge(&mut shared);
        }
    }

    fn judge(&self, shared: &mut SteadyShared) {
        while let Some(&(count, ios, bytes)) = shared.pending.front()
            && count >= shared.members
        {
            shared.pending.pop_front();
            shared.first += 1;
            shared.state.add((ios, bytes));
        }
        self.is_attained.store(shared.state.is_attained, Ordering::Relaxed);
    }
}

/// A clone's part in a group.
#[derive(Debug)]
pub(super) struct SteadyMember {
    group: Arc<SteadyGroup>,
    options: SteadyOptions,
    /// The ramp is over.
    has_begun: bool,
    /// When the next measurement is due.
    next: Nanos,
    /// When the last one was made, and what had been done by then.
    last: Nanos,
    counted: IoCounts,
    number: u64,
}

impl SteadyMember {
    pub fn new(group: Arc<SteadyGroup>, options: SteadyOptions) -> Self {
        let (next, last, counted) = (Nanos(u64::MAX), Nanos(0), IoCounts::default());
        SteadyMember { group, options, has_begun: false, next, last, counted, number: 0 }
    }

    /// The measured part of the job begins.
    pub fn start(&mut self, now: Nanos) {
        self.next = now + self.options.ramp;
        self.has_begun = false;
    }

    /// When [`SteadyMember::sample`] is next due.
    pub fn next_sample(&self) -> Nanos {
        self.next
    }

    /// Measures if that is due; returns whether the state is steady.
    pub fn sample(&mut self, now: Nanos, counts: IoCounts) -> bool {
        if now < self.next {
            return false;
        }
        if self.has_begun {
            let spent = now - self.last;
            let sum = |of: &[u64; 3]| of.iter().sum::<u64>();
            let ios = sum(&counts.ios) - sum(&self.counted.ios);
            let bytes = sum(&counts.bytes) - sum(&self.counted.bytes);
            self.group.add(self.number, per_second(ios, spent), per_second(bytes, spent));
            self.number += 1;
        }
        (self.has_begun, self.last, self.counted) = (true, now, counts);
        self.next = now + self.options.interval;
        self.group.is_attained.load(Ordering::Relaxed)
    }

    /// The clone has ended: what was measured.
    pub fn finish(&self) -> SteadyState {
        self.group.leave();
        self.group.shared().state.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::SteadyCriterion;

    fn options(text: &str, seconds: u64) -> SteadyOptions {
        let (what, limit) = text.split_once(':').expect("a limit");
        let criterion = SteadyCriterion {
            iops: what.starts_with("iops"),
            slope: what.ends_with("slope"),
            limit: limit.trim_end_matches('%').parse().expect("a number"),
            percent: limit.ends_with('%'),
        };
        let second = Nanos(1_000_000_000);
        let duration = Nanos(seconds * second.0);
        SteadyOptions { criterion: Some(criterion), duration, ramp: Nanos(0), interval: second }
    }

    /// The number of the measurement at which the state is steady.
    fn steady_at(text: &str, window: u64, iops: &[u64]) -> Option<usize> {
        let options = options(text, window);
        let mut state = SteadyState::new(options.criterion.expect("one"), &options);
        iops.iter().position(|&iops| {
            state.add((iops, 1000 * iops));
            state.is_attained
        })
    }

    #[test]
    fn deviations_and_slopes_are_judged_over_the_last_window() {
        let settles = [900, 500, 300, 110, 100, 101, 99, 100, 100];
        assert_eq!(steady_at("iops:2", 4, &settles), Some(7), "101, 99, 100: at most 1 off");
        assert_eq!(steady_at("iops:1", 4, &settles), None, "1 is not below 1");
        assert_eq!(steady_at("iops:1.5%", 4, &settles), Some(7));
        assert_eq!(steady_at("bw:1500", 4, &settles), Some(7));
        assert_eq!(steady_at("bw:900", 4, &settles), None);
        // 0, 10, 20 and so on has a slope of 10; up and down has none.
        let rises: Vec<u64> = (0..20).map(|at| 10 * at).collect();
        assert_eq!(steady_at("iops_slope:9.9", 5, &rises), None);
        assert_eq!(steady_at("iops_slope:10.1", 5, &rises), Some(4));
        assert_eq!(steady_at("iops_slope:10.1%", 5, &rises), Some(12), "a mean of 100");
        assert_eq!(steady_at("bw_slope:1", 4, &[5, 9, 9, 5]), Some(3));
        assert_eq!(steady_at("iops:50%", 2, &[0, 0, 0]), None, "nothing was done");
    }

    #[test]
    fn clones_of_a_group_are_judged_by_their_sum_and_without_those_that_ended() {
        let group = SteadyGroup::new(&options("iops:5", 2), 2).expect("a criterion");
        let is_attained = || group.is_attained.load(Ordering::Relaxed);
        group.add(0, 100, 0);
        group.add(1, 500, 0);
        assert_eq!(group.shared().state.measured.len(), 0, "the other one is behind");
        group.add(0, 900, 0);
        group.add(1, 499, 0);
        assert!(is_attained(), "1000 and 999");
        let group = SteadyGroup::new(&options("iops:5", 2), 2).expect("a criterion");
        group.add(0, 100, 0);
        group.add(1, 101, 0);
        group.leave();
        assert_eq!(group.shared().state.measured, [(100, 0), (101, 0)]);
    }

    #[test]
    fn a_member_measures_each_second_after_the_ramp() {
        let options = SteadyOptions { ramp: Nanos(3_500_000_000), ..options("iops:5", 2) };
        let group = SteadyGroup::new(&options, 1).expect("a criterion");
        let mut member = SteadyMember::new(Arc::clone(&group), options);
        member.start(Nanos(0));
        let (mut at, mut now) = (Vec::new(), Nanos(0));
        // Ten I/Os each millisecond.
        while !member.sample(now, IoCounts { ios: [now.0 / 100_000, 0, 0], bytes: [0; 3] }) {
            at.push(now.0 / 1_000_000);
            now = member.next_sample();
        }
        assert_eq!(at, [0, 3500, 4500]);
        assert_eq!(group.shared().state.measured, [(10_000, 0); 2]);
    }
}
