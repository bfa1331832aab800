//! `zonal.validate` and `zonal.fit`: a model beside what was measured on a drive.
use crate::watch::watch;
use anyhow::{Context, Result, ensure};
use pyo3::prelude::*;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use zonal_device::device_spec::DeviceSpec;
use zonal_lab::fit::{FitOptions, Profile, Verdict};
use zonal_lab::measurements::{self, Assume, Cells, Kernel, RunOptions};
use zonal_lab::validate::ValidateOptions;
use zonal_lab::{self as lab, host_cost};
use zonal_sim::CostModel;

/// Measurements, and what is assumed where they do not say it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Measured {
    results: Vec<PathBuf>,
    host_cost: Option<String>,
    io_cost: Option<String>,
    zone_write: Option<String>,
    scheduler: Option<String>,
    kernel: Option<String>,
    seed: u64,
}

impl Measured {
    fn read(&self, spec: &DeviceSpec) -> Result<Cells> {
        ensure!(!self.results.is_empty(), "found no measurements, expected at least one file");
        let policy = self.zone_write.as_deref().map(str::parse).transpose();
        let kernel = self.kernel.as_deref().map(str::parse::<Kernel>).transpose();
        let assume = Assume {
            zone_write: policy.context("--zone-write")?,
            scheduler: self.scheduler.clone(),
            kernel: kernel.context("--kernel")?,
            ..Assume::of(spec)
        };
        measurements::read(&self.results, &assume)
    }

    /// The cost of I/O for the host; `None` for the costs of each job's engine.
    fn costs(&self) -> Result<Option<CostModel>> {
        let host = self.host_cost.as_deref().map(host_cost::load).transpose();
        let host = host.context("--host-cost")?.map(CostModel::Host);
        let flat = self.io_cost.as_deref().map(str::parse::<CostModel>).transpose();
        let flat = flat.map_err(anyhow::Error::from).context("--io-cost")?;
        ensure!(
            host.is_none() || flat.is_none(),
            "--host-cost: found --io-cost as well, expected one of the two"
        );
        Ok(host.or(flat))
    }

    fn run_options(&self, device: &str, stop: &Arc<AtomicBool>) -> Result<RunOptions> {
        Ok(RunOptions {
            device: device.to_owned(),
            costs: self.costs()?,
            seconds: None,
            ramp: None,
            seed: self.seed,
            stop: Arc::clone(stop),
        })
    }
}

fn check_seconds(option: &str, seconds: Option<f64>) -> Result<()> {
    let seconds = seconds.unwrap_or(1.0);
    ensure!(
        (0.0001..=86400.0).contains(&seconds),
        "{option}: found {seconds}, expected 0.0001 to 86400 seconds"
    );
    Ok(())
}

fn check_count(option: &str, found: u64, expected: RangeInclusive<u64>) -> Result<()> {
    let (from, to) = (expected.start(), expected.end());
    ensure!(expected.contains(&found), "{option}: found {found}, expected {from} to {to}");
    Ok(())
}

/// Predicts measurements by a model. Returns the result as JSON, as text and as a page.
#[pyfunction]
pub fn validate(
    py: Python<'_>,
    device: String,
    measured: Measured,
    runtime: Option<f64>,
    hold_out: Option<u32>,
    resume: Option<PathBuf>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(String, String, String)> {
    watch(py, progress, |stop, watched| {
        check_seconds("--runtime", runtime)?;
        check_count("--hold-out", hold_out.unwrap_or(2).into(), 2..=1000)?;
        let cells = measured.read(&zonal_backend::load(&device)?)?;
        let run = RunOptions { seconds: runtime, ..measured.run_options(&device, stop)? };
        let options = ValidateOptions { run, hold_out, resume };
        let done = lab::validate::validate(cells, &options, &**watched)?;
        Ok((lab::validate::json(&done), lab::validate::text(&done), lab::validate::html(&done)?))
    })
}

/// How a profile is fitted.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct FitArgs {
    free: Vec<String>,
    steps: u64,
    starts: u32,
    hold_out: Option<u32>,
    folds: Option<usize>,
    loads: usize,
    seconds: Option<f64>,
}

/// An option that could be adjusted: name, before, after, effect, uncertainty, why it was not adjusted.
pub type Adjusted = (&'static str, String, String, f64, Option<f64>, Option<&'static str>);

/// Fits a profile to measurements. Returns the profile, a text for people, and the options.
#[pyfunction]
pub fn fit(
    py: Python<'_>,
    profile: String,
    measured: Measured,
    args: FitArgs,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(String, String, Vec<Adjusted>)> {
    watch(py, progress, |stop, watched| {
        check_count("--steps", args.steps, 1..=10_000)?;
        check_count("--starts", args.starts.into(), 1..=100)?;
        check_seconds("--time", args.seconds)?;
        let start = Profile::load(&profile)?.adjusting(&args.free).context("--free")?;
        let spec = start.spec(&vec![0.0; start.names().len()])?;
        let cells = measured.read(&spec)?;
        let (ramp, seconds) = lab::fit::run_length(&spec, args.seconds);
        let run = RunOptions {
            seconds: Some(seconds),
            ramp: Some(ramp),
            ..measured.run_options(&profile, stop)?
        };
        let options = FitOptions {
            steps: args.steps,
            starts: args.starts,
            folds: args.folds,
            hold_out: args.hold_out,
            loads: args.loads.max(1),
            run,
        };
        let fitted = lab::fit::fit(&start, &cells, &options, &**watched)?;
        let text = lab::fit::text(&fitted, &cells);
        let options = fitted.options.into_iter().map(|option| {
            let why = Some(option.verdict).filter(|verdict| *verdict != Verdict::Adjusted);
            let lab::fit::Adjusted { name, before, after, effect, uncertainty, .. } = option;
            (name, before, after, effect, uncertainty, why.map(Verdict::words))
        });
        Ok((fitted.profile, text, options.collect()))
    })
}
