//! Fits a device profile to what was measured on a drive.
//!
//! The loads run in virtual time, in parallel, so the same arguments give the same profile. What is
//! made small is `log(figure / measured)`, so that half and double count alike, of all metrics but
//! the tails of the latency, which need long runs.
//!
//! ```text
//!  profile   options of a profile --> spec, and back
//!  model     a point --> residuals of the loads
//!  rungs     large steps of capacities and of options that are 0
//!  search    which point next
//!  solve     linear algebra
//! ```
mod export;
mod html;
mod model;
mod profile;
mod rungs;
mod search;
mod solve;
mod text;

use crate::measurements::{Cells, Metric, Predicted, RunOptions};
use crate::progress::StepProgress;
use anyhow::{Result, ensure};
pub use export::{csv, json};
pub use html::html;
use model::{Loads, RunModel};
pub use profile::Profile;
use search::{Linear, Model, Search, cost, linearize};
use std::cell::Cell as Count;
pub use text::render as text;
use zonal_device::device_spec::DeviceSpec;
use zonal_fio::rng::Rng;

/// Folds by default.
const FOLDS: usize = 5;
/// From this number of loads on, some are held out by default, in place of folds.
const MANY: usize = 30;
/// One in this many, by default.
const HOLD_OUT: u32 = 5;
/// A parameter with less effect than this moves nothing: a factor of two changes the figures by less
/// than 1 %, as a root mean square.
const MOVES: f64 = 0.01;
/// The least share of a parameter's effect that has to be its own, not explained by other parameters.
const DISTINCT: f64 = 0.1;
/// Searches after the first have this share of its steps: they begin near the best point, or with
/// derivatives that are known.
const SHARE: u64 = 3;
/// Loads for each parameter, at least: two.
const LOADS_PER_PARAMETER: usize = 2;

/// How to fit.
#[derive(Clone, Debug)]
pub struct FitOptions {
    /// Runs of all loads in the first search; the others have a third.
    pub steps: u64,
    /// Searches, each of the others from a random point near the best.
    pub starts: u32,
    /// Folds for cross-validation; `None` for as many as suit the loads.
    pub folds: Option<usize>,
    /// One load in this many is held out; `None` for what suits the loads, 0 for none.
    pub hold_out: Option<u32>,
    /// Loads that are run, at most.
    pub loads: usize,
    /// How they run.
    pub run: RunOptions,
}

/// The verdict on an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was adjusted.
    Adjusted,
    /// It changes no figure.
    MovesNothing,
    /// Others have the same effect.
    NotDistinct,
    /// There are too few loads for the number of parameters.
    TooFewLoads,
    /// It is 0, and no value that was tried is better.
    StaysZero,
}

/// An option that could be adjusted.
#[derive(Clone, Debug)]
pub struct Adjusted {
    /// Its name.
    pub name: &'static str,
    /// Its value before.
    pub before: String,
    /// Its value after.
    pub after: String,
    /// By how many percent a figure changes if it changes by one percent: the root mean square over
    /// the cells, at the start.
    pub effect: f64,
    /// The standard error of its value in percent, as far as the measurements determine it.
    pub uncertainty: Option<f64>,
    /// The verdict on it.
    pub verdict: Verdict,
}

/// A profile that was fitted.
pub struct Fitted {
    /// The options, adjusted or kept.
    pub options: Vec<Adjusted>,
    /// The profile's text with the fitted values.
    pub profile: String,
    /// The model's figures before and after the fit, by load; `None` for loads that were not run.
    pub before: Vec<Option<Predicted>>,
    /// After the fit, likewise.
    pub after: Vec<Option<Predicted>>,
    /// After a fit to other loads; `None` for a load that was in all fits.
    pub held_out: Vec<Option<Predicted>>,
    /// Runs of a load, over all searches.
    pub runs: u64,
}

