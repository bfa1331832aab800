//! The scatter plots of a validation: the model's figures against the measured ones, a plot for each metric.
use super::Validation;
use crate::chart::{Chart, Plot};
use crate::measurements::Metric;
use std::collections::BTreeMap;

/// A plot for each metric of which there are cells.
pub fn plots(validation: &Validation) -> Vec<Plot> {
    let plot = |metric: Metric| {
        let name = format!("validate-{}", metric.name());
        Some(Plot { name, chart: scatter(validation, metric)? })
    };
    Metric::ALL.into_iter().filter_map(plot).collect()
}

/// All cells of a metric, coloured by kind of work; `None` without any.
fn scatter(validation: &Validation, metric: Metric) -> Option<Chart> {
    let mut kinds: BTreeMap<&'static str, Vec<(f64, f64)>> = BTreeMap::new();
    for (at, cell) in validation.cells.cells.iter().enumerate() {
        let predicted = validation.predicted(at);
        if cell.metric == metric && predicted > 0.0 {
            let class = validation.cells.class_of(cell);
            kinds.entry(class).or_default().push((cell.value, predicted));
        }
    }
    Chart::scatter(metric.name(), metric.unit(), kinds)
}
