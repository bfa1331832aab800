//! Processors that are fewer than the threads which want one.
//!
//! A thread that polls for completions uses a processor all the time, so of more such threads than there are
//! processors each has its turns. A job goes on while all of its threads have one at the same time: with one
//! thread that is the share of processors to threads, with two that share twice over. Each job has it once
//! in a round, at a phase of its own.
//!
//! ```text
//!   job 0   |=======|       |=======|       |
//!   job 1   |==|       |=======|       |====|
//!           <--- round ---->
//! ```
use zonal_blk::Nanos;

/// The time in which each job has its turn: a few time slices. The share of a job does not depend on it.
const ROUND: Nanos = Nanos(10_000_000);

/// The turns of jobs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Turns {
    jobs: u64,
    /// The part of each round in which a job goes on.
    turn: u64,
}

impl Turns {
    /// Of `jobs` with this many `threads` each, on some processors; `None` if there is one for each.
    pub(crate) fn of(jobs: usize, threads: u32, processors: u32) -> Option<Self> {
        let all = jobs as f64 * f64::from(threads);
        if processors == 0 || all <= f64::from(processors) {
            return None;
        }
        let share = (f64::from(processors) / all).powi(threads.cast_signed());
        Some(Turns { jobs: jobs as u64, turn: ((ROUND.0 as f64 * share) as u64).max(1) })
    }

    /// The first time from `at` on at which a job has its turn.
    pub(crate) fn next(self, job: usize, at: Nanos) -> Nanos {
        let phase = (at.0 % ROUND.0 + job as u64 * ROUND.0 / self.jobs) % ROUND.0;
        if phase < self.turn { at } else { Nanos(at.0.saturating_add(ROUND.0 - phase)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of a job in the time, over some rounds.
    fn share(turns: Turns, job: usize) -> f64 {
        let steps = 10_000;
        let at = |step: u64| Nanos(step * 3 * ROUND.0 / steps);
        let on = (0..steps).filter(|&step| turns.next(job, at(step)) == at(step)).count();
        on as f64 / steps as f64
    }

    #[test]
    fn each_job_has_the_share_of_its_threads() {
        assert_eq!(Turns::of(10, 1, 10), None);
        assert_eq!(Turns::of(10, 2, 20), None);
        assert_eq!(Turns::of(1000, 1, 0), None, "any number of processors");
        for (threads, processors, expected) in [(1, 10, 10.0 / 14.0), (2, 20, 100.0 / 196.0)] {
            let turns = Turns::of(14, threads, processors).expect("there are too few");
            for job in 0..14 {
                assert!((share(turns, job) - expected).abs() < 0.001, "{threads} threads");
            }
        }
    }

    #[test]
    fn next_turn_is_in_the_turn_and_never_before() {
        let turns = Turns::of(7, 1, 3).expect("there are too few");
        for at in (0..2 * ROUND.0).step_by(12_345).map(Nanos) {
            for job in 0..7 {
                let next = turns.next(job, at);
                assert!(next >= at && turns.next(job, next) == next, "{job} {at:?}");
            }
        }
    }
}
