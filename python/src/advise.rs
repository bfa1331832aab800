//! `zonal.advise`.
use crate::error::bad_input;
use crate::jobs::Jobs;
use crate::watch::watch;
use anyhow::{Context, Result, anyhow, ensure};
use pyo3::prelude::*;
use zonal_blk::sched::Scheduler;
use zonal_lab::advise::{self as lab, AdviseOptions};

/// What Python's `advise` takes.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Options {
    device: String,
    schedulers: Vec<String>,
    zone_write: Vec<String>,
    depths: Vec<String>,
    seconds: Option<f64>,
    goals: Vec<String>,
    seeds: u32,
    seed: u64,
    io_cost: String,
    kernel: String,
}

impl Options {
    fn parse(mut self) -> Result<AdviseOptions> {
        if self.schedulers.is_empty() {
            self.schedulers = Scheduler::NAMES.iter().map(|&name| name.to_owned()).collect();
        }
        let scheduler = |name: &String| name.parse::<Scheduler>().context("--schedulers");
        let policy = |name: &String| name.parse().context("--zone-write");
        ensure!(
            self.seconds.is_none_or(|seconds| (0.0001..=86400.0).contains(&seconds)),
            "--time: found {}, expected 0.0001 to 86400 seconds",
            self.seconds.unwrap_or_default()
        );
        ensure!(
            (1..=1000).contains(&self.seeds),
            "--seeds: found {}, expected 1 to 1000",
            self.seeds
        );
        let depth = |text: &String| text.parse().map_err(|error| anyhow!("--depths: found {text}, {error}"));
        Ok(AdviseOptions {
            schedulers: self.schedulers.iter().map(scheduler).collect::<Result<_>>()?,
            zone_write: self.zone_write.iter().map(policy).collect::<Result<_>>()?,
            device: self.device,
            depths: self.depths.iter().map(depth).collect::<Result<_>>()?,
            seconds: self.seconds,
            goals: self.goals,
            seed: self.seed,
            seeds: self.seeds,
            kernel: self.kernel.parse().context("--kernel")?,
            io_cost: self.io_cost.parse().map_err(anyhow::Error::from).context("--io-cost")?,
        })
    }
}

/// Measures jobs in all configurations. Returns the advice as JSON, as text and as a page, and notices
/// about the jobs, with those that did no I/O.
#[pyfunction]
pub fn advise(
    py: Python<'_>,
    jobs: Jobs,
    options: Options,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(String, String, String, Vec<String>)> {
    let options = options.parse().map_err(bad_input)?;
    watch(py, progress, |stop, watched| {
        let (jobs, mut notices) = jobs.jobs()?;
        let advice = lab::advise(&jobs, &options, stop, &**watched)?;
        notices.extend(advice.without_io());
        Ok((lab::json(&advice), lab::text(&advice), lab::html(&advice)?, notices))
    })
}
