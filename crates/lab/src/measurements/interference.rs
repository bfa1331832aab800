//! Measured figures from CSV, of jobs that ran side by side, one kind disturbing the other.
//!
//! ```text
//! load,kind,op,block,jobs,depth,number,rate,offset,size,iops,mb_s,lat_mean,lat_p50,lat_p99,unit
//! 5ddc937e04,reset-on-write,reset,zone,1,1,1,,813z,91z,30.07,64578.2,20141.81,,,us
//! 5ddc937e04,reset-on-write,write,8k,1,1,1,,813z,91z,53909.64,441.6,17.87,15.42,18.82,us
//! ```
//!
//! The lines with one value of `load` ran side by side. `docs/models.md` describes the columns. The zones
//! are those of the device, laid out so that no job waits for a zone of another:
//!
//! ```text
//!   the first third               the others
//!   reset, finished or padded     written and read by the others
//! ```
use super::{Cell, Cells, Load, Metric};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::fmt;
use zonal_blk::ZoneNo;
use zonal_device::device_spec::{self, DeviceSpec, WrittenZones};
use zonal_fio::job::DataDir;
use zonal_fio::options::parse_size;

/// The columns, in order.
const COLUMNS: [&str; 16] = [
    "load", "kind", "op", "block", "jobs", "depth", "number", "rate", "offset", "size", "iops",
    "mb_s", "lat_mean", "lat_p50", "lat_p99", "unit",
];

/// The host of these loads.
const DRIVER: &str = "io_uring_cmd";
/// The block with which a host pads a zone, which the file does not say.
const PADDING: u64 = 64 << 10;
/// Bytes that a job that finishes zones writes to each first.
const FIRST_WRITE: u64 = 4096;
/// In `softfinish`, a job with a lower figure than this, a second, pads zones; any other writes blocks.
const MOST_ZONES: f64 = 10.0;
/// A job that reaches this share of the rate that was asked of it has time left in which it is idle.
const REACHED: f64 = 0.95;

/// The zones of the device that loads run on.
#[derive(Clone, Copy, Debug)]
pub(super) struct DriveZones {
    zones: u32,
    /// Distance of zones, in bytes.
    size: u64,
    /// Capacity of a zone, in bytes.
    capacity: u64,
    /// Zones that may be open; 0 for no limit.
    max_open: u32,
}

impl DriveZones {
    /// Those of a device.
    pub(super) fn of(spec: &DeviceSpec) -> Result<Self> {
        let device = device_spec::build(spec)?;
        let limits = device.limits();
        let mut first = Vec::new();
        if limits.nr_zones > 0 {
            device.report_zones(ZoneNo(0), 1, &mut first).context("the first zone")?;
        }
        let [zone] = &first[..] else { bail!("these loads need zones, the device has none") };
        Ok(DriveZones {
            zones: limits.nr_zones,
            size: limits.zone_size.to_bytes().0,
            capacity: zone.capacity.to_bytes().0,
            max_open: limits.max_open_zones,
        })
    }

    /// Capacity of a zone, in bytes.
    pub(super) fn capacity(&self) -> f64 {
        self.capacity as f64
    }

    /// The first zone of jobs that write, append and read; those before are managed.
    fn first(&self) -> u32 {
        self.zones / 3
    }

    /// The first zone that is read: jobs that write beside reads have zones of their own.
    fn first_read(&self) -> u32 {
        (self.first() + self.zones) / 2
    }
}

/// Whether a file with this first line has these columns.
pub(super) fn is_header(line: &str) -> bool {
    line.trim_start().starts_with("load,kind,")
}

/// The work of the jobs of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Action {
    Write,
    Append,
    Read,
    Reset,
    Finish,
    /// Writes that pad zones, at a rate that is given.
    Pad,
}

impl Action {
    fn of(op: &str) -> Option<Self> {
        let known = [
            ("write", Action::Write),
            ("append", Action::Append),
            ("randread", Action::Read),
            ("reset", Action::Reset),
            ("finish", Action::Finish),
        ];
        known.into_iter().find(|(name, _)| *name == op).map(|(_, action)| action)
    }

