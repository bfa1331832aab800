//! The result of a fit as JSON and as CSV.
use super::text::used;
use super::{Adjusted, Fitted, Verdict};
use crate::measurements::{Cell, Cells, Predicted};
use crate::table::Table;
use serde_json::{Value, json};

/// The figure of a cell, in the unit of its metric; `None` for a load that was not run.
fn figure(cell: &Cell, figures: &[Option<Predicted>]) -> Option<f64> {
    Some(figures[cell.load].as_ref()?.figure(cell))
}

/// Everything as JSON.
pub fn json(fitted: &Fitted, cells: &Cells) -> String {
    let option = |option: &Adjusted| {
        let Adjusted { name, before, after, effect, uncertainty, verdict } = option;
        json!({
            "name": name,
            "before": before,
            "fitted": after,
            "effect": effect,
            "error_percent": uncertainty,
            "adjusted": *verdict == Verdict::Adjusted,
            "reason": verdict.words(),
        })
    };
    let cell = |cell: &&Cell| {
        json!({
            "measurement": cell.op,
            "metric": cell.metric.name(),
            "unit": cell.metric.unit(),
            "measured": cell.value,
            "before": figure(cell, &fitted.before),
            "fitted": figure(cell, &fitted.after),
            "predicted": figure(cell, &fitted.held_out),
        })
    };
    let value = json!({
        "assumptions": cells.assumptions,
        "options": fitted.options.iter().map(option).collect::<Vec<Value>>(),
        "measurements": used(fitted, cells).iter().map(cell).collect::<Vec<Value>>(),
        "runs": fitted.runs,
        "profile": fitted.profile,
    });
    format!("{value:#}\n")
}

/// The measurements, and the figures of the model before and after the fit, as CSV.
pub fn csv(fitted: &Fitted, cells: &Cells) -> String {
    let show = |figure: Option<f64>| figure.map_or_else(String::new, |figure| figure.to_string());
    let row = |cell: &Cell| {
        vec![
            cell.op.clone(),
            cell.metric.name().to_owned(),
            cell.metric.unit().to_owned(),
            cell.value.to_string(),
            show(figure(cell, &fitted.before)),
            show(figure(cell, &fitted.after)),
            show(figure(cell, &fitted.held_out)),
        ]
    };
    let headings = ["measurement", "metric", "unit", "measured", "before", "fitted", "predicted"];
    Table::new(headings, used(fitted, cells).into_iter().map(row)).csv()
}
