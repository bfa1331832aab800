//! A validation as one self-contained page: errors, a scatter plot for each metric, the worst cells.
use super::errors::{Short, by_error};
use super::plot::plots;
use super::report::{name, notes, parts, rows};
use super::{Errors, Summary, Validation};
use crate::page::{self, escaped};
use crate::table::Table;
use anyhow::Result;
use std::fmt::Write;

/// Cells that the page names as the worst.
const WORST: usize = 40;

/// The page.
///
/// # Errors
/// A plot cannot be drawn.
pub fn page(validation: &Validation) -> Result<String> {
    let mut out = page::begin(&format!("{}: predicted and measured", validation.device));
    page::paragraphs(&mut out, notes(validation));
    for (title, held_out) in parts(validation) {
        let rows = rows(&Summary::of(validation, held_out));
        if rows.is_empty() {
            continue;
        }
        let _ = writeln!(out, "<h2>Errors in percent, {}</h2>", escaped(&title));
        let headings = ["kind", "metric", "cells", "median", "p90", "largest"];
        let row = |(kind, metric, errors): (&str, &str, Errors)| {
            [vec![kind.to_owned(), metric.to_owned()], errors.fields().to_vec()].concat()
        };
        Table::new(headings, rows.into_iter().map(row)).html(&mut out, 2);
    }
    out += "<h2>Predicted against measured</h2>\n<p>The line is where both are the same.</p>\n";
    for plot in plots(validation) {
        plot.chart.html(&mut out)?;
    }
    out += "<h2>Largest errors</h2>\n";
    let headings = ["cell", "measured", "predicted", "error"];
    let worst = by_error(validation).into_iter().take(WORST).map(|at| {
        let cell = &validation.cells.cells[at];
        let figures = [cell.value, validation.predicted(at)].map(|value| Short(value).to_string());
        let [measured, predicted] = figures;
        let error = format!("{:+.1} %", validation.error(at));
        vec![name(validation, cell), measured, predicted, error]
    });
    Table::new(headings, worst).html(&mut out, 1);
    Ok(out + page::END)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{cells, options};
    use super::super::validate;
    use super::page;

    #[test]
    fn page_is_well_formed_with_a_plot_for_each_metric() {
        let cells = cells(
            "set,driver,lba,op,block,zones,depth,metric,value,unit\n\
             io,spdk,4096,append:write,4096,2,8,iops,143000,1/s\n\
             io,spdk,4096,append:write,8192,2,8,iops,113000,1/s\n\
             io,spdk,4096,write:write,4096,1,1,iops,90000,1/s\n\
             io,spdk,4096,write:write,4096,1,1,lat_mean,11,us\n",
        );
        let page = page(&validate(cells, &options(None), &()).unwrap()).unwrap();
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        let document = roxmltree::Document::parse_with_options(&page, options).unwrap();
        let named = |name| document.descendants().filter(move |node| node.has_tag_name(name));
        let svg = ("http://www.w3.org/2000/svg", "svg");
        assert_eq!(named(svg).count(), 2 * 2, "iops and lat_mean, wide and narrow");
        let rings = named(("http://www.w3.org/2000/svg", "circle")).count();
        assert!(rings >= 2 * (4 + 3), "four cells and the legend: {rings}");
        assert!(page.contains("naive") && page.contains("Largest errors"), "{page}");
    }
}
