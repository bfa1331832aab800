//! Job options that change what a job does, in both clocks.
use crate::signals::wait_until;
use crate::support::{TestDir, zonal};
use serde_json::Value;
use std::process::Stdio;

/// Runs a job and returns its report and what it printed on standard error.
fn run(clock: &str, args: &[&str]) -> (i32, Value, String) {
    let ran = zonal(&[&["run", "--clock", clock, "--output-format=json"][..], args].concat());
    let json = serde_json::from_str(&ran.out).unwrap_or(Value::Null);
    (ran.code, json, ran.err)
}

/// Runs a job that succeeds in both clocks, and shows its report to `check`.
fn in_both_clocks(args: &[&str], check: impl Fn(&str, &Value)) {
    for clock in ["virtual", "real"] {
        let (code, json, err) = run(clock, args);
        assert_eq!((code, err.as_str()), (0, ""), "{clock}: {args:?}");
        check(clock, &json);
    }
}

fn count(json: &Value, job: usize, dir: &str) -> u64 {
    json["jobs"][job][dir]["total_ios"].as_u64().expect("a count")
}

const PLAIN: &str = "--device=null:zoned=false,size=1M,memory=true";
const EMPTY: &str = "--device=null:zones=8,zone_size=1M";

#[test]
fn a_poisson_process_has_the_rate_on_average_and_gaps_of_any_length() {
    let args = ["--name=a", PLAIN, "--rate_iops=1000", "--number_ios=250"];
    let poisson = [&args[..], &["--rate_process=poisson"]].concat();
    in_both_clocks(&poisson, |clock, json| {
        let runtime = json["jobs"][0]["read"]["runtime"].as_u64().expect("milliseconds");
        // Four standard deviations of the sum of 250 exponential times; evenly spaced, they take 249 ms. A
        // busy machine adds some.
        let is_virtual = clock == "virtual";
        assert!((187..313).contains(&runtime) || !is_virtual && runtime > 187, "{runtime}");
        assert!(runtime != 249 || !is_virtual, "evenly spaced I/Os");
        assert_eq!(count(json, 0, "read"), 250, "{clock}");
    });
    let (code, _, err) = run("virtual", &["--name=a", PLAIN, "--rate_process=poisson"]);
    assert_eq!(
        (code, err.as_str()),
        (2, "zonal: command line: rate_process: needs rate or rate_iops\n")
    );
}

#[test]
fn reads_go_beyond_write_pointers_if_asked() {
    let args = ["--name=a", EMPTY, "--zonemode=zbd", "--rw=randread", "--number_ios=100"];
    assert_eq!(run("virtual", &args).0, 1, "there is nothing to read");
    in_both_clocks(&[&args[..], &["--read_beyond_wp=1"]].concat(), |_, json| {
        assert_eq!(count(json, 0, "read"), 100);
    });
}

#[test]
fn zones_are_reset_before_they_are_full_once_enough_is_written() {
    let device = "--device=null:zones=64,zone_size=1M,max_open=0";
    let args = ["--name=a", device, "--zonemode=zbd", "--rw=randwrite", "--bs=64k"];
    // The first 205 of 500 writes fill a fifth of the device.
    let early = ["--number_ios=500", "--zone_reset_threshold=0.2", "--zone_reset_frequency=0.1"];
    in_both_clocks(&[&args[..], &early].concat(), |clock, json| {
        let resets = json["zonal"]["jobs"][0]["zone_resets"].as_u64().expect("a count");
        assert!((4..=29).contains(&resets), "{clock}: {resets}");
    });
    let (_, json, _) = run("virtual", &[&args[..], &["--number_ios=200"], &early[1..]].concat());
    assert_eq!(json["zonal"]["jobs"][0]["zone_resets"], 0, "too little is written");
}

#[test]
fn clones_that_read_and_write_an_empty_zoned_device_all_find_something_to_do() {
    let args = ["--name=a", EMPTY, "--zonemode=zbd", "--rw=randrw", "--number_ios=200"];
    in_both_clocks(&[&args[..], &["--numjobs=4"]].concat(), |clock, json| {
        for clone in 0..4 {
            let [reads, writes] = ["read", "write"].map(|dir| count(json, clone, dir));
            assert_eq!(reads + writes, 200, "{clock}, clone {clone}");
            assert!(reads > 50 && writes > 50, "{clock}, clone {clone}: {reads} {writes}");
        }
    });
}

#[test]
fn options_of_newer_versions_of_fio_are_implemented_or_refused() {
    for option in ["--write_hint=short", "--num_range=4"] {
        let (code, _, err) = run("virtual", &["--name=a", PLAIN, option]);
        let name = option[2..].split_once('=').expect("a value").0;
        let told = format!("{name} is not supported:");
        assert!(code == 2 && err.contains(&told), "{option}: {err}");
    }
}

