//! House rules that a compiler does not check. Each check is a plain function over text; it is
//! tried on bad text first and then on the whole workspace.
mod check;
mod crates;
mod tree;

use check::Fault;
use tree::{members, rust_files, tracked_names};

/// Fails with all faults, one a line.
#[track_caller]
fn none(faults: Vec<String>) {
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// Runs a check on all Rust files that `wanted` picks by their path.
#[track_caller]
fn every_file(check: fn(&str) -> Vec<Fault>, wanted: fn(&str) -> bool) {
    let files: Vec<_> = rust_files().into_iter().filter(|(path, _)| wanted(path)).collect();
    assert!(!files.is_empty(), "nothing to check");
    let faults = files.iter().flat_map(|(path, text)| {
        check(text).into_iter().map(move |fault| format!("{path}:{}: {}", fault.line, fault.what))
    });
    none(faults.collect());
}

fn any(_path: &str) -> bool {
    true
}

/// Neither the checks themselves nor what they are tried on.
fn not_tidy(path: &str) -> bool {
    !path.starts_with("tests/tidy/")
}

#[test]
fn every_file_says_what_it_is_for() {
    every_file(check::module_doc, any);
}

#[test]
fn no_file_is_longer_than_a_reader_bears() {
    every_file(check::length, any);
}

#[test]
fn nothing_is_left_half_done() {
    every_file(check::banned_words, not_tidy);
}

#[test]
fn time_threads_and_files_stay_out_of_the_pure_crates() {
    every_file(check::pure, |path| {
        let pure = ["blk", "device", "nvme"];
        let inside = pure.iter().any(|name| path.starts_with(&format!("crates/{name}/src/")));
        inside && !path.contains("/tests") && !path.contains("/testing")
    });
}

#[test]
fn unsafe_code_is_forbidden_everywhere_but_in_host() {
    let roots = |path: &str| {
        let root = path == "src/main.rs" || path.ends_with("/src/lib.rs");
        root && !path.starts_with("crates/host/") && !path.starts_with("fuzz/")
    };
    every_file(check::forbids_unsafe, roots);
}

#[test]
fn crates_depend_in_one_direction() {
    none(crates::dependencies(&members()));
}

#[test]
fn crates_use_only_what_they_may() {
    let faults = rust_files().into_iter().flat_map(|(path, text)| {
        let faults = crates::uses(&path, &text);
        faults.into_iter().map(move |fault| format!("{path}:{}: {}", fault.line, fault.what))
    });
    none(faults.collect());
}

#[test]
fn nothing_generated_is_kept() {
    none(check::generated(&tracked_names()));
}
