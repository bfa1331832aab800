//! `zonal reproduce`: published tables, measured again and printed beside the published figures.
//!
//! Takes the name of a table; gives text or CSV. Keeps true: a table is a description
//! ([`table::Table`]), the same code measures and prints them all; in virtual time the output
//! depends on the arguments alone.
//!
//! ```text
//!  zwp, scaling --Table--> measure --Results--> text, csv
//!  published ---Figure-------------------------^
//! ```
mod csv;
mod measure;
mod published;
mod scaling;
mod table;
mod text;
mod zwp;

use crate::cli::{ReproduceArgs, TableFormat};
use anyhow::{Context, Result};
use std::io::{self, Write};
use std::process::ExitCode;
use table::Table;

/// All tables.
fn tables() -> Vec<Table> {
    vec![zwp::null_blk(), scaling::table()]
}

/// The tables by name, for help and errors.
pub fn list() -> String {
    let tables = tables();
    let line = |table: &Table| format!("  {:20} {}", table.name, table.about);
    format!("Tables:\n{}", tables.iter().map(line).collect::<Vec<_>>().join("\n"))
}

/// Measures a table and prints it.
pub fn run(args: &ReproduceArgs) -> Result<ExitCode> {
    let table = tables().into_iter().find(|table| table.name == args.table);
    let table =
        table.with_context(|| format!("no table is called `{}`. {}", args.table, list()))?;
    let out = if args.commands {
        commands(&table, args.time / f64::from(args.rounds))
    } else {
        let (figures, results) = (table.figures(), measure::measure(&table, args)?);
        match args.format {
            TableFormat::Text => text::render(&table, &figures, &results, &measure::describe(args)),
            TableFormat::Csv => csv::render(&table, &figures, &results),
        }
    };
    io::stdout().write_all(out.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// What would measure each cell by itself, for as long as a round does.
fn commands(table: &Table, round: f64) -> String {
    let ramp = round * measure::RAMP_SHARE;
    let command = |cell: &table::Cell| {
        format!(
            "# {} {}\n{}\n",
            cell.row.trim(),
            cell.column,
            cell.setup.command(ramp, round - ramp)
        )
    };
    table.cells.iter().map(command).collect()
}

#[cfg(test)]
mod tests;
