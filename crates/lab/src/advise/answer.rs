//! The advice in a sentence, and the lines that apply it.
use super::{Advice, Depth, Goal, TIE, Trial};
use crate::reproduce;
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
    /// The advice in one sentence; `None` if nothing was measured.
    pub fn answer(&self) -> Option<String> {
        let best = self.advised()?;
        let today = self.today()?;
        if best.configuration == today.configuration {
            return Some(format!(
                "Stay with what Linux {} does ({}): nothing that was tried is surely better: {}.",
                self.kernel,
                best.configuration.name(),
                figures(best)
            ));
        }
        let changes = self.changes(best).into_iter().map(|change| change.what);
        Some(format!("Change {}: {}.", changes.collect::<Vec<_>>().join(", and "), figures(best)))
    }

    /// The advice; `None` if what Linux does was not measured.
    pub fn advised(&self) -> Option<&Trial> {
        self.trials.first().filter(|trial| trial.verdict.starts_with("advice"))
    }

    /// What to change of today's configuration for another.
    fn changes(&self, to: &Trial) -> Vec<Change> {
        let (from, to) = (&self.stock, &to.configuration);
        let mut changes = Vec::new();
        if from.scheduler != to.scheduler {
            let (what, value) =
                (format!("the scheduler to {}", to.scheduler), to.scheduler.clone());
            changes.push(Change { what, attribute: Some(("Linux", "scheduler", value)) });
        }
        if let Some(policy) = to.zone_write.filter(|_| from.zone_write != to.zone_write) {
            changes.push(policy_change(policy));
        }
        if from.depth != to.depth {
            let what = match &to.depth {
                Depth::Own => "the queue depths to the jobs' own".to_owned(),
                Depth::All(depth) => format!("the queue depth to {depth}"),
                Depth::Of(job, depth) => format!("the queue depth of {job} to {depth}"),
            };
            changes.push(Change { what, attribute: None });
        }
        changes
    }

    /// Limits among the goals that the advice does not meet.
    pub fn missed(&self) -> Option<String> {
        let best = self.advised()?;
        let missed = |goal: &Goal| goal.missed_by(best.outcomes.first()?).into();
        let missed: Vec<String> =
            self.goals.iter().filter_map(missed).flat_map(|it: Vec<_>| it).collect();
        let text = missed.join(", ");
        (!missed.is_empty()).then(|| {
            format!("Goals are missed: {text}; nothing that was tried surely comes nearer.")
        })
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

    /// The trial of what Linux does unless told otherwise; `None` if it was not measured.
    pub fn today(&self) -> Option<&Trial> {
        self.trials.iter().find(|trial| trial.configuration == self.stock)
    }

    /// How the advice differs from what Linux does unless told otherwise; `None` if it does not.
    pub fn against_today(&self) -> Option<String> {
        let (best, today) = (self.advised()?, self.today()?);
        let name = today.configuration.name();
        (best.configuration != today.configuration).then(|| {
            let [throughput, latency] = compared(best, today);
            format!(
                "Today (Linux {}: {name}): {}; the advice has {throughput} and {latency}.",
                self.kernel,
                figures(today)
            )
        })
    }

    /// What more throughput, or a shorter tail, would cost; `None` if the advice has that, too.
    pub fn alternatives(&self) -> Vec<String> {
        let Some(best) = self.advised() else { return Vec::new() };
        let front = trade_off(&self.trials);
        let ends = [(front.last(), "Most throughput", 0), (front.first(), "Shortest tail", 1)];
        let line = |(trial, what, at): (Option<&&Trial>, &str, usize)| {
            let named = [&best.configuration, &self.stock];
            let trial = trial.filter(|trial| !named.contains(&&trial.configuration))?;
            let both = compared(trial, best);
            let [throughput, latency] = &both;
            (!both[at].starts_with("the same")).then(|| {
                format!(
                    "{what}: {}: {}; {throughput} and {latency} of the advice, but {}.",
                    trial.configuration.name(),
                    figures(trial),
                    trial.verdict
                )
            })
        };
        ends.into_iter().filter_map(line).collect()
    }

    /// The lines that apply the advice, each with what it is for: in the program, in sysfs, as a rule of
    /// udev. None if there is nothing to change.
    pub fn apply(&self) -> Vec<String> {
        let Some(best) = self.advised() else { return Vec::new() };
        let mut lines = Vec::new();
        let mut rules = Vec::new();
        for Change { attribute, .. } in self.changes(best) {
            if let Some((what, attribute, value)) = attribute {
                lines.push(format!("{what}: echo {value} > /sys/block/DISK/queue/{attribute}"));
                rules.push(format!("ATTR{{queue/{attribute}}}=\"{value}\""));
            }
        }
        if !rules.is_empty() {
            let zoned = self.stock.zone_write.map(|_| "ATTR{queue/zoned}==\"host-managed\", ");
            lines.push(format!(
                "for good, in /etc/udev/rules.d/60-zoned.rules: ACTION==\"add|change\", \
                 SUBSYSTEM==\"block\", ENV{{DEVTYPE}}==\"disk\", {}{}",
                zoned.unwrap_or_default(),
                rules.join(", ")
            ));
        }
        let policy =
            best.configuration.zone_write.filter(|policy| self.stock.zone_write != Some(*policy));
        if policy == Some(ZoneWrite::Lock) {
            lines.push("lock: Linux up to 6.9, by the scheduler mq-deadline".to_owned());
        }
        match &best.configuration.depth {
            depth if *depth == self.stock.depth => {}
            Depth::Own => {}
            Depth::All(depth) => {
                lines.push(format!("your program: iodepth={depth}, as fio calls it"))
            }
            Depth::Of(job, depth) => {
                lines.push(format!(
                    "your program, where it does the I/O of {job}: iodepth={depth}, as fio calls it"
                ));
            }
        }
        lines
    }
}