/// The ramp and the measured time of a load in seconds: shorter than in a validation, since a fit
/// runs each load many times.
pub fn run_length(spec: &DeviceSpec, measured: Option<f64>) -> (f64, f64) {
    let (ramp, default): (f64, f64) = if spec.is_rotational() { (4.0, 20.0) } else { (0.05, 0.05) };
    (ramp.min(measured.unwrap_or(ramp)), measured.unwrap_or(default))
}

/// Whether a cell takes part in a fit.
fn counts(metric: Metric) -> bool {
    !matches!(metric, Metric::LatP99 | Metric::LatP999)
}

/// Which loads a fit runs, and which of them it does not learn from.
struct Parts {
    train: Vec<usize>,
    held_out: Vec<usize>,
    folds: usize,
}

impl Parts {
    fn of(cells: &Cells, options: &FitOptions) -> Result<Self> {
        let used =
            |load: &usize| cells.cells.iter().any(|cell| cell.load == *load && counts(cell.metric));
        let all: Vec<usize> = (0..cells.loads.len()).filter(used).collect();
        ensure!(!all.is_empty(), "found percentiles alone, expected rates or latencies");
        let many = all.len() >= MANY;
        let one_in = options.hold_out.unwrap_or(if many { HOLD_OUT } else { 0 });
        let is_held_out = |at: &usize| one_in > 0 && cells.loads[*at].is_held_out(one_in);
        let (held_out, train): (Vec<usize>, Vec<usize>) = all.into_iter().partition(is_held_out);
        let share = |loads: Vec<usize>| sample(cells, loads, options.loads);
        let (train, held_out) = (share(train), share(held_out));
        ensure!(!train.is_empty(), "--hold-out {one_in}: no load is left to fit to");
        let default = if many || train.len() < 2 { 0 } else { FOLDS.min(train.len()) };
        let folds = options.folds.unwrap_or(default);
        let (most, possible) = (train.len(), folds == 0 || (2..=train.len()).contains(&folds));
        ensure!(
            possible,
            "--folds: found {folds}, expected 0, or 2 to the number of loads ({most})"
        );
        Ok(Parts { train, held_out, folds })
    }
}

/// At most `most` loads, as many of each kind of work as of the others as far as there are, evenly
/// spread over the file.
fn sample(cells: &Cells, loads: Vec<usize>, most: usize) -> Vec<usize> {
    if loads.len() <= most {
        return loads;
    }
    let mut kinds: Vec<(&str, Vec<usize>)> = Vec::new();
    for load in loads {
        let class = cells.loads[load].class();
        match kinds.iter_mut().find(|(known, _)| *known == class) {
            Some((_, all)) => all.push(load),
            None => kinds.push((class, vec![load])),
        }
    }
    // The smallest first: what they do not need is for the others.
    kinds.sort_by_key(|(_, all)| all.len());
    let (mut left, mut chosen) = (most, Vec::new());
    for (at, (_, all)) in kinds.iter().enumerate() {
        let share = (left / (kinds.len() - at)).min(all.len());
        chosen.extend((0..share).map(|nr| all[nr * all.len() / share]));
        left -= share;
    }
    chosen.sort_unstable();
    chosen
}

