//! Measurements of a drive, from CSV or from fio's JSON reports. Nothing is skipped silently, and an
//! error names the file and the line or the job.
use crate::experiment::Unit;
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value};
use std::path::Path;
use zonal_blk::ZoneWrite;
use zonal_fio::text_file;

/// The columns of a CSV file; the first three are required.
const COLUMNS: [&str; 6] = ["job", "value", "unit", "zone_write", "scheduler", "name"];

/// Options in fio's JSON that belong to the run or to its device, not to the load.
const IGNORED_OPTIONS: [&str; 8] = [
    "filename",
    "directory",
    "ioengine",
    "runtime",
    "time_based",
    "ramp_time",
    "write_bw_log",
    "write_lat_log",
];

/// A load with the figure that was measured on the drive.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// Its name for people.
    pub name: String,
    /// Job options, as `zonal run` takes them.
    pub jobs: Vec<String>,
    /// The zone-write policy; `None` for the device's default.
    pub zone_write: Option<ZoneWrite>,
    /// The scheduler; `None` for the one that the job names.
    pub scheduler: Option<String>,
    /// The unit of `value`.
    pub unit: Unit,
    /// The figure.
    pub value: f64,
}

/// Reads a file: JSON if it begins with a brace, CSV otherwise.
///
/// # Errors
/// The file cannot be read or is malformed.
pub fn read(path: &Path) -> Result<Vec<Measurement>> {
    let name = path.display();
    let text = text_file::read_string(path).with_context(|| format!("{name}: cannot read"))?;
    let stem = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into());
    let parsed = match text.trim_start().starts_with('{') {
        true => fio(&stem, &text),
        false => csv(&text),
    };
    let measurements = parsed.with_context(|| format!("{name}"))?;
    ensure!(!measurements.is_empty(), "{name}: expected at least one measurement, found none");
    Ok(measurements)
}

fn csv(text: &str) -> Result<Vec<Measurement>> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let header = reader.headers().context("line 1")?.clone();
    let expected = || format!("expected the columns {}", COLUMNS.join(","));
    if let Some(unknown) = header.iter().find(|column| !COLUMNS.contains(column)) {
        bail!("line 1: unknown column `{unknown}`, {}", expected());
    }
    for required in &COLUMNS[..3] {
        let there = header.iter().filter(|column| column == required).count();
        ensure!(there == 1, "line 1: found {there} columns `{required}`, {}", expected());
    }
    let mut measurements = Vec::new();
    for record in reader.records() {
        let record = record?;
        let line = record.position().map_or(0, csv::Position::line);
        let field = |column: &str| {
            let at = header.iter().position(|known| known == column)?;
            record.get(at).filter(|field| !field.is_empty())
        };
        measurements.push(row(field).with_context(|| format!("line {line}"))?);
    }
    Ok(measurements)
}

/// One line of CSV.
fn row<'a>(field: impl Fn(&str) -> Option<&'a str>) -> Result<Measurement> {
    let job = field("job").context("job: expected job options such as `rw=write bs=1m`")?;
    let words = shlex::split(job).with_context(|| format!("job: unbalanced quotes in `{job}`"))?;
    let dashed = |word: String| match word.starts_with("--") {
        true => word,
        false => format!("--{word}"),
    };
    let mut jobs: Vec<String> = words.into_iter().map(dashed).collect();
    if !jobs.iter().any(|option| option.starts_with("--name=")) {
        jobs.insert(0, "--name=job".to_owned());
    }
    let policy = |text: &str| {
        let mut policies =
            [ZoneWrite::Plug, ZoneWrite::Qd1, ZoneWrite::Lock, ZoneWrite::Off].into_iter();
        policies
            .find(|policy| policy.name() == text)
            .with_context(|| format!("zone_write: found `{text}`, expected plug, qd1, lock or off"))
    };
    let unit = field("unit").unwrap_or_default();
    let value = field("value").unwrap_or_default();
    Ok(Measurement {
        name: field("name").unwrap_or(job).to_owned(),
        jobs,
        zone_write: field("zone_write").map(policy).transpose()?,
        scheduler: field("scheduler").map(str::to_owned),
        unit: Unit::from_name(unit).with_context(|| {
            format!("unit: found `{unit}`, expected {}", Unit::names().join(" or "))
        })?,
        value: value
            .parse()
            .ok()
            .filter(|value: &f64| value.is_finite() && *value > 0.0)
            .with_context(|| format!("value: found `{value}`, expected a number above 0"))?,
    })
}

