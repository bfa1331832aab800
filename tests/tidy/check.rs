//! Checks of one file's text.

/// An error, and its line.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    /// From 1.
    pub line: usize,
    /// The error.
    pub what: String,
}

pub fn fault(line: usize, what: impl Into<String>) -> Fault {
    Fault { line, what: what.into() }
}

/// The file begins with a module doc, or with its crate's README as one.
pub fn module_doc(text: &str) -> Vec<Fault> {
    let first = text.lines().find(|line| !line.starts_with("#![") || line.contains("include_str!"));
    match first {
        Some("#![doc = include_str!(\"../README.md\")]") => Vec::new(),
        Some(line) if line.starts_with("//! ") && line.len() > "//! x".len() => Vec::new(),
        _ => vec![fault(1, "expected a module doc")],
    }
}

/// A benchmark does not measure when `cargo test --benches` runs it.
pub fn benchmark_start(text: &str) -> Vec<Fault> {
    if text.contains("start::measures()") {
        return Vec::new();
    }
    vec![fault(1, "expected a call of start::measures(), of benches/support/start.rs")]
}

/// No unfinished work. A `TODO` or `FIXME` is fine with the number of its issue, as `TODO(#12)`.
pub fn banned_words(text: &str) -> Vec<Fault> {
    let calls = ["dbg!(", "todo!(", "unimplemented!("];
    let notes = ["TODO", "FIXME"];
    each_line(text, |line| {
        let call = calls.into_iter().find(|call| line.contains(call));
        let note = notes.into_iter().find(|note| {
            line.split(note).skip(1).any(|after| {
                let number = after.strip_prefix("(#").and_then(|rest| rest.split_once(')'));
                number.is_none_or(|(number, _)| number.parse::<u32>().is_err())
            })
        });
        call.or(note).map(|word| format!("{word} is unfinished work"))
    })
}

/// Phrases that read like a translation, and what to say instead.
const PHRASES: [(&str, &str); 14] = [
    ("keeps true:", "invariants:"),
    ("; gives", "a plain sentence"),
    ("at the most", "at most"),
    ("mended", "fixed, writable again"),
    ("let go", "released, unlocked"),
    ("told from", "distinguished from"),
    ("taken up", "started, fetched"),
    ("befall", "apply to"),
    ("also not", "not ... either"),
    ("who is told", "the observer"),
    ("in the midst", "during"),
    ("has to say", "reports"),
    ("on its way", "in flight"),
    ("on their way", "in flight"),
];

/// No phrase that a reader stumbles over.
pub fn phrases(text: &str) -> Vec<Fault> {
    each_line(text, |line| {
        let line = line.to_lowercase();
        let (phrase, plain) = PHRASES.iter().find(|(phrase, _)| has_words(&line, phrase))?;
        Some(format!("\"{phrase}\": say {plain}"))
    })
}

/// Whether a line has these words, and not as part of longer ones or as a name in quotes.
fn has_words(line: &str, words: &str) -> bool {
    let joins = |c: char| c.is_alphanumeric() || matches!(c, '_' | '"');
    line.match_indices(words)
        .any(|(at, _)| !line[..at].ends_with(joins) && !line[at + words.len()..].starts_with(joins))
}

/// No clock, no thread, no file. Tests in a file's `mod tests` may have them.
pub fn pure(text: &str) -> Vec<Fault> {
    let banned = [
        "Instant::now",
        "SystemTime",
        "thread::spawn",
        "thread::scope",
        "thread::Builder",
        "thread::sleep",
        " sleep(",
        "std::fs",
        "File::",
        "std::net",
        "println!",
        "eprintln!",
    ];
    let code = text.split("\nmod tests {").next().unwrap_or_default();
    each_line(code, |line| {
        let line = without_comment(line);
        let found = banned.into_iter().find(|word| line.contains(word));
        found.map(|word| format!("{word} in a crate that takes time as an argument"))
    })
}

/// Standard output and standard error, through which control characters reach a terminal.
pub fn outputs(text: &str) -> Vec<Fault> {
    let calls = ["io::stdout()", "io::stderr()", "print!(", "println!(", "eprint!(", "eprintln!("];
    let code = text.split("\nmod tests {").next().unwrap_or_default();
    each_line(code, |line| {
        let line = without_comment(line).replace("().is_terminal()", "");
        let call = calls.into_iter().find(|call| has_call(&line, call))?;
        Some(format!("{call}: print with stdout or print_error of src/terminal.rs, which escape"))
    })
}

