//! Traces and patterns: replaying, recording, errors.
use crate::support::{TestDir, repository, zonal};
use serde_json::Value;

const PLAIN: &str = "--device=null:zoned=false,size=1G,latency=100us";
const VIRTUAL: [&str; 2] = ["run", "--clock=virtual"];

fn data(name: &str) -> String {
    let path = repository("crates/fio/tests/data/trace").join(name);
    path.to_str().expect("the repository's path is UTF-8").to_owned()
}

/// Runs jobs in virtual time and returns the report.
fn run(dir: &TestDir, args: &[&str]) -> String {
    dir.zonal(&[&VIRTUAL[..], args].concat()).expect_ok()
}

fn issued(report: &str) -> &str {
    let line = report.lines().find(|line| line.contains("issued rwts")).expect("a line");
    line.split_whitespace().nth(2).expect("counts")
}

#[test]
fn recorded_run_replays_to_the_same_bytes() {
    let zoned = "--device=null:zones=8,zone_size=1M,latency=53us";
    let jitter = "--device=null:zoned=false,size=64M,latency=37us,jitter=50ns";
    for (device, job) in [
        (jitter, &["--rw=randrw", "--size=1m", "--iodepth=8"][..]),
        (jitter, &["--rw=randread", "--bs=512", "--size=256k", "--iodepth=3", "--rate=20m"]),
        (zoned, &["--rw=write", "--bs=64k", "--zonemode=zbd", "--io_size=12m", "--iodepth=4"]),
        (zoned, &["--rw=randwrite", "--zonemode=zbd", "--io_size=9m", "--iodepth=16"]),
    ] {
        for format in ["iolog", "blkparse"] {
            let dir = TestDir::new();
            let format = format!("--write_iolog_format={format}");
            // The cost of an I/O would be added to the recorded times.
            let common = ["--io-cost=0", device, "--name=a", &format];
            run(&dir, &[&common[..], job, &["--write_iolog=first"]].concat());
            let depth = job.iter().find(|option| option.starts_with("--iodepth")).expect("a depth");
            let again = [*depth, "--read_iolog=first", "--write_iolog=second"];
            run(&dir, &[&common[..], &again].concat());
            assert!(dir.read("first").lines().count() > 100);
            assert_eq!(dir.read("first"), dir.read("second"), "{device} {job:?} {format}");
        }
    }
}

#[test]
fn recorded_iolog_is_replayed_on_the_device_that_it_names() {
    let dir = TestDir::new();
    run(&dir, &["--name=a", "--filename=null:zoned=false,size=1M", "--write_iolog=log"]);
    let log = dir.read("log");
    assert!(log.starts_with("fio version 3 iolog\n0 null:zoned=false,size=1M add\n"), "{log}");
    let report = run(&dir, &["--name=b", "--read_iolog=log"]);
    assert_eq!(issued(&report), "total=256,0,0,0");
}

#[test]
fn what_is_skipped_is_not_replayed() {
    let dir = TestDir::new();
    let job = ["--rw=randrw", "--size=1m", "--fsync=32", "--write_iolog=log"];
    let all = run(&dir, &[&["--name=a", PLAIN][..], &job].concat());
    let [reads, writes] = issued(&all)["total=".len()..].split(',').collect::<Vec<_>>()[..2] else {
        panic!("{all}")
    };
    let replay = |skip: &str| {
        let skip = format!("--replay_skip={skip}");
        let report = run(&dir, &["--name=b", PLAIN, "--read_iolog=log", &skip]);
        issued(&report).to_owned()
    };
    assert_eq!(replay("trim"), issued(&run(&dir, &["--name=b", PLAIN, "--read_iolog=log"])));
    assert_eq!(replay("write,sync"), format!("total={reads},0,0,0"));
    assert_eq!(replay("read, sync,trim"), format!("total=0,{writes},0,0"));
}

#[test]
fn rate_limited_io_is_submitted_while_other_io_is_in_flight() {
    let dir = TestDir::new();
    let rate = ["--rate_iops=1000", "--iodepth=16", "--number_ios=5", "--write_iolog=log"];
    let device = "--device=null:zoned=false,size=1M,latency=10ms";
    run(&dir, &[&[device, "--name=a"][..], &rate].concat());
    let log = dir.read("log");
    let times = log.lines().filter(|line| line.contains(" read "));
    let times: Vec<&str> = times.filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(times, ["0", "1000", "2000", "3000", "4000"]);
}

