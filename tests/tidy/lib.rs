//! House rules that a compiler does not check. Each check is a plain function over text, tried on
//! bad text first and then on the whole workspace.
#![cfg(test)]
#![forbid(unsafe_code)]
mod adding;
mod check;
mod ci;
mod circles;
mod crates;
mod functions;
mod links;
mod modules;
mod tree;

use check::Fault;
use tree::{crate_roots, file_names, members, read, rust_files};

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

/// Neither the checks themselves nor what they are tried on.
fn not_tidy(path: &str) -> bool {
    !path.starts_with("tests/tidy/")
}

#[test]
fn every_file_says_what_it_is_for() {
    every_file(check::module_doc, |_| true);
}

#[test]
fn functions_are_short() {
    none(functions::too_long(&rust_files(), &read("tests/tidy/long_functions.txt")));
}

#[test]
fn every_file_belongs_to_a_crate() {
    none(modules::orphans(&rust_files(), &crate_roots()));
}

#[test]
fn files_of_a_crate_do_not_import_each_other_in_circles() {
    let is_source = |path: &String| path == "src/main.rs" || path.ends_with("/src/lib.rs");
    let roots: Vec<_> = crate_roots().into_iter().filter(is_source).collect();
    none(circles::faults(&rust_files(), &roots, &read("tests/tidy/circles.txt")));
}

#[test]
fn benchmarks_measure_only_when_asked() {
    every_file(check::benchmark_start, |path| {
        let inside = path.strip_prefix("benches/").map(|inside| inside.split('/').collect());
        matches!(inside.unwrap_or_else(Vec::new)[..], [_] | [_, "main.rs"])
    });
}

#[test]
fn nothing_is_left_half_done() {
    every_file(check::banned_words, not_tidy);
}

#[test]
fn text_is_plain_english() {
    let mut faults = Vec::new();
    for name in file_names() {
        let text = [".rs", ".md", ".sh"].iter().any(|ending| name.ends_with(ending));
        if text && not_tidy(&name) {
            let found = check::phrases(&read(&name)).into_iter();
            faults.extend(found.map(|fault| format!("{name}:{}: {}", fault.line, fault.what)));
        }
    }
    none(faults);
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
fn everything_printed_is_escaped() {
    every_file(check::outputs, |path| {
        let inside = path.starts_with("src/") || path.starts_with("crates/");
        let printer = path.starts_with("src/terminal");
        // Its lines are escaped where they are made.
        let log = path == "crates/serve/src/control/log/mod.rs";
        let tests = path.contains("/tests") || path.contains("/testing");
        inside && !printer && !log && !tests && path.contains("src/")
    });
}

#[test]
fn threads_sleep_in_os_poll_only() {
    none(check::waits(&rust_files()));
}

#[test]
fn unsafe_code_is_forbidden_everywhere_but_at_the_system_and_in_bindings() {
    let roots = |path: &str| {
        let bindings = path.starts_with("fuzz/") || path.starts_with("python/");
        let root = path == "src/main.rs" || path.ends_with("/src/lib.rs");
        let allowed = ["os", "backend", "frontend", "capi"].map(|name| format!("crates/{name}/"));
        root && !bindings && !allowed.iter().any(|folder| path.starts_with(folder))
    };
    every_file(check::forbids_unsafe, roots);
}

#[test]
fn crates_are_where_architecture_md_shows_them_and_use_what_it_says() {
    let page = read("docs/architecture.md");
    let arrows = crates::arrows(&page);
    let mut faults = crates::pictured(&read("README.md"), &page, &arrows, &file_names());
    faults.extend(crates::dependencies(&arrows, &members()));
    for (path, text) in rust_files() {
        let found = crates::uses(&arrows, &path, &text).into_iter();
        faults.extend(found.map(|fault| format!("{path}:{}: {}", fault.line, fault.what)));
    }
    none(faults);
}

#[test]
fn adding_md_has_all_steps() {
    let (page, files) = (read("docs/adding.md"), rust_files());
    let mut faults = adding::faults(&page, &file_names());
    let schedulers = read("crates/blk/src/sched/scheduler.rs");
    let kinds = read("crates/device/src/device_spec/kinds.rs");
    for (title, names) in [
        ("An I/O scheduler", adding::names(&schedulers, "\nschedulers! {", '"', "\" ")),
        ("A drive model", adding::names(&kinds, "static KINDS", '&', "::KIND")),
    ] {
        faults.extend(adding::left_out(&page, title, &names, &files));
    }
    none(faults);
}

#[test]
fn crates_say_what_they_are() {
    none(crates::metadata(&members(), &file_names()));
}

#[test]
fn links_between_documents_resolve() {
    let names = file_names();
    let pages = names.iter().filter(|name| name.ends_with(".md"));
    let pages: Vec<_> = pages.map(|name| (name.clone(), read(name))).collect();
    let mut faults = links::broken(&pages, &names);
    faults.extend(links::unlisted(&pages));
    none(faults);
}

/// What the manual may have in all; evidence and reference are apart.
const MANUAL_BYTES: usize = 350 * 1024;

#[test]
fn manual_is_short() {
    let is_page = |name: &String| {
        let inside = name.strip_prefix("docs/").filter(|inside| !inside.contains('/'));
        name == "README.md" || inside.is_some_and(|inside| inside.ends_with(".md"))
    };
    let bytes: usize =
        file_names().iter().filter(|name| is_page(name)).map(|n| read(n).len()).sum();
    assert!(
        bytes <= MANUAL_BYTES,
        "{bytes} bytes, {MANUAL_BYTES} expected at most: say it shorter, or move what proves it to \
         docs/evidence (`cargo xtask docs --size`)"
    );
}

#[test]
fn glossary_has_the_names_of_the_sources() {
    let sources: Vec<_> =
        rust_files().into_iter().filter(|(path, _)| path.starts_with("crates/")).collect();
    none(links::unknown_names(&read("docs/glossary.md"), &sources));
}

#[test]
fn requirements_of_nvme_have_the_tests_that_the_checklist_names() {
    none(links::unknown_tests(&read("docs/evidence/nvme-compliance.md"), &rust_files()));
}

#[test]
fn every_step_of_ci_is_in_a_job() {
    none(ci::steps_of_jobs(&read(".ci/run"), &read(".github/workflows/test.yml")));
}

#[test]
fn nothing_generated_is_kept() {
    none(check::generated(&file_names()));
}

#[test]
fn no_folder_is_named_as_tools_name_theirs() {
    none(check::folders(&file_names()));
}

#[test]
fn faults_and_costs_in_tables_have_tests_or_reasons() {
    for table in [links::LINUX_FAULTS, links::JOB_FAULTS, links::CLIENT_COSTS] {
        none(links::untested_faults(table, &read(table.0), &rust_files()));
    }
}
