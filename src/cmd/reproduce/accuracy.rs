//! How near a table comes to the published figures, and how near something simpler would come.
//!
//! Takes what was measured; gives errors over the figures that are known. Keeps true: which cells
//! count is decided by the published figures alone, never by ours.
use super::measured::Measured;
use super::table::{Claim, Layout, Unit};
use crate::experiment::median;

/// A bandwidth that is so many percent below the fastest of its table is not simply what the media
/// can do.
pub const NEAR_MEDIA_RATE: f64 = 5.0;

/// Absolute errors in percent, over some cells.
#[derive(Clone, Debug, PartialEq)]
pub struct Errors {
    /// So many cells.
    pub count: usize,
    /// The error in the middle.
    pub median: f64,
    /// The largest.
    pub largest: f64,
    /// The cell that has it.
    pub worst: usize,
}

/// How near a table comes.
#[derive(Clone, Debug, PartialEq)]
pub struct Accuracy {
    /// Over all figures that are known.
    pub given: Option<Errors>,
    /// Without those that are about the media rate; for models of drives.
    pub nontrivial: Option<Errors>,
    /// Figures that are withheld.
    pub withheld: usize,
    /// Of interpolation, and ours over the same cells: those that have known neighbours.
    pub interpolation: Option<(Errors, Errors)>,
}

impl Accuracy {
    /// That of a table.
    pub fn of(measured: &Measured) -> Self {
        let cells = 0..measured.table.cells.len();
        let ours = |cell: usize| Some((cell, measured.error(cell)?));
        let nontrivial = |&cell: &usize| is_nontrivial(measured, cell);
        let is_model = measured.table.claim == Claim::Figures;
        let interpolated = |cell: usize| {
            let value = measured.value(cell)?;
            Some((cell, (interpolate(measured, cell)? / value - 1.0) * 100.0))
        };
        let same = |&cell: &usize| interpolated(cell).is_some();
        let both = Errors::over(cells.clone().filter_map(interpolated))
            .zip(Errors::over(cells.clone().filter(same).filter_map(ours)));
        Accuracy {
            given: Errors::over(cells.clone().filter_map(ours)),
            nontrivial: Errors::over(cells.filter(nontrivial).filter_map(ours))
                .filter(|_| is_model),
            withheld: measured.figures.iter().filter(|figure| figure.value().is_none()).count(),
            interpolation: both,
        }
    }
}

impl Errors {
    /// Over cells with their errors; `None` if there are none.
    fn over(errors: impl Iterator<Item = (usize, f64)>) -> Option<Self> {
        let errors: Vec<(usize, f64)> = errors.map(|(cell, error)| (cell, error.abs())).collect();
        let &(worst, largest) = errors.iter().max_by(|(_, a), (_, b)| a.total_cmp(b))?;
        let median = median(errors.iter().map(|&(_, error)| error));
        Some(Errors { count: errors.len(), median, largest, worst })
    }

    /// For people.
    pub fn describe(&self, measured: &Measured) -> String {
        let Self { count, median, largest, worst } = self;
        let cells = if *count == 1 { "cell" } else { "cells" };
        format!(
            "{count} {cells}, median {median:.1}%, largest {largest:.1}% ({})",
            measured.table.name_of(*worst)
        )
    }
}

/// Whether a cell's published figure takes more to explain than the media rate, which is taken to
/// be the fastest that was published in the table.
fn is_nontrivial(measured: &Measured, cell: usize) -> bool {
    let unit = |cell: usize| measured.table.cells[cell].unit;
    let Some(value) = measured.value(cell) else { return false };
    if unit(cell) != Unit::MegabytesPerSecond {
        return true;
    }
    let rates = (0..measured.table.cells.len()).filter(|&other| unit(other) == unit(cell));
    let fastest = rates.filter_map(|other| measured.value(other)).fold(0.0, f64::max);
    value < fastest * (1.0 - NEAR_MEDIA_RATE / 100.0)
}

/// What a straight line between the nearest figures that are known to the left and to the right
/// says of a cell, with columns evenly apart, and without the cell's own figure; `None` for tables
/// that are no curves, and where a neighbour is missing.
pub fn interpolate(measured: &Measured, cell: usize) -> Option<f64> {
    let table = &measured.table;
    let Layout::Curves { .. } = table.layout else { return None };
    let columns = table.headings(|cell| &cell.column);
    let own = columns.iter().position(|column| *column == table.cells[cell].column)?;
    let value =
        |at: usize| Some((at, measured.value(table.at(&table.cells[cell].row, columns[at])?)?));
    let (left, before) = (0..own).rev().find_map(value)?;
    let (right, after) = (own + 1..columns.len()).find_map(value)?;
    let share = (own - left) as f64 / (right - left) as f64;
    Some(before + (after - before) * share)
}
