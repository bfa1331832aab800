//! The result of a fit as one self-contained page: the options, a scatter plot for each metric, and how
//! far the model is from the measurements.
use super::text::{error, used};
use super::{Adjusted, Fitted};
use crate::chart::Chart;
use crate::measurements::{Cell, Cells, Metric, Predicted};
use crate::page;
use crate::table::Table;
use crate::validate::Errors;
use anyhow::Result;

/// Figures of the loads, by what they are called in a plot.
type Figures<'a> = [(&'static str, &'a [Option<Predicted>]); 3];

/// The page.
///
/// # Errors
/// A plot cannot be drawn.
pub fn html(fitted: &Fitted, cells: &Cells) -> Result<String> {
    let mut out = page::begin("A fitted profile");
    page::paragraphs(
        &mut out,
        cells.assumptions.iter().map(|assumed| format!("Assumed: {assumed}")),
    );
    let used = used(fitted, cells);
    let figures: Figures<'_> = [
        ("before", &fitted.before[..]),
        ("fitted", &fitted.after[..]),
        ("predicted by a fit without them", &fitted.held_out[..]),
    ];
    out += "<h2>Errors in percent</h2>\n";
    let headings = ["", "cells", "median", "p90", "largest"];
    let errors = figures.iter().filter_map(|(name, figures)| {
        let errors = Errors::of(used.iter().filter_map(|cell| error(cell, figures)))?;
        Some([vec![(*name).to_owned()], errors.fields().to_vec()].concat())
    });
    Table::new(headings, errors).html(&mut out, 1);
    out += "<h2>Options</h2>\n";
    options(&mut out, &fitted.options);
    out += "<h2>The model against the measurements</h2>\n<p>The line is where both are the same.</p>\n";
    for metric in Metric::ALL {
        if let Some(chart) = scatter(metric, &used, &figures) {
            chart.html(&mut out)?;
        }
    }
    Ok(out + page::END)
}

fn options(out: &mut String, options: &[Adjusted]) {
    let headings = ["option", "before", "fitted", "standard error", "effect", ""];
    let row = |option: &Adjusted| {
        let Adjusted { name, before, after, effect, uncertainty, verdict } = option;
        let error = uncertainty.map_or("-".to_owned(), |percent| format!("{percent:.1} %"));
        let effect = format!("{effect:.3}");
        let words = verdict.words().to_owned();
        vec![(*name).to_owned(), before.clone(), after.clone(), error, effect, words]
    };
    Table::new(headings, options.iter().map(row)).html(out, 1);
    *out += "<p>Effect: by how many percent a figure changes if the option changes by one percent (root \
             mean square over the cells, before the fit).</p>\n";
}

/// The figures of a metric; `None` if nothing of it was measured.
fn scatter(metric: Metric, used: &[&Cell], figures: &Figures<'_>) -> Option<Chart> {
    let of = |(name, figures): &(&'static str, &[Option<Predicted>])| {
        let point = |cell: &&Cell| {
            let figure = figures[cell.load].as_ref()?.figure(cell);
            (figure > 0.0).then_some((cell.value, figure))
        };
        let points = used.iter().copied().filter(|cell| cell.metric == metric);
        (*name, points.filter_map(|cell| point(&cell)).collect())
    };
    Chart::scatter(metric.name(), metric.unit(), figures.iter().map(of))
}
