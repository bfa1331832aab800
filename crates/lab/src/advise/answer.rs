//! The advice in a sentence, and the lines that apply it.
use super::{Advice, Configuration, Goal, Trial, rank};
use crate::reproduce;
use std::collections::BTreeSet;
use zonal_blk::ZoneWrite;
use zonal_device::device_spec;

/// The load of jobs, as far as the meaning of their figures depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// The jobs, each clone counted.
    pub clones: usize,
    /// Whether two of them may write the same zones.
    pub share_zones: bool,
}

impl Load {
    /// One line: how many jobs there are, whose zones they write, what a queue depth is in all.
    pub fn line(self) -> String {
        match self.clones {
            0 | 1 => "one job: its queue depth is what is in flight in all".to_owned(),
            clones => {
                let zones = if self.share_zones { "shared zones" } else { "zones of their own" };
                format!(
                    "{clones} jobs, {zones}, each with its own queue depth: in all {clones} times as many"
                )
            }
        }
    }
}

/// The profile whose published figures say how far off the model of a device is: its own, or that it is made
/// from.
pub(super) fn profile_of(device: &str) -> &str {
    let name = device.split(':').next().unwrap_or_default();
    device_spec::base_profile(name).unwrap_or(name)
}

impl Advice {
    /// The recommendation in one sentence; `None` if nothing was measured.
    pub fn answer(&self) -> Option<String> {
        let best = self.trials.first()?;
        let depth = match best.configuration.depth {
            Some(depth) => format!("queue depth {depth}"),
            None => "the jobs' own queue depths".to_owned(),
        };
        let parts = [Some(self.scheduler_part(best)), self.policy_part(best), Some(depth)];
        Some(format!(
            "{}: {}.",
            parts.into_iter().flatten().collect::<Vec<_>>().join("; "),
            figures(best)
        ))
    }

    /// The recommendation for who keeps the queue depth of the jobs; `None` if that is the best one, or was
    /// not tried.
    pub fn at_own_depth(&self) -> Option<String> {
        let trial = self.best_at_own_depth()?;
        let depth = trial.configuration.depth?;
        let parts = [Some(self.scheduler_part(trial)), self.policy_part(trial)];
        let parts = parts.into_iter().flatten().collect::<Vec<_>>().join("; ");
        Some(format!("If the queue depth stays {depth}: {parts}: {}.", figures(trial)))
    }

    fn best_at_own_depth(&self) -> Option<&Trial> {
        let own = self.stock.depth?;
        let best = self.trials.first().filter(|best| best.configuration.depth != Some(own))?;
        self.trials
            .iter()
            .find(|trial| trial.configuration.depth == Some(own) && trial.rank >= best.rank)
    }

    fn scheduler_part(&self, best: &Trial) -> String {
        let same = |of: &Configuration| Configuration { scheduler: String::new(), ..of.clone() };
        let good = self.as_good(best, same);
        let good: Vec<&str> =
            good.iter().map(|trial| trial.configuration.scheduler.as_str()).collect();
        let tried: BTreeSet<&str> =
            self.trials.iter().map(|trial| trial.configuration.scheduler.as_str()).collect();
        match good.len() {
            1 => format!("The scheduler {}", good[0]),
            count if count == tried.len() => "Any scheduler will do".to_owned(),
            _ => format!("The scheduler {}", good.join(" or ")),
        }
    }

    fn compares_schedulers(&self) -> bool {
        self.trials
            .windows(2)
            .any(|pair| pair[0].configuration.scheduler != pair[1].configuration.scheduler)
    }

    fn policy_part(&self, best: &Trial) -> Option<String> {
        let policy = best.configuration.zone_write?;
        if self.any_policy(best) {
            return Some("any zone-write policy".to_owned());
        }
        let what = match policy {
            ZoneWrite::Plug => "one write in flight in each zone",
            ZoneWrite::Qd1 => "one write in flight on the whole disk",
            ZoneWrite::Lock => "zones locked by the scheduler",
            ZoneWrite::Off => "no order among the writes of a zone",
        };
        Some(format!("{what} ({})", policy.name()))
    }

