//! A table of text: columns for a terminal, CSV, or part of a page.
use crate::page::escaped;
use std::fmt::Write;

/// Rows under their headings.
pub struct Table {
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings, of as many columns as each row has.
    pub fn new(
        headings: impl IntoIterator<Item = impl Into<String>>,
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> Self {
        let headings = headings.into_iter().map(Into::into).collect();
        Table { headings, rows: rows.into_iter().collect() }
    }

    fn lines(&self) -> impl Iterator<Item = &Vec<String>> {
        std::iter::once(&self.headings).chain(&self.rows)
    }

    /// Without its last column.
    pub fn without_last(mut self) -> Self {
        let columns = self.headings.len() - 1;
        self.headings.truncate(columns);
        self.rows.iter_mut().for_each(|row| row.truncate(columns));
        self
    }

    /// A line for the headings and for each row, in columns as wide as their widest cell and two blanks
    /// apart. The columns `left` are aligned to the left, the others to the right.
    ///
    /// # Panics
    /// A row has fewer cells than there are headings.
    pub fn text(&self, left: &[usize]) -> Vec<String> {
        let width = |column: usize| self.lines().map(|row| row[column].chars().count()).max();
        let widths: Vec<usize> = (0..self.headings.len()).filter_map(width).collect();
        let line = |row: &Vec<String>| {
            let cell = |(at, (cell, &width)): (usize, (&String, &usize))| {
                if left.contains(&at) {
                    format!("{cell:width$}")
                } else {
                    format!("{cell:>width$}")
                }
            };
            let cells: Vec<String> = row.iter().zip(&widths).enumerate().map(cell).collect();
            cells.join("  ").trim_end().to_owned()
        };
        self.lines().map(line).collect()
    }

    /// CSV, with the headings as the first line.
    pub fn csv(&self) -> String {
        self.lines().map(csv_line).collect()
    }

    /// Appends it to a page, with the first `left` columns aligned to the left.
    pub fn html(&self, out: &mut String, left: usize) {
        *out += "<div class=\"scroll\"><table>\n";
        for (at, row) in self.lines().enumerate() {
            let tag = if at == 0 { "th" } else { "td" };
            *out += "<tr>";
            for (at, cell) in row.iter().enumerate() {
                let class = if at < left { " class=\"left\"" } else { "" };
                let _ = write!(out, "<{tag}{class}>{}</{tag}>", escaped(cell));
            }
            *out += "</tr>\n";
        }
        *out += "</table></div>\n";
    }
}

/// A line of CSV.
pub fn csv_line<T: AsRef<[u8]>>(fields: impl IntoIterator<Item = T>) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(fields).expect("memory takes everything");
    let line = writer.into_inner().expect("memory takes everything");
    String::from_utf8(line).expect("the fields are UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let row = ["a", "1.0 ±0.1", "b c"].map(str::to_owned).to_vec();
        let table = Table::new(["", "MB/s", "name"], [row]);
        assert_eq!(table.text(&[0, 2]), ["       MB/s  name", "a  1.0 ±0.1  b c"]);
        assert_eq!(table.without_last().text(&[0]), ["       MB/s", "a  1.0 ±0.1"]);
    }

    #[test]
    fn csv_quotes_and_a_page_escapes() {
        let table = Table::new(["a", "b"], [["1,2", "<3>"].map(str::to_owned).to_vec()]);
        assert_eq!(table.csv(), "a,b\n\"1,2\",<3>\n");
        let mut page = String::new();
        table.html(&mut page, 1);
        assert!(page.contains("<th class=\"left\">a</th><th>b</th>"), "{page}");
        assert!(page.contains("<td class=\"left\">1,2</td><td>&lt;3&gt;</td>"), "{page}");
    }
}
