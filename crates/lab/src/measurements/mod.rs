//! Measurements of a drive, and the loads under which they were taken.
//!
//! ```text
//!  table     CSV: one figure a line, the load as a name such as `append:write` with its numbers
//!  named     such a load --> job options
//!  jobs      CSV: one figure a line, the load as job options
//!  interference  CSV: a line for each kind of job of those that ran side by side
//!  fio       fio's JSON reports, which have the options beside the results
//!  assume    what reports do not say: policy and scheduler
//!  run       a load --> what a model does
//!  side_by_side  such jobs --> what a model does
//!  turns     writes below a memory page, merged in every second zone
//! ```
//!
//! Nothing is dropped silently, and an error names the file and the line or the job.
mod assume;
mod figures;
mod fio;
mod interference;
mod jobs;
mod named;
mod run;
mod side_by_side;
mod table;
mod turns;

use crate::devices::named_scheduler;
use anyhow::{Context, Result, ensure};
pub use assume::{Assume, Kernel};
pub use figures::{Figures, Predicted};
pub use interference::SideLoad;
pub use named::{LoadKind, NamedLoad};
pub use run::{Interrupted, PERCENTILES, RunOptions, run};
use std::fmt;
use std::path::Path;
pub use table::COLUMNS;
use zonal_blk::ZoneWrite;
use zonal_fio::job::DataDir;
use zonal_os::text_file;

/// A quantity that was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// I/Os a second, of all jobs together.
    Iops,
    /// Millions of bytes a second, of all jobs together.
    Bandwidth,
    /// Mean latency in microseconds.
    LatMean,
    /// Median latency in microseconds.
    LatP50,
    /// 99th percentile of the latency in microseconds.
    LatP99,
    /// 99.9th percentile of the latency in microseconds.
    LatP999,
}

impl Metric {
    /// All metrics.
    pub const ALL: [Metric; 6] = [
        Metric::Iops,
        Metric::Bandwidth,
        Metric::LatMean,
        Metric::LatP50,
        Metric::LatP99,
        Metric::LatP999,
    ];

    /// The metric of a name in files.
    ///
    /// # Errors
    /// There is none.
    pub fn from_name(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name).with_context(|| {
            let names = Self::ALL.map(Metric::name);
            let hint = zonal_blk::did_you_mean(name, names);
            format!("metric: found `{name}`, expected one of {}{hint}", names.join(", "))
        })
    }

    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Iops => "iops",
            Metric::Bandwidth => "bw",
            Metric::LatMean => "lat_mean",
            Metric::LatP50 => "lat_p50",
            Metric::LatP99 => "lat_p99",
            Metric::LatP999 => "lat_p999",
        }
    }

    /// The unit in files.
    pub fn unit(self) -> &'static str {
        match self {
            Metric::Iops => "1/s",
            Metric::Bandwidth => "MB/s",
            _ => "us",
        }
    }

    /// The percentile that it is, in percent.
    pub fn percentile(self) -> Option<f64> {
        match self {
            Metric::Iops | Metric::Bandwidth | Metric::LatMean => None,
            Metric::LatP50 => Some(50.0),
            Metric::LatP99 => Some(99.0),
            Metric::LatP999 => Some(99.9),
        }
    }
}

/// A measured figure.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The file, as an index.
    pub file: usize,
    /// Where it is in a file with lines, from 1.
    pub line: Option<u64>,
    /// The operation, as the file has it: `read_write_10_90_offset:read`, or the name of a job.
    pub op: String,
    /// The load that it was measured under, as an index.
    pub load: usize,
    /// The direction that it is about; `None` for all I/O together.
    pub dir: Option<DataDir>,
    /// The job that it is about, of a load of jobs that ran side by side.
    pub job: Option<usize>,
    /// The measurements.
    pub metric: Metric,
    /// The figure, in the metric's unit.
    pub value: f64,
}

/// A load that is given as job options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobLoad {
    /// Its name for people.
    pub name: String,
    /// The kind of work, for summaries.
    pub class: &'static str,
    /// The host that issued it: the name of a host profile, or another.
    pub driver: String,
    /// Job options, as `zonal run` takes them.
    pub options: Vec<String>,
    /// The length of an I/O of the first job.
    pub block: u64,
    /// The zone-write policy; `None` for the device's default.
    pub zone_write: Option<ZoneWrite>,
    /// The scheduler; `None` for the one that the jobs name.
    pub scheduler: Option<String>,
}