    /// The direction in which its I/Os count.
    pub(super) fn direction(self) -> DataDir {
        match self {
            Action::Read => DataDir::Read,
            Action::Reset => DataDir::Trim,
            _ => DataDir::Write,
        }
    }
}

/// A line: jobs that do the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SideJob {
    pub(super) action: Action,
    pub(super) block: u64,
    pub(super) jobs: u32,
    pub(super) depth: u32,
    /// Limit for all of them together: of resets and padding in zones a second, else in bytes a second,
    /// which for a finish count the capacity of the zone.
    pub(super) limit: Option<f64>,
    /// It disturbs the others.
    disturbs: bool,
    /// `limit` is the measured rate: the file does not say what was asked for.
    as_measured: bool,
    /// The rate that was asked of a job that pads, in bytes a second, which count the capacity of the zone.
    asked: Option<f64>,
}

/// Jobs that ran side by side.
#[derive(Clone, Debug, PartialEq)]
pub struct SideLoad {
    name: String,
    pub(super) jobs: Vec<SideJob>,
}

impl fmt::Display for SideLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl SideLoad {
    /// The host that issued it.
    pub(super) fn driver() -> &'static str {
        DRIVER
    }

    /// The kind of work of one of its lines, for summaries.
    pub(super) fn class_of(&self, line: usize) -> &'static str {
        let job = &self.jobs[line];
        let alone = self.jobs.len() == 1;
        match (job.action, alone, job.disturbs) {
            (Action::Write, true, _) => "writes, undisturbed",
            (Action::Append, true, _) => "appends, undisturbed",
            (Action::Read, true, _) => "reads, undisturbed",
            (_, true, _) => "zone management, alone",
            (Action::Write, _, false) => "writes, disturbed",
            (Action::Append, _, false) => "appends, disturbed",
            (Action::Read, _, false) => "reads, disturbed",
            (_, _, false) => "zone management, disturbed",
            (Action::Reset | Action::Finish, ..) => "zone management that disturbs",
            _ => "I/O that disturbs",
        }
    }

    /// The part of one of its lines in the disturbance, for summaries over all kinds of work; `None` if the
    /// line is alone.
    pub(super) fn role_of(&self, line: usize) -> Option<&'static str> {
        (self.jobs.len() > 1).then(|| match self.jobs[line].disturbs {
            true => "all jobs that disturb",
            false => "all jobs, disturbed",
        })
    }

    /// The facts that have to be the same in a neighbour of one of its lines, and the numbers that may
    /// differ.
    pub(crate) fn place(&self, line: usize) -> (String, Vec<f64>) {
        let (mut group, mut numbers) = (line.to_string(), Vec::new());
        for SideJob { action, block, jobs, depth, limit, .. } in &self.jobs {
            group += &format!(" {action:?}");
            numbers.extend([
                *block as f64,
                f64::from(*jobs),
                f64::from(*depth),
                limit.unwrap_or(0.0),
            ]);
        }
        (group, numbers)
    }

    /// The same load, whose zones are finished at this rate a second at least.
    pub(super) fn with_finishes(&self, zones: f64, drive: DriveZones) -> Self {
        let faster = |job: &SideJob| match job.action {
            Action::Finish => job.at_least(zones, drive),
            _ => *job,
        };
        SideLoad { name: self.name.clone(), jobs: self.jobs.iter().map(faster).collect() }
    }

    /// The two phases of a load in which zones are padded in bursts: while one is padded, as fast as it can
    /// be, and while none is.
    pub(super) fn phases(&self, drive: DriveZones) -> Option<[SideLoad; 2]> {
        let with = |limit: Option<f64>| {
            let phase = |job: &SideJob| match job.is_in_bursts(drive) {
                true => SideJob { limit, ..*job },
                false => *job,
            };
            SideLoad { name: self.name.clone(), jobs: self.jobs.iter().map(phase).collect() }
        };
        let has_bursts = self.jobs.iter().any(|job| job.is_in_bursts(drive));
        has_bursts.then(|| [with(None), with(Some(0.0))])
    }

    /// Zones that are written before the jobs run.
    pub(super) fn written(&self, drive: DriveZones) -> WrittenZones {
        let has = |action| self.jobs.iter().any(|job| job.action == action);
        let mut ranges = Vec::new();
        if has(Action::Reset) {
            ranges.push(0..=drive.first() - 1);
        }
        if has(Action::Read) {
            ranges.push(drive.first_read()..=drive.zones - 1);
        }
        WrittenZones::zones_in(ranges)
    }

    /// The jobs, as options of `zonal run`; the jobs of a line are named by its number.
    ///
    /// # Errors
    /// The device has fewer zones than jobs need.
    pub(super) fn options(&self, drive: DriveZones) -> Result<Vec<String>> {
        let mut options = Vec::new();
        let mut first = drive.first();
        let lines = self.jobs.iter().filter(|job| job.action != Action::Read).count() as u32;
        for (line, job) in self.jobs.iter().enumerate() {
            let (from, zones) = match job.action {
                Action::Reset | Action::Finish | Action::Pad => (0, drive.first()),
                Action::Read => (drive.first_read(), drive.zones - drive.first_read()),
                Action::Write | Action::Append => {
                    let share = (drive.first_read() - drive.first()) / lines;
                    first += share;
                    (first - share, share)
                }
            };
            ensure!(job.jobs <= zones, "{} jobs need a zone each, there are {zones}", job.jobs);
            options.extend(job.options(line, from, zones, drive));
        }
        Ok(options)
    }
}

