//! The results of many runs, as data: the reports of a fleet of machines are merged into one.
use crate::{Config, Failure, History, Outcome};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The results of runs with one seed after the other, or several such reports together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// The version of the program. A seed means the same run in the same version only.
    pub version: String,
    /// The seeds.
    pub seeds: Vec<Seeds>,
    /// Runs.
    pub runs: u64,
    /// Steps of the runs.
    pub steps: u64,
    /// I/Os that were checked.
    pub ios: u64,
    /// Faults that were injected.
    pub faults: u64,
    /// Seconds; those of several reports together are their sum.
    pub seconds: f64,
    /// Runs by kind of configuration.
    pub kinds: BTreeMap<String, KindCount>,
    /// Whether each coverage mark was reached. None are known without `--cfg torture`.
    pub marks: BTreeMap<String, bool>,
    /// The lowest seed that found each mutant that was looked for.
    pub mutants: BTreeMap<String, Option<u64>>,
    /// Runs that failed without a mutant, by their seeds.
    pub failures: Vec<FailedRun>,
}

/// Seeds of runs without mutants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seeds {
    /// The name of the profile.
    pub profile: String,
    /// The first.
    pub first: u64,
    /// The last.
    pub last: u64,
}

/// The counts of runs of one kind of configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KindCount {
    /// Runs.
    pub runs: u64,
    /// I/Os that were checked.
    pub ios: u64,
}

/// A run that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailedRun {
    /// Its seed.
    pub seed: u64,
    /// The name of its profile.
    pub profile: String,
    /// The expectation and what happened, after it was shrunk.
    pub what: String,
    /// The shrunk run.
    pub history: History,
}

impl Report {
    /// Adds a run.
    pub fn add(&mut self, config: &Config, outcome: &Outcome) {
        self.runs += 1;
        self.steps += outcome.steps;
        self.ios += outcome.ios;
        self.faults += outcome.faults;
        for kind in kinds(config) {
            let kind = self.kinds.entry(kind).or_default();
            kind.runs += 1;
            kind.ios += outcome.ios;
        }
    }

    /// Adds a run that failed.
    pub fn add_failure(&mut self, profile: &str, history: History, failure: &Failure) {
        let (seed, what) = (history.seed, failure.to_string());
        self.failures.push(FailedRun { seed, profile: profile.to_owned(), what, history });
    }

    /// Adds another report.
    ///
    /// # Errors
    /// It is of another version, or has seeds that are here already.
    pub fn merge(&mut self, other: Report) -> Result<(), String> {
        if self.version != other.version {
            return Err(format!(
                "found version {}, expected {}, as the others have",
                other.version, self.version
            ));
        }
        for Seeds { profile, first, last } in &other.seeds {
            let same =
                |of: &&Seeds| of.profile == *profile && of.first <= *last && *first <= of.last;
            if let Some(Seeds { first: a, last: b, .. }) = self.seeds.iter().find(same) {
                return Err(format!(
                    "found seeds {first} to {last} of profile {profile}, expected none of {a} to {b}, \
                     which another report has"
                ));
            }
        }
        self.seeds.extend(other.seeds);
        self.seeds.sort_by(|a, b| (&a.profile, a.first).cmp(&(&b.profile, b.first)));
        self.seeds.dedup_by(|next, before| {
            let follows = next.profile == before.profile && next.first - 1 == before.last;
            if follows {
                before.last = next.last;
            }
            follows
        });
        self.runs += other.runs;
        self.steps += other.steps;
        self.ios += other.ios;
        self.faults += other.faults;
        self.seconds += other.seconds;
        for (name, KindCount { runs, ios }) in other.kinds {
            let kind = self.kinds.entry(name).or_default();
            kind.runs += runs;
            kind.ios += ios;
        }
        for (mark, reached) in other.marks {
            *self.marks.entry(mark).or_default() |= reached;
        }
        for (mutant, seed) in other.mutants {
            let known = self.mutants.entry(mutant).or_default();
            *known = known.iter().copied().chain(seed).min();
        }
        self.failures.extend(other.failures);
        self.failures.sort_by_key(|failure| failure.seed);
        Ok(())
    }

    /// Whether no run failed and every mutant that was looked for was found.
    pub fn passed(&self) -> bool {
        self.failures.is_empty() && self.mutants.values().all(Option::is_some)
    }

