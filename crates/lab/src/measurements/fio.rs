//! fio's JSON reports, Zonal's own among them: they have the options of each job beside its results.
//! The jobs of a reporting group ran together and are one load.
use super::{Assume, Cell, Cells, Distribution, JobLoad, LEAST_POINTS, Load, Metric, PERCENTILES};
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value};
use zonal_blk::ZoneWrite;
use zonal_fio::job::{DataDir, Job, Rw};
use zonal_fio::jobfile::{self, JobSet, MemoryEnvironment};

/// Options in fio's JSON that belong to the run or to its device, not to the load.
const IGNORED_OPTIONS: [&str; 7] =
    ["name", "filename", "directory", "ioengine", "runtime", "time_based", "ramp_time"];

/// The directions of a report.
const DIRECTIONS: [(&str, DataDir); 3] =
    [("read", DataDir::Read), ("write", DataDir::Write), ("trim", DataDir::Trim)];

/// The JSON in a report, from the first line that begins with a brace: fio prints its notices before
/// it.
pub(super) fn json(text: &str) -> Option<&str> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with('{') {
            return Some(&text[at..]);
        }
        at += line.len();
    }
    None
}

/// The I/O of fio in one direction, over all clones.
#[derive(Default)]
struct Done {
    ios: f64,
    iops: f64,
    /// Sum of the latencies in nanoseconds.
    latency: f64,
    /// Completion latencies in microseconds, by percent; of one clone.
    percentiles: Vec<(f64, f64)>,
    entries: usize,
}

/// The jobs of a group, which ran together.
struct Group {
    id: u64,
    name: String,
    options: Vec<String>,
    device: Option<String>,
    driver: String,
    done: [Done; 3],
}

/// Parses a report.
pub(super) fn parse(stem: &str, text: &str, assume: &Assume) -> Result<Cells> {
    let report: Value = serde_json::from_str(text).context("not the JSON of one fio run")?;
    let jobs = report["jobs"].as_array().context("no `jobs`: expected the JSON report of fio")?;
    let empty = Map::new();
    let global = report["global options"].as_object().unwrap_or(&empty);
    let mut groups: Vec<Group> = Vec::new();
    // With numjobs and without group_reporting each clone has an entry.
    let mut last: Option<(u64, &str)> = None;
    // Zonal's engine has this name unless told otherwise.
    let engine = if report["zonal"].is_object() { "libaio" } else { "psync" };
    for job in jobs {
        let name = job["jobname"].as_str().context("a job without `jobname`")?;
        let id = job["groupid"].as_u64().with_context(|| format!("job {name}: no `groupid`"))?;
        let in_job = || format!("job {name}");
        if groups.last().is_none_or(|group| group.id != id) {
            groups.push(Group::new(id, format!("{stem}: {name}"), engine));
        }
        let group = groups.last_mut().expect("there is one now");
        if last != Some((id, name)) {
            group.add_job(name, global, job).with_context(in_job)?;
        }
        group.add_results(job).with_context(in_job)?;
        last = Some((id, name));
    }
    let said = Said::of(&report);
    let mut cells = Cells::default();
    for group in groups {
        let name = group.name.clone();
        group.into_cells(&said, assume, &mut cells).with_context(|| name)?;
    }
    Ok(cells)
}

/// The block layer's settings in Zonal's own reports.
struct Said {
    zone_write: Option<ZoneWrite>,
    scheduler: Option<String>,
}

impl Said {
    fn of(report: &Value) -> Self {
        let Some(own) = report["zonal"].as_object() else {
            return Said { zone_write: None, scheduler: None };
        };
        let policy = own.get("policy").and_then(Value::as_str);
        let scheduler = own.get("scheduler").map_or(Some("none"), |all| all[0]["name"].as_str());
        Said {
            zone_write: policy.and_then(|name| name.parse().ok()),
            scheduler: scheduler.map(str::to_owned),
        }
    }
}

impl Group {
    /// A group of jobs whose engine is `engine` unless they name one.
    fn new(id: u64, name: String, engine: &str) -> Self {
        let (options, driver) = (Vec::new(), engine.to_owned());
        Group { id, name, options, device: None, driver, done: Default::default() }
    }

