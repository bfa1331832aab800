//! Which points of a space a sweep measures.
use super::Axis;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use zonal_device::rng::Rng;

/// Most points of a sweep.
pub const MAX_POINTS: usize = 100_000;

/// Which points are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// All combinations.
    Grid,
    /// This many at random, none twice.
    Random {
        /// How many; all combinations if there are no more.
        points: usize,
    },
}

/// For each point, the index of the value of each axis. In a grid the last axis changes fastest.
///
/// # Errors
/// The points are too many.
pub fn points(axes: &[Axis], search: Search, seed: u64) -> Result<Vec<Vec<usize>>> {
    let count = axes.iter().try_fold(1_usize, |count, axis| count.checked_mul(axis.values.len()));
    match search {
        Search::Random { points } if count.is_none_or(|count| count > points) => {
            Ok(random(axes, points, seed))
        }
        _ => {
            let count = count.filter(|&count| count <= MAX_POINTS);
            let count =
                count.with_context(|| format!("expected at most {MAX_POINTS} combinations"))?;
            Ok((0..count).map(|number| combination(axes, number)).collect())
        }
    }
}

fn combination(axes: &[Axis], mut number: usize) -> Vec<usize> {
    let mut at = vec![0; axes.len()];
    for (axis, value) in axes.iter().zip(&mut at).rev() {
        *value = number % axis.values.len();
        number /= axis.values.len();
    }
    at
}

/// `points` of more combinations, in the order in which they are drawn.
fn random(axes: &[Axis], points: usize, seed: u64) -> Vec<Vec<usize>> {
    let mut rng = Rng::new(seed);
    let mut seen = BTreeSet::new();
    let mut drawn = Vec::with_capacity(points);
    while drawn.len() < points {
        let index = |axis: &Axis| rng.below(axis.values.len() as u64) as usize;
        let point: Vec<usize> = axes.iter().map(index).collect();
        if seen.insert(point.clone()) {
            drawn.push(point);
        }
    }
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes() -> Vec<Axis> {
        ["iodepth=1..64", "bs=4k..64k"].map(|axis| Axis::parse(axis).unwrap()).to_vec()
    }

    #[test]
    fn random_points_are_different_and_depend_on_the_seed_alone() {
        let draw = |points, seed| points_of(Search::Random { points }, seed);
        let first = draw(20, 1);
        assert_eq!(first, draw(20, 1));
        assert_ne!(first, draw(20, 2));
        assert_eq!(first[..5], draw(5, 1));
        assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), 20);
        assert_eq!(draw(34, 1).iter().collect::<BTreeSet<_>>().len(), 34);
        assert_eq!(draw(99, 1), points_of(Search::Grid, 0));
    }

    fn points_of(search: Search, seed: u64) -> Vec<Vec<usize>> {
        points(&axes(), search, seed).unwrap()
    }

    #[test]
    fn a_space_too_large_for_a_grid_can_be_drawn_from() {
        let axes = vec![axes().remove(0); 12];
        let error = points(&axes, Search::Grid, 0).unwrap_err().to_string();
        assert_eq!(error, "expected at most 100000 combinations");
        assert_eq!(points(&axes, Search::Random { points: 3 }, 0).unwrap().len(), 3);
    }
}