/// A setting that differs from today's.
struct Change {
    what: String,
    /// Which Linux has the attribute of a queue, the attribute, and its value.
    attribute: Option<(&'static str, &'static str, String)>,
}

fn policy_change(policy: ZoneWrite) -> Change {
    let of = |what, value: &str| Some((what, "zoned_qd1_writes", value.to_owned()));
    let (what, attribute) = match policy {
        ZoneWrite::Plug => (
            "one write in flight in each zone",
            of("plug, Linux 6.10 and later, from 7.1 on for rotating disks only if told so", "0"),
        ),
        ZoneWrite::Qd1 => (
            "one write in flight on the whole disk",
            of("qd1, Linux 7.1 and later, where rotating disks have it unless told otherwise", "1"),
        ),
        ZoneWrite::Lock => ("zones locked by the scheduler", None),
        ZoneWrite::Off => ("no order among the writes of a zone", None),
    };
    Change { what: format!("the order of writes to {what} ({})", policy.name()), attribute }
}

/// The trials that no other beats in tail latency without losing [`TIE`] of the throughput, by rising
/// throughput.
pub(super) fn trade_off(trials: &[Trial]) -> Vec<&Trial> {
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

/// Throughput and tail latency.
fn figures(trial: &Trial) -> String {
    format!("{} MB/s, 99% within {:.2} ms", trial.throughput(), trial.p99())
}

/// How the throughput and the tail latency of a trial compare with those of another, such as
/// `1.15 times the throughput` and `8.1 % of the tail latency`.
fn compared(trial: &Trial, with: &Trial) -> [String; 2] {
    let words = |ratio: f64, what: &str| match ratio {
        _ if (ratio - 1.0).abs() <= TIE => format!("the same {what}"),
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
    use crate::advise::tests::{outcome, part};
    use crate::advise::{Configuration, KnownError};
    use crate::measurements::Kernel;

    /// A trial with this throughput in MB/s and tail latency in ms.
    fn trial(name: &str, rate: f64, millis: u64) -> Trial {
        let mut parts = name.split(' ');
        let scheduler = parts.next().expect("a scheduler").to_owned();
        let zone_write = parts.next().and_then(|name| name.parse().ok());
        let depth = parts.next().and_then(|depth| depth.parse().ok()).unwrap_or(Depth::Own);
        let configuration = Configuration { scheduler, zone_write, depth };
        let outcomes = vec![outcome([part("w", rate, millis, None)])];
        Trial { configuration, outcomes, verdict: String::new() }
    }

    /// The first of these is the advice.
    fn advice(mut trials: Vec<Trial>) -> Advice {
        if let Some(first) = trials.first_mut() {
            first.verdict = "advice".to_owned();
        }
        let stock = trial("mq-deadline plug 32", 1.0, 1).configuration;
        Advice {
            device: "smr-30t:lba=4096".to_owned(),
            description: String::new(),
            goals: Vec::new(),
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
    fn where_nothing_is_better_there_is_nothing_to_apply() {
        let stay =
            advice(vec![trial("mq-deadline plug 32", 100.0, 5), trial("none qd1 1", 100.0, 5)]);
        let answer = "Stay with what Linux 6.12 does (mq-deadline, plug, depth 32): nothing that was \
                      tried is surely better: 100.0 MB/s, 99% within 5.";
        assert!(stay.answer().is_some_and(|it| it.starts_with(answer)), "{:?}", stay.answer());
        assert_eq!(stay.apply(), [""; 0]);
        assert_eq!((stay.against_today(), stay.alternatives()), (None, Vec::new()));
    }

    #[test]
    fn what_differs_from_today_has_the_lines_that_apply_it() {
        let some =
            advice(vec![trial("none qd1 1", 100.0, 5), trial("mq-deadline plug 32", 50.0, 400)]);
        let answer = "Change the scheduler to none, and the order of writes to one write in flight on the \
                      whole disk (qd1), and the queue depth to 1: 100.0 MB/s, 99% within 5.";
        assert!(some.answer().is_some_and(|it| it.starts_with(answer)), "{:?}", some.answer());
        let today = some.against_today().expect("it was tried");
        assert!(
            today.starts_with("Today (Linux 6.12: mq-deadline, plug, depth 32): 50.0"),
            "{today}"
        );
        let better = "the advice has 2.00 times the throughput and 1.3 % of the tail latency.";
        assert!(today.ends_with(better), "{today}");
        assert_eq!(some.alternatives(), [""; 0], "nothing has a lower tail latency");
        let apply = some.apply();
        assert!(apply[0].ends_with("echo none > /sys/block/DISK/queue/scheduler"), "{apply:?}");
        assert!(apply[1].ends_with("echo 1 > /sys/block/DISK/queue/zoned_qd1_writes"), "{apply:?}");
        let rule = "ATTR{queue/zoned}==\"host-managed\", ATTR{queue/scheduler}=\"none\", \
                    ATTR{queue/zoned_qd1_writes}=\"1\"";
        assert!(apply[2].ends_with(rule), "{apply:?}");
        assert_eq!(apply[3], "your program: iodepth=1, as fio calls it");
        let tables = some.tables_of_model().expect("smr-30t was published");
        assert!(tables.contains("zonal reproduce smr-seq-qd"), "{tables}");
        let one = advice(vec![
            trial("mq-deadline plug readers=4", 50.0, 5),
            trial("mq-deadline plug 32", 50.0, 9),
        ]);
        assert!(
            one.answer()
                .is_some_and(|it| it.starts_with("Change the queue depth of readers to 4: "))
        );
    }

    #[test]
    fn what_more_throughput_or_a_shorter_tail_would_cost_is_told() {
        let some = advice(vec![
            trial("mq-deadline plug 32", 50.0, 40),
            trial("none plug 32", 100.0, 400),
            trial("none plug 1", 10.0, 5),
        ]);
        let [most, shortest] = &some.alternatives()[..] else { panic!("two lines") };
        assert!(
            most.starts_with("Most throughput: none, plug, depth 32: 100.0 MB/s, 99% within"),
            "{most}"
        );
        assert!(most.contains("; 2.00 times the throughput and "), "{most}");
        assert!(
            shortest.starts_with("Shortest tail: none, plug, depth 1: 10.0 MB/s"),
            "{shortest}"
        );
        assert!(
            shortest
                .contains("; 20 % of the throughput and 12 % of the tail latency of the advice"),
            "{shortest}"
        );
    }

    #[test]
    fn trade_off_has_only_what_nothing_beats_in_both() {
        let trials = [(50.0, 500), (40.0, 600), (100.0, 1000), (101.0, 2000), (120.0, 9000)];
        let trials = trials.map(|(rate, millis)| trial("none plug 1", rate, millis));
        let rates: Vec<f64> = trade_off(&trials).iter().map(|it| it.throughput().mean).collect();
        assert_eq!(rates, [50.0, 100.0, 120.0]);
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
        let mut advice = advice(vec![trial("none qd1 1", 100.0, 5)]);
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
    fn without_measurements_there_is_no_answer() {
        let none = advice(Vec::new());
        assert_eq!((none.answer(), none.missed(), none.against_today()), (None, None, None));
        assert_eq!(none.apply(), [""; 0]);
    }
}
