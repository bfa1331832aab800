//! Measured figures from CSV: one a line, with the job options of its load.
//!
//! ```text
//! name,job,zone_write,unit,value
//! random zones,rw=randwrite bs=1m iodepth=32 numjobs=16 zonemode=zbd,qd1,MB/s,109
//! ```
//!
//! With a column `metric`, a line may have a latency. Lines of one load that follow one another are of one run.
use super::{Assume, Cell, Cells, JobLoad, Load, Metric, fio};
use crate::experiment::Unit;
use anyhow::{Context, Result, bail, ensure};
use zonal_blk::ZoneWrite;
use zonal_fio::jobfile::{self, MemoryEnvironment};

/// The columns; the first three are required.
const COLUMNS: [&str; 7] = ["job", "value", "unit", "zone_write", "scheduler", "name", "metric"];

/// The host of these loads, which have no engine.
const DRIVER: &str = "libaio";

/// Parses the text of a file.
pub(super) fn parse(text: &str, assume: &Assume) -> Result<Cells> {
    let (mut reader, header, line) = super::csv_table(text)?;
    let expected = || {
        let named = super::COLUMNS.join(",");
        format!("expected the columns {} or {named}, or fio's JSON", COLUMNS.join(","))
    };
    if let Some(unknown) = header.iter().find(|column| !COLUMNS.contains(column)) {
        let hint = zonal_blk::did_you_mean(unknown, COLUMNS);
        bail!("line {line}: unknown column `{unknown}`, {}{hint}", expected());
    }
    for required in &COLUMNS[..3] {
        let there = header.iter().filter(|column| column == required).count();
        ensure!(there == 1, "line {line}: found {there} columns `{required}`, {}", expected());
    }
    let mut cells = Cells::default();
    for record in reader.records() {
        let record = record?;
        let line = record.position().map_or(0, csv::Position::line);
        let field = |column: &str| {
            let at = header.iter().position(|known| known == column)?;
            record.get(at).filter(|field| !field.is_empty())
        };
        let (cell, mut load) = row(field).with_context(|| format!("line {line}"))?;
        let set = jobfile::parse_args(&load.options, &MemoryEnvironment::default())
            .with_context(|| format!("line {line}: job"))?;
        fio::refuse_dropped(&set).with_context(|| format!("line {line}: job"))?;
        (load.class, load.block) = (fio::class_of(&set.jobs), fio::block_of(&set.jobs));
        let scheduled = set.jobs.iter().any(|job| job.ioscheduler.is_some());
        let assumed = assume.complete(&mut load, scheduled);
        if !assumed.is_empty() && !cells.assumptions.contains(&assumed) {
            cells.assumptions.push(assumed);
        }
        let load = Load::Jobs(load);
        if cells.loads.last() != Some(&load) {
            cells.loads.push(load);
        }
        cells.cells.push(Cell { line: Some(line), load: cells.loads.len() - 1, ..cell });
    }
    Ok(cells)
}

/// One line.
fn row<'a>(field: impl Fn(&str) -> Option<&'a str>) -> Result<(Cell, JobLoad)> {
    let job = field("job").context("job: expected job options such as `rw=write bs=1m`")?;
    let words = shlex::split(job).with_context(|| format!("job: unbalanced quotes in `{job}`"))?;
    let dashed = |word: String| match word.starts_with("--") {
        true => word,
        false => format!("--{word}"),
    };
    let mut options: Vec<String> = words.into_iter().map(dashed).collect();
    if !options.iter().any(|option| option.starts_with("--name=")) {
        options.insert(0, "--name=job".to_owned());
    }
    let known = |text: &str| text.parse::<ZoneWrite>().context("zone_write");
    let (metric, value) = figure(&field)?;
    let name = field("name").unwrap_or(job).to_owned();
    let load = JobLoad {
        name: name.clone(),
        class: "",
        driver: DRIVER.to_owned(),
        options,
        block: 0,
        zone_write: field("zone_write").map(known).transpose()?,
        scheduler: field("scheduler").map(str::to_owned),
    };
    Ok((Cell { file: 0, line: None, op: name, load: 0, dir: None, job: None, metric, value }, load))
}

