//! Advice as text, as JSON and as an HTML page.
use super::answer::trade_off;
use super::{Advice, Depth, KnownError, Mechanisms, Trial, differences};
use crate::chart::{Axis, Chart, Scale};
use crate::curves::{self, Curve};
use crate::estimate::Estimate;
use crate::experiment::{self, Part, Settling};
use crate::page::{self, escaped};
use crate::table::Table;
use anyhow::Result;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
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

/// The answer, goals that it misses, how it is today, what another would cost, and how far off all that may be.
fn answers(advice: &Advice) -> impl Iterator<Item = String> {
    let answers = [advice.answer(), advice.missed(), advice.against_today()].into_iter().flatten();
    answers.chain(advice.alternatives()).chain(advice.errors_of_model())
}

/// Why the advice is better than what Linux does, and what else may be worth having.
fn explanation(advice: &Advice) -> Vec<String> {
    let mut lines = Vec::new();
    if let (Some(best), Some(today)) = (advice.advised(), advice.today())
        && best.configuration != today.configuration
    {
        lines.push("Why it is better than today's:".to_owned());
        lines.extend(reasons(best, today).into_iter().map(|reason| format!("  {reason}")));
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
    let (a, b) = (better.p99(), worse.p99());
    vec![format!("99% of I/Os within {a:.2} ms instead of {b:.2} ms")]
}

/// The headings of the figures of a configuration, or of a job in one.
const FIGURES: [&str; 4] = ["MB/s", "IOPS", "median ms", "99% ms"];

/// The trials, with the work of drive and plugs in the last column.
fn table(advice: &Advice) -> Table {
    let headings = ["configuration"].into_iter().chain(FIGURES);
    Table::new(headings.chain(["verdict", "what drive and plugs did"]), rows(advice))
}

/// The rows of the table. Trials that differ in the scheduler alone, and in no figure that is shown, are
/// one row.
fn rows(advice: &Advice) -> Vec<Vec<String>> {
    let schedulers: BTreeSet<&str> =
        advice.trials.iter().map(|trial| trial.configuration.scheduler.as_str()).collect();
    let row = |trial: &Trial| {
        let figures = cells([trial.throughput(), trial.iops(), trial.median(), trial.p99()]);
        let work = Mechanisms::of(trial).line();
        [vec![trial.configuration.rest()], figures, vec![trial.verdict.clone(), work]].concat()
    };
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
        row[0] = scheduler + &row[0];
        row
    };
    rows.into_iter().map(named).collect()
}

/// Figures as they are shown, in the order of [`FIGURES`].
fn cells([rate, ios, median, p99]: [Estimate; 4]) -> Vec<String> {
    vec![rate.to_string(), format!("{ios:.0}"), format!("{median:.2}"), format!("{p99:.2}")]
}

/// The figures of each job and direction of a trial, in the order of [`FIGURES`].
fn by_job(trial: &Trial) -> Vec<(&Part, [Estimate; 4])> {
    let Some(first) = trial.outcomes.first() else { return Vec::new() };
    let of = |at: usize| {
        let estimate = |value: &dyn Fn(&Part) -> f64| {
            let values: Vec<f64> = trial.outcomes.iter().map(|it| value(&it.parts[at])).collect();
            Estimate::of(&values).expect("a configuration is measured at least once")
        };
        let latency =
            |percent: f64| estimate(&|part| part.latencies.percentiles(&[percent])[0] as f64 / 1e6);
        let (rate, ios) = (estimate(&|part| part.bytes / 1e6), estimate(&|part| part.ios));
        (&first.parts[at], [rate, ios, latency(50.0), latency(99.0)])
    };
    (0..first.parts.len()).map(of).collect()
}

/// A row for each job and direction of these trials; of a job with a rate, the share of it that was reached.
fn job_table<'a>(trials: impl IntoIterator<Item = (String, &'a Trial)>) -> Table {
    let mut rows = Vec::new();
    for (name, trial) in trials {
        for (part, figures) in by_job(trial) {
            let reached = part.reached.map(|reached| format!("{:.0}%", reached * 100.0));
            let ends =
                [vec![name.clone(), part.job.clone(), part.dir.name().to_owned()], cells(figures)];
            rows.push([ends.concat(), vec![reached.unwrap_or_default()]].concat());
        }
    }
    let headings = ["configuration", "job", "direction"].into_iter().chain(FIGURES);
    Table::new(headings.chain(["of its rate"]), rows)
}

/// The advice and what Linux does, once if they are the same, by job.
fn job_comparison(advice: &Advice) -> Table {
    let differs = |trial: &&Trial| !trial.verdict.starts_with("advice");
    let both = advice.advised().into_iter().chain(advice.today().filter(differs));
    job_table(both.map(|trial| (trial.verdict.clone(), trial)))
}

/// How the figures came about, in lines.
fn settings(advice: &Advice) -> [String; 3] {
    let is_same = |estimate: Estimate| estimate.margin == Some(0.0);
    let all_same = |trial: &Trial| is_same(trial.throughput()) && is_same(trial.p99());
    let seeds = match advice.seeds {
        1 => "one seed".to_owned(),
        seeds if advice.trials.iter().all(all_same) => {
            let least = advice.trials.iter().map(|trial| trial.outcomes.len()).min();
            format!("{} seeds, which make no difference", least.unwrap_or(seeds as usize))
        }
        most => {
            let counts = || advice.trials.iter().map(|trial| trial.outcomes.len());
            let (least, last) = (counts().min().unwrap_or(0), counts().max().unwrap_or(0));
            let seeds = match least == last {
                true => format!("{least} seeds"),
                false => format!("{least} to {last} seeds, as many as it took"),
            };
            let budget = if last == most as usize { " (the most that was allowed)" } else { "" };
            format!(
                "{seeds}{budget}, ± 95% confidence interval of the mean where they make a difference"
            )
        }
    };
    let settlings = advice.trials.iter().flat_map(Trial::settlings);
    let time = Settling::line(advice.seconds, settlings).unwrap_or_default();
    let goals: Vec<String> = advice.goals.iter().map(ToString::to_string).collect();
    [
        format!("goals: {}", goals.join(", then ")),
        format!("measured: {}", advice.load.line()),
        format!("{time}, in virtual time; {seeds}"),
    ]
}

