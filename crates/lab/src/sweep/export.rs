//! A sweep as CSV, as JSON, as a page and as plots.
use super::text::{Lines, best, notices, settings, table};
use super::{Axis, Metric, PERCENTILES, Point, Sample, Sweep, SweepOptions};
use crate::chart::{Axis as ChartAxis, Plot, Scale};
use crate::curves::{self, Curve};
use crate::estimate::Estimate;
use crate::executor::ClockKind;
use crate::page;
use crate::table::Table;
use anyhow::Result;
use serde_json::{Map, Value, json};

/// A line for each point and, if there are several, each job and direction: the values of the axes, the number of samples, then mean and half the width
/// of the 95 % confidence interval of each figure.
pub fn csv(sweep: &Sweep) -> String {
    let (figures, lines) = (figures(), Lines::of(sweep));
    let mut headings: Vec<String> = lines.headings().collect();
    headings.push("samples".to_owned());
    for Figure { name, .. } in &figures {
        headings.extend([name.clone(), format!("{name}_ci95")]);
    }
    headings.push("failed".to_owned());
    let row = |point: &Point| {
        let mut fields = vec![point.samples.len().to_string()];
        for figure in &figures {
            let estimate = point.estimate(&figure.of);
            let margin = estimate.and_then(|estimate| estimate.margin);
            let show = |value: Option<f64>| value.map_or_else(String::new, |v| v.to_string());
            fields.extend([show(estimate.map(|estimate| estimate.mean)), show(margin)]);
        }
        fields.push(point.failure.clone().unwrap_or_default());
        fields
    };
    Table::new(headings, lines.rows(row)).csv()
}

/// A figure of a sample, by its name with the unit.
struct Figure {
    name: String,
    of: Box<dyn Fn(&Sample) -> f64>,
}

fn figures() -> Vec<Figure> {
    let figure =
        |name: &str, of: fn(&Sample) -> f64| Figure { name: name.to_owned(), of: Box::new(of) };
    let mut figures = vec![
        figure("bytes_per_second", |sample| sample.bytes),
        figure("iops", |sample| sample.iops),
    ];
    figures.extend(PERCENTILES.iter().enumerate().map(|(at, percentile)| Figure {
        name: format!("clat_p{percentile}_ns"),
        of: Box::new(move |sample| sample.latencies[at] as f64),
    }));
    figures
}

/// All samples, and how they were taken.
pub fn json(sweep: &Sweep) -> String {
    let options = &sweep.options;
    let axis = |axis: &Axis| json!({ "name": axis.name(), "values": axis.values });
    let estimate = |estimate: Estimate| json!({ "mean": estimate.mean, "ci95": estimate.margin });
    let point = |point: &Point| {
        let figures: Map<String, Value> = figures()
            .into_iter()
            .map(|figure| (figure.name, json!(point.estimate(figure.of).map(estimate))))
            .collect();
        let samples: Vec<Value> = point.samples.iter().map(Sample::to_json).collect();
        json!({
            "values": of_axes(sweep, point),
            "figures": figures,
            "samples": samples,
            "failed": point.failure,
            "repeat": again(sweep, point),
        })
    };
    let best = options.metric.and_then(|metric| metric.best(sweep));
    let document = json!({
        "zonal version": env!("CARGO_PKG_VERSION"),
        "clock": options.clock.name(),
        "io_cost": options.io_cost.to_string(),
        "seconds": options.seconds,
        "seed": options.seed,
        "seeds": options.seeds,
        "device": options.device,
        "scheduler": options.scheduler,
        "zone_write": options.zone_write.map(zonal_blk::ZoneWrite::name),
        "percentiles": PERCENTILES,
        "axes": options.axes.iter().map(axis).collect::<Vec<_>>(),
        "interrupted": sweep.is_interrupted,
        "notices": notices(sweep),
        "metric": options.metric.map(Metric::name),
        "best": best.map(|(best, _)| of_axes(sweep, best)),
        "points": sweep.points.iter().map(point).collect::<Vec<_>>(),
    });
    format!("{document:#}\n")
}

/// The values of a point by the names of their axes.
fn of_axes(sweep: &Sweep, point: &Point) -> Map<String, Value> {
    let axes = sweep.options.axes.iter().map(|axis| axis.name().to_owned());
    axes.zip(sweep.options.values(&point.at).map(Value::from)).collect()
}

