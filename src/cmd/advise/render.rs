//! Advice as text, JSON and HTML.
use super::reason::{Mechanisms, differences};
use super::{Advice, Trial};
use crate::cli::Goal;
use serde_json::{Map, Value, json};
use std::fmt::Write;
use zonal_blk::ZoneWrite;

/// What is recommended, and why, in sentences.
pub fn conclusion(advice: &Advice) -> Vec<String> {
    let [best, others @ ..] = &advice.trials[..] else { return Vec::new() };
    let goal = match advice.goal {
        Goal::Throughput => format!("{:.1} MB/s", best.outcome.bytes / 1e6),
        Goal::Latency => format!("99% within {:.2} ms", best.p99() as f64 / 1e6),
    };
    let mut lines = vec![format!("Best: {} ({goal}).", best.configuration.name())];
    let close = others.iter().filter(|tried| advice.times(tried) < 1.02);
    let close: Vec<String> = close.map(|tried| tried.configuration.name()).collect();
    if !close.is_empty() {
        lines.push(format!("Within 2% of it: {}.", close.join("; ")));
    }
    let ours = Mechanisms::of(best);
    // The best of each other policy, or the last if there is no other.
    let mut seen = vec![best.configuration.zone_write];
    let mut rivals: Vec<&Trial> = Vec::new();
    for tried in others {
        if !seen.contains(&tried.configuration.zone_write) {
            seen.push(tried.configuration.zone_write);
            rivals.push(tried);
        }
    }
    if rivals.is_empty() {
        rivals.extend(others.last());
    }
    for rival in rivals.into_iter().filter(|tried| advice.times(tried) >= 1.02) {
        let factor = advice.times(rival);
        lines.push(format!("{factor:.2} times as good as {}:", rival.configuration.name()));
        let why = differences(&ours, &Mechanisms::of(rival));
        lines.extend(why.into_iter().map(|difference| format!("  {difference}")));
    }
    lines
}

impl Advice {
    /// How many times as good the best is.
    fn times(&self, tried: &Trial) -> f64 {
        let best = &self.trials[0];
        match self.goal {
            Goal::Throughput => best.outcome.bytes / tried.outcome.bytes,
            Goal::Latency => tried.p99() as f64 / best.p99().max(1) as f64,
        }
    }
}

/// A ranked table with reasons.
pub fn text(advice: &Advice) -> String {
    let mut text = format!("{}: {}\n\n", advice.device, advice.description);
    let names: Vec<String> = advice.trials.iter().map(|tried| tried.configuration.name()).collect();
    let wide = names.iter().map(String::len).max().unwrap_or(0).max(13);
    let line = |cells: [&str; 6]| {
        let [rank, name, rate, iops, median, p99] = cells;
        format!("{rank:>4}  {name:wide$}  {rate:>9}  {iops:>9}  {median:>10}  {p99:>10}\n")
    };
    text += &line(["rank", "configuration", "MB/s", "IOPS", "median ms", "99% ms"]);
    for (rank, (tried, name)) in (1..).zip(advice.trials.iter().zip(&names)) {
        let millis = |nanos: u64| format!("{:.2}", nanos as f64 / 1e6);
        text += &line([
            &rank.to_string(),
            name,
            &format!("{:.1}", tried.outcome.bytes / 1e6),
            &format!("{:.0}", tried.outcome.ios),
            &millis(tried.median()),
            &millis(tried.p99()),
        ]);
        let mechanisms = Mechanisms::of(tried).line();
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

/// All that was measured.
pub fn json(advice: &Advice) -> String {
    let numbers = |pairs: &[(&'static str, f64)]| -> Map<String, Value> {
        pairs.iter().map(|&(name, value)| (name.to_owned(), json!(value))).collect()
    };
    let tried = advice.trials.iter().map(|tried| {
        let mechanisms = Mechanisms::of(tried);
        json!({
            "scheduler": tried.configuration.scheduler,
            "zone_write": tried.configuration.zone_write.map(ZoneWrite::name),
            "iodepth": tried.configuration.depth,
            "bytes_per_second": tried.outcome.bytes,
            "iops": tried.outcome.ios,
            "latency_ns": { "p50": tried.median(), "p99": tried.p99() },
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
        "tried": tried.collect::<Vec<_>>(),
        "conclusion": conclusion(advice),
    });
    format!("{value:#}\n")
}
