//! A comparison of drives as text and as JSON.
use super::{Comparison, MeasuredDrive};
use crate::advise::TIE;
use crate::estimate::Estimate;
use crate::page;
use crate::table::Table;
use serde_json::{Value, json};

/// Percentiles of the latencies, and their headings.
const PERCENTILES: [(f64, &str); 3] = [(50.0, "median ms"), (99.0, "99% ms"), (99.9, "99.9% ms")];

/// A figure by which drives are compared.
struct Criterion {
    name: &'static str,
    unit: &'static str,
    decimals: usize,
    high_is_good: bool,
    value: fn(&MeasuredDrive) -> Estimate,
}

const CRITERIA: [Criterion; 4] = [
    Criterion {
        name: "write amplification",
        unit: "",
        decimals: 2,
        high_is_good: false,
        value: MeasuredDrive::write_amplification,
    },
    Criterion {
        name: "throughput",
        unit: " MB/s",
        decimals: 1,
        high_is_good: true,
        value: MeasuredDrive::throughput,
    },
    Criterion {
        name: "99th percentile",
        unit: " ms",
        decimals: 2,
        high_is_good: false,
        value: |drive| drive.latency(99.0),
    },
    Criterion {
        name: "99.9th percentile",
        unit: " ms",
        decimals: 2,
        high_is_good: false,
        value: |drive| drive.latency(99.9),
    },
];

/// Which drive has the best of each figure, in sentences.
pub fn conclusion(comparison: &Comparison) -> Vec<String> {
    let drives = &comparison.drives;
    if drives.len() < 2 {
        return Vec::new();
    }
    CRITERIA.iter().map(|criterion| best_of(criterion, drives)).collect()
}

fn best_of(criterion: &Criterion, drives: &[MeasuredDrive]) -> String {
    let &Criterion { name, unit, decimals, high_is_good, value } = criterion;
    let mut sorted: Vec<(&str, Estimate)> =
        drives.iter().map(|drive| (drive.drive.name(), value(drive))).collect();
    sorted.sort_by(|(_, a), (_, b)| a.mean.total_cmp(&b.mean));
    if high_is_good {
        sorted.reverse();
    }
    let (best, figure) = sorted[0];
    let is_tied = |other: &Estimate| {
        let (low, high) = figure.interval();
        let (other_low, other_high) = other.interval();
        let overlap = low <= other_high && other_low <= high;
        overlap || (other.mean / figure.mean - 1.0).abs() < TIE
    };
    let show = |(name, figure): &(&str, Estimate)| format!("{name} {figure:.decimals$}{unit}");
    let (tied, others): (Vec<_>, Vec<_>) =
        sorted[1..].iter().partition(|(_, other)| is_tied(other));
    let list = |drives: &[&(&str, Estimate)]| {
        drives.iter().map(|drive| show(drive)).collect::<Vec<_>>().join(", ")
    };
    let first = show(&(best, figure));
    match (tied.is_empty(), others.is_empty()) {
        (true, _) => format!("Best {name}: {first}; {}.", list(&others)),
        (false, true) => format!("No difference in {name}: {first}, {}.", list(&tied)),
        (false, false) => {
            format!("Best {name}: {first}, {}; {}.", list(&tied), list(&others))
        }
    }
}

/// How the figures came about.
fn settings(comparison: &Comparison) -> Vec<String> {
    let options = &comparison.options;
    let seeds = match options.seeds {
        1 => "one seed".to_owned(),
        seeds => format!("{seeds} seeds, ± 95% confidence interval of the mean"),
    };
    let mut lines = vec![format!(
        "{seeds}; after a fill and {} drive writes of the jobs, {} are measured",
        options.before, options.measured
    )];
    if comparison.interrupted {
        let (done, all) = (comparison.drives.len(), options.drives.len());
        lines.push(format!("interrupted: {done} of {all} drives were measured"));
    }
    lines.extend(comparison.without_io());
    lines
}

