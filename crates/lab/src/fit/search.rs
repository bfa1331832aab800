//! Minimizes a cost within bounds by the downhill simplex of Nelder and Mead ("A simplex method for
//! function minimization", The Computer Journal 7, 1965), which needs no derivatives: a simulation
//! with its ties and thresholds has none. The same cost gives the same search.
use anyhow::Result;

/// The distance from the start to the corners of the first simplex, as a factor.
const FIRST_STEP: f64 = 1.25;

/// The search ends when the costs of the corners have a standard deviation below this.
const FLAT: f64 = 1e-6;

/// Coefficients of the four moves, those of the paper.
const REFLECT: f64 = 1.0;
const EXPAND: f64 = 2.0;
const CONTRACT: f64 = 0.5;
const SHRINK: f64 = 0.5;

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

/// A corner of the simplex. The point is in multiples of the start values, so that a step means as
/// much for each parameter.
#[derive(Clone, Debug)]
struct Corner {
    point: Vec<f64>,
    cost: f64,
}

/// One corner more than there are parameters, the cheapest first.
struct Simplex<F> {
    corners: Vec<Corner>,
    cost: F,
}

/// The values of least `cost` that `steps` steps find. Beyond the bounds, the cost is that of the
/// nearest values within.
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
    let values = |scaled: &[f64]| -> Vec<f64> {
        let within = |(p, scale): (&Parameter, &f64)| (p.start * scale).clamp(p.low, p.high);
        parameters.iter().zip(scaled).map(within).collect()
    };
    let mut points = vec![start];
    for (at, parameter) in parameters.iter().enumerate() {
        let mut point = points[0].clone();
        let up = parameter.start * FIRST_STEP <= parameter.high;
        point[at] = if up { FIRST_STEP } else { 1.0 / FIRST_STEP };
        points.push(point);
    }
    let mut simplex = Simplex::new(points, |scaled: &[f64]| cost(&values(scaled)))?;
    for _ in 0..steps {
        if simplex.is_flat() {
            break;
        }
        simplex.step()?;
    }
    Ok(values(&simplex.corners[0].point))
}

impl<F: Fn(&[f64]) -> Result<f64>> Simplex<F> {
    fn new(points: Vec<Vec<f64>>, cost: F) -> Result<Self> {
        let mut simplex = Simplex { corners: Vec::with_capacity(points.len()), cost };
        for point in points {
            let corner = simplex.corner(point)?;
            simplex.corners.push(corner);
        }
        simplex.sort();
        Ok(simplex)
    }

    fn corner(&self, point: Vec<f64>) -> Result<Corner> {
        let cost = (self.cost)(&point)?;
        Ok(Corner { point, cost })
    }

    fn sort(&mut self) {
        self.corners.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    }

    /// Whether all corners cost the same.
    fn is_flat(&self) -> bool {
        let n = self.corners.len() as f64;
        let mean = self.corners.iter().map(|corner| corner.cost).sum::<f64>() / n;
        let square = |corner: &Corner| (corner.cost - mean).powi(2);
        (self.corners.iter().map(square).sum::<f64>() / n).sqrt() < FLAT
    }

    /// Replaces the most expensive corner, or moves all towards the cheapest.
    fn step(&mut self) -> Result<()> {
        let last = self.corners.len() - 1;
        let (best, next) = (self.corners[0].cost, self.corners[last - 1].cost);
        let worst = self.corners[last].clone();
        let reflected = self.corner(self.opposite(REFLECT))?;
        let better = if reflected.cost < best {
            let expanded = self.corner(self.opposite(EXPAND))?;
            if expanded.cost < reflected.cost { expanded } else { reflected }
        } else if reflected.cost < next {
            reflected
        } else {
            let outside = reflected.cost < worst.cost;
            let to_beat = reflected.cost.min(worst.cost);
            let by = if outside { CONTRACT } else { -CONTRACT };
            let contracted = self.corner(self.opposite(by))?;
            if contracted.cost >= to_beat {
                return self.shrink();
            }
            contracted
        };
        self.corners[last] = better;
        self.sort();
        Ok(())
    }

    /// The point that is as far beyond the centre of the other corners as the most expensive corner
    /// is before it, times `by`.
    fn opposite(&self, by: f64) -> Vec<f64> {
        let (worst, others) = self.corners.split_last().expect("there are at least two corners");
        let coordinate = |at: usize| {
            let sum: f64 = others.iter().map(|corner| corner.point[at]).sum();
            let centre = sum / others.len() as f64;
            centre + by * (centre - worst.point[at])
        };
        (0..worst.point.len()).map(coordinate).collect()
    }

    fn shrink(&mut self) -> Result<()> {
        let best = self.corners[0].point.clone();
        for at in 1..self.corners.len() {
            let nearer =
                best.iter().zip(&self.corners[at].point).map(|(b, p)| b + SHRINK * (p - b));
            self.corners[at] = self.corner(nearer.collect())?;
        }
        self.sort();
        Ok(())
    }
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

    #[test]
    fn follows_the_valley_of_rosenbrock() {
        let parameters = [parameter("a", 0.4, -5.0, 5.0), parameter("b", 2.0, -5.0, 5.0)];
        let valley = |v: &[f64]| Ok(100.0 * (v[1] - v[0] * v[0]).powi(2) + (1.0 - v[0]).powi(2));
        let found = minimize(&parameters, 500, valley).unwrap();
        assert!((found[0] - 1.0).abs() < 0.01 && (found[1] - 1.0).abs() < 0.02, "{found:?}");
    }

    #[test]
    fn finds_the_bottom_of_four_dimensions() {
        // Powell's singular function, whose second derivative vanishes at its bottom, moved to 1.
        let parameters = [4.0, 0.5, 1.2, 2.0].map(|start| parameter("x", start, -9.0, 9.0));
        let powell = |v: &[f64]| {
            let [a, b, c, d] = [v[0] - 1.0, v[1] - 1.0, v[2] - 1.0, v[3] - 1.0];
            let quartic = (b - 2.0 * c).powi(4) + 10.0 * (a - d).powi(4);
            Ok((a + 10.0 * b).powi(2) + 5.0 * (c - d).powi(2) + quartic)
        };
        let found = minimize(&parameters, 1000, powell).unwrap();
        assert!(found.iter().all(|x| (x - 1.0).abs() < 0.1), "{found:?}");
    }

    #[test]
    fn a_plane_cost_ends_the_search_at_once() {
        let calls = std::cell::Cell::new(0);
        let flat = |_: &[f64]| {
            calls.set(calls.get() + 1);
            Ok(3.0)
        };
        let found = minimize(&[parameter("a", 5.0, 0.0, 10.0)], 1000, flat).unwrap();
        assert_eq!((found, calls.get()), (vec![5.0], 2));
    }
}
