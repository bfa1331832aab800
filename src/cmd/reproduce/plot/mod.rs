//! The plots of a reproduced table.
//!
//! Takes what was measured; gives SVG, each plot under a name of its own. Keeps true: a plot shows
//! published figures as rings beside ours, and nothing where they are withheld; a file is there as
//! a whole or not at all.
mod head;

use super::measured::{Measured, PERCENTILES};
use super::table::{Claim, Layout, Unit};
use crate::chart::{self, Axis, Chart, Marks, Scale, Series};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// A plot.
pub struct Plot {
    /// The file's name without its ending; tells the plots of all tables apart.
    pub name: String,
    /// The picture, for a page that has a foreground colour.
    pub svg: String,
}

/// The plots of a table.
///
/// # Errors
/// A plot cannot be drawn.
pub fn of(measured: &Measured) -> Result<Vec<Plot>> {
    let mut charts = match (measured.table.layout, measured.table.claim) {
        (Layout::Grid, Claim::Percentages) => vec![changes(measured)],
        (Layout::Grid, Claim::Figures) => bars(measured),
        (Layout::Curves { axis }, _) => vec![curves(measured, axis), latencies(measured, axis)],
        (Layout::List, _) => Vec::new(),
    };
    if !measured.table.crossings.is_empty() {
        charts.push(("head", head::chart(measured)?));
    }
    let draw = |(name, chart): (&str, Chart)| {
        let name = format!("{}-{name}", measured.table.name);
        let svg = chart.draw().with_context(|| format!("plot {name}"))?;
        Ok(Plot { name, svg })
    };
    charts.into_iter().map(draw).collect()
}

/// Makes the directory for plots if it is not there, and finds out whether it can be written to.
///
/// # Errors
/// It cannot.
pub fn prepare(dir: &Path) -> Result<()> {
    let probe = dir.join(".zonal-plot");
    fs::create_dir_all(dir)
        .and_then(|()| fs::write(&probe, ""))
        .and_then(|()| fs::remove_file(&probe))
        .with_context(|| format!("--plot {}: cannot write there", dir.display()))
}

/// Writes each plot to a file of its own.
///
/// # Errors
/// A file cannot be written.
pub fn write(dir: &Path, plots: &[Plot]) -> Result<()> {
    for plot in plots {
        let path = dir.join(format!("{}.svg", plot.name));
        let part = path.with_extension("svg.part");
        fs::write(&part, chart::standalone(&plot.svg))
            .and_then(|()| fs::rename(&part, &path))
            .with_context(|| format!("--plot: {}", path.display()))?;
    }
    Ok(())
}

/// By row and column, each row a colour: published rings, and what `marks` our figures are.
/// `own` and `published` give the values.
fn rows(
    measured: &Measured,
    columns: &[&str],
    marks: Marks,
    own: impl Fn(usize) -> Option<f64>,
    published: impl Fn(usize) -> Option<f64>,
) -> Vec<Series> {
    let table = &measured.table;
    let headings = table.headings(|cell| &cell.row);
    let mut series = Vec::new();
    for (colour, row) in headings.iter().enumerate() {
        let points = |value: &dyn Fn(usize) -> Option<f64>| -> Vec<(f64, f64)> {
            let at = |(x, column): (usize, &&str)| Some((x as f64, value(table.at(row, column)?)?));
            columns.iter().enumerate().filter_map(at).collect()
        };
        let slot = (colour, headings.len());
        let (ours, theirs) = (points(&own), points(&published));
        if !ours.is_empty() {
            series.push(Series { name: (*row).to_owned(), colour, slot, marks, points: ours });
        }
        if !theirs.is_empty() {
            let marks = if marks == Marks::Bars { Marks::RingsOnBars } else { Marks::Rings };
            let name = format!("{row}, published");
            series.push(Series { name, colour, slot, marks, points: theirs });
        }
    }
    series
}

