//! Advice as text, as JSON and as an HTML page.
use super::rank::trade_off;
use super::{Advice, Configuration, Goal, KnownError, Mechanisms, Trial, differences};
use crate::chart::{Axis, Chart, Marks, Scale, Series};
use crate::curves::{self, Curve};
use crate::estimate::Estimate;
use crate::experiment::{self, Settling};
use crate::page::{self, escaped};
use crate::table::Table;
use anyhow::Result;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use zonal_blk::ZoneWrite;

/// The recommendation and its reasons, in sentences.
pub fn conclusion(advice: &Advice) -> Vec<String> {
    let mut lines = reservations(advice);
    lines.extend(answers(advice));
    lines.extend(advice.apply().into_iter().map(|line| format!("  {line}")));
    lines.extend(explanation(advice));
    lines
}

/// The answer, what another costs, the one for the queue depth of the jobs, how it is today, and how far off all that may be.
fn answers(advice: &Advice) -> impl Iterator<Item = String> {
    let answers =
        [advice.answer(), advice.alternative(), advice.at_own_depth(), advice.against_today()];
    answers.into_iter().flatten().chain(advice.errors_of_model())
}

/// Why the best configuration is the best, and what else may be worth having.
fn explanation(advice: &Advice) -> Vec<String> {
    let mut lines = Vec::new();
    let [best, others @ ..] = &advice.trials[..] else { return lines };
    let tied: Vec<&Trial> = others.iter().filter(|trial| trial.rank == best.rank).collect();
    if !tied.is_empty() {
        lines.push(match advice.goal {
            Goal::Throughput => format!(
                "Of the {} with no lower throughput it has the lowest tail latency.",
                tied.len() + 1
            ),
            Goal::Latency => format!(
                "Of the {} with no higher tail latency it has the highest throughput.",
                tied.len() + 1
            ),
        });
    }
    // What Linux has today, then the best trial of each other policy; the last trial if there are none.
    let mut seen = vec![best.configuration.zone_write];
    seen.extend(tied.iter().map(|trial| trial.configuration.zone_write));
    let mut rivals: Vec<&Trial> = advice.today().into_iter().collect();
    seen.extend(rivals.iter().map(|trial| trial.configuration.zone_write));
    for trial in others {
        if !seen.contains(&trial.configuration.zone_write) {
            seen.push(trial.configuration.zone_write);
            rivals.push(trial);
        }
    }
    if rivals.is_empty() {
        rivals.extend(others.last());
    }
    for rival in rivals.into_iter().filter(|trial| trial.rank > best.rank) {
        let factor = advice.times(rival);
        lines.push(format!("{factor:.2} times as good as {}:", rival.configuration.name()));
        lines.extend(reasons(best, rival).into_iter().map(|reason| format!("  {reason}")));
    }
    let front = trade_off(&advice.trials);
    if front.len() > 1 {
        lines.push("Trade-off, each the most throughput for its tail latency:".to_owned());
        lines.extend(front.into_iter().map(|trial| {
            let (rate, p99) = (trial.throughput(), trial.p99());
            format!("  {rate} MB/s, 99% within {p99:.2} ms: {}", trial.configuration.name())
        }));
    }
    let is_unsteady = |trial: &&Trial| trial.settlings().any(|settling| !settling.is_steady);
    let unsteady = advice.trials.iter().filter(is_unsteady);
    let names: Vec<String> = unsteady.map(|trial| trial.configuration.name()).collect();
    lines.extend(experiment::unsteady(&names));
    lines.extend(advice.tables_of_model());
    lines
}

/// That the advice is not complete, or not for all jobs, if it is not.
fn reservations(advice: &Advice) -> Vec<String> {
    let measured = advice.trials.len();
    let line = |all| format!("interrupted: {measured} of {all} configurations were measured");
    advice.interrupted.map(line).into_iter().chain(advice.without_io()).collect()
}

/// How two configurations differ; if the drive and the plugs did the same, by their latency.
fn reasons(better: &Trial, worse: &Trial) -> Vec<String> {
    let why = differences(&Mechanisms::of(better), &Mechanisms::of(worse));
    if !why.is_empty() {
        return why;
    }
    let depth = |trial: &Trial| trial.configuration.depth;
    let mut why = Vec::new();
    if let (Some(a), Some(b)) = (depth(better), depth(worse))
        && a != b
    {
        why.push(format!("{a} I/Os of each job in flight instead of {b}"));
    }
    let (a, b) = (better.p99(), worse.p99());
    why.push(format!("99% of I/Os within {a:.2} ms instead of {b:.2} ms"));
    why
}

