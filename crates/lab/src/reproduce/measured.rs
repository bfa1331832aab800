//! The measured figures of a table beside the published ones.
use super::published::{Figure, Source};
use super::settings::MeasureSettings;
use super::table::{Base, Comparison, Table};
use crate::experiment::{median, sorted};

/// The latency percentiles that are kept.
pub const PERCENTILES: [f64; 3] = [50.0, 99.0, 99.9];

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

/// A table that was measured.
pub struct MeasuredTable {
    /// The table.
    pub table: Table,
    /// Its published figures.
    pub figures: Vec<Figure>,
    /// The measurements.
    pub results: Results,
    /// How it was measured.
    pub settings: MeasureSettings,
    /// Of an interrupted table, how many cells it would have; those that were not measured are not
    /// in `table`.
    pub interrupted: Option<usize>,
}

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

impl MeasuredTable {
    /// A table with the samples of its cells. Cells without any are left out.
    pub fn new(table: Table, results: Results, settings: MeasureSettings) -> Self {
        let figures = table.figures();
        let rounds = settings.rounds as usize;
        let is_whole = results.0.iter().all(|samples| samples.0.len() == rounds);
        let interrupted = (!is_whole).then_some(table.cells.len());
        let is_measured = |samples: &Rounds| !samples.0.is_empty();
        let table = table.with_cells(|at| is_measured(&results.0[at]));
        let results = Results(results.0.into_iter().filter(is_measured).collect());
        MeasuredTable { table, figures, results, settings, interrupted }
    }

    /// The published figure of a cell.
    pub fn published(&self, cell: usize) -> Option<&Figure> {
        self.figures.iter().find(|figure| self.table.cell_of(figure) == Some(cell))
    }

    /// The published value of a cell; `None` if it is withheld or there is none.
    pub fn value(&self, cell: usize) -> Option<f64> {
        self.published(cell)?.value()
    }

    /// By how many percent the measured figure differs from the published one; `None` if that is
    /// withheld.
    pub fn error(&self, cell: usize) -> Option<f64> {
        Some((self.results.figure(cell) / self.value(cell)? - 1.0) * 100.0)
    }

    /// The cell's published figure relative to those of its bases, one text per comparison of the
    /// table; empty where one of the figures is unknown.
    pub fn published_percents(&self, cell: usize) -> Vec<String> {
        let value = |cell| self.value(cell);
        self.percents(cell, |base| Some(value(cell)? / (value(base.cell)? * base.times)))
    }

    /// The cell's measured figure relative to those of its bases, one text per comparison of the
    /// table.
    pub fn measured_percents(&self, cell: usize) -> Vec<String> {
        self.percents(cell, |base| Some(self.results.ratio(cell, base.cell, base.times)))
    }

    fn percents(&self, cell: usize, ratio: impl Fn(&Base) -> Option<f64>) -> Vec<String> {
        let bases = self.table.cells[cell].bases.iter().zip(self.table.comparisons);
        let percent = |(base, comparison): (&Option<Base>, &Comparison)| {
            Some(comparison.kind.format(ratio(base.as_ref()?)?))
        };
        bases.map(|both| percent(both).unwrap_or_default()).collect()
    }

    /// Where its figures were published.
    pub fn sources(&self) -> Vec<&'static Source> {
        let mut sources: Vec<&Source> = self.figures.iter().filter_map(Figure::source).collect();
        sources.dedup();
        sources
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
