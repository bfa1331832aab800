//! `zonal.crash`: the states that a loss of power may leave, from a recording.
use crate::watch::watch;
use anyhow::{Context, Result, anyhow, bail, ensure};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use zonal_backend::image::ImageName;
use zonal_crash::check::{Check, CheckError};
use zonal_crash::judge::{Case, Judge, Judgement, ZonefsOracle};
use zonal_crash::log::Log;
use zonal_crash::report;
use zonal_crash::{CheckProcess, Options as States};
use zonal_lab::crash_page;
use zonal_lab::fio_verify::FioVerifyOracle;
use zonal_lab::progress::StepProgress;

/// What Python's `crash` takes besides the log.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Options {
    /// A function or a command.
    check: Option<Py<PyAny>>,
    oracle: Option<String>,
    base: Option<PathBuf>,
    timeout: f64,
    max_failures: usize,
    per_cut: u64,
    sample: Option<u64>,
    seed: u64,
}

/// A function of Python that gets the name of an image. What it raises fails the state.
struct CheckFunction(Py<PyAny>);

impl Judge for CheckFunction {
    fn identity(&self) -> String {
        "a function of Python".to_owned()
    }

    fn judge(&self, case: &Case<'_>) -> Result<Judgement, CheckError> {
        let name = ImageName::of_path(&case.image.to_string_lossy());
        let failure = Python::attach(|py| match self.0.call1(py, (name,)) {
            Ok(value) if value.extract::<bool>(py).is_ok_and(|is_good| !is_good) => {
                Some("the check returned False".to_owned())
            }
            Ok(_) => None,
            Err(raised) => Some(raised.to_string()),
        });
        Ok(Judgement::of(failure))
    }
}

fn judge(options: &Options, log: &Log, name: &str) -> Result<Box<dyn Judge>> {
    let failed = |why: String| anyhow!("{name}: {why}");
    match (&options.check, options.oracle.as_deref()) {
        (Some(check), None) => {
            let command = Python::attach(|py| check.extract::<String>(py).ok());
            let Some(command) = command else {
                let check = Python::attach(|py| check.clone_ref(py));
                return Ok(Box::new(CheckFunction(check)));
            };
            ensure!(
                command.contains("{image}"),
                "--check: found `{command}`, expected a command with {{image}}, the name of the image"
            );
            ensure!(
                (0.001..=86400.0).contains(&options.timeout),
                "--timeout: found {}, expected 0.001 to 86400 seconds",
                options.timeout
            );
            let timeout = Duration::from_secs_f64(options.timeout);
            Ok(Box::new(CheckProcess { command, timeout, mark: None }))
        }
        (None, Some("zonefs")) => Ok(Box::new(ZonefsOracle::new(log).map_err(failed)?)),
        (None, Some("fio-verify")) => Ok(Box::new(FioVerifyOracle::new(log).map_err(failed)?)),
        (None, Some(other)) => {
            let near = zonal_blk::did_you_mean(other, ["zonefs", "fio-verify"]);
            bail!("--oracle: found `{other}`, expected zonefs or fio-verify{near}")
        }
        _ => bail!("crash: expected check or oracle, one of the two"),
    }
}

/// Checks the states of a recording. Returns the results as JSON and as a page.
#[pyfunction]
pub fn crash(
    py: Python<'_>,
    log: PathBuf,
    options: Options,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(String, String)> {
    watch(py, progress, |stop, watched| {
        let name = log.display().to_string();
        let log = Log::open(&log).with_context(|| name.clone())?;
        ensure!(options.per_cut > 0, "--per-cut: found 0, expected at least 1");
        let states = States { per_cut: options.per_cut, seed: options.seed, ..States::default() };
        let states = match options.sample {
            Some(0) => bail!("--sample: found 0, expected at least 1"),
            Some(wanted) => states.with_sample(&log, wanted),
            None => states,
        };
        let judge = judge(&options, &log, &name)?;
        let by = judge.identity();
        let check = Check {
            log,
            options: states,
            base: options.base.clone(),
            judge,
            jobs: thread::available_parallelism().map_or(1, usize::from),
            stop: Arc::clone(stop),
            max_failures: options.max_failures,
            work: None,
        };
        watched.start("checks", check.options.clone().count(&check.log));
        let results = check.run(None, &mut |_| watched.advance(1))?;
        let page = crash_page::render(&check.log, &name, &by, &results);
        Ok((report::json(&name, &by, &results), page))
    })
}
