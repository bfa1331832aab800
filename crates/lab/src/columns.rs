//! Columns of text, as wide as their widest cell and two blanks apart.

/// The lines of a table. The columns `left` are aligned to the left, the others to the right.
///
/// # Panics
/// A row has fewer cells than the first.
pub fn lines(rows: &[Vec<String>], left: &[usize]) -> Vec<String> {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let columns = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns).filter_map(width).collect();
    let line = |row: &Vec<String>| {
        let cell = |(at, (cell, &width)): (usize, (&String, &usize))| {
            if left.contains(&at) { format!("{cell:width$}") } else { format!("{cell:>width$}") }
        };
        let cells: Vec<String> = row.iter().zip(&widths).enumerate().map(cell).collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = [row(["", "MB/s", "name"]), row(["a", "1.0 ±0.1", "b c"])];
        assert_eq!(lines(&rows, &[0, 2]), ["       MB/s  name", "a  1.0 ±0.1  b c"]);
        assert_eq!(lines(&[], &[]), [""; 0]);
    }
}
