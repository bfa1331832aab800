//! Advice as text, as JSON and as an HTML page.
use super::{Advice, Goal, Mechanisms, Trial, differences};
use crate::chart::{Axis, Chart, Marks, Scale, Series};
use crate::page::{self, escaped, table};
use anyhow::Result;
use serde_json::{Map, Value, json};
use std::fmt::Write;
use zonal_blk::ZoneWrite;

/// The recommendation and its reasons, in sentences.
pub fn conclusion(advice: &Advice) -> Vec<String> {
    let [best, others @ ..] = &advice.trials[..] else { return Vec::new() };
    let goal = match advice.goal {
        Goal::Throughput => format!("{:.1} MB/s", best.outcome.bytes / 1e6),
        Goal::Latency => format!("99% within {:.2} ms", best.p99() as f64 / 1e6),
    };
    let mut lines = vec![format!("Best: {} ({goal}).", best.configuration.name())];
    let close = others.iter().filter(|trial| advice.times(trial) < 1.02);
    let close: Vec<String> = close.map(|trial| trial.configuration.name()).collect();
    if !close.is_empty() {
        lines.push(format!("Within 2% of it: {}.", close.join("; ")));
    }
    let mechanisms = Mechanisms::of(best);
    // The best trial of each other policy, or the last trial if there is no other policy.
    let mut seen = vec![best.configuration.zone_write];
    let mut rivals: Vec<&Trial> = Vec::new();
    for trial in others {
        if !seen.contains(&trial.configuration.zone_write) {
            seen.push(trial.configuration.zone_write);
            rivals.push(trial);
        }
    }
    if rivals.is_empty() {
        rivals.extend(others.last());
    }
    for rival in rivals.into_iter().filter(|trial| advice.times(trial) >= 1.02) {
        let factor = advice.times(rival);
        lines.push(format!("{factor:.2} times as good as {}:", rival.configuration.name()));
        let why = differences(&mechanisms, &Mechanisms::of(rival));
        lines.extend(why.into_iter().map(|difference| format!("  {difference}")));
    }
    lines
}

impl Advice {
    /// How many times as good the best trial is.
    fn times(&self, trial: &Trial) -> f64 {
        let best = &self.trials[0];
        match self.goal {
            Goal::Throughput => best.outcome.bytes / trial.outcome.bytes,
            Goal::Latency => trial.p99() as f64 / best.p99().max(1) as f64,
        }
    }
}

/// A ranked table and the conclusion as text.
pub fn text(advice: &Advice) -> String {
    let mut text = format!("{}: {}\n\n", advice.device, advice.description);
    let names: Vec<String> = advice.trials.iter().map(|trial| trial.configuration.name()).collect();
    let wide = names.iter().map(String::len).max().unwrap_or(0).max(13);
    let line = |cells: [&str; 6]| {
        let [rank, name, rate, iops, median, p99] = cells;
        format!("{rank:>4}  {name:wide$}  {rate:>9}  {iops:>9}  {median:>10}  {p99:>10}\n")
    };
    text += &line(["rank", "configuration", "MB/s", "IOPS", "median ms", "99% ms"]);
    for (rank, (trial, name)) in (1..).zip(advice.trials.iter().zip(&names)) {
        let millis = |nanos: u64| format!("{:.2}", nanos as f64 / 1e6);
        text += &line([
            &rank.to_string(),
            name,
            &format!("{:.1}", trial.outcome.bytes / 1e6),
            &format!("{:.0}", trial.outcome.ios),
            &millis(trial.median()),
            &millis(trial.p99()),
        ]);
        let mechanisms = Mechanisms::of(trial).line();
        if !mechanisms.is_empty() {
            writeln!(text, "      {mechanisms}").expect("a string takes text");
        }
    }
    text.push('\n');
    for line in conclusion(advice) {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// All measurements as JSON.
pub fn json(advice: &Advice) -> String {
    let numbers = |pairs: &[(&'static str, f64)]| -> Map<String, Value> {
        pairs.iter().map(|&(name, value)| (name.to_owned(), json!(value))).collect()
    };
    let trials = advice.trials.iter().map(|trial| {
        let mechanisms = Mechanisms::of(trial);
        json!({
            "scheduler": trial.configuration.scheduler,
            "zone_write": trial.configuration.zone_write.map(ZoneWrite::name),
            "iodepth": trial.configuration.depth,
            "bytes_per_second": trial.outcome.bytes,
            "iops": trial.outcome.ios,
            "latency_ns": { "p50": trial.median(), "p99": trial.p99() },
            "drive_time_percent": numbers(&mechanisms.shares),
            "per_second": numbers(&mechanisms.rates),
            "parked_ms_per_write": mechanisms.parked_ms,
            "merged_percent": mechanisms.merged,
            "open_zones": mechanisms.open_zones,
        })
    });
    let value = json!({
        "device": advice.device,
        "description": advice.description,
        "goal": format!("{:?}", advice.goal).to_lowercase(),
        "tried": trials.collect::<Vec<_>>(),
        "conclusion": conclusion(advice),
    });
    format!("{value:#}\n")
}

/// The same and plots as one self-contained HTML page.
///
/// # Errors
/// A plot cannot be drawn.
pub fn html(advice: &Advice) -> Result<String> {
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
    let rows = advice.trials.iter().map(|trial| {
        let millis = |nanos: u64| format!("{:.2}", nanos as f64 / 1e6);
        vec![
            trial.configuration.name(),
            format!("{:.1}", trial.outcome.bytes / 1e6),
            format!("{:.0}", trial.outcome.ios),
            millis(trial.median()),
            millis(trial.p99()),
            Mechanisms::of(trial).line(),
        ]
    });
    table(&mut out, &headings.map(str::to_owned), 1, rows);
    Ok(out + page::END)
}

/// Throughput, latency, and what the drive spent its time on, by configuration.
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
        x: Axis { label: "rank".to_owned(), steps: Some(ranks.clone()), scale: Scale::Linear },
        y_label: y_label.to_owned(),
        scale: Scale::Linear,
        series,
    };
    let beside = |mut series: Vec<Series>| {
        let of = series.len();
        series.iter_mut().for_each(|series| series.slot.1 = of);
        series
    };
    let throughput = bars(0, "throughput", &|trial| trial.outcome.bytes / 1e6);
    let median = bars(0, "median", &|trial| trial.median() as f64 / 1e6);
    let p99 = bars(1, "99th percentile", &|trial| trial.p99() as f64 / 1e6);
    let mut charts = vec![
        chart("Throughput", "MB/s", vec![throughput]),
        chart("Completion latency", "ms", beside(vec![median, p99])),
    ];
    let shares = advice.trials.first().map_or(Vec::new(), |best| Mechanisms::of(best).shares);
    let shares = (0..)
        .zip(shares)
        .map(|(slot, (name, _))| bars(slot, name, &|trial| Mechanisms::of(trial).shares[slot].1));
    let shares = beside(shares.collect());
    if !shares.is_empty() {
        charts.push(chart("Where the drive's time goes", "%", shares));
    }
    charts
}