/// The metric and the value of a line.
fn figure<'a>(field: &impl Fn(&str) -> Option<&'a str>) -> Result<(Metric, f64)> {
    let (unit, value) = (field("unit").unwrap_or_default(), field("value").unwrap_or_default());
    let value: f64 = value
        .parse()
        .ok()
        .filter(|value: &f64| value.is_finite() && *value > 0.0)
        .with_context(|| format!("value: found `{value}`, expected a number above 0"))?;
    if let Some(metric) = field("metric") {
        let metric = Metric::from_name(metric)?;
        let expected = metric.unit();
        let name = metric.name();
        ensure!(unit == expected, "unit: found `{unit}`, expected `{expected}` for {name}");
        return Ok((metric, value));
    }
    let unit = Unit::from_name(unit).with_context(|| {
        let hint = zonal_blk::did_you_mean(unit, Unit::names());
        format!("unit: found `{unit}`, expected {}{hint}", Unit::names().join(" or "))
    })?;
    Ok(match unit {
        Unit::MegabytesPerSecond => (Metric::Bandwidth, value),
        Unit::Kiops => (Metric::Iops, value * 1e3),
        Unit::Miops => (Metric::Iops, value * 1e6),
        Unit::Tps => (Metric::Iops, value),
        Unit::WriteAmplification => unreachable!("it is not among the names"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> String {
        format!("{:#}", parse(text, &Assume::default()).unwrap_err())
    }

    #[test]
    fn rows_become_jobs_with_their_figures() {
        let text = "name, job, zone_write, scheduler, unit, value\n\
                    seq, --rw=write --bs=1m, qd1, none, MB/s, 245.5\n\
                    ,\"rw=randwrite description='a b'\",,, KIOPS, 2\n";
        let cells = parse(text, &Assume::default()).unwrap();
        let [Load::Jobs(seq), Load::Jobs(random)] = &cells.loads[..] else { panic!("two jobs") };
        assert_eq!(seq.options, ["--name=job", "--rw=write", "--bs=1m"]);
        assert_eq!((seq.zone_write, seq.class), (Some(ZoneWrite::Qd1), "writes"));
        assert_eq!(random.options, ["--name=job", "--rw=randwrite", "--description=a b"]);
        let figures: Vec<(&str, Metric, f64)> =
            cells.cells.iter().map(|cell| (cell.op.as_str(), cell.metric, cell.value)).collect();
        let expected = [
            ("seq", Metric::Bandwidth, 245.5),
            ("rw=randwrite description='a b'", Metric::Iops, 2000.0),
        ];
        assert_eq!(figures, expected);
        assert_eq!(cells.assumptions.len(), 1, "the first says both: {:?}", cells.assumptions);
    }

    #[test]
    fn lines_of_one_load_that_follow_one_another_are_of_one_run() {
        let text = "job,metric,unit,value\n\
                    rw=write,bw,MB/s,246\n\
                    rw=write,lat_p99,us,30540\n\
                    rw=read,lat_mean,us,8401\n\
                    rw=read,,MB/s,249\n";
        let cells = parse(text, &Assume::default()).unwrap();
        let figures: Vec<_> =
            cells.cells.iter().map(|cell| (cell.load, cell.metric, cell.value)).collect();
        let expected = [
            (0, Metric::Bandwidth, 246.0),
            (0, Metric::LatP99, 30540.0),
            (1, Metric::LatMean, 8401.0),
            (1, Metric::Bandwidth, 249.0),
        ];
        assert_eq!(figures, expected);
        assert_eq!(cells.loads.len(), 2);
        let error = message("job,metric,unit,value\nrw=write,lat_p99,ms,30\n");
        assert_eq!(error, "line 2: unit: found `ms`, expected `us` for lat_p99");
        let error = message("job,metric,unit,value\nrw=write,lat_99,us,30\n");
        assert!(
            error.starts_with("line 2: metric: found `lat_99`, expected one of iops"),
            "{error}"
        );
    }

    #[test]
    fn errors_name_the_line_and_what_was_expected() {
        let columns = message("job,value\n");
        let expected = "line 1: found 0 columns `unit`, expected the columns job,value,unit,";
        assert!(columns.starts_with(expected), "{columns}");
        assert!(message("job,value,unit,speed\n").starts_with("line 1: unknown column `speed`"));
        let row = |row: &str| message(&format!("job,value,unit,zone_write\n{row}\n"));
        assert_eq!(row("rw=write,x,MB/s,"), "line 2: value: found `x`, expected a number above 0");
        assert_eq!(
            row("rw=write,-1,MB/s,"),
            "line 2: value: found `-1`, expected a number above 0"
        );
        assert_eq!(
            row("rw=write,1,furlongs,"),
            "line 2: unit: found `furlongs`, expected MB/s or KIOPS or MIOPS or tps"
        );
        assert_eq!(
            row("rw=write,1,MB/s,qd2"),
            "line 2: zone_write: no policy is called `qd2`, expected plug, qd1, lock or off, did you mean `qd1`?"
        );
        assert_eq!(row(",1,MB/s,"), "line 2: job: expected job options such as `rw=write bs=1m`");
        assert!(row("rw=write,1").contains("line: 2"), "{}", row("rw=write,1"));
        assert_eq!(
            row("rw=write number_ios=1000,1,MB/s,"),
            "line 2: job: job job: number_ios: found 1000, expected a job without it: loads run for a time"
        );
        assert!(row("bs=64q,1,MB/s,").starts_with("line 2: job: "), "{}", row("bs=64q,1,MB/s,"));
    }
}
