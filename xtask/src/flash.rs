//! The picture at the beginning of `docs/flash.md`: write amplification and 99th percentile of the latency
//! of three drives, drawn from the table of workloads of its evidence.
use super::root;
use std::fmt::Write;
use std::fs;
use std::io;

/// The page with the table, and the picture.
const PAGE: &str = "docs/evidence/flash.md";
const PICTURE: &str = "docs/images/flash-drives.svg";

/// The drives, with their colours.
const DRIVES: [(&str, &str); 3] = [("zns", "#2B83C4"), ("ssd", "#D06A14"), ("fdp", "#1F9368")];

/// The workloads of the picture.
const WORKLOADS: [&str; 4] = ["uniform", "log-and-index", "log-structured", "cache"];

/// A row of the table: workload, drive, and the columns of figures.
struct Row<'a> {
    workload: &'a str,
    drive: &'a str,
    figures: Vec<f64>,
}

/// Bars of a figure.
struct Panel {
    title: &'static str,
    /// The column of the table, counted from the first figure.
    column: usize,
    left: f64,
    /// Values at lines across the panel, from the bottom to the top.
    lines: &'static [f64],
    is_logarithmic: bool,
}

const PANELS: [Panel; 2] = [
    Panel {
        title: "write amplification",
        column: 0,
        left: 30.0,
        lines: &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        is_logarithmic: false,
    },
    Panel {
        title: "99th percentile of the latency, ms",
        column: 3,
        left: 420.0,
        lines: &[1.0, 10.0, 100.0, 1000.0],
        is_logarithmic: true,
    },
];

/// Where panels begin and end, and how wide they are.
const TOP: f64 = 70.0;
const BOTTOM: f64 = 290.0;
const WIDTH: f64 = 350.0;
const BAR: f64 = 24.0;

/// Draws the picture from the page, and writes it.
///
/// # Errors
/// A file cannot be read or written, or the table lacks a figure.
pub fn write_picture() -> io::Result<()> {
    let picture = picture(&fs::read_to_string(root().join(PAGE))?)?;
    fs::write(root().join(PICTURE), picture)
}

/// The rows of the table of workloads.
fn rows(page: &str) -> Vec<Row<'_>> {
    let row = |line| {
        let cells: Vec<&str> = str::split(line, '|').map(str::trim).collect();
        let [_, workload, drive, figures @ .., _] = &cells[..] else { return None };
        let workload = workload.strip_prefix('`')?.strip_suffix(".fio`")?;
        let figures = figures.iter().map(|figure| figure.parse().ok()).collect::<Option<_>>()?;
        Some(Row { workload, drive, figures })
    };
    page.lines().filter_map(row).collect()
}

fn picture(page: &str) -> io::Result<String> {
    let rows = rows(page);
    let mut out = String::from(
        "<svg width=\"790\" height=\"320\" viewBox=\"0 0 790 320\" xmlns=\"http://www.w3.org/2000/svg\" \
         font-family=\"sans-serif\" font-size=\"12\" fill=\"currentColor\">\n\
         <style>svg{color:#222;background:#fff}\
         @media(prefers-color-scheme:dark){svg{color:#ddd;background:#161616}}</style>\n",
    );
    for (at, (drive, colour)) in DRIVES.iter().enumerate() {
        let x = 30 + 70 * at;
        line(
            &mut out,
            format_args!("<rect x=\"{x}\" y=\"12\" width=\"12\" height=\"12\" fill=\"{colour}\"/>"),
        );
        line(&mut out, format_args!("<text x=\"{}\" y=\"22\">{drive}</text>", x + 18));
    }
    for panel in &PANELS {
        panel.draw(&mut out, &rows)?;
    }
    out += "</svg>\n";
    Ok(out)
}

impl Panel {
    fn draw(&self, out: &mut String, rows: &[Row<'_>]) -> io::Result<()> {
        let Panel { title, left, .. } = self;
        line(out, format_args!("<text x=\"{left}\" y=\"50\" font-weight=\"bold\">{title}</text>"));
        for value in self.lines {
            let (y, right) = (self.height_at(*value), left + WIDTH);
            line(out, format_args!("<path d=\"M{left} {y:.1}H{right}\" stroke=\"#8886\"/>"));
            let label = left - 6.0;
            line(
                out,
                format_args!(
                    "<text x=\"{label}\" y=\"{:.1}\" text-anchor=\"end\" font-size=\"10\">{value}</text>",
                    y + 3.5
                ),
            );
        }
        let each = WIDTH / WORKLOADS.len() as f64;
        for (at, workload) in WORKLOADS.iter().enumerate() {
            let from = left + each * at as f64;
            let middle = from + each / 2.0;
            line(
                out,
                format_args!(
                    "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{workload}</text>",
                    BOTTOM + 18.0
                ),
            );
            for (at, (drive, colour)) in DRIVES.iter().enumerate() {
                let value = self.value(rows, workload, drive)?;
                let x = middle + BAR * (at as f64 - 1.5);
                let (y, width) = (self.height_at(value), BAR - 2.0);
                let height = BOTTOM - y;
                line(
                    out,
                    format_args!(
                        "<rect x=\"{x}\" y=\"{y:.1}\" width=\"{width}\" height=\"{height:.1}\" fill=\"{colour}\"/>"
                    ),
                );
                let (x, y) = (x + width / 2.0, y - 3.0);
                let decimals = if value < 10.0 { 1 } else { 0 };
                line(
                    out,
                    format_args!(
                        "<text x=\"{x}\" y=\"{y:.1}\" text-anchor=\"middle\" font-size=\"10\">{value:.decimals$}</text>"
                    ),
                );
            }
        }
        Ok(())
    }

    fn value(&self, rows: &[Row<'_>], workload: &str, drive: &str) -> io::Result<f64> {
        let row = rows.iter().find(|row| row.workload == workload && row.drive == drive);
        let figure = row.and_then(|row| row.figures.get(self.column)).copied();
        figure.ok_or_else(|| {
            let lacks = format!("{PAGE}: the table of workloads lacks {workload}.fio on {drive}");
            io::Error::new(io::ErrorKind::InvalidData, lacks)
        })
    }

    /// Where a value is, from the top of the picture.
    fn height_at(&self, value: f64) -> f64 {
        let (least, most) = (self.lines[0], self.lines[self.lines.len() - 1]);
        let scale = |value: f64| if self.is_logarithmic { value.max(least).log10() } else { value };
        let part = (scale(value) - scale(least)) / (scale(most) - scale(least));
        BOTTOM - part.clamp(0.0, 1.0) * (BOTTOM - TOP)
    }
}

fn line(out: &mut String, what: std::fmt::Arguments<'_>) {
    writeln!(out, "{what}").expect("a string takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picture_of_the_drives_is_that_of_the_table() {
        let read = |file| fs::read_to_string(root().join(file)).expect(file);
        let drawn = picture(&read(PAGE)).expect("the table has all figures");
        assert!(drawn == read(PICTURE), "draw it again: cargo xtask picture");
        assert!(read("docs/flash.md").contains("(images/flash-drives.svg)"));
    }

    #[test]
    fn table_without_a_figure_is_an_error_that_names_it() {
        let page = "| `uniform.fio` | zns | 5.19 | 42.7 | 0.05 | 233.83 | 291.50 | 653 |";
        assert_eq!(rows(page)[0].figures[3], 233.83);
        let error = picture(page).expect_err("there is one drive").to_string();
        assert_eq!(
            error,
            "docs/evidence/flash.md: the table of workloads lacks uniform.fio on ssd"
        );
    }
}
