//! The samples of a table's cells.
pub use crate::experiment::PERCENTILES;
use crate::experiment::{median, sorted};

/// A cell in one round.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// The figure, in the cell's unit.
    pub figure: f64,
    /// Completion latencies in nanoseconds, at [`PERCENTILES`].
    pub latency: [u64; PERCENTILES.len()],
}

/// The samples of a cell, one per round; there is at least one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rounds(pub Vec<Sample>);

/// The samples of all cells of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Results(pub Vec<Rounds>);

impl Rounds {
    /// The median of the figures.
    pub fn median(&self) -> f64 {
        median(self.0.iter().map(|sample| sample.figure))
    }

    /// The range of the figures, in percent of their median.
    pub fn spread(&self) -> f64 {
        let figures = sorted(self.0.iter().map(|sample| sample.figure));
        (figures[figures.len() - 1] - figures[0]) / self.median() * 100.0
    }

    /// The median over the rounds of a latency in nanoseconds; `percentile` is an index into
    /// [`PERCENTILES`].
    pub fn latency(&self, percentile: usize) -> f64 {
        median(self.0.iter().map(|sample| sample.latency[percentile] as f64))
    }
}

impl Results {
    /// The figure of a cell: the median of its rounds.
    pub fn figure(&self, cell: usize) -> f64 {
        self.0[cell].median()
    }

    /// A cell's figure as a multiple of `times` another's: the median of the ratios of each round,
    /// so that rounds in which the machine was slow do not matter.
    pub fn ratio(&self, cell: usize, base: usize, times: f64) -> f64 {
        let rounds = self.0[cell].0.iter().zip(&self.0[base].0);
        median(rounds.map(|(sample, base)| sample.figure / (base.figure * times)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(figures: &[f64]) -> Rounds {
        let sample = |&figure: &f64| Sample { figure, latency: [figure as u64, 0, 0] };
        Rounds(figures.iter().map(sample).collect())
    }

    #[test]
    fn spread_is_the_range_in_percent_of_the_median() {
        let three = rounds(&[11.0, 10.0, 12.1]);
        assert_eq!(three.median(), 11.0);
        assert!((three.spread() - 19.09).abs() < 0.01);
        assert_eq!(three.latency(0), 11.0);
        let two = rounds(&[1.0, 3.0]);
        assert_eq!((two.median(), two.spread()), (2.0, 100.0));
        assert_eq!(rounds(&[5.0]).spread(), 0.0);
    }

    #[test]
    fn slow_rounds_do_not_change_a_ratio() {
        let slow_at_times = rounds(&[10.0, 2.0, 10.0]);
        let twice = rounds(&[20.0, 4.0, 3.0]);
        let results = Results(vec![slow_at_times, twice]);
        assert_eq!(results.ratio(1, 0, 1.0), 2.0);
        assert_eq!(results.ratio(1, 0, 4.0), 0.5);
        assert_eq!(results.figure(1), 4.0);
    }
}
