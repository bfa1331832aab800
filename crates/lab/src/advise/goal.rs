//! What makes one configuration better than another: goals in their order, each a cost of a measurement.
//!
//! Costs are natural logarithms of times and of inverse rates, so that differences of two configurations
//! are ratios, and the smaller one is the better.
use super::{TAIL_TIE, TIE};
use crate::experiment::{Outcome, Part};
use anyhow::{Context, Result, bail, ensure};
use std::fmt;
use zonal_blk::did_you_mean;
use zonal_device::quantity::parse_time;
use zonal_fio::job::{DataDir, Job};

/// The cost of an I/O that never completes: the logarithm of a quarter of an hour in nanoseconds.
const NEVER: f64 = 27.5;

/// What a goal is about.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// Most bytes a second.
    Throughput,
    /// The shortest 99th percentiles of latency; each job counts alike.
    Tail,
    /// The rates that jobs are limited to.
    Rate,
    /// 99th percentiles below this, in nanoseconds.
    TailBelow(u64),
}

/// A goal for all jobs, or for one.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// As it was given, or what stands for none.
    text: String,
    kind: Kind,
    /// The jobs and directions that it is about; all if there are none.
    of: Vec<(String, Option<DataDir>)>,
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Goal {
    /// The goal `[JOB:][read:|write:]throughput|latency|p99|rate|p99<TIME`.
    ///
    /// # Errors
    /// It is not one, or there is no such job.
    pub fn parse(text: &str, jobs: &[Job]) -> Result<Self> {
        const NAMES: [&str; 5] = ["throughput", "latency", "p99", "rate", "p99<TIME"];
        let (of, name) = text.rsplit_once(':').map_or((None, text), |(of, name)| (Some(of), name));
        let kind = match name {
            "throughput" => Kind::Throughput,
            "latency" | "p99" => Kind::Tail,
            "rate" => Kind::Rate,
            _ => match name.split_once('<') {
                Some(("p99", time)) => Kind::TailBelow(parse_time(time)?),
                _ => {
                    let near = did_you_mean(name, NAMES);
                    bail!("found `{name}`, expected {}{near}", NAMES.join(", "))
                }
            },
        };
        let of = of.map(|of| selected(of, jobs)).transpose()?;
        let named = |job: &&Job| of.as_ref().is_none_or(|(name, _)| job.name == *name);
        let is_limited = |job: &Job| job.rate.iter().chain(&job.rate_iops).any(|&rate| rate > 0);
        ensure!(
            kind != Kind::Rate || jobs.iter().filter(named).any(is_limited),
            "`{text}`: the job has no rate: give it `rate` or `rate_iops`, or ask for throughput"
        );
        Ok(Goal { text: text.to_owned(), kind, of: of.into_iter().collect() })
    }

    /// The goals where none is given: rates that are met, then short tails of the jobs without a rate, or of
    /// all if each has one. Without any rate: throughput, then short tails.
    pub fn unless_given(parts: &[Part]) -> Vec<Self> {
        let goal = |text: &str, kind, of| Goal { text: text.to_owned(), kind, of };
        let unlimited = parts.iter().filter(|part| part.reached.is_none());
        let unlimited: Vec<_> = unlimited.map(|part| (part.job.clone(), Some(part.dir))).collect();
        if unlimited.len() == parts.len() {
            return vec![
                goal("throughput", Kind::Throughput, Vec::new()),
                goal("99% latency", Kind::Tail, Vec::new()),
            ];
        }
        vec![goal("rates", Kind::Rate, Vec::new()), goal("99% latency", Kind::Tail, unlimited)]
    }

    /// The jobs that miss it in a measurement, with how much of their rate they have, or their tail.
    pub fn missed_by(&self, outcome: &Outcome) -> Vec<String> {
        let missed = |part: &Part| match (self.kind, part.reached) {
            (Kind::Rate, Some(reached)) if reached < 1.0 - TIE => {
                Some(format!("{} has {:.0}% of its rate", part.name(), reached * 100.0))
            }
            (Kind::TailBelow(limit), _) if tail_cost(part) > (limit as f64).ln() => {
                Some(format!("{}: 99% within {:.1} ms", part.name(), tail_cost(part).exp() / 1e6))
            }
            _ => None,
        };
        outcome.parts.iter().filter(|part| self.selects(part)).filter_map(missed).collect()
    }

    /// Whether it is met or not, instead of more or less.
    pub fn is_limit(&self) -> bool {
        matches!(self.kind, Kind::Rate | Kind::TailBelow(_))
    }

    /// The difference of costs below which two configurations are the same.
    pub fn tie(&self) -> f64 {
        if self.kind == Kind::Tail { TAIL_TIE } else { TIE }
    }

    /// Whether it is more of something.
    pub fn is_throughput(&self) -> bool {
        self.kind == Kind::Throughput
    }

    fn selects(&self, part: &Part) -> bool {
        let is_it = |(job, dir): &(String, Option<DataDir>)| {
            *job == part.job && dir.is_none_or(|dir| dir == part.dir)
        };
        self.of.is_empty() || self.of.iter().any(is_it)
    }

    /// The cost of a measurement; of a limit that is met, 0.
    pub fn cost(&self, outcome: &Outcome) -> f64 {
        let parts: Vec<&Part> = outcome.parts.iter().filter(|part| self.selects(part)).collect();
        let worst = |costs: &mut dyn Iterator<Item = f64>| costs.fold(0.0, f64::max);
        match self.kind {
            Kind::Throughput => rate_cost(parts.iter().map(|part| part.bytes).sum()),
            Kind::Tail => {
                parts.iter().map(|part| tail_cost(part)).sum::<f64>() / parts.len().max(1) as f64
            }
            Kind::Rate => {
                let reached = parts.iter().filter_map(|part| part.reached);
                worst(&mut reached.map(|reached| rate_cost(reached) - TIE))
            }
            Kind::TailBelow(limit) => {
                worst(&mut parts.iter().map(|part| tail_cost(part) - (limit as f64).ln()))
            }
        }
    }
}

