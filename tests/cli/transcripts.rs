//! Transcripts in the documents are what the commands print today.
//!
//! A block of text behind the line `<!-- transcript -->` has commands, each after `$ `, and below each
//! command what it prints. A line `…` stands for any number of lines. The commands of a page run in one
//! directory, with the repository's examples in it. A command of a program that is not installed is
//! left out.
use crate::support::{TestDir, repository};
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

const MARK: &str = "<!-- transcript -->\n\n```text\n";

/// A command and what it prints.
struct Step {
    command: String,
    expected: Vec<String>,
}

/// The steps of a page, in order.
fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for block in text.split(MARK).skip(1) {
        let (block, _) = block.split_once("```").expect("the block ends");
        for line in block.lines() {
            match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(command), _) => {
                    steps.push(Step { command: command.to_owned(), expected: Vec::new() });
                }
                (None, Some(step)) => step.expected.push(line.to_owned()),
                (None, None) => panic!("a transcript begins with a command, found {line}"),
            }
        }
    }
    steps
}

/// Whether `found` is as expected.
fn is_as_expected(found: &[&str], expected: &[String]) -> bool {
    match expected.split_first() {
        None => found.is_empty(),
        Some((first, rest)) if first == "…" => {
            (0..=found.len()).any(|skipped| is_as_expected(&found[skipped..], rest))
        }
        Some((first, rest)) => {
            found.first() == Some(&first.as_str()) && is_as_expected(&found[1..], rest)
        }
    }
}

/// Whether the program of a command can be run.
fn is_installed(command: &str, dir: &Path) -> bool {
    let program = command.split_whitespace().next().unwrap_or_default();
    let mut found = Command::new("sh");
    found.args(["-c", &format!("command -v {program}")]).current_dir(dir);
    found.env("PATH", path(dir)).output().is_ok_and(|found| found.status.success())
}

fn path(dir: &Path) -> String {
    format!("{}/bin:{}", dir.display(), std::env::var("PATH").expect("a PATH"))
}

/// Runs the steps of a page; returns what is different, and the number of steps.
fn run(page: &Path) -> (String, usize) {
    let dir = TestDir::new();
    let dir = dir.path();
    fs::create_dir(dir.join("bin")).expect("a directory");
    symlink(env!("CARGO_BIN_EXE_zonal"), dir.join("bin/zonal")).expect("a link");
    symlink(repository("examples"), dir.join("examples")).expect("a link");
    let steps = steps(&fs::read_to_string(page).expect("the page"));
    let (mut different, mut code) = (String::new(), 0);
    for Step { command, expected } in steps.iter().filter(|step| is_installed(&step.command, dir)) {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("(exit {code}); {command}")]).current_dir(dir);
        // What goes to standard error belongs to the transcript.
        shell.env("PATH", path(dir)).stderr(std::process::Stdio::piped());
        let output = shell.output().expect("a shell");
        code = output.status.code().expect("it was not killed");
        let out = String::from_utf8([output.stderr, output.stdout].concat()).expect("UTF-8");
        let found: Vec<&str> = out.lines().collect();
        if !is_as_expected(&found, expected) {
            let page = page.display();
            writeln!(different, "{page}: $ {command}\n{out}").expect("a string takes text");
        }
    }
    (different, steps.len())
}

#[test]
fn transcripts_of_the_documents_are_what_the_commands_print() {
    let docs = fs::read_dir(repository("docs")).expect("the documents");
    let mut pages: Vec<PathBuf> = docs.map(|entry| entry.expect("an entry").path()).collect();
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.push(repository("README.md"));
    pages.sort();
    let runs: Vec<(String, usize)> = pages.iter().map(|page| run(page)).collect();
    let different: String = runs.iter().map(|(different, _)| different.as_str()).collect();
    assert!(different.is_empty(), "these commands print something else now:\n{different}");
    assert!(runs.iter().map(|(_, steps)| steps).sum::<usize>() > 0, "no transcript is marked");
}

#[test]
fn other_output_than_that_of_the_page_is_found() {
    let expected = ["a", "…", "z"].map(str::to_owned);
    assert!(is_as_expected(&["a", "b", "c", "z"], &expected));
    assert!(is_as_expected(&["a", "z"], &expected));
    assert!(!is_as_expected(&["a", "b"], &expected));
    assert!(!is_as_expected(&["b", "z"], &expected));
    let dir = TestDir::new().with("page.md", &format!("{MARK}$ echo a\nb\n```\n"));
    let (different, steps) = run(&dir.path().join("page.md"));
    assert!(steps == 1 && different.ends_with("$ echo a\na\n\n"), "{different}");
}
