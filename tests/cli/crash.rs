//! `zonal crash`: from a recording to checked states. The store with bugs is in `tests/crash_lab.rs`.
use crate::support::{RunOutput, TestDir};
use std::fs;

const DEVICE: &str = "null:zones=4,zone_size=64K,lba=4K,memory=true";

/// A directory with the log of a job that fills a zone, with flushes, in virtual time.
fn recorded() -> TestDir {
    let dir = TestDir::new();
    record(&dir, "w.zlog").expect_ok();
    dir
}

fn record(dir: &TestDir, log: &str) -> RunOutput {
    let job = ["--name=w", "--rw=write", "--bs=8k", "--size=64k", "--fsync=4", "--zonemode=zbd"];
    let args = ["run", "--clock", "virtual", "--device", DEVICE, "--record-all", log];
    dir.zonal(&[&args[..], &job].concat())
}

/// Runs `zonal crash w.zlog` with these arguments.
fn crash(dir: &TestDir, args: &[&str]) -> RunOutput {
    dir.zonal(&[&["crash", "w.zlog"], args].concat())
}

fn states(dir: &TestDir) -> Vec<String> {
    crash(dir, &["--list"]).expect_ok().lines().map(str::to_owned).collect()
}

#[test]
fn recording_in_virtual_time_is_the_same_to_the_byte() {
    let dir = recorded();
    record(&dir, "again.zlog").expect_ok();
    let read = |name| fs::read(dir.path().join(name)).expect("a log");
    assert_eq!(read("w.zlog"), read("again.zlog"));
}

#[test]
fn states_of_a_job_have_what_was_flushed() {
    let dir = recorded();
    let states = states(&dir);
    assert_eq!(states[0], "0");
    // 8 writes of two blocks, one at a time: what a flush does not cover equals an earlier state.
    assert_eq!(states.len(), 17, "{states:?}");
    let summary = crash(&dir, &[]).expect_ok();
    assert!(summary.ends_with(&format!("{} states\n", states.len())), "{summary}");
    let events = crash(&dir, &["--events"]).expect_ok();
    assert!(
        events.starts_with("1 start 0 Write zone 0 sector 0 8KiB\n2 end 0 at sector 0: success\n"),
        "{events}"
    );
    assert!(events.contains("Flush"), "{events}");
}

#[test]
fn state_becomes_an_image_that_is_intact_and_differs_where_it_says() {
    let dir = recorded();
    crash(&dir, &["--materialise", "4:z0=1", "s.img"]).expect_ok();
    let checked = dir.zonal(&["check", "--data", "s.img"]).expect_ok();
    assert!(checked.contains("1 closed, 4096 bytes written"), "{checked}");
    let diff = crash(&dir, &["--diff", "4", "4:z0=1"]);
    assert_eq!(
        (diff.code, diff.out.as_str()),
        (1, "zone 0: Closed with 32 sectors and Closed with 8 sectors\n")
    );
    assert_eq!(crash(&dir, &["--diff", "4", "4"]).expect_ok(), "");
    let again = crash(&dir, &["--materialise", "4", "s.img"]);
    assert_eq!(
        (again.code, again.err.as_str()),
        (2, "zonal: s.img: the file exists; expected a new one\n")
    );
}

#[test]
fn states_that_no_drive_can_be_in_are_refused() {
    let dir = recorded();
    let refused = |state: &str| {
        let output = crash(&dir, &["--materialise", state, "s.img"]);
        assert_eq!(output.code, 2, "{state}: {output:?}");
        assert!(!dir.path().join("s.img").exists(), "{state}");
        output.err
    };
    assert!(refused("4:z0=9").contains("zone 0: expected 0 to 4 blocks"), "{}", refused("4:z0=9"));
    assert!(refused("4:z2=0").contains("zone 2 has nothing that could be lost"));
    assert!(refused("4:w1=none").contains("neither unflushed nor in flight"));
    assert!(refused("9999").contains("the log has "));
    assert!(refused("4:q").contains("found `q`, expected zZONE="));
}

#[test]
fn log_without_its_end_is_used_as_far_as_it_goes() {
    let dir = recorded();
    let log = fs::read(dir.path().join("w.zlog")).expect("a log");
    let all = crash(&dir, &[]).expect_ok();
    // Without its footer.
    fs::write(dir.path().join("w.zlog"), &log[..log.len() - 10]).expect("it is written");
    let output = crash(&dir, &[]);
    assert_eq!((output.code, output.out), (0, all));
    assert!(output.err.contains("the end of the recording is missing"), "{}", output.err);
    fs::write(dir.path().join("w.zlog"), &log[..10]).expect("it is written");
    let output = crash(&dir, &[]);
    assert_eq!(output.code, 2);
    assert!(output.err.contains("found another kind of file"), "{}", output.err);
}

