//! Which configuration is the advice: one is preferred to today's only if the measurements are sure that it
//! is better.
//!
//! All configurations are measured with the same seeds, so that what a seed does to all of them cancels out
//! in their differences. More seeds are measured for those that may yet change the answer, until none is
//! left or the budget is spent: successive elimination (Even-Dar, Mannor and Mansour, Action elimination
//! and stopping conditions, JMLR 7, 2006) with paired differences (Kim and Nelson, A fully sequential
//! procedure for indifference-zone selection in simulation, ACM TOMACS 11, 2001). The 5 % of error are
//! shared by all comparisons with today's, and by all looks at the figures, so that with this probability no
//! difference at all is taken for one.
use super::{Goal, TIE};
use crate::estimate::Comparison;

/// How long the tail of a job may be, compared with today's: the logarithm of 1.1.
const LONGER: f64 = 0.0953;

/// What is known of a configuration.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// By goal, the cost for each seed.
    pub costs: Vec<Vec<f64>>,
    /// By job and direction, the costs of its rate and of its tail for each seed.
    pub jobs: Vec<[Vec<f64>; 2]>,
    /// How many settings differ from today's.
    pub changes: usize,
}

/// Whether a configuration leaves each job as well off as today.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Guard {
    /// It does.
    Kept,
    /// That is not sure of this job and figure.
    Unsure(usize, Figure, Comparison),
    /// This job and figure are worse.
    Broken(usize, Figure, Comparison),
}

/// A figure of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Its rate.
    Rate,
    /// The 99th percentile of its latency.
    Tail,
}

/// How one configuration compares with another in a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// It is better.
    Better,
    /// They differ by less than [`Goal::tie`].
    Same,
    /// It is worse.
    Worse,
    /// More seeds have to tell.
    Unsure,
}

/// Configurations to choose from; the first is today's.
pub struct Choice<'a> {
    known: &'a [Known],
    /// By goal, which differences of costs count.
    ties: Vec<f64>,
    /// Whether no job may be worse off than today.
    is_guarded: bool,
    /// The probability of error of one comparison.
    error: f64,
}

impl<'a> Choice<'a> {
    /// Of these, with this many looks at the figures in all.
    pub fn new(known: &'a [Known], goals: &[Goal], is_guarded: bool, looks: usize) -> Self {
        let comparisons = known.len().saturating_sub(1).max(1) * looks.max(1);
        let ties = goals.iter().map(Goal::tie).collect();
        Choice { known, ties, is_guarded, error: 0.05 / comparisons as f64 }
    }

    /// How the cost of one configuration differs from that of another in a goal.
    pub fn difference(&self, one: usize, other: usize, goal: usize) -> Comparison {
        let [one, other] = [one, other].map(|at| &self.known[at].costs[goal]);
        Comparison::of(one, other, self.error)
    }

    /// How one compares with another in a goal.
    pub fn relation(&self, one: usize, other: usize, goal: usize) -> Relation {
        let (it, tie) = (self.difference(one, other, goal), self.ties[goal]);
        match it.interval() {
            (_, high) if high < 0.0 && it.mean < -tie => Relation::Better,
            (low, _) if low > 0.0 && it.mean > tie => Relation::Worse,
            (low, high) if low >= -tie && high <= tie => Relation::Same,
            (low, high) if low > 0.0 || high < 0.0 => Relation::Same,
            _ => Relation::Unsure,
        }
    }

    /// Whether a configuration leaves each job as well off as today; the worst of the jobs if not.
    pub fn guard(&self, at: usize) -> Guard {
        if !self.is_guarded || at == 0 {
            return Guard::Kept;
        }
        let (mut unsure, mut broken) = (None, None);
        for (job, (own, todays)) in self.known[at].jobs.iter().zip(&self.known[0].jobs).enumerate()
        {
            for (figure, which, limit) in [(Figure::Rate, 0, TIE), (Figure::Tail, 1, LONGER)] {
                let it = Comparison::of(&own[which], &todays[which], self.error);
                let (low, high) = it.interval();
                let worst = |known: &Option<(usize, Figure, Comparison)>| {
                    known.is_none_or(|(.., worst)| it.mean > worst.mean)
                };
                if low > 0.0 && it.mean > limit {
                    if worst(&broken) {
                        broken = Some((job, figure, it));
                    }
                } else if high > limit && worst(&unsure) {
                    unsure = Some((job, figure, it));
                }
            }
        }
        match (broken, unsure) {
            (Some((job, figure, it)), _) => Guard::Broken(job, figure, it),
            (None, Some((job, figure, it))) => Guard::Unsure(job, figure, it),
            (None, None) => Guard::Kept,
        }
    }

    /// The advice among those that `may` be it: today's unless one is surely better in a goal and surely the
    /// same in those before; among the best, that which changes the least.
    ///
    /// # Panics
    /// There is no configuration.
    pub fn chosen(&self, may: impl Fn(usize) -> bool) -> usize {
        let may_be = |&at: &usize| at == 0 || (may(at) && self.guard(at) == Guard::Kept);
        let mut left: Vec<usize> = (0..self.known.len()).filter(may_be).collect();
        for goal in 0..self.ties.len() {
            let than_today = |at: &usize| self.relation(*at, 0, goal);
            if left.contains(&0) {
                let better = |at: &usize| than_today(at) == Relation::Better;
                let keeps = |at: &usize| *at == 0 || than_today(at) == Relation::Same;
                let is_beaten = left.iter().any(better);
                left.retain(|at| if is_beaten { better(at) } else { keeps(at) });
                if !is_beaten {
                    continue;
                }
            }
            let cost = |at: &usize| self.difference(*at, 0, goal).mean;
            let best = left.iter().copied().min_by(|a, b| cost(a).total_cmp(&cost(b)));
            let best = best.expect("the best is never left out");
            left.retain(|&at| self.relation(at, best, goal) != Relation::Worse);
        }
        left.into_iter().min_by_key(|&at| self.known[at].changes).expect("the best is left")
    }

