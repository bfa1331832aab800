//! Reproduced tables as JSON: what the CSV has, how it was measured, the rounds, latencies, errors.
use super::accuracy::{Accuracy, Errors, interpolate};
use super::measured::{Measured, PERCENTILES};
use super::published::{COLUMNS, Figure};
use super::table::Claim;
use crate::cli::ClockKind;
use serde_json::{Map, Value, json};

/// All tables in one document.
pub fn render(tables: &[Measured]) -> String {
    let document = json!({
        "zonal version": env!("CARGO_PKG_VERSION"),
        "tables": tables.iter().map(table).collect::<Vec<Value>>(),
    });
    format!("{document:#}\n")
}

fn table(measured: &Measured) -> Value {
    let settings = &measured.settings;
    let accuracy = Accuracy::of(measured);
    let errors =
        |errors: &Option<Errors>| errors.as_ref().map(|errors| self::errors(measured, errors));
    let round = settings.round();
    json!({
        "table": measured.table.name,
        "about": measured.table.about,
        "claim": match measured.table.claim {
            Claim::Percentages => "percentages",
            Claim::Figures => "figures",
        },
        "clock": match settings.clock {
            ClockKind::Real => "real",
            ClockKind::Virtual => "virtual",
        },
        "seed": settings.seed,
        "rounds": settings.rounds,
        "ramp_s": round.map(|span| span.ramp),
        "measured_s": round.map(|span| span.measured),
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

/// The published columns, if the cell was published, and what we measured.
fn cell(measured: &Measured, at: usize) -> Value {
    let (cell, rounds) = (&measured.table.cells[at], &measured.results.0[at]);
    let mut object = Map::new();
    if let Some(figure) = measured.published(at) {
        // The table's name stands above; the value follows as a number.
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

fn errors(measured: &Measured, errors: &Errors) -> Value {
    json!({
        "cells": errors.count,
        "median": errors.median,
        "largest": errors.largest,
        "largest_at": measured.table.name_of(errors.worst),
    })
}
