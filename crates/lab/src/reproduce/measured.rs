//! The measured figures of a table beside the published ones.
use super::published::Figure;
use super::results::{Results, Rounds};
use super::settings::MeasureSettings;
use super::table::{Base, Comparison, Table};

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
        self.table.cells[cell].figure.as_ref()
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
        let bases = self.table.cells[cell].bases.iter().zip(&self.table.comparisons);
        let percent = |(base, comparison): (&Option<Base>, &Comparison)| {
            Some(comparison.kind.format(ratio(base.as_ref()?)?))
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
