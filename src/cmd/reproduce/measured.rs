//! What was measured of a table, beside what was published.
//!
//! Takes the samples of each cell, round by round; gives figures, errors and spreads. Keeps true: a
//! cell has at least one round; a withheld figure has no error.
use super::how::MeasureSettings;
use super::published::Figure;
use super::table::{Base, Comparison, Table};
use crate::experiment::{median, sorted};

/// The latency percentiles that are kept.
pub const PERCENTILES: [f64; 3] = [50.0, 99.0, 99.9];

/// A cell in one round.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// In the cell's unit.
    pub figure: f64,
    /// Completion latencies in nanoseconds, at [`PERCENTILES`].
    pub latency: [u64; PERCENTILES.len()],
}

/// A cell round by round; there is at least one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rounds(pub Vec<Sample>);

/// What was measured, by cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Results(pub Vec<Rounds>);

/// A table that was measured.
pub struct Measured {
    /// The table.
    pub table: Table,
    /// Its published figures.
    pub figures: Vec<Figure>,
    /// Ours.
    pub results: Results,
    /// How ours were measured.
    pub settings: MeasureSettings,
}

impl Rounds {
    /// The figure in the middle; of an even number of rounds, between the two in the middle.
    pub fn median(&self) -> f64 {
        median(self.0.iter().map(|sample| sample.figure))
    }

    /// How far the figures lie apart, in percent of the median.
    pub fn spread(&self) -> f64 {
        let figures = sorted(self.0.iter().map(|sample| sample.figure));
        (figures[figures.len() - 1] - figures[0]) / self.median() * 100.0
    }

    /// A latency in nanoseconds, by its place in [`PERCENTILES`].
    pub fn latency(&self, percentile: usize) -> f64 {
        median(self.0.iter().map(|sample| sample.latency[percentile] as f64))
    }
}

impl Results {
    /// The figure of a cell: the median of its rounds.
    pub fn figure(&self, cell: usize) -> f64 {
        self.0[cell].median()
    }

    /// A cell's figure as a multiple of `times` another's: the median over the rounds of what it
    /// was in each, which a machine that is slow for some rounds does not change.
    pub fn ratio(&self, cell: usize, base: usize, times: f64) -> f64 {
        let rounds = self.0[cell].0.iter().zip(&self.0[base].0);
        median(rounds.map(|(sample, base)| sample.figure / (base.figure * times)))
    }
}

impl Measured {
    /// The published figure of a cell.
    pub fn published(&self, cell: usize) -> Option<&Figure> {
        self.figures.iter().find(|figure| self.table.cell_of(figure) == Some(cell))
    }

    /// The published value of a cell; `None` if it is withheld, or the cell's own.
    pub fn value(&self, cell: usize) -> Option<f64> {
        self.published(cell)?.value()
    }

    /// By how many percent our figure differs from the published one.
    pub fn error(&self, cell: usize) -> Option<f64> {
        Some((self.results.figure(cell) / self.value(cell)? - 1.0) * 100.0)
    }

    /// How a cell's published figure compares with those of its bases, by the table's comparisons;
    /// empty where one of them is not known.
    pub fn published_percents(&self, cell: usize) -> Vec<String> {
        let value = |cell| self.value(cell);
        self.percents(cell, |base| Some(value(cell)? / (value(base.cell)? * base.times)))
    }

    /// How our figure compares with those of the cell's bases, by the table's comparisons.
    pub fn own_percents(&self, cell: usize) -> Vec<String> {
        self.percents(cell, |base| Some(self.results.ratio(cell, base.cell, base.times)))
    }

    fn percents(&self, cell: usize, ratio: impl Fn(&Base) -> Option<f64>) -> Vec<String> {
        let bases = self.table.cells[cell].bases.iter().zip(self.table.comparisons);
        let percent = |(base, comparison): (&Option<Base>, &Comparison)| {
            Some(comparison.style.show(ratio(base.as_ref()?)?))
        };
        bases.map(|both| percent(both).unwrap_or_default()).collect()
    }

    /// The devices of the published figures.
    pub fn devices(&self) -> String {
        let mut devices: Vec<&str> = self.figures.iter().map(Figure::device).collect();
        devices.dedup();
        devices.join("; ")
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
    fn median_lies_in_the_middle_and_the_spread_is_in_percent_of_it() {
        let three = rounds(&[11.0, 10.0, 12.1]);
        assert_eq!(three.median(), 11.0);
        assert!((three.spread() - 19.09).abs() < 0.01);
        assert_eq!(three.latency(0), 11.0);
        let two = rounds(&[1.0, 3.0]);
        assert_eq!((two.median(), two.spread()), (2.0, 100.0));
        assert_eq!(rounds(&[5.0]).spread(), 0.0);
    }

    #[test]
    fn ratio_is_that_of_the_usual_round_however_slow_the_machine_was_in_others() {
        let slow_at_times = rounds(&[10.0, 2.0, 10.0]);
        let twice = rounds(&[20.0, 4.0, 3.0]);
        let results = Results(vec![slow_at_times, twice]);
        assert_eq!(results.ratio(1, 0, 1.0), 2.0);
        assert_eq!(results.ratio(1, 0, 4.0), 0.5);
        assert_eq!(results.figure(1), 4.0);
    }
}