/// A load: what the jobs of cells that were measured together did.
#[derive(Clone, Debug, PartialEq)]
pub enum Load {
    /// By name and numbers.
    Named(NamedLoad),
    /// By job options.
    Jobs(JobLoad),
    /// Jobs that ran side by side, one kind disturbing the other.
    SideBySide(SideLoad),
}

impl Load {
    /// The kind of work, for summaries.
    pub fn class(&self) -> &'static str {
        self.class_of(None)
    }

    /// The kind of work of one of its jobs that ran side by side.
    fn class_of(&self, job: Option<usize>) -> &'static str {
        match self {
            Load::Named(load) => load.kind.class(),
            Load::Jobs(load) => load.class,
            Load::SideBySide(load) => load.class_of(job.unwrap_or(0)),
        }
    }

    /// The length of an I/O that a cell is about; 0 for zone management.
    pub fn block_of(&self, cell: &Cell) -> u64 {
        match (self, cell.dir) {
            (Load::Named(load), Some(dir)) => load.block_of(dir),
            (Load::Named(load), None) => load.block,
            (Load::Jobs(load), _) => load.block,
            (Load::SideBySide(load), _) => load.jobs[cell.job.unwrap_or(0)].block,
        }
    }

    /// Whether it is one of the loads that are held out from a fit, one in `one_in`. Which they are
    /// depends on what they do alone.
    pub fn is_held_out(&self, one_in: u32) -> bool {
        // FNV-1a; the upper half, since the lowest bits depend on too little.
        let hash = self.to_string().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        (hash >> 32).is_multiple_of(u64::from(one_in))
    }

    /// The host that issued it.
    pub fn driver(&self) -> &str {
        match self {
            Load::Named(load) => &load.driver,
            Load::Jobs(load) => &load.driver,
            Load::SideBySide(_) => SideLoad::driver(),
        }
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Load::Named(load) => load.fmt(f),
            Load::Jobs(load) => f.write_str(&load.name),
            Load::SideBySide(load) => load.fmt(f),
        }
    }
}

/// Percentiles of the latencies in one direction of a load.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// The load, as an index.
    pub load: usize,
    /// The direction.
    pub dir: Option<DataDir>,
    /// Which job of a load side by side.
    pub job: Option<usize>,
    /// Percent and microseconds, ascending.
    pub points: Vec<(f64, f64)>,
}

/// The cells of some files, and the loads to run for them.
#[derive(Debug, Default)]
pub struct Cells {
    /// The files.
    pub files: Vec<String>,
    /// The cells, in the order of the files.
    pub cells: Vec<Cell>,
    /// The loads, each once.
    pub loads: Vec<Load>,
    /// Latency distributions of which at least three percentiles are given.
    pub distributions: Vec<Distribution>,
    /// Cells of loads on several namespaces, which no model has.
    pub skipped: usize,
    /// Number of figures that a load is made of, so that they are no predictions.
    pub given: usize,
    /// Loads that cannot run on the device: their cells, which are left out, and why.
    pub refused: Vec<(usize, String)>,
    /// The assumptions made where files do not say it, each once.
    pub assumptions: Vec<String>,
}

/// The beginning of a line of a CSV file that is for people.
const COMMENT: char = '#';

/// A reader of CSV, its header, and the line of that, from 1.
fn csv_table(text: &str) -> Result<(csv::Reader<&[u8]>, csv::StringRecord, usize)> {
    let before = text.lines().take_while(|line| line.starts_with(COMMENT) || line.is_empty());
    let line = before.count() + 1;
    let mut builder = csv::ReaderBuilder::new();
    builder.trim(csv::Trim::All).comment(Some(COMMENT as u8));
    let mut reader = builder.from_reader(text.as_bytes());
    let header = reader.headers().with_context(|| format!("line {line}"))?.clone();
    Ok((reader, header, line))
}

/// Least percentiles that tell something of a distribution.
const LEAST_POINTS: usize = 3;