#[test]
fn device_that_had_data_needs_the_image_from_before() {
    let dir = TestDir::new();
    let create = ["create", "d.img", "--profile", "null:zones=4,zone_size=64K,lba=4K"];
    dir.zonal(&create).expect_ok();
    let write = |more: &[&str]| {
        let job =
            ["run", "--device", "d.img", "--name=w", "--rw=write", "--bs=4k", "--zonemode=zbd"];
        dir.zonal(&[&job[..], more].concat()).expect_ok();
    };
    write(&["--size=64k"]);
    fs::copy(dir.path().join("d.img"), dir.path().join("base.img")).expect("a copy");
    write(&["--size=64k", "--offset=64k", "--record-all", "w.zlog"]);
    let made = crash(&dir, &["--materialise", "2", "s.img"]);
    assert_eq!(made.code, 2);
    assert!(made.err.contains("--base: the device was not empty"), "{}", made.err);
    let other = crash(&dir, &["--materialise", "2", "s.img", "--base", "d.img"]);
    assert_eq!(other.code, 2);
    assert!(
        other.err.contains("found zone 1 full, expected zone 1 with 0 sectors"),
        "{}",
        other.err
    );
    crash(&dir, &["--materialise", "2", "s.img", "--base", "base.img"]).expect_ok();
    let checked = dir.zonal(&["check", "--data", "s.img"]).expect_ok();
    assert!(checked.contains("1 closed, 1 full, 69632 bytes written"), "{checked}");
}

#[test]
fn check_runs_on_every_state_and_shrinks_the_first_failure() {
    let dir = recorded();
    let states = states(&dir);
    let passed = crash(&dir, &["--check", "zonal=1; test -s {image}"]).expect_ok();
    assert_eq!(passed, format!("{} states checked, 0 failed\n", states.len()));
    // States with an odd number of blocks in zone 0 fail.
    let program = env!("CARGO_BIN_EXE_zonal");
    let torn = format!("{program} check {{image}} | grep -q ' 4096 bytes' && exit 3 || exit 0");
    let args = ["--check", &torn, "--junit", "r.xml", "--json", "r.json"];
    let failed = crash(&dir, &args);
    assert_eq!(failed.code, 1, "{failed:?}");
    assert!(failed.out.contains("state 1:z0=1: exit code 3\n"), "{}", failed.out);
    assert!(failed.out.contains("The first failure, with the fewest changes:"), "{}", failed.out);
    let xml = dir.read("r.xml");
    let xml = roxmltree::Document::parse(&xml).expect("XML");
    let cases = xml.descendants().filter(|node| node.has_tag_name("testcase")).count();
    assert_eq!(cases, states.len());
    let json: serde_json::Value = serde_json::from_str(&dir.read("r.json")).expect("JSON");
    assert_eq!(json["states"], states.len());
    assert_eq!(json["shrunk"]["verdict"]["state"], "1:z0=1");
    let again = crash(&dir, &["--check", &torn, "--state", "1:z0=1"]);
    assert_eq!((again.code, again.out.as_str()), (1, "state 1:z0=1: exit code 3\n"));
}

#[test]
fn run_goes_on_from_where_it_was_interrupted() {
    let dir = recorded();
    let count = states(&dir).len();
    let ran = dir.path().join("ran");
    let command = format!("test {{image}} && echo x >> {}", ran.display());
    let args = ["--check", &command, "--resume", "done.json"];
    crash(&dir, &args).expect_ok();
    let lines = || dir.read("ran").lines().count();
    assert_eq!(lines(), count);
    // Of the last states, the results are lost, one of them in the middle of its line.
    let results = fs::read(dir.path().join("done.json")).expect("results");
    fs::write(dir.path().join("done.json"), &results[..results.len() / 2]).expect("written");
    let report = crash(&dir, &args).expect_ok();
    assert_eq!(report, format!("{count} states checked, 0 failed\n"));
    assert!((count + 1..2 * count).contains(&lines()), "{}", lines());
    let other = crash(&dir, &["--check", "test {image}", "--resume", "done.json"]);
    assert_eq!(other.code, 2);
    assert!(other.err.contains("found results of another log, check or choice"), "{}", other.err);
}

#[test]
fn what_cannot_be_recorded_or_checked_is_refused() {
    let dir = recorded();
    let refused = |args: &[&str]| {
        let output = dir.zonal(args);
        assert_eq!(output.code, 2, "{args:?}: {output:?}");
        output.err
    };
    let run = |device| ["run", "--name=w", "--rw=write", "--device", device, "--record-all", "x"];
    assert!(refused(&run("null:zones=4")).contains("found one that keeps no data"));
    let regular = refused(&run("null:zoned=false,memory=true,size=1M"));
    assert!(regular.contains("a device without zones"), "{regular}");
    let check = |command| refused(&["crash", "w.zlog", "--check", command]);
    assert!(check("true").contains("expected a command with {image}"));
    assert!(check("no-such-program {image}").contains("cannot be run"));
    assert!(refused(&["crash", "none.zlog"]).contains("none.zlog: cannot read it"));
    assert!(
        refused(&["crash", "w.zlog", "--cuts", "9-3"]).contains("expected the number of an event")
    );
    assert!(refused(&["crash", "w.zlog", "--atomic", "3K"]).contains("expected a power of two"));
}