    /// Whether all policies that were tried with this scheduler and queue depth are as good.
    fn any_policy(&self, best: &Trial) -> bool {
        let other = |of: &Configuration| Configuration { zone_write: None, ..of.clone() };
        let of_best = other(&best.configuration);
        let tried = self.trials.iter().filter(|trial| other(&trial.configuration) == of_best);
        let tried = tried.count();
        tried > 1 && self.as_good(best, other).len() == tried
    }

    /// The trials that differ from `best` only in what `without` leaves out, and are as good: of the same
    /// rank, with a tail latency and a throughput that are not notably different.
    fn as_good(
        &self,
        best: &Trial,
        without: impl Fn(&Configuration) -> Configuration,
    ) -> Vec<&Trial> {
        let near = |a: f64, b: f64| (a - b).abs() <= rank::TIE * a.abs().max(b.abs());
        let alike = |trial: &&Trial| {
            without(&trial.configuration) == without(&best.configuration)
                && trial.rank == best.rank
                && near(trial.p99().mean, best.p99().mean)
                && near(trial.throughput().mean, best.throughput().mean)
        };
        self.trials.iter().filter(alike).collect()
    }

    /// How far off the model is in a load like that of the answer, and in one like today's, or that this
    /// is not known.
    pub fn errors_of_model(&self) -> Vec<String> {
        let [best, today] = &self.known_errors;
        let today = today.as_ref().filter(|today| best.as_ref() != Some(today));
        let profile = profile_of(&self.device);
        let it = match self.device.split(':').next() == Some(profile) {
            true => "this model is".to_owned(),
            false => format!("the model of {profile} is, from which this one is made"),
        };
        let mut lines = vec![match best {
            Some(best) => format!("How far off {it}: {}.", best.line()),
            None => "How far off this model is: not known, for no load like it was published."
                .to_owned(),
        }];
        if let Some(today) = today {
            lines.push(format!("How far off it is with what Linux does: {}.", today.line()));
        }
        lines
    }

    /// Where all errors of the model are: the published tables that were measured on the drive; `None`
    /// if there are none.
    pub fn tables_of_model(&self) -> Option<String> {
        let profile = profile_of(&self.device);
        let tables = reproduce::tables_of(profile);
        (!tables.is_empty()).then(|| {
            format!(
                "The model of {profile} beside all figures that were published: zonal reproduce {}",
                tables.join(" ")
            )
        })
    }

    /// The trial of what Linux does unless told otherwise, with the queue depth of the jobs; `None` if it
    /// was not tried.
    pub fn today(&self) -> Option<&Trial> {
        let is_today = |trial: &&Trial| trial.configuration == self.stock;
        self.trials.iter().find(is_today)
    }

    /// How the advice differs from what Linux does unless told otherwise; `None` if that was not tried.
    pub fn against_today(&self) -> Option<String> {
        let (best, today) = (self.trials.first()?, self.today()?);
        if best.configuration == today.configuration {
            return Some(format!("Linux {} does that unless told otherwise.", self.kernel));
        }
        let name = today.configuration.name();
        let [throughput, latency] = compared(best, today);
        let same = |what: &str| format!("the same {what}");
        // What seeds explain is no difference.
        let is_tied = today.rank == best.rank;
        let better = match self.goal {
            _ if is_tied && [&throughput, &latency].iter().all(|it| it.starts_with("the same")) => {
                "that is as good".to_owned()
            }
            Goal::Throughput if is_tied => {
                format!("the advice has {} and {latency}", same("throughput"))
            }
            Goal::Latency if is_tied => {
                format!("the advice has {} and {throughput}", same("tail latency"))
            }
            Goal::Throughput => format!("the advice has {throughput} and {latency}"),
            Goal::Latency => format!("the advice has {latency} and {throughput}"),
        };
        Some(format!("Today (Linux {}: {name}): {}; {better}.", self.kernel, figures(today)))
    }