    /// Those that may yet be the advice instead of `chosen`.
    pub fn open(&self, chosen: usize) -> Vec<usize> {
        let others = (0..self.known.len()).filter(|&at| at != chosen && at != 0);
        others.filter(|&at| self.may_win(at, chosen)).collect()
    }

    fn may_win(&self, at: usize, chosen: usize) -> bool {
        if matches!(self.guard(at), Guard::Broken(..)) {
            return false;
        }
        for goal in 0..self.ties.len() {
            match self.relation(at, chosen, goal) {
                Relation::Same => {}
                Relation::Worse => return false,
                Relation::Better | Relation::Unsure => return true,
            }
        }
        self.known[at].changes < self.known[chosen].changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zonal_device::rng::Rng;

    /// The sum of twelve uniform numbers, less 6: nearly normal.
    fn noise(rng: &mut Rng) -> f64 {
        (0..12).map(|_| rng.below(1 << 20) as f64 / f64::from(1 << 20)).sum::<f64>() - 6.0
    }

    /// A configuration whose rate is `rate` times that of today, with noise, for a number of seeds.
    fn known(rng: &mut Rng, rate: f64, sigma: f64, seeds: usize, changes: usize) -> Known {
        let costs: Vec<f64> = (0..seeds).map(|_| noise(rng) * sigma - rate.ln()).collect();
        Known { costs: vec![costs.clone()], jobs: vec![[costs, vec![0.0; seeds]]], changes }
    }

    /// Measures as `advise` does, with up to 20 seeds, and returns the advice.
    fn simulated(rates: &[f64], sigma: f64, seed: u64) -> usize {
        const LOOKS: [usize; 5] = [3, 5, 8, 12, 20];
        let mut rng = Rng::new(seed);
        let all: Vec<Known> = rates
            .iter()
            .enumerate()
            .map(|(at, &rate)| known(&mut rng, rate, sigma, 20, at))
            .collect();
        let mut chosen = 0;
        for seeds in LOOKS {
            let part: Vec<Known> = all.iter().map(|known| first(known, seeds)).collect();
            let choice = Choice::new(&part, &goals(1), false, LOOKS.len());
            chosen = choice.chosen(|_| true);
            if choice.open(chosen).is_empty() {
                break;
            }
        }
        chosen
    }

    fn goals(count: usize) -> Vec<Goal> {
        vec![Goal::parse("throughput", &[]).unwrap(); count]
    }

    fn first(known: &Known, seeds: usize) -> Known {
        let costs = known.costs.iter().map(|costs| costs[..seeds].to_vec()).collect();
        Known { costs, ..known.clone() }
    }

    #[test]
    fn noise_is_not_the_advice() {
        let wrong = (0..400).filter(|&seed| simulated(&[1.0; 8], 0.1, seed) != 0).count();
        assert!(wrong <= 20, "{wrong} of 400 follow noise");
    }

    #[test]
    fn what_is_better_is_found_and_the_least_change_among_equals() {
        let rates = [1.0, 0.9, 1.3, 1.3, 1.1];
        let found = (0..200).filter(|&seed| simulated(&rates, 0.03, seed) == 2).count();
        assert!(found >= 190, "{found} of 200");
    }

    #[test]
    fn without_noise_three_seeds_are_enough_and_less_than_two_percent_is_no_difference() {
        assert_eq!(simulated(&[1.0, 1.019, 0.5], 0.0, 1), 0);
        assert_eq!(simulated(&[1.0, 1.03, 0.5], 0.0, 1), 1);
    }

    #[test]
    fn one_that_worsens_a_job_is_not_the_advice() {
        let today = Known {
            costs: vec![vec![0.0; 3]],
            jobs: vec![[vec![0.0; 3], vec![0.0; 3]]],
            changes: 0,
        };
        let faster = |rate: f64, tail: f64| Known {
            costs: vec![vec![-0.5; 3]],
            jobs: vec![[vec![rate; 3], vec![tail; 3]]],
            changes: 1,
        };
        for (rate, tail, advice) in [(0.0, 0.09, 1), (0.0, 0.1, 0), (0.03, 0.0, 0), (0.01, -1.0, 1)]
        {
            let known = [today.clone(), faster(rate, tail)];
            let choice = Choice::new(&known, &goals(1), true, 1);
            assert_eq!(choice.chosen(|_| true), advice, "{rate} {tail}");
            assert!(choice.open(advice).is_empty());
            assert_eq!(
                Choice::new(&known, &goals(1), false, 1).chosen(|_| true),
                1,
                "the goal was given"
            );
        }
    }

    #[test]
    fn a_later_goal_decides_only_where_those_before_are_the_same() {
        let known = |first: f64, second: f64, changes| Known {
            costs: vec![vec![first; 3], vec![second; 3]],
            jobs: Vec::new(),
            changes,
        };
        let all =
            [known(0.0, 0.0, 0), known(0.01, -1.0, 2), known(0.0, -0.5, 1), known(0.5, -3.0, 1)];
        assert_eq!(Choice::new(&all, &goals(2), true, 1).chosen(|_| true), 1);
        assert_eq!(Choice::new(&all, &goals(2), true, 1).chosen(|at| at != 1), 2);
    }
}