fn named(columns: &[&str]) -> Vec<String> {
    columns.iter().map(|&column| column.to_owned()).collect()
}

/// Grouped bars of what each cell is against its base.
fn changes(measured: &Measured) -> (&'static str, Chart) {
    let table = &measured.table;
    let columns = table.headings(|cell| &cell.column);
    let base = |at: usize| table.cells[at].bases.first().copied().flatten();
    let own = |at: usize| base(at).map(|b| measured.results.ratio(at, b.cell, b.times));
    let published =
        |at: usize| Some(measured.value(at)? / (measured.value(base(at)?.cell)? * base(at)?.times));
    let heading = table.comparisons.first().map_or("", |comparison| comparison.heading);
    let chart = Chart {
        title: format!("{}: throughput {heading}", table.name),
        x: Axis { label: "workload".to_owned(), steps: Some(named(&columns)) },
        y_label: "times".to_owned(),
        scale: Scale::Linear,
        series: rows(measured, &columns, Marks::Bars, own, published),
    };
    ("change", chart)
}

/// Grouped bars, for each unit.
fn bars(measured: &Measured) -> Vec<(&'static str, Chart)> {
    let table = &measured.table;
    let of_unit = |(name, unit): (&'static str, Unit)| {
        let all = table.headings(|cell| &cell.column);
        let has = |column: &&str| {
            let mut cells = table.cells.iter();
            cells.any(|cell| cell.column == *column && cell.unit == unit)
        };
        let columns: Vec<&str> = all.into_iter().filter(has).collect();
        if columns.is_empty() {
            return None;
        }
        let own = |at: usize| Some(measured.results.figure(at));
        let series = rows(measured, &columns, Marks::Bars, own, |at| measured.value(at));
        let chart = Chart {
            title: format!("{}: {name}", table.name),
            x: Axis { label: "workload".to_owned(), steps: Some(named(&columns)) },
            y_label: unit.name().to_owned(),
            scale: Scale::Linear,
            series,
        };
        Some((name, chart))
    };
    let units = [("bandwidth", Unit::MegabytesPerSecond), ("iops", Unit::Kiops)];
    units.into_iter().filter_map(of_unit).collect()
}

/// Throughput along the columns, a curve for each row.
fn curves(measured: &Measured, axis: &str) -> (&'static str, Chart) {
    let table = &measured.table;
    let columns = table.headings(|cell| &cell.column);
    let own = |at: usize| Some(measured.results.figure(at));
    let chart = Chart {
        title: format!("{}: throughput by {axis}", table.name),
        x: Axis { label: axis.to_owned(), steps: Some(named(&columns)) },
        y_label: table.cells.first().map_or("", |cell| cell.unit.name()).to_owned(),
        scale: Scale::Linear,
        series: rows(measured, &columns, Marks::Line { dashed: false, points: true }, own, |at| {
            measured.value(at)
        }),
    };
    ("throughput", chart)
}

/// Latency percentiles along the columns: for each row the first one as a line, the others dashed.
fn latencies(measured: &Measured, axis: &str) -> (&'static str, Chart) {
    let table = &measured.table;
    let columns = table.headings(|cell| &cell.column);
    let mut series = Vec::new();
    for (percentile, percent) in PERCENTILES.iter().enumerate() {
        let marks = Marks::Line { dashed: percentile > 0, points: true };
        let own = |at: usize| Some(measured.results.0[at].latency(percentile) / 1e6);
        for mut curve in rows(measured, &columns, marks, own, |_| None) {
            curve.name = format!("{}, {percent}th", curve.name);
            curve.colour += percentile * table.headings(|cell| &cell.row).len();
            series.push(curve);
        }
    }
    let chart = Chart {
        title: format!("{}: completion latency by {axis}, percentiles", table.name),
        x: Axis { label: axis.to_owned(), steps: Some(named(&columns)) },
        y_label: "ms".to_owned(),
        scale: Scale::Logarithmic,
        series,
    };
    ("latency", chart)
}
