//! The result of a fit as text.
use super::{Adjusted, Fitted, Verdict, counts};
use crate::measurements::{Cell, Cells, Predicted};
use crate::validate::Errors;
use std::fmt::Write;

/// Cells that are listed one by one, at most.
const LISTED: usize = 40;

impl Verdict {
    /// In words, for a parameter that was not adjusted.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Adjusted => "",
            Verdict::MovesNothing => "the data cannot determine it: it moves nothing",
            Verdict::NotDistinct => "the data cannot determine it: others have the same effect",
            Verdict::StaysZero => "stays at 0: no value that was tried is better",
            Verdict::TooFewLoads => "kept: too few measurements for so many parameters",
        }
    }
}

/// A table of the options, a table of the measurements or of their kinds, and a summary.
pub fn render(fitted: &Fitted, cells: &Cells) -> String {
    let mut out = String::new();
    for assumed in &cells.assumptions {
        out += &format!("assumed: {assumed}\n");
    }
    options(&mut out, &fitted.options);
    out.push('\n');
    let used = used(fitted, cells);
    if used.len() <= LISTED {
        list(&mut out, fitted, &used);
        out.push('\n');
    }
    summary(&mut out, fitted, &used);
    out
}

/// The cells that took part.
pub(super) fn used<'a>(fitted: &Fitted, cells: &'a Cells) -> Vec<&'a Cell> {
    let used = |cell: &&Cell| counts(cell.metric) && fitted.before[cell.load].is_some();
    cells.cells.iter().filter(used).collect()
}

fn options(out: &mut String, options: &[Adjusted]) {
    let name = options.iter().map(|option| option.name.len()).max().unwrap_or(0).max(6);
    let _ = writeln!(
        out,
        "{:name$}  {:>12}  {:>12}  {:>8}  {:>8}",
        "option", "before", "fitted", "error", "effect"
    );
    for option in options {
        let Adjusted { name: own, before, after, effect, uncertainty, verdict } = option;
        let error = uncertainty.map_or("-".to_owned(), |percent| format!("{percent:.1}%"));
        let line = format!(
            "{own:name$}  {before:>12}  {after:>12}  {error:>8}  {effect:>8.3}  {}",
            verdict.words()
        );
        *out += line.trim_end();
        out.push('\n');
    }
    *out += "error: the standard error of the fitted value. effect: by how many percent a figure \
             changes if\nthe option changes by one percent (root mean square over the cells, before \
             the fit).\n";
}

/// By how many percent the figure of a cell differs from the measured one.
pub(super) fn error(cell: &Cell, figures: &[Option<Predicted>]) -> Option<f64> {
    let predicted = figures[cell.load].as_ref()?.figure(cell);
    Some((predicted / cell.value - 1.0) * 100.0)
}

fn list(out: &mut String, fitted: &Fitted, used: &[&Cell]) {
    let wide = used.iter().map(|cell| cell.op.chars().count()).max().unwrap_or(0).max(11);
    let mut line = |cells: [&str; 6]| {
        let [op, metric, measured, before, after, held_out] = cells;
        let _ = writeln!(
            out,
            "{op:wide$}  {metric:8}  {measured:>12}  {before:>8}  {after:>8}  {held_out:>9}"
        );
    };
    line(["measurement", "", "measured", "before", "fitted", "predicted"]);
    for cell in used {
        let percent = |figures: &[Option<Predicted>]| {
            error(cell, figures).map_or("-".to_owned(), |error| format!("{error:+.1}%"))
        };
        line([
            &cell.op,
            cell.metric.name(),
            &format!("{:.2} {}", cell.value, cell.metric.unit()),
            &percent(&fitted.before),
            &percent(&fitted.after),
            &percent(&fitted.held_out),
        ]);
    }
}

fn summary(out: &mut String, fitted: &Fitted, used: &[&Cell]) {
    let loads = |figures: &[Option<Predicted>]| figures.iter().flatten().count();
    let free = fitted.options.iter().filter(|option| option.verdict == Verdict::Adjusted);
    let _ = writeln!(
        out,
        "{} of {} options adjusted to {} loads, in {} runs of a load",
        free.count(),
        fitted.options.len(),
        loads(&fitted.after),
        fitted.runs
    );
    for (what, figures) in
        [("before", &fitted.before), ("fitted", &fitted.after), ("predicted", &fitted.held_out)]
    {
        let errors = used.iter().filter_map(|cell| error(cell, figures));
        if let Some(errors) = Errors::of(errors) {
            let _ = writeln!(out, "{what:9}  {errors}");
        }
    }
    if loads(&fitted.held_out) > 0 {
        *out += "predicted: by a fit that did not see them. It says what to expect of loads that \
                 were not\nmeasured; if it is far above `fitted`, there are too few measurements \
                 for so many options.\n";
    }
}