impl Advice {
    /// How many times as good the best trial is.
    pub(super) fn times(&self, trial: &Trial) -> f64 {
        let best = &self.trials[0];
        match self.goal {
            Goal::Throughput => best.throughput().mean / trial.throughput().mean,
            Goal::Latency => trial.p99().mean / best.p99().mean.max(f64::MIN_POSITIVE),
        }
    }
}

/// The trials, with the work of drive and plugs in the last column.
fn table(advice: &Advice) -> Table {
    let headings = [
        "rank",
        "configuration",
        "MB/s",
        "IOPS",
        "median ms",
        "99% ms",
        "what drive and plugs did",
    ];
    Table::new(headings, rows(advice))
}

/// The rows of the table. Trials that differ in the scheduler alone, and in no figure that is shown, are
/// one row.
fn rows(advice: &Advice) -> Vec<Vec<String>> {
    let schedulers: BTreeSet<&str> =
        advice.trials.iter().map(|trial| trial.configuration.scheduler.as_str()).collect();
    let row = |trial: &Trial| {
        vec![
            trial.rank.to_string(),
            trial.configuration.rest(),
            trial.throughput().to_string(),
            format!("{:.0}", trial.iops()),
            format!("{:.2}", trial.median()),
            format!("{:.2}", trial.p99()),
            Mechanisms::of(trial).line(),
        ]
    };
    let today = advice.today().map(row);
    let mut rows: Vec<(Vec<&str>, Vec<String>)> = Vec::new();
    for trial in &advice.trials {
        let (name, row) = (trial.configuration.scheduler.as_str(), row(trial));
        match rows.iter_mut().find(|(_, known)| *known == row) {
            Some((names, _)) => names.push(name),
            None => rows.push((vec![name], row)),
        }
    }
    let named = |(names, mut row): (Vec<&str>, Vec<String>)| {
        let all = names.len() > 1 && names.len() == schedulers.len();
        let scheduler = if all { "any scheduler".to_owned() } else { names.join(" or ") };
        let is_today = today.as_ref() == Some(&row) && names.contains(&&*advice.stock.scheduler);
        row[1] = scheduler + &row[1] + if is_today { " (today)" } else { "" };
        row
    };
    rows.into_iter().map(named).collect()
}

/// How the figures came about, in two lines.
fn settings(advice: &Advice) -> [String; 2] {
    let is_same = |estimate: Estimate| estimate.margin == Some(0.0);
    let all_same = |trial: &Trial| is_same(trial.throughput()) && is_same(trial.p99());
    let seeds = match advice.seeds {
        1 => "one seed".to_owned(),
        seeds if advice.trials.iter().all(all_same) => {
            format!("{seeds} seeds, which make no difference")
        }
        seeds => format!(
            "{seeds} seeds, ± 95% confidence interval of the mean where they make a difference"
        ),
    };
    let settlings = advice.trials.iter().flat_map(Trial::settlings);
    let time = Settling::line(advice.seconds, settlings).unwrap_or_default();
    [format!("measured: {}", advice.load.line()), format!("{time}, in virtual time; {seeds}")]
}

