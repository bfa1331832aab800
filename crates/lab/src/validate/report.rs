//! Predicted and measured figures as text, CSV and JSON.
use super::{COLUMNS, Cell, Load, Metric, Validation};
use crate::experiment::sorted;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use zonal_fio::job::DataDir;

/// Cells that the text names as the worst.
const WORST: usize = 10;

/// The absolute errors of a group of cells, in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Errors {
    /// Number of cells.
    pub cells: usize,
    /// The median.
    pub median: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The largest.
    pub largest: f64,
}

impl Errors {
    /// Of these errors, whatever their sign; `None` if there are none.
    pub fn of(errors: impl Iterator<Item = f64>) -> Option<Self> {
        let errors = sorted(errors.map(f64::abs));
        let cells = errors.len();
        let at = |percent: usize| errors[(cells * percent).div_ceil(100).max(1) - 1];
        (cells > 0).then(|| Errors { cells, median: at(50), p90: at(90), largest: at(100) })
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Load { driver, lba, kind, block, zones, depth } = self;
        let class = kind.class();
        write!(f, "{class} over {driver}, lba={lba}, block={block}, zones={zones}, depth={depth}")
    }
}

/// The errors by kind of work and metric, in the order of the kinds' names.
fn groups(validation: &Validation) -> Vec<(&'static str, Metric, Errors)> {
    let mut groups: BTreeMap<(&'static str, Metric), Vec<f64>> = BTreeMap::new();
    for (at, cell) in validation.cells.cells.iter().enumerate() {
        let class = validation.cells.loads[cell.load].kind.class();
        groups.entry((class, cell.metric)).or_default().push(validation.error(at));
    }
    let errors = |((class, metric), errors): (_, Vec<f64>)| {
        Some((class, metric, Errors::of(errors.into_iter())?))
    };
    groups.into_iter().filter_map(errors).collect()
}

fn all(validation: &Validation) -> Option<Errors> {
    Errors::of((0..validation.predicted.len()).map(|cell| validation.error(cell)))
}

/// The cells, those with the largest errors first.
fn by_error(validation: &Validation) -> Vec<usize> {
    let mut order: Vec<usize> = (0..validation.predicted.len()).collect();
    let error = |&cell: &usize| validation.error(cell).abs();
    order.sort_by(|a, b| error(b).total_cmp(&error(a)));
    order
}

/// Errors by kind of work and metric, and the cells with the largest errors.
pub fn text(validation: &Validation) -> String {
    let mut out = String::new();
    let mut line = |text: fmt::Arguments<'_>| {
        out.write_fmt(text).expect("a string takes text");
        out.push('\n');
    };
    line(format_args!("{}: errors in percent of the measured figures\n", validation.device));
    line(format_args!(
        "{:20}  {:8}  {:>6}  {:>7}  {:>7}  {:>8}",
        "kind", "metric", "cells", "median", "p90", "largest"
    ));
    let mut row = |kind: &str, metric: &str, errors: Errors| {
        let Errors { cells, median, p90, largest } = errors;
        line(format_args!(
            "{kind:20}  {metric:8}  {cells:>6}  {median:>7.1}  {p90:>7.1}  {largest:>8.1}"
        ));
    };
    for (class, metric, errors) in groups(validation) {
        row(class, metric.name(), errors);
    }
    if let Some(errors) = all(validation) {
        row("all", "", errors);
    }
    line(format_args!("\nlargest errors"));
    for at in by_error(validation).into_iter().take(WORST) {
        let cell = &validation.cells.cells[at];
        line(format_args!(
            "{:+8.1} %  measured {:>10.5}  predicted {:>10.5}  line {} {} {} of {}",
            validation.error(at),
            Short(cell.value),
            Short(validation.predicted[at]),
            cell.line,
            cell.op,
            cell.metric.name(),
            validation.cells.loads[cell.load]
        ));
    }
    if validation.cells.skipped > 0 {
        line(format_args!(
            "\nnot predicted: {} cells of loads on several namespaces",
            validation.cells.skipped
        ));
    }
    out
}

