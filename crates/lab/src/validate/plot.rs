//! The scatter plots of a validation: predicted against measured figures, a plot for each metric.
use super::Validation;
use crate::chart::{Axis, Chart, Marks, Scale, Series};
use crate::measurements::Metric;
use crate::reproduce::Plot;
use anyhow::Result;
use std::collections::BTreeMap;

/// A plot for each metric of which there are cells.
///
/// # Errors
/// A plot cannot be drawn.
pub fn plots(validation: &Validation) -> Result<Vec<Plot>> {
    let of_metric = |metric: Metric| Some((metric, scatter(validation, metric)?));
    let draw =
        |(metric, chart): (Metric, Chart)| Plot::of(format!("validate-{}", metric.name()), &chart);
    Metric::ALL.into_iter().filter_map(of_metric).map(draw).collect()
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
    let all = || kinds.values().flatten().flat_map(|&(measured, predicted)| [measured, predicted]);
    let (low, high) = (all().reduce(f64::min)?, all().reduce(f64::max)?);
    let mut series = vec![Series {
        name: "predicted = measured".to_owned(),
        colour: 0,
        slot: (0, 1),
        marks: Marks::Line { dashed: true, points: false },
        points: vec![(low, low), (high, high)],
    }];
    series.extend(kinds.into_iter().enumerate().map(|(colour, (kind, points))| Series {
        name: kind.to_owned(),
        colour,
        slot: (0, 1),
        marks: Marks::Dots,
        points,
    }));
    let unit = metric.unit();
    Some(Chart {
        title: metric.name().to_owned(),
        x: Axis { label: format!("measured, {unit}"), steps: None, scale: Scale::Logarithmic },
        y_label: format!("predicted, {unit}"),
        scale: Scale::Logarithmic,
        series,
    })
}
