//! Predicted and measured figures as text, CSV and JSON.
use super::errors::{Short, by_error};
use super::{Errors, Summary, Validation};
use crate::measurements::{COLUMNS, Cell, Load, Metric};
use crate::table::Table;
use serde_json::{Value, json};
use std::fmt::{self, Write};
use zonal_fio::job::DataDir;

/// Cells that the text names as the worst.
const WORST: usize = 10;

/// Errors by kind of work and metric, the naive baseline, and the cells with the largest errors.
pub fn text(validation: &Validation) -> String {
    let mut out = format!("{}: errors in percent of the measured figures\n", validation.device);
    for note in notes(validation) {
        out += &format!("{note}\n");
    }
    for (title, held_out) in parts(validation) {
        let summary = Summary::of(validation, held_out);
        if summary.all.is_some() {
            out += &format!("\n{title}\n");
            part(&mut out, &summary);
        }
    }
    out += "\nlargest errors\n";
    for at in by_error(validation).into_iter().take(WORST) {
        let cell = &validation.cells.cells[at];
        let _ = writeln!(
            out,
            "{:+8.1} %  measured {:>10.5}  predicted {:>10.5}  {}",
            validation.error(at),
            Short(cell.value),
            Short(validation.predicted(at)),
            name(validation, cell)
        );
    }
    out
}

/// The parts of the cells, each with a heading.
pub(super) fn parts(validation: &Validation) -> Vec<(String, bool)> {
    match validation.hold_out {
        None => vec![("all cells".to_owned(), true)],
        Some(one_in) => vec![
            (format!("held out from a fit with --hold-out {one_in}: predictions"), true),
            ("the other cells: a fit may have seen them".to_owned(), false),
        ],
    }
}

/// Notes for the reader beside the figures.
pub(super) fn notes(validation: &Validation) -> Vec<String> {
    let Validation { cells, free, resumed, .. } = validation;
    let mut notes = Vec::new();
    notes.push(match free.len() {
        0 => "free parameters of the profile: none is named".to_owned(),
        count => format!("free parameters of the profile: {count} ({})", free.join(", ")),
    });
    notes.extend(cells.assumptions.iter().map(|assumed| format!("assumed: {assumed}")));
    if *resumed > 0 {
        notes.push(format!("resumed: {resumed} of {} loads", cells.loads.len()));
    }
    if cells.skipped > 0 {
        notes
            .push(format!("not predicted: {} cells of loads on several namespaces", cells.skipped));
    }
    if let Some((_, reason)) = cells.refused.first() {
        let figures: usize = cells.refused.iter().map(|(figures, _)| figures).sum();
        notes.push(format!(
            "not predicted: {figures} cells of {} loads that cannot run, the first: {reason}",
            cells.refused.len()
        ));
    }
    if cells.given > 0 {
        notes.push(format!("not predicted: {} figures that the model is told", cells.given));
    }
    notes
}

/// A cell for people.
pub(super) fn name(validation: &Validation, cell: &Cell) -> String {
    let (load, metric) = (&validation.cells.loads[cell.load], cell.metric.name());
    let file = &validation.cells.files.get(cell.file).map_or("", String::as_str);
    let place = match cell.line {
        Some(line) => format!("{file}:{line}"),
        None => (*file).to_owned(),
    };
    match load {
        Load::Named(_) => format!("{place}: {} {metric} of {load}", cell.op),
        Load::Jobs(_) => format!("{place}: {metric} of {}", cell.op),
        Load::SideBySide(_) => format!("{place}: {metric} of {} in {load}", cell.op),
    }
}

