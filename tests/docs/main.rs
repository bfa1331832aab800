//! The commands in the README and in the pages of `docs/` and its folders `evidence`, `reference` and
//! `tutorials` do what the pages say.
//!
//! The line before each block with a command is a mark, which says how it is checked:
//!
//! ```text
//! <!-- transcript -->                 commands after `$ `, and below each what it prints
//! <!-- transcript, numbers vary -->   the same, but numbers and their units are not compared
//! <!-- commands -->                   every line is a command that exits with 0
//! <!-- not run: REASON -->
//! ```
//!
//! In a transcript, a line `…` stands for any number of lines, and a command that ends with `&` runs
//! until the end of its page, or until `kill %N` ends the Nth of them. The commands of a page run in
//! order, in one directory, which has the repository's `examples`. `127.0.0.1:4420` and `:4421` are
//! those ports of a loopback address that each page has for itself. A command of a program that is
//! not installed is left out.
//!
//! A mark that ends with `, long` is checked only if the environment has `ZONAL_PROGRAM`, a release
//! build to run; `.ci/run` does that. With `UPDATE_DOCS` in the environment, the pages get what the
//! commands print now: `cargo xtask docs --update` does both.
mod compare;
mod page;
mod shell;

use page::{Check, Page, Part};
use shell::Shell;
use std::env;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

/// The README and the pages of `docs/`, its evidence, its reference and its tutorials.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["docs", "docs/evidence", "docs/reference", "docs/tutorials"];
    let folders = folders.map(|folder| fs::read_dir(root.join(folder)));
    let entries = folders.into_iter().flat_map(|folder| folder.expect("the pages"));
    let mut pages: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.push(root.join("README.md"));
    pages.sort();
    pages
}

/// Runs the blocks of a page. Returns the page with what they print, and what is different.
fn run(page: &Page, with_long: bool) -> (Page, String) {
    let mut shell = Shell::new();
    let (mut updated, mut different) = (page.clone(), String::new());
    let blocks = updated.parts.iter_mut().filter_map(|part| match part {
        Part::Block(block) => Some(block),
        Part::Text(_) => None,
    });
    for block in blocks.filter(|block| with_long || !block.is_long) {
        match block.check {
            Check::Transcript { numbers_vary } => {
                for step in &mut block.steps {
                    let Some(found) = shell.run(&step.command, step.expected.len()) else {
                        continue;
                    };
                    let found: Vec<&str> = found.lines().collect();
                    if !compare::is_as_expected(&found, &step.expected, numbers_vary) {
                        let out = found.join("\n");
                        writeln!(different, "$ {}\n{out}\n", step.command).expect("a string");
                        step.expected = compare::updated(&found, &step.expected);
                    }
                }
            }
            Check::Commands => {
                for step in &block.steps {
                    let Some(found) = shell.run(&step.command, 0) else { continue };
                    if shell.code != 0 {
                        let code = shell.code;
                        writeln!(different, "$ {}\n{found}exit code {code}\n", step.command)
                            .expect("a string");
                    }
                }
            }
            Check::None => {}
        }
    }
    let unread = shell.unread();
    if !unread.is_empty() {
        writeln!(different, "servers printed more:\n{unread}").expect("a string");
    }
    (updated, different)
}

#[test]
fn commands_do_what_the_pages_say() {
    let with_long = env::var_os("ZONAL_PROGRAM").is_some();
    let update = env::var_os("UPDATE_DOCS").is_some();
    let check = |path: PathBuf| {
        let page = Page::parse(&fs::read_to_string(&path).expect("a page")).expect("marks");
        let (updated, different) = run(&page, with_long);
        if update && updated != page {
            fs::write(&path, updated.text()).expect("a page");
        }
        (path, different)
    };
    let different: Vec<(PathBuf, String)> = thread::scope(|scope| {
        let threads: Vec<_> =
            pages().into_iter().map(|path| scope.spawn(move || check(path))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let mut report = String::new();
    for (path, different) in different.iter().filter(|(_, different)| !different.is_empty()) {
        writeln!(report, "== {}\n{different}", path.display()).expect("a string");
    }
    assert!(
        report.is_empty() || update,
        "these print something else now (`cargo xtask docs --update`):\n{report}"
    );
}

#[test]
fn every_block_with_a_command_is_marked() {
    let mut unmarked = String::new();
    for path in pages() {
        if let Err(error) = Page::parse(&fs::read_to_string(&path).expect("a page")) {
            writeln!(unmarked, "{}: {error}", path.display()).expect("a string");
        }
    }
    assert!(unmarked.is_empty(), "{unmarked}");
}

#[test]
fn other_output_than_that_of_the_page_is_found_and_updated() {
    let page = |first: &str, code: i32| {
        format!(
            "# A page\n\n<!-- transcript -->\n\n```text\n$ echo {first}; echo 2; echo 3; exit 4\n…\n3\n\
             $ echo $?\n{code}\n```\n\n<!-- commands -->\n\n```sh\ntrue  # a comment\n```\n"
        )
    };
    let (same, different) = run(&Page::parse(&page("1", 4)).unwrap(), false);
    assert_eq!((same.text(), different.as_str()), (page("1", 4), ""));
    let (updated, different) = run(&Page::parse(&page("1", 5)).unwrap(), false);
    assert_eq!((updated.text(), different.as_str()), (page("1", 4), "$ echo $?\n4\n\n"));
    let failing = page("1", 4).replace("true ", "false");
    let (_, different) = run(&Page::parse(&failing).unwrap(), false);
    assert!(different.ends_with("exit code 1\n\n"), "{different}");
}

#[test]
fn servers_run_until_the_end_of_their_page() {
    let page = "<!-- transcript -->\n\n```text\n$ touch up; echo ready; echo more; exec sleep 1000 &\n\
                ready\nmore\n$ ls up\nup\n```\n";
    let (_, different) = run(&Page::parse(page).unwrap(), false);
    assert_eq!(different, "");
}

#[test]
fn pages_have_all_that_a_server_prints() {
    let page = "<!-- transcript -->\n\n```text\n$ printf 'ready\\nmore\\n'; exec sleep 1000 &\nready\n\
                $ sleep 0.1\n$ kill %1\n```\n";
    let (_, different) = run(&Page::parse(page).unwrap(), false);
    assert_eq!(different, "$ kill %1\nmore\n\n");
    let to_the_end = page.replace("$ kill %1\n", "");
    let (_, different) = run(&Page::parse(&to_the_end).unwrap(), false);
    assert_eq!(different, "servers printed more:\nmore\n\n");
}

#[test]
fn long_blocks_are_left_out_unless_asked_for() {
    let page = Page::parse("<!-- commands, long -->\n\n```sh\nfalse\n```\n").unwrap();
    assert_eq!(run(&page, false).1, "");
    assert_eq!(run(&page, true).1, "$ false\nexit code 1\n\n");
}
