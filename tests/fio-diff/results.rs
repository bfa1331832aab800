//! Reads what the programs left in their directories: logs of I/O and reports.
//!
//! An iolog has the I/O in the order of issue, but where clones run fio's mixes them: there the logs of bandwidth
//! have it, a file for each clone.
use crate::case::{Case, Section};
use crate::jobs::engine;
use crate::observe::{Dir, End, Io, Observation, bandwidth_log, iolog};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// The text of a file, or nothing.
pub fn text(place: &Path, name: &str) -> String {
    let bytes = fs::read(place.join(name)).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The report of a directory, the last line that its program said, and all of them.
pub fn report(place: &Path) -> (Value, String, String) {
    let report = text(place, "report");
    // What fio says comes before its JSON.
    let json = report.find("{\n").map_or("", |at| &report[at..]);
    let said = text(place, "errors") + &report[..report.len() - json.len()];
    let last = said.lines().rfind(|line| !line.contains("without effect"));
    let last = last.unwrap_or_default().to_owned();
    (serde_json::from_str(json).unwrap_or(Value::Null), last, said)
}

/// What Zonal did with a case.
pub fn of_zonal(place: &Path, case: &Case, end: End) -> Observation {
    let (report, message, said) = report(place);
    let clone_ios = |at: usize, clone: usize| match clone {
        0 => iolog(&text(place, &format!("io.0.{at}"))),
        _ => iolog(&text(place, &format!("io.0.{at}.{clone}"))),
    };
    let mut clones = Vec::new();
    for (at, section) in case.sections.iter().enumerate() {
        for clone in 0..section.clones() {
            let mut ios = clone_ios(at, clone);
            if let Some(zones) = case.geometry.zones.filter(|_| !section.trims()) {
                // A reset is recorded as a discard of the zone; fio does not record it.
                ios.retain(|io| io.dir != Dir::Trim || io.len != zones.size);
            }
            clones.push(ios);
        }
    }
    Observation { end, clones, report, message, said }
}

/// What fio did with each of several cases of one job file.
pub fn of_fio(place: &Path, cases: &[&Case], end: End) -> Vec<Observation> {
    let (mut whole, message, said) = report(place);
    let jobs = whole["jobs"].take();
    let jobs = jobs.as_array().map_or(&[][..], Vec::as_slice);
    let (mut first, mut merged) = (0, 0);
    let mut seen = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let mut report = whole.clone();
        let (mut clones, mut own_jobs) = (Vec::new(), Vec::new());
        for (at, section) in case.sections.iter().enumerate() {
            let mut merged_here = 0;
            for clone in 0..section.clones() {
                let place_in_run = first + place_in_fio(clone, section.clones());
                clones.push(ios_in_fio(place, section, (number, at), place_in_run));
                // A section with `group_reporting` has one report.
                if clone == 0 || !section.has("group_reporting") {
                    own_jobs.extend(jobs.get(place_in_run - merged).cloned());
                } else {
                    merged_here += 1;
                }
            }
            first += section.clones();
            merged += merged_here;
        }
        if !report.is_null() {
            report["jobs"] = Value::Array(own_jobs);
        }
        seen.push(Observation {
            end,
            clones,
            report,
            message: message.clone(),
            said: said.clone(),
        });
    }
    seen
}

/// The place of a clone of a section among them in fio, whose clones after the first are in reverse order.
fn place_in_fio(clone: usize, clones: usize) -> usize {
    (clones - clone) % clones
}

fn ios_in_fio(
    place: &Path,
    section: &Section,
    (number, at): (usize, usize),
    place_in_run: usize,
) -> Vec<Io> {
    // With the engine `null` fio records discards again when they are issued.
    if section.clones() > 1 || engine(section) == "null" {
        bandwidth_log(&text(place, &format!("log.{number}_bw.{}.log", place_in_run + 1)))
    } else {
        iolog(&text(place, &format!("io.{number}.{at}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_jobs_of_several_cases_are_told_apart() {
        let place = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(place.path().join(name), text).unwrap();
        write("report", "fio: a notice\n{\n\"jobs\": [0, 1, 2, 3]}");
        write("errors", "");
        write("io.0.0", "1 f read 0 512\n");
        write("log.1_bw.2.log", "0, 9, 1, 512, 0, 0\n");
        write("log.1_bw.3.log", "0, 9, 1, 512, 2, 0\n");
        write("log.1_bw.4.log", "0, 9, 1, 512, 1, 0\n");
        let case = |text: &str| text.parse::<Case>().unwrap();
        let one = case("; device size=4096\n[a]\n");
        let three = case("; device size=4096\n[a]\nnumjobs=3\n");
        let seen = of_fio(place.path(), &[&one, &three], End::Code(0));
        assert_eq!(seen[0].clones, [[Io { dir: Dir::Read, offset: 0, len: 512, at: 1 }]]);
        let offsets: Vec<u64> = seen[1].clones.iter().map(|ios| ios[0].offset).collect();
        assert_eq!(offsets, [0, 1, 2], "in the order of clones");
        assert_eq!(seen[1].report["jobs"], serde_json::json!([1, 3, 2]));
        assert_eq!(seen[0].message, "fio: a notice");
    }
}