/// A ranked table and the conclusion as text.
pub fn text(advice: &Advice) -> String {
    let mut text = String::new();
    let mut paragraph = |lines: Vec<String>| {
        for line in lines {
            text.push_str(&line);
            text.push('\n');
        }
        text.push('\n');
    };
    paragraph(reservations(advice).into_iter().chain(answers(advice)).collect());
    if !advice.trials.is_empty() {
        let apply = advice.apply().into_iter().map(|line| format!("  {line}"));
        paragraph(std::iter::once("To apply it:".to_owned()).chain(apply).collect());
    }
    let [load, time] = settings(advice);
    paragraph(vec![format!("{}: {}", advice.device, advice.description), load, time]);
    let mechanisms = rows(advice).into_iter().filter_map(|row| row.into_iter().next_back());
    let lines = table(advice).without_last().text(&[1]);
    for (line, what) in lines.iter().zip(std::iter::once(String::new()).chain(mechanisms)) {
        text.push_str(line);
        text.push('\n');
        if !what.is_empty() {
            writeln!(text, "      {what}").expect("a string takes text");
        }
    }
    text.push('\n');
    for line in explanation(advice) {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// The ranked table as CSV.
pub fn csv(advice: &Advice) -> String {
    table(advice).csv()
}

/// How far off the model is, as JSON.
fn known_errors(advice: &Advice) -> Vec<Value> {
    let known = |(of, error): (&str, &Option<KnownError>)| {
        let error = error.as_ref()?;
        Some(json!({
            "of": of,
            "table": error.table,
            "cell": error.cell,
            "published": error.published,
            "model": error.model,
            "unit": error.unit,
            "fitted": error.is_fitted,
            "percent": error.percent(),
        }))
    };
    let known_errors = ["answer", "today"].into_iter().zip(&advice.known_errors);
    known_errors.filter_map(known).collect()
}

/// All measurements as JSON.
pub fn json(advice: &Advice) -> String {
    let numbers = |pairs: &[(&'static str, f64)]| -> Map<String, Value> {
        pairs.iter().map(|&(name, value)| (name.to_owned(), json!(value))).collect()
    };
    let nanos = |estimate: Estimate| (estimate.mean * 1e6).round() as u64;
    let trials = advice.trials.iter().map(|trial| {
        let mechanisms = Mechanisms::of(trial);
        let (bytes, iops) = (trial.throughput().times(1e6), trial.iops());
        let (median, p99) = (trial.median(), trial.p99());
        json!({
            "rank": trial.rank,
            "scheduler": trial.configuration.scheduler,
            "zone_write": trial.configuration.zone_write.map(ZoneWrite::name),
            "iodepth": trial.configuration.depth,
            "bytes_per_second": bytes.mean,
            "iops": iops.mean,
            "latency_ns": { "p50": nanos(median), "p99": nanos(p99) },
            "ci95": {
                "bytes_per_second": bytes.margin,
                "iops": iops.margin,
                "p50_ns": median.times(1e6).margin,
                "p99_ns": p99.times(1e6).margin,
            },
            "drive_time_percent": numbers(&mechanisms.shares),
            "per_second": numbers(&mechanisms.rates),
            "parked_ms_per_write": mechanisms.parked_ms,
            "merged_percent": mechanisms.merged,
            "open_zones": mechanisms.open_zones,
            "left_out_seconds": trial.settlings().map(|it| it.left_out).fold(0.0, f64::max),
            "steady": trial.settlings().all(|settling| settling.is_steady),
        })
    });
    let front = trade_off(&advice.trials);
    let front: Vec<String> = front.iter().map(|trial| trial.configuration.name()).collect();
    let value = json!({
        "device": advice.device,
        "description": advice.description,
        "goal": format!("{:?}", advice.goal).to_lowercase(),
        "seeds": advice.seeds,
        "interrupted": advice.interrupted.is_some(),
        "without_io": advice.without_io(),
        "answer": advice.answer(),
        "alternative": advice.alternative(),
        "at_own_depth": advice.at_own_depth(),
        "apply": advice.apply(),
        "today": advice.today().map(|trial| trial.configuration.name()),
        "known_errors": known_errors(advice),
        "jobs": advice.load.clones,
        "share_zones": advice.load.share_zones,
        "seconds": advice.seconds,
        "tried": trials.collect::<Vec<_>>(),
        "trade_off": front,
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
    let mut paragraph = |class: &str, line: &str| {
        let _ = writeln!(out, "<p{class}>{}</p>", escaped(line));
    };
    reservations(advice).iter().for_each(|line| paragraph("", line));
    for (at, line) in answers(advice).enumerate() {
        paragraph(if at == 0 { " class=\"answer\"" } else { "" }, &line);
    }
    let [load, time] = settings(advice);
    if !advice.trials.is_empty() {
        let apply = escaped(&advice.apply().join("\n"));
        writeln!(out, "<h2>To apply it</h2>\n<pre class=\"lines\">{apply}</pre>")?;
        let why = escaped(&explanation(advice).join("\n"));
        writeln!(out, "<h2>Why</h2>\n<pre class=\"prose\">{why}</pre>")?;
    }
    out += "<h2>What was measured</h2>\n";
    page::paragraphs(&mut out, [&advice.description, &load, &time]);
    table(advice).html(&mut out, 2);
    let charts = if advice.trials.is_empty() { Vec::new() } else { charts(advice) };
    for chart in charts {
        chart.html(&mut out)?;
    }
    Ok(out + page::END)
}

/// Throughput and latency over the queue depth, a line for each scheduler and policy, and the tail
/// latency that throughput costs.
fn charts(advice: &Advice) -> Vec<Chart> {
    let mut depths: Vec<Option<u32>> =
        advice.trials.iter().map(|trial| trial.configuration.depth).collect();
    depths.sort_unstable();
    depths.dedup();
    let step = |depth: &Option<u32>| depth.map_or("that of the jobs".to_owned(), |d| d.to_string());
    let steps: Vec<String> = depths.iter().map(step).collect();
    let over_depth = |title: &str, y_label: &str, scale, value: fn(&Trial) -> Estimate| {
        let x = Axis {
            label: "queue depth".to_owned(),
            steps: Some(steps.clone()),
            scale: Scale::Linear,
        };
        curves::chart(title, x, y_label, scale, &by_depth(advice, &depths, value))
    };
    let mut charts = vec![
        over_depth("Throughput by queue depth", "MB/s", Scale::Linear, Trial::throughput),
        over_depth("Median latency by queue depth", "ms", Scale::Logarithmic, Trial::median),
        over_depth("99th percentile by queue depth", "ms", Scale::Logarithmic, Trial::p99),
        trade_off_chart(advice),
    ];
    charts.extend(drive_time_chart(advice));
    charts
}

/// The shares of the drive's time in the best configuration of each scheduler and policy; `None` if
/// the model does not count that.
fn drive_time_chart(advice: &Advice) -> Option<Chart> {
    let name = |trial: &Trial| Configuration { depth: None, ..trial.configuration.clone() }.name();
    let mut best: Vec<(String, &Trial)> = Vec::new();
    for trial in &advice.trials {
        if best.iter().all(|(known, _)| *known != name(trial)) {
            best.push((name(trial), trial));
        }
    }
    let shares: Vec<_> = best.iter().map(|(_, trial)| Mechanisms::of(trial).shares).collect();
    let names: Vec<&str> = shares.first()?.iter().map(|&(name, _)| name).collect();
    let series = names.iter().enumerate().map(|(at, name)| Series {
        name: (*name).to_owned(),
        colour: at,
        slot: (at, names.len()),
        marks: Marks::Bars,
        points: (0..).map(f64::from).zip(shares.iter().map(|shares| shares[at].1)).collect(),
    });
    let steps = best.iter().map(|(_, trial)| trial.configuration.name()).collect();
    (!names.is_empty()).then(|| Chart {
        title: "Where the drive's time goes".to_owned(),
        x: Axis {
            label: "the best of each scheduler and policy".to_owned(),
            steps: Some(steps),
            scale: Scale::Linear,
        },
        y_label: "%".to_owned(),
        scale: Scale::Linear,
        series: series.collect(),
    })
}

/// A curve over the depths for each scheduler and policy, in the order of their names.
fn by_depth(advice: &Advice, depths: &[Option<u32>], value: fn(&Trial) -> Estimate) -> Vec<Curve> {
    let mut curves: BTreeMap<String, Vec<(usize, Estimate)>> = BTreeMap::new();
    for trial in &advice.trials {
        let step = depths.iter().position(|depth| *depth == trial.configuration.depth);
        let name = Configuration { depth: None, ..trial.configuration.clone() }.name();
        let step = step.expect("the depths are those of the trials");
        curves.entry(name).or_default().push((step, value(trial)));
    }
    let curve = |(name, mut points): (String, Vec<(usize, Estimate)>)| {
        points.sort_by_key(|&(step, _)| step);
        Curve { name, points }
    };
    curves.into_iter().map(curve).collect()
}

/// All configurations by throughput and tail latency, and a line through those that none beats in both.
fn trade_off_chart(advice: &Advice) -> Chart {
    let point = |trial: &Trial| (trial.throughput().mean, trial.p99().mean);
    let series = |name: &str, colour, marks, points| Series {
        name: name.to_owned(),
        colour,
        slot: (0, 1),
        marks,
        points,
    };
    let front = trade_off(&advice.trials).into_iter().map(point).collect();
    let line = Marks::Line { dashed: false, points: true };
    Chart {
        title: "Tail latency against throughput".to_owned(),
        x: Axis { label: "MB/s".to_owned(), steps: None, scale: Scale::Linear },
        y_label: "99th percentile, ms".to_owned(),
        scale: Scale::Logarithmic,
        series: vec![
            series(
                "all configurations",
                1,
                Marks::Rings,
                advice.trials.iter().map(point).collect(),
            ),
            series("no other beats these in both", 0, line, front),
        ],
    }
}
