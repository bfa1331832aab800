//! Reproduced tables as CSV: the columns of the published figures, with ours.
use super::measured::Measured;
use super::published::{COLUMNS, quoted};
use super::text::number;

/// The first line.
pub fn header() -> String {
    format!("{},zonal,error\n", COLUMNS.join(","))
}

/// A line for each published figure: `zonal` is our value in the same unit, `error` by how many
/// percent it differs, empty if the published figure is withheld.
pub fn lines(measured: &Measured) -> String {
    let mut out = String::new();
    for figure in &measured.figures {
        let cell = measured.table.cell_of(figure);
        let own = cell.map_or(String::new(), |at| number(measured.results.figure(at)));
        let error = cell.and_then(|at| measured.error(at));
        let error = error.map_or(String::new(), |error| format!("{error:.1}"));
        let fields = figure.fields.iter().map(|field| quoted(field));
        let line: Vec<String> = fields.chain([own, error]).collect();
        out += &line.join(",");
        out.push('\n');
    }
    out
}