/// The lines that apply the advice, if any do.
fn to_apply(advice: &Advice) -> Vec<String> {
    let lines = advice.apply();
    if lines.is_empty() {
        return vec!["Nothing to apply.".to_owned()];
    }
    let lines = lines.into_iter().map(|line| format!("  {line}"));
    std::iter::once("To apply it:".to_owned()).chain(lines).collect()
}

/// The answer, the table and the reasons as text.
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
        paragraph(to_apply(advice));
    }
    let device = format!("{}: {}", advice.device, advice.description);
    paragraph([vec![device], settings(advice).to_vec()].concat());
    paragraph(job_comparison(advice).text(&[0, 1, 2]));
    let mechanisms = rows(advice).into_iter().filter_map(|row| row.into_iter().next_back());
    let lines = table(advice).without_last().text(&[0, 5]);
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

/// All configurations by job and direction as CSV.
pub fn csv(advice: &Advice) -> String {
    job_table(advice.trials.iter().map(|trial| (trial.configuration.name(), trial))).csv()
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

/// The mean of milliseconds in nanoseconds.
fn nanos(estimate: Estimate) -> u64 {
    (estimate.mean * 1e6).round() as u64
}

/// The figures of a job and direction.
fn job_json((part, [rate, ios, median, p99]): (&Part, [Estimate; 4])) -> Value {
    json!({
        "job": part.job,
        "direction": part.dir.name(),
        "bytes_per_second": rate.times(1e6).mean,
        "iops": ios.mean,
        "latency_ns": { "p50": nanos(median), "p99": nanos(p99) },
        "of_its_rate": part.reached,
        "ci95": {
            "bytes_per_second": rate.times(1e6).margin,
            "p99_ns": p99.times(1e6).margin,
        },
    })
}

/// All measurements as JSON.
pub fn json(advice: &Advice) -> String {
    let numbers = |pairs: &[(&'static str, f64)]| -> Map<String, Value> {
        pairs.iter().map(|&(name, value)| (name.to_owned(), json!(value))).collect()
    };
    let trials = advice.trials.iter().map(|trial| {
        let mechanisms = Mechanisms::of(trial);
        let (bytes, iops) = (trial.throughput().times(1e6), trial.iops());
        let (median, p99) = (trial.median(), trial.p99());
        json!({
            "verdict": trial.verdict,
            "scheduler": trial.configuration.scheduler,
            "zone_write": trial.configuration.zone_write.map(ZoneWrite::name),
            "iodepth": match &trial.configuration.depth {
                Depth::Own => Value::Null,
                Depth::All(depth) => json!(depth),
                Depth::Of(job, depth) => json!({ job: depth }),
            },
            "seeds": trial.outcomes.len(),
            "jobs": by_job(trial).into_iter().map(job_json).collect::<Vec<_>>(),
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
        "goals": advice.goals.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "seeds": advice.seeds,
        "interrupted": advice.interrupted.is_some(),
        "without_io": advice.without_io(),
        "answer": advice.answer(),
        "alternatives": advice.alternatives(),
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
    if !advice.trials.is_empty() {
        let apply = escaped(&to_apply(advice).join("\n"));
        writeln!(out, "<h2>To apply it</h2>\n<pre class=\"lines\">{apply}</pre>")?;
    }
    if advice.advised().is_some() {
        out += "<h2>Each job</h2>\n";
        job_comparison(advice).html(&mut out, 3);
        for chart in charts(advice) {
            chart.html(&mut out)?;
        }
        let why = escaped(&explanation(advice).join("\n"));
        writeln!(out, "<h2>Why</h2>\n<pre class=\"prose\">{why}</pre>")?;
    }
    out += "<h2>What was measured</h2>\n";
    page::paragraphs(&mut out, [&advice.description]);
    page::paragraphs(&mut out, settings(advice));
    table(advice).without_last().html(&mut out, 1);
    Ok(out + page::END)
}

/// The rate and the tail of each job, with the advice and today.
fn charts(advice: &Advice) -> [Chart; 2] {
    let trials = [advice.advised(), advice.today()].into_iter().flatten();
    let mut trials: Vec<(&str, &Trial)> = ["advice", "today"].into_iter().zip(trials).collect();
    trials.dedup_by_key(|(_, trial)| trial.configuration.name());
    let names = trials.first().map(|(_, trial)| by_job(trial)).unwrap_or_default();
    let names: Vec<String> = names.iter().map(|(part, _)| part.name()).collect();
    let chart = |title: &str, y_label: &str, scale: Scale, at: usize| {
        let steps = Some(names.clone());
        let x = Axis { label: "job".to_owned(), steps, scale: Scale::Linear };
        let curve = |(name, trial): &(&str, &Trial)| Curve {
            name: (*name).to_owned(),
            points: by_job(trial).iter().map(|(_, figures)| figures[at]).enumerate().collect(),
        };
        curves::points(title, x, y_label, scale, &trials.iter().map(curve).collect::<Vec<_>>())
    };
    [
        chart("Throughput of each job", "MB/s", Scale::Linear, 0),
        chart("99th percentile of each job", "ms", Scale::Logarithmic, 3),
    ]
}
