//! `zonal-dev torture`: it finds nothing in the layer as it is, is reproducible, and finds mutants.
use crate::support::{RunOutput, TestDir};
use std::path::PathBuf;
use zonal_torture::{self as torture, History, Profile};

/// Runs `zonal-dev torture`: exit code, standard output, standard error.
fn zonal_dev(args: &[&str]) -> (i32, String, String) {
    let RunOutput { code, out, err } =
        TestDir::new().zonal_dev(&[&["torture", "--quiet"], args].concat());
    (code, out, err)
}

/// A file for a history, in a temporary directory.
fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let path = directory.path().join("history.json");
    std::fs::write(&path, text).expect("a file is written");
    (directory, path)
}

#[test]
fn runs_do_not_fail() {
    for (name, _) in Profile::ALL {
        let (code, out, err) = zonal_dev(&["--runs=40", "--seed=7", "--profile", name]);
        assert_eq!((code, err.as_str()), (0, ""), "{name}: {out}");
        assert!(out.starts_with("40 runs, "), "{out}");
    }
}

#[test]
fn history_determines_its_outcome() {
    for seed in 0..20 {
        let history = History::draw(seed, Profile::Any);
        assert_eq!(history, History::draw(seed, Profile::Any));
        let outcome = torture::run(&history).unwrap();
        assert!(outcome.ios > 0 || history.steps.len() < 100, "{outcome:?}");
        assert_eq!(torture::run(&history).unwrap(), outcome);
    }
}

#[test]
fn reports_of_different_seeds_are_merged_and_those_of_the_same_are_refused() {
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let part = |name: &str, first: &str, runs: &str| {
        let (code, out, err) = zonal_dev(&["--json", "--seed", first, "--runs", runs]);
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        let path = directory.path().join(name);
        std::fs::write(&path, out).expect("a file is written");
        path.to_str().expect("UTF-8").to_owned()
    };
    let (a, b, all) = (part("a", "0", "10"), part("b", "10", "20"), part("all", "0", "30"));
    let merged = |files: &[&str]| zonal_dev(&[&["--json", "--merge"], files].concat());
    let (code, out, _) = merged(&[&b, &a]);
    assert_eq!(code, 0, "{out}");
    let report = |text: &str| serde_json::from_str::<torture::Report>(text).expect("a report");
    let (found, whole) = (report(&out), report(&std::fs::read_to_string(&all).unwrap()));
    assert_eq!((found.runs, found.ios, &found.kinds), (30, whole.ios, &whole.kinds));
    assert_eq!(found.seeds, whole.seeds);
    assert_eq!(
        (found.steps, found.faults, &found.marks),
        (whole.steps, whole.faults, &whole.marks)
    );
    let (code, out, _) = zonal_dev(&["--merge", &a, &b]);
    assert!(code == 0 && out.starts_with("30 runs, "), "{out}");
    let (code, out, err) = merged(&[&a, &all]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(
        err.contains("all: found seeds 0 to 29 of profile any, expected none of 0 to 9"),
        "{err}"
    );
    let (_other, other) = file("{}");
    let (code, _, err) = merged(&[other.to_str().unwrap()]);
    assert!(code == 2 && err.contains("history.json: expected a report of --json"), "{err}");
}

#[test]
fn history_is_replayed_from_a_file() {
    let history = History::draw(3, Profile::Crash);
    let text = serde_json::to_string(&history).unwrap();
    assert_eq!(serde_json::from_str::<History>(&text).unwrap(), history);
    let (_directory, path) = file(&text);
    let (code, out, _) = zonal_dev(&["--replay", path.to_str().unwrap()]);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains(&format!("{} steps", history.steps.len())), "{out}");
}

#[test]
fn bad_history_is_rejected() {
    let mut no_lba = History::draw(3, Profile::Zoned);
    no_lba.config.lba = 513;
    let mut no_such_scheduler = History::draw(3, Profile::Zoned);
    no_such_scheduler.config.scheduler = "fast".to_owned();
    let mut no_channels = History::draw(3, Profile::Zoned);
    no_channels.config.channels = 0;
    for (text, complaint) in [
        ("{}".to_owned(), "expected a history"),
        (serde_json::to_string(&no_lba).unwrap(), "option `lba`: found 513"),
        (serde_json::to_string(&no_such_scheduler).unwrap(), "no scheduler is called `fast`"),
        (serde_json::to_string(&no_channels).unwrap(), "channels"),
    ] {
        let (_directory, path) = file(&text);
        let (code, out, err) = zonal_dev(&["--replay", path.to_str().unwrap()]);
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        assert!(err.contains("history.json") && err.contains(complaint), "{err}");
    }
    let (code, _, err) = zonal_dev(&["--profile=quiet"]);
    assert_eq!(code, 2);
    assert!(err.contains("expected one of any, zoned, regular, calm, crash"), "{err}");
}

#[cfg(torture)]
mod probes {
    use super::*;
    use zonal_blk::probe::{Mark, Mutant, switch_on, was_reached};

    /// Runs after which a mutant counts as not found. The hardest takes a few hundred.
    const RUNS: u64 = 5000;

    fn first_failure() -> Option<(History, torture::Failure)> {
        (0..RUNS).find_map(|seed| {
            let history = History::draw(seed, Profile::Any);
            let failure = torture::run(&history).unwrap().failure?;
            Some((history, failure))
        })
    }

    #[test]
    fn every_mutant_is_found() {
        torture::silence_panics();
        let found = |mutant| {
            switch_on(Some(mutant));
            first_failure().is_some()
        };
        let missed: Vec<_> = Mutant::ALL.iter().filter(|&&(mutant, _)| !found(mutant)).collect();
        switch_on(None);
        assert!(missed.is_empty(), "{missed:?}");
    }

    #[test]
    fn every_coverage_mark_is_reached() {
        let mut missed = Vec::new();
        for seed in 0..RUNS {
            torture::run(&History::draw(seed, Profile::Any)).unwrap();
            missed = Mark::ALL.iter().filter(|&&(mark, _)| !was_reached(mark)).collect();
            if missed.is_empty() {
                break;
            }
        }
        assert!(missed.is_empty(), "{missed:?}");
    }

    #[test]
    fn shrunk_history_still_fails_and_is_minimal() {
        torture::silence_panics();
        switch_on(Some(Mutant::WriteDuringReset));
        let (history, failure) = first_failure().expect("the mutant is found");
        let (short, failure) = torture::shrink(&history, &failure, 4000);
        assert_eq!(torture::run(&short).unwrap().failure.as_ref(), Some(&failure));
        assert!(short.steps.len() <= 3, "a reset and a write after it: {:?}", short.steps);
        for left_out in 0..short.steps.len() {
            let mut fewer = short.clone();
            fewer.steps.remove(left_out);
            assert_eq!(torture::run(&fewer).unwrap().failure, None);
        }
        switch_on(None);
        assert_eq!(torture::run(&short).unwrap().failure, None, "the mutant was the cause");
    }
}
