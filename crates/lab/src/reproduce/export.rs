//! Measured tables as CSV and as JSON.
use super::accuracy::{Accuracy, Compared, Errors, interpolate, naive};
use super::measured::MeasuredTable;
use super::published::{COLUMNS, Figure};
use super::results::PERCENTILES;
use super::table::Comparability;
use super::text::number;
use crate::table::csv_line;
use serde_json::{Map, Value, json};

/// The first line of the CSV.
pub fn csv_header() -> String {
    let mut header = COLUMNS.to_vec();
    header.extend(["zonal", "error", "use"]);
    csv_line(&header)
}

/// A line of CSV for each published figure: its own columns, then `zonal`, the measured value in
/// the same unit, `error`, by how many percent that differs, empty if the published figure is
/// withheld, and `use`, what the published figure was used for.
pub fn csv_lines(measured: &MeasuredTable) -> String {
    let line = |figure: &Figure| {
        let cell = measured.table.cell_of(figure);
        let value = cell.map_or(String::new(), |at| number(measured.results.figure(at)));
        let error = cell.and_then(|at| measured.error(at));
        let error = error.map_or(String::new(), |error| format!("{error:.1}"));
        let mut fields: Vec<&str> = figure.fields.iter().map(String::as_str).collect();
        let figure_use = cell.map_or("", |at| measured.table.cells[at].figure_use.name());
        fields.extend([value.as_str(), &error, figure_use]);
        csv_line(&fields)
    };
    measured.figures.iter().map(line).collect()
}

/// All tables as one JSON document: what the CSV has, how it was measured, the rounds, latencies
/// and errors.
pub fn json(tables: &[MeasuredTable]) -> String {
    let document = json!({
        "zonal version": env!("CARGO_PKG_VERSION"),
        "interrupted": tables.iter().any(|measured| measured.interrupted.is_some()),
        "tables": tables.iter().map(table).collect::<Vec<Value>>(),
    });
    format!("{document:#}\n")
}

fn table(measured: &MeasuredTable) -> Value {
    let settings = &measured.settings;
    let accuracy = Accuracy::of(measured);
    let errors = |errors: &Errors| self::errors(measured, errors);
    let compared = |both: Option<&Compared>| {
        both.map(|Compared { own, naive }| {
            json!({ "zonal": errors(own), "naive": naive.as_ref().map(errors) })
        })
    };
    let round = settings.round();
    json!({
        "table": measured.table.name,
        "about": measured.table.about,
        "claim": match measured.table.comparability {
            Comparability::Ratios => "percentages",
            Comparability::Figures => "figures",
        },
        "sources": measured.table.source.iter().map(|source| {
            json!({ "title": source.title, "place": source.place, "link": source.link })
        }).collect::<Vec<_>>(),
        "interrupted": measured.interrupted.is_some(),
        "clock": settings.clock.name(),
        "seed": settings.seed,
        "rounds": settings.rounds,
        "ramp_s": round.map(|length| length.ramp),
        "measured_s": round.map(|length| length.measured),
        "io_cost": settings.costs_argument(),
        "cells": (0..measured.table.cells.len()).map(|at| cell(measured, at)).collect::<Vec<_>>(),
        "free_parameters": measured.table.parameters.names,
        "inert_parameters": measured.table.parameters.inert,
        "error": {
            "predicted": compared(accuracy.predicted.as_ref()),
            "nontrivial": compared(accuracy.nontrivial.as_ref()),
            "calibrated": accuracy.calibrated.as_ref().map(errors),
            "identities": accuracy.identities.len(),
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
    object.insert("naive".to_owned(), json!(naive(measured, at)));
    object.insert("use".to_owned(), json!(cell.figure_use.name()));
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
        "p90": errors.p90,
        "largest": errors.largest,
        "largest_at": measured.table.name_of(errors.worst),
    })
}
