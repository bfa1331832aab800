//! Published tables, measured again and compared with the published figures.
//!
//! A table is a file (`data/tables`), read as a [`Table`]; the same code measures, prints and plots all of
//! them. In virtual time the result depends on the settings alone.
//!
//! ```text
//!  tables --------------- Table ------------+
//!                           |               |
//!  MeasureSettings -----> Bench -- Results -+--> MeasuredTable --> text, export, html, plot
//! ```
mod accuracy;
mod export;
mod head;
mod html;
mod measure;
mod measured;
mod plot;
mod published;
mod results;
mod settings;
mod table;
mod tables;
mod text;

pub use accuracy::{Accuracy, CellError, Compared, Errors, interpolate, naive};
pub use export::{csv_header, csv_lines, json};
pub use html::page as html_page;
pub use measure::Bench;
pub use measured::MeasuredTable;
pub use plot::plots;
pub use published::{Figure, Source};
pub use results::{PERCENTILES, Results, Rounds, Sample};
pub use settings::{ANY_MACHINE, MeasureSettings};
pub use table::{
    Base, Cell, Comparability, Comparison, Crossings, FigureUse, FreeParameters, Layout,
    PercentKind, Remark, Setup, Table,
};
pub use tables::{all as tables, read};
pub use text::{overview, table as text};

/// The tables by name and with what they show, one line each.
pub fn list() -> String {
    let line = |table: &Table| format!("  {:20} {}", table.name, table.about);
    tables().iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The names of the tables that are measured on a device of this profile.
pub fn tables_of(profile: &str) -> Vec<&'static str> {
    tables().iter().filter(|table| table.is_on(profile)).map(|table| table.name.as_str()).collect()
}

/// The commands that measure each cell by itself, for as long as a round.
pub fn commands(table: &Table, settings: &MeasureSettings) -> String {
    let command = |(at, cell): (usize, &Cell)| {
        let command = cell.setup.command(settings);
        format!("# {}: {}\n{command}\n", table.name, table.name_of(at))
    };
    table.cells.iter().enumerate().map(command).collect()
}

#[cfg(test)]
mod tests;
