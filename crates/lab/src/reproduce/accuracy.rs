//! How accurate a table is, and how accurate interpolation between published figures would be.
//!
//! Invariant: which cells count depends on the published figures alone, never on the measured ones.
use super::measured::MeasuredTable;
use super::table::{Comparability, Layout};
use crate::experiment::{Unit, median};

/// Percent below the fastest bandwidth of a table from which on a bandwidth is not simply the media
/// rate.
pub const NEAR_MEDIA_RATE: f64 = 5.0;

/// Absolute errors in percent, over some cells.
#[derive(Clone, Debug, PartialEq)]
pub struct Errors {
    /// The number of cells.
    pub count: usize,
    /// The median error.
    pub median: f64,
    /// The largest error.
    pub largest: f64,
    /// The cell with the largest error.
    pub worst: usize,
}

/// The accuracy of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Accuracy {
    /// Over all known figures.
    pub given: Option<Errors>,
    /// Without figures near the media rate; for models of drives.
    pub nontrivial: Option<Errors>,
    /// The number of withheld figures.
    pub withheld: usize,
    /// Errors of interpolation and of the measured figures, over the cells that have known
    /// neighbours.
    pub interpolation: Option<(Errors, Errors)>,
}

impl Accuracy {
    /// Compares a table with its published figures.
    pub fn of(measured: &MeasuredTable) -> Self {
        let cells = 0..measured.table.cells.len();
        let own_error = |cell: usize| Some((cell, measured.error(cell)?));
        let nontrivial = |&cell: &usize| is_nontrivial(measured, cell);
        let is_model = measured.table.comparability == Comparability::Figures;
        let interpolated = |cell: usize| {
            let value = measured.value(cell)?;
            Some((cell, (interpolate(measured, cell)? / value - 1.0) * 100.0))
        };
        let same = |&cell: &usize| interpolated(cell).is_some();
        let both = Errors::over(cells.clone().filter_map(interpolated))
            .zip(Errors::over(cells.clone().filter(same).filter_map(own_error)));
        Accuracy {
            given: Errors::over(cells.clone().filter_map(own_error)),
            nontrivial: Errors::over(cells.filter(nontrivial).filter_map(own_error))
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

    /// One line for people.
    pub fn describe(&self, measured: &MeasuredTable) -> String {
        let Self { count, median, largest, worst } = self;
        let cells = if *count == 1 { "cell" } else { "cells" };
        format!(
            "{count} {cells}, median {median:.1}%, largest {largest:.1}% ({})",
            measured.table.name_of(*worst)
        )
    }
}

/// Whether the media rate alone does not explain a cell's published figure. The fastest published
/// bandwidth of the table counts as the media rate.
fn is_nontrivial(measured: &MeasuredTable, cell: usize) -> bool {
    let unit = |cell: usize| measured.table.cells[cell].unit;
    let Some(value) = measured.value(cell) else { return false };
    if unit(cell) != Unit::MegabytesPerSecond {
        return true;
    }
    let rates = (0..measured.table.cells.len()).filter(|&other| unit(other) == unit(cell));
    let fastest = rates.filter_map(|other| measured.value(other)).fold(0.0, f64::max);
    value < fastest * (1.0 - NEAR_MEDIA_RATE / 100.0)
}

/// Linear interpolation between the nearest known figures to the left and to the right of a cell,
/// without the cell's own figure, with columns at equal distances. `None` for tables that are not
/// curves and where there is no such neighbour.
pub fn interpolate(measured: &MeasuredTable, cell: usize) -> Option<f64> {
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
