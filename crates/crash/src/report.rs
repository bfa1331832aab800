//! The results of a run: for people, as JSON, and as JUnit XML.
use crate::check::{Report, Verdict};
use serde_json::json;
use std::fmt::Write as _;
use std::io::{self, Write};

/// Failures that are listed for people.
const LISTED: usize = 20;

/// Writes the result of one state.
///
/// # Errors
/// The errors of `out`.
pub fn verdict(out: &mut impl Write, verdict: &Verdict) -> io::Result<()> {
    match &verdict.failure {
        None => writeln!(out, "state {}: passed", verdict.state),
        Some(why) => {
            writeln!(out, "state {}: {why}", verdict.state)?;
            verdict.output.lines().try_for_each(|line| writeln!(out, "  {line}"))
        }
    }
}

/// Writes the results for people.
///
/// # Errors
/// The errors of `out`.
pub fn text(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let failed = report.failures().count();
    for failure in report.failures().take(LISTED) {
        verdict(out, failure)?;
    }
    if failed > LISTED {
        writeln!(out, "and {} more that failed", failed - LISTED)?;
    }
    if let Some((first, lacks)) = &report.shrunk {
        writeln!(out, "\nThe first failure, with the fewest changes:")?;
        verdict(out, first)?;
        lacks.iter().try_for_each(|line| writeln!(out, "  {line}"))?;
        writeln!(out, "Again: the same command with --state {}\n", first.state)?;
    }
    let early = if report.interrupted { ", interrupted" } else { "" };
    writeln!(out, "{} states checked, {failed} failed{early}", report.verdicts.len())
}

/// The results as JSON.
pub fn json(log: &str, command: &str, report: &Report) -> String {
    let shrunk = report.shrunk.as_ref();
    let shrunk = shrunk.map(|(verdict, changes)| json!({ "verdict": verdict, "changes": changes }));
    let value = json!({
        "log": log,
        "check": command,
        "states": report.verdicts.len(),
        "failed": report.failures().collect::<Vec<_>>(),
        "shrunk": shrunk,
        "interrupted": report.interrupted,
    });
    format!("{value:#}\n")
}

/// The results as JUnit XML: a test case for each state.
pub fn junit(log: &str, report: &Report) -> String {
    let (tests, failed) = (report.verdicts.len(), report.failures().count());
    let log = escaped(log);
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuite name=\"{log}\" tests=\"{tests}\" failures=\"{failed}\">\n"
    );
    for Verdict { state, failure, output, seconds } in &report.verdicts {
        let case =
            format!("  <testcase classname=\"{log}\" name=\"{state}\" time=\"{seconds:.3}\"");
        let written = match failure {
            None => writeln!(xml, "{case}/>"),
            Some(why) => writeln!(
                xml,
                "{case}>\n    <failure message=\"{}\">{}</failure>\n  </testcase>",
                escaped(why),
                escaped(output)
            ),
        };
        written.expect("a string grows");
    }
    xml + "</testsuite>\n"
}

/// Text in XML, without the characters that XML 1.0 has not.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(c),
            c if c.is_control() => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}
