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
    let args = ["run", "--clock", "virtual", "--device", DEVICE, "--record", log];
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
fn sample_is_spread_over_the_states_and_depends_on_the_seed() {
    let dir = recorded();
    let all = states(&dir);
    let list = |more: &[&str]| -> Vec<String> {
        let listed = crash(&dir, &[&["--list", "--sample", "5"], more].concat());
        listed.expect_ok().lines().map(str::to_owned).collect()
    };
    let five = list(&[]);
    let places: Vec<_> = five.iter().map(|one| all.iter().position(|state| state == one)).collect();
    assert!(places.len() == 5 && places.is_sorted() && places.iter().all(Option::is_some));
    assert!((1..9).any(|seed| list(&["--seed", &seed.to_string()]) != five));
    let checked = crash(&dir, &["--check", "test -s {image}", "--sample", "5"]).expect_ok();
    assert_eq!(checked, "5 states checked, 0 failed\n");
    assert_eq!(crash(&dir, &["--list", "--sample", "0"]).code, 2);
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
        (1, "zone 0: closed with 32 sectors and closed with 8 sectors\n")
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
    let output = crash(&dir, &["--check", "test -s {image}"]);
    assert_eq!(output.code, 0, "{output:?}");
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
    write(&["--size=64k", "--offset=64k", "--record", "w.zlog"]);
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
    for (file, why) in [("none.img", "No such file"), ("w.zlog", "image w.zlog")] {
        let other = crash(&dir, &["--materialise", "2", "s.img", "--base", file]);
        assert_eq!(other.code, 2);
        assert!(other.err.contains("--base ") && other.err.contains(why), "{}", other.err);
    }
    // An image of another device.
    dir.zonal(&["create", "other.img", "--profile", create[3]]).expect_ok();
    let other = crash(&dir, &["--materialise", "2", "s.img", "--base", "other.img"]);
    assert_eq!(other.code, 2);
    let says = |text: &str| other.err.contains(text);
    assert!(says("--base other.img: found an image of 4 zones") && says("UUID"), "{}", other.err);
    crash(&dir, &["--materialise", "2", "s.img", "--base", "base.img"]).expect_ok();
    // The list of states does not depend on what the device had before.
    let listed = crash(&dir, &["--list", "--base", "base.img"]);
    assert_eq!(listed.code, 2);
    assert!(listed.err.contains("--materialise"), "{}", listed.err);
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
    let args = ["--check", &torn, "--junit", "r.xml", "--json", "r.json", "--html", "r.html"];
    let failed = crash(&dir, &args);
    assert_eq!(failed.code, 1, "{failed:?}");
    assert!(failed.out.contains("state 1:z0=1: exit code 3\n"), "{}", failed.out);
    assert!(failed.out.contains("The first failure, with the fewest changes:"), "{}", failed.out);
    let xml = dir.read("r.xml");
    let xml = roxmltree::Document::parse(&xml).expect("XML");
    let cases = xml.descendants().filter(|node| node.has_tag_name("testcase")).count();
    assert_eq!(cases, states.len());
    let page = dir.read("r.html");
    let page = page.strip_prefix("<!DOCTYPE html>").expect("HTML");
    let page = roxmltree::Document::parse(page).expect("XML");
    let drawn = |class: &str| {
        let has = |node: &roxmltree::Node<'_, '_>| node.attribute("class") == Some(class);
        page.descendants().filter(|node| has(node) && node.descendants().count() > 1).count()
    };
    // In both timelines: the eight writes, a flush, and the cut that fails.
    assert_eq!((drawn("write"), drawn("flush"), drawn("cut")), (8 + 8, 1 + 1, 1 + 1));
    let text: String = page.descendants().filter_map(|node| node.text()).collect();
    assert!(
        text.contains("--state 1:z0=1") && text.contains("the power fails after event 1"),
        "{text}"
    );
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
fn check_that_hangs_or_leaves_processes_behind_fails_and_ends() {
    let dir = recorded();
    // If anything waited for them, this test would not end.
    for (command, timeout, why) in [
        ("test {image}; sleep infinity", "0.2", "took longer than 0.2 s, and was killed"),
        ("test {image}; sleep infinity & exit 0", "60", "left processes behind, which were killed"),
    ] {
        let args = ["--check", command, "--timeout", timeout, "--cuts", "0-1", "--jobs", "4"];
        let output = crash(&dir, &args);
        assert_eq!(output.code, 1, "{output:?}");
        assert!(output.out.contains(&format!("state 1:z0=1: {why}")), "{}", output.out);
        assert!(output.out.ends_with("3 states checked, 3 failed\n"), "{}", output.out);
    }
}

/// A job on a disk without zones, recorded.
fn recorded_disk() -> TestDir {
    let dir = TestDir::new();
    let disk = "null:zoned=false,memory=true,size=1M";
    let job = ["--name=w", "--rw=randwrite", "--bs=4k", "--size=64k", "--fsync=4", "--verify=md5"];
    let args = ["run", "--clock", "virtual", "--device", disk, "--record", "w.zlog"];
    dir.zonal(&[&args[..], &job, &["--do_verify=0"]].concat()).expect_ok();
    dir
}

#[test]
fn states_of_a_disk_without_zones_are_plain_files() {
    let dir = recorded_disk();
    let summary = crash(&dir, &[]).expect_ok();
    assert!(summary.contains("1MiB without zones, 512B blocks"), "{summary}");
    crash(&dir, &["--materialise", "2", "two.img"]).expect_ok();
    crash(&dir, &["--materialise", "2:w0=first3", "torn.img"]).expect_ok();
    let [two, torn] =
        ["two.img", "torn.img"].map(|name| fs::read(dir.path().join(name)).expect("it"));
    assert_eq!(two.len(), 1 << 20);
    let differ: Vec<usize> = (0..two.len()).filter(|&at| two[at] != torn[at]).collect();
    let (first, last) = (differ[0], differ[differ.len() - 1]);
    assert!(first % 4096 >= 3 * 512 && last / 4096 == first / 4096, "{first} to {last}");
    let diff = crash(&dir, &["--diff", "2", "2:w0=first3"]);
    assert_eq!((diff.code, diff.out.lines().count()), (1, 5), "{}", diff.out);
    let check = "test $(stat -c %s {image}) = 1048576";
    assert!(crash(&dir, &["--check", check]).expect_ok().ends_with(" 0 failed\n"));
    assert!(crash(&dir, &["--oracle", "fio-verify"]).expect_ok().ends_with(" 0 failed\n"));
    fs::write(dir.path().join("short.img"), "x").expect("a file");
    let base = crash(&dir, &["--materialise", "2", "b.img", "--base", "short.img"]);
    assert_eq!(base.code, 2);
    assert!(
        base.err.contains("found a file of 1 bytes, expected a copy of a disk of 1048576 bytes")
    );
    // Over a base.
    fs::write(dir.path().join("ones.img"), vec![1; 1 << 20]).expect("a file");
    crash(&dir, &["--materialise", "2:w0=none", "o.img", "--base", "ones.img"]).expect_ok();
    assert!(fs::read(dir.path().join("o.img")).expect("it").iter().all(|&byte| byte == 1));
}

/// A log of dm-log-writes in sectors of 512 bytes: sector, sectors, flags, and data or the text of a
/// mark.
fn dm_log(entries: &[(u64, u64, u64, &[u8])]) -> Vec<u8> {
    let sector = |words: &[u64], text: &[u8]| {
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend_from_slice(text);
        bytes.resize(512, 0);
        bytes
    };
    let mut log = sector(&[0x6a_7366_7773_6872, 1, entries.len() as u64, 512], b"");
    for &(at, sectors, flags, data) in entries {
        let text = if flags & 8 != 0 { data } else { b"" };
        log.extend(sector(&[at, sectors, flags, text.len() as u64], text));
        log.extend_from_slice(if flags & 8 != 0 { b"" } else { data });
    }
    log
}

#[test]
fn logs_of_dm_log_writes_are_imported() {
    let dir = TestDir::new();
    let [a, b, c] = [1, 2, 3].map(|value| vec![value; 1024]);
    // Two writes, a flush, a mark, a FUA write over the first, a discard of the second.
    let entries: [(u64, u64, u64, &[u8]); 6] = [
        (8, 2, 0, &a),
        (16, 2, 0, &b),
        (0, 0, 1, b""),
        (0, 0, 8, b"mounted"),
        (8, 2, 2, &c),
        (16, 2, 4, b""),
    ];
    let log = dm_log(&entries);
    fs::write(dir.path().join("dm.log"), &log).expect("a log");
    let import = |to: &str, more: &[&str]| {
        dir.zonal(&[&["crash", "dm.log", "--import", to][..], more].concat())
    };
    let out = import("w.zlog", &["--size", "16K"]).expect_ok();
    assert_eq!(out, "w.zlog: 6 entries, 11 events\n");
    let events = crash(&dir, &["--events"]).expect_ok();
    assert!(
        events.contains("7 mark mounted\n8 start 3 Write zone 0 sector 8 1KiB FUA\n"),
        "{events}"
    );
    let found = |state: &str| {
        crash(&dir, &["--materialise", state, "s.img"]).expect_ok();
        let image = fs::read(dir.path().join("s.img")).expect("it");
        fs::remove_file(dir.path().join("s.img")).expect("it is removed");
        assert_eq!(image.len(), 16 << 10);
        [8, 9, 16, 17].map(|sector| image[sector * 512])
    };
    assert_eq!(found("4:w0=none,w1=last1"), [0, 0, 0, 2]);
    assert_eq!(found("6"), [1, 1, 2, 2]);
    assert_eq!(found("9"), [3, 3, 2, 2]);
    assert_eq!(found("11"), [3, 3, 0, 0]);
    assert_eq!(found("11:w4=none"), [3, 3, 2, 2]);
    let lost = crash(&dir, &["--materialise", "9:w0=none", "s.img"]);
    assert!(lost.err.contains("neither unflushed nor in flight"), "flushed: {}", lost.err);
    let again = import("w.zlog", &["--size", "16K"]);
    assert!((again.code, again.err.contains("expected a new one")) == (2, true), "{again:?}");
    let small = import("x.zlog", &["--size", "8K"]);
    assert_eq!(small.code, 2);
    assert!(small.err.contains("entry 2: end: found sector 18, expected a disk"), "{}", small.err);
    assert!(!dir.path().join("x.zlog").exists());
    assert!(import("x.zlog", &[]).err.contains("--size"));
    // A log whose end is missing.
    fs::write(dir.path().join("dm.log"), &log[..log.len() - 600]).expect("a log");
    let cut = import("y.zlog", &["--size", "16K"]);
    assert_eq!((cut.code, cut.out.as_str()), (0, "y.zlog: 4 entries, 7 events\n"));
    assert!(cut.err.contains("found 4 entries, expected 6: the end of the log is missing"));
    fs::write(dir.path().join("dm.log"), "something else").expect("a file");
    assert!(import("z.zlog", &["--size", "16K"]).err.contains("expected a log of dm-log-writes"));
}

#[test]
fn what_cannot_be_recorded_or_checked_is_refused() {
    let dir = recorded();
    let refused = |args: &[&str]| {
        let output = dir.zonal(args);
        assert_eq!(output.code, 2, "{args:?}: {output:?}");
        output.err
    };
    let run = |device| ["run", "--name=w", "--rw=write", "--device", device, "--record", "x"];
    assert!(refused(&run("null:zones=4")).contains("found one that keeps no data"));
    // A log of before stays as it is until the jobs run.
    fs::write(dir.path().join("x"), "a log").expect("a file");
    let refused_job = [&run(DEVICE)[..], &["--offset=1g", "--size=1g"]].concat();
    assert!(refused(&refused_job).contains("job w: offset"), "{}", refused(&refused_job));
    dir.zonal(&[&run(DEVICE)[..], &["--size=4k", "--parse-only"]].concat()).expect_ok();
    assert_eq!(fs::read(dir.path().join("x")).expect("the file"), b"a log");
    let check = |command| refused(&["crash", "w.zlog", "--check", command]);
    assert!(check("true").contains("expected a command with {image}"));
    assert!(check("no-such-program {image}").contains("cannot be run"));
    let report = ["crash", "w.zlog", "--check", "touch checked {image}", "--json", "none/s.json"];
    assert!(refused(&report).contains("--json none/s.json: No such file"));
    assert!(!dir.path().join("checked").exists(), "it was refused before the checks");
    assert!(refused(&["crash", "none.zlog"]).contains("none.zlog: cannot read it"));
    assert!(
        refused(&["crash", "w.zlog", "--cuts", "9-3"]).contains("expected the number of an event")
    );
    assert!(refused(&["crash", "w.zlog", "--atomic", "3K"]).contains("expected a power of two"));
}

/// A job that writes and flushes, as a file, and the same with other blocks and without flushes.
fn jobs_of_verified_writes(dir: TestDir) -> TestDir {
    let job = "rw=write\nbs=8k\nsize=64k\nzonemode=zbd\nverify=crc32c\ndo_verify=0\n";
    dir.with("w.fio", &format!("[w]\n{job}fsync=3\n"))
        .with("other.fio", &format!("[w]\n{job}fsync=3\nrandseed=9\n"))
        .with("unflushed.fio", &format!("[w]\n{job}"))
        .with("clones.fio", &format!("[w]\n{job}numjobs=2\n"))
}

#[test]
fn a_job_judges_what_it_had_flushed() {
    let dir = jobs_of_verified_writes(TestDir::new());
    let record = ["run", "--clock", "virtual", "--device", DEVICE];
    dir.zonal(&[&record[..], &["--record", "w.zlog", "w.fio"]].concat()).expect_ok();
    let judge = ["--oracle", "fio-verify", "--job"];
    let good = crash(&dir, &[&judge[..], &["w.fio"]].concat()).expect_ok();
    assert!(good.ends_with(" states checked, 0 failed\n"), "{good}");
    // Blocks of another seed: the first states that fail are those after the first flush.
    let bad = crash(&dir, &[&judge[..], &["other.fio"]].concat());
    assert_eq!(bad.code, 1, "{bad:?}");
    assert!(
        bad.out.starts_with("state 9:z0=7: job w: verify: bad header rand_seed "),
        "{}",
        bad.out
    );
    dir.zonal(&[&record[..], &["--record", "u.zlog", "unflushed.fio"]].concat()).expect_ok();
    for (log, job, told) in [
        ("u.zlog", "unflushed.fio", "found no state in which a write of job w was flushed"),
        ("w.zlog", "clones.fio", "--job clones.fio: job w: expected one clone that writes with"),
        ("w.zlog", "none.fio", "--job none.fio: "),
    ] {
        let ran = dir.zonal(&[&["crash", log], &judge[..], &[job]].concat());
        assert!(ran.code == 2 && ran.err.contains(told), "{job}: {ran:?}");
    }
    let ran = crash(&dir, &["--oracle", "zonefs", "--job", "w.fio"]);
    assert!(ran.code == 2 && ran.err.contains("expected --oracle fio-verify"), "{ran:?}");
}

#[test]
fn workloads_of_files_are_generated_played_and_judged() {
    let dir = TestDir::new();
    dir.zonal(&["crash", "generate", "workloads", "--seed", "7", "--count", "3"]).expect_ok();
    fs::create_dir(dir.path().join("fs")).expect("space");
    let mark = "echo \"$ZONAL_MARK\" >>marks";
    dir.zonal(&["crash", "play", "workloads", "fs", "--mark", mark]).expect_ok();
    let marks = fs::read_to_string(dir.path().join("marks")).expect("marks");
    assert!(marks.starts_with("w000007 0\nw000007 "), "{marks}");
    let judge = ["crash", "judge", "workloads", "fs", "--marks", "marks"];
    assert_eq!(dir.zonal(&judge).expect_ok(), "");
    fs::write(dir.path().join("fs/w000008/other"), "").expect("space");
    let RunOutput { code, out: found, .. } = dir.zonal(&judge);
    assert!(
        code == 1
            && found.starts_with("w000008, after operation ")
            && found.contains("other: found a file, expected nothing"),
        "{found}"
    );
}

#[test]
fn what_is_wrong_with_workloads_is_named() {
    let dir = TestDir::new();
    for name in ["empty", "full", "broken", "fs"] {
        fs::create_dir(dir.path().join(name)).expect("space");
    }
    fs::write(dir.path().join("full/w"), "create foo\nsync\n").expect("space");
    fs::write(dir.path().join("broken/w"), "create foo\nsunk\n").expect("space");
    fs::write(dir.path().join("marks"), "w 0\nw 3\n").expect("space");
    let play = |workloads| ["crash", "play", workloads, "fs", "--mark", "exit 3"];
    for (args, expected) in [
        (&["crash", "generate", "full"][..], "full: found files in it, expected an empty folder"),
        (&play("empty"), "empty: found no workload, expected one a file"),
        (&play("broken"), "broken: w, line 2: found `sunk`, expected create, mkdir"),
        (&play("full"), "mark `w 0`: --mark: found exit status: 3, expected exit code 0"),
        (
            &["crash", "judge", "full", "fs", "--marks", "marks"],
            "marks, line 2: found `w 3`, expected",
        ),
    ] {
        let RunOutput { code, err, .. } = dir.zonal(args);
        assert!(code == 2 && err.contains(expected), "{args:?}: {code}, {err}");
    }
}
