//! Measured figures from CSV: one a line, with the name and the numbers of its load.
//!
//! ```text
//! set,driver,lba,op,block,zones,depth,metric,value,unit
//! io,spdk,4096,append:write,4096,1,8,iops,132266,1/s
//! management,spdk,4096,reset,141164544,1,1,lat_mean,6315.75,us
//! ```
//!
//! `docs/models.md` describes the columns. An error names the line.
use super::{Cell, Cells, Load, LoadKind, Metric, NamedLoad};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use zonal_fio::job::DataDir;

/// The columns, in order.
pub const COLUMNS: [&str; 10] =
    ["set", "driver", "lba", "op", "block", "zones", "depth", "metric", "value", "unit"];

/// Whether a file whose first line this is has these columns.
pub(super) fn is_header(line: &str) -> bool {
    line.trim_start().starts_with("set,")
}

/// Parses the text of a file.
pub(super) fn parse(text: &str) -> Result<Cells> {
    let (mut reader, header, line) = super::csv_table(text)?;
    if !header.iter().eq(COLUMNS) {
        let found = header.iter().collect::<Vec<_>>().join(",");
        bail!("line {line}: found the columns {found}, expected {}", COLUMNS.join(","));
    }
    let mut cells = Cells::default();
    let mut known = BTreeMap::new();
    for record in reader.records() {
        let record = record?;
        let line = record.position().map_or(0, csv::Position::line);
        let fields: Vec<&str> = record.iter().collect();
        if fields[3].starts_with("concurrent_namespaces") {
            cells.skipped += 1;
            continue;
        }
        let (cell, load) = row(&fields).with_context(|| format!("line {line}"))?;
        let next = cells.loads.len();
        let load_at = *known.entry(load.clone()).or_insert(next);
        if load_at == next {
            cells.loads.push(Load::Named(load));
        }
        cells.cells.push(Cell { line: Some(line), load: load_at, ..cell });
    }
    Ok(cells)
}

/// One line.
fn row(fields: &[&str]) -> Result<(Cell, NamedLoad)> {
    let field = |name: &str| {
        let at = COLUMNS.iter().position(|column| *column == name);
        fields[at.expect("only known columns are asked for")]
    };
    let number = |name: &str, least: u64, most: u64| {
        let text = field(name);
        let number = text.parse().ok().filter(|number| (least..=most).contains(number));
        number.with_context(|| format!("{name}: found `{text}`, expected {least} to {most}"))
    };
    let metric = Metric::from_name(field("metric"))?;
    let (unit, expected) = (field("unit"), metric.unit());
    ensure!(unit == expected, "unit: found `{unit}`, expected `{expected}` for {}", metric.name());
    let value: f64 = field("value")
        .parse()
        .ok()
        .filter(|value: &f64| value.is_finite() && *value > 0.0)
        .with_context(|| format!("value: found `{}`, expected a number above 0", field("value")))?;
    let op = field("op");
    let (kind, dir) = match field("set") {
        "io" => LoadKind::parse_io(op)?,
        "management" => (LoadKind::parse_management(op)?, DataDir::Write),
        other => bail!("set: found `{other}`, expected io or management"),
    };
    let managed = matches!(kind, LoadKind::Management(_));
    let lba = number("lba", 512, 4096)?;
    ensure!(matches!(lba, 512 | 4096), "lba: found `{lba}`, expected 512 or 4096");
    let block = number("block", u64::from(!managed), 1 << 40)?;
    ensure!(
        managed || block.is_multiple_of(lba),
        "block: found `{block}`, expected a multiple of lba={lba}"
    );
    let load = NamedLoad {
        driver: field("driver").to_owned(),
        lba: u32::try_from(lba).expect("512 or 4096"),
        kind,
        block,
        zones: u32::try_from(number("zones", 1, 4096)?).expect("at most 4096"),
        depth: u32::try_from(number("depth", 1, 1 << 16)?).expect("at most 65536"),
    };
    let (op, dir) = (op.to_owned(), Some(dir));
    Ok((Cell { file: 0, line: None, op, load: 0, dir, job: None, metric, value }, load))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_header(rows: &str) -> String {
        format!("{}\n{rows}", COLUMNS.join(","))
    }

    #[test]
    fn both_directions_and_all_metrics_of_a_run_are_one_load() {
        let text = with_header(
            "io,spdk,4096,read_write_10_90_strip:read,4096,1,1,iops,13600,1/s\n\
             io,spdk,4096,read_write_10_90_strip:write,4096,1,1,lat_p99,12.2,us\n\
             io,spdk,4096,concurrent_namespaces_x:read,4096,1,1,iops,3,1/s\n\
             management,spdk,4096,close,0,1,1,lat_mean,10.9,us\n",
        );
        let cells = parse(&text).unwrap();
        assert_eq!((cells.cells.len(), cells.loads.len(), cells.skipped), (3, 2, 1));
        let seen = cells.cells.iter().map(|cell| (cell.line, cell.load, cell.dir, cell.metric));
        let (read, write) = (Some(DataDir::Read), Some(DataDir::Write));
        let expected = [
            (Some(2), 0, read, Metric::Iops),
            (Some(3), 0, write, Metric::LatP99),
            (Some(5), 1, write, Metric::LatMean),
        ];
        assert!(seen.eq(expected));
    }

    #[test]
    fn errors_name_the_line_and_what_was_expected() {
        let error = |text: &str| format!("{:#}", parse(text).unwrap_err());
        assert!(error("a,b\n").starts_with("line 1: found the columns a,b, expected set,driver"));
        assert!(error("# A drive.\n\na,b\n").starts_with("line 3: found the columns a,b"));
        for (row, expected) in [
            ("x,spdk,4096,write:write,4096,1,1,iops,1,1/s", "set: found `x`, expected io or"),
            ("io,spdk,8,write:write,4096,1,1,iops,1,1/s", "lba: found `8`, expected 512 to"),
            ("io,spdk,4096,write,4096,1,1,iops,1,1/s", "op: found `write`, expected an"),
            ("io,spdk,4096,write:write,512,1,1,iops,1,1/s", "block: found `512`, expected a"),
            ("io,spdk,4096,write:write,4096,0,1,iops,1,1/s", "zones: found `0`, expected 1"),
            ("io,spdk,4096,write:write,4096,1,1,lat,1,us", "metric: found `lat`, expected one"),
            ("io,spdk,4096,write:write,4096,1,1,iops,1,us", "unit: found `us`, expected `1/s`"),
            ("io,spdk,4096,write:write,4096,1,1,iops,-1,1/s", "value: found `-1`, expected a"),
        ] {
            let error = error(&with_header(row));
            assert!(error.starts_with(&format!("line 2: {expected}")), "{error}");
        }
        assert!(error(&with_header("io,spdk")).contains("line: 2"));
    }
}