impl SideJob {
    /// The job's options. fio takes completions one at a time. The fio of these loads gave a ring a power of two
    /// of places and used all of them, while it went on to refill the ring from the depth that was asked for:
    /// with `iodepth=5` it had 5 to 8 in flight.
    fn options(&self, line: usize, from: u32, zones: u32, drive: DriveZones) -> Vec<String> {
        let each = zones / self.jobs;
        let (rw, block) = match self.action {
            Action::Write | Action::Append => ("write", self.block),
            Action::Read => ("randread", self.block),
            Action::Reset => ("randtrim", drive.size),
            Action::Finish => ("write", FIRST_WRITE),
            Action::Pad => ("write", PADDING),
        };
        // Readers share the zones; all others have zones of their own.
        let (size, increment) = if self.action == Action::Read { (zones, 0) } else { (each, each) };
        let mut options = vec![
            format!("--name={line}"),
            format!("--rw={rw}"),
            format!("--bs={block}"),
            format!("--iodepth={}", self.depth.next_power_of_two()),
            format!("--iodepth_low={}", self.depth),
            "--iodepth_batch_complete_max=1".to_owned(),
            format!("--numjobs={}", self.jobs),
            format!("--offset={from}z"),
            format!("--size={size}z"),
            format!("--offset_increment={increment}z"),
            "--zonemode=zbd".to_owned(),
            format!("--max_open_zones={}", drive.max_open),
        ];
        let own = match self.action {
            Action::Read => Some("--norandommap=1"),
            Action::Append => Some("--zone_append=1"),
            Action::Finish => Some("--zone_finish=1"),
            _ => None,
        };
        options.extend(own.map(str::to_owned));
        if let Some(limit) = self.limit {
            let bytes = match self.action {
                Action::Reset => limit * drive.size as f64,
                Action::Finish => limit / drive.capacity() * FIRST_WRITE as f64,
                Action::Pad => limit * drive.capacity(),
                _ => limit,
            };
            let bytes = (bytes / f64::from(self.jobs)).max(1.0).round();
            let commas = match self.action {
                Action::Read => "",
                Action::Reset => ",,",
                _ => ",",
            };
            options.push(format!("--rate={commas}{bytes}"));
        }
        options
    }