/// Whether a line contains this call, and not one of a longer name.
fn has_call(line: &str, call: &str) -> bool {
    line.match_indices(call).any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric()))
}

/// The crates that run in real time, and may wait in `os/poll` only.
const REAL_TIME: [&str; 5] = ["os", "backend", "frontend", "serve", "lab"];

/// Where they may wait outside of it, and why.
const WAITS: &[(&str, &str)] = &[
    // A progress line ten times a second, while threads run that are joined.
    ("crates/lab/src/jobs.rs", "park_timeout"),
    // The keep-alive thread, between two commands.
    ("crates/backend/src/nvme_tcp/connections.rs", "Condvar"),
];

/// Threads sleep in `os/poll` and in [`WAITS`], all of which are needed.
pub fn waits(files: &[(String, String)]) -> Vec<String> {
    let calls = [
        "thread::sleep",
        "thread::park(",
        "park_timeout",
        "Condvar",
        "poll(&mut [",
        "ppoll(",
        "epoll::wait",
        "submitter.submit_and_wait",
        "submitter().submit_and_wait",
        "submit_with_args",
    ];
    let runs = |path: &str| {
        let inside = path.strip_prefix("crates/").and_then(|rest| rest.split_once("/src/"));
        inside.is_some_and(|(member, rest)| {
            let poll = member == "os" && rest.starts_with("poll/");
            REAL_TIME.contains(&member) && !poll && !rest.contains("tests")
        })
    };
    let mut found = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| runs(path)) {
        let code = text.split("\nmod tests {").next().unwrap_or_default();
        for call in calls {
            let waits = |line: &str| without_comment(line).contains(call).then(String::new);
            if let Some(fault) = each_line(code, waits).first() {
                found.push((path.as_str(), call, fault.line));
            }
        }
    }
    let is_excused = |(path, call, _): &&(&str, &str, usize)| WAITS.contains(&(path, call));
    let mut faults: Vec<String> = Vec::new();
    for (path, call, line) in found.iter().filter(|wait| !is_excused(wait)) {
        faults.push(format!("{path}:{line}: {call} outside crates/os/src/poll"));
    }
    for &(path, call) in WAITS {
        if !found.iter().any(|wait| (wait.0, wait.1) == (path, call)) {
            faults.push(format!("{path}: an exception for {call} that is not needed any more"));
        }
    }
    faults
}

/// The crate forbids unsafe code.
pub fn forbids_unsafe(text: &str) -> Vec<Fault> {
    if text.lines().any(|line| line == "#![forbid(unsafe_code)]") {
        Vec::new()
    } else {
        vec![fault(1, "expected #![forbid(unsafe_code)]")]
    }
}

/// No output of programs among the sources.
pub fn generated(names: &[String]) -> Vec<String> {
    let endings =
        [".snap.new", ".pending-snap", ".orig", ".rej", ".o", ".rlib", ".profraw", ".log"];
    let is_bad = |name: &&String| {
        let out_dir = name.split('/').any(|part| matches!(part, "target" | "out" | "__pycache__"));
        out_dir || endings.iter().any(|ending| name.ends_with(ending))
    };
    names.iter().filter(is_bad).map(|name| format!("{name}: looks generated")).collect()
}

/// No folder that tools take for build output or tests.
pub fn folders(names: &[String]) -> Vec<String> {
    let taken = ["target", "spec"];
    let mut faults = Vec::new();
    for name in names {
        let mut folders: Vec<&str> = name.split('/').collect();
        folders.pop();
        faults.extend(
            folders
                .into_iter()
                .filter(|folder| taken.contains(folder))
                .map(|folder| format!("{name}: a folder must not be named {folder}")),
        );
    }
    faults
}

/// The line up to a comment.
pub fn without_comment(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
}

/// Applies a check to every line.
pub fn each_line(text: &str, check: impl Fn(&str) -> Option<String>) -> Vec<Fault> {
    let numbered = (1..).zip(text.lines());
    numbered.filter_map(|(number, line)| Some(fault(number, check(line)?))).collect()
}