    /// What it costs to have the lowest tail latency instead, or with [`Goal::Latency`] the most throughput; `None`
    /// if the answer has that, too.
    pub fn alternative(&self) -> Option<String> {
        let front = rank::trade_off(&self.trials);
        let (other, what) = match self.goal {
            Goal::Throughput => (front.first()?, "lowest tail latency"),
            Goal::Latency => (front.last()?, "most throughput"),
        };
        let compared = compared(other, self.trials.first()?);
        let at = usize::from(self.goal == Goal::Throughput);
        (!compared[at].starts_with("the same")).then(|| {
            let (name, [throughput, latency]) = (other.configuration.name(), &compared);
            format!(
                "The {what}: {name}: {}; {throughput} and {latency} of the answer.",
                figures(other)
            )
        })
    }

    /// The lines that apply the advice, each with what it is for: in the program, in sysfs, as a rule of
    /// udev.
    pub fn apply(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let Some(best) = self.trials.first() else { return lines };
        if let Some(depth) = best.configuration.depth {
            lines.push(format!("your program: iodepth={depth}, as fio calls it"));
        }
        // For the queue depth of the jobs, if that is not the best and needs another setting.
        let own = self.best_at_own_depth().filter(|_| self.settings(best).is_empty());
        for Setting { what, attribute, value } in self.settings(own.unwrap_or(best)) {
            lines.push(format!("{what}: echo {value} > /sys/block/DISK/queue/{attribute}"));
        }
        let of = own.unwrap_or(best);
        if of.configuration.zone_write == Some(ZoneWrite::Lock) && !self.any_policy(of) {
            lines.push("lock: Linux up to 6.9, by the scheduler mq-deadline".to_owned());
        }
        let rule =
            |Setting { attribute, value, .. }| format!("ATTR{{queue/{attribute}}}=\"{value}\"");
        let rules: Vec<String> = self.settings(of).into_iter().map(rule).collect();
        if !rules.is_empty() {
            let zoned =
                of.configuration.zone_write.map(|_| "ATTR{queue/zoned}==\"host-managed\", ");
            lines.push(format!(
                "for good, in /etc/udev/rules.d/60-zoned.rules: ACTION==\"add|change\", \
                 SUBSYSTEM==\"block\", ENV{{DEVTYPE}}==\"disk\", {}{}",
                zoned.unwrap_or_default(),
                rules.join(", ")
            ));
        }
        lines
    }

    /// The attributes of a queue of Linux that a configuration needs.
    fn settings<'a>(&self, trial: &'a Trial) -> Vec<Setting<'a>> {
        let Configuration { scheduler, zone_write, .. } = &trial.configuration;
        let mut settings = Vec::new();
        if self.compares_schedulers() && !self.scheduler_part(trial).starts_with("Any") {
            settings.push(Setting { what: "Linux", attribute: "scheduler", value: scheduler });
        }
        let (what, value) = match zone_write {
            Some(ZoneWrite::Qd1) => (
                "qd1, Linux 7.1 and later, where rotating disks have it unless told otherwise",
                "1",
            ),
            Some(ZoneWrite::Plug) => {
                ("plug, Linux 6.10 and later, from 7.1 on for rotating disks only if told so", "0")
            }
            _ => return settings,
        };
        if !self.any_policy(trial) {
            settings.push(Setting { what, attribute: "zoned_qd1_writes", value });
        }
        settings
    }
}

/// An attribute of a queue in sysfs.
struct Setting<'a> {
    what: &'static str,
    attribute: &'static str,
    value: &'a str,
}

/// Throughput and tail latency.
fn figures(trial: &Trial) -> String {
    format!("{} MB/s, 99% within {:.2} ms", trial.throughput(), trial.p99())
}

