//! Adjusts parameters so that the residuals of a model become small, by the method of Gauss and
//! Newton with the damping of Levenberg and Marquardt ("An algorithm for least-squares estimation of
//! nonlinear parameters", 1963).
//!
//! A run of a model is dear and its figures have noise, so derivatives are differences over a wide
//! step, and are kept up to date from the steps that are taken (Broyden, "A class of methods for
//! solving nonlinear simultaneous equations", 1965); they are measured again only when these no longer
//! lead down. Residuals beyond [`OUTLIER`] count by their size and not by its square (Huber, "Robust
//! estimation of a location parameter", 1964): what no parameter explains must not govern all.
//!
//! Points are logarithms of a parameter over its start value.
use super::solve::damped_least_squares;
use anyhow::Result;

/// From this size on a residual counts as an outlier: 10 %.
pub(super) const OUTLIER: f64 = 0.1;
/// The step of differences: large enough to stand out of the noise of a simulation.
pub(super) const STEP: f64 = 0.15;
/// The longest step of a parameter: a factor of 2.
const LONGEST: f64 = std::f64::consts::LN_2;
/// The bounds of a search: a factor of 8 in both directions.
pub(super) const REACH: f64 = 3.0 * std::f64::consts::LN_2;
/// Damping at the beginning, and by how much it changes.
const DAMPING: f64 = 0.01;
const DAMPING_FACTOR: f64 = 5.0;
/// A step that reduces the cost by less than this share has found nothing.
const FLAT: f64 = 0.005;
/// The cost below which nothing is left to find: errors of 0.1 %.
const NOTHING: f64 = 0.5e-6;
/// Steps in a row that may find nothing.
const PATIENCE: u32 = 3;

/// A model at a point: its residuals, and how they change with each parameter.
#[derive(Clone, Debug)]
pub(super) struct Linear {
    /// The point.
    pub point: Vec<f64>,
    /// `log(figure / measured)`.
    pub residuals: Vec<f64>,
    /// Derivatives of all residuals, by parameter.
    pub columns: Vec<Vec<f64>>,
}

/// Residuals at a point; `None` if the values contradict one another.
pub(super) trait Model {
    /// Runs the model.
    fn residuals(&self, point: &[f64]) -> Result<Option<Vec<f64>>>;
    /// The step for the derivative by a parameter: the least from [`STEP`] on that changes its value.
    fn step(&self, point: &[f64], parameter: usize) -> f64;
}

/// The mean cost of residuals: half their square, or linear beyond [`OUTLIER`].
pub(super) fn cost(residuals: &[f64]) -> f64 {
    let one = |r: f64| match r.abs() {
        small if small <= OUTLIER => small * small / 2.0,
        large => OUTLIER * (large - OUTLIER / 2.0),
    };
    residuals.iter().map(|&r| one(r)).sum::<f64>() / residuals.len().max(1) as f64
}

/// Measures the derivatives at a point.
pub(super) fn linearize(
    model: &impl Model,
    point: Vec<f64>,
    residuals: Vec<f64>,
    free: &[usize],
) -> Result<Linear> {
    let mut columns = vec![vec![0.0; residuals.len()]; point.len()];
    for &parameter in free {
        let step = model.step(&point, parameter);
        for step in [step, -step] {
            let mut beside = point.clone();
            beside[parameter] += step;
            if beside[parameter].abs() > REACH {
                continue;
            }
            let Some(found) = model.residuals(&beside)? else { continue };
            let slope = found.iter().zip(&residuals).map(|(there, here)| (there - here) / step);
            columns[parameter] = slope.collect();
            break;
        }
    }
    Ok(Linear { point, residuals, columns })
}

/// A search for the point of least cost.
pub(super) struct Search<'a, M> {
    /// The model.
    pub model: &'a M,
    /// The parameters that may change.
    pub free: &'a [usize],
    /// Runs of the model that are left.
    pub budget: u64,
    /// Called with the best cost so far.
    pub seen: &'a dyn Fn(f64),
}