#[test]
fn iologs_of_fio_are_replayed_at_their_times() {
    for (name, whole, half) in [("fio-3.33-v3.iolog", 24, 48), ("fio-v2.iolog", 24, 47)] {
        let file = format!("--read_iolog={}", data(name));
        let msec = |options: &[&str]| {
            let args = [&VIRTUAL[..], &[PLAIN, "--name=a", &file, "--output-format=json"], options];
            let json: Value =
                serde_json::from_str(&zonal(&args.concat()).expect_ok()).expect("JSON");
            let job = &json["jobs"][0];
            assert_eq!(
                (&job["read"]["total_ios"], &job["write"]["total_ios"]),
                (&6.into(), &6.into())
            );
            job["job_runtime"].as_u64().expect("milliseconds")
        };
        assert_eq!(msec(&[]), whole, "{name}");
        assert_eq!(msec(&["--replay_time_scale=50"]), half, "{name}");
        assert_eq!(msec(&["--replay_no_stall=1"]), 2, "{name}");
    }
    let file = format!("--read_iolog={}", data("fio-v2.iolog"));
    let real = zonal(&["run", PLAIN, "--name=a", &file]).expect_ok();
    assert_eq!(issued(&real), "total=6,6,0,0");
}

#[test]
fn devices_of_a_trace_are_replayed_by_a_clone_each() {
    let file = format!("--read_iolog={}", data("blkparse.txt"));
    let devices = "--replay_devices=8,0=null:zoned=false,size=1G 8,16=null:zoned=false,size=2G";
    let dir = TestDir::new();
    let record = ["--write_iolog=log", "--write_iolog_format=blkparse"];
    let report = run(&dir, &[&["--name=a", &file, devices][..], &record].concat());
    let counts: Vec<&str> = report.lines().filter(|line| line.contains("issued rwts")).collect();
    assert_eq!(counts.len(), 2, "{report}");
    assert!(counts[0].contains("total=1,1,0,0") && counts[1].contains("total=0,3,1,0"), "{report}");
    let first = "  8,0  0        1     0.000000575     0  Q   W 223490 + 8 [a]\n";
    assert!(dir.read("log").starts_with(first), "{}", dir.read("log"));
    assert!(dir.read("log.1").contains("FWFS 2048 + 8 [a]\n"), "{}", dir.read("log.1"));
    let one = run(&dir, &["--name=a", &file, "--replay_redirect=null:zoned=false,size=1G"]);
    assert_eq!(issued(&one), "total=1,4,1,0");
}

#[test]
fn pattern_job_issues_the_requests_of_the_pattern_file() {
    let dir = TestDir::new();
    let generate = ["pattern", "generate", "raidtest", "--size=1g", "--output=pat"];
    dir.zonal_dev(&generate).expect_ok();
    let common = [PLAIN, "--name=raid", "--numjobs=32", "--write_iolog=log"];
    let made = run(&dir, &[&common[..], &["--pattern=raidtest", "--group_reporting"]].concat());
    assert_eq!(issued(&made), "total=4991,5009,0,0");
    let tps = made.lines().find(|line| line.starts_with("  tps: ")).expect("a line");
    assert!(tps.starts_with("  tps: job=raid, processes=32, requests=10000, msec=32, "), "{tps}");
    let last = dir.read("log.31");
    assert_eq!(last.lines().count(), 312 + 4, "the share of the last of 32 processes");
    let seed = "--seed=9";
    run(&dir, &[&common[..], &["--pattern_file=pat", seed]].concat());
    assert_eq!(dir.read("log.31"), last, "whatever the seed of the run is");
}