/// The rows of a summary: kind, metric, errors.
pub(super) fn rows(summary: &Summary) -> Vec<(&'static str, &'static str, Errors)> {
    let by_metric =
        |(name, metric, errors): &(&'static str, Metric, Errors)| (*name, metric.name(), *errors);
    let groups = summary.groups.iter().map(by_metric);
    let sums = summary.roles.iter().chain(&summary.metrics).map(by_metric);
    let demerits = summary.demerits.iter().map(|(class, errors)| (*class, "demerit", *errors));
    let of_all = [("all", "", summary.all), ("not at the media rate", "", summary.nontrivial)];
    let of_all = of_all.into_iter().filter_map(|(kind, metric, e)| Some((kind, metric, e?)));
    let compared = [
        ("cells with neighbours", summary.baseline),
        ("of these not at media rate", summary.nontrivial_baseline),
    ];
    let compared = compared.into_iter().filter_map(|(kind, pair)| Some((kind, pair?)));
    let compared =
        compared.flat_map(|(kind, (naive, own))| [(kind, "model", own), (kind, "naive", naive)]);
    groups.chain(demerits).chain(sums).chain(of_all).chain(compared).collect()
}

fn part(out: &mut String, summary: &Summary) {
    let _ = writeln!(
        out,
        "{:29}  {:8}  {:>6}  {:>7}  {:>7}  {:>8}",
        "kind", "metric", "cells", "median", "p90", "largest"
    );
    for (kind, metric, Errors { cells, median, p90, largest }) in rows(summary) {
        let _ = writeln!(
            out,
            "{kind:29}  {metric:8}  {cells:>6}  {median:>7.1}  {p90:>7.1}  {largest:>8.1}"
        );
    }
}

/// A line for each cell: the columns of the cells' CSV, then the model's figure and by how many
/// percent it differs. The load of a report has its name as `op`, and no numbers.
pub fn csv(validation: &Validation) -> String {
    let row = |(at, cell): (usize, &Cell)| {
        let mut fields = fields(cell, &validation.cells.loads[cell.load]);
        fields.push(Short(validation.predicted(at)).to_string());
        fields.push(format!("{:.2}", validation.error(at)));
        fields
    };
    let headings = COLUMNS.into_iter().chain(["predicted", "error"]);
    Table::new(headings, validation.cells.cells.iter().enumerate().map(row)).csv()
}

/// The fields of a cell, by [`COLUMNS`].
fn fields(cell: &Cell, load: &Load) -> Vec<String> {
    let [set, lba, block, zones, depth] = match load {
        Load::Named(load) => {
            let set = if load.jobs().is_empty() { "management" } else { "io" };
            let numbers = [load.lba.into(), load.block, load.zones.into(), load.depth.into()];
            let [lba, block, zones, depth] = numbers.map(|number: u64| number.to_string());
            [set.to_owned(), lba, block, zones, depth]
        }
        Load::Jobs(_) | Load::SideBySide(_) => {
            ["jobs".to_owned(), String::new(), String::new(), String::new(), String::new()]
        }
    };
    let (metric, unit) = (cell.metric.name().to_owned(), cell.metric.unit().to_owned());
    let (driver, value) = (load.driver().to_owned(), cell.value.to_string());
    vec![set, driver, lba, cell.op.clone(), block, zones, depth, metric, value, unit]
}

/// Everything as one JSON document.
pub fn json(validation: &Validation) -> String {
    let errors = |Errors { cells, median, p90, largest }: Errors| json!({ "cells": cells, "median": median, "p90": p90, "largest": largest });
    let part = |(title, held_out): (String, bool)| {
        let row = |(kind, metric, found): (&str, &str, Errors)| json!({ "kind": kind, "metric": metric, "errors": errors(found) });
        let rows = rows(&Summary::of(validation, held_out));
        json!({ "cells": title, "errors": rows.into_iter().map(row).collect::<Vec<Value>>() })
    };
    let cell = |(at, cell): (usize, &Cell)| {
        let load = &validation.cells.loads[cell.load];
        let dir = cell.dir.map(|dir| match dir {
            DataDir::Read => "read",
            DataDir::Write => "write",
            DataDir::Trim => "trim",
        });
        json!({
            "file": validation.cells.files.get(cell.file),
            "line": cell.line,
            "driver": load.driver(),
            "load": load.to_string(),
            "op": cell.op,
            "direction": dir,
            "metric": cell.metric.name(),
            "measured": cell.value,
            "predicted": validation.predicted(at),
            "error": validation.error(at),
            "held out": validation.is_held_out(at),
        })
    };
    let cells = &validation.cells;
    let document = json!({
        "zonal version": env!("CARGO_PKG_VERSION"),
        "device": validation.device,
        "free parameters": validation.free,
        "assumptions": cells.assumptions,
        "skipped": cells.skipped,
        "given": cells.given,
        "refused": cells.refused.iter().map(|(figures, reason)| json!({ "cells": figures, "reason": reason })).collect::<Vec<Value>>(),
        "parts": parts(validation).into_iter().map(part).collect::<Vec<Value>>(),
        "cells": cells.cells.iter().enumerate().map(cell).collect::<Vec<Value>>(),
    });
    format!("{document:#}\n")
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Errors { cells, median, p90, largest } = self;
        write!(f, "{cells} cells, median {median:.1} %, p90 {p90:.1} %, largest {largest:.1} %")
    }
}
