//! The result of a fit as text.
use super::{Fitted, Measurement};
use crate::experiment::median;
use std::fmt::Write;

/// By how many percent a figure differs from the measured one.
fn error(figure: f64, measured: f64) -> f64 {
    (figure / measured - 1.0) * 100.0
}

/// The median and the largest absolute error; `None` without errors.
fn median_and_largest(errors: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let errors: Vec<f64> = errors.map(f64::abs).collect();
    let largest = errors.iter().copied().max_by(f64::total_cmp)?;
    Some((median(errors.into_iter()), largest))
}

/// A table of the options, a table of the measurements, and a summary.
pub fn render(fitted: &Fitted, measurements: &[Measurement]) -> String {
    let mut text = String::new();
    let wide = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0);
    let name = wide(&mut fitted.options.iter().map(|[name, ..]| name.len())).max(6);
    let mut line = |cells: [&str; 3]| {
        let [option, before, after] = cells;
        writeln!(text, "{option:name$}  {before:>12}  {after:>12}").expect("a string takes text");
    };
    line(["option", "before", "fitted"]);
    for [option, before, after] in &fitted.options {
        line([option, before, after]);
    }
    let name = wide(&mut measurements.iter().map(|m| m.name.chars().count())).max(11);
    text.push('\n');
    let mut line = |cells: [&str; 6]| {
        let [load, unit, measured, before, after, held_out] = cells;
        writeln!(
            text,
            "{load:name$}  {unit:5}  {measured:>10}  {before:>8}  {after:>8}  {held_out:>10}"
        )
        .expect("a string takes text");
    };
    line(["measurement", "", "measured", "before", "fitted", "predicted"]);
    for (at, measurement) in measurements.iter().enumerate() {
        let percent = |figure: f64| format!("{:+.1}%", error(figure, measurement.value));
        line([
            &measurement.name,
            measurement.unit.name(),
            &format!("{:.3}", measurement.value),
            &percent(fitted.before[at]),
            &percent(fitted.after[at]),
            &fitted.held_out[at].map_or("-".to_owned(), percent),
        ]);
    }
    text.push('\n');
    let with_values = |figures: &[f64]| {
        let errors = figures.iter().zip(measurements);
        median_and_largest(errors.map(|(&figure, measurement)| error(figure, measurement.value)))
    };
    let held_out = fitted.held_out.iter().zip(measurements);
    let held_out =
        held_out.filter_map(|(figure, measurement)| Some(error((*figure)?, measurement.value)));
    for (what, errors) in [
        ("before", with_values(&fitted.before)),
        ("fitted", with_values(&fitted.after)),
        ("predicted", median_and_largest(held_out)),
    ] {
        if let Some((median, largest)) = errors {
            writeln!(text, "{what:9}  median error {median:.1}%, largest {largest:.1}%")
                .expect("a string takes text");
        }
    }
    if fitted.held_out.iter().any(Option::is_some) {
        text.push_str(
            "predicted: by a fit to the other measurements. It says what to expect of loads that \
             were not\nmeasured; if it is far above `fitted`, there are too few measurements for \
             so many options.\n",
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_largest_are_of_absolute_errors() {
        assert_eq!(median_and_largest([-3.0, 1.0, 2.0].into_iter()), Some((2.0, 3.0)));
        assert_eq!(median_and_largest([-4.0, 1.0].into_iter()), Some((2.5, 4.0)));
        assert_eq!(median_and_largest(std::iter::empty()), None);
        assert!((error(55.0, 50.0) - 10.0).abs() < 1e-9);
    }
}
