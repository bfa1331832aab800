//! The order of configurations: by what they are measured for, with ties where the measurements do not
//! tell them apart.
use super::{Goal, Trial};
use crate::estimate::Estimate;
use crate::experiment::Outcome;

/// Relative difference below which two configurations count as equally good, however sure it is.
pub const TIE: f64 = 0.02;

/// The trials, best first, with their ranks. Those that cannot be told apart from the best of what is
/// left share its rank; among them the lower tail latency goes first, with [`Goal::Latency`] the higher
/// throughput, and of equals the simpler one, which comes first in `trials`.
pub fn ranked(trials: Vec<Trial>, goal: Goal) -> Vec<Trial> {
    let mut left = trials;
    // Stable: of equals, the simpler one stays first.
    left.sort_by(|a, b| mean(&costs(a, goal)).total_cmp(&mean(&costs(b, goal))));
    let mut ranked: Vec<Trial> = Vec::with_capacity(left.len());
    let mut rank = 0;
    while let Some(best) = left.first().map(|best| costs(best, goal)) {
        rank += 1;
        let (mut tied, rest): (Vec<Trial>, Vec<Trial>) =
            left.into_iter().partition(|trial| is_tied(&best, &costs(trial, goal)));
        let second = |trial: &Trial| match goal {
            Goal::Throughput => trial.p99().mean,
            Goal::Latency => -trial.throughput().mean,
        };
        tied.sort_by(|a, b| second(a).total_cmp(&second(b)));
        tied.iter_mut().for_each(|trial| trial.rank = rank);
        ranked.extend(tied);
        left = rest;
    }
    ranked
}

/// The cost, which is to be small, for each seed: the time for a byte, or the tail latency in milliseconds.
fn costs(trial: &Trial, goal: Goal) -> Vec<f64> {
    let cost = |outcome: &Outcome| match goal {
        Goal::Throughput => 1.0 / outcome.bytes,
        Goal::Latency => outcome.latencies.percentiles(&[99.0])[0] as f64 / 1e6,
    };
    trial.outcomes.iter().map(cost).collect()
}

fn mean(costs: &[f64]) -> f64 {
    costs.iter().sum::<f64>() / costs.len() as f64
}

/// Whether `other`, whose mean is not lower than that of `best`, cannot be told apart from it: the
/// difference is small, or the 95 % confidence interval of the differences seed by seed has 0 in it.
/// Both ran with the same seeds, so what a seed does to both cancels out.
fn is_tied(best: &[f64], other: &[f64]) -> bool {
    let differences: Vec<f64> = best.iter().zip(other).map(|(a, b)| b - a).collect();
    let difference = Estimate::of(&differences);
    mean(other) <= mean(best) * (1.0 + TIE)
        || difference.is_some_and(|difference| difference.interval().0 <= 0.0)
}

/// The trials that no other beats in tail latency without losing [`TIE`] of the throughput, by rising
/// throughput.
pub fn trade_off(trials: &[Trial]) -> Vec<&Trial> {
    let mut sorted: Vec<&Trial> = trials.iter().collect();
    sorted.sort_by(|a, b| {
        let by_latency = a.p99().mean.total_cmp(&b.p99().mean);
        by_latency.then(b.throughput().mean.total_cmp(&a.throughput().mean))
    });
    let mut front: Vec<&Trial> = Vec::new();
    for trial in sorted {
        let highest = front.last().map_or(0.0, |last| last.throughput().mean);
        if front.is_empty() || trial.throughput().mean > highest * (1.0 + TIE) {
            front.push(trial);
        }
    }
    front
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::Configuration;
    use zonal_fio::stats::Histogram;

    /// A trial with these rates in MB/s, one for each seed, and this latency in nanoseconds.
    fn trial(depth: u32, rates: &[f64], latency: u64) -> Trial {
        let outcome = |rate: &f64| {
            let mut latencies = Histogram::new();
            latencies.record(latency, 1);
            Outcome {
                ios: *rate,
                bytes: rate * 1e6,
                latencies,
                settling: None,
                without_io: Vec::new(),
                reads_of_nothing: Vec::new(),
                devices: Vec::new(),
            }
        };
        let (scheduler, zone_write) = ("none".to_owned(), None);
        let configuration = Configuration { scheduler, zone_write, depth: Some(depth) };
        Trial { configuration, outcomes: rates.iter().map(outcome).collect(), rank: 0 }
    }

    fn order(trials: Vec<Trial>, goal: Goal) -> Vec<(u32, usize)> {
        let ranked = ranked(trials, goal);
        ranked.iter().map(|t| (t.configuration.depth.expect("given"), t.rank)).collect()
    }

    #[test]
    fn one_percent_of_throughput_does_not_outweigh_the_tail_latency() {
        let trials =
            || vec![trial(1, &[50.0], 500), trial(4, &[100.0], 1000), trial(128, &[101.0], 70_000)];
        assert_eq!(order(trials(), Goal::Throughput), [(4, 1), (128, 1), (1, 2)]);
        assert_eq!(order(trials(), Goal::Latency), [(1, 1), (4, 2), (128, 3)]);
    }

    #[test]
    fn differences_that_seeds_explain_are_a_tie() {
        let noisy = trial(1, &[80.0, 100.0, 120.0], 100);
        let steady = trial(2, &[109.0, 110.0, 111.0], 200);
        let lower = trial(3, &[60.0, 60.1, 60.2], 10);
        assert_eq!(order(vec![lower, steady, noisy], Goal::Throughput), [(1, 1), (2, 1), (3, 2)]);
    }

    #[test]
    fn trade_off_has_only_what_nothing_beats_in_both() {
        let trials = [
            trial(1, &[50.0], 500),
            trial(2, &[40.0], 600),
            trial(4, &[100.0], 1000),
            trial(8, &[101.0], 2000),
            trial(16, &[120.0], 9000),
        ];
        let front = trade_off(&trials);
        let depths: Vec<_> = front.iter().filter_map(|trial| trial.configuration.depth).collect();
        assert_eq!(depths, [1, 4, 16]);
    }
}