    /// Whether it pads zones in one go and is idle between them. fio counts a padded zone as one I/O, so the
    /// limit comes between zones; a job that does not reach it is never idle.
    pub(super) fn is_in_bursts(&self, drive: DriveZones) -> bool {
        let reached = |(limit, asked): (f64, f64)| limit * drive.capacity() >= REACHED * asked;
        self.action == Action::Pad && self.limit.zip(self.asked).is_some_and(reached)
    }

    /// The most zones a second that it manages.
    pub(super) fn most_zones(&self, drive: DriveZones) -> Option<f64> {
        let each = if self.action == Action::Finish { drive.capacity() } else { 1.0 };
        self.limit.map(|limit| limit / each)
    }

    /// The same job, at this rate of zones a second at least.
    pub(super) fn at_least(self, zones: f64, drive: DriveZones) -> Self {
        let slow = self.most_zones(drive).filter(|most| *most < zones);
        let faster = slow.and_then(|most| Some(self.limit? * zones / most));
        SideJob { limit: faster.or(self.limit), ..self }
    }

    /// Whether the model is told the measured rate of a line, which is then not compared.
    fn is_given(&self) -> bool {
        self.as_measured
    }
}

/// A line by itself, before the load that it belongs to is put together.
struct Line<'a> {
    number: u64,
    fields: Vec<&'a str>,
}

impl<'a> Line<'a> {
    fn field(&self, name: &str) -> &'a str {
        let at = COLUMNS.iter().position(|column| *column == name);
        self.fields[at.expect("only known columns are asked for")]
    }

    fn number(&self, name: &str) -> Result<u32> {
        let text = self.field(name);
        let number = text.parse().ok().filter(|number| (1..=1 << 16).contains(number));
        number.with_context(|| format!("{name}: found `{text}`, expected 1 to 65536"))
    }

    /// A figure; `None` if the field is empty or 0, of a figure that was not measured.
    fn figure(&self, name: &str) -> Result<Option<f64>> {
        let text = self.field(name);
        if text.is_empty() {
            return Ok(None);
        }
        let value = text.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0);
        let value =
            value.with_context(|| format!("{name}: found `{text}`, expected a number or none"))?;
        Ok((value > 0.0).then_some(value))
    }

    /// The rate that was asked for: `READS,WRITES,TRIMS`, of which one may be given.
    fn rate(&self) -> Result<Option<f64>> {
        let text = self.field("rate");
        let given = text.split(',').find(|part| !part.is_empty());
        given
            .map(|rate| {
                let rate = rate.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
                rate.with_context(|| format!("rate: found `{text}`, expected bytes a second"))
            })
            .transpose()
    }

    /// How likely it is that a line disturbs the others, by the kind `DISTURBER-on-OTHER`; the largest
    /// number of a load counts.
    fn disturbs(&self, disturber: &str) -> u32 {
        let op = self.field("op");
        let named = op == disturber || disturber == "read" && op == "randread";
        match op {
            _ if named => 3,
            "finish" => 2,
            _ if !self.field("rate").is_empty() => 1,
            _ => 0,
        }
    }

    fn job(&self, kind: &str, disturbs: bool, pads: bool) -> Result<SideJob> {
        let op = self.field("op");
        let action = Action::of(op).with_context(|| {
            const OPS: &str = "write, append, randread, reset or finish";
            let hint = zonal_blk::did_you_mean_of(op, OPS);
            format!("op: found `{op}`, expected {OPS}{hint}")
        })?;
        let block = match self.field("block") {
            "zone" => 0,
            text => parse_size(text)
                .ok()
                .filter(|block| *block > 0)
                .with_context(|| format!("block: found `{text}`, expected a size or `zone`"))?,
        };
        let measured = self.figure("iops")?;
        let action = if pads { Action::Pad } else { action };
        let rate = self.rate()?;
        // The rate that was asked of resets is in no column: the model is told the measured one.
        let as_measured = pads || action == Action::Reset && disturbs && rate.is_none();
        let asked = rate.filter(|_| pads);
        let limit = match action {
            _ if as_measured => measured,
            // The rate is that of the other line, which writes.
            Action::Reset => None,
            _ => rate,
        };
        let (jobs, depth) = (self.number("jobs")?, self.number("depth")?);
        // `jobs` of a reset is a number of writers: one job resets, unless that is what was varied.
        let jobs = match action {
            Action::Reset if kind.ends_with("concurrent-resets") => self.number("number")?,
            Action::Reset => 1,
            _ => jobs,
        };
        let depth =
            if matches!(action, Action::Reset | Action::Finish | Action::Pad) { 1 } else { depth };
        Ok(SideJob { action, block, jobs, depth, limit, disturbs, as_measured, asked })
    }
}

