//! Curves of estimates over the steps of an axis, with their confidence intervals.
use crate::chart::{Axis, Chart, Marks, Scale, Series};
use crate::estimate::Estimate;

/// Curves with lines without gaps; those after them are dashed, since colours repeat.
const SOLID: usize = 6;
/// The lower end of an interval on a logarithmic scale, as a part of the mean, where it would be at
/// or below 0.
const LOWEST: f64 = 0.1;

/// One curve.
pub struct Curve {
    /// Its name in the legend.
    pub name: String,
    /// The step of the axis, and the value there.
    pub points: Vec<(usize, Estimate)>,
}

/// A chart of curves over the steps of `x`.
pub fn chart(title: &str, x: Axis, y_label: &str, scale: Scale, curves: &[Curve]) -> Chart {
    let line = |colour| Marks::Line { dashed: colour >= SOLID, points: true };
    marked(title, x, y_label, scale, curves, line)
}

/// The same without lines, for steps that have no order.
pub fn points(title: &str, x: Axis, y_label: &str, scale: Scale, curves: &[Curve]) -> Chart {
    marked(title, x, y_label, scale, curves, |_| Marks::Rings)
}

fn marked(
    title: &str,
    x: Axis,
    y_label: &str,
    scale: Scale,
    curves: &[Curve],
    marks: impl Fn(usize) -> Marks,
) -> Chart {
    let mut series = Vec::with_capacity(2 * curves.len());
    for (colour, curve) in curves.iter().enumerate().filter(|(_, curve)| !curve.points.is_empty()) {
        let own = |points, marks| Series {
            name: curve.name.clone(),
            colour,
            slot: (0, 1),
            marks,
            points,
        };
        let points = curve.points.iter().map(|&(step, value)| (step as f64, value.mean));
        series.push(own(points.collect(), marks(colour)));
        let interval = |&(step, value): &(usize, Estimate)| {
            let (low, high) = value.interval();
            let low = if scale == Scale::Logarithmic { low.max(value.mean * LOWEST) } else { low };
            [(step as f64, low), (step as f64, high)]
        };
        let has_width = |(_, value): &&(usize, Estimate)| value.margin.is_some_and(|m| m > 0.0);
        let intervals: Vec<_> = curve.points.iter().filter(has_width).flat_map(interval).collect();
        if !intervals.is_empty() {
            series.push(own(intervals, Marks::Intervals));
        }
    }
    Chart { title: title.to_owned(), x, y_label: y_label.to_owned(), scale, series }
}
