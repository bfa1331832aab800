//! The last lines of the normal report of several groups: what was seen, in sentences.
use super::Report;
use super::summary::{DIRS, Entry, Group, Summary};
use super::units::{count, duration};
use crate::stats::{Histogram, IoStats};

/// Digits of a number of I/Os.
const DIGITS: usize = 4;

/// A group as it is compared.
struct Figures {
    names: String,
    iops: f64,
    /// The 99th percentile of the completion latency in nanoseconds.
    p99: f64,
}

impl Figures {
    fn of(group: &Group, summary: &Summary<'_>) -> Self {
        let entries = summary.entries.iter().filter(|entry| entry.head.groupid == group.id);
        let (mut stats, mut histogram) = (IoStats::new(), Histogram::new());
        let mut names: Vec<&str> = Vec::new();
        for entry in entries {
            stats.merge(&entry.stats);
            names.push(&entry.head.job.name);
        }
        names.dedup();
        DIRS.iter().for_each(|&dir| histogram.merge(stats.clat_histogram(dir)));
        Figures {
            names: names.join(", "),
            iops: DIRS.iter().map(|&dir| stats.ios_per_second(dir)).sum(),
            p99: histogram.percentiles(&[99.0])[0] as f64,
        }
    }
}

/// The lines, after a blank one; empty for a single group.
pub(super) fn lines(report: &Report<'_>, summary: &Summary<'_>) -> String {
    if summary.groups.len() < 2 {
        return String::new();
    }
    let figures: Vec<Figures> =
        summary.groups.iter().map(|group| Figures::of(group, summary)).collect();
    let all = [
        Some(outcome(summary)),
        Some(rates(&figures)),
        Some(tails(&figures)),
        plugs(report),
        without_data(&summary.entries),
    ];
    let lines = all.into_iter().flatten().map(|line| format!("  {line}\n"));
    format!("\nSeen:\n{}", lines.collect::<String>())
}

fn outcome(summary: &Summary<'_>) -> String {
    let elapsed = summary.entries.iter().map(|entry| entry.elapsed).max().unwrap_or(0);
    let failed = summary.entries.iter().filter(|entry| entry.error.is_some());
    let failed: Vec<&str> = failed.map(|entry| entry.head.job.name.as_str()).collect();
    let end = if failed.is_empty() {
        "without an error".to_owned()
    } else {
        format!("with errors in {}", failed.join(", "))
    };
    format!("{} groups of jobs in {elapsed} s, {end}", summary.groups.len())
}

/// The ends of the groups in the order of `by`, the lowest first.
fn ends(figures: &[Figures], by: fn(&Figures) -> f64) -> (&Figures, &Figures) {
    let order = |a: &&Figures, b: &&Figures| by(a).total_cmp(&by(b));
    let least = figures.iter().min_by(order).expect("there are several groups");
    (least, figures.iter().max_by(order).expect("there are several groups"))
}

fn rates(figures: &[Figures]) -> String {
    let (slow, fast) = ends(figures, |group| group.iops);
    let iops = |group: &Figures| count(group.iops as u64, DIGITS);
    format!(
        "most IOPS: {} with {}; fewest: {} with {}",
        fast.names,
        iops(fast),
        slow.names,
        iops(slow)
    )
}

fn tails(figures: &[Figures]) -> String {
    let (short, long) = ends(figures, |group| group.p99);
    format!(
        "99% of I/Os within {} ({}) to {} ({})",
        duration(short.p99),
        short.names,
        duration(long.p99),
        long.names
    )
}

/// How the writes to sequential zones were kept in order, if plugs did that.
fn plugs(report: &Report<'_>) -> Option<String> {
    let (_, devices) = report.extra.iter().find(|(name, _)| name == "zone_write_plugs")?;
    let devices = devices.as_array()?;
    let sum = |name: &str| devices.iter().filter_map(|device| device[name].as_u64()).sum::<u64>();
    let (writes, merges) = (sum("writes"), sum("merges"));
    let percent = 100 * merges / writes.max(1);
    Some(format!(
        "{} writes to sequential zones, one at a time in each; {percent}% were merged with others \
         while they waited",
        count(writes, DIGITS)
    ))
}

/// That bandwidths mean nothing, of a device that neither transfers data nor takes time.
fn without_data(entries: &[Entry<'_>]) -> Option<String> {
    let says_nothing = entries.iter().all(|entry| !entry.head.transfers);
    says_nothing.then(|| {
        "the device moves no data and takes no time: IOPS are what the layer costs, bandwidths mean \
         nothing"
            .to_owned()
    })
}