#[test]
fn data_placement_needs_a_device_that_has_it_and_a_scheme_that_can_be_read() {
    const PLACED: &str =
        "--device=ssd:size=64M,block=96K,dies=4,channels=2,overprovision=50%,fdp_handles=2";
    let scheme = ["--plid_select=scheme", "--dp_scheme=s.txt"];
    let fdp = "--dataplacement=fdp";
    for (device, text, options, expected) in [
        (
            PLAIN,
            "",
            vec!["--fdp=1"],
            "job a: dataplacement: found fdp, expected none: the device has",
        ),
        (PLACED, "", vec![fdp, "--plids=0,2"], "job a: plids: found index 2, expected 0 to 1"),
        (PLACED, "", vec!["--plids=0"], "plids: needs dataplacement=fdp"),
        (PLACED, "", vec![fdp, scheme[0]], "plid_select: needs dp_scheme"),
        (PLACED, "", vec![fdp, scheme[1]], "dp_scheme: needs plid_select=scheme"),
        (
            PLACED,
            "0,4096,0\n4096\n",
            [vec![fdp], scheme.to_vec()].concat(),
            "s.txt:2: found \"4096\"",
        ),
        (PLACED, "0,4096,7\n", [vec![fdp], scheme.to_vec()].concat(), "dp_scheme: found index 7"),
    ] {
        let dir = TestDir::new().with("s.txt", text);
        let ran =
            dir.zonal(&[&["run", "--clock=virtual", "--name=a", device], &options[..]].concat());
        assert!(ran.code == 2 && ran.err.contains(expected), "{options:?}: {}", ran.err);
    }
    let dir = TestDir::new().with("s.txt", "0,1048576,1\n");
    let job = ["--rw=write", "--bs=64k", "--io_size=4m", fdp];
    let run = ["run", "--clock=virtual", "--name=a", PLACED];
    let ran = dir.zonal(&[&run[..], &job, &scheme].concat());
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
}

/// Runs a job file in both clocks, and shows exit code, report and messages to `check`.
fn file_in_both_clocks(device: &str, jobs: &str, check: impl Fn(&str, i32, &Value, &str)) {
    for clock in ["virtual", "real"] {
        let dir = TestDir::new().with("t.fio", jobs);
        let ran = dir.zonal(&["run", "--clock", clock, "--output-format=json", device, "t.fio"]);
        let json = serde_json::from_str(&ran.out).unwrap_or(Value::Null);
        check(clock, ran.code, &json, &ran.err);
    }
}

#[test]
fn a_job_reads_what_the_one_that_it_waits_for_has_written() {
    let jobs = "[global]\nzonemode=zbd\n[w]\nrw=write\nnumjobs=2\noffset_increment=4z\nsize=4z\n\
                [r]\nrw=read\nwait_for=w\n";
    file_in_both_clocks(EMPTY, jobs, |clock, code, json, err| {
        assert_eq!((code, err), (0, ""), "{clock}");
        assert_eq!(count(json, 2, "read"), 8 * 256, "{clock}");
    });
}

#[test]
fn the_first_job_that_ends_ends_the_others_and_with_exit_what_all_the_run() {
    let jobs = "[global]\nexitall\nexit_what=all\n[short]\nnumber_ios=200\nrate_iops=1000\n\
                [long]\ntime_based\nruntime=100\nrate_iops=1000\n\
                [late]\nstartdelay=100\n[later]\nstonewall\n";
    file_in_both_clocks(PLAIN, jobs, |clock, code, json, err| {
        assert_eq!((code, err), (0, ""), "{clock}");
        let ran = json["jobs"].as_array().expect("jobs").len();
        assert_eq!((ran, count(json, 0, "read"), count(json, 2, "read")), (3, 200, 0), "{clock}");
        let long = count(json, 1, "read");
        assert!((1..60_000).contains(&long), "{clock}: {long}");
        assert!(clock == "real" || (195..205).contains(&long), "ended immediately: {long}");
    });
}

#[test]
fn without_the_limits_of_the_device_its_zones_are_used_up() {
    let device = "--device=null:zones=8,zone_size=1M,max_open=2,max_active=2";
    let job =
        ["--name=a", device, "--rw=randwrite", "--bs=64k", "--zonemode=zbd", "--number_ios=64"];
    in_both_clocks(&job, |clock, json| assert_eq!(count(json, 0, "write"), 64, "{clock}"));
    for clock in ["virtual", "real"] {
        let (code, json, err) = run(clock, &[&job[..], &["--ignore_zone_limits=1"]].concat());
        // EOVERFLOW: too many active zones.
        assert_eq!((code, &json["jobs"][0]["error"]), (1, &75.into()), "{clock}: {err}");
    }
}

