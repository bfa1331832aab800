//! Measured tables as text.
use super::accuracy::{
    Accuracy, CellError, Compared, Errors, NEAR_MEDIA_RATE, cell_errors, interpolate,
};
use super::measured::MeasuredTable;
use super::table::{Base, Comparability, FigureUse, FreeParameters, Layout, PercentKind, Remark};
use crate::table::Table;
use std::fmt::Write;

/// Between the columns of a list.
const GAP: &str = "  ";
/// Spread, in percent, above which a cell that was measured in real time is unreliable.
const UNSTEADY: f64 = 20.0;
/// Width of a figure and of a percentage in a grid.
const FIGURE: usize = 9;
const PERCENT: usize = 10;

/// A table with its notes.
pub fn table(measured: &MeasuredTable) -> String {
    let table = &measured.table;
    let mut out = format!("{}: {}\n", table.name, table.about);
    if let Some(source) = &table.source {
        let _ = writeln!(out, "source: {source}");
    }
    let (devices, settings) = (measured.devices(), measured.settings.describe());
    let _ = writeln!(out, "published: {devices}\nzonal: {settings}");
    if let Some(caveat) = caveat(measured) {
        wrap(&mut out, caveat);
    }
    out.push('\n');
    out += &match table.layout {
        _ if table.cells.is_empty() => String::new(),
        Layout::Grid => grid(measured),
        Layout::List => list(measured),
        Layout::Curves => curves(measured),
    };
    out.push('\n');
    for line in notes(measured) {
        wrap(&mut out, &line);
    }
    out
}

/// A caveat to read before the figures.
pub fn caveat(measured: &MeasuredTable) -> Option<&'static str> {
    match measured.table.comparability {
        Comparability::Ratios => Some(
            "The published figures are a kernel's, on another machine, with its system calls; \
             Zonal's are those of one program. Compare the percentages only.",
        ),
        Comparability::Figures => None,
    }
}

/// A measured figure, with about four digits.
pub fn number(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 1000.0 => 0,
        v if v >= 100.0 => 1,
        v if v >= 1.0 => 2,
        _ => 4,
    };
    format!("{value:.decimals$}")
}

/// A difference in percent; empty if it is unknown.
pub fn percent(difference: Option<f64>) -> String {
    difference.map_or(String::new(), |percent| format!("{percent:+.1}%"))
}

fn spread(measured: &MeasuredTable, at: usize) -> String {
    format!("{:.1}%", measured.results.0[at].spread())
}

/// A published figure, with a mark if it was used for the model.
pub fn published(measured: &MeasuredTable, at: usize) -> String {
    let Some(figure) = measured.published(at) else { return String::new() };
    let mark = figure.value().map_or("", |_| measured.table.cells[at].figure_use.mark());
    format!("{}{mark}", figure.text())
}

fn grid(measured: &MeasuredTable) -> String {
    let table = &measured.table;
    let (rows, columns) = (table.headings(|cell| &cell.row), table.headings(|cell| &cell.column));
    let width = rows.iter().map(|row| row.len()).max().unwrap_or(0);
    let cell_width = FIGURE + PERCENT;
    let mut out = String::new();
    let mut line = |first: &str, second: &str, cells: &mut dyn Iterator<Item = String>| {
        let cells: String = cells.map(|cell| format!("{cell:>cell_width$}")).collect();
        let text = format!("{first:width$}{GAP}{second:9}{cells}");
        let _ = writeln!(out, "{}", text.trim_end());
    };
    let heading = |text: &str| format!("{text:>FIGURE$}{:PERCENT$}", "");
    line("", "", &mut columns.iter().map(|column| heading(column)));
    line(
        "",
        "",
        &mut columns.iter().map(|column| {
            let cell = table.cells.iter().find(|cell| cell.column == *column);
            heading(cell.map_or("", |cell| cell.unit.name()))
        }),
    );
    for row in rows {
        let cells: Vec<Option<usize>> = columns.iter().map(|c| table.at(row, c)).collect();
        let with = |text: &dyn Fn(usize) -> (String, Vec<String>)| -> Vec<String> {
            let cell = |at: &Option<usize>| {
                let (figure, percents) = at.map(text).unwrap_or_default();
                format!("{figure:>FIGURE$}{:>PERCENT$}", percents.join(" "))
            };
            cells.iter().map(cell).collect()
        };
        let above = with(&|at| (published(measured, at), measured.published_percents(at)));
        let own = with(&|at| {
            let percents = match table.comparability {
                Comparability::Ratios => measured.measured_percents(at),
                Comparability::Figures => vec![percent(measured.error(at))],
            };
            (number(measured.results.figure(at)), percents)
        });
        let spread = with(&|at| (spread(measured, at), Vec::new()));
        line(row, "published", &mut above.into_iter());
        line("", "zonal", &mut own.into_iter());
        line("", "spread", &mut spread.into_iter());
    }
    out
}

