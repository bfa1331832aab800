//! The file of a sweep.
use crate::error::bad_input;
use pyo3::prelude::*;
use std::path::PathBuf;
use zonal_lab::executor::ClockKind;
use zonal_lab::experiment::RunLength;
use zonal_lab::sweep::file::{self, By};
use zonal_lab::sweep::{Metric, Search, points};

/// An axis: its name, its values, and the first, the last and the step of a range of whole numbers, a
/// step of 0 for one with a factor.
type Axis = (&'static str, Vec<String>, Option<(u64, u64, u64)>);

/// The contents of a file.
#[derive(IntoPyObject)]
pub struct SweepFile {
    /// The path of the job file.
    path: Option<String>,
    /// The text of the jobs.
    text: Option<String>,
    device: Option<String>,
    scheduler: Option<String>,
    zone_write: Option<&'static str>,
    io_cost: Option<String>,
    is_real_time: bool,
    seed: u64,
    repetitions: u32,
    /// Microseconds of each run: not measured, and measured.
    time: Option<(u64, u64)>,
    metric: Option<String>,
    output: Option<PathBuf>,
    axes: Vec<Axis>,
    search: &'static str,
    /// For each point the values of the axes; none for Bayesian search.
    points: Vec<Vec<String>>,
    /// How many points there are.
    total: usize,
}

/// Reads the file of a sweep.
#[pyfunction]
pub fn sweep_file(path: PathBuf) -> PyResult<SweepFile> {
    let file = file::read(&path).map_err(bad_input)?;
    let options = file.options;
    let points = match file.bayesian {
        Some(_) => Vec::new(),
        None => points(&options.axes, options.search, options.seed).map_err(bad_input)?,
    };
    let values = |at: &Vec<usize>| options.values(at).map(str::to_owned).collect();
    let points: Vec<Vec<String>> = points.iter().map(values).collect();
    let range = |range: file::NumberRange| match range.by {
        By::Step(step) => (range.from, range.to, step),
        By::Factor(_) => (range.from, range.to, 0),
    };
    let axes = options.axes.iter().zip(&file.ranges);
    let axes = axes.map(|(axis, of)| (axis.name(), axis.values.clone(), of.map(range))).collect();
    let microseconds = |seconds: f64| (seconds * 1e6).round() as u64;
    let time = options.seconds.map(RunLength::of);
    Ok(SweepFile {
        path: options.job_text.is_none().then(|| file.job_args[0].to_string_lossy().into_owned()),
        text: options.job_text,
        device: options.device,
        scheduler: options.scheduler,
        zone_write: options.zone_write.map(zonal_blk::ZoneWrite::name),
        io_cost: options.io_cost.argument(),
        is_real_time: options.clock == ClockKind::Real,
        seed: options.seed,
        repetitions: options.seeds,
        time: time.map(|time| (microseconds(time.ramp), microseconds(time.measured))),
        metric: options.metric.map(Metric::name),
        output: file.output,
        axes,
        search: match (file.bayesian, options.search) {
            (Some(_), _) => "bayesian",
            (None, Search::Random { .. }) => "random",
            (None, Search::Grid) => "grid",
        },
        total: file.bayesian.unwrap_or(points.len()),
        points,
    })
}