/// A row for each drive.
fn table(comparison: &Comparison) -> Table {
    let cycles = comparison.options.cycles;
    let headings = ["drive", "WAF", "MB/s", "IOPS"]
        .into_iter()
        .chain(PERCENTILES.map(|(_, heading)| heading))
        .chain(["erases", "drive writes"]);
    let row = |drive: &MeasuredDrive| {
        let figures = [
            drive.drive.name().to_owned(),
            format!("{:.2}", drive.write_amplification()),
            drive.throughput().to_string(),
            format!("{:.0}", drive.iops()),
        ];
        let latencies = PERCENTILES.map(|(percent, _)| format!("{:.2}", drive.latency(percent)));
        let wear = [format!("{:.2}", drive.erases()), format!("{:.0}", drive.drive_writes(cycles))];
        figures.into_iter().chain(latencies).chain(wear).collect()
    };
    Table::new(headings, comparison.drives.iter().map(row))
}

/// The flash, the drives, and how they were measured.
fn about(comparison: &Comparison) -> Vec<String> {
    let mut lines = vec![format!("flash: {}", comparison.flash)];
    lines.extend(comparison.drives.iter().map(|drive| drive.description.clone()));
    lines.extend(settings(comparison));
    lines
}

/// The meaning of the headings of the table.
fn legend(comparison: &Comparison) -> [String; 2] {
    let cycles = comparison.options.cycles;
    [
        "WAF: bytes written to the flash for each of the jobs; erases: of each block, in a drive write"
            .to_owned(),
        format!("drive writes: until blocks have been erased {cycles} times"),
    ]
}

/// A table and the conclusion as text.
pub fn text(comparison: &Comparison) -> String {
    let mut lines = about(comparison);
    lines.push(String::new());
    lines.extend(table(comparison).text(&[0]));
    lines.push(String::new());
    lines.extend(legend(comparison));
    lines.push(String::new());
    lines.extend(conclusion(comparison));
    lines.into_iter().map(|line| line + "\n").collect()
}

/// The table as CSV.
pub fn csv(comparison: &Comparison) -> String {
    table(comparison).csv()
}

/// The same as [`text`] as a page.
pub fn html(comparison: &Comparison) -> String {
    let mut out = page::begin("Drives of the same flash");
    page::paragraphs(&mut out, conclusion(comparison).into_iter().chain(about(comparison)));
    table(comparison).html(&mut out, 1);
    page::paragraphs(&mut out, legend(comparison));
    out + page::END
}

/// All figures as JSON.
pub fn json(comparison: &Comparison) -> String {
    let options = &comparison.options;
    let figure = |Estimate { mean, margin }: Estimate| json!({ "mean": mean, "ci95": margin });
    let drive = |drive: &MeasuredDrive| {
        let nanos = |percent: f64| figure(drive.latency(percent).times(1e6));
        json!({
            "drive": drive.drive.name(),
            "description": drive.description,
            "size_bytes": drive.sizes.0.0,
            "flash_bytes": drive.sizes.1.0,
            "write_amplification": figure(drive.write_amplification()),
            "bytes_per_second": figure(drive.throughput().times(1e6)),
            "iops": figure(drive.iops()),
            "latency_ns": { "p50": nanos(50.0), "p99": nanos(99.0), "p99.9": nanos(99.9) },
            "erases_per_drive_write": figure(drive.erases()),
            "drive_writes": figure(drive.drive_writes(options.cycles)),
        })
    };
    let value = json!({
        "flash": comparison.flash,
        "seeds": options.seeds,
        "drive_writes_before": options.before,
        "drive_writes_measured": options.measured,
        "cycles": options.cycles,
        "interrupted": comparison.interrupted,
        "without_io": comparison.without_io(),
        "drives": comparison.drives.iter().map(drive).collect::<Vec<Value>>(),
        "conclusion": conclusion(comparison),
    });
    format!("{value:#}\n")
}