#[test]
fn a_job_that_fails_ends_the_others_with_exitall_on_error() {
    let jobs = "[bad]\nmax_latency=50\nexitall_on_error\n\
                [good]\ntime_based\nruntime=100\nrate_iops=1000\n";
    let device = "--device=null:zoned=false,size=1M,latency=100us";
    file_in_both_clocks(device, jobs, |clock, code, json, err| {
        let told = "zonal: job bad: latency of ";
        assert!(code == 1 && err.starts_with(told), "{clock}: {code} {err}");
        assert!(err.ends_with(" nsec exceeds specified max (50000 nsec)\n"), "{clock}: {err}");
        assert_eq!(
            (&json["jobs"][0]["error"], &json["jobs"][1]["error"]),
            (&110.into(), &0.into())
        );
        assert!(count(json, 1, "read") < 60_000, "{clock}");
    });
}

#[test]
fn a_job_that_is_too_slow_fails() {
    let slow = ["--name=a", PLAIN, "--rate_iops=100", "--time_based", "--runtime=100"];
    for clock in ["virtual", "real"] {
        let min = ["--rate_iops_min=500", "--rate_cycle=200"];
        let (code, json, err) = run(clock, &[&slow[..], &min].concat());
        let told = "zonal: job a: rate_iops_min=500 not met, got ";
        assert!(code == 1 && err.starts_with(told), "{clock}: {code} {err}");
        assert_eq!(json["jobs"][0]["error"], 5, "{clock}");
    }
    let (code, json, err) =
        run("virtual", &[&slow[..4], &["--runtime=5", "--rate_min=400k"]].concat());
    assert_eq!((code, err.as_str()), (0, ""), "100 times 4 KiB: {json}");
}

#[test]
fn the_depth_that_keeps_a_target_latency_is_found_and_reported() {
    let disk = ["--name=a", "--device=smr-30t", "--rw=randread", "--bs=4k", "--iodepth=64"];
    let target = ["--latency_target=50ms", "--latency_window=5s", "--latency_percentile=90"];
    let (code, json, err) = run("virtual", &[&disk[..], &target].concat());
    assert_eq!((code, err.as_str()), (0, ""));
    let job = &json["jobs"][0];
    let depth = job["latency_depth"].as_u64().expect("a depth");
    assert!((2..32).contains(&depth), "{depth}");
    assert_eq!(job["latency_target"], 50_000_000);
    assert_eq!(
        (&job["latency_window"], &job["latency_percentile"]),
        (&5_000_000.into(), &90.0.into())
    );
    let runtime = job["read"]["runtime"].as_u64().expect("milliseconds");
    assert!((5000..5500).contains(&runtime), "the report covers one window: {runtime}");
    let slowest = job["read"]["clat_ns"]["percentile"]["90.000000"].as_u64().expect("a latency");
    assert!(slowest <= 52_000_000, "{slowest}");

    let null = ["--name=a", "--device=null:zoned=false,size=64M,latency=1ms", "--iodepth=4"];
    let args = [&null[..], &["--latency_target=10s", "--latency_window=20ms"]].concat();
    in_both_clocks(&args, |clock, json| assert_eq!(json["jobs"][0]["latency_depth"], 4, "{clock}"));
    let (code, json, err) = run("real", &[&null[..], &["--latency_target=100us"]].concat());
    assert!(code == 1 && err.contains("exceeds the target of 100000 nsec"), "{code} {err}");
    assert_eq!(json["jobs"][0]["error"], 110);
}

#[test]
fn a_steady_state_ends_the_job_and_is_reported_as_by_fio() {
    let steady = ["--name=a", PLAIN, "--rate_iops=1000", "--time_based", "--runtime=100"];
    let args = ["--ss=iops:5%", "--ss_dur=3", "--ss_ramp=1"];
    let (code, json, err) = run("virtual", &[&steady[..], &args].concat());
    assert_eq!((code, err.as_str()), (0, ""));
    let found = &json["jobs"][0]["steadystate"];
    assert_eq!((&found["ss"], &found["duration"]), (&"iops:5.000000%".into(), &3.into()));
    assert_eq!((&found["attained"], &found["data"]["iops_mean"]), (&1.into(), &1000.into()));
    assert_eq!(found["data"]["bw"], serde_json::json!([4_096_000, 4_096_000, 4_096_000]));
    let runtime = json["jobs"][0]["read"]["runtime"].as_u64().expect("milliseconds");
    assert!((4000..4600).contains(&runtime), "{runtime}");

    let quick = ["--ss=iops:60%", "--ss_dur=1s", "--ss_interval=200ms", "--numjobs=2"];
    let group = [&steady[..], &quick, &["--group_reporting"]].concat();
    in_both_clocks(&group, |clock, json| {
        let found = &json["jobs"][0]["steadystate"];
        assert_eq!((&found["attained"], &found["duration"]), (&1.into(), &5.into()), "{clock}");
        let mean = found["data"]["iops_mean"].as_u64().expect("a mean");
        assert!((1000..3000).contains(&mean), "{clock}: both clones together: {mean}");
    });
    let out = zonal(&[&["run", "--clock", "virtual"][..], &steady, &args].concat()).expect_ok();
    let line =
        "  steadystate  : attained=yes, bw=4000KiB/s (4096kB/s), iops=1000, iops mean dev=0.000%\n";
    assert!(out.contains(line), "{out}");
    let (code, _, err) = run("virtual", &[&steady[..], &["--ss=iops:5%"]].concat());
    assert!(code == 2 && err.contains("steadystate: needs a steadystate_duration"), "{err}");
}

