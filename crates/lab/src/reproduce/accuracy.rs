//! How accurate a table is, and how accurate a prediction without any model would be.
//!
//! Invariant: which cells count depends on the published figures alone, never on the measured ones.
use super::measured::MeasuredTable;
use super::table::{Comparability, FigureUse, Layout};
use crate::experiment::{Unit, median, sorted};

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
    /// The error that nine of ten cells do not exceed.
    pub p90: f64,
    /// The largest error.
    pub largest: f64,
    /// The index of the cell with the largest error.
    pub worst: usize,
}

/// Errors of the measured figures, and of the naive baseline over the same cells.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// Of the measured figures.
    pub own: Errors,
    /// Of [`naive`], over those of the cells that it has a figure for.
    pub naive: Option<Errors>,
}

/// The accuracy of a table. In tables of models, cells whose figures were used for a model are no
/// predictions.
#[derive(Clone, Debug, PartialEq)]
pub struct Accuracy {
    /// Over the known figures that are predictions.
    pub predicted: Option<Compared>,
    /// The same without figures near the media rate; for models of drives.
    pub nontrivial: Option<Compared>,
    /// Over the figures that a parameter was adjusted to.
    pub calibrated: Option<Errors>,
    /// The cells that a parameter was computed from.
    pub identities: Vec<usize>,
    /// The number of withheld figures.
    pub withheld: usize,
}

/// A known figure: its cell, the error of the measured figure and that of the naive baseline.
#[derive(Clone, Copy, Debug)]
pub struct CellError {
    cell: usize,
    own: f64,
    naive: Option<f64>,
    nontrivial: bool,
}

/// The errors of the cells of a table whose figures are known and were used for what `figure_use`
/// says.
pub fn cell_errors(measured: &MeasuredTable, figure_use: FigureUse) -> Vec<CellError> {
    let error = |cell: usize| {
        let value = measured.value(cell)?;
        let is_one = measured.table.cells[cell].figure_use == figure_use;
        is_one.then(|| CellError {
            cell,
            own: measured.error(cell).unwrap_or(f64::NAN),
            naive: naive(measured, cell).map(|naive| (naive / value - 1.0) * 100.0),
            nontrivial: is_nontrivial(measured, cell),
        })
    };
    (0..measured.table.cells.len()).filter_map(error).collect()
}

impl Compared {
    /// Over cells, perhaps of several tables; `None` if there are none.
    pub fn over(errors: &[CellError]) -> Option<Self> {
        let own = Errors::over(errors.iter().map(|error| (error.cell, error.own)))?;
        let naive = errors.iter().filter_map(|error| Some((error.cell, error.naive?)));
        Some(Compared { own, naive: Errors::over(naive) })
    }

    /// The same over the cells whose figures the media rate does not explain.
    pub fn over_nontrivial(errors: &[CellError]) -> Option<Self> {
        let errors: Vec<CellError> =
            errors.iter().filter(|error| error.nontrivial).copied().collect();
        Compared::over(&errors)
    }
}

impl Accuracy {
    /// Compares a table with its published figures.
    pub fn of(measured: &MeasuredTable) -> Self {
        let predicted = cell_errors(measured, FigureUse::Prediction);
        let calibrated = cell_errors(measured, FigureUse::Calibration);
        let is_model = measured.table.comparability == Comparability::Figures;
        Accuracy {
            nontrivial: Compared::over_nontrivial(&predicted).filter(|_| is_model),
            predicted: Compared::over(&predicted),
            calibrated: Errors::over(calibrated.iter().map(|error| (error.cell, error.own))),
            identities: cell_errors(measured, FigureUse::Identity)
                .iter()
                .map(|error| error.cell)
                .collect(),
            withheld: measured.figures.iter().filter(|figure| figure.value().is_none()).count(),
        }
    }
}

impl Errors {
    /// Over cells with their errors; `None` if there are none.
    fn over(errors: impl Iterator<Item = (usize, f64)>) -> Option<Self> {
        let errors: Vec<(usize, f64)> = errors.map(|(cell, error)| (cell, error.abs())).collect();
        let &(worst, largest) = errors.iter().max_by(|(_, a), (_, b)| a.total_cmp(b))?;
        let in_order = sorted(errors.iter().map(|&(_, error)| error));
        let median = median(in_order.iter().copied());
        let p90 = in_order[(in_order.len() * 9).div_ceil(10) - 1];
        Some(Errors { count: errors.len(), median, p90, largest, worst })
    }

    /// One line for people.
    pub fn describe(&self, measured: &MeasuredTable) -> String {
        let Self { count, median, p90, largest, worst } = self;
        let cells = if *count == 1 { "cell" } else { "cells" };
        format!(
            "{count} {cells}, median {median:.1}%, 90th percentile {p90:.1}%, largest {largest:.1}% \
             ({})",
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
    let Layout::Curves = table.layout else { return None };
    let columns = table.headings(|cell| &cell.column);
    let own = columns.iter().position(|column| *column == table.cells[cell].column)?;
    let value =
        |at: usize| Some((at, measured.value(table.at(&table.cells[cell].row, columns[at])?)?));
    let (left, before) = (0..own).rev().find_map(value)?;
    let (right, after) = (own + 1..columns.len()).find_map(value)?;
    let share = (own - left) as f64 / (right - left) as f64;
    Some(before + (after - before) * share)
}

/// The prediction of a cell without a model, from the other known figures: on a curve,
/// interpolation; else the figure of the same column in the nearest row that has one.
pub fn naive(measured: &MeasuredTable, cell: usize) -> Option<f64> {
    let table = &measured.table;
    let nearest_row = || {
        let rows = table.headings(|cell| &cell.row);
        let own = rows.iter().position(|row| *row == table.cells[cell].row)?;
        let value = |at: usize| {
            let other = table.at(rows[at], &table.cells[cell].column)?;
            Some((own.abs_diff(at), measured.value(other)?))
        };
        let others = (0..rows.len()).filter(|&at| at != own).filter_map(value);
        others.min_by_key(|&(distance, _)| distance).map(|(_, value)| value)
    };
    interpolate(measured, cell).or_else(nearest_row)
}
