//! Advice as one HTML page: the ranking, the reasons, and plots of both.
use super::reason::Mechanisms;
use super::render::conclusion;
use super::{Advice, Trial};
use crate::chart::{Axis, Chart, Marks, Scale, Series};
use crate::page::{self, escaped, table};
use anyhow::Result;
use std::fmt::Write;

/// The page.
///
/// # Errors
/// A plot cannot be drawn.
pub fn render(advice: &Advice) -> Result<String> {
    let mut out = page::begin(&format!("Advice for {}", advice.device));
    writeln!(out, "<p>{}</p>", escaped(&advice.description))?;
    for line in conclusion(advice) {
        writeln!(out, "<p>{}</p>", escaped(line.trim()))?;
    }
    for chart in charts(advice) {
        writeln!(out, "<figure>\n{}</figure>", chart.draw()?)?;
    }
    let headings =
        ["configuration", "MB/s", "IOPS", "median ms", "99% ms", "what drive and plugs did"];
    let rows = advice.trials.iter().map(|tried| {
        let millis = |nanos: u64| format!("{:.2}", nanos as f64 / 1e6);
        vec![
            tried.configuration.name(),
            format!("{:.1}", tried.outcome.bytes / 1e6),
            format!("{:.0}", tried.outcome.ios),
            millis(tried.median()),
            millis(tried.p99()),
            Mechanisms::of(tried).line(),
        ]
    });
    table(&mut out, &headings.map(str::to_owned), 1, rows);
    Ok(out + page::END)
}

/// Throughput, latency, and where the drive's time went, by configuration.
fn charts(advice: &Advice) -> Vec<Chart> {
    let ranks: Vec<String> = (1..=advice.trials.len()).map(|rank| rank.to_string()).collect();
    let bars = |slot, name: &str, value: &dyn Fn(&Trial) -> f64| Series {
        name: name.to_owned(),
        colour: slot,
        slot: (slot, 1),
        marks: Marks::Bars,
        points: (0..).map(f64::from).zip(advice.trials.iter().map(value)).collect(),
    };
    let chart = |title: &str, y_label: &str, series| Chart {
        title: title.to_owned(),
        x: Axis { label: "rank".to_owned(), steps: Some(ranks.clone()) },
        y_label: y_label.to_owned(),
        scale: Scale::Linear,
        series,
    };
    let beside = |mut series: Vec<Series>| {
        let of = series.len();
        series.iter_mut().for_each(|series| series.slot.1 = of);
        series
    };
    let throughput = bars(0, "throughput", &|tried| tried.outcome.bytes / 1e6);
    let median = bars(0, "median", &|tried| tried.median() as f64 / 1e6);
    let p99 = bars(1, "99th percentile", &|tried| tried.p99() as f64 / 1e6);
    let mut charts = vec![
        chart("Throughput", "MB/s", vec![throughput]),
        chart("Completion latency", "ms", beside(vec![median, p99])),
    ];
    let shares = advice.trials.first().map_or(Vec::new(), |best| Mechanisms::of(best).shares);
    let shares = (0..)
        .zip(shares)
        .map(|(slot, (name, _))| bars(slot, name, &|tried| Mechanisms::of(tried).shares[slot].1));
    let shares = beside(shares.collect());
    if !shares.is_empty() {
        charts.push(chart("Where the drive's time goes", "%", shares));
    }
    charts
}
