//! Rows of figures that `benches/peers` writes and reads.
#[path = "../benches/peers/rows.rs"]
mod rows;

use rows::{HEADER, Row, compare, parse};

fn row(work: &str, tool: &str, value: f64) -> Row {
    Row {
        work: work.to_owned(),
        tool: tool.to_owned(),
        version: "1.0".to_owned(),
        value,
        unit: "IOPS".to_owned(),
        spread: Some(2.5),
    }
}

#[test]
fn rows_are_read_as_they_were_written() {
    let unknown = Row { spread: None, ..row("write 4k qd1", "spdk", 6.3e6) };
    let rows = vec![row("write 4k qd1", "zonal", 6.1e6), unknown];
    let text = format!("# measured today\n{HEADER}\n\n{}\n{}\n", rows[0], rows[1]);
    assert_eq!(parse("rows.csv", &text), Ok(rows));
}

#[test]
fn a_bad_row_is_an_error_with_its_line() {
    let error = |line: &str| {
        let text = format!("{HEADER}\nw,t,1,5,IOPS,1\n{line}\n");
        parse("rows.csv", &text).expect_err("it is bad")
    };
    for (line, expected) in [
        ("w,t,1,5", "found 4 fields, expected 6: work,tool,version,value,unit,spread"),
        ("w,,1,5,IOPS,1", "found no tool"),
        ("w,t,1,many,IOPS,1", "value: found `many`, expected a number above 0"),
        ("w,t,1,0,IOPS,1", "value: found `0`, expected a number above 0"),
        ("w,t,1,inf,IOPS,1", "value: found `inf`, expected a number above 0"),
        ("w,t,1,5,IOPS,-1", "spread: found `-1`, expected a number of at least 0"),
    ] {
        assert_eq!(error(line), format!("rows.csv, line 3: {expected}"));
    }
    let found = parse("rows.csv", "a,b\n").expect_err("no header");
    assert_eq!(found, format!("rows.csv, line 1: found `a,b`, expected `{HEADER}`"));
    let found = parse("rows.csv", "").expect_err("nothing");
    assert_eq!(found, format!("rows.csv: found no rows, expected `{HEADER}` first"));
}

#[test]
fn a_row_of_rounds_has_their_median_and_quartiles() {
    let row = Row::of_rates("w".to_owned(), [5.0, 1.0, 4.0, 2.0, 3.0].into_iter(), "MB/s");
    assert_eq!((row.value, row.spread, row.tool.as_str()), (3.0, Some(200.0 / 3.0), "zonal"));
}

#[test]
fn the_kept_rows_of_spdk_are_read() {
    let name = "spdk-26.09-pre.csv";
    let rows = parse(name, include_str!("../benches/peers/spdk-26.09-pre.csv")).expect("rows");
    assert!(rows.iter().any(|row| row.tool == "spdk"), "{rows:?}");
    compare(&rows).expect("one unit for each work");
}

#[test]
fn figures_of_a_work_stand_beside_each_other() {
    let rows = [row("w", "spdk", 8.0), row("w", "zonal", 12.0), row("v", "fio", 3.0)];
    let text = compare(&rows).expect("one unit");
    let lines: Vec<Vec<&str>> =
        text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["work", "tool", "value", "unit", "spread", "zonal"]);
    assert_eq!(lines[1], ["v", "fio", "1.0", "3.0", "IOPS", "2.5", "%"]);
    assert_eq!(lines[2], ["w", "zonal", "1.0", "12.0", "IOPS", "2.5", "%"]);
    assert_eq!(lines[3], ["w", "spdk", "1.0", "8.0", "IOPS", "2.5", "%", "1.50", "x"]);
    let mut other = row("w", "fio", 4.0);
    other.unit = "MB/s".to_owned();
    let error = compare(&[rows[0].clone(), rows[1].clone(), other]).expect_err("two units");
    assert_eq!(error, "w: found figures in IOPS and in MB/s, expected one unit");
}
