//! Measured tables as CSV and as JSON.
use super::accuracy::{Accuracy, Errors, interpolate};
use super::measured::{MeasuredTable, PERCENTILES};
use super::published::{COLUMNS, Figure};
use super::table::Comparability;
use super::text::number;
use serde_json::{Map, Value, json};

/// The first line of the CSV.
pub fn csv_header() -> String {
    let mut header = COLUMNS.to_vec();
    header.extend(["zonal", "error"]);
    csv_line(&header)
}

/// A line of CSV for each published figure: its own columns, then `zonal`, the measured value in
/// the same unit, and `error`, by how many percent that differs; empty if the published figure is
/// withheld.
pub fn csv_lines(measured: &MeasuredTable) -> String {
    let line = |figure: &Figure| {
        let cell = measured.table.cell_of(figure);
        let value = cell.map_or(String::new(), |at| number(measured.results.figure(at)));
        let error = cell.and_then(|at| measured.error(at));
        let error = error.map_or(String::new(), |error| format!("{error:.1}"));
        let mut fields: Vec<&str> = figure.fields.iter().map(String::as_str).collect();
        fields.extend([value.as_str(), &error]);
        csv_line(&fields)
    };
    measured.figures.iter().map(line).collect()
}

fn csv_line(fields: &[&str]) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(fields).expect("memory takes everything");
    let line = writer.into_inner().expect("memory takes everything");
    String::from_utf8(line).expect("the fields are UTF-8")
}

/// All tables as one JSON document: what the CSV has, how it was measured, the rounds, latencies
/// and errors.
pub fn json(tables: &[MeasuredTable]) -> String {
    let document = json!({
        "zonal version": env!("CARGO_PKG_VERSION"),
        "tables": tables.iter().map(table).collect::<Vec<Value>>(),
    });
    format!("{document:#}\n")
}

fn table(measured: &MeasuredTable) -> Value {
    let settings = &measured.settings;
    let accuracy = Accuracy::of(measured);
    let errors =
        |errors: &Option<Errors>| errors.as_ref().map(|errors| self::errors(measured, errors));
    let round = settings.round();
    json!({
        "table": measured.table.name,
        "about": measured.table.about,
        "claim": match measured.table.comparability {
            Comparability::Ratios => "percentages",
            Comparability::Figures => "figures",
        },
        "clock": settings.clock.name(),
        "seed": settings.seed,
        "rounds": settings.rounds,
        "ramp_s": round.map(|length| length.ramp),
        "measured_s": round.map(|length| length.measured),
        "io_cost": settings.costs_argument(),
        "cells": (0..measured.table.cells.len()).map(|at| cell(measured, at)).collect::<Vec<_>>(),
        "error": {
            "given": errors(&accuracy.given),
            "nontrivial": errors(&accuracy.nontrivial),
            "interpolated": errors(&accuracy.interpolation.as_ref().map(|both| both.0.clone())),
            "zonal_where_interpolated":
                errors(&accuracy.interpolation.as_ref().map(|both| both.1.clone())),
            "withheld": accuracy.withheld,
        },
    })
}

/// The published columns, if the cell was published, and what was measured.
fn cell(measured: &MeasuredTable, at: usize) -> Value {
    let (cell, rounds) = (&measured.table.cells[at], &measured.results.0[at]);
    let mut object = Map::new();
    if let Some(figure) = measured.published(at) {
        // The table is named above; the value follows as a number.
        for (column, field) in COLUMNS.iter().zip(&figure.fields).skip(1) {
            object.insert((*column).to_owned(), json!(field));
        }
    }
    let value = measured.published(at).and_then(Figure::value);
    object.insert("value".to_owned(), json!(value));
    object.insert("row".to_owned(), json!(cell.row));
    object.insert("column".to_owned(), json!(cell.column));
    object.insert("unit".to_owned(), json!(cell.unit.name()));
    object
        .insert("withheld".to_owned(), json!(measured.published(at).is_some() && value.is_none()));
    object.insert("zonal".to_owned(), json!(rounds.median()));
    object.insert("error".to_owned(), json!(measured.error(at)));
    object.insert("spread".to_owned(), json!(rounds.spread()));
    object.insert("interpolated".to_owned(), json!(interpolate(measured, at)));
    let figures: Vec<f64> = rounds.0.iter().map(|sample| sample.figure).collect();
    object.insert("rounds".to_owned(), json!(figures));
    let latencies = PERCENTILES.iter().enumerate();
    let latencies = latencies.map(|(at, p)| (p.to_string(), json!(rounds.latency(at))));
    object.insert("clat_ns".to_owned(), Value::Object(latencies.collect()));
    Value::Object(object)
}

fn errors(measured: &MeasuredTable, errors: &Errors) -> Value {
    json!({
        "cells": errors.count,
        "median": errors.median,
        "largest": errors.largest,
        "largest_at": measured.table.name_of(errors.worst),
    })
}