#[test]
fn pattern_files_are_reproducible_and_summarized() {
    let dir = TestDir::new();
    let args = ["pattern", "generate", "raidtest", "--size=1g", "--requests=2"];
    let text = dir.zonal_dev(&args).expect_ok();
    let expected = "zonal pattern 1\n\
        raidtest size=1073741824 requests=2 seed=137 align=512 max_size=131072 writes=0.5\n\
        R 204223488 87040\nR 231605760 109568\nend 2 ";
    assert!(text.starts_with(expected), "{text}");
    let device =
        ["pattern", "generate", "raidtest", "--device=null:zoned=false,size=1G", "--requests=2"];
    assert_eq!(dir.zonal_dev(&device).expect_ok(), text);
    let randomio = ["pattern", "generate", "randomio", "--size=1g", "--requests=400"];
    let mix = ["--writes=0.25", "--fsyncs=0.5", "--io_size=8k", "--output=pat"];
    let mix = mix.map(|option| option.replace('_', "-"));
    let mix: Vec<&str> = mix.iter().map(String::as_str).collect();
    dir.zonal_dev(&[&randomio[..], &mix].concat()).expect_ok();
    let shown = dir.zonal_dev(&["pattern", "show", "pat"]).expect_ok();
    assert!(shown.starts_with("pat: a pattern\n"), "{shown}");
    let count = |what: &str| -> u64 {
        let line = shown.lines().find(|line| line.trim_start().starts_with(what)).expect(what);
        line.split([':', ',']).nth(1).expect("a number").trim().parse().expect("a number")
    };
    assert_eq!(count("reads") + count("writes"), 400);
    assert!(
        (75..125).contains(&count("writes")) && (30..70).contains(&count("flushes")),
        "{shown}"
    );
}

