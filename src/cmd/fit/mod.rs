//! `zonal fit`: adjusts a device profile to what a user measured on a drive.
//!
//! Takes a profile and measurements; gives the profile with which the model agrees best with them,
//! and how well it predicts measurements that it was not fitted to. Keeps true: the same arguments
//! give the same profile.
//!
//! Loads run in virtual time, side by side. The cost of a set of values is the mean square of
//! `log(ours / measured)`, so that half and double count alike; values that contradict one another
//! cost more than any that do not.
mod measurements;
mod profile;
mod search;
mod text;

use crate::cli::{ClockKind, Eta, FitArgs};
use crate::devices::DeviceOptions;
use crate::experiment::{self, RunLength, processors, side_by_side};
use crate::machine::Executor;
use anyhow::{Context, Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use measurements::Measurement;
use profile::Profile;
use std::io::{self, Write};
use std::process::ExitCode;
use text::Fitted;
use zonal_blk::QueueOptions;
use zonal_device::device_spec::DeviceSpec;

/// Cost of values that contradict one another: as if each figure were off by a factor of 20,000.
const IMPOSSIBLE: f64 = 100.0;

/// Parts that measurements are divided into unless somebody wants it otherwise.
const FOLDS: usize = 5;

/// Fits a profile and says how well.
pub fn run(args: &FitArgs) -> Result<ExitCode> {
    let profile = Profile::load(&args.profile, &args.free)?;
    let mut measurements = Vec::new();
    for path in &args.measurements {
        measurements.extend(measurements::read(path)?);
    }
    let folds = folds(args.folds, measurements.len())?;
    let evaluator = Evaluator { args, profile: &profile, measurements: &measurements };
    let parameters = profile.parameters();
    let start: Vec<f64> = parameters.iter().map(|parameter| parameter.start).collect();
    let all: Vec<usize> = (0..measurements.len()).collect();
    // Says what is wrong with a load before hours are spent on it.
    let before = evaluator.figures(&profile.spec(&start)?, &all)?;
    let progress = progress(args.steps * (folds as u64 + 1));
    let values = evaluator.fit(&all, &progress)?;
    let after = evaluator.figures(&profile.spec(&values)?, &all)?;
    let mut held_out = vec![None; measurements.len()];
    for fold in 0..folds {
        let (test, train): (Vec<usize>, Vec<usize>) =
            all.iter().partition(|&&at| at % folds == fold);
        let values = evaluator.fit(&train, &progress)?;
        let figures = evaluator.figures(&profile.spec(&values)?, &test)?;
        for (at, figure) in test.into_iter().zip(figures) {
            held_out[at] = Some(figure);
        }
    }
    progress.finish_and_clear();
    if let Some(path) = &args.output {
        std::fs::write(path, profile.text(&values))
            .with_context(|| format!("{}: cannot write", path.display()))?;
    }
    let names = parameters.iter().map(|parameter| parameter.name);
    let options = names.zip(profile.show(&start).into_iter().zip(profile.show(&values)));
    let fitted = Fitted {
        options: options.map(|(name, (before, after))| [name.to_owned(), before, after]).collect(),
        measurements: &measurements,
        before,
        after,
        held_out,
    };
    io::stdout().write_all(text::render(&fitted).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Into how many parts the measurements are divided.
fn folds(wanted: Option<usize>, measurements: usize) -> Result<usize> {
    match wanted {
        None if measurements < 2 => Ok(0),
        None => Ok(FOLDS.min(measurements)),
        Some(folds) => {
            let possible = folds == 0 || (2..=measurements).contains(&folds);
            ensure!(
                possible,
                "--folds: found {folds}, expected 0, or 2 to the number of measurements \
                 ({measurements})"
            );
            Ok(folds)
        }
    }
}

/// Shown on a terminal only.
fn progress(steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("fit [{bar:24}] {pos}/{len} steps eta {eta} {msg}");
    ProgressBar::new(steps).with_style(style.expect("the template is well formed"))
}

/// What runs the loads.
struct Evaluator<'a> {
    args: &'a FitArgs,
    profile: &'a Profile,
    measurements: &'a [Measurement],
}

impl Evaluator<'_> {
    /// The values with which the model agrees best with some of the measurements.
    fn fit(&self, train: &[usize], progress: &ProgressBar) -> Result<Vec<f64>> {
        let end = progress.position() + self.args.steps;
        let parameters = self.profile.parameters();
        let values = search::least(&parameters, self.args.steps, |values| {
            progress.set_position((progress.position() + 1).min(end));
            let Ok(spec) = self.profile.spec(values) else {
                return Ok(IMPOSSIBLE);
            };
            let figures = self.figures(&spec, train)?;
            let cost = self.cost(train, &figures);
            progress.set_message(format!("{:.1}%", cost.sqrt() * 100.0));
            Ok(cost)
        })?;
        progress.set_position(end);
        Ok(values)
    }

    /// The mean square of the logarithm of ours over what was measured.
    fn cost(&self, which: &[usize], figures: &[f64]) -> f64 {
        let square =
            |(&at, figure): (&usize, &f64)| (figure / self.measurements[at].value).ln().powi(2);
        which.iter().zip(figures).map(square).sum::<f64>() / which.len() as f64
    }

    /// What the model gives for some of the measurements.
    fn figures(&self, spec: &DeviceSpec, which: &[usize]) -> Result<Vec<f64>> {
        side_by_side(processors(), which, |&at| {
            let measurement = &self.measurements[at];
            self.figure(spec, measurement).with_context(|| measurement.name.clone())
        })
    }

    fn figure(&self, spec: &DeviceSpec, measurement: &Measurement) -> Result<f64> {
        let &FitArgs { seed, io_cost, time, .. } = self.args;
        let device_options = DeviceOptions {
            device: Some(self.args.profile.clone()),
            spec: Some(spec.clone()),
            queue: QueueOptions { zone_write: measurement.zone_write, ..QueueOptions::default() },
            scheduler: measurement.scheduler.clone(),
            seed,
            ..DeviceOptions::default()
        };
        let mut executor = Executor::new(ClockKind::Virtual, io_cost, Eta::Never)?;
        let outcome = experiment::run(
            &measurement.jobs,
            &device_options,
            Some(RunLength::of(time)),
            &mut executor,
        )?;
        Ok(measurement.unit.of(outcome.ios, outcome.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folds_are_as_many_as_can_be_predicted_from_one_another() {
        assert_eq!(folds(None, 1).unwrap(), 0);
        assert_eq!(folds(None, 3).unwrap(), 3);
        assert_eq!(folds(None, 30).unwrap(), 5);
        assert_eq!(folds(Some(0), 3).unwrap(), 0);
        assert_eq!(folds(Some(3), 3).unwrap(), 3);
        for wrong in [1, 4] {
            let error = folds(Some(wrong), 3).unwrap_err().to_string();
            assert!(error.ends_with("2 to the number of measurements (3)"), "{error}");
        }
    }
}