#[test]
fn part_of_the_ios_have_a_priority_of_their_own() {
    let args = ["--name=a", PLAIN, "--rw=randread", "--bs=4k", "--write_lat_log=l", "--log_prio=1"];
    let prio = ["--cmdprio_percentage=30", "--cmdprio_class=1", "--cmdprio=2"];
    for clock in ["virtual", "real"] {
        let dir = TestDir::new();
        dir.zonal(&[&["run", "--clock", clock][..], &args, &prio].concat()).expect_ok();
        let log = dir.read("l_clat.1.log");
        let with = |text: &str| log.lines().filter(|line| line.ends_with(text)).count();
        let (own, others) = (with(", 0x2002"), with(", 0x0000"));
        assert!(own + others == 256 && (45..110).contains(&own), "{clock}: {own} and {others}");
    }
    let both = ["--cmdprio_percentage=30", "--cmdprio_bssplit=4k/10"];
    let (code, _, err) = run("virtual", &[&args[..4], &both].concat());
    let told = "cmdprio_percentage: cannot be combined with cmdprio_bssplit";
    assert!(code == 2 && err.contains(told), "{err}");
}

#[test]
fn written_blocks_are_trimmed_and_verified_to_be_zero() {
    let args = ["--name=a", PLAIN, "--rw=randwrite", "--bs=4k", "--verify=crc32c", "--iodepth=4"];
    let trims = ["--trim_percentage=50", "--trim_backlog=32", "--trim_backlog_batch=16"];
    let zero = |on: bool| format!("--trim_verify_zero={}", u8::from(on));
    for verified in [true, false] {
        in_both_clocks(&[&args[..], &trims, &[&zero(verified)]].concat(), |clock, json| {
            let [reads, writes, trims] = ["read", "write", "trim"].map(|dir| count(json, 0, dir));
            assert!(writes == 256 && (70..130).contains(&trims), "{clock}: {trims}");
            assert_eq!(reads, if verified { 256 } else { 256 - trims }, "{clock}");
        });
    }
}

#[test]
fn trims_that_cannot_be_verified_are_refused_with_the_option_that_is_the_reason() {
    let args = ["--name=a", PLAIN, "--rw=randwrite", "--trim_percentage=50"];
    let (verify, backlog) = ("--verify=crc32c", "--trim_backlog=32");
    for (others, told) in [
        (&[backlog][..], "needs verify\n"),
        (&[verify], "needs trim_backlog\n"),
        (
            &[verify, backlog, "--do_verify=0"],
            "cannot be combined with do_verify=0: trimmed is what",
        ),
    ] {
        let (code, _, err) = run("virtual", &[&args[..], others].concat());
        assert!(code == 2 && err.contains(told), "{err}");
    }
}

#[test]
fn latencies_are_reported_by_priority() {
    let job = ["--name=a", PLAIN, "--rw=randrw", "--bs=4k", "--iodepth=4"];
    in_both_clocks(&[&job[..], &["--cmdprio_percentage=30,0"]].concat(), |clock, json| {
        let read = &json["jobs"][0]["read"];
        let prios = read["prios"].as_array().expect("two priorities");
        let count = |at: usize| prios[at]["clat_ns"]["N"].as_u64().expect("a count");
        assert_eq!((prios.len(), &prios[0]["prioclass"]), (2, &Value::from(0)), "{clock}");
        assert_eq!((&prios[1]["prioclass"], &prios[1]["prio"]), (&Value::from(1), &Value::from(0)));
        assert_eq!(count(0) + count(1), read["total_ios"].as_u64().expect("a count"));
        assert!(prios[1]["clat_ns"]["percentile"]["99.000000"].is_u64(), "{clock}");
        assert!(json["jobs"][0]["write"]["prios"].is_null(), "{clock}: all writes have the same");
    });
    in_both_clocks(&job, |_, json| assert!(json["jobs"][0]["read"]["prios"].is_null()));
}