/// A figure with five significant digits.
struct Short(f64);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.0.abs().log10().floor().max(0.0) as usize + 1;
        f.pad_integral(true, "", &format!("{:.*}", 5_usize.saturating_sub(whole), self.0))
    }
}

/// A line for each cell: the columns of the file, then the model's figure and by how many percent
/// it differs.
pub fn csv(validation: &Validation) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut record = |fields: &[String]| {
        writer.write_record(fields).expect("memory takes everything");
    };
    let columns = COLUMNS.into_iter().chain(["predicted", "error"]);
    record(&columns.map(str::to_owned).collect::<Vec<_>>());
    for (at, cell) in validation.cells.cells.iter().enumerate() {
        let mut fields = fields(cell, &validation.cells.loads[cell.load]);
        fields.push(Short(validation.predicted[at]).to_string());
        fields.push(format!("{:.2}", validation.error(at)));
        record(&fields);
    }
    let line = writer.into_inner().expect("memory takes everything");
    String::from_utf8(line).expect("the fields are UTF-8")
}

/// The fields of a cell, by [`COLUMNS`].
fn fields(cell: &Cell, load: &Load) -> Vec<String> {
    let set = if load.jobs().is_empty() { "management" } else { "io" };
    let unit = if cell.metric == Metric::Iops { "1/s" } else { "us" };
    vec![
        set.to_owned(),
        load.driver.clone(),
        load.lba.to_string(),
        cell.op.clone(),
        load.block.to_string(),
        load.zones.to_string(),
        load.depth.to_string(),
        cell.metric.name().to_owned(),
        cell.value.to_string(),
        unit.to_owned(),
    ]
}

/// Everything as one JSON document.
pub fn json(validation: &Validation) -> String {
    let errors = |errors: Errors| {
        let Errors { cells, median, p90, largest } = errors;
        json!({ "cells": cells, "median": median, "p90": p90, "largest": largest })
    };
    let group = |(class, metric, found): (&str, Metric, Errors)| json!({ "kind": class, "metric": metric.name(), "errors": errors(found) });
    let cell = |(at, cell): (usize, &Cell)| {
        let load = &validation.cells.loads[cell.load];
        json!({
            "line": cell.line,
            "driver": load.driver,
            "lba": load.lba,
            "op": cell.op,
            "direction": if cell.dir == DataDir::Read { "read" } else { "write" },
            "block": load.block,
            "zones": load.zones,
            "depth": load.depth,
            "metric": cell.metric.name(),
            "measured": cell.value,
            "predicted": validation.predicted[at],
            "error": validation.error(at),
        })
    };
    let document = json!({
        "zonal version": env!("CARGO_PKG_VERSION"),
        "device": validation.device,
        "errors": groups(validation).into_iter().map(group).collect::<Vec<Value>>(),
        "all": all(validation).map(errors),
        "skipped": validation.cells.skipped,
        "cells": validation.cells.cells.iter().enumerate().map(cell).collect::<Vec<Value>>(),
    });
    format!("{document:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_absolute_and_percentiles_are_errors_that_occur() {
        let errors =
            Errors::of((1..=10).map(|n| if n % 2 == 0 { f64::from(n) } else { -f64::from(n) }));
        let expected = Errors { cells: 10, median: 5.0, p90: 9.0, largest: 10.0 };
        assert_eq!(errors, Some(expected));
        let one = Errors { cells: 1, median: 3.0, p90: 3.0, largest: 3.0 };
        assert_eq!(Errors::of([-3.0].into_iter()), Some(one));
        assert_eq!(Errors::of(std::iter::empty()), None);
    }

    #[test]
    fn figures_have_five_digits() {
        for (figure, expected) in [(14.8339, "14.834"), (293_685.4, "293685"), (0.5, "0.5000")] {
            assert_eq!(Short(figure).to_string(), expected);
        }
    }
}