mod tests {
    use super::*;

    fn lines(faults: Vec<Fault>) -> Vec<usize> {
        faults.into_iter().map(|fault| fault.line).collect()
    }

    #[test]
    fn file_without_module_doc_is_found() {
        assert!(module_doc("//! What it does.\nuse std;\n").is_empty());
        assert!(module_doc("#![doc = include_str!(\"../README.md\")]\n").is_empty());
        assert!(module_doc("#![no_std]\n//! What it does.\n").is_empty());
        for bad in ["use std;\n//! Late.\n", "", "//!\n", "// A comment.\n", "\n//! After a gap.\n"]
        {
            assert_eq!(lines(module_doc(bad)), [1], "{bad:?}");
        }
    }

    #[test]
    fn unfinished_work_is_found() {
        let good = "// TODO(#12): later\nlet mastodon = 1;\n";
        assert!(banned_words(good).is_empty());
        for bad in [
            "// TODO: later",
            "// TODO(me): later",
            "// FIXME",
            "// TODO(#1) and TODO",
            "dbg!(x);",
            "todo!()",
            "unimplemented!(\"x\")",
        ] {
            assert_eq!(lines(banned_words(&format!("//! Doc.\n{bad}\n"))), [2], "{bad}");
        }
    }

    #[test]
    fn phrase_of_a_translation_is_found() {
        let good = "// At most four are in flight.\nlet goal = \"mended\"; // recommended\n";
        assert!(phrases(good).is_empty());
        for bad in
            ["// Keeps true: x", "four at the most", "/// It is let go.", "nothing, also not y"]
        {
            assert_eq!(lines(phrases(bad)), [1], "{bad}");
        }
    }

    #[test]
    fn clocks_threads_and_files_are_found() {
        let good = "// Not Instant::now, as the kernel does.\nfn now() {}\n\
                    #[cfg(test)]\nmod tests {\nfn f() { std::thread::spawn(|| ()); }\n}\n";
        assert!(pure(good).is_empty());
        for bad in [
            "let t = Instant::now();",
            "use std::time::SystemTime;",
            "std::thread::spawn(f);",
            "thread::sleep(d);",
            "let f = File::open(p);",
            "use std::fs;",
            "println!(\"x\");",
        ] {
            assert_eq!(lines(pure(&format!("//! Doc.\n{bad} // reason\n"))), [2], "{bad}");
        }
    }

    #[test]
    fn prints_that_escape_nothing_are_found() {
        let good = "if !io::stdout().is_terminal() {}\nlet mut out = stdout(); // io::stdout()\n\
                    #[cfg(test)]\nmod tests {\nfn f() { println!(); }\n}\n";
        assert!(outputs(good).is_empty());
        for bad in ["let out = io::stdout().lock();", "std::io::stderr()", "eprintln!(\"x\");"] {
            assert_eq!(lines(outputs(&format!("//! Doc.\n{bad} // reason\n"))), [2], "{bad}");
        }
    }

    #[test]
    fn crate_that_allows_unsafe_code_is_found() {
        assert!(forbids_unsafe("//! Doc.\n#![forbid(unsafe_code)]\n").is_empty());
        assert_eq!(lines(forbids_unsafe("//! Doc.\n// #![forbid(unsafe_code)]\n")), [1]);
        assert_eq!(lines(forbids_unsafe("//! Doc.\n#![deny(unsafe_code)]\n")), [1]);
    }

    #[test]
    fn generated_files_are_found() {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let good = names(&["src/main.rs", "docs/log.md", "a/b.snap", "Cargo.lock"]);
        assert!(generated(&good).is_empty());
        let bad = names(&["a/b.snap.new", "x.orig", "run.log", "target/a", "x/__pycache__/y"]);
        assert_eq!(generated(&bad).len(), bad.len());
    }

    #[test]
    fn folder_with_the_name_of_build_output_is_found() {
        let names = ["crates/x/src/target/mod.rs", "tests/spec/a.rs"].map(str::to_owned);
        assert_eq!(folders(&names).len(), names.len());
        assert!(
            folders(&["src/target.rs", "crates/x/tests/spec.rs"].map(str::to_owned)).is_empty()
        );
    }
}