    /// Adds the options of a job.
    fn add_job(&mut self, name: &str, global: &Map<String, Value>, job: &Value) -> Result<()> {
        let own = job["job options"].as_object().context("no `job options`")?;
        let inherited = global.iter().filter(|(key, _)| !own.contains_key(*key));
        self.options.push(format!("--name={name}"));
        self.options.extend(inherited.chain(own).filter_map(option));
        let given = |key: &str| own.get(key).or_else(|| global.get(key)).and_then(Value::as_str);
        if let Some(engine) = given("ioengine") {
            // SPDK's engine is a plug-in that is given by its path.
            let driver = if engine.contains("spdk") { "spdk" } else { engine };
            driver.clone_into(&mut self.driver);
        }
        if let Some(device) = given("filename") {
            let other = self.device.get_or_insert_with(|| device.to_owned());
            ensure!(
                other == device,
                "filename: found `{device}`, expected that of the other jobs of its group, `{other}`"
            );
        }
        Ok(())
    }

    /// Adds the results of a job or of a clone.
    fn add_results(&mut self, job: &Value) -> Result<()> {
        let error = job["error"].as_i64().unwrap_or(0);
        ensure!(error == 0, "it failed in fio with error {error}, expected a job that did its I/O");
        for (name, dir) in DIRECTIONS {
            let results = &job[name];
            let number = |of: &Value, what: &str| {
                of.as_f64().with_context(|| format!("{name}: no `{what}`, expected fio's 3.x JSON"))
            };
            if dir == DataDir::Trim && results.is_null() {
                continue;
            }
            let ios = number(&results["total_ios"], "total_ios")?;
            if ios == 0.0 {
                continue;
            }
            let done = &mut self.done[dir as usize];
            done.entries += 1;
            done.ios += ios;
            done.iops += number(&results["iops"], "iops")?;
            done.latency += ios * number(&results["lat_ns"]["mean"], "lat_ns")?;
            done.percentiles = percentiles(&results["clat_ns"]["percentile"]);
        }
        Ok(())
    }

    fn into_cells(self, said: &Said, assume: &Assume, cells: &mut Cells) -> Result<()> {
        let set = jobfile::parse_args(&self.options, &MemoryEnvironment::default())?;
        refuse_dropped(&set)?;
        let mut load = JobLoad {
            name: self.name.clone(),
            class: class_of(&set.jobs),
            driver: self.driver,
            options: self.options,
            block: block_of(&set.jobs),
            zone_write: said.zone_write,
            scheduler: said.scheduler.clone(),
        };
        let assumed =
            assume.complete(&mut load, set.jobs.iter().any(|job| job.ioscheduler.is_some()));
        if !assumed.is_empty() {
            cells.assumptions.push(format!("jobs over {}: {assumed}", load.driver));
        }
        let at = cells.loads.len();
        cells.loads.push(Load::Jobs(load));
        ensure!(self.done.iter().any(|done| done.ios > 0.0), "fio did no I/O");
        for (name, dir) in DIRECTIONS {
            let done = &self.done[dir as usize];
            let mut cell = |metric: Metric, value: f64| {
                let (op, dir) = (format!("{}:{name}", self.name), Some(dir));
                if value > 0.0 {
                    cells.cells.push(Cell {
                        file: 0,
                        line: None,
                        op,
                        load: at,
                        dir,
                        job: None,
                        metric,
                        value,
                    });
                }
            };
            if done.ios == 0.0 {
                continue;
            }
            cell(Metric::Iops, done.iops);
            cell(Metric::LatMean, done.latency / done.ios / 1e3);
            // Percentiles of several clones do not add up.
            if done.entries > 1 {
                continue;
            }
            for metric in Metric::ALL {
                let Some(percent) = metric.percentile() else { continue };
                let point = done.percentiles.iter().find(|(known, _)| *known == percent);
                point.into_iter().for_each(|&(_, value)| cell(metric, value));
            }
            if done.percentiles.len() >= LEAST_POINTS {
                let points = done.percentiles.clone();
                cells.distributions.push(Distribution {
                    load: at,
                    dir: Some(dir),
                    job: None,
                    points,
                });
            }
        }
        Ok(())
    }
}

