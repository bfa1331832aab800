//! Minimizes a cost within bounds by Nelder and Mead's downhill simplex, which needs no derivatives:
//! a simulation with its ties and thresholds has none. The same cost gives the same search.
use anyhow::Result;
use argmin::core::{CostFunction, Executor, State};
use argmin::solver::neldermead::NelderMead;
use std::cell::RefCell;

/// The distance from the start to the corners of the first simplex, as a factor.
const FIRST_STEP: f64 = 1.25;

/// A parameter that is searched for.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// The option's name.
    pub name: &'static str,
    /// The value to start from.
    pub start: f64,
    /// The smallest value.
    pub low: f64,
    /// The largest value.
    pub high: f64,
}

impl Parameter {
    fn clamp(&self, value: f64) -> f64 {
        value.clamp(self.low, self.high)
    }
}

struct Problem<'a, F> {
    parameters: &'a [Parameter],
    cost: F,
    /// The first error of the cost, kept here because the solver panics on errors.
    failed: &'a RefCell<Option<anyhow::Error>>,
}

impl<F: Fn(&[f64]) -> Result<f64>> CostFunction for Problem<'_, F> {
    type Param = Vec<f64>;
    type Output = f64;

    /// At the nearest values within bounds. `scaled` are multiples of the start values, so that a
    /// step means as much for each.
    fn cost(&self, scaled: &Vec<f64>) -> Result<f64> {
        if self.failed.borrow().is_some() {
            return Ok(f64::INFINITY);
        }
        let cost = (self.cost)(&values(self.parameters, scaled));
        Ok(cost.unwrap_or_else(|error| {
            *self.failed.borrow_mut() = Some(error);
            f64::INFINITY
        }))
    }
}

fn values(parameters: &[Parameter], scaled: &[f64]) -> Vec<f64> {
    parameters.iter().zip(scaled).map(|(p, scale)| p.clamp(p.start * scale)).collect()
}

/// The values of least `cost` that `steps` steps find.
///
/// # Errors
/// The cost's own.
pub fn minimize(
    parameters: &[Parameter],
    steps: u64,
    cost: impl Fn(&[f64]) -> Result<f64>,
) -> Result<Vec<f64>> {
    let start = vec![1.0; parameters.len()];
    if parameters.is_empty() {
        return Ok(start);
    }
    let mut corners = vec![start.clone()];
    for (at, parameter) in parameters.iter().enumerate() {
        let mut corner = start.clone();
        let up = parameter.start * FIRST_STEP <= parameter.high;
        corner[at] = if up { FIRST_STEP } else { 1.0 / FIRST_STEP };
        corners.push(corner);
    }
    let solver = NelderMead::new(corners).with_sd_tolerance(1e-6)?;
    let failed = RefCell::new(None);
    let problem = Problem { parameters, cost, failed: &failed };
    let run = Executor::new(problem, solver).configure(|state| state.max_iters(steps)).run()?;
    if let Some(error) = failed.take() {
        return Err(error);
    }
    let best = run.state().get_best_param().cloned().unwrap_or(start);
    Ok(values(parameters, &best))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameter(name: &'static str, start: f64, low: f64, high: f64) -> Parameter {
        Parameter { name, start, low, high }
    }

    #[test]
    fn finds_the_bottom_of_a_bowl() {
        let parameters = [parameter("a", 5.0, 0.0, 100.0), parameter("b", 80.0, 0.0, 100.0)];
        let bowl = |v: &[f64]| Ok((v[0] / 7.0 - 1.0).powi(2) + (v[1] / 60.0 - 1.0).powi(2));
        let found = minimize(&parameters, 200, bowl).unwrap();
        assert!((found[0] - 7.0).abs() < 0.1 && (found[1] - 60.0).abs() < 1.0, "{found:?}");
        assert_eq!(found, minimize(&parameters, 200, bowl).unwrap(), "the same each time");
    }

    #[test]
    fn stays_within_bounds() {
        let parameters = [parameter("a", 5.0, 4.0, 6.0)];
        let seen = std::cell::RefCell::new(Vec::new());
        let falling = |v: &[f64]| {
            seen.borrow_mut().push(v[0]);
            Ok(100.0 - v[0])
        };
        let found = minimize(&parameters, 100, falling).unwrap();
        assert!((found[0] - 6.0).abs() < 0.01, "{found:?}");
        assert!(seen.borrow().iter().all(|v| (4.0..=6.0).contains(v)));
    }

    #[test]
    fn error_of_the_cost_ends_the_search() {
        let parameters = [parameter("a", 5.0, 4.0, 6.0)];
        let outcome = minimize(&parameters, 100, |_| anyhow::bail!("no such device"));
        assert_eq!(outcome.unwrap_err().to_string(), "no such device");
    }
}