/// Parses the text of a file.
pub(super) fn parse(text: &str) -> Result<Cells> {
    let (mut reader, header, line) = super::csv_table(text)?;
    if !header.iter().eq(COLUMNS) {
        let found = header.iter().collect::<Vec<_>>().join(",");
        bail!("line {line}: found the columns {found}, expected {}", COLUMNS.join(","));
    }
    let records = reader.records().collect::<Result<Vec<_>, _>>()?;
    let mut loads: BTreeMap<&str, Vec<Line<'_>>> = BTreeMap::new();
    for record in &records {
        let number = record.position().map_or(0, csv::Position::line);
        let line = Line { number, fields: record.iter().collect() };
        loads.entry(line.field("load")).or_default().push(line);
    }
    let mut cells = Cells::default();
    for (_, lines) in loads {
        let at = lines[0].number;
        load(&lines, &mut cells).with_context(|| format!("line {at}"))?;
    }
    Ok(cells)
}

/// Adds the cells of lines that ran side by side.
fn load(lines: &[Line<'_>], cells: &mut Cells) -> Result<()> {
    let kind = lines[0].field("kind");
    let disturber = kind.split_once("-on-").map(|(disturber, _)| disturber);
    let disturber = disturber
        .with_context(|| format!("kind: found `{kind}`, expected `DISTURBER-on-OTHER`"))?;
    let soft = disturber == "softfinish";
    let likely = |line: &Line<'_>| line.disturbs(disturber);
    let most = lines.iter().map(likely).max().unwrap_or(0);
    let mut jobs = Vec::new();
    for line in lines {
        let slow = line.figure("iops")?.is_some_and(|iops| iops < MOST_ZONES);
        let pads = soft && slow && line.field("op") != "reset" && lines.len() > 1;
        let disturbs = lines.len() > 1 && (pads || !soft && likely(line) == most);
        jobs.push(line.job(kind, disturbs, pads)?);
    }
    let what = |line: &Line<'_>| {
        let [op, block, jobs, depth] =
            ["op", "block", "jobs", "depth"].map(|name| line.field(name));
        let rate = line.field("rate").trim_matches(',');
        let rate = if rate.is_empty() { String::new() } else { format!(" rate={rate}") };
        format!("{op} bs={block} jobs={jobs} depth={depth}{rate}")
    };
    let what = lines.iter().map(what).collect::<Vec<_>>().join(" beside ");
    let name = format!("{kind} {}: {what}", lines[0].field("load"));
    let at = cells.loads.len();
    for (line, job) in jobs.iter().enumerate() {
        let from = &lines[line];
        for (column, metric) in [
            ("iops", Metric::Iops),
            ("lat_mean", Metric::LatMean),
            ("lat_p50", Metric::LatP50),
            ("lat_p99", Metric::LatP99),
        ] {
            let Some(value) = from.figure(column)? else { continue };
            // A rate that the model is told is no prediction; nor are latencies of blocks of unknown size.
            if job.is_given() && (metric == Metric::Iops || job.action == Action::Pad) {
                cells.given += 1;
                continue;
            }
            let op = format!("{kind}:{}", from.field("op"));
            let (file, number) = (0, Some(from.number));
            cells.cells.push(Cell {
                file,
                line: number,
                op,
                load: at,
                dir: None,
                job: Some(line),
                metric,
                value,
            });
        }
    }
    cells.loads.push(Load::SideBySide(SideLoad { name, jobs }));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(rows: &[&str]) -> Cells {
        parse(&format!("{}\n{}\n", COLUMNS.join(","), rows.join("\n"))).unwrap()
    }

    fn side(cells: &Cells) -> &SideLoad {
        match &cells.loads[0] {
            Load::SideBySide(load) => load,
            other => panic!("{other:?}"),
        }
    }

    fn drive() -> DriveZones {
        DriveZones::of(&zonal_backend::load("zn540").unwrap()).unwrap()
    }

    #[test]
    fn layout_follows_the_zones_of_the_device() {
        let of = |spec: &str| DriveZones::of(&zonal_backend::load(spec).unwrap());
        let DriveZones { zones, size, capacity, max_open } = of("zn540:zones=90").unwrap();
        assert_eq!((zones, size, capacity, max_open), (90, 2 << 30, 1077 << 20, 14));
        let small = of("zn540:zones=90,zone_size=64M,zone_capacity=48M").unwrap();
        let cells = parsed(&[WRITES, RESETS]);
        let options = side(&cells).options(small).unwrap().join(" ");
        assert!(options.contains("--bs=67108864"), "{options}");
        assert!(options.contains("--numjobs=3 --offset=30z --size=5z"), "{options}");
        let error = of("ssd").unwrap_err().to_string();
        assert_eq!(error, "these loads need zones, the device has none");
        let many = parsed(&[&WRITES.replace(",3,1,3,", ",31,1,31,"), RESETS]);
        let error = side(&many).options(small).unwrap_err().to_string();
        assert_eq!(error, "31 jobs need a zone each, there are 15");
    }

    const WRITES: &str =
        "a,reset-on-write,write,8k,3,1,3,,,30z,93402.44,765.2,31.22,16.51,49.41,us";
    const RESETS: &str = "a,reset-on-write,reset,zone,3,1,3,,,30z,30.07,64576.4,21456.48,,,us";

    #[test]
    fn rows_of_one_load_run_side_by_side_and_the_first_word_of_the_kind_disturbs() {
        let cells = parsed(&[WRITES, RESETS]);
        let load = side(&cells);
        assert_eq!(load.jobs.iter().map(|job| job.jobs).collect::<Vec<_>>(), [3, 1]);
        let classes = [load.class_of(0), load.class_of(1)];
        assert_eq!(classes, ["writes, disturbed", "zone management that disturbs"]);
        let roles = [load.role_of(0), load.role_of(1)];
        assert_eq!(roles, [Some("all jobs, disturbed"), Some("all jobs that disturb")]);
        assert_eq!(side(&parsed(&[WRITES])).role_of(0), None, "alone");
        let metrics: Vec<_> = cells.cells.iter().map(|cell| (cell.job, cell.metric)).collect();
        let of_writes =
            [Metric::Iops, Metric::LatMean, Metric::LatP50, Metric::LatP99].map(|m| (Some(0), m));
        assert_eq!(metrics, [&of_writes[..], &[(Some(1), Metric::LatMean)]].concat());
        assert_eq!(cells.given, 1, "the rate of the resets is what the model is told");
        let options = load.options(drive()).unwrap().join(" ");
        assert!(options.contains("--rw=randtrim --bs=2147483648"), "{options}");
        assert!(options.contains("--rate=,,64574833295"), "{options}");
        assert!(options.contains("--numjobs=3 --offset=301z --size=50z"), "{options}");
    }

    #[test]
    fn rates_are_of_the_row_that_they_are_about() {
        let finishes = "b,finish-on-write,finish,zone,1,1,5,\",307715627.00,\",,300z,0.18,198.5,183,118,659,us";
        let cells = parsed(&[finishes, &WRITES.replace("a,reset", "b,finish")]);
        let [finish, write] = &side(&cells).jobs[..] else { panic!("two rows") };
        let zones = finish.most_zones(drive()).unwrap();
        assert!((zones - 0.2725).abs() < 0.001, "zones a second: {finish:?}");
        assert_eq!((write.limit, cells.given), (None, 0));
        let beside = "c,write-on-reset-with-concurrent-resets,reset,zone,1,1,5,\",60866692.40\",813z,22z,55.4,1,85995,,,us";
        let cells = parsed(&[beside]);
        assert_eq!((side(&cells).jobs[0].jobs, side(&cells).jobs[0].limit), (5, None));
    }

    #[test]
    fn rings_have_a_power_of_two_of_places_and_are_refilled_from_the_depth_asked_for() {
        for (depth, places) in [(1, 1), (3, 4), (5, 8), (8, 8)] {
            let row = format!("a,read-on-append,append,8k,1,{depth},5,,,,1,1,1,1,1,us");
            let options = side(&parsed(&[&row])).options(drive()).unwrap().join(" ");
            let expected = format!("--iodepth={places} --iodepth_low={depth} ");
            assert!(options.contains(&expected), "{options}");
        }
    }

    #[test]
    fn only_zones_that_are_finished_too_rarely_are_finished_more_often() {
        let row = |rate: &str| {
            format!("b,finish-on-write,finish,zone,1,1,5,\",{rate},\",,300z,0.01,15,183,118,659,us")
        };
        for (rate, often) in [("12308625.08", 0.4), ("923146881.00", 0.8174)] {
            let cells = parsed(&[&row(rate), &WRITES.replace("a,reset", "b,finish")]);
            let load = side(&cells);
            let [finish, write] = load.with_finishes(0.4, drive()).jobs[..] else { panic!() };
            let zones = finish.most_zones(drive()).unwrap();
            assert!((zones - often).abs() < 0.001, "{zones} a second of {rate}");
            assert_eq!(write, load.jobs[1]);
        }
    }

    #[test]
    fn zones_are_padded_in_bursts_where_the_rate_that_was_asked_for_is_reached() {
        let reads = "s,softfinish-on-read,randread,8k,1,8,8,,300z,604z,54365,445,146,102,460,us";
        let phases = |zones: &str| {
            let pads = format!(
                "s,softfinish-on-read,finish,zone,1,1,8,\",611894038.00,\",,300z,{zones},1,145,130,187,us"
            );
            let cells = parsed(&[reads, &pads]);
            side(&cells).phases(drive()).map(|phases| phases.map(|load| load.jobs[1].limit))
        };
        assert_eq!(phases("0.54"), Some([None, Some(0.0)]), "0.542 a second were asked for");
        assert_eq!(phases("0.42"), None);
        let finish = "b,finish-on-write,finish,zone,1,1,5,\",307715627.00,\",,300z,0.28,1,1,1,1,us";
        let cells = parsed(&[finish, &WRITES.replace("a,reset", "b,finish")]);
        assert!(side(&cells).phases(drive()).is_none(), "the drive pads these");
    }

    #[test]
    fn errors_name_the_line_and_what_was_expected() {
        for (row, expected) in [
            (
                WRITES.replace("reset-on-write", "resets"),
                "kind: found `resets`, expected `DISTURBER",
            ),
            (WRITES.replace(",write,8k", ",erase,8k"), "op: found `erase`, expected write, append"),
            (WRITES.replace(",8k,", ",8q,"), "block: found `8q`, expected a size or `zone`"),
            (WRITES.replace("93402.44", "many"), "iops: found `many`, expected a number or none"),
            (WRITES.replace(",3,1,3,", ",0,1,3,"), "jobs: found `0`, expected 1 to 65536"),
        ] {
            let text = format!("# A drive.\n{}\n{row}\n", COLUMNS.join(","));
            let error = format!("{:#}", parse(&text).unwrap_err());
            assert!(error.starts_with(&format!("line 3: {expected}")), "{error}");
        }
        assert!(format!("{:#}", parse("load,kind,x\n").unwrap_err()).starts_with("line 1: found"));
    }
}