#[test]
fn the_json_says_what_the_device_did() {
    let device = "--device=null:zones=8,zone_size=1M,latency=1ms";
    let job = ["--name=a", device, "--rw=write", "--zonemode=zbd", "--bs=4k", "--iodepth=8"];
    in_both_clocks(&[&job[..], &["--number_ios=64"]].concat(), |clock, json| {
        let disk = &json["disk_util"][0];
        let number = |name: &str| disk[name].as_u64().expect(name);
        assert_eq!(disk["name"], "null:zones=8,zone_size=1M,latency=1ms");
        assert_eq!(number("write_sectors"), 64 * 8, "{clock}");
        // What waits for its zone is merged.
        assert_eq!(number("write_ios") + number("write_merges"), 64, "{clock}");
        assert!(number("write_merges") > 0 && number("read_ios") == 0, "{clock}");
        let ticks = number("write_ticks");
        assert!(ticks >= number("write_ios") && ticks == number("in_queue"), "{clock}: {disk}");
        let util = disk["util"].as_f64().expect("a percentage");
        assert!(util > 0.0 && util <= 100.0, "{clock}: {util}");
        assert!(clock == "real" || util > 99.0, "one write is always in flight: {util}");
    });
    in_both_clocks(&[&job[..], &["--number_ios=1", "--disk_util=0"]].concat(), |_, json| {
        assert_eq!(json["disk_util"], Value::Array(Vec::new()));
    });
}

/// The runtime of a job in virtual time in milliseconds.
fn runtime(args: &[&str]) -> u64 {
    let (code, json, err) = run("virtual", args);
    assert_eq!((code, err.as_str()), (0, ""), "{args:?}");
    json["jobs"][0]["job_runtime"].as_u64().expect("milliseconds")
}

#[test]
fn pauses_follow_ios_or_their_time_and_rates_may_leave_them_out() {
    let slow = "--device=null:zoned=false,size=1M,latency=1ms,depth=64";
    // Each I/O costs its thread a microsecond.
    let about = |expected: u64, more: &[&str]| {
        let found = runtime(&[&["--name=a", "--number_ios=40"], more].concat());
        assert!((expected..=expected + 3).contains(&found), "{more:?}: {found}");
    };
    let (four, pause) = ("--iodepth=4", "--thinktime=100ms");
    // Four in a millisecond.
    about(10, &[slow, four]);
    // Ten I/Os in three milliseconds, 4, 4 and 2, before each pause, the last of which ends the job.
    let ten = "--thinktime_blocks=10";
    about(412, &[slow, four, pause, ten, "--thinktime_blocks_type=issue"]);
    about(311, &[slow, four, pause, ten]);
    // Sixteen in four milliseconds.
    about(210, &[slow, four, pause, "--thinktime_iotime=4ms"]);
    // An I/O and a millisecond after it.
    about(80, &[slow, "--thinkcycles=3000000", "--cycles_per_usec=3000"]);
    // At 1000 a second the first twenty take 19 ms. Then the rate has ten more to do immediately, or has not. The job
    // ends with a pause.
    let rate = [PLAIN, "--rate_iops=1000", "--thinktime=10ms", "--thinktime_blocks=20"];
    about(49, &rate);
    about(58, &[&rate[..], &["--rate_ignore_thinktime=1"]].concat());
}

#[test]
fn what_a_ramp_reads_is_not_measured() {
    let ramp = ["--name=a", PLAIN, "--ramp_size=256k"];
    in_both_clocks(&ramp, |_, json| assert_eq!(count(json, 0, "read"), 192));
    // Clones that are reported together do it together.
    let clones = [&ramp[..], &["--numjobs=4", "--group_reporting"]].concat();
    in_both_clocks(&clones, |clock, json| {
        let ios = count(json, 0, "read");
        assert!((944..=960).contains(&ios), "{clock}: {ios} of 1024");
    });
}

#[test]
fn ios_that_overlap_follow_one_another_if_asked() {
    let device = "--device=null:zoned=false,size=1M,latency=1ms,depth=64";
    let same = ["--name=a", device, "--rw=randwrite:4", "--rw_sequencer=identical", "--iodepth=4"];
    let job = [&same[..], &["--number_ios=16"]].concat();
    let serialized = "--serialize_overlap=1";
    assert!(runtime(&job) < 6, "four at a time");
    assert!(runtime(&[&job[..], &[serialized]].concat()) >= 12, "one at a time in a block");
    let apart = ["--name=a", device, "--rw=randwrite", "--iodepth=4", "--number_ios=16"];
    assert!(runtime(&[&apart[..], &[serialized]].concat()) < 6, "none overlap");
}

#[test]
fn every_checksum_verifies_what_was_written() {
    let sums = "crc64 crc32 crc32c crc32c-intel crc16 crc7 md5 sha1 sha256 sha512 sha3-224 sha3-256 \
                sha3-384 sha3-512 xxhash";
    for sum in sums.split_whitespace() {
        let verify = format!("--verify={sum}");
        let args = ["--name=a", PLAIN, "--rw=randwrite", "--size=64k", "--bs=4k", &verify];
        let (code, json, err) = run("virtual", &args);
        assert_eq!((code, err.as_str()), (0, ""), "{sum}");
        assert_eq!(count(&json, 0, "read"), 16, "{sum}");
    }
}

