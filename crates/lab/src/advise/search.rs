//! Measures configurations with more and more seeds, until no more would change the advice.
use super::choose::{Choice, Figure, Guard, Known, Relation};
use super::goal::{Goal, rate_cost, tail_cost};
use super::{AdviseOptions, Configuration, Trial};
use crate::devices::DeviceOptions;
use crate::estimate::Comparison;
use crate::executor::Executor;
use crate::experiment::{self, Outcome, Part, available_cpus, parallel_map};
use crate::progress::StepProgress;
use anyhow::{Context, Result};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use zonal_blk::QueueOptions;
use zonal_fio::job::Job;

/// Configurations that are being measured.
pub struct Search<'a> {
    jobs: &'a [Job],
    options: &'a AdviseOptions,
    seconds: f64,
    stop: &'a Arc<AtomicBool>,
    /// Whether no job may be worse off than today: no goal was given.
    is_guarded: bool,
    /// The goals; without any given, those of the jobs, once one was measured.
    pub goals: Vec<Goal>,
    /// The configurations, that of today first; when all is done those that were measured, in order.
    pub trials: Vec<Trial>,
}

impl<'a> Search<'a> {
    pub fn new(
        jobs: &'a [Job],
        options: &'a AdviseOptions,
        seconds: f64,
        configurations: Vec<Configuration>,
        goals: Vec<Goal>,
        stop: &'a Arc<AtomicBool>,
    ) -> Self {
        let trial =
            |configuration| Trial { configuration, outcomes: Vec::new(), verdict: String::new() };
        let trials = configurations.into_iter().map(trial).collect();
        Search { jobs, options, seconds, stop, is_guarded: goals.is_empty(), goals, trials }
    }

    /// Measures and orders the configurations. Returns whether all were measured as often as it takes.
    ///
    /// # Errors
    /// A job cannot run.
    pub fn run(&mut self, progress: &dyn StepProgress) -> Result<bool> {
        let looks = looks(self.options.seeds);
        let mut open: Vec<usize> = (0..self.trials.len()).collect();
        for &seeds in &looks {
            if !self.measure(&open, seeds, progress)? {
                self.trials.retain(|trial| !trial.outcomes.is_empty());
                self.order(looks.len());
                return Ok(false);
            }
            let known = self.known();
            let choice = Choice::new(&known, &self.goals, self.is_guarded, looks.len());
            let chosen = choice.chosen(|_| true);
            open = choice.open(chosen);
            if open.is_empty() {
                break;
            }
            open.extend([0, chosen]);
        }
        self.order(looks.len());
        Ok(true)
    }

    /// Measures these until each has been measured with so many seeds. Returns whether it was not
    /// interrupted.
    fn measure(
        &mut self,
        which: &[usize],
        seeds: usize,
        progress: &dyn StepProgress,
    ) -> Result<bool> {
        let mut turns = Vec::new();
        for (at, trial) in self.trials.iter().enumerate().filter(|(at, _)| which.contains(at)) {
            turns.extend((trial.outcomes.len()..seeds).map(|seed| (at, seed)));
        }
        progress.start("", turns.len() as u64);
        let outcomes = parallel_map(available_cpus(), &turns, |&(at, seed)| {
            let outcome = self.outcome(&self.trials[at].configuration, seed as u64)?;
            progress.advance(u64::from(outcome.is_some()));
            Ok(outcome)
        })?;
        progress.finish();
        let is_whole = outcomes.iter().all(Option::is_some);
        for ((at, seed), outcome) in turns.into_iter().zip(outcomes) {
            let trial = &mut self.trials[at];
            if trial.outcomes.len() == seed {
                trial.outcomes.extend(outcome);
            }
        }
        Ok(is_whole)
    }

    /// Measures one with a seed; `None` if it was interrupted.
    fn outcome(&self, configuration: &Configuration, seed: u64) -> Result<Option<Outcome>> {
        let AdviseOptions { device, io_cost, .. } = self.options;
        let zone_write = configuration.zone_write;
        let device_options = DeviceOptions {
            device: Some(device.clone()),
            queue: QueueOptions { zone_write, ..QueueOptions::default() },
            scheduler: Some(configuration.scheduler.clone()),
            seed: self.options.seed.wrapping_add(seed),
            ..DeviceOptions::default()
        };
        let mut executor = Executor::interruptible(*io_cost, Arc::clone(self.stop), Box::new(()));
        let jobs = configuration.jobs(self.jobs);
        let outcome = experiment::run_settled(jobs, &device_options, self.seconds, &mut executor);
        match executor.is_stopped() {
            true => Ok(None),
            false => outcome.map(Some).with_context(|| configuration.name()),
        }
    }

    /// The parts of the load, as the first measurement has them.
    fn parts(&self) -> &[Part] {
        let first = self.trials.iter().find_map(|trial| trial.outcomes.first());
        first.map_or(&[], |outcome| &outcome.parts)
    }

