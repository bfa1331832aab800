//! The plots of a measured table. Published figures are rings beside the measured ones, and absent
//! where they are withheld.
use super::head;
use super::measured::MeasuredTable;
use super::results::PERCENTILES;
use super::table::{Comparability, Layout};
use crate::chart::{Axis, Chart, Marks, Plot, Scale, Series};
use crate::experiment::Unit;
use anyhow::Result;

/// The plots of a table; an interrupted one has none.
///
/// # Errors
/// The head of a disk cannot be traced.
pub fn plots(measured: &MeasuredTable) -> Result<Vec<Plot>> {
    if measured.interrupted.is_some() {
        return Ok(Vec::new());
    }
    let mut charts = match (measured.table.layout, measured.table.comparability) {
        (Layout::Grid, Comparability::Ratios) => vec![changes(measured)],
        (Layout::Grid, Comparability::Figures) => bars(measured),
        (Layout::Curves, _) => vec![curves(measured), latencies(measured)],
        (Layout::List, _) => Vec::new(),
    };
    if !measured.table.crossings.cells.is_empty() {
        charts.push(("head", head::chart(measured)?));
    }
    let named = |(name, chart)| Plot { name: format!("{}-{name}", measured.table.name), chart };
    Ok(charts.into_iter().map(named).collect())
}

/// Series for each row of the table: measured figures drawn as `marks`, and published ones as rings
/// in the same colour. `own` and `published` return the figures of a cell.
fn rows(
    measured: &MeasuredTable,
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
        let (measured, published) = (points(&own), points(&published));
        if !measured.is_empty() {
            series.push(Series { name: (*row).to_owned(), colour, slot, marks, points: measured });
        }
        if !published.is_empty() {
            let marks = if marks == Marks::Bars { Marks::RingsOnBars } else { Marks::Rings };
            let name = format!("{row}, published");
            series.push(Series { name, colour, slot, marks, points: published });
        }
    }
    series
}

fn named(columns: &[&str]) -> Vec<String> {
    columns.iter().map(|&column| column.to_owned()).collect()
}

/// Grouped bars of each cell's figure relative to that of its base.
fn changes(measured: &MeasuredTable) -> (&'static str, Chart) {
    let table = &measured.table;
    let columns = table.headings(|cell| &cell.column);
    let base = |at: usize| table.cells[at].bases.first().copied().flatten();
    let own = |at: usize| base(at).map(|b| measured.results.ratio(at, b.cell, b.times));
    let published =
        |at: usize| Some(measured.value(at)? / (measured.value(base(at)?.cell)? * base(at)?.times));
    let heading = table.comparisons.first().map_or("", |comparison| comparison.heading.as_str());
    let chart = Chart {
        title: format!("{}: throughput {heading}", table.name),
        x: Axis {
            label: "workload".to_owned(),
            steps: Some(named(&columns)),
            scale: Scale::Linear,
        },
        y_label: "times".to_owned(),
        scale: Scale::Linear,
        series: rows(measured, &columns, Marks::Bars, own, published),
    };
    ("change", chart)
}

/// Grouped bars, one chart for each unit.
fn bars(measured: &MeasuredTable) -> Vec<(&'static str, Chart)> {
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
            x: Axis {
                label: "workload".to_owned(),
                steps: Some(named(&columns)),
                scale: Scale::Linear,
            },
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
fn curves(measured: &MeasuredTable) -> (&'static str, Chart) {
    let table = &measured.table;
    let axis = &table.axis;
    let columns = table.headings(|cell| &cell.column);
    let own = |at: usize| Some(measured.results.figure(at));
    let chart = Chart {
        title: format!("{}: throughput by {axis}", table.name),
        x: Axis { label: axis.to_owned(), steps: Some(named(&columns)), scale: Scale::Linear },
        y_label: table.cells.first().map_or("", |cell| cell.unit.name()).to_owned(),
        scale: Scale::Linear,
        series: rows(measured, &columns, Marks::Line { dashed: false, points: true }, own, |at| {
            measured.value(at)
        }),
    };
    ("throughput", chart)
}

/// Latency percentiles along the columns: for each row the first one as a line, the others dashed.
fn latencies(measured: &MeasuredTable) -> (&'static str, Chart) {
    let table = &measured.table;
    let axis = &table.axis;
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
        x: Axis { label: axis.to_owned(), steps: Some(named(&columns)), scale: Scale::Linear },
        y_label: "ms".to_owned(),
        scale: Scale::Logarithmic,
        series,
    };
    ("latency", chart)
}
