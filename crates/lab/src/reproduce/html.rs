//! Measured tables as one self-contained HTML page: tables, notes, plots.
use super::accuracy::interpolate;
use super::measured::MeasuredTable;
use super::plot;
use super::results::PERCENTILES;
use super::table::{Comparability, Layout};
use super::text::{caveat, notes, number, overview_table, percent, published};
use crate::page::{self, escaped};
use crate::table::Table;
use anyhow::Result;
use std::fmt::Write;

/// The page of all tables.
///
/// # Errors
/// A plot cannot be drawn.
pub fn page(tables: &[MeasuredTable]) -> Result<String> {
    let mut out = page::begin("Published tables, made again");
    overview(&mut out, tables);
    for measured in tables {
        section(&mut out, measured)?;
    }
    Ok(out + page::END)
}

/// The errors of all tables.
fn overview(out: &mut String, tables: &[MeasuredTable]) {
    overview_table(tables).html(out, 1);
}

/// A table with its notes and plots.
fn section(out: &mut String, measured: &MeasuredTable) -> Result<()> {
    let own = &measured.table;
    let _ = writeln!(out, "<h2 id=\"{0}\">{0}</h2>", escaped(&own.name));
    page::paragraphs(out, [&own.about]);
    if let Some(source) = &own.source {
        let title = escaped(&source.title);
        let title = match &source.link {
            Some(link) => format!("<a href=\"{}\">{title}</a>", escaped(link)),
            None => title.to_string(),
        };
        let _ = writeln!(out, "<p>source: {title}, {}</p>", escaped(&source.place));
    }
    let (devices, settings) = (measured.devices(), measured.settings.describe());
    let _ =
        writeln!(out, "<p>published: {}<br />zonal: {}</p>", escaped(&devices), escaped(&settings));
    page::paragraphs(out, caveat(measured));
    for plot in plot::plots(measured)? {
        plot.chart.html(out)?;
    }
    figures(out, measured);
    page::paragraphs(out, notes(measured));
    Ok(())
}

/// The cells, one row each.
fn figures(out: &mut String, measured: &MeasuredTable) {
    let own = &measured.table;
    let compared = own.comparisons.iter().map(|comparison| comparison.heading.as_str());
    let is_model = own.comparability == Comparability::Figures;
    let is_curve = matches!(own.layout, Layout::Curves);
    let mut headings = vec!["", "", "published"];
    headings.extend(compared.clone());
    headings.extend(["zonal", ""]);
    headings.extend(compared);
    headings.extend(is_model.then_some("error"));
    headings.push("spread");
    headings.extend(is_curve.then_some("interpolated"));
    let mut headings: Vec<String> = headings.into_iter().map(str::to_owned).collect();
    headings.extend(PERCENTILES.map(|percentile| format!("clat {percentile}th, ms")));
    let rows = own.cells.iter().enumerate().map(|(at, cell)| {
        let rounds = &measured.results.0[at];
        let mut row = vec![cell.row.clone(), cell.column.clone()];
        row.push(published(measured, at));
        row.extend(measured.published_percents(at));
        row.extend([number(rounds.median()), cell.unit.name().to_owned()]);
        row.extend(measured.measured_percents(at));
        row.extend(is_model.then(|| percent(measured.error(at))));
        row.push(format!("{:.1}%", rounds.spread()));
        row.extend(is_curve.then(|| interpolate(measured, at).map_or(String::new(), number)));
        row.extend((0..PERCENTILES.len()).map(|at| number(rounds.latency(at) / 1e6)));
        row
    });
    Table::new(headings, rows).html(out, 2);
}