/// The command that measures a point again, for a shell; `None` if the jobs are not known any more.
fn again(sweep: &Sweep, point: &Point) -> Option<String> {
    let SweepOptions {
        device, scheduler, zone_write, seeds, seed, seconds, clock, io_cost, ..
    } = &sweep.options;
    let mut words = vec!["zonal".to_owned(), "sweep".to_owned()];
    for (axis, &value) in sweep.options.axes.iter().zip(&point.at) {
        words.extend(["--vary".to_owned(), axis.with_value(value)]);
    }
    for (option, value) in [
        ("--device", device.clone()),
        ("--scheduler", scheduler.clone()),
        ("--zone-write", zone_write.map(|policy| policy.name().to_owned())),
        ("--seeds", (*seeds > 1).then(|| seeds.to_string())),
        ("--seed", (*seed > 0).then(|| seed.to_string())),
        ("--time", seconds.map(|seconds| seconds.to_string())),
        ("--clock", Some(clock.name().to_owned())),
        ("--io-cost", (*clock == ClockKind::Virtual).then(|| io_cost.argument()).flatten()),
    ] {
        words.extend(value.into_iter().flat_map(|value| [option.to_owned(), value]));
    }
    let words = shlex::try_join(words.iter().map(String::as_str)).ok()?;
    Some(format!("{words} {}", sweep.jobs.as_ref()?))
}

/// Plots and the table as one self-contained page.
///
/// # Errors
/// A plot cannot be drawn.
pub fn html(sweep: &Sweep) -> Result<String> {
    let names: Vec<&str> = sweep.options.axes.iter().map(Axis::name).collect();
    let mut out = page::begin(&format!("Sweep over {}", names.join(", ")));
    let interrupted = "Interrupted: points without figures were not reached.";
    let interrupted = sweep.is_interrupted.then(|| interrupted.to_owned());
    let lines = best(sweep).into_iter().chain(notices(sweep)).chain(interrupted);
    page::paragraphs(&mut out, std::iter::once(settings(sweep)).chain(lines));
    for plot in plots(sweep) {
        plot.chart.html(&mut out)?;
    }
    table(sweep).html(&mut out, names.len());
    Ok(out + page::END)
}

/// Throughput, and each percentile of the latency, over the first axis of numbers (else the first
/// axis), with a line for each combination of the others.
pub fn plots(sweep: &Sweep) -> Vec<Plot> {
    let axes = &sweep.options.axes;
    let across = axes.iter().position(|axis| axis.is_numeric() && axis.values.len() > 1);
    let across = across.unwrap_or(0);
    let plot = |name: &str, title: &str, unit: &str, scale, value: &Taken<'_>| {
        let steps = Some(axes[across].values.clone());
        let x = ChartAxis { label: axes[across].name().to_owned(), steps, scale: Scale::Linear };
        let title = format!("{title} by {}", axes[across].name());
        let chart = curves::chart(&title, x, unit, scale, &curves_of(sweep, across, value));
        Plot { name: format!("sweep-{name}"), chart }
    };
    let mut plots =
        vec![plot("throughput", "Throughput", "MB/s", Scale::Linear, &Point::throughput)];
    for (at, percentile) in PERCENTILES.iter().enumerate() {
        let title = format!("Completion latency, {percentile}th percentile,");
        let name = format!("latency-{percentile}");
        plots.push(plot(&name, &title, "ms", Scale::Logarithmic, &|point| point.latency(at)));
    }
    plots
}

type Taken<'a> = dyn Fn(&Point) -> Option<Estimate> + 'a;

/// A curve for each combination of the values of all axes but `across`, in the order of the points.
fn curves_of(sweep: &Sweep, across: usize, value: &Taken<'_>) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for point in &sweep.points {
        let others = sweep.options.values(&point.at).enumerate();
        let others: Vec<&str> =
            others.filter(|&(axis, _)| axis != across).map(|(_, value)| value).collect();
        let name = if others.is_empty() { "all jobs".to_owned() } else { others.join(", ") };
        let known = curves.iter().position(|curve| curve.name == name);
        let at = known.unwrap_or_else(|| {
            curves.push(Curve { name, points: Vec::new() });
            curves.len() - 1
        });
        curves[at].points.extend(value(point).map(|value| (point.at[across], value)));
    }
    curves
}
