//! A reproduced table for people.
use super::measure::Results;
use super::published::Figure;
use super::table::{Base, Cell, Comparison, Layout, Table};
use std::fmt::Write;

/// Between the columns of a list.
const GAP: &str = "  ";
/// Spread, in percent, above which a cell is not to be relied on.
const UNSTEADY: f64 = 20.0;
/// Width of a figure and of a percentage in a grid.
const FIGURE: usize = 9;
const PERCENT: usize = 10;

/// The whole text. `how` says how it was measured.
pub fn render(table: &Table, figures: &[Figure], results: &Results, how: &str) -> String {
    let device = figures.first().map_or("", Figure::device);
    let mut out = format!("{}: {}\n", table.name, table.about);
    let _ = writeln!(out, "published: {device}\nzonal: {how}\n");
    let view = View { table, figures, results };
    out += &match table.layout {
        Layout::Grid => view.grid(),
        Layout::List => view.list(),
    };
    out.push('\n');
    for line in view.notes() {
        wrap(&mut out, &line);
    }
    out
}

/// A figure as we print our own: about four digits.
pub fn number(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 1000.0 => 0,
        v if v >= 100.0 => 1,
        v if v >= 1.0 => 2,
        _ => 4,
    };
    format!("{value:.decimals$}")
}

struct View<'a> {
    table: &'a Table,
    figures: &'a [Figure],
    results: &'a Results,
}

impl View<'_> {
    /// The published figure of a cell.
    fn figure(&self, at: usize) -> Option<&Figure> {
        self.figures.iter().find(|figure| self.table.cell_of(figure) == Some(at))
    }

    /// A cell's percentages, of the bases that it is compared with; `ratio` gives how it compares.
    fn percents(&self, at: usize, ratio: impl Fn(&Base) -> Option<f64>) -> Vec<String> {
        let bases = self.table.cells[at].bases.iter().zip(self.table.comparisons);
        let percent = |(base, comparison): (&Option<Base>, &Comparison)| {
            Some(comparison.style.show(ratio(base.as_ref()?)?))
        };
        bases.map(|both| percent(both).unwrap_or_default()).collect()
    }

    fn published_percents(&self, at: usize) -> Vec<String> {
        let value = |at| self.figure(at)?.value();
        self.percents(at, |base| Some(value(at)? / (value(base.cell)? * base.times)))
    }

    fn own_percents(&self, at: usize) -> Vec<String> {
        self.percents(at, |base| Some(self.results.ratio(at, base.cell, base.times)))
    }

    /// Rows and columns in the order in which cells first have them.
    fn headings(&self, of: impl Fn(&Cell) -> &'static str) -> Vec<&'static str> {
        let mut seen = Vec::new();
        for heading in self.table.cells.iter().map(of) {
            if !seen.contains(&heading) {
                seen.push(heading);
            }
        }
        seen
    }

    fn at(&self, row: &str, column: &str) -> Option<usize> {
        self.table.cells.iter().position(|cell| cell.row == row && cell.column == column)
    }

    fn grid(&self) -> String {
        let (rows, columns) = (self.headings(|cell| cell.row), self.headings(|cell| cell.column));
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
                let cell = self.table.cells.iter().find(|cell| cell.column == *column);
                heading(cell.map_or("", |cell| cell.unit.name()))
            }),
        );
        for row in rows {
            let cells: Vec<Option<usize>> = columns.iter().map(|c| self.at(row, c)).collect();
            let with = |text: &dyn Fn(usize) -> (String, Vec<String>)| -> Vec<String> {
                let cell = |at: &Option<usize>| {
                    let (figure, percents) = at.map(text).unwrap_or_default();
                    format!("{figure:>FIGURE$}{:>PERCENT$}", percents.join(" "))
                };
                cells.iter().map(cell).collect()
            };
            let published = with(&|at| {
                let text = self.figure(at).map_or("", Figure::text).to_owned();
                (text, self.published_percents(at))
            });
            let own = with(&|at| (number(self.results.figure(at)), self.own_percents(at)));
            let spread = with(&|at| (format!("{:.1}%", self.results.0[at].spread()), Vec::new()));
            line(row, "published", &mut published.into_iter());
            line("", "zonal", &mut own.into_iter());
            line("", "spread", &mut spread.into_iter());
        }
        out
    }

    fn list(&self) -> String {
        let unit = self.table.cells.first().map_or("", |cell| cell.unit.name());
        let mut lines = vec![vec![String::new(), "published".to_owned()]];
        let shares = self.table.comparisons.iter().map(|comparison| comparison.heading);
        // Others than the first need cells that nobody published.
        lines[0].extend(shares.clone().take(1).map(str::to_owned));
        lines[0].push("zonal".to_owned());
        lines[0].extend(shares.map(str::to_owned));
        lines[0].push("spread".to_owned());
        let mut units = vec![String::new(); lines[0].len()];
        let ours = 2 + usize::from(!self.table.comparisons.is_empty());
        units[1] = unit.to_owned();
        units[ours] = unit.to_owned();
        lines.push(units);
        for (at, cell) in self.table.cells.iter().enumerate() {
            let mut line = vec![cell.row.to_owned()];
            line.push(self.figure(at).map_or("", Figure::text).to_owned());
            line.extend(self.published_percents(at).into_iter().take(1));
            line.push(number(self.results.figure(at)));
            line.extend(self.own_percents(at));
            line.push(format!("{:.1}%", self.results.0[at].spread()));
            lines.push(line);
        }
        align(&lines)
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.table.layout == Layout::Grid {
            let headings = self.table.comparisons.iter().map(|comparison| comparison.heading);
            let headings: Vec<&str> = headings.collect();
            if !headings.is_empty() {
                notes.push(format!("Percentages: {}.", headings.join(", ")));
            }
        }
        notes.push(
            "The published figures are a kernel's, on another machine: the percentages are what to \
             compare; each is the median of what it was in each round. Spread: between the slowest \
             and the fastest round, in percent of the median."
                .to_owned(),
        );
        if self.figures.iter().any(|figure| figure.value().is_none()) {
            notes.push(
                "withheld: a published figure that is kept back; the figure below it is a \
                 prediction."
                    .to_owned(),
            );
        }
        let rounds = &self.results.0;
        let unsteady = rounds.iter().filter(|rounds| rounds.spread() > UNSTEADY).count();
        if unsteady > 0 {
            notes.push(format!(
                "The spread of {unsteady} of {} cells is above {UNSTEADY:.0}%: the machine was \
                 busy with something else.",
                rounds.len()
            ));
        }
        notes.extend((self.table.remarks)(self.table, self.results));
        notes
    }
}

/// Lines of columns: the first to the left, the others to the right.
fn align(lines: &[Vec<String>]) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for line in lines {
        let mut text = format!("{:width$}", line[0], width = widths[0]);
        for (cell, width) in line.iter().zip(&widths).skip(1) {
            let _ = write!(text, "{GAP}{cell:>width$}");
        }
        let _ = writeln!(out, "{}", text.trim_end());
    }
    out
}

/// Adds a paragraph in lines of at most a hundred columns.
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
