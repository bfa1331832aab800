//! The views of devices: `zonal view`, and `--web`, `--top` and `--record-view` of a run.
use crate::support::{RunOutput, TestDir};
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const DEVICE: &str = "--device=null:zones=8,zone_size=1M";
const WRITES: [&str; 4] = ["--name=a", "--rw=write", "--zonemode=zbd", "--bs=4k"];

#[test]
fn a_file_that_is_no_recording_is_refused_with_its_line() {
    let dir = TestDir::new().with("text", "hello\n").with("empty", "");
    let record = ["run", DEVICE, "--clock=virtual", "--record-view=good", "--output=report"];
    dir.zonal(&[&record[..], &WRITES].concat()).expect_ok();
    let good = dir.read("good");
    let (first, frames) = good.split_once('\n').expect("a header and frames");
    let expected = "expected a recording of `zonal run --record-view`";
    let dir = dir
        .with("none", first)
        .with("version", &good.replacen("\"version\":1", "\"version\":9", 1))
        .with("other", &good.replacen("zonal view", "zonal vie", 1))
        .with("cells", &good.replacen("\"zones_per_cell\":1", "\"zones_per_cell\":0", 1))
        .with("map", &good.replacen("\"conditions\":\".", "\"conditions\":\"", 1))
        .with("device", &good.replacen("{\"device\":0,", "{\"device\":7,", 1))
        .with("cut", &good[..first.len() + frames.find("\"at\"").expect("a time")])
        .with("field", &good.replacen("\"live_plugs\"", "\"live_plug\"", 1));
    for (file, message) in [
        ("missing", "missing: No such file or directory"),
        ("text", &format!("text: line 1: expected value at line 1 column 1, {expected}")),
        ("empty", "empty: line 1: EOF while parsing"),
        ("none", "none: found no frames"),
        ("version", "version: line 1: version: found 9, expected 1"),
        ("other", &format!("other: line 1: format: found \"zonal vie\", {expected}")),
        (
            "cells",
            "cells: line 1: zones_per_cell: found 0 for 8 zones, expected at most 2048 cells",
        ),
        ("map", "map: line 2: conditions: found 7 cells, expected 8"),
        ("device", "device: line 2: device: found 7"),
        ("cut", "cut: line 2: EOF while parsing"),
        ("field", "field: line 2: unknown field `live_plug`"),
    ] {
        let RunOutput { code, out, err } = dir.zonal(&["view", "good", file, "--html", "page"]);
        assert_eq!((code, out.as_str()), (2, ""), "{file}: {err}");
        assert!(err.starts_with(&format!("zonal: {message}")), "{file}: {err}");
        assert!(!dir.path().join("page").exists(), "{file}");
    }
    dir.zonal(&["view", "good", "--html", "page"]).expect_ok();
}

#[test]
fn nobody_can_watch_virtual_time() {
    for option in ["--web=127.0.0.1:0", "--top"] {
        let dir = TestDir::new();
        let run = ["run", DEVICE, "--clock=virtual", option, "--record=log", "--output=report"];
        let RunOutput { code, out, err } = dir.zonal(&[&run[..], &WRITES].concat());
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        let name = &option[..5];
        let message = format!(
            "zonal: {name}: found --clock virtual, whose time nobody can watch; expected --clock \
             real, or --record-view FILE and then `zonal view FILE`\n"
        );
        assert_eq!(err, message);
        assert!(!dir.path().join("report").exists() && !dir.path().join("log").exists());
    }
}

#[test]
fn the_view_of_a_run_needs_a_terminal() {
    let ran = TestDir::new().zonal(&[&["run", DEVICE, "--top"], &WRITES[..]].concat());
    let message = "zonal: --top: standard output is not a terminal\n";
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (2, "", message));
}

/// A run that is shown in a terminal of 80 columns.
struct Terminal {
    dir: TestDir,
    child: Child,
    keys: ChildStdin,
    screen: ChildStdout,
    seen: String,
}

impl Terminal {
    /// Returns once keys are read: the first frame comes after the terminal was set up for them. The
    /// run ends by an interrupt; its runtime is for a test that failed.
    fn start() -> Self {
        let dir = TestDir::new();
        let job = [&WRITES[..], &["--runtime=300", "--time_based", "--output=report"]].concat();
        let (program, job) = (env!("CARGO_BIN_EXE_zonal"), job.join(" "));
        let shell = format!("stty rows 24 cols 80; exec {program} run {DEVICE} --top {job}");
        let mut script = Command::new("script");
        script.args(["-qec", &shell, "/dev/null"]).current_dir(dir.path()).env("NO_COLOR", "1");
        script.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = script.spawn().expect("script of util-linux");
        let keys = child.stdin.take().expect("a pipe");
        let screen = child.stdout.take().expect("a pipe");
        let mut terminal = Terminal { dir, child, keys, screen, seen: String::new() };
        terminal.wait_for("quit,");
        terminal
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("keys are read");
    }

    #[track_caller]
    fn wait_for(&mut self, text: &str) {
        let mut part = [0; 4096];
        while !self.seen.contains(text) {
            let len = self.screen.read(&mut part).expect("a pipe");
            assert!(len > 0, "the run ended without {text:?}: {:?}", self.seen);
            self.seen.push_str(&String::from_utf8_lossy(&part[..len]));
        }
    }

    /// Interrupts the run. Returns its report.
    fn interrupt(mut self) -> String {
        self.press("\x03");
        self.screen.read_to_end(&mut Vec::new()).expect("a pipe");
        let status = self.child.wait().expect("it ends");
        assert_eq!(status.code(), Some(130), "{:?}", self.seen);
        self.dir.read("report")
    }
}

#[test]
fn a_run_is_shown_in_the_terminal_and_changed_by_its_keys() {
    let mut terminal = Terminal::start();
    // Only what changes is drawn, and blanks were there.
    for part in ["reads", "writes", "p99", "zones:", "zone_write plug"] {
        terminal.wait_for(part);
    }
    terminal.press("w2y");
    // Where the policy is, in the first row.
    terminal.wait_for("\x1b[1;18H\x1b[1mqd1");
    let report = terminal.interrupt();
    assert!(report.contains("policy=qd1"), "{report}");
}

#[test]
fn a_run_goes_on_when_its_view_is_left() {
    let mut terminal = Terminal::start();
    terminal.press("q");
    // The program has left the terminal's other screen.
    terminal.wait_for("\x1b[?1049l");
    let report = terminal.interrupt();
    assert!(report.contains("policy=plug"), "{report}");
}