#[test]
fn sizes_of_a_range_need_not_be_multiples_of_the_smallest() {
    let args = ["--name=a", PLAIN, "--bsrange=2k-4k", "--number_ios=200", "--write_iolog=t"];
    let lengths = |more: &[&str]| {
        let dir = TestDir::new();
        dir.zonal(&[&["run", "--clock=virtual"][..], &args, more].concat()).expect_ok();
        let log = dir.read("t");
        let length = |line: &str| line.split(' ').nth(4).and_then(|len| len.parse::<u64>().ok());
        log.lines().filter_map(length).collect::<std::collections::BTreeSet<_>>()
    };
    assert!(lengths(&[]).into_iter().eq([2048, 4096]));
    assert!(lengths(&["--bs_unaligned"]).into_iter().eq((2048..=4096).step_by(512)));
}

#[test]
fn jobs_on_a_file_system_write_logs() {
    let args = [
        "--device=null:zones=64,zone_size=16M,max_open=0",
        "--name=a",
        "--filesystem=xfs",
        "--rw=write",
        "--filesize=4m",
        "--bs=64k",
        "--numjobs=2",
        "--write_lat_log=l",
        "--write_iops_log=i",
        "--log_offset=1",
    ];
    for clock in ["virtual", "real"] {
        let dir = TestDir::new();
        dir.zonal(&[&["run", "--clock", clock][..], &args].concat()).expect_ok();
        for clone in [1, 2] {
            let log = dir.read(&format!("l_clat.{clone}.log"));
            let fields: Vec<Vec<u64>> = log
                .lines()
                .map(|line| line.split(", ").map(|field| field.parse().expect(line)).collect())
                .collect();
            assert_eq!(fields.len(), 64, "{clock}");
            assert!(fields.iter().all(|line| line[2] == 1 && line[3] == 65536), "{clock}");
            assert_eq!(fields.iter().map(|line| line[4]).max(), Some(63 * 65536), "{clock}");
            assert_eq!(dir.read(&format!("i_iops.{clone}.log")).lines().count(), 64, "{clock}");
        }
    }
}

#[test]
fn start_delays_are_drawn_from_a_range_for_each_clone() {
    let args = ["--name=a", PLAIN, "--startdelay=1-9", "--numjobs=8", "--number_ios=1"];
    let (code, json, err) = run("virtual", &args);
    assert_eq!((code, err.as_str()), (0, ""));
    let start = |job: &Value| job["job_start"].as_u64().expect("milliseconds");
    let starts: Vec<u64> = json["jobs"].as_array().expect("clones").iter().map(start).collect();
    assert!(starts.iter().all(|start| (1000..=9000).contains(start)), "{starts:?}");
    assert!(starts.iter().any(|start| *start != starts[0]), "{starts:?}");
}

#[test]
fn offsets_and_sizes_in_percent_that_meet_the_end_of_the_device_run() {
    for (offset, size, blocks) in [("80%", "20%", 51), ("53%", "60%", 120), ("50%", "50%", 128)] {
        let (offset, size) = (format!("--offset={offset}"), format!("--size={size}"));
        let (code, json, err) = run("virtual", &["--name=a", PLAIN, &offset, &size]);
        assert_eq!((code, err.as_str()), (0, ""), "{offset} {size}");
        assert_eq!(count(&json, 0, "read"), blocks, "{offset} {size}");
    }
}

const SHARED: &str = "jobs and clones share one region of null:zoned=false,size=1M,memory=true";

#[test]
fn clones_without_a_file_share_the_device_and_say_so_unless_they_have_files() {
    let args = ["--name=a", PLAIN, "--rw=randwrite", "--verify=crc32c", "--size=256k"];
    let clones = [&args[..], &["--numjobs=4"]].concat();
    let (_, json, _) = run("virtual", &[&clones[..], &["--do_verify=0"]].concat());
    assert!(json["zonal"]["notices"].to_string().contains(SHARED), "{json}");
    in_both_clocks(&[&clones[..], &["--files"]].concat(), |clock, json| {
        assert!(json["zonal"].get("notices").is_none(), "{clock}: {json}");
        assert_eq!(count(json, 3, "read"), 64, "{clock}: each verifies its own file");
    });
    let (code, _, err) = run("virtual", &[&clones[..], &["--files", "--numjobs=5"]].concat());
    let told = "job a: size: clone 4 has no room for its file: it begins at 1048576";
    assert!(code == 2 && err.contains(told), "{err}");
    let (code, _, err) = run("virtual", &["--name=a", PLAIN, "--files"]);
    assert!(code == 2 && err.contains("files need a size in bytes or zones, or filesize"), "{err}");
}