/// How the throughput and the tail latency of a trial compare with those of another, such as
/// `1.15 times the throughput` and `8.1 % of the tail latency`.
fn compared(trial: &Trial, with: &Trial) -> [String; 2] {
    let words = |ratio: f64, what: &str| match ratio {
        _ if (ratio - 1.0).abs() <= rank::TIE => format!("the same {what}"),
        ..0.1 => format!("{:.1} % of the {what}", ratio * 100.0),
        ..1.0 => format!("{:.0} % of the {what}", ratio * 100.0),
        _ => format!("{ratio:.2} times the {what}"),
    };
    let latency = trial.p99().mean / with.p99().mean.max(f64::MIN_POSITIVE);
    [
        words(trial.throughput().mean / with.throughput().mean, "throughput"),
        words(latency, "tail latency"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::KnownError;
    use crate::experiment::Outcome;
    use crate::measurements::Kernel;
    use zonal_fio::stats::Histogram;

    /// A trial with this throughput in MB/s and tail latency in ms.
    fn trial(name: &str, rank: usize, rate: f64, millis: u64) -> Trial {
        let mut parts = name.split(' ');
        let scheduler = parts.next().expect("a scheduler").to_owned();
        let zone_write = parts.next().and_then(|name| name.parse().ok());
        let depth = parts.next().and_then(|depth| depth.parse().ok());
        let mut latencies = Histogram::new();
        latencies.record(millis * 1_000_000, 1);
        let outcome = Outcome {
            ios: rate,
            bytes: rate * 1e6,
            latencies,
            settling: None,
            without_io: Vec::new(),
            reads_of_nothing: Vec::new(),
            devices: Vec::new(),
        };
        let configuration = Configuration { scheduler, zone_write, depth };
        Trial { configuration, outcomes: vec![outcome], rank }
    }

    fn advice(trials: Vec<Trial>) -> Advice {
        let stock = trial("mq-deadline plug 32", 0, 1.0, 1).configuration;
        Advice {
            device: "smr-30t:lba=4096".to_owned(),
            description: String::new(),
            goal: Goal::Throughput,
            seeds: 1,
            seconds: 10.0,
            load: Load { clones: 4, share_zones: true },
            kernel: Kernel::STABLE,
            stock,
            trials,
            known_errors: [None, None],
            interrupted: None,
        }
    }

    #[test]
    fn what_makes_no_difference_is_not_advised() {
        let all = advice(vec![
            trial("none plug 1", 1, 100.0, 5),
            trial("none qd1 1", 1, 100.0, 5),
            trial("mq-deadline plug 1", 1, 100.0, 5),
        ]);
        let answer =
            "Any scheduler will do; any zone-write policy; queue depth 1: 100.0 MB/s, 99% within";
        assert!(all.answer().is_some_and(|it| it.starts_with(answer)), "{:?}", all.answer());
        assert_eq!(all.apply(), ["your program: iodepth=1, as fio calls it"]);
        assert_eq!((all.at_own_depth(), all.against_today()), (None, None));
    }

    #[test]
    fn what_makes_a_difference_has_the_lines_that_apply_it() {
        let some = advice(vec![
            trial("none qd1 1", 1, 100.0, 5),
            trial("kyber qd1 32", 1, 100.0, 200),
            trial("none plug 1", 2, 90.0, 5),
            trial("kyber qd1 1", 2, 90.0, 5),
            trial("mq-deadline plug 32", 3, 50.0, 400),
        ]);
        let own = some.at_own_depth().expect("another depth is better");
        assert!(
            own.starts_with("If the queue depth stays 32: The scheduler kyber; one write"),
            "{own}"
        );
        let today = some.against_today().expect("it was tried");
        assert!(
            today.starts_with("Today (Linux 6.12: mq-deadline, plug, depth 32): 50.0"),
            "{today}"
        );
        let better = "the advice has 2.00 times the throughput and 1.3 % of the tail latency.";
        assert!(today.ends_with(better), "{today}");
        assert_eq!(some.alternative(), None, "nothing has a lower tail latency");
        let apply = some.apply();
        assert!(apply[1].ends_with("echo none > /sys/block/DISK/queue/scheduler"), "{apply:?}");
        assert!(apply[2].ends_with("echo 1 > /sys/block/DISK/queue/zoned_qd1_writes"), "{apply:?}");
        let rule = "ATTR{queue/zoned}==\"host-managed\", ATTR{queue/scheduler}=\"none\", \
                    ATTR{queue/zoned_qd1_writes}=\"1\"";
        assert!(apply[3].ends_with(rule), "{apply:?}");
        let tables = some.tables_of_model().expect("smr-30t was published");
        assert!(tables.contains("zonal reproduce smr-seq-qd"), "{tables}");
    }

    #[test]
    fn what_the_answer_costs_in_the_other_figure_is_told() {
        let mut some = advice(vec![
            trial("none plug 32", 1, 100.0, 400),
            trial("mq-deadline plug 32", 2, 50.0, 40),
            trial("none plug 1", 3, 10.0, 5),
        ]);
        let today = some.against_today().expect("it was tried");
        let costs = "the advice has 2.00 times the throughput and 9.99 times the tail latency.";
        assert!(today.ends_with(costs), "{today}");
        let other = some.alternative().expect("others are faster");
        assert!(
            other
                .starts_with("The lowest tail latency: none, plug, depth 1: 10.0 MB/s, 99% within")
        );
        assert!(
            other
                .ends_with("; 10 % of the throughput and 1.3 % of the tail latency of the answer.")
        );
        some.goal = Goal::Latency;
        some.trials.rotate_right(1);
        let other = some.alternative().expect("others do more");
        assert!(
            other.starts_with("The most throughput: none, plug, depth 32: 100.0 MB/s"),
            "{other}"
        );
        assert!(other.contains("; 10.00 times the throughput and "), "{other}");
        assert!(other.ends_with(" times the tail latency of the answer."), "{other}");
    }

    #[test]
    fn the_same_error_is_told_once() {
        let error = |model| KnownError {
            table: "t".to_owned(),
            cell: "c".to_owned(),
            published: 100.0,
            model,
            unit: "MB/s",
            is_fitted: false,
        };
        let mut advice = advice(vec![trial("none qd1 1", 1, 100.0, 5)]);
        advice.known_errors = [Some(error(99.0)), Some(error(135.0))];
        let [best, today] = &advice.errors_of_model()[..] else { panic!("two lines") };
        let line = "How far off this model is: -1% where a load like it was published (t, c: 100 MB/s; here 99.0).";
        assert_eq!(best, line);
        assert!(today.contains(" with what Linux does: +35% where"), "{today}");
        advice.known_errors = [Some(error(99.0)), Some(error(99.0))];
        assert_eq!(advice.errors_of_model().len(), 1);
        advice.known_errors = [None, None];
        let [unknown] = &advice.errors_of_model()[..] else { panic!("one line") };
        assert!(unknown.starts_with("How far off this model is: not known"), "{unknown}");
        advice.known_errors = [Some(error(99.0)), None];
        advice.device = "smr-28t:lba=4096".to_owned();
        let [made] = &advice.errors_of_model()[..] else { panic!("one line") };
        assert!(made.starts_with("How far off the model of smr-30t is, from which"), "{made}");
        assert!(advice.tables_of_model().is_some_and(|line| line.contains("smr-30t")));
    }

    #[test]
    fn what_is_as_good_as_today_is_said_to_be() {
        let mut advice =
            advice(vec![trial("none qd1 1", 1, 100.0, 5), trial("none plug 1", 1, 100.0, 5)]);
        advice.stock = advice.trials[1].configuration.clone();
        let line = advice.against_today().expect("it was tried");
        assert!(line.ends_with("that is as good."), "{line}");
    }

    #[test]
    fn without_measurements_there_is_no_answer() {
        let none = advice(Vec::new());
        assert_eq!((none.answer(), none.at_own_depth(), none.against_today()), (None, None, None));
        assert_eq!(none.apply(), [""; 0]);
    }
}
