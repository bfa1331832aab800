//! Self-contained HTML pages: well-formed XML without scripts or references. Colours follow the
//! reader's preference for light or dark.
use std::fmt::Write;

const STYLE: &str = "\
:root{color-scheme:light dark;--line:#8886}
body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;margin:1rem 0}
th,td{padding:.15rem .7rem;border-bottom:1px solid var(--line);text-align:right}
.left{text-align:left}
th{font-weight:600}
.scroll{overflow-x:auto}
figure{display:inline-block;margin:.5rem 0;max-width:100%}
svg{max-width:100%;height:auto}
";

/// The start of a page, with its first heading.
pub fn begin(title: &str) -> String {
    let title = escaped(title);
    format!(
        "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n\
         <meta charset=\"utf-8\" />\n\
         <meta name=\"viewport\" content=\"width=device-width\" />\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <h1>{title}</h1>\n<p>zonal {}</p>\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// The end of a page.
pub const END: &str = "</body>\n</html>\n";

/// A table whose first `left` columns are aligned to the left.
pub fn table(
    out: &mut String,
    headings: &[String],
    left: usize,
    rows: impl Iterator<Item = Vec<String>>,
) {
    *out += "<div class=\"scroll\"><table>\n";
    let mut row = |tag: &str, cells: &[String]| {
        *out += "<tr>";
        for (at, cell) in cells.iter().enumerate() {
            let class = if at < left { " class=\"left\"" } else { "" };
            let _ = write!(out, "<{tag}{class}>{}</{tag}>", escaped(cell));
        }
        *out += "</tr>\n";
    };
    row("th", headings);
    rows.for_each(|cells| row("td", &cells));
    *out += "</table></div>\n";
}

/// Text escaped for use between tags and in attributes.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