#[test]
fn files_of_jobs_without_a_device_are_on_one_of_their_own() {
    let args = ["--name=a", "--rw=write", "--size=1500k", "--numjobs=2", "--verify=md5"];
    in_both_clocks(&args, |clock, json| {
        let told = "no device is named: the files of the jobs are on \
                    null:zoned=false,size=3M,memory=true";
        assert_eq!(json["zonal"]["notices"][0], told, "{clock}");
        assert_eq!(count(json, 1, "read"), 375, "{clock}");
    });
}

/// The offsets of the writes of a job, in blocks.
fn written(job: &str, args: &[&str]) -> Vec<u64> {
    let dir = TestDir::new().with("a.fio", job);
    let args = [&["run", "--clock=virtual", PLAIN, "a.fio"], args].concat();
    dir.zonal(&args).expect_ok();
    let log = dir.read("log");
    let writes = log.lines().filter(|line| line.contains(" write "));
    let offset = |line: &str| line.split(' ').nth(3).and_then(|it| it.parse::<u64>().ok());
    writes.map(|line| offset(line).expect("an offset") / 4096).collect()
}

#[test]
fn files_of_the_global_section_and_of_a_job_add_up_as_in_fio() {
    let job = "[global]\nfilename=g1\nsize=64k\n[a]\nrw=write\nfilename=g2\nwrite_iolog=log\n";
    let turns: Vec<u64> = (0..8).flat_map(|block| [block, 8 + block]).collect();
    assert_eq!(written(job, &["--files"]), turns);
    let list = "[a]\nrw=write\nfilename=g1:g2\nsize=64k\nwrite_iolog=log\n";
    assert_eq!(written(list, &["--files"]), turns);
    assert_eq!(written(list, &[]), (0..16).collect::<Vec<_>>(), "the device is the file");
}

#[test]
fn jobs_that_name_different_files_say_that_they_share_the_device() {
    let args = ["--name=a", PLAIN, "--size=64k", "--filename=x", "--name=b", "--filename=y"];
    let notices = |args: &[&str]| run("virtual", args).1["zonal"]["notices"].to_string();
    assert!(notices(&args).contains(SHARED));
    assert_eq!(notices(&[&args[..5], &["--filename=x"]].concat()), "null");
    assert_eq!(notices(&[&args[..], &["--size=64k", "--files"]].concat()), "null");
    let several = ["--name=a", PLAIN, "--size=64k", "--filename=x:y"];
    let told = "job a: the 2 files of filename are one region of null:zoned=false,size=1M,memory=true; \
                --files gives each file a region of its own";
    assert!(notices(&several).contains(told), "{}", notices(&several));
    assert_eq!(notices(&[&several[..], &["--files"]].concat()), "null");
}

#[test]
fn zone_appends_may_be_asked_for_as_in_newer_fio() {
    let args = ["--name=a", EMPTY, "--zonemode=zbd", "--rw=write", "--bs=64k", "--size=1z"];
    in_both_clocks(&[&args[..], &["--write_mode=zone_append"]].concat(), |clock, json| {
        assert_eq!(json["zonal"]["zone_write_plugs"][0]["appends"], 16, "{clock}");
        assert_eq!(json["jobs"][0]["zone_resets"], 0, "{clock}");
    });
    let (code, _, err) = run("virtual", &["--name=a", PLAIN, "--write_mode=zone_append"]);
    assert!(code == 2 && err.contains("write_mode: needs zonemode=zbd"), "{err}");
    let (code, _, err) = run("virtual", &["--name=a", PLAIN, "--write_mode=uncor"]);
    assert!(code == 2 && err.contains("jobs read, write and discard"), "{err}");
}

#[test]
fn jobs_without_stats_run_and_are_not_reported() {
    let args = ["--name=a", PLAIN, "--stats=0", "--name=b", "--end_syncfs=1", "--comm=worker"];
    in_both_clocks(&args, |clock, json| {
        let names: Vec<_> =
            json["jobs"].as_array().expect("jobs").iter().map(|job| &job["jobname"]).collect();
        assert_eq!(names, ["b"], "{clock}");
    });
}

#[test]
fn the_file_system_of_a_writer_is_synced_once_at_the_end() {
    let syncs = |options: &str| {
        let job = format!("[a]\nrw=write\nsize=64k\nwrite_iolog=log\n{options}\n");
        let dir = TestDir::new().with("a.fio", &job);
        dir.zonal(&["run", "--clock=virtual", PLAIN, "a.fio"]).expect_ok();
        let log = dir.read("log");
        let syncs: Vec<_> = log.lines().map(|line| line.contains(" sync ")).collect();
        let last_io = syncs.len() - 2;
        (syncs.iter().filter(|is_sync| **is_sync).count(), syncs[last_io])
    };
    assert_eq!(syncs("end_syncfs=1"), (1, true));
    assert_eq!(syncs("end_syncfs=0"), (0, false));
}