fn list(measured: &MeasuredTable) -> String {
    let table = &measured.table;
    let unit = table.cells.first().map_or("", |cell| cell.unit.name());
    let mut headings = vec!["", "published"];
    let shares = table.comparisons.iter().map(|comparison| comparison.heading.as_str());
    // All but the first comparison need cells that were not published.
    headings.extend(shares.clone().take(1));
    headings.push("zonal");
    headings.extend(shares);
    headings.push("spread");
    let mut units = vec![String::new(); headings.len()];
    let measured_column = 2 + usize::from(!table.comparisons.is_empty());
    units[1] = unit.to_owned();
    units[measured_column] = unit.to_owned();
    let mut lines = vec![units];
    for (at, cell) in table.cells.iter().enumerate() {
        let mut line = vec![cell.row.clone()];
        line.push(published(measured, at));
        line.extend(measured.published_percents(at).into_iter().take(1));
        line.push(number(measured.results.figure(at)));
        line.extend(measured.measured_percents(at));
        line.push(spread(measured, at));
        lines.push(line);
    }
    align(&Table::new(headings, lines))
}

fn curves(measured: &MeasuredTable) -> String {
    let table = &measured.table;
    let unit = table.cells.first().map_or("", |cell| cell.unit.name());
    let headings = ["", &table.axis, "published", "zonal", "error", "spread", "interpolated"];
    let units = ["", "", unit, unit, "", "", unit];
    let mut lines = vec![units.map(str::to_owned).to_vec()];
    for row in table.headings(|cell| &cell.row) {
        let cells = table.cells.iter().enumerate().filter(|(_, cell)| cell.row == row);
        for (nr, (at, cell)) in cells.enumerate() {
            lines.push(vec![
                if nr == 0 { row.to_owned() } else { String::new() },
                cell.column.clone(),
                published(measured, at),
                number(measured.results.figure(at)),
                percent(measured.error(at)),
                spread(measured, at),
                interpolate(measured, at).map_or(String::new(), number),
            ]);
        }
    }
    align(&Table::new(headings, lines))
}

/// The errors of several tables, one line each, and of all models together.
pub fn overview(tables: &[MeasuredTable]) -> String {
    let mut out = align(&overview_table(tables));
    out.push('\n');
    wrap(
        &mut out,
        "Errors are those of known figures that were used for no parameter: median and largest. \
         Naive: the neighbouring known row, or interpolation. Non-trivial: not near the media rate.",
    );
    if tables.iter().any(|measured| measured.table.comparability == Comparability::Ratios) {
        wrap(&mut out, "Errors of tables on null devices are those of another machine.");
    }
    out
}

/// The errors of all tables.
pub fn overview_table(tables: &[MeasuredTable]) -> Table {
    let headings = [
        "table",
        "predicted",
        "error",
        "naive",
        "non-trivial",
        "error",
        "naive",
        "calibrated",
        "identities",
        "withheld",
    ];
    Table::new(headings, tables.iter().map(overview_row).chain(overview_total(tables)))
}

