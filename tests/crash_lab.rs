//! The crash lab finds each bug of the key-value store in `examples/kv.rs`, and nothing in the store
//! without bugs: `cargo test --test crash_lab`.
//!
//! The test has a `main` of its own since it is the store, too: `crash_lab kv check IMAGE MARKS BUG` is
//! the command that the lab runs.
#[path = "../examples/kv.rs"]
mod kv;

use std::path::Path;
use std::process::{Command, Output};
use std::time::Instant;

const BUGS: [&str; 5] = ["no-flush", "early-reset", "no-checksum", "trust-wp", "append-order"];
const PROFILE: &str = "null:zones=4,zone_size=128K,lba=4K,append_max=64K";

fn run(program: &Path, dir: &Path, args: &[&str]) -> Output {
    Command::new(program).args(args).current_dir(dir).output().expect("the program starts")
}

/// Records the store with a bug and checks the states; the exit code and the report of the lab.
fn lab(bug: &str, more: &[&str]) -> (Option<i32>, String) {
    let dir = tempfile::tempdir().expect("a directory");
    let zonal = Path::new(env!("CARGO_BIN_EXE_zonal"));
    let store = std::env::current_exe().expect("the path of this program");
    let created = run(zonal, dir.path(), &["create", "kv.img", "--profile", PROFILE]);
    assert!(created.status.success(), "{created:?}");
    let ran = run(&store, dir.path(), &["kv", "run", "kv.img", "kv.zlog", bug]);
    assert!(ran.status.success(), "{bug}: {ran:?}");
    let check = format!("{} kv check {{image}} {{marks}} {bug}", store.display());
    let output = run(zonal, dir.path(), &[&["crash", "kv.zlog", "--check", &check], more].concat());
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

fn main() {
    let mut args = std::env::args().skip(1).peekable();
    if args.next_if_eq("kv").is_some() {
        return kv::main();
    }
    if args.any(|arg| arg == "--list") {
        return;
    }
    for bug in BUGS {
        let started = Instant::now();
        let (code, report) = lab(bug, &["--max-failures", "1"]);
        assert_eq!(code, Some(1), "{bug}: {report}");
        assert!(report.contains("with the fewest changes"), "{bug}: {report}");
        println!("{bug}: found in {:.1} s\n{report}", started.elapsed().as_secs_f64());
    }
    let started = Instant::now();
    let (code, report) = lab("none", &[]);
    assert_eq!(code, Some(0), "{report}");
    println!("none: {:.1} s\n{report}", started.elapsed().as_secs_f64());
}