/// A JSON report of fio. The jobs of a group ran together and are one measurement.
fn fio(stem: &str, text: &str) -> Result<Vec<Measurement>> {
    let report: Value = serde_json::from_str(text).context("not the JSON of one fio run")?;
    let jobs = report["jobs"].as_array().context("no `jobs`: expected the JSON report of fio")?;
    let empty = Map::new();
    let global = report["global options"].as_object().unwrap_or(&empty);
    let mut groups: Vec<(u64, Measurement)> = Vec::new();
    // With numjobs and without group_reporting each clone has an entry.
    let mut last: Option<(u64, &str)> = None;
    for job in jobs {
        let name = job["jobname"].as_str().context("a job without `jobname`")?;
        let group = job["groupid"].as_u64().with_context(|| format!("{name}: no `groupid`"))?;
        let own = job["job options"].as_object();
        let own = own.with_context(|| format!("{name}: no `job options`"))?;
        let bandwidth = |dir: &str| job[dir]["bw_bytes"].as_f64();
        let (read, write) = (bandwidth("read"), bandwidth("write"));
        let (read, write) = read
            .zip(write)
            .with_context(|| format!("{name}: no `bw_bytes` of reads and writes"))?;
        let fresh = last != Some((group, name));
        last = Some((group, name));
        let at = groups.iter().position(|(known, _)| *known == group).unwrap_or_else(|| {
            let label = format!("{stem}: {name}");
            groups.push((group, Measurement::of_fio(label)));
            groups.len() - 1
        });
        let measurement = &mut groups[at].1;
        measurement.value += (read + write) / 1e6;
        if fresh {
            measurement.jobs.push(format!("--name={name}"));
            let given = |key: &str| own.contains_key(key);
            let inherited = global.iter().filter(|(key, _)| !given(key));
            measurement.jobs.extend(inherited.chain(own).filter_map(option));
        }
    }
    let measurements: Vec<Measurement> =
        groups.into_iter().map(|(_, measurement)| measurement).collect();
    if let Some(idle) = measurements.iter().find(|measurement| measurement.value <= 0.0) {
        bail!("{}: fio did no I/O", idle.name);
    }
    Ok(measurements)
}

/// A job option of fio's JSON, if it belongs to the load.
fn option((key, value): (&String, &Value)) -> Option<String> {
    if key == "name" || IGNORED_OPTIONS.contains(&key.as_str()) {
        return None;
    }
    Some(match value.as_str() {
        Some("") | None => format!("--{key}"),
        Some(value) => format!("--{key}={value}"),
    })
}

impl Measurement {
    fn of_fio(name: String) -> Self {
        Measurement {
            name,
            jobs: Vec::new(),
            zone_write: None,
            scheduler: None,
            unit: Unit::MegabytesPerSecond,
            value: 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> String {
        format!("{:#}", csv(text).unwrap_err())
    }

    #[test]
    fn rows_become_jobs_with_their_figures() {
        let text = "name, job, zone_write, scheduler, unit, value\n\
                    seq, --rw=write --bs=1m, qd1, none, MB/s, 245.5\n\
                    ,\"rw=randwrite description='a b'\",,, KIOPS, 2\n";
        let rows = csv(text).unwrap();
        assert_eq!(rows[0].jobs, ["--name=job", "--rw=write", "--bs=1m"]);
        assert_eq!(rows[0].zone_write, Some(ZoneWrite::Qd1));
        assert_eq!((rows[0].name.as_str(), rows[0].value), ("seq", 245.5));
        assert_eq!(rows[1].jobs, ["--name=job", "--rw=randwrite", "--description=a b"]);
        assert_eq!((rows[1].unit, rows[1].scheduler.clone()), (Unit::Kiops, None));
    }

    #[test]
    fn errors_name_the_line_and_what_was_expected() {
        assert_eq!(
            message("job,value\n"),
            "line 1: found 0 columns `unit`, expected the columns job,value,unit,zone_write,scheduler,name"
        );
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
            "line 2: zone_write: found `qd2`, expected plug, qd1, lock or off"
        );
        assert_eq!(row(",1,MB/s,"), "line 2: job: expected job options such as `rw=write bs=1m`");
        assert!(row("rw=write,1").contains("line: 2"), "{}", row("rw=write,1"));
    }

    const FIO: &str = r#"{ "fio version": "fio-3.33", "global options": { "bs": "64k", "ioengine": "libaio" },
        "jobs": [
          { "jobname": "w", "groupid": 0, "job options": { "rw": "write", "bs": "1m", "numjobs": "2", "filename": "/dev/sdb" },
            "read": { "bw_bytes": 0 }, "write": { "bw_bytes": 100000000 } },
          { "jobname": "w", "groupid": 0, "job options": { "rw": "write", "bs": "1m", "numjobs": "2", "filename": "/dev/sdb" },
            "read": { "bw_bytes": 0 }, "write": { "bw_bytes": 50000000 } },
          { "jobname": "r", "groupid": 1, "job options": { "rw": "randread", "stonewall": "" },
            "read": { "bw_bytes": 2500000 }, "write": { "bw_bytes": 0 } } ] }"#;

    #[test]
    fn groups_of_a_fio_run_are_measurements_and_clones_are_one_job() {
        let read = fio("run", FIO).unwrap();
        assert_eq!(read.len(), 2);
        assert_eq!(read[0].jobs, ["--name=w", "--rw=write", "--bs=1m", "--numjobs=2"]);
        assert_eq!((read[0].name.as_str(), read[0].value), ("run: w", 150.0));
        assert_eq!(read[1].jobs, ["--name=r", "--bs=64k", "--rw=randread", "--stonewall"]);
        assert_eq!(read[1].value, 2.5);
    }

    #[test]
    fn malformed_reports_of_fio_are_rejected() {
        let error = |text: &str| format!("{:#}", fio("x", text).unwrap_err());
        assert!(error("{").starts_with("not the JSON of one fio run"));
        assert_eq!(error("{}"), "no `jobs`: expected the JSON report of fio");
        assert_eq!(error(r#"{"jobs":[{}]}"#), "a job without `jobname`");
        let idle = FIO.replace("2500000", "0");
        assert_eq!(error(&idle), "x: r: fio did no I/O");
    }
}
