//! `zonal.torture`.
use crate::error::bad_input;
use crate::watch::watch;
use anyhow::Error;
use pyo3::prelude::*;
use std::str::FromStr;
use std::sync::atomic::Ordering;
use std::time::Instant;
use zonal_lab::progress::StepProgress;
use zonal_torture::report::{Report, Seeds, marks};
use zonal_torture::{self as torture_lab, History, Profile};

/// Runs for shrinking a history.
const SHRINK_TRIES: u32 = 4000;

fn known_profile(name: &str) -> PyResult<Profile> {
    let known = Profile::from_str(name);
    known.map_err(|error| bad_input(Error::msg(format!("profile: found `{name}`, {error}"))))
}

/// Refuses a profile that is not known.
#[pyfunction]
pub fn check_torture_profile(name: &str) -> PyResult<()> {
    known_profile(name).map(|_| ())
}

/// Runs the seeds from `first` to `last`. Returns the report as JSON.
#[pyfunction]
pub fn torture(
    py: Python<'_>,
    profile: &str,
    first: u64,
    last: u64,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let profile = known_profile(profile)?;
    torture_lab::silence_panics();
    watch(py, progress, |stop, watched| {
        let begun = Instant::now();
        watched.start("torture", (last - first).saturating_add(1));
        let mut report = Report {
            version: crate::version().to_owned(),
            seeds: vec![Seeds { profile: profile.name().to_owned(), first, last }],
            ..Report::default()
        };
        for seed in (first..=last).take_while(|_| !stop.load(Ordering::Relaxed)) {
            let history = History::draw(seed, profile);
            let outcome = torture_lab::run(&history).map_err(Error::msg)?;
            report.add(&history.config, &outcome);
            if let Some(failure) = outcome.failure {
                let (short, failure) = torture_lab::shrink(&history, &failure, SHRINK_TRIES);
                report.add_failure(profile.name(), short, &failure);
            }
            watched.advance(1);
        }
        report.marks = marks();
        report.seconds = begun.elapsed().as_secs_f64();
        Ok(serde_json::to_string(&report)?)
    })
}

/// Merges reports. Returns the report of all as JSON and as text, and whether they passed.
#[pyfunction]
pub fn merge_torture(reports: Vec<String>) -> PyResult<(String, String, bool)> {
    let merge = || -> anyhow::Result<Report> {
        let mut all: Option<Report> = None;
        for report in &reports {
            let report = serde_json::from_str(report)?;
            match &mut all {
                None => all = Some(report),
                Some(all) => all.merge(report).map_err(Error::msg)?,
            }
        }
        all.ok_or_else(|| Error::msg("found no report, expected one or more"))
    };
    let all = merge().map_err(bad_input)?;
    let json = serde_json::to_string_pretty(&all).map_err(bad_input)?;
    Ok((json, all.text(), all.passed()))
}
