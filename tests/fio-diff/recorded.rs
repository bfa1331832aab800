//! Cases with what fio did with them, for tests that run without fio.
//!
//! A file is a case, as it is printed, with a comment `; fio: FEATURE = VALUE` for each feature that was the same
//! with all seeds.
use crate::case::Case;
use crate::compare::shown;
use crate::features::{Features, features};
use crate::programs::Programs;
use anyhow::{Context, Result};
use std::fmt::Write;

/// Seeds that fio runs with: what chance decides is not the same with all.
const SEEDS_IN_FIO: u64 = 40;
/// Seeds that Zonal runs with.
const SEEDS: u64 = 4;
/// What the lines of features begin with.
const MARK: &str = "; fio: ";

/// Runs a case in fio and returns the file that records it.
///
/// # Errors
/// fio cannot be run.
pub fn record(programs: &Programs, case: &Case) -> Result<String> {
    let mut seen = Vec::new();
    for seed in 1..=SEEDS_IN_FIO {
        seen.push(features(case, &programs.run_fio(case, seed)?));
    }
    let mut text = case.to_string();
    for (name, feature) in &seen[0] {
        let is_same = |other: &Features| other.get(name) == Some(feature);
        if seen.iter().all(is_same) && !is_of_report(name) {
            writeln!(text, "{MARK}{name} = {}", shown(&Some(feature.clone())))?;
        }
    }
    Ok(text)
}

/// Whether a feature is a key, which all reports have, a count of the report but that of flushes, or a time, which
/// depends on the machine.
fn is_of_report(name: &str) -> bool {
    name.starts_with("report: ") && !name.ends_with(" flushes") || name.contains("millisec")
}

/// Runs the case of such a file in Zonal. Returns what is not as in fio.
///
/// # Errors
/// The text is no such file, or Zonal cannot be run.
pub fn differences(programs: &Programs, text: &str) -> Result<Vec<String>> {
    let case: Case = text.parse()?;
    let mut found = Vec::new();
    for seed in 1..=SEEDS {
        let seen = features(&case, &programs.run_zonal(&case, seed)?);
        for line in text.lines().filter_map(|line| line.strip_prefix(MARK)) {
            let (name, expected) =
                line.split_once(" = ").with_context(|| format!("`{line}`: expected ` = `"))?;
            let value = shown(&seen.get(name).cloned());
            if value != expected {
                found.push(format!("seed {seed}: {name}: fio {expected}; zonal {value}"));
            }
        }
    }
    Ok(found)
}