/// Fits a profile to measurements, and predicts those that it was not fitted to.
///
/// # Errors
/// A load cannot run on the device, or there is nothing to fit to.
pub fn fit(
    profile: &Profile,
    cells: &Cells,
    options: &FitOptions,
    progress: &dyn StepProgress,
) -> Result<Fitted> {
    let parts = Parts::of(cells, options)?;
    let n = profile.names().len();
    let less = options.steps / SHARE;
    let attempt = options.steps + n as u64 + 1 + less * (u64::from(options.starts) - 1);
    progress.start("", 2 * attempt + less * parts.folds as u64 + profile.rungs_in_all() as u64);
    let runner = Loads::new(profile, cells, &options.run);
    let start = vec![0.0; n];
    // Finds a bad load before long runs.
    let before = runner.run(&profile.spec(&start)?, &parts.train)?;
    let model = RunModel { loads: &runner, which: &parts.train };
    let residuals = model.residuals_of(&before);
    let plain =
        Attempt::from(profile, &model, start.clone(), residuals.clone(), options, progress)?;
    let (point, residuals) = rungs::climb(profile, &model, start.clone(), residuals, progress)?;
    let Attempt { off, first, verdicts, free, best } = match point == start {
        true => {
            progress.advance(attempt);
            plain
        }
        false => {
            plain.or_better(Attempt::from(profile, &model, point, residuals, options, progress)?)
        }
    };
    let uncertainty = uncertainty(&best, &free);
    let mut held_out = vec![None; cells.loads.len()];
    for fold in 0..parts.folds {
        let is_in = |at: &usize| at % parts.folds != fold;
        let (kept, left): (Vec<usize>, Vec<usize>) = (0..parts.train.len()).partition(is_in);
        let pick = |which: &[usize]| which.iter().map(|&at| parts.train[at]).collect::<Vec<_>>();
        let (train, test) = (pick(&kept), pick(&left));
        let model = RunModel { loads: &runner, which: &train };
        // The first runs are those of the first search, without the rows that are left out.
        let first = runner.only(&first, &parts.train, &train);
        let verdicts = self::verdicts(&first, train.len());
        let free: Vec<usize> =
            self::free(&verdicts).into_iter().filter(|at| !off.contains(at)).collect();
        let found = search_from(&model, &free, first, less, progress)?;
        runner.keep(&profile.spec(&found.point)?, &test, &mut held_out)?;
    }
    let spec = profile.spec(&best.point)?;
    let mut after = vec![None; cells.loads.len()];
    runner.keep(&spec, &parts.train, &mut after)?;
    runner.keep(&spec, &parts.held_out, &mut held_out)?;
    let mut all_before = vec![None; cells.loads.len()];
    for (&at, predicted) in parts.train.iter().zip(before) {
        all_before[at] = Some(predicted);
    }
    runner.keep(&profile.spec(&start)?, &parts.held_out, &mut all_before)?;
    progress.finish();
    let (before, fitted) = (profile.format(&start), profile.format(&best.point));
    let adjusted = before.into_iter().zip(fitted).enumerate().map(|(at, (before, after))| {
        let (name, verdict) = (profile.names()[at], verdicts[at]);
        let effect = rms(&first.columns[at]);
        Adjusted { name, before, after, effect, uncertainty: uncertainty[at], verdict }
    });
    Ok(Fitted {
        options: adjusted.collect(),
        profile: profile.text(&best.point),
        before: all_before,
        after,
        held_out,
        runs: runner.runs(),
    })
}

/// The result of a search from one point.
struct Attempt {
    /// Options that are 0 there.
    off: Vec<usize>,
    /// The derivatives at the point.
    first: Linear,
    verdicts: Vec<Verdict>,
    /// Options that were adjusted.
    free: Vec<usize>,
    best: Linear,
}

impl Attempt {
    fn from(
        profile: &Profile,
        model: &RunModel<'_>,
        point: Vec<f64>,
        residuals: Vec<f64>,
        options: &FitOptions,
        progress: &dyn StepProgress,
    ) -> Result<Self> {
        let n = point.len();
        let (off, on): (Vec<usize>, Vec<usize>) =
            (0..n).partition(|&at| profile.is_off(&point, at));
        let first = linearize(model, point, residuals, &on)?;
        progress.advance(n as u64 + 1);
        let mut verdicts = verdicts(&first, model.which.len());
        off.iter().for_each(|&at| verdicts[at] = Verdict::StaysZero);
        let free = free(&verdicts);
        let best = search_from_starts(model, &free, first.clone(), options, progress)?;
        Ok(Attempt { off, first, verdicts, free, best })
    }

    /// This one, or the other one if its error is smaller. Large steps are taken one option after the
    /// other, so that one of them may make up for what the others have yet to.
    fn or_better(self, other: Self) -> Self {
        if cost(&other.best.residuals) < cost(&self.best.residuals) { other } else { self }
    }
}