/// The line of a table in [`overview`].
fn overview_row(measured: &MeasuredTable) -> Vec<String> {
    let accuracy = Accuracy::of(measured);
    let mut row = vec![measured.table.name.clone()];
    row.extend(compared(accuracy.predicted.as_ref()));
    row.extend(compared(accuracy.nontrivial.as_ref()));
    let calibrated = accuracy.calibrated.map_or(0, |errors| errors.count);
    row.extend([calibrated, accuracy.identities.len(), accuracy.withheld].map(|n| n.to_string()));
    row
}

/// The line of all models together, if there are several.
fn overview_total(tables: &[MeasuredTable]) -> Option<Vec<String>> {
    let models = tables.iter().filter(|m| m.table.comparability == Comparability::Figures);
    let models: Vec<&MeasuredTable> = models.collect();
    let errors = |measured: &&MeasuredTable| cell_errors(measured, FigureUse::Prediction);
    let errors: Vec<CellError> = models.iter().flat_map(errors).collect();
    let mut row = vec!["all models".to_owned()];
    row.extend(compared(Compared::over(&errors).as_ref()));
    row.extend(compared(Compared::over_nontrivial(&errors).as_ref()));
    row.extend([const { String::new() }; 3]);
    (models.len() > 1).then_some(row)
}

/// The number of cells, our errors and those of the naive baseline.
fn compared(errors: Option<&Compared>) -> [String; 3] {
    let show = |errors: &Errors| format!("{:.1}%, {:.1}%", errors.median, errors.largest);
    errors.map_or_else(Default::default, |Compared { own, naive }| {
        [own.count.to_string(), show(own), naive.as_ref().map_or(String::new(), show)]
    })
}

/// Notes on the figures of a table.
pub fn notes(measured: &MeasuredTable) -> Vec<String> {
    let table = &measured.table;
    let mut notes = Vec::new();
    if let Some(all) = measured.interrupted {
        notes.push(format!(
            "interrupted: {} of {all} cells were measured, perhaps in fewer rounds.",
            table.cells.len()
        ));
    }
    if table.cells.is_empty() {
        return notes;
    }
    match table.comparability {
        Comparability::Ratios => {
            let headings: Vec<&str> =
                table.comparisons.iter().map(|c| c.heading.as_str()).collect();
            if table.layout == Layout::Grid && !headings.is_empty() {
                notes.push(format!("Percentages: {}.", headings.join(", ")));
            }
            notes.push(
                "Each percentage is the median of what it was in each round. Spread: between the \
                 slowest and the fastest round, in percent of the median."
                    .to_owned(),
            );
        }
        Comparability::Figures => notes.push(
            "Percentages behind our figures: by how much they differ from the published ones. \
             Spread: between the slowest and the fastest seed, in percent of the median."
                .to_owned(),
        ),
    }
    let accuracy = Accuracy::of(measured);
    if accuracy.withheld > 0 {
        notes.push(
            "withheld: a published figure that is kept back; ours is a prediction.".to_owned(),
        );
    }
    notes.extend(errors(measured, &accuracy));
    if table.comparability == Comparability::Figures && !is_random(measured) {
        notes.push("The spread is zero because nothing in these cells is random.".to_owned());
    }
    let rounds = &measured.results.0;
    let unsteady = rounds.iter().filter(|rounds| rounds.spread() > UNSTEADY).count();
    if unsteady > 0 && table.comparability == Comparability::Ratios {
        notes.push(format!(
            "The spread of {unsteady} of {} cells is above {UNSTEADY:.0}%: the machine was busy \
             with something else.",
            rounds.len()
        ));
    }
    if measured.interrupted.is_none() {
        notes.extend(table.remarks.iter().flat_map(|remark| remarks(measured, remark)));
    }
    notes
}