#[test]
fn bad_pattern_arguments_are_named() {
    for (options, message) in [
        (&["raidtest"][..], "required arguments were not provided"),
        (&["raidtest", "--size=1g", "--device=null"], "cannot be used with"),
        (&["raidtest", "--size=1x"], "expected a size such as 4k, found \"1x\""),
        (&["raidtest", "--size=1g", "--writes=2"], "expected a number from 0 to 1"),
        (&["raidtest", "--size=1k"], "size: found 1024, expected at least max_size=131072"),
        (&["randomio", "--size=1k"], "size: found 1024, expected at least io_size=4096"),
        (&["randomio", "--size=1g", "--align=100"], "align: found 100, expected a multiple of 512"),
    ] {
        let ran = TestDir::new().zonal_dev(&[&["pattern", "generate"], options].concat());
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{options:?}");
        assert!(ran.err.contains(message), "{}", ran.err);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn failed_recording_is_reported_after_the_report() {
    let ran = zonal(&["run", PLAIN, "--name=a", "--number_ios=1", "--write_iolog=/dev/full"]);
    let message = "zonal: write_iolog: /dev/full: No space left on device (os error 28)\n";
    assert_eq!((ran.code, ran.err.as_str()), (2, message));
    assert!(ran.out.contains("Run status group 0"), "{}", ran.out);
}

#[test]
fn randomio_writes_and_flushes_its_shares() {
    let job = ["--pattern=randomio", "--pattern_writes=0.25", "--pattern_fsyncs=1", "--bs=8k"];
    let more = ["--numjobs=2", "--number_ios=1000", "--write_iolog=log", "--group_reporting"];
    let dir = TestDir::new();
    let report = run(&dir, &[&[PLAIN, "--name=a"][..], &job, &more].concat());
    let log = dir.read("log") + &dir.read("log.1");
    let count = |word: &str| log.lines().filter(|line| line.contains(word)).count();
    assert_eq!(count(" read ") + count(" write "), 2000);
    assert!((400..600).contains(&count(" write ")), "{report}");
    // A clone stops at its number of I/Os, without the flush after the last one.
    assert!((0..=2).contains(&(count(" write ") - count(" sync "))), "{log}");
    assert!(report.contains("  tps: job=a, processes=2, requests=2000, "), "{report}");
}

#[test]
fn bad_traces_are_rejected_before_anything_runs() {
    let v3 = data("fio-3.33-v3.iolog");
    let small = "--device=null:zoned=false,size=512K";
    let lba = "--device=null:zoned=false,size=1G,lba=4096";
    let dir = TestDir::new()
        .with("cut", "fio version 3 iolog\n0 a add\n0 a open\n0 a read 0 51")
        .with("odd", "fio version 3 iolog\n0 a add\n0 a open\n0 a read 0 512\n")
        .with("none", "fio version 3 iolog\n0 a add\n")
        .with("zone", "8,0 0 1 0.1 1 Q ZR 0 + 8 [a]\n")
        .with("pat", "zonal pattern 1\nby hand\nR 0 512\nend 1 0\n");
    for (device, options, message) in [
        (
            PLAIN,
            &["--read_iolog=cut"][..],
            "read_iolog: cut:4: the file is truncated: the last line has no line break",
        ),
        (PLAIN, &["--read_iolog=gone"], "read_iolog: gone: No such file or directory (os error 2)"),
        (PLAIN, &["--read_iolog=none"], "read_iolog: none: found nothing to replay"),
        (PLAIN, &["--read_iolog=zone"], "zone:1: ZoneReset, but the device has no zones"),
        (
            lba,
            &["--read_iolog=odd"],
            "odd:4: Read of 512 bytes at 0, expected multiples of the device's LBA of 4096",
        ),
        (
            PLAIN,
            &["--pattern_file=odd"],
            "pattern_file: odd: found an iolog of version 3, which is for read_iolog",
        ),
        (
            PLAIN,
            &["--pattern_file=pat"],
            "pattern_file: pat:4: found end \"1 0\", expected \"1 ea29a5b9723e154e\": the file is damaged",
        ),
        (
            small,
            &["--pattern=raidtest", "--pattern_max_size=1m"],
            "pattern=raidtest: size: found 524288, expected at least max_size=1048576",
        ),
    ] {
        let args = [&VIRTUAL[..], &[device, "--name=a", "--write_iolog=out"], options].concat();
        let ran = dir.zonal(&args);
        let expected = format!("zonal: job a: {message}\n");
        assert_eq!((ran.code, ran.err.as_str(), ran.out.as_str()), (2, expected.as_str(), ""));
        assert!(!dir.path().join("out").exists(), "{options:?} left something");
    }
    let ran = dir.zonal(&["run", small, "--name=a", "--read_iolog", &v3]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("v3.iolog:5: Read of 4096 bytes at 774144 ends beyond"),
        "{}",
        ran.err
    );
    let ran = dir.zonal(&["run", "--name=a", "--read_iolog", &v3]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("v3.iolog:2: file f.dat has no device: give one"), "{}", ran.err);
}

#[test]
fn contradictory_options_are_named() {
    for (options, message) in [
        (
            &["--pattern=raidtest", "--read_iolog=x"][..],
            "pattern: cannot be combined with read_iolog",
        ),
        (&["--pattern=raidtest", "--zonemode=zbd"], "zonemode: cannot be combined with pattern"),
        (
            &["--pattern=randomio", "--pattern_requests=5"],
            "pattern_requests: needs pattern=raidtest",
        ),
        (&["--pattern_writes=0.5"], "pattern_writes: needs pattern"),
        (&["--replay_devices=a=null"], "replay_devices: needs read_iolog"),
        (
            &["--read_iolog=x", "--replay_align=1000"],
            "replay_align: expected a power of two, found 1000",
        ),
        (
            &["--pattern=randomio", "--pattern_writes=1.5"],
            "pattern_writes: expected a number from 0 to 1 such as 0.25, found \"1.5\"",
        ),
    ] {
        let ran = zonal(&[&["run", PLAIN, "--name=a"], options].concat());
        assert_eq!((ran.code, ran.err), (2, format!("zonal: command line: {message}\n")));
    }
}

#[test]
fn random_writes_to_sequential_zones_fail_off_the_write_pointer() {
    let job = ["--name=a", "--pattern=raidtest", "--pattern_requests=10", "--pattern_writes=1"];
    let ran = zonal(&[&VIRTUAL[..], &["--device=null:zones=8,zone_size=1M"], &job].concat());
    assert_eq!(ran.code, 1, "{}", ran.out);
    let conventional = "--device=null:zones=8,zone_size=1M,conventional=8";
    let out = zonal(&[&VIRTUAL[..], &[conventional], &job].concat()).expect_ok();
    assert_eq!(issued(&out), "total=0,10,0,0");
}