impl<M: Model> Search<'_, M> {
    /// The best point that it finds from `at`.
    pub fn run(&mut self, mut at: Linear) -> Result<Linear> {
        if self.free.is_empty() {
            return Ok(at);
        }
        let (mut damping, mut failures, mut measured) = (DAMPING, 0, true);
        while self.budget > 0 && cost(&at.residuals) > NOTHING {
            let before = cost(&at.residuals);
            let found = match self.step(&at, damping) {
                Some(point) => self.try_point(&mut at, point)?,
                None => 0.0,
            };
            (self.seen)(cost(&at.residuals));
            damping = match found > 0.0 {
                true => (damping / DAMPING_FACTOR).max(1e-6),
                false => damping * DAMPING_FACTOR,
            };
            if found > before * FLAT {
                (failures, measured) = (0, false);
                continue;
            }
            failures += 1;
            if failures < PATIENCE {
                continue;
            }
            if measured || self.budget <= self.free.len() as u64 {
                break;
            }
            self.budget -= self.free.len() as u64;
            at = linearize(self.model, at.point, at.residuals, self.free)?;
            (damping, failures, measured) = (DAMPING, 0, true);
        }
        Ok(at)
    }

    /// The next point to try; `None` if the derivatives do not determine one.
    fn step(&self, at: &Linear, damping: f64) -> Option<Vec<f64>> {
        let row = |cell: usize| {
            let residual = at.residuals[cell];
            let weight = (OUTLIER / residual.abs().max(OUTLIER)).sqrt();
            let slopes = self.free.iter().map(|&p| weight * at.columns[p][cell]);
            (slopes.collect::<Vec<f64>>(), -weight * residual)
        };
        let rows: Vec<(Vec<f64>, f64)> = (0..at.residuals.len()).map(row).collect();
        let steps = damped_least_squares(&rows, damping)?;
        let longest = steps.iter().fold(0.0_f64, |longest, step| longest.max(step.abs()));
        let scale = (LONGEST / longest).min(1.0);
        let mut point = at.point.clone();
        for (&parameter, step) in self.free.iter().zip(&steps) {
            point[parameter] = (point[parameter] + scale * step).clamp(-REACH, REACH);
        }
        Some(point)
    }

    /// Goes to a point if that reduces the cost. Returns by how much it did.
    fn try_point(&mut self, at: &mut Linear, point: Vec<f64>) -> Result<f64> {
        self.budget -= 1;
        let Some(residuals) = self.model.residuals(&point)? else { return Ok(0.0) };
        let step: Vec<f64> = point.iter().zip(&at.point).map(|(new, old)| new - old).collect();
        let length: f64 = step.iter().map(|x| x * x).sum();
        if length == 0.0 {
            return Ok(0.0);
        }
        // What the step did beyond what the derivatives foretold is put down to its direction.
        for cell in 0..residuals.len() {
            let foretold: f64 = step.iter().zip(&at.columns).map(|(s, c)| s * c[cell]).sum();
            let beyond = (residuals[cell] - at.residuals[cell] - foretold) / length;
            for &parameter in self.free {
                at.columns[parameter][cell] += beyond * step[parameter];
            }
        }
        let less = cost(&at.residuals) - cost(&residuals);
        if less > 0.0 {
            (at.point, at.residuals) = (point, residuals);
        }
        Ok(less.max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Figures of a made-up drive by its parameters, against those of hidden ones.
    struct Drive<F> {
        figures: F,
        hidden: Vec<f64>,
        runs: Cell<u64>,
    }

    impl<F: Fn(&[f64]) -> Vec<f64>> Model for Drive<F> {
        fn residuals(&self, point: &[f64]) -> Result<Option<Vec<f64>>> {
            self.runs.set(self.runs.get() + 1);
            assert!(point.iter().all(|x| x.abs() <= REACH), "{point:?}");
            let values = |point: &[f64]| point.iter().map(|x| x.exp()).collect::<Vec<f64>>();
            let measured = (self.figures)(&values(&self.hidden));
            let found = (self.figures)(&values(point));
            let bad = found.iter().any(|figure| figure.is_nan());
            Ok((!bad).then(|| found.iter().zip(&measured).map(|(f, m)| (f / m).ln()).collect()))
        }

        fn step(&self, _: &[f64], _: usize) -> f64 {
            STEP
        }
    }

    fn search<F: Fn(&[f64]) -> Vec<f64>>(figures: F, hidden: &[f64]) -> (Linear, u64) {
        let drive = Drive { figures, hidden: hidden.to_vec(), runs: Cell::new(0) };
        let start = vec![0.0; hidden.len()];
        let free: Vec<usize> = (0..hidden.len()).collect();
        let residuals = drive.residuals(&start).unwrap().expect("the start is possible");
        let at = linearize(&drive, start, residuals, &free).unwrap();
        let mut search = Search { model: &drive, free: &free, budget: 60, seen: &|_| () };
        let found = search.run(at).unwrap();
        (found, drive.runs.get())
    }

    fn is_near(found: &Linear, hidden: &[f64], within: f64) -> bool {
        found.point.iter().zip(hidden).all(|(found, hidden)| (found - hidden).abs() < within)
    }

    /// A drive with a latency, a controller's time per command and a bandwidth: the least of three.
    fn drive(p: &[f64]) -> Vec<f64> {
        let mut figures = Vec::new();
        for depth in [1.0, 4.0, 32.0] {
            for block in [1.0, 4.0, 64.0] {
                let alone = depth / (p[0] + p[1] + block / p[2]);
                figures.push(alone.min(1.0 / p[1]).min(p[2] / block));
            }
        }
        figures
    }

    #[test]
    fn hidden_parameters_are_recovered_in_few_runs() {
        for hidden in [[0.7, -0.5, 0.9], [-1.2, 0.8, -0.6]] {
            let (found, runs) = search(drive, &hidden);
            assert!(is_near(&found, &hidden, 0.02), "{hidden:?}: {:?}", found.point);
            assert!(runs <= 40, "{runs} runs");
        }
    }

    #[test]
    fn figures_that_no_parameter_explains_do_not_govern_the_others() {
        // The last figure is three times as high as the model can make it.
        let with_outlier = |p: &[f64]| {
            let mut figures = drive(p);
            figures.push(if p[0] == 1.0_f64.exp() { 3.0 } else { 1.0 });
            figures
        };
        let (found, _) = search(with_outlier, &[1.0, 0.3, -0.3]);
        assert!(is_near(&found, &[1.0, 0.3, -0.3], 0.05), "{:?}", found.point);
    }

    #[test]
    fn values_that_contradict_one_another_are_never_chosen() {
        let contradictory =
            |p: &[f64]| if p[0] > 1.1 { vec![f64::NAN] } else { vec![p[0], p[0] * p[0]] };
        let (found, _) = search(contradictory, &[-0.9]);
        assert!(is_near(&found, &[-0.9], 0.01), "{:?}", found.point);
    }

    #[test]
    fn search_ends_at_its_bounds_and_within_its_budget() {
        let (found, runs) = search(|p: &[f64]| vec![p[0]], &[3.0]);
        assert!((found.point[0] - REACH).abs() < 1e-9, "{:?}", found.point);
        assert!(runs <= 62, "{runs}");
    }
}