/// A job, and a direction if one is named.
fn selected(of: &str, jobs: &[Job]) -> Result<(String, Option<DataDir>)> {
    let (job, dir) = match of.rsplit_once(':') {
        Some((job, "read")) => (job, Some(DataDir::Read)),
        Some((job, "write")) => (job, Some(DataDir::Write)),
        _ => (of, None),
    };
    let names = || jobs.iter().map(|job| job.name.as_str());
    let found = names().find(|name| *name == job);
    let found =
        found.with_context(|| format!("no job is called `{job}`{}", did_you_mean(job, names())))?;
    Ok((found.to_owned(), dir))
}

/// The cost of the tail of a job.
pub fn tail_cost(part: &Part) -> f64 {
    match part.latencies.percentiles(&[99.0])[0] {
        0 if part.ios == 0.0 => NEVER,
        nanos => (nanos.max(1) as f64).ln(),
    }
}

/// The cost of a rate.
pub fn rate_cost(rate: f64) -> f64 {
    -rate.max(1e-9).ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::tests::{outcome, part};
    use zonal_fio::jobfile::{self, SystemEnvironment};

    fn jobs() -> Vec<Job> {
        let options = "--name=in --rw=write --rate=30m --name=readers --rw=randread";
        let options: Vec<String> = options.split(' ').map(str::to_owned).collect();
        jobfile::parse_args(&options, &SystemEnvironment).unwrap().jobs
    }

    fn goal(text: &str) -> Result<Goal> {
        Goal::parse(text, &jobs())
    }

    #[test]
    fn goals_are_of_all_jobs_of_one_or_of_its_direction() {
        let of = |text: &str| goal(text).unwrap().of;
        assert_eq!(of("throughput"), []);
        assert_eq!(of("readers:p99<50ms"), [("readers".to_owned(), None)]);
        assert_eq!(of("readers:read:p99"), [("readers".to_owned(), Some(DataDir::Read))]);
        assert_eq!(goal("in:rate").unwrap().kind, Kind::Rate);
        assert_eq!(goal("p99<50ms").unwrap().kind, Kind::TailBelow(50_000_000));
    }

    #[test]
    fn what_is_no_goal_is_refused_with_the_nearest() {
        for (text, message) in [
            (
                "throughptu",
                "found `throughptu`, expected throughput, latency, p99, rate, p99<TIME, did you mean `throughput`?",
            ),
            ("reader:p99", "no job is called `reader`, did you mean `readers`?"),
            ("readers:rate", "`readers:rate`: the job has no rate: "),
            ("p99<fast", ""),
        ] {
            let error = goal(text).unwrap_err().to_string();
            assert!(error.starts_with(message), "{text}: {error}");
        }
    }

    #[test]
    fn limits_cost_nothing_once_they_are_met() {
        let met = outcome([part("in", 29.5, 5, Some(0.99)), part("readers", 1.0, 40, None)]);
        let missed = outcome([part("in", 15.0, 5, Some(0.5)), part("readers", 1.0, 100, None)]);
        for text in ["in:rate", "rate", "readers:p99<50ms"] {
            let goal = goal(text).unwrap();
            assert!(goal.is_limit());
            assert_eq!(goal.cost(&met), 0.0, "{text}");
            assert!((0.6..0.8).contains(&goal.cost(&missed)), "{text}: {}", goal.cost(&missed));
        }
    }

    #[test]
    fn without_a_goal_rates_come_first_and_then_the_tail_of_who_has_none() {
        let parts = [part("in", 30.0, 5, Some(1.0)), part("readers", 1.0, 40, None)];
        let goals = Goal::unless_given(&parts);
        assert_eq!([&goals[0].text, &goals[1].text], ["rates", "99% latency"]);
        let slower = outcome([part("in", 30.0, 500, Some(1.0)), part("readers", 1.0, 40, None)]);
        assert_eq!(goals[1].cost(&slower), goals[1].cost(&outcome(parts)));
        let goals = Goal::unless_given(&[part("a", 1.0, 1, None)]);
        assert_eq!(goals[0].kind, Kind::Throughput);
    }
}