/// The percentiles of a report that the model's are compared with.
fn percentiles(of: &Value) -> Vec<(f64, f64)> {
    let found = of.as_object().into_iter().flatten().filter_map(|(percent, nanos)| {
        let percent: f64 = percent.parse().ok()?;
        PERCENTILES.contains(&percent).then_some((percent, nanos.as_f64()? / 1e3))
    });
    let mut found: Vec<(f64, f64)> = found.collect();
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    found
}

/// A job option of fio's JSON, if it belongs to the load.
fn option((key, value): (&String, &Value)) -> Option<String> {
    let is_log = key.starts_with("write_") && key.ends_with("_log");
    if is_log || IGNORED_OPTIONS.contains(&key.as_str()) {
        return None;
    }
    Some(match value.as_str() {
        Some("") | None => format!("--{key}"),
        Some(value) => format!("--{key}={value}"),
    })
}

/// Refuses jobs that would run differently than they did.
pub(super) fn refuse_dropped(set: &JobSet) -> Result<()> {
    // Loads run for a time, in which the first I/Os are not measured.
    if let Some((job, ios)) = set.jobs.iter().find_map(|job| Some((&job.name, job.number_ios?))) {
        bail!(
            "job {job}: number_ios: found {ios}, expected a job without it: loads run for a time"
        );
    }
    let notices = set.notices(false).map(drop);
    notices.context("expected only options that Zonal has (see `zonal options`)")
}

/// The length of an I/O of the first job.
pub(super) fn block_of(jobs: &[Job]) -> u64 {
    jobs.first().map_or(0, |job| match job.rw {
        Rw::Read => job.bs[DataDir::Read as usize],
        Rw::Write | Rw::Mixed => job.bs[DataDir::Write as usize],
        Rw::Trim | Rw::TrimWrite => job.bs[DataDir::Trim as usize],
    })
}

