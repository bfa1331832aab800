//! Where the time of I/Os went, as a page: a stacked bar for each percentile, and the table after.
use super::explain::{Explained, Row};
use crate::page::{self, escaped};
use crate::table::Table;
use std::fmt::Write;

/// Where the bars are, in pixels: the width of the drawing, where they begin, and the height above each
/// for its name, if that is not beside it.
struct Layout {
    width: f64,
    left: f64,
    above: f64,
}

const WIDE: Layout = Layout { width: 760.0, left: 170.0, above: 0.0 };
const NARROW: Layout = Layout { width: 360.0, left: 0.0, above: 18.0 };
/// Height of a bar.
const BAR: f64 = 30.0;
/// Width of a letter. A part of a bar that is as wide as its name has it inside.
const LETTER: f64 = 9.0;

/// The page of all devices. `lacks` says why not all I/Os are explained.
pub(super) fn page(devices: &[Explained], lacks: Option<&str>) -> String {
    let mut out = page::begin("Where the time of the I/Os went");
    out += "<p>Each bar is the mean of the I/Os around a percentile of the latency, from submission to \
            completion; its parts are shares of that time.</p>\n";
    if let Some(lacks) = lacks {
        let _ = writeln!(out, "<p>The trace is not whole: {}.</p>", escaped(lacks));
    }
    for device in devices {
        let _ = writeln!(out, "<h2>{}</h2>", escaped(device.device()));
        if device.rows().is_empty() {
            out += "<p>There were too few I/Os to explain.</p>\n";
            continue;
        }
        out += "<figure><div class=\"wide\">";
        bars(&mut out, device.rows(), &WIDE);
        out += "</div><div class=\"narrow\">";
        bars(&mut out, device.rows(), &NARROW);
        out += "</div>";
        page::legend(&mut out, parts(device.rows()).iter().map(|name| plain(name)));
        out += "</figure>\n";
        table(device.rows()).html(&mut out, 2);
    }
    out + page::END
}

/// The parts that some row spent time in, in the order of an I/O's way.
fn parts(rows: &[Row]) -> Vec<&'static str> {
    let mut parts: Vec<&'static str> = Vec::new();
    for (part, nanos) in rows.iter().flat_map(|row| &row.parts) {
        if *nanos > 0 && !parts.contains(part) {
            parts.push(part);
        }
    }
    parts
}

fn bars(out: &mut String, rows: &[Row], layout: &Layout) {
    let names = parts(rows);
    let &Layout { width: all, left, above } = layout;
    let height = rows.len() as f64 * (BAR + above);
    let _ = writeln!(
        out,
        "<svg class=\"bars\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" \
         aria-label=\"Shares of the latency; the table below has the figures\" width=\"{all}\" \
         height=\"{height}\" viewBox=\"0 0 {all} {height}\">"
    );
    for (number, row) in rows.iter().enumerate() {
        let top = number as f64 * (BAR + above) + above;
        let text = top + BAR * 0.62;
        let name = if above > 0.0 { top - 2.0 } else { text };
        let total: u64 = row.parts.iter().map(|(_, nanos)| nanos).sum();
        let _ = writeln!(
            out,
            "<text x=\"0\" y=\"{name}\">{} {}: {}</text>",
            row.kind,
            row.percentile,
            time(row.latency)
        );
        let mut x = left;
        for (part, nanos) in &row.parts {
            let Some(colour) = names.iter().position(|name| name == part) else { continue };
            let share = *nanos as f64 / total.max(1) as f64;
            let width = share * (all - left);
            let title = format!("{}: {}, {:.0} %", plain(part), time(*nanos), share * 100.0);
            let _ = writeln!(
                out,
                "<rect class=\"series{colour}\" x=\"{x:.1}\" y=\"{}\" width=\"{width:.1}\" \
                 height=\"{}\"><title>{title}</title></rect>",
                top + 3.0,
                BAR - 6.0
            );
            let name = plain(part);
            if width >= LETTER * (name.len() + 1) as f64 {
                let middle = x + width / 2.0;
                let _ = writeln!(
                    out,
                    "<text class=\"inside\" x=\"{middle:.1}\" y=\"{text}\">{name}</text>"
                );
            }
            x += width;
        }
    }
    *out += "</svg>";
}