impl Cells {
    /// The kind of work that a cell is about, for summaries.
    pub fn class_of(&self, cell: &Cell) -> &'static str {
        self.loads[cell.load].class_of(cell.job)
    }

    /// The part of its job in a disturbance, if it ran beside others.
    pub fn role_of(&self, cell: &Cell) -> Option<&'static str> {
        match &self.loads[cell.load] {
            Load::SideBySide(load) => load.role_of(cell.job.unwrap_or(0)),
            Load::Named(_) | Load::Jobs(_) => None,
        }
    }

    /// The kind of work of a distribution.
    pub fn class_of_distribution(&self, distribution: &Distribution) -> &'static str {
        self.loads[distribution.load].class_of(distribution.job)
    }

    /// Leaves out the cells of loads that cannot run, each with its index and the reason.
    pub fn refuse(&mut self, loads: Vec<(usize, String)>) {
        for (load, reason) in loads {
            let before = self.cells.len();
            self.cells.retain(|cell| cell.load != load);
            self.distributions.retain(|distribution| distribution.load != load);
            self.refused.push((before - self.cells.len(), reason));
        }
    }

    /// Adds the cells of a file, whose indices begin at 0.
    fn append(&mut self, file: String, more: Cells) {
        let (at, first) = (self.files.len(), self.loads.len());
        self.files.push(file);
        self.loads.extend(more.loads);
        self.skipped += more.skipped;
        self.given += more.given;
        let own = more.cells.into_iter();
        self.cells.extend(own.map(|cell| Cell { file: at, load: cell.load + first, ..cell }));
        let own = more.distributions.into_iter();
        self.distributions.extend(own.map(|d| Distribution { load: d.load + first, ..d }));
        for assumption in more.assumptions {
            if !self.assumptions.contains(&assumption) {
                self.assumptions.push(assumption);
            }
        }
    }

    /// The distributions of cells that are percentiles.
    fn collect_distributions(&mut self) {
        let mut found: Vec<Distribution> = Vec::new();
        for cell in &self.cells {
            let Some(percent) = cell.metric.percentile() else { continue };
            let same =
                |d: &&mut Distribution| (d.load, d.dir, d.job) == (cell.load, cell.dir, cell.job);
            let point = (percent, cell.value);
            match found.iter_mut().rev().find(same) {
                Some(distribution) => distribution.points.push(point),
                None => {
                    let &Cell { load, dir, job, .. } = cell;
                    found.push(Distribution { load, dir, job, points: vec![point] });
                }
            }
        }
        for distribution in &mut found {
            distribution.points.sort_by(|a, b| a.0.total_cmp(&b.0));
            distribution.points.dedup_by_key(|point| point.0);
        }
        found.retain(|distribution| distribution.points.len() >= LEAST_POINTS);
        self.distributions = found;
    }
}

/// Reads files of cells: fio's JSON if a line begins with a brace, CSV otherwise.
///
/// # Errors
/// A file cannot be read or is malformed, or it has no cell; the scheduler that is assumed does not exist.
pub fn read<P: AsRef<Path>>(paths: &[P], assume: &Assume) -> Result<Cells> {
    named_scheduler(assume.scheduler.as_deref(), &[])?;
    let mut cells = Cells::default();
    for path in paths {
        let path = path.as_ref();
        let name = path.display().to_string();
        let text = text_file::read_string(path).with_context(|| format!("{name}: cannot read"))?;
        let stem = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into());
        let own = parse(&stem, &text, assume).with_context(|| name.clone())?;
        ensure!(
            !own.cells.is_empty() || own.skipped > 0,
            "{name}: expected at least one measurement, found none"
        );
        cells.append(name, own);
    }
    Ok(cells)
}

/// Parses the text of a file of cells. `stem` names a report in the names of its loads.
///
/// # Errors
/// The text is malformed; the error names the line or the job.
pub fn parse(stem: &str, text: &str, assume: &Assume) -> Result<Cells> {
    if let Some(json) = fio::json(text) {
        return fio::parse(stem, json, assume);
    }
    let mut lines = text.lines();
    let header = lines.find(|line| !line.starts_with(COMMENT) && !line.is_empty());
    let mut cells = match header {
        Some(header) if table::is_header(header) => table::parse(text)?,
        Some(header) if interference::is_header(header) => interference::parse(text)?,
        _ => jobs::parse(text, assume)?,
    };
    cells.collect_distributions();
    Ok(cells)
}
