//! The files of published tables: how each is measured, and a line for each of its cells.
use super::published::{Figure, Source};
use super::settings::{ANY_MACHINE, MeasureSettings};
use super::table::{
    Base, Cell, Comparability, Comparison, Crossings, FigureUse, FreeParameters, Layout, Remark,
    Setup, Table,
};
use crate::executor::ClockKind;
use crate::experiment::Unit;
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::path::Path;
use std::sync::LazyLock;
use zonal_blk::sched::Scheduler;

macro_rules! built_in {
    ($($name:literal)*) => {
        [$(($name, include_str!(concat!("../../data/tables/", $name, ".toml")))),*]
    };
}

/// The tables by name, in the order in which they are measured.
const BUILT_IN: [(&str, &str); 14] = built_in![
    "zwp-null_blk" "zwp-zns" "zwp-smr" "smr-seq-qd" "smr-rnd-zones" "zwp-append-btrfs" "smr-xfs"
    "smr-xfs-1m-limit" "ncq-raidtest" "zn540" "interference" "flash" "flash-cache"
    "mq-deadline-scaling"
];

/// All tables.
pub fn all() -> &'static [Table] {
    static TABLES: LazyLock<Vec<Table>> = LazyLock::new(|| {
        let parsed = BUILT_IN.iter().map(|(name, text)| parse(name, text));
        parsed.collect::<Result<_>>().expect("the built-in files are well formed")
    });
    &TABLES
}

/// Reads the table of a file.
///
/// # Errors
/// The file cannot be read, or something in it is wrong.
pub fn read(path: &Path) -> Result<Table> {
    let name = path.display().to_string();
    let text = zonal_os::text_file::read_toml(path).with_context(|| name.clone())?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    parse(&stem, &text).context(name)
}

/// A file. Keys of the same name mean the same in the file of a sweep.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TableFile {
    about: String,
    layout: Layout,
    #[serde(default)]
    axis: String,
    compared: Comparability,
    clock: String,
    repetitions: u32,
    time: Option<f64>,
    io_cost: Option<String>,
    #[serde(default)]
    free_parameters: Vec<String>,
    #[serde(default)]
    inert_parameters: Vec<String>,
    #[serde(default)]
    comparisons: Vec<Comparison>,
    #[serde(default)]
    remarks: Vec<Remark>,
    head: Option<Head>,
    /// CSV of [`Point`].
    points: String,
    source: Option<Source>,
}

/// The cells that [`Crossings`] shows: those of a column.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    title: String,
    column: String,
}

/// A cell.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Point {
    row: String,
    column: String,
    device: String,
    config: String,
    /// That of the cell, if Zonal has it; else there is none.
    scheduler: String,
    zone_write: Option<String>,
    workload: String,
    metric: String,
    unit: String,
    published: Option<String>,
    #[serde(rename = "use")]
    figure_use: FigureUse,
    /// For each comparison the number of a cell, perhaps `*` a factor; or `-`.
    bases: Option<String>,
    jobs: String,
}

/// Parses the file of a table.
///
/// # Errors
/// The error, with the line.
pub fn parse(name: &str, text: &str) -> Result<Table> {
    let file: TableFile = toml::from_str(text)?;
    let clock = match file.clock.as_str() {
        "real" => ClockKind::Real,
        "virtual" => ClockKind::Virtual,
        other => bail!("clock: found `{other}`, expected real or virtual"),
    };
    let costs = file.io_cost.map_or(Ok(ANY_MACHINE), |costs| costs.parse()).context("io_cost")?;
    ensure!(file.repetitions > 0, "repetitions: found 0, expected 1 or more");
    let (rounds, seconds) = (file.repetitions, file.time);
    let mut cells = Vec::new();
    let mut points = csv::Reader::from_reader(file.points.trim_start().as_bytes());
    for (line, point) in (2..).zip(points.deserialize()) {
        let cell = cell(name, file.source.as_ref(), point?, file.comparisons.len());
        cells.push(cell.with_context(|| format!("points: line {line}"))?);
    }
    let bases = cells.iter().flat_map(|cell| &cell.bases).flatten();
    let beyond = bases.map(|base| base.cell).find(|&cell| cell >= cells.len());
    ensure!(beyond.is_none(), "points: bases: found {beyond:?}, expected the number of a cell");
    let crossings = file.head.map_or_else(Crossings::default, |Head { title, column }| {
        let shown = (0..cells.len()).filter(|&at| cells[at].column == column);
        Crossings { title, cells: shown.collect() }
    });
    Ok(Table {
        name: name.to_owned(),
        about: file.about,
        source: file.source,
        layout: file.layout,
        axis: file.axis,
        comparability: file.compared,
        settings: MeasureSettings { clock, rounds, seconds, seed: 0, costs },
        comparisons: file.comparisons,
        cells,
        crossings,
        parameters: FreeParameters { names: file.free_parameters, inert: file.inert_parameters },
        remarks: file.remarks,
    })
}

fn cell(table: &str, source: Option<&Source>, point: Point, comparisons: usize) -> Result<Cell> {
    let words = shlex::split(&point.jobs);
    let jobs = words.with_context(|| format!("jobs: unbalanced quotes in `{}`", point.jobs))?;
    let policy = point.zone_write.map(|policy| policy.parse()).transpose()?;
    let unit = Unit::of_figure(&point.unit)?;
    let bases = point.bases.as_deref().unwrap_or_default().split_whitespace().map(base);
    let bases: Vec<Option<Base>> = bases.collect::<Result<_>>()?;
    let found = bases.len();
    ensure!(found == comparisons, "bases: found {found}, expected {comparisons}");
    let known = point.scheduler.parse::<Scheduler>().is_ok();
    let scheduler = if known { point.scheduler.clone() } else { "none".to_owned() };
    let title = source.map_or_else(String::new, |source| source.title.clone());
    let Point { device, config, scheduler: of_figure, workload, metric, .. } = point;
    let figure = point.published.map(|value| Figure {
        fields: [
            table.to_owned(),
            device,
            config,
            of_figure,
            workload,
            metric,
            point.unit,
            value,
            title,
        ],
    });
    let (row, column, figure_use) = (point.row, point.column, point.figure_use);
    let setup = Setup { scheduler, zone_write: policy, jobs };
    Ok(Cell { row, column, figure, figure_use, unit, setup, bases })
}

fn base(text: &str) -> Result<Option<Base>> {
    if text == "-" {
        return Ok(None);
    }
    let (cell, times) = text.split_once('*').unwrap_or((text, "1"));
    let expected = || format!("bases: found `{text}`, expected CELL, CELL*FACTOR or -");
    let cell = cell.parse().with_context(expected)?;
    Ok(Some(Base { cell, times: times.parse().with_context(expected)? }))
}
