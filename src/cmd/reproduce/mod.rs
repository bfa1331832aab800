//! `zonal reproduce`: published tables, measured again and printed beside the published figures.
//!
//! Takes the names of tables; gives text, JSON, CSV or HTML, and plots. Keeps true: a table is a
//! description ([`table::Table`]), the same code measures, prints and plots them all; in virtual
//! time the output depends on the arguments alone.
//!
//! ```text
//!  zwp, smr, scaling --Table--> measure --Results--+
//!  published ----------Figure----------------------+--Measured--> text, csv, json, plot, html
//!  arguments ----------How-------------------------+
//! ```
mod accuracy;
mod csv;
mod fs;
mod how;
mod html;
mod json;
mod measure;
mod measured;
mod plot;
mod published;
mod scaling;
mod smr;
mod table;
mod text;
mod zwp;

use crate::cli::{ReproduceArgs, TableFormat};
use anyhow::{Context, Result};
use how::MeasureSettings;
use measure::Bench;
use measured::Measured;
use std::io::{self, Write};
use std::process::ExitCode;
use table::{Cell, Table};

/// All tables.
fn tables() -> Vec<Table> {
    vec![
        zwp::null_blk(),
        zwp::zns(),
        zwp::smr(),
        smr::sequential(),
        smr::random(),
        fs::btrfs(),
        fs::xfs(),
        fs::xfs_limited(),
        fs::raidtest(),
        scaling::table(),
    ]
}

/// The tables by name, for help and errors.
pub fn list() -> String {
    let tables = tables();
    let line = |table: &Table| format!("  {:20} {}", table.name, table.about);
    format!("Tables:\n{}", tables.iter().map(line).collect::<Vec<_>>().join("\n"))
}

/// Measures tables and prints them, each as soon as it is done if the format allows that.
pub fn run(args: &ReproduceArgs) -> Result<ExitCode> {
    let tables = chosen(&args.tables)?;
    let mut out = io::stdout();
    if args.commands {
        for table in &tables {
            out.write_all(commands(table, &MeasureSettings::new(table.method, args)).as_bytes())?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(dir) = &args.plot {
        plot::prepare(dir)?;
    }
    let mut bench = Bench::new();
    let mut done: Vec<Measured> = Vec::with_capacity(tables.len());
    for table in tables {
        let settings = MeasureSettings::new(table.method, args);
        let results = bench.measure(&table, &settings)?;
        let measured = Measured { figures: table.figures(), table, results, settings };
        if let Some(dir) = &args.plot {
            plot::write(dir, &plot::of(&measured)?)?;
        }
        let first = done.is_empty();
        let piece = match args.format {
            TableFormat::Text if first => text::render(&measured),
            TableFormat::Text => format!("\n{}", text::render(&measured)),
            TableFormat::Csv if first => csv::header() + &csv::lines(&measured),
            TableFormat::Csv => csv::lines(&measured),
            TableFormat::Json | TableFormat::Html => String::new(),
        };
        out.write_all(piece.as_bytes())?;
        out.flush()?;
        done.push(measured);
    }
    let rest = match args.format {
        TableFormat::Text if done.len() > 1 => format!("\n{}", text::overview(&done)),
        TableFormat::Text | TableFormat::Csv => String::new(),
        TableFormat::Json => json::render(&done),
        TableFormat::Html => html::render(&done)?,
    };
    out.write_all(rest.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// The tables of these names; all if there are none.
fn chosen(names: &[String]) -> Result<Vec<Table>> {
    if names.is_empty() {
        return Ok(tables());
    }
    let find = |name: &String| {
        let table = tables().into_iter().find(|table| table.name == name);
        table.with_context(|| format!("no table is called `{name}`. {}", list()))
    };
    names.iter().map(find).collect()
}

/// What would measure each cell by itself, for as long as a round does.
fn commands(table: &Table, settings: &MeasureSettings) -> String {
    let command = |(at, cell): (usize, &Cell)| {
        let command = cell.setup.command(settings);
        format!("# {}: {}\n{command}\n", table.name, table.name_of(at))
    };
    table.cells.iter().enumerate().map(command).collect()
}

#[cfg(test)]
mod tests;
