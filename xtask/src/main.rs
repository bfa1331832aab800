//! `cargo xtask fast` and `cargo xtask full`: the checks before a commit and before a release;
//! `cargo xtask docs`: the commands in the documents, and their size; `cargo xtask capi`: the C library;
//! `cargo xtask picture`: the picture of a document; `cargo xtask site`: the documents as a site;
//! `cargo xtask lines`: the lines of the program; `cargo xtask mutants`: mistakes that tests have to find.
#![forbid(unsafe_code)]
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;
use xtask::{capi, flash, full, lines, mutants, root, site, size};

const USAGE: &str = "\
usage: cargo xtask fast    format, lints, the house rules, unit tests of the pure crates
       cargo xtask full [--list | NAME...]    all checks, with the time that each is expected to
                           take: `ci`, as in CI (.ci/run), and what CI leaves out
       cargo xtask docs [--update]    the commands in the documents, compared with what a release
                           build prints; or the documents with what it prints now
       cargo xtask docs --size    bytes, long lines and phrases to avoid of the documents, by page
       cargo xtask capi PREFIX [PROFILE]
                                  builds libzonal for C and installs it below PREFIX
       cargo xtask picture    draws the picture of docs/flash.md from the table of its evidence
       cargo xtask site DIRECTORY    the documents as a site, by mdBook, with its links checked
       cargo xtask lines      the lines of the program by crate, without blanks, comments and tests
       cargo xtask mutants [AREA...] [--sample N] [--since COMMIT]
                           plants mistakes with cargo-mutants, which tests have to find: all, or N
                           of each area, or only in lines that differ from COMMIT; continues where
                           it was interrupted";

/// What makes a site of the documents.
const MDBOOK: &str = "mdbook@0.5.4";

/// The crates without clocks, threads and files, whose unit tests take seconds.
const PURE: [&str; 6] = ["blk", "device", "nvme", "fio", "fsmodel", "sim"];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some((first, names)) = arguments.split_first()
        && first == "full"
    {
        return full::run(&names.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let passed = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["fast"] => fast(),
        ["docs"] => docs(false),
        ["docs", "--update"] => docs(true),
        ["docs", "--size"] => size::print(root()).inspect_err(|error| eprintln!("{error}")).is_ok(),
        ["capi", prefix] => install_capi(Path::new(prefix), "release"),
        ["capi", prefix, profile] => install_capi(Path::new(prefix), profile),
        ["picture"] => flash::write_picture().inspect_err(|error| eprintln!("{error}")).is_ok(),
        ["lines"] => lines::print(root()).inspect_err(|error| eprintln!("{error}")).is_ok(),
        ["mutants", ref arguments @ ..] => {
            mutants::run(arguments).inspect_err(|error| eprintln!("{error}")).is_ok()
        }
        ["site", directory] => write_site(Path::new(directory)),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Stops at the first check that fails.
fn fast() -> bool {
    let begun = Instant::now();
    let mut tests = vec!["test", "--locked", "--quiet", "--lib", "--package", "zonal-tidy"];
    let packages = PURE.map(|name| format!("zonal-{name}"));
    tests.extend(packages.iter().flat_map(|package| ["--package", package]));
    let passed = cargo(&["fmt", "--all", "--check"])
        && cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--features", "fuse"])
        && cargo(&tests);
    println!("{} s", begun.elapsed().as_secs());
    passed
}

/// Runs the commands of the documents (`tests/docs`), also those that take long.
fn docs(update: bool) -> bool {
    let mut test = Command::new(env!("CARGO"));
    test.args(["test", "--locked", "--test", "docs"]);
    test.env("ZONAL_PROGRAM", root().join(target()).join("release/zonal"));
    if update {
        test.env("UPDATE_DOCS", "1");
    }
    cargo(&["build", "--release", "--locked"]) && run(test)
}

/// Installs the C library, built with a profile of cargo.
fn install_capi(prefix: &Path, profile: &str) -> bool {
    if !cargo(&["build", "--profile", profile, "--locked", "--package", "zonal-capi"]) {
        return false;
    }
    let folder = if profile == "dev" { "debug" } else { profile };
    let library = root().join(target()).join(folder).join("libzonal_capi.a");
    let installed = capi::install(&library, prefix, false);
    installed.inspect_err(|error| eprintln!("{}: {error}", prefix.display())).is_ok()
}

/// Writes the documents as a site, from what a release build prints of itself.
fn write_site(directory: &Path) -> bool {
    let (tools, book) = (root().join(target()).join("tools"), root().join(target()).join("site"));
    let install = ["install", MDBOOK, "--locked", "--no-default-features", "--features", "search"];
    let to = ["--root", &tools.to_string_lossy()];
    if !cargo(&["build", "--release", "--locked"]) || !cargo(&[&install[..], &to].concat()) {
        return false;
    }
    let program = root().join(target()).join("release/zonal");
    let directory = std::path::absolute(directory).expect("it is not empty");
    if let Err(error) = site::write_sources(&program, &book) {
        eprintln!("{}: {error}", book.display());
        return false;
    }
    let mut mdbook = Command::new(tools.join("bin/mdbook"));
    mdbook.arg("build").arg("--dest-dir").arg(&directory).arg(&book);
    if !run(mdbook) {
        return false;
    }
    match site::broken_links(&directory) {
        Ok(broken) => {
            broken.iter().for_each(|link| eprintln!("{link}: leads nowhere"));
            broken.is_empty()
        }
        Err(error) => {
            eprintln!("{}: {error}", directory.display());
            false
        }
    }
}

/// Where cargo builds.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()).into()
}

fn cargo(arguments: &[&str]) -> bool {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments);
    if arguments[0] == "clippy" {
        command.args(["--", "--deny", "warnings"]);
    }
    run(command)
}

/// Runs a command in the root of the workspace, and says so.
fn run(mut command: Command) -> bool {
    let arguments = command.get_args().map(|argument| format!(" {}", argument.display()));
    println!("== {}{}", command.get_program().display(), arguments.collect::<String>());
    match command.current_dir(root()).status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("{}: {error}", command.get_program().display());
            false
        }
    }
}