/// The kind of work of jobs that run together.
pub(super) fn class_of(jobs: &[Job]) -> &'static str {
    let class = |job: &Job| match (job.rw, job.random) {
        (Rw::Write, _) if job.zone_append => "appends",
        (Rw::Write, false) => "writes",
        (Rw::Write, true) => "random writes",
        (Rw::Read, false) => "sequential reads",
        (Rw::Read, true) => "random reads",
        (Rw::Trim | Rw::TrimWrite, _) => "trims",
        (Rw::Mixed, _) => "mixes",
    };
    let first = jobs.first().map_or("mixes", class);
    if jobs.iter().all(|job| class(job) == first) { first } else { "mixes" }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIO: &str = r#"fio: this is a notice
{ "fio version": "fio-3.33", "global options": { "bs": "64k", "ioengine": "io_uring" },
  "jobs": [
    { "jobname": "w", "groupid": 0, "error": 0, "job options": { "rw": "write", "bs": "1m", "numjobs": "2", "filename": "/dev/sdb" },
      "read": { "total_ios": 0 }, "write": { "total_ios": 100, "iops": 10.0, "lat_ns": { "mean": 4000.0 } } },
    { "jobname": "w", "groupid": 0, "error": 0, "job options": { "rw": "write", "bs": "1m", "numjobs": "2", "filename": "/dev/sdb" },
      "read": { "total_ios": 0 }, "write": { "total_ios": 300, "iops": 30.0, "lat_ns": { "mean": 2000.0 } } },
    { "jobname": "r", "groupid": 1, "error": 0, "job options": { "rw": "randread", "norandommap": "" },
      "read": { "total_ios": 50, "iops": 5.0, "lat_ns": { "mean": 9000.0 },
        "clat_ns": { "percentile": { "50.000000": 8000, "7.000000": 1, "99.000000": 9000, "99.900000": 10000 } } },
      "write": { "total_ios": 0 } } ] }"#;

    fn read(text: &str) -> Result<Cells> {
        parse("run", json(text).unwrap_or(text), &Assume::default())
    }

    fn jobs(load: &Load) -> &JobLoad {
        let Load::Jobs(load) = load else { panic!("a report has jobs") };
        load
    }

    #[test]
    fn groups_of_a_fio_run_are_loads_and_clones_are_one_job() {
        let cells = read(FIO).unwrap();
        let [write, reads] = &cells.loads[..] else { panic!("two groups") };
        assert_eq!(jobs(write).options, ["--name=w", "--rw=write", "--bs=1m", "--numjobs=2"]);
        assert_eq!(jobs(reads).options, ["--name=r", "--bs=64k", "--rw=randread", "--norandommap"]);
        assert_eq!((write.class(), reads.class()), ("writes", "random reads"));
        assert_eq!((write.driver(), reads.driver()), ("io_uring", "io_uring"));
        let figures: Vec<(&str, Metric, f64)> =
            cells.cells.iter().map(|cell| (cell.op.as_str(), cell.metric, cell.value)).collect();
        let expected = [
            ("run: w:write", Metric::Iops, 40.0),
            ("run: w:write", Metric::LatMean, 2.5),
            ("run: r:read", Metric::Iops, 5.0),
            ("run: r:read", Metric::LatMean, 9.0),
            ("run: r:read", Metric::LatP50, 8.0),
            ("run: r:read", Metric::LatP99, 9.0),
            ("run: r:read", Metric::LatP999, 10.0),
        ];
        assert_eq!(figures, expected);
        let [distribution] = &cells.distributions[..] else { panic!("of one job") };
        assert_eq!(distribution.points, [(50.0, 8.0), (99.0, 9.0), (99.9, 10.0)]);
        assert_eq!(
            cells.assumptions[0],
            "jobs over io_uring: the policy that is the device's default, scheduler=none"
        );
    }

    #[test]
    fn own_reports_say_policy_and_scheduler() {
        let with = |own: &str| FIO.replace(r#""jobs""#, &format!(r#""zonal": {own}, "jobs""#));
        let cells = read(&with(r#"{ "policy": "qd1" }"#)).unwrap();
        let load = jobs(&cells.loads[0]);
        assert_eq!(
            (load.zone_write, load.scheduler.as_deref()),
            (Some(ZoneWrite::Qd1), Some("none"))
        );
        assert!(cells.assumptions.is_empty(), "{:?}", cells.assumptions);
        let own = r#"{ "policy": "lock", "scheduler": [{ "name": "mq-deadline" }] }"#;
        let cells = read(&with(own)).unwrap();
        assert_eq!(jobs(&cells.loads[0]).scheduler.as_deref(), Some("mq-deadline"));
    }

    #[test]
    fn reports_that_cannot_be_run_again_are_refused() {
        let error = |text: &str| format!("{:#}", read(text).unwrap_err());
        assert!(error("{").starts_with("not the JSON of one fio run"));
        assert_eq!(error("{}"), "no `jobs`: expected the JSON report of fio");
        assert_eq!(error(r#"{"jobs":[{}]}"#), "a job without `jobname`");
        let idle = error(&FIO.replace("\"total_ios\": 50", "\"total_ios\": 0"));
        assert_eq!(idle, "run: r: fio did no I/O");
        let failed = error(&FIO.replacen("\"error\": 0", "\"error\": 5", 1));
        assert!(failed.starts_with("job w: it failed in fio with error 5"), "{failed}");
        let dropped = error(&FIO.replace("\"norandommap\": \"\"", "\"exec_prerun\": \"true\""));
        assert!(dropped.starts_with("run: r: expected only options that Zonal has"), "{dropped}");
        let unknown = error(&FIO.replace("norandommap", "norandommaq"));
        assert!(unknown.contains("norandommaq"), "{unknown}");
        let old = error(&FIO.replace("lat_ns", "lat"));
        assert!(old.contains("write: no `lat_ns`, expected fio's 3.x JSON"), "{old}");
        let two = FIO.replacen("\"groupid\": 1", "\"groupid\": 0", 1);
        let two = error(&two.replace("\"norandommap\": \"\"", "\"filename\": \"/dev/sdc\""));
        assert!(two.contains("filename: found `/dev/sdc`, expected that of the other"), "{two}");
    }
}