/// A row for each percentile: the latency, and the time of each part with its share.
pub(super) fn table(rows: &[Row]) -> Table {
    let names = parts(rows);
    let headings = ["I/Os", "percentile", "number", "latency"].map(str::to_owned).into_iter();
    let headings = headings.chain(names.iter().map(|name| plain(name)));
    let cells = |row: &Row| {
        let total: u64 = row.parts.iter().map(|(_, nanos)| nanos).sum();
        let of = |name: &&str| {
            let part = row.parts.iter().find(|(part, _)| part == name);
            part.map_or(String::new(), |(_, nanos)| {
                let percent = *nanos as f64 * 100.0 / total.max(1) as f64;
                format!("{}, {percent:.0} %", time(*nanos))
            })
        };
        let mut cells = vec![row.kind.to_owned(), row.percentile.to_owned(), row.ios.to_string()];
        cells.push(time(row.latency));
        cells.extend(names.iter().map(of));
        cells
    };
    Table::new(headings, rows.iter().map(cells))
}

/// A time with three digits.
fn time(nanos: u64) -> String {
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")];
    let value = nanos as f64;
    let (unit, name) = units.into_iter().find(|(unit, _)| value >= *unit).unwrap_or((1.0, "ns"));
    let value = value / unit;
    let decimals = if unit == 1.0 || value >= 99.95 { 0 } else { usize::from(value < 9.995) + 1 };
    format!("{value:.decimals$} {name}")
}

/// The name of a part, for people.
fn plain(part: &str) -> String {
    part.replace("device_", "device: ").replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        let shown = [0, 999, 1000, 12_345, 123_456, 9_999_000, 2_500_000_000].map(time);
        let expected = ["0 ns", "999 ns", "1.00 us", "12.3 us", "123 us", "10.0 ms", "2.50 s"];
        assert_eq!(shown, expected);
    }

    #[test]
    fn bars_are_shares_and_the_table_has_the_times() {
        let row = |percentile, parts: Vec<(&'static str, u64)>| Row {
            kind: "write",
            percentile,
            ios: 7,
            latency: parts.iter().map(|(_, nanos)| nanos).sum(),
            parts,
        };
        let rows = vec![
            row("p50", vec![("plug", 0), ("device", 1000)]),
            row("p99", vec![("plug", 3000), ("device", 1000)]),
        ];
        let html = page(&[Explained::new("a<b", rows)], Some("x<y"));
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        let document = roxmltree::Document::parse_with_options(&html, options).expect("XML");
        let svg = |name| ("http://www.w3.org/2000/svg", name);
        let widths = |class: &str| {
            let rects = document.descendants().filter(|node| node.has_tag_name(svg("rect")));
            let of = rects.filter(|node| node.attribute("class") == Some(class));
            let width =
                |node: roxmltree::Node<'_, '_>| node.attribute("width")?.parse::<f64>().ok();
            of.filter_map(width).collect::<Vec<_>>()
        };
        let (all, narrow) = (WIDE.width - WIDE.left, NARROW.width);
        let close = |found: &[f64], expected: &[f64]| {
            found.len() >= expected.len()
                && found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 0.1)
        };
        // The device is the first part that took time, plugs the second.
        assert!(
            close(&widths("series0"), &[all, all * 0.25, narrow, narrow * 0.25]),
            "{:?}",
            widths("series0")
        );
        assert!(
            close(&widths("series1"), &[0.0, all * 0.75, 0.0, narrow * 0.75]),
            "{:?}",
            widths("series1")
        );
        assert!(html.contains("a&lt;b") && html.contains("plug: 3.00 us, 75 %"), "{html}");
        assert!(html.contains("<p>The trace is not whole: x&lt;y.</p>"), "{html}");
    }
}
