//! A reproduced table as CSV: the columns of the published figures, with ours.
use super::measure::Results;
use super::published::{COLUMNS, Figure, quoted};
use super::table::Table;
use super::text::number;

/// A line for each published figure: `zonal` is our value in the same unit, `error` by how many
/// percent it differs, empty if the published figure is withheld.
pub fn render(table: &Table, figures: &[Figure], results: &Results) -> String {
    let mut out = format!("{},zonal,error\n", COLUMNS.join(","));
    for figure in figures {
        let own = table.cell_of(figure).map(|at| results.figure(at));
        let error = own.zip(figure.value()).map(|(own, published)| (own / published - 1.0) * 100.0);
        let fields = figure.fields.iter().map(|field| quoted(field));
        let own = own.map_or(String::new(), number);
        let error = error.map_or(String::new(), |error| format!("{error:.1}"));
        let line: Vec<String> = fields.chain([own, error]).collect();
        out += &line.join(",");
        out.push('\n');
    }
    out
}
