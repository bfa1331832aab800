//! A table of text: columns for a terminal, CSV, or part of a page.
use crate::page::escaped;
use serde_json::Value;
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

    /// The rows of a JSON value. Objects in an array have a row each, under the keys of the first; in
    /// anything else each value has a row, with its path.
    pub fn of_json(value: &Value) -> Self {
        if let Value::Array(items) = value
            && let Some(Value::Object(first)) = items.first()
        {
            let row = |item: &Value| first.keys().map(|key| cell(&item[key])).collect();
            return Table::new(first.keys(), items.iter().map(row));
        }
        let mut rows = Vec::new();
        add_paths(&mut rows, String::new(), value);
        Table::new(["name", "value"], rows)
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

/// A value in a cell: the values of an array one after the other.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(cell).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

/// A row for each value in `value`, which is at `path`.
fn add_paths(rows: &mut Vec<Vec<String>>, path: String, value: &Value) {
    let inner =
        |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        Value::Object(entries) => {
            entries.iter().for_each(|(name, value)| add_paths(rows, inner(name), value));
        }
        Value::Array(values)
            if values.iter().any(|value| value.is_object() || value.is_array()) =>
        {
            let numbered = values.iter().enumerate();
            numbered.for_each(|(at, value)| add_paths(rows, inner(&at.to_string()), value));
        }
        Value::Array(values) if values.is_empty() && path.is_empty() => {}
        scalar => rows.push(vec![path, cell(scalar)]),
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
    fn rows_of_json_are_its_objects_or_its_paths() {
        let zones = serde_json::json!([
            { "zone": 0, "wp": null, "words": ["a", "b"] },
            { "zone": 1, "wp": 8, "words": [] },
        ]);
        assert_eq!(Table::of_json(&zones).csv(), "zone,wp,words\n0,,a b\n1,8,\n");
        let nested = serde_json::json!({
            "image": "a.img",
            "geometry": { "zones": 4 },
            "findings": [{ "kind": "note", "text": "x" }],
            "none": [],
        });
        let rows = "name,value\nimage,a.img\ngeometry.zones,4\nfindings.0.kind,note\n\
                    findings.0.text,x\nnone,\n";
        assert_eq!(Table::of_json(&nested).csv(), rows);
        assert_eq!(Table::of_json(&serde_json::json!([])).csv(), "name,value\n");
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
