//! The closing table of a run with several groups: one line each, to compare them at a glance.
//!
//! Takes: the summary. Gives: a table, or nothing for a single group. Keeps true: what the jobs of a
//! group have in common is written once, what differs is separated by commas; directions are added
//! up; a group with an error says so.
use super::summary::{DIRS, Entry, Group, Summary, rw_name};
use super::units::{count, duration};
use crate::job::{Job, Rw};
use crate::options::format_size;
use crate::stats::{Histogram, IoStats, LatStat};

const HEADINGS: [&str; COLUMNS] = ["job", "rw", "bs", "qd", "IOPS", "BW", "lat avg", "clat 99th"];
const COLUMNS: usize = 8;
/// Columns of words come first and are set flush left; figures are set flush right.
const WORDS: usize = 3;

/// The table, after a blank line; empty unless there is something to compare.
pub(super) fn render(summary: &Summary<'_>) -> String {
    if summary.groups.len() < 2 {
        return String::new();
    }
    let mut rows = vec![HEADINGS.map(str::to_owned)];
    let mut failures = vec![String::new()];
    for group in &summary.groups {
        let here = |entry: &&Entry<'_>| entry.head.groupid == group.id;
        let entries: Vec<_> = summary.entries.iter().filter(here).collect();
        rows.push(cells(group, &entries));
        let error = entries.iter().find_map(|entry| entry.error);
        failures.push(error.map_or(String::new(), |error| format!("  failed: {error}")));
    }
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: [usize; COLUMNS] = std::array::from_fn(width);
    let mut out = String::from("\n");
    for (row, failure) in rows.iter().zip(&failures) {
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            if column < WORDS {
                out += &format!("  {cell:<width$}");
            } else {
                out += &format!("  {cell:>width$}");
            }
        }
        out += failure;
        out.push('\n');
    }
    out
}

fn cells(group: &Group, entries: &[&Entry<'_>]) -> [String; COLUMNS] {
    let mut stats = IoStats::new();
    let (mut lat, mut clat) = (LatStat::default(), Histogram::new());
    for entry in entries {
        stats.merge(&entry.stats);
    }
    for dir in DIRS {
        lat.merge(stats.lat(dir));
        clat.merge(stats.clat_histogram(dir));
    }
    let iops: f64 = DIRS.iter().map(|&dir| stats.ios_per_second(dir)).sum();
    let bandwidth = group.dirs.iter().map(|dir| dir.bandwidth).sum();
    let each = |text: fn(&Job) -> String| {
        let mut texts: Vec<_> = entries.iter().map(|entry| text(entry.head.job)).collect();
        texts.dedup();
        texts.join(",")
    };
    [
        each(|job| job.name.clone()),
        each(rw_name),
        each(block_size),
        each(depth),
        count(iops as u64, 4),
        group.units.rate(bandwidth),
        duration(lat.mean()),
        duration(clat.percentiles(&[99.0])[0] as f64),
    ]
}

/// The block sizes of the directions that the job uses.
fn block_size(job: &Job) -> String {
    let [read, write, trim] = job.bs.map(format_size);
    match job.rw {
        Rw::Mixed if read != write => format!("{read}/{write}"),
        Rw::Read | Rw::Mixed => read,
        Rw::Write => write,
        Rw::Trim => trim,
    }
}

/// The depth, with the number of clones before it if there are several.
fn depth(job: &Job) -> String {
    match job.numjobs {
        0 | 1 => job.iodepth.to_string(),
        clones => format!("{clones}x{}", job.iodepth),
    }
}
