//! Fits a device profile to what was measured on a drive.
//!
//! The loads run in virtual time, in parallel, so the same arguments give the same profile. The cost
//! of a set of values is the mean square of `log(figure / measured)`, so that half and double count
//! alike; values that contradict one another cost more than any that do not.
mod measurements;
mod profile;
mod search;
mod text;

use crate::devices::DeviceOptions;
use crate::executor::Executor;
use crate::experiment::{self, RunLength, available_cpus, parallel_map};
use crate::progress::StepProgress;
use anyhow::{Context, Result, ensure};
pub use measurements::{Measurement, read};
pub use profile::Profile;
pub use search::Parameter;
use std::cell::Cell;
pub use text::render as text;
use zonal_blk::QueueOptions;
use zonal_device::device_spec::DeviceSpec;
use zonal_sim::CostModel;

/// Cost of values that contradict one another: as if each figure were off by a factor of 20,000.
const IMPOSSIBLE: f64 = 100.0;

/// Folds by default.
const FOLDS: usize = 5;

/// How to fit.
#[derive(Clone, Copy, Debug)]
pub struct FitOptions {
    /// Steps of a search.
    pub steps: u64,
    /// Folds for cross-validation, see [`folds`].
    pub folds: usize,
    /// Virtual seconds per measurement.
    pub seconds: f64,
    /// The seed of the jobs and of the device.
    pub seed: u64,
    /// What an I/O costs the thread that submits it.
    pub io_cost: CostModel,
}

/// A profile that was fitted.
pub struct Fitted {
    /// Name, value before and value after of each option that was adjusted.
    pub options: Vec<[String; 3]>,
    /// The profile's text with the fitted values.
    pub profile: String,
    /// The model's figures before the fit, by measurement.
    pub before: Vec<f64>,
    /// The model's figures after the fit.
    pub after: Vec<f64>,
    /// The model's figures after a fit to the other folds; `None` without cross-validation.
    pub held_out: Vec<Option<f64>>,
}

/// Fits a profile to measurements, and cross-validates the fit.
///
/// # Errors
/// A load cannot run on the device.
pub fn fit(
    profile: &Profile,
    measurements: &[Measurement],
    options: &FitOptions,
    progress: &dyn StepProgress,
) -> Result<Fitted> {
    let evaluator = Evaluator { options, profile, measurements, progress };
    let parameters = profile.parameters();
    let start: Vec<f64> = parameters.iter().map(|parameter| parameter.start).collect();
    let all: Vec<usize> = (0..measurements.len()).collect();
    // Finds a bad load before hours are spent on the search.
    let before = evaluator.figures(&profile.spec(&start)?, &all)?;
    let folds = options.folds;
    progress.start("", options.steps * (folds as u64 + 1));
    let values = evaluator.fit(&all)?;
    let after = evaluator.figures(&profile.spec(&values)?, &all)?;
    let mut held_out = vec![None; measurements.len()];
    for fold in 0..folds {
        let (test, train): (Vec<usize>, Vec<usize>) =
            all.iter().partition(|&&at| at % folds == fold);
        let values = evaluator.fit(&train)?;
        let figures = evaluator.figures(&profile.spec(&values)?, &test)?;
        for (at, figure) in test.into_iter().zip(figures) {
            held_out[at] = Some(figure);
        }
    }
    progress.finish();
    let names = parameters.iter().map(|parameter| parameter.name);
    let changes = names.zip(profile.format(&start).into_iter().zip(profile.format(&values)));
    Ok(Fitted {
        options: changes.map(|(name, (before, after))| [name.to_owned(), before, after]).collect(),
        profile: profile.text(&values),
        before,
        after,
        held_out,
    })
}

/// The number of folds for cross-validation: `wanted`, or 5, but no more than there are
/// measurements. 0 is none.
///
/// # Errors
/// `wanted` is 1 or more than there are measurements.
pub fn folds(wanted: Option<usize>, measurements: usize) -> Result<usize> {
    match wanted {
        None if measurements < 2 => Ok(0),
        None => Ok(FOLDS.min(measurements)),
        Some(folds) => {
            let possible = folds == 0 || (2..=measurements).contains(&folds);
            ensure!(
                possible,
                "found {folds}, expected 0, or 2 to the number of measurements ({measurements})"
            );
            Ok(folds)
        }
    }
}

/// Runs the loads.
struct Evaluator<'a> {
    options: &'a FitOptions,
    profile: &'a Profile,
    measurements: &'a [Measurement],
    progress: &'a dyn StepProgress,
}

impl Evaluator<'_> {
    /// The values for which the model agrees best with the measurements `train`.
    fn fit(&self, train: &[usize]) -> Result<Vec<f64>> {
        let left = Cell::new(self.options.steps);
        let parameters = self.profile.parameters();
        let values = search::minimize(&parameters, self.options.steps, |values| {
            // The search may take a few steps more.
            if let Some(rest) = left.get().checked_sub(1) {
                left.set(rest);
                self.progress.advance(1);
            }
            let Ok(spec) = self.profile.spec(values) else {
                return Ok(IMPOSSIBLE);
            };
            let figures = self.figures(&spec, train)?;
            let cost = self.cost(train, &figures);
            self.progress.message(&format!("{:.1}%", cost.sqrt() * 100.0));
            Ok(cost)
        })?;
        self.progress.advance(left.get());
        Ok(values)
    }

    /// The mean square of the logarithm of figure over measured value.
    fn cost(&self, which: &[usize], figures: &[f64]) -> f64 {
        let square =
            |(&at, figure): (&usize, &f64)| (figure / self.measurements[at].value).ln().powi(2);
        which.iter().zip(figures).map(square).sum::<f64>() / which.len() as f64
    }

    /// The model's figures for some of the measurements.
    fn figures(&self, spec: &DeviceSpec, which: &[usize]) -> Result<Vec<f64>> {
        parallel_map(available_cpus(), which, |&at| {
            let measurement = &self.measurements[at];
            self.figure(spec, measurement).with_context(|| measurement.name.clone())
        })
    }

    fn figure(&self, spec: &DeviceSpec, measurement: &Measurement) -> Result<f64> {
        let &FitOptions { seed, io_cost, seconds, .. } = self.options;
        let device_options = DeviceOptions {
            device: Some(self.profile.name().to_owned()),
            spec: Some(spec.clone()),
            queue: QueueOptions { zone_write: measurement.zone_write, ..QueueOptions::default() },
            scheduler: measurement.scheduler.clone(),
            seed,
            ..DeviceOptions::default()
        };
        let mut executor = Executor::virtual_time(io_cost);
        let length = Some(RunLength::of(seconds));
        let outcome = experiment::run(&measurement.jobs, &device_options, length, &mut executor)?;
        Ok(measurement.unit.of(outcome.ios, outcome.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_folds_depends_on_the_number_of_measurements() {
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
