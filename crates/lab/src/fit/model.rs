//! The residuals of loads on a device that a profile describes.
use super::search::{Linear, Model};
use super::{Profile, counts};
use crate::experiment::{available_cpus, parallel_map};
use crate::measurements::{Cells, Interrupted, Predicted, RunOptions, run};
use anyhow::{Context, Result};
use std::cell::Cell as Count;
use zonal_device::device_spec::DeviceSpec;

/// A figure that is further off than this is as good as none: a factor of a thousand.
const FARTHEST: f64 = 6.9;

/// The loads of some cells, ready to run.
pub(super) struct Loads<'a> {
    profile: &'a Profile,
    cells: &'a Cells,
    options: &'a RunOptions,
    runs: Count<u64>,
    /// The cells that count, by load.
    of_load: Vec<Vec<usize>>,
}

impl<'a> Loads<'a> {
    /// The loads of a file of cells.
    pub fn new(profile: &'a Profile, cells: &'a Cells, options: &'a RunOptions) -> Self {
        let mut of_load = vec![Vec::new(); cells.loads.len()];
        for (at, cell) in cells.cells.iter().enumerate().filter(|(_, cell)| counts(cell.metric)) {
            of_load[cell.load].push(at);
        }
        Loads { profile, cells, options, runs: Count::new(0), of_load }
    }

    /// Runs of a load so far.
    pub fn runs(&self) -> u64 {
        self.runs.get()
    }

    /// Runs some loads.
    pub fn run(&self, spec: &DeviceSpec, which: &[usize]) -> Result<Vec<Predicted>> {
        self.runs.set(self.runs.get() + which.len() as u64);
        let (cells, options) = (self.cells, self.options);
        parallel_map(available_cpus(), which, |&at| {
            let load = &cells.loads[at];
            run(load, spec, options).with_context(|| load.to_string())
        })
    }

    /// Runs some loads and keeps their figures.
    pub fn keep(
        &self,
        spec: &DeviceSpec,
        which: &[usize],
        into: &mut [Option<Predicted>],
    ) -> Result<()> {
        for (&at, predicted) in which.iter().zip(self.run(spec, which)?) {
            into[at] = Some(predicted);
        }
        Ok(())
    }

    /// The part of the model of the loads `all` that is about some of them.
    pub fn only(&self, of: &Linear, all: &[usize], some: &[usize]) -> Linear {
        let kept = all.iter().flat_map(|load| {
            let keep = some.contains(load);
            self.of_load[*load].iter().map(move |_| keep)
        });
        let kept: Vec<bool> = kept.collect();
        let pick = |column: &Vec<f64>| {
            column.iter().zip(&kept).filter_map(|(x, keep)| keep.then_some(*x)).collect()
        };
        let columns = of.columns.iter().map(pick).collect();
        Linear { point: of.point.clone(), residuals: pick(&of.residuals), columns }
    }
}

/// Some of the loads as a model that a search adjusts.
pub(super) struct RunModel<'a> {
    pub loads: &'a Loads<'a>,
    pub which: &'a [usize],
}

impl RunModel<'_> {
    /// The residuals of figures, in the order of the loads and then of their cells.
    pub fn residuals_of(&self, predicted: &[Predicted]) -> Vec<f64> {
        let mut residuals = Vec::new();
        for (&load, predicted) in self.which.iter().zip(predicted) {
            for &at in &self.loads.of_load[load] {
                let cell = &self.loads.cells.cells[at];
                let residual = (predicted.figure(cell) / cell.value).ln();
                residuals.push(residual.clamp(-FARTHEST, FARTHEST));
            }
        }
        residuals
    }
}

impl Model for RunModel<'_> {
    fn residuals(&self, point: &[f64]) -> Result<Option<Vec<f64>>> {
        // Values that contradict one another, or with which a load cannot run.
        let Ok(spec) = self.loads.profile.spec(point) else { return Ok(None) };
        match self.loads.run(&spec, self.which) {
            Ok(predicted) => Ok(Some(self.residuals_of(&predicted))),
            Err(error) if error.is::<Interrupted>() => Err(error),
            Err(_) => Ok(None),
        }
    }

    fn step(&self, point: &[f64], parameter: usize) -> f64 {
        self.loads.profile.step(point, parameter)
    }
}