#[test]
fn comm_is_the_name_of_the_thread_of_a_job() {
    let endless = ["--time_based", "--runtime=1000", "--comm=fio-worker"];
    let args = [&["run", "--clock=real", "--name=a", PLAIN][..], &endless].concat();
    let dir = TestDir::new();
    let mut child = dir.command(&args).stdout(Stdio::null()).spawn().expect("it starts");
    let tasks = format!("/proc/{}/task", child.id());
    let named = || {
        let tasks = std::fs::read_dir(&tasks).expect("the threads").flatten();
        let names = tasks.map(|task| std::fs::read_to_string(task.path().join("comm")));
        names.flatten().any(|name| name == "fio-worker\n")
    };
    wait_until("a thread of this name", named);
    child.kill().expect("it is ended");
    child.wait().expect("it ends");
}

#[test]
fn a_trim_of_less_than_a_zone_is_refused_with_zones() {
    let (code, _, err) =
        run("virtual", &["--name=a", EMPTY, "--zonemode=zbd", "--rw=randtrim", "--bs=64k"]);
    let told = "with zonemode=zbd a trim resets a zone: expected the zone size 1048576";
    assert!(code == 2 && err.contains(told), "{code}: {err}");
}

#[test]
fn a_job_that_can_make_no_progress_says_what_it_waits_for_in_both_clocks() {
    let device = "--device=null:zones=8,zone_size=1M,max_open=2,max_active=2";
    let jobs = "[global]\nzonemode=zbd\nrw=write\n[a]\nsize=1z\nio_size=4k\nnumjobs=2\n\
                offset_increment=1z\n[b]\nstonewall\noffset=4z\n";
    file_in_both_clocks(device, jobs, |clock, code, json, err| {
        assert!(code == 1 && err.contains("job b: waits to open a zone: "), "{clock}: {err}");
        assert_eq!(count(json, 2, "write"), 0, "{clock}");
    });
}

#[test]
fn a_job_with_create_only_does_no_io_and_succeeds() {
    let jobs = "[global]\nrw=randrw\nverify=md5\ntime_based\nruntime=9\n[a]\ncreate_only=1\n\
                [b]\nstonewall\nrw=read\nruntime=0\nverify=0\n";
    file_in_both_clocks(PLAIN, jobs, |clock, code, json, err| {
        assert_eq!((code, err), (0, ""), "{clock}");
        let counts = ["read", "write"].map(|dir| count(json, 0, dir));
        assert_eq!((counts, count(json, 1, "read")), ([0, 0], 256), "{clock}");
    });
}

#[test]
fn the_blocks_of_a_sequence_are_read_in_its_order() {
    let order = |options: &str| {
        let log = "rw=randread\nnumber_ios=6\nwrite_iolog=log\nrandom_distribution=sequence:2,0,1";
        let dir = TestDir::new().with("a.fio", &format!("[a]\n{log}\n{options}\n"));
        dir.zonal(&["run", "--clock=virtual", PLAIN, "a.fio"]).expect_ok();
        let offset = |line: &str| line.split(' ').nth(3)?.parse::<u64>().ok();
        dir.read("log").lines().filter_map(offset).map(|at| at / 4096).collect::<Vec<_>>()
    };
    assert_eq!(order(""), [2, 0, 1, 2, 0, 1]);
    assert_eq!(order("random_sequence_stride=1"), [2, 0, 1, 5, 3, 4]);
    let (code, _, err) =
        run("virtual", &["--name=a", PLAIN, "--rw=randread", "--random_sequence_stride=1"]);
    let told = "random_sequence_stride: needs random_distribution=sequence";
    assert!(code == 2 && err.contains(told), "{err}");
}

#[test]
fn a_block_that_no_zone_holds_is_the_reason_why_nothing_was_done() {
    let device = "--device=null:zones=8,zone_size=1M,zone_capacity=512k";
    let args = ["--name=a", device, "--zonemode=zbd", "--rw=write", "--bs=768k"];
    let (code, _, err) = run("virtual", &args);
    let told = "bs: a block of 786432 bytes is longer than zone 0, whose capacity is 524288 bytes";
    assert!(code != 0 && err.contains(told), "{code}: {err}");
}

#[test]
fn jobs_run_on_the_processors_of_a_node_or_on_all_if_there_is_none() {
    let args = ["--name=a", PLAIN, "--numa_mem_policy=local"];
    for nodes in ["0", "0,7-9", "99", "all"] {
        in_both_clocks(&[&args[..], &["--numa_cpu_nodes", nodes]].concat(), |_, json| {
            assert_eq!(count(json, 0, "read"), 256);
        });
    }
    let (code, _, err) = run("virtual", &[&args[..], &["--numa_cpu_nodes=x"]].concat());
    assert!(code == 2 && err.contains("numa_cpu_nodes: expected"), "{err}");
}