    /// The report for people.
    pub fn text(&self) -> String {
        let Report { runs, steps, ios, faults, seconds, .. } = self;
        let rate = *ios as f64 / seconds.max(1e-9);
        let mut text = format!(
            "{runs} runs, {steps} steps, {ios} I/Os checked, {faults} faults, {seconds:.1} s, \
             {rate:.0} I/Os a second\n"
        );
        let mut line = |line: String| writeln!(text, "{line}").expect("a string");
        for (name, KindCount { runs, ios }) in &self.kinds {
            line(format!("  {name:24} {runs:10} runs {ios:14} I/Os"));
        }
        let missed: Vec<&str> =
            self.marks.iter().filter(|(_, reached)| !**reached).map(|(mark, _)| &**mark).collect();
        if !self.marks.is_empty() {
            let count = self.marks.len();
            line(format!("{} of {count} marks reached", count - missed.len()));
        }
        missed.into_iter().for_each(|mark| line(format!("  not reached: {mark}")));
        if !self.mutants.is_empty() {
            let found = self.mutants.values().flatten().count();
            line(format!("{found} of {} mutants found", self.mutants.len()));
        }
        for (mutant, _) in self.mutants.iter().filter(|(_, seed)| seed.is_none()) {
            line(format!("  not found: {mutant}"));
        }
        for FailedRun { seed, profile, what, .. } in &self.failures {
            line(format!("seed {seed}: {what}"));
            line(format!("  again: zonal-dev torture --seed {seed} --runs 1 --profile {profile}"));
        }
        text
    }
}

/// Whether each coverage mark was reached by the runs of this thread; none are known without
/// `--cfg torture`.
pub fn marks() -> BTreeMap<String, bool> {
    #[cfg(torture)]
    {
        use zonal_blk::probe::{Mark, was_reached};
        Mark::ALL.iter().map(|&(mark, _)| (mark.name().to_owned(), was_reached(mark))).collect()
    }
    #[cfg(not(torture))]
    BTreeMap::new()
}

/// The rows of a report that a configuration belongs to.
fn kinds(config: &Config) -> Vec<String> {
    let device = if config.zones > 0 { "zoned" } else { "regular" };
    let mut kinds = vec![
        format!("device {}, {device}", config.drive.name()),
        format!("scheduler {}", config.scheduler),
    ];
    if config.zones > 0 {
        kinds.push(format!("policy {:?}", config.policy).to_lowercase());
    }
    let flags = [
        (config.data, "with data"),
        (config.cache, "with a volatile cache"),
        (config.append_lbas > 0 && !config.emulate_append, "with native appends"),
        (config.share_queues, "with shared queues"),
        (config.max_open > 0 || config.max_active > 0, "with limits on zones"),
        (config.lazy_recovery, "with lazy recovery"),
    ];
    let set = flags.iter().filter(|(set, _)| *set).map(|(_, name)| (*name).to_owned());
    kinds.extend(set);
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;

    fn report(first: u64) -> Report {
        let mut report = Report {
            version: "1".to_owned(),
            seeds: vec![Seeds { profile: "any".to_owned(), first, last: first + 1 }],
            seconds: 0.5,
            ..Report::default()
        };
        for seed in first..first + 2 {
            let history = History::draw(seed, Profile::Any);
            report.add(&history.config, &crate::run(&history).expect("it is valid"));
        }
        report
    }

    #[test]
    fn merged_reports_are_those_of_all_runs() {
        let (mut a, mut b) = (report(0), report(2));
        for (report, reached, seed) in
            [(&mut a, [true, false], None), (&mut b, [false, false], Some(9))]
        {
            let marks = ["M", "N"].map(str::to_owned).into_iter().zip(reached);
            report.marks = marks.collect();
            report.mutants = [("X".to_owned(), seed), ("Y".to_owned(), Some(5))].into();
        }
        let failure = Failure { step: 1, at: 2, what: "wrong".to_owned() };
        b.add_failure("any", History::draw(3, Profile::Any), &failure);
        let (alone, runs, ios) = (a.clone(), a.runs + b.runs, a.ios + b.ios);
        a.merge(b.clone()).expect("other seeds");
        assert_eq!((a.runs, a.ios, a.seconds), (runs, ios, 1.0));
        assert_eq!(a.seeds, [Seeds { profile: "any".to_owned(), first: 0, last: 3 }]);
        assert_eq!(a.marks.values().collect::<Vec<_>>(), [&true, &false]);
        assert_eq!(a.mutants["X"], Some(9));
        assert!(!a.passed() && alone.failures.is_empty());
        let text = a.text();
        for line in ["1 of 2 marks reached", "  not reached: N", "2 of 2 mutants found"] {
            assert!(text.lines().any(|found| found == line), "{text}");
        }
        assert!(
            text.ends_with("  again: zonal-dev torture --seed 3 --runs 1 --profile any\n"),
            "{text}"
        );
        // The order makes no difference.
        b.merge(alone).expect("other seeds");
        assert_eq!(a, b);
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let mut all = report(0);
        let error = all.clone().merge(report(1)).unwrap_err();
        assert!(error.starts_with("found seeds 1 to 2 of profile any, expected none of 0 to 1"));
        let error = all.merge(Report { version: "2".to_owned(), ..report(2) }).unwrap_err();
        assert_eq!(error, "found version 2, expected 1, as the others have");
    }
}
