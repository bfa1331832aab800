//! A sweep as text: a row for each point.
use super::{Metric, PERCENTILES, Point, Sweep, SweepOptions};
use crate::estimate::Estimate;
use crate::executor::ClockKind;
use crate::experiment::{self, Settling};
use crate::table::Table;

/// The figures of a point as text, with their headings. Two significant decimals suit latencies from
/// microseconds to seconds.
fn figures(point: &Point) -> Vec<String> {
    let show = |estimate: Option<Estimate>, decimals: usize| {
        estimate.map_or_else(|| "-".to_owned(), |estimate| format!("{estimate:.decimals$}"))
    };
    let mut figures =
        vec![show(point.throughput(), 1), show(point.estimate(|sample| sample.iops), 0)];
    figures.extend((0..PERCENTILES.len()).map(|at| show(point.latency(at), 3)));
    figures.push(point.failure.clone().unwrap_or_default());
    figures
}

/// Points with the names of a job and a direction where there are several: each point, then its jobs.
pub(super) struct Lines<'a> {
    sweep: &'a Sweep,
    /// Whether a point has several jobs or directions.
    has_jobs: bool,
}

impl<'a> Lines<'a> {
    pub fn of(sweep: &'a Sweep) -> Self {
        Lines { sweep, has_jobs: sweep.points.iter().any(|point| !point.of_jobs().is_empty()) }
    }

    /// The names of the axes, and of the columns of jobs.
    pub fn headings(&self) -> impl Iterator<Item = String> {
        let axes = self.sweep.options.axes.iter().map(|axis| axis.name().to_owned());
        let jobs: &[&str] = if self.has_jobs { &["job", "direction"] } else { &[] };
        axes.chain(jobs.iter().map(|&name| name.to_owned()))
    }

    /// A row for each point, and each of its jobs: the values of these columns and what `figures` has.
    pub fn rows(&self, figures: impl Fn(&Point) -> Vec<String>) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        for point in &self.sweep.points {
            let values: Vec<String> =
                self.sweep.options.values(&point.at).map(str::to_owned).collect();
            let mut add = |names: &[String], point: &Point| {
                let names = if self.has_jobs { names } else { &[] };
                rows.push([&values, names, &figures(point)].concat());
            };
            add(&["all".to_owned(), String::new()], point);
            for (names, part) in point.of_jobs() {
                add(&names, &part);
            }
        }
        rows
    }
}

/// The headings of [`figures`].
fn headings() -> impl Iterator<Item = String> {
    let own = ["MB/s", "IOPS"].map(str::to_owned);
    let latencies = PERCENTILES.map(|percentile| format!("clat {percentile}th, ms"));
    own.into_iter().chain(latencies).chain(["failed".to_owned()])
}

/// The values of the axes and [`figures`] of each point and its jobs.
pub(super) fn table(sweep: &Sweep) -> Table {
    let lines = Lines::of(sweep);
    Table::new(lines.headings().chain(headings()), lines.rows(figures))
}

/// How a sweep was measured, in one line.
pub(super) fn settings(sweep: &Sweep) -> String {
    let SweepOptions { seed, seeds, clock, io_cost, seconds, .. } = &sweep.options;
    let clock = match clock {
        ClockKind::Real => "real clock".to_owned(),
        ClockKind::Virtual => format!("virtual clock, {io_cost}"),
    };
    let samples = sweep.points.iter().flat_map(|point| &point.samples);
    let settlings = samples.filter_map(|sample| sample.settling);
    let length = seconds.and_then(|seconds| Settling::line(seconds, settlings));
    let length = length.unwrap_or_else(|| "each as long as its jobs say".to_owned());
    let seeds = match seeds {
        1 => format!("seed {seed}"),
        _ if seeds_make_no_difference(sweep) => {
            format!("{seeds} seeds from {seed}, which make no difference")
        }
        _ => format!(
            "{seeds} seeds from {seed}, ± 95% confidence interval of the mean where they make a difference"
        ),
    };
    format!("{clock}, {length}, {seeds}")
}

/// Whether each point has the same figures for all seeds.
fn seeds_make_no_difference(sweep: &Sweep) -> bool {
    let is_same = |estimate: Option<Estimate>| estimate.is_some_and(|it| it.margin == Some(0.0));
    let all_same = |point: &Point| {
        let latencies = point.samples.first().map_or(0, |sample| sample.latencies.len());
        is_same(point.throughput()) && (0..latencies).all(|at| is_same(point.latency(at)))
    };
    sweep.points.iter().all(all_same)
}

/// The best point by the metric, in a line.
pub(super) fn best(sweep: &Sweep) -> Option<String> {
    let metric = sweep.options.metric?;
    let (point, figure) = metric.best(sweep)?;
    let more = if metric.is_more_better() { "highest" } else { "lowest" };
    let figure = match metric {
        Metric::Bandwidth => format!("{:.1} MB/s", figure / 1e6),
        Metric::Iops => format!("{figure:.0}"),
        Metric::Latency(_) => format!("{figure:.1} us"),
    };
    Some(format!("{more} {}: {figure} at {}", metric.name(), sweep.options.name(&point.at)))
}

/// What is to be known about the figures: that they say nothing of a drive from which jobs read what was
/// never written, and at which points they depend on how long they are measured.
pub(super) fn notices(sweep: &Sweep) -> Vec<String> {
    let measured = sweep.points.iter().filter(|point| !point.samples.is_empty());
    let points = measured.map(|point| {
        let remarks = point.samples.iter().flat_map(|sample| &sample.reads_of_nothing);
        (sweep.options.name(&point.at), remarks.collect())
    });
    experiment::remarks(points).into_iter().chain(unsteady(sweep)).collect()
}

fn unsteady(sweep: &Sweep) -> Option<String> {
    let is_unsteady = |point: &&Point| {
        let settlings = point.samples.iter().filter_map(|sample| sample.settling);
        settlings.into_iter().any(|settling| !settling.is_steady)
    };
    let names = sweep.points.iter().filter(is_unsteady).map(|point| sweep.options.name(&point.at));
    experiment::unsteady(&names.collect::<Vec<_>>())
}

/// All points as a table.
pub fn text(sweep: &Sweep) -> String {
    let columns = Lines::of(sweep).headings().count();
    let axes = sweep.options.axes.len();
    let has_failures = sweep.points.iter().any(|point| point.failure.is_some());
    let points = if has_failures { table(sweep) } else { table(sweep).without_last() };
    let mut text = settings(sweep) + "\n\n";
    // Failures are sentences.
    let left: Vec<usize> = (axes..columns).chain([columns + headings().count() - 1]).collect();
    for line in points.text(&left) {
        text += &format!("  {line}\n");
    }
    if let Some(best) = best(sweep) {
        text += &format!("\n{best}\n");
    }
    for notice in notices(sweep) {
        text += &format!("\n{notice}\n");
    }
    if sweep.is_interrupted {
        text.push_str("\ninterrupted: points without figures were not reached\n");
    }
    text
}