    /// What is known of each configuration.
    fn known(&mut self) -> Vec<Known> {
        if self.goals.is_empty() {
            self.goals = Goal::unless_given(self.parts());
        }
        let today = &self.trials[0].configuration;
        let known = |trial: &Trial| {
            let by_seed =
                |cost: &dyn Fn(&Outcome) -> f64| trial.outcomes.iter().map(cost).collect();
            let of = |at: usize, cost: fn(&Part) -> f64| by_seed(&|it| cost(&it.parts[at]));
            Known {
                costs: self.goals.iter().map(|goal| by_seed(&|it| goal.cost(it))).collect(),
                jobs: (0..self.parts().len())
                    .map(|at| [of(at, |part| rate_cost(part.ios)), of(at, tail_cost)])
                    .collect(),
                changes: trial.configuration.changes(today),
            }
        };
        self.trials.iter().map(known).collect()
    }

    /// Puts the advice first and that of today second, and says of each what the measurements say.
    fn order(&mut self, looks: usize) {
        if self.trials.is_empty() {
            return;
        }
        let known = self.known();
        let choice = Choice::new(&known, &self.goals, self.is_guarded, looks);
        let chosen = choice.chosen(|_| true);
        for at in 0..self.trials.len() {
            self.trials[at].verdict = self.verdict(&choice, at, chosen);
        }
        let cost = |at: usize| choice.difference(at, 0, 0).mean;
        let mut order: Vec<usize> = (0..known.len()).collect();
        order.sort_by(|&a, &b| {
            let place = |at: usize| if at == chosen { 0 } else { 1 + usize::from(at != 0) };
            place(a).cmp(&place(b)).then(cost(a).total_cmp(&cost(b)))
        });
        let mut trials: Vec<Option<Trial>> = self.trials.drain(..).map(Some).collect();
        self.trials.extend(order.into_iter().filter_map(|at| trials[at].take()));
    }

    fn verdict(&self, choice: &Choice, at: usize, chosen: usize) -> String {
        match (at == chosen, at == 0) {
            (true, true) => return "advice, today".to_owned(),
            (true, false) => return "advice".to_owned(),
            (false, true) => return "today".to_owned(),
            (false, false) => {}
        }
        let part = |at: usize| self.parts()[at].name();
        let what = |at: usize, figure: Figure| match figure {
            Figure::Rate => format!("{}: rate", part(at)),
            Figure::Tail => format!("{}: 99% latency", part(at)),
        };
        let sign = |figure: Figure| if figure == Figure::Rate { -1.0 } else { 1.0 };
        if let Guard::Broken(at, figure, it) = choice.guard(at) {
            let worse = percent(sign(figure) * it.mean);
            return format!("worse than today: {} {worse}", what(at, figure));
        }
        let mut most: f64 = 0.0;
        for (goal, of) in self.goals.iter().enumerate() {
            let it = choice.difference(at, chosen, goal);
            let sign = if of.is_throughput() { -1.0 } else { 1.0 };
            match choice.relation(at, chosen, goal) {
                Relation::Same => most = most.max(it.mean.abs() + it.margin),
                Relation::Unsure => return format!("not sure: {of} {}", range(it, sign)),
                Relation::Better | Relation::Worse if of.is_limit() => {
                    return format!("{of} missed");
                }
                Relation::Better | Relation::Worse => {
                    return format!("{of} {}", percent(sign * it.mean));
                }
            }
        }
        match choice.guard(at) {
            Guard::Unsure(at, figure, it) => {
                format!("not sure: {} {}", what(at, figure), range(it, sign(figure)))
            }
            _ => format!("no difference found (at most {:.1}%)", most.max(0.001).exp_m1() * 100.0),
        }
    }
}

/// How often configurations have been measured when they are compared.
fn looks(seeds: u32) -> Vec<usize> {
    let looks = [3, 5, 8, 12].into_iter().chain((0..8).map(|at| 20 << at));
    let seeds = seeds as usize;
    looks.take_while(|&look| look < seeds).chain([seeds]).collect()
}

/// A ratio, given as its logarithm, as a difference: `+12%`, `4.1 times`.
fn percent(logarithm: f64) -> String {
    match logarithm.exp() {
        ratio @ 3.0.. => format!("{ratio:.1} times"),
        ratio => format!("{:+.0}%", (ratio - 1.0) * 100.0),
    }
}

/// Both ends of an interval of a ratio, given by logarithms.
fn range(it: Comparison, sign: f64) -> String {
    let (low, high) = it.interval();
    let (low, high) = if sign < 0.0 { (-high, -low) } else { (low, high) };
    format!("{} to {}", percent(low), percent(high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_seeds_each_time_up_to_those_given() {
        assert_eq!(looks(1), [1]);
        assert_eq!(looks(3), [3]);
        assert_eq!(looks(10), [3, 5, 8, 10]);
        assert_eq!(looks(60), [3, 5, 8, 12, 20, 40, 60]);
    }

    #[test]
    fn ratios_are_differences_in_percent() {
        assert_eq!([0.1, -0.1, 1.5].map(percent), ["+11%", "-10%", "4.5 times"]);
        let it = Comparison { mean: 0.0, margin: 0.05 };
        assert_eq!(range(it, -1.0), "-5% to +5%");
    }
}