/// A remark, computed from the figures.
fn remarks(measured: &MeasuredTable, remark: &Remark) -> Vec<String> {
    let cells = || measured.table.cells.iter().enumerate();
    match remark {
        Remark::Text(text) => vec![text.clone()],
        Remark::Slower { slower } => {
            let row: Vec<_> = cells().filter(|(_, cell)| cell.row == *slower).collect();
            let base = row.iter().find_map(|(_, cell)| cell.bases[0]);
            let base = base.map_or("", |base| &measured.table.cells[base.cell].row);
            let verdict = |whose: &str, ratio: &dyn Fn(usize, usize) -> Option<f64>| {
                let below = row.iter().filter_map(|&(at, cell)| {
                    let ratio = ratio(at, cell.bases[0]?.cell).filter(|&ratio| ratio < 1.0)?;
                    Some(format!("{} ({})", cell.column, PercentKind::Change.format(ratio)))
                });
                let below: Vec<String> = below.collect();
                if below.is_empty() {
                    format!("{whose}: {slower} is at least as fast as {base} in every column.")
                } else {
                    format!("{whose}: {slower} is slower than {base} in {}.", below.join(", "))
                }
            };
            let published = |cell, base| Some(measured.value(cell)? / measured.value(base)?);
            let own = |cell, base| Some(measured.results.ratio(cell, base, 1.0));
            vec![verdict("Zonal", &own), verdict("Published", &published)]
        }
        Remark::Least { least } => {
            let shares = cells().filter_map(|(at, cell)| {
                let Base { cell: same, times } = (*cell.bases.last()?)?;
                Some((measured.results.ratio(at, same, times), &cell.row))
            });
            let found = shares.min_by(|(a, _), (b, _)| a.total_cmp(b));
            let line = |(share, row)| {
                let share = PercentKind::Share.format(share);
                format!("Zonal: {least} reaches at least {share} of none ({row}).")
            };
            found.map(line).into_iter().collect()
        }
    }
}

/// The errors of a table, one line for each set of cells.
fn errors(measured: &MeasuredTable, accuracy: &Accuracy) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = |what: &str, errors: Option<&Errors>| {
        lines.extend(errors.map(|e| format!("{what}: {}.", e.describe(measured))));
    };
    let is_model = measured.table.comparability == Comparability::Figures;
    let own =
        if is_model { "Predicted" } else { "Absolute error, which is that of another machine" };
    let nontrivial = format!(
        "Of those that are more than {NEAR_MEDIA_RATE:.0}% below the fastest published bandwidth, \
         or no bandwidth"
    );
    for (what, errors) in [(own, &accuracy.predicted), (&nontrivial, &accuracy.nontrivial)] {
        line(what, errors.as_ref().map(|both| &both.own));
        if is_model {
            let naive = errors.as_ref().and_then(|both| both.naive.as_ref());
            line("Naive, from the neighbouring known row or by interpolation", naive);
        }
    }
    line("Used to calibrate the model (c), no predictions", accuracy.calibrated.as_ref());
    if !accuracy.identities.is_empty() {
        let names = accuracy.identities.iter().map(|&cell| measured.table.name_of(cell));
        lines.push(format!(
            "A parameter was computed from these (i), which say nothing: {}.",
            names.collect::<Vec<_>>().join(", ")
        ));
    }
    let FreeParameters { names, inert } = &measured.table.parameters;
    if !names.is_empty() {
        let mut free = format!("Free parameters: {} ({}).", names.len(), names.join(", "));
        if !inert.is_empty() {
            let _ = write!(
                free,
                " Ten per cent more or less of {} change no figure here by one per cent.",
                inert.join(", ")
            );
        }
        lines.push(free);
    }
    lines
}

/// Whether chance plays a part in any figure of a model.
fn is_random(measured: &MeasuredTable) -> bool {
    measured.results.0.iter().any(|rounds| rounds.0.len() < 2 || rounds.spread() > 0.0)
}

/// Lines of columns, the first aligned to the left, the others to the right.
fn align(table: &Table) -> String {
    table.text(&[0]).iter().map(|line| format!("{line}\n")).collect()
}

/// Appends a paragraph in lines of at most 100 columns.
fn wrap(out: &mut String, text: &str) {
    let mut column = 0;
    for word in text.split_whitespace() {
        if column > 0 && column + 1 + word.len() > 100 {
            out.push('\n');
            column = 0;
        }
        if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += word.len();
    }
    out.push('\n');
}