/// The best of several searches.
fn search_from_starts(
    model: &RunModel<'_>,
    free: &[usize],
    first: Linear,
    options: &FitOptions,
    progress: &dyn StepProgress,
) -> Result<Linear> {
    let mut best = search_from(model, free, first, options.steps, progress)?;
    let steps = options.steps / SHARE;
    let mut rng = Rng::new(options.run.seed, [0; 4]);
    for _ in 1..options.starts {
        let mut point = best.point.clone();
        for &parameter in free {
            // Up to a factor of 1.5.
            let aside = (rng.below(1001) as f64 / 500.0 - 1.0) * 1.5_f64.ln();
            point[parameter] = (point[parameter] + aside).clamp(-search::REACH, search::REACH);
        }
        let Some(residuals) = model.residuals(&point)? else {
            progress.advance(steps);
            continue;
        };
        let start = Linear { point, residuals, columns: best.columns.clone() };
        let found = search_from(model, free, start, steps, progress)?;
        if cost(&found.residuals) < cost(&best.residuals) {
            best = found;
        }
    }
    Ok(best)
}

fn search_from(
    model: &RunModel<'_>,
    free: &[usize],
    first: Linear,
    steps: u64,
    progress: &dyn StepProgress,
) -> Result<Linear> {
    let shown = Count::new(0);
    let seen = |cost: f64| {
        shown.set(shown.get() + 1);
        progress.advance(1);
        progress.message(&format!("best error {:.1}%", typical_error(cost)));
    };
    let found = Search { model, free, budget: steps, seen: &seen }.run(first)?;
    progress.advance(steps.saturating_sub(shown.get()));
    Ok(found)
}

/// The error in percent that has this cost if all cells have it.
fn typical_error(cost: f64) -> f64 {
    let linear = cost / search::OUTLIER + search::OUTLIER / 2.0;
    let size = if linear > search::OUTLIER { linear } else { (2.0 * cost).sqrt() };
    (size.exp() - 1.0) * 100.0
}

fn rms(column: &[f64]) -> f64 {
    (column.iter().map(|x| x * x).sum::<f64>() / column.len().max(1) as f64).sqrt()
}

/// Which parameters can be adjusted: those that move figures in ways of their own, the strongest
/// first, as long as there are enough loads.
fn verdicts(first: &Linear, loads: usize) -> Vec<Verdict> {
    let most = (loads / LOADS_PER_PARAMETER).max(1);
    let cells = (first.residuals.len().max(1) as f64).sqrt();
    let mut verdicts = vec![Verdict::MovesNothing; first.columns.len()];
    let mut adjusted = 0;
    for (at, left) in solve::pivots(&first.columns) {
        let whole = rms(&first.columns[at]);
        verdicts[at] = if whole < MOVES {
            Verdict::MovesNothing
        } else if left / cells < whole * DISTINCT {
            Verdict::NotDistinct
        } else if adjusted == most {
            Verdict::TooFewLoads
        } else {
            adjusted += 1;
            Verdict::Adjusted
        };
    }
    verdicts
}

fn free(verdicts: &[Verdict]) -> Vec<usize> {
    let adjusted = |at: &usize| verdicts[*at] == Verdict::Adjusted;
    (0..verdicts.len()).filter(adjusted).collect()
}

/// The standard errors of the free parameters in percent, by parameter.
fn uncertainty(best: &Linear, free: &[usize]) -> Vec<Option<f64>> {
    let mut of_all = vec![None; best.columns.len()];
    let cells = best.residuals.len();
    let row = |cell: usize| free.iter().map(|&p| best.columns[p][cell]).collect();
    let rows: Vec<Vec<f64>> = (0..cells).map(row).collect();
    let Some(variances) = solve::variances(&rows).filter(|_| cells > free.len()) else {
        return of_all;
    };
    let square: f64 = best.residuals.iter().map(|r| r * r).sum();
    let variance = square / (cells - free.len()) as f64;
    for (&parameter, own) in free.iter().zip(variances) {
        of_all[parameter] = Some((variance * own).sqrt() * 100.0);
    }
    of_all
}

#[cfg(test)]
mod tests;
