//! Logs and reports.
use crate::support::{TestDir, zonal};
use serde_json::Value;
use std::time::{SystemTime, UNIX_EPOCH};

const JOB: [&str; 11] = [
    "run",
    "--clock=virtual",
    "--device=null:zoned=false,size=1m,latency=100us",
    "--name=a",
    "--rw=randrw",
    "--bs=4k",
    "--iodepth=2",
    "--numjobs=2",
    "--runtime=2",
    "--time_based",
    "--output=report",
];

fn with<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [&JOB, args].concat()
}

const LOGS: [&str; 5] = [
    "--write_bw_log",
    "--write_iops_log=x",
    "--write_lat_log=x",
    "--write_hist_log=x",
    "--log_hist_msec=500",
];

#[test]
fn each_clone_has_the_files_that_fio_writes() {
    let runs = [(), ()].map(|()| {
        let dir = TestDir::new();
        dir.zonal(&with(&[&LOGS[..], &["--log_avg_msec=500"]].concat())).expect_ok();
        dir
    });
    for (kind, lines) in
        [("x_iops", 4 * 2), ("x_slat", 4 * 2), ("x_lat", 4 * 2), ("x_clat_hist", 3 * 2)]
    {
        for clone in [1, 2] {
            let name = format!("{kind}.{clone}.log");
            let text = runs[0].read(&name);
            let found = text.lines().count();
            assert!((lines..=lines + 2).contains(&found), "{name}: {text}");
            assert_eq!(text, runs[1].read(&name), "virtual time repeats itself");
        }
    }
    let bandwidth = runs[0].read("a_bw.1.log");
    let line = bandwidth.lines().next().expect("a sample");
    let columns: Vec<u64> = line.split(", ").map(|it| it.parse().expect("a number")).collect();
    assert_eq!(([columns[0]], &columns[2..]), ([500], &[0, 0, 0][..]), "{line}");
    // Two I/Os at a time of 100 us and some of the thread, half of them reads.
    assert!((30_000..40_000).contains(&columns[1]), "{line}");
}

#[test]
fn clones_share_a_log_without_per_job_logs() {
    let dir = TestDir::new();
    dir.zonal(&with(&["--write_lat_log=x", "--per_job_logs=0"])).expect_ok();
    let report = dir.read("report");
    let issued: u64 = report
        .lines()
        .filter_map(|line| line.trim().strip_prefix("issued rwts: total="))
        .flat_map(|line| line.split([',', ' ']).take(2))
        .map(|count| count.parse::<u64>().expect("a count"))
        .sum();
    assert_eq!(dir.read("x_clat.log").lines().count() as u64, issued);
}

#[test]
fn logs_change_nothing_in_the_report() {
    let (with_logs, without) = (TestDir::new(), TestDir::new());
    with_logs.zonal(&with(&LOGS)).expect_ok();
    without.zonal(&with(&[])).expect_ok();
    assert_eq!(with_logs.read("report"), without.read("report"));
}

#[test]
fn log_that_cannot_be_created_is_an_error_before_the_run() {
    let dir = TestDir::new();
    let run = dir.zonal(&with(&["--write_lat_log=missing/x"]));
    assert_eq!(run.code, 2);
    let expected = "zonal: job a: write_lat_log: missing/x_slat.1.log: ";
    assert!(run.err.starts_with(expected), "{}", run.err);
    assert_eq!(dir.read("report"), "", "nothing ran");
}

#[test]
fn real_time_says_how_often_a_model_was_late() {
    let args = ["--name=a", "--rw=read", "--number_ios=100", "--output-format=json"];
    for (clock, latency, has) in
        [("real", "1us", true), ("virtual", "1us", false), ("real", "0", false)]
    {
        let device = format!("--device=null:zoned=false,size=1m,latency={latency}");
        let out = zonal(&[&["run", "--clock", clock, &device], &args[..]].concat()).expect_ok();
        let report: serde_json::Value = serde_json::from_str(&out).expect("JSON");
        let lateness = &report["zonal"]["late_completions"][0];
        assert_eq!(lateness["completions"].as_u64(), has.then_some(100), "{clock} {latency}");
    }
}

#[test]
fn minimal_is_the_terse_format() {
    let [minimal, terse] = ["--minimal", "--output-format=terse"].map(|format| {
        let dir = TestDir::new();
        dir.zonal(&with(&[format])).expect_ok();
        dir.read("report")
    });
    assert!(minimal.starts_with("3;zonal-"), "{minimal}");
    assert_eq!(minimal, terse);
}

#[test]
fn shown_command_line_does_what_the_job_file_does() {
    let file = "[global]\nbs=8k\nfilename=null:zoned=false,size=1m\n[one]\nrw=randread\n\
                description=two \"words\"\n[global]\nthread\n[two]\nstonewall\nrw=write\n";
    let dir = TestDir::new().with("jobs.fio", file);
    let shown = dir.zonal(&["run", "jobs.fio", "--showcmd"]).expect_ok();
    let expected = "zonal run --bs=8k --filename=null:zoned=false,size=1m --name=one \
                    --rw=randread --description=\"two \\\"words\\\"\" --name=global --thread \
                    --name=two --stonewall --rw=write\n";
    assert_eq!(shown, expected);
    let report =
        |jobs: &[&str]| dir.zonal(&[&["run", "--clock=virtual"], jobs].concat()).expect_ok();
    let words = expected.trim_end().replace("\"two \\\"words\\\"\"", "two\u{a0}\"words\"");
    let words: Vec<String> =
        words.split(' ').skip(2).map(|word| word.replace('\u{a0}', " ")).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    assert_eq!(report(&words), report(&["jobs.fio"]));
}

#[test]
fn job_options_are_explained_as_in_fio() {
    let out = zonal(&["run", "--cmdhelp=iodepth"]).expect_ok();
    assert!(out.starts_with("             iodepth: I/Os in flight per clone.\n"), "{out}");
    assert!(zonal(&["run", "--cmdhelp"]).expect_ok().contains("\niodepth "));
    let run = zonal(&["run", "--cmdhelp=iodeph"]);
    assert_eq!(run.code, 2);
    let expected = "zonal: --cmdhelp: unknown option \"iodeph\", did you mean iodepth?\n";
    assert_eq!(run.err, expected);
}

#[test]
fn table_of_groups_has_bandwidths_of_devices_that_transfer_only() {
    let groups = [
        "--name=a",
        "--rw=read",
        "--number_ios=9",
        "--name=b",
        "--stonewall",
        "--rw=read",
        "--number_ios=9",
    ];
    for (spec, has) in [("", false), (",latency=1ms", true), (",memory=true", true)] {
        let device = format!("--device=null:zoned=false,size=1m{spec}");
        let out = zonal(&[&["run", "--clock=virtual", &device], &groups[..]].concat()).expect_ok();
        let row = out.lines().find(|line| line.starts_with("  b  ")).expect("a row");
        assert_eq!(row.contains("/s"), has, "{row}");
    }
}

/// As in fio each report is cumulative, and that of the end follows.
#[test]
fn status_is_reported_at_the_end_of_each_interval() {
    let run = |clock: &str, runtime: &str| {
        let dir = TestDir::new();
        let args = ["--status-interval=500ms", "--output-format=json", runtime];
        let args = [&["run", clock], &JOB[2..], &args].concat();
        dir.zonal(&args).expect_ok();
        dir.read("report")
    };
    let text = run("--clock=virtual", "--runtime=2");
    assert_eq!(text, run("--clock=virtual", "--runtime=2"), "virtual time repeats itself");
    for text in [text, run("--clock=real", "--runtime=1")] {
        let reports = serde_json::Deserializer::from_str(&text).into_iter::<serde_json::Value>();
        let reports: Vec<_> = reports.map(|report| report.expect("JSON")).collect();
        let done = |report: &serde_json::Value| {
            let jobs = report["jobs"].as_array().expect("jobs");
            jobs.iter().map(|job| job["read"]["total_ios"].as_u64().expect("a count")).sum::<u64>()
        };
        let done: Vec<u64> = reports.iter().map(done).collect();
        assert!(done.len() >= 2 && done.is_sorted() && done[0] > 0, "{done:?}");
    }
}

#[test]
fn status_interval_is_a_time_above_zero() {
    for value in ["0", "often", "-1"] {
        let run = zonal(&["run", "--name=a", "--size=1m", &format!("--status-interval={value}")]);
        assert_eq!(run.code, 2, "{}", run.err);
        assert!(run.err.contains("--status-interval <TIME>"), "{}", run.err);
    }
}

#[test]
fn head_of_a_disk_is_traced() {
    let dir = TestDir::new();
    let args = ["--rw=randread", "--bs=4k", "--number_ios=5", "--head-trace=head.csv"];
    let run = |device| {
        let args = [&["run", "--clock=virtual", device, "--name=a"], &args[..]].concat();
        dir.zonal(&args)
    };
    run("--device=smr-30t:written=100%").expect_ok();
    let trace = dir.read("head.csv");
    let mut lines = trace.lines();
    assert_eq!(lines.next(), Some("disk,time_ns,activity,byte,radius,buffered_bytes"));
    let activities: Vec<&str> = lines.filter_map(|line| line.split(',').nth(2)).collect();
    let count = |activity| activities.iter().filter(|it| **it == activity).count();
    assert!(count("transfer") >= 5 && count("seek") >= 5, "{trace}");
    let run = run("--device=null");
    assert_eq!(run.code, 2);
    let expected = "zonal: --head-trace: expected a rotating disk such as smr-30t, found null\n";
    assert_eq!(run.err, expected);
}

const QUICK: [&str; 6] = [
    "run",
    "--clock=virtual",
    "--device=null:zoned=false,size=1m,latency=100us",
    "--name=a",
    "--rw=randrw",
    "--output-format=json",
];

fn json(args: &[&str]) -> Value {
    let ran = zonal(&[&QUICK, args].concat());
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{args:?}");
    serde_json::from_str(&ran.out).expect("JSON")
}

/// The names of the fields of an object.
fn names(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

#[test]
fn notices_are_in_the_report_where_standard_error_is_no_terminal() {
    let report = json(&["--mem=malloc", "--ioengine=psync", "--iodepth=8"]);
    let notices = report["zonal"]["notices"].as_array().expect("notices");
    assert_eq!(
        notices,
        &[
            "without effect here: mem (command line)",
            "command line: iodepth: 8 counts as 1: ioengine=psync does one I/O at a time",
        ]
    );
    let fatal = zonal(&[&QUICK[..], &["--mem=malloc", "--warnings-fatal"]].concat());
    assert_eq!(
        (fatal.code, fatal.err.as_str()),
        (2, "zonal: --warnings-fatal: without effect here: mem (command line)\n")
    );
}

#[test]
fn percentiles_are_those_of_the_list_and_of_the_latencies_that_are_wanted() {
    let lists = ["--percentile_list=99.9:50", "--lat_percentiles=1", "--slat_percentiles=1"];
    let read = &json(&lists)["jobs"][0]["read"];
    for latency in ["slat_ns", "clat_ns", "lat_ns"] {
        assert_eq!(names(&read[latency]["percentile"]), ["50.000000", "99.900000"], "{latency}");
    }
    let median = |latency: &str| read[latency]["percentile"]["50.000000"].as_u64().expect("ns");
    assert!(median("lat_ns") >= median("clat_ns") && median("clat_ns") > median("slat_ns"));
    let without = &json(&["--clat_percentiles=0"])["jobs"][0]["read"];
    assert!(
        ["clat_ns", "lat_ns"].map(|it| &without[it]["percentile"]).iter().all(|it| it.is_null())
    );
}

#[test]
fn directions_are_reported_together_if_asked() {
    let (apart, mixed) = (json(&[]), json(&["--unified_rw_reporting=mixed"]));
    let both = json(&["--unified_rw_reporting=both"]);
    let [apart, mixed, both] = [&apart, &mixed, &both].map(|report| &report["jobs"][0]);
    let count = |of: &Value| of["total_ios"].as_u64().expect("a count");
    let total = count(&apart["read"]) + count(&apart["write"]);
    assert_eq!(total, 256);
    assert_eq!(names(mixed)[6..9], ["job options", "mixed", "job_runtime"]);
    assert_eq!(names(both)[7..12], ["read", "write", "trim", "sync", "mixed"]);
    assert_eq!([count(&mixed["mixed"]), count(&both["mixed"])], [total; 2]);
    assert_eq!(both["mixed"]["clat_ns"]["N"], total);
    let text = zonal(&[&QUICK[..5], &["--unified_rw_reporting=both"]].concat()).expect_ok();
    assert!(text.contains("\n  mixed: IOPS=") && text.contains("\n  MIXED: bw="), "{text}");
    let fields = |unified: &str| {
        let args = [&QUICK[..5], &["--minimal", "--disk_util=0", unified]].concat();
        zonal(&args).expect_ok().split(';').count()
    };
    // As fio 3.41 has them.
    let unified = ["none", "mixed", "both"].map(|it| format!("--unified_rw_reporting={it}"));
    assert_eq!(unified.each_ref().map(|it| fields(it)), [121, 80, 162]);
}

#[test]
fn a_job_has_its_start_and_all_its_options_in_json() {
    let late = &json(&["--startdelay=2", "--norandommap", "--mem=malloc"])["jobs"][0];
    assert_eq!(late["job_start"], 2000, "milliseconds of virtual time");
    let options = late["job options"].as_object().expect("options").clone();
    let options: Vec<_> = options.iter().map(|(name, value)| (name.as_str(), value)).collect();
    assert_eq!(
        format!("{options:?}"),
        r#"[("name", String("a")), ("rw", String("randrw")), ("startdelay", String("2")), ("norandommap", String("")), ("mem", String("malloc"))]"#
    );
}

#[test]
fn measurements_that_are_disabled_are_left_out_of_reports_and_logs() {
    // fio 3.41 with the same options: the keys are there, without values.
    for (option, left_out) in [
        ("--disable_slat=1", &["slat"][..]),
        ("--disable_clat=1", &["clat"]),
        ("--disable_lat=1", &["lat"]),
        ("--gtod_reduce=1", &["slat", "clat", "lat"]),
    ] {
        let dir = TestDir::new();
        let args = ["--write_lat_log=l", "--number_ios=50", option];
        let report = dir.zonal(&[&QUICK, &args[..]].concat()).expect_ok();
        let report: Value = serde_json::from_str(&report).expect("JSON");
        let read = &report["jobs"][0]["read"];
        assert!(read["total_ios"].as_u64().is_some_and(|ios| ios > 0), "{option}");
        for kind in ["slat", "clat", "lat"] {
            let latency = &read[format!("{kind}_ns")];
            let is_left_out = left_out.contains(&kind);
            assert_eq!(latency["N"] == 0, is_left_out, "{option}: {kind}");
            assert_eq!(dir.read(&format!("l_{kind}.1.log")).is_empty(), is_left_out, "{option}");
        }
        let text = zonal(&[&QUICK[..5], &[option]].concat()).expect_ok();
        for (kind, line) in
            [("slat", "\n    slat ("), ("clat", "\n    clat ("), ("lat", "\n     lat (")]
        {
            assert_eq!(text.contains(line), !left_out.contains(&kind), "{option}: {text}");
        }
    }
    let samples = |option: &str| {
        let args = ["--time_based", "--runtime=3", option];
        json(&args)["jobs"][0]["read"]["bw_samples"].as_u64().expect("a number")
    };
    assert!(samples("--disable_bw=0") > 1 && samples("--disable_bw=1") == 0);
}

#[test]
fn errors_are_counted_in_json_if_a_job_goes_on_after_them() {
    let job = &json(&["--continue_on_error=all"])["jobs"][0];
    assert_eq!([&job["total_err"], &job["first_error"]], [0, 0]);
    assert!(json(&[])["jobs"][0].get("total_err").is_none());
}

#[test]
fn times_in_logs_are_those_of_a_clock_if_wanted() {
    let first = |clock: &str, option: &str| {
        let dir = TestDir::new();
        let args =
            ["--startdelay=20ms", "--number_ios=3", "--write_lat_log=l", "--size=64k", option];
        dir.zonal(&[&["run", clock], &QUICK[2..5], &args].concat()).expect_ok();
        let log = dir.read("l_clat.1.log");
        log.split(',').next().and_then(|time| time.parse::<u64>().ok()).expect("a time")
    };
    assert_eq!(first("--clock=virtual", "--log_unix_epoch=0"), 0);
    // Virtual time begins with the run.
    assert_eq!(first("--clock=virtual", "--log_unix_epoch=1"), 20);
    let begun = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_millis();
    let logged = first("--clock=real", "--log_alternate_epoch=1");
    assert!(u128::from(logged) >= begun + 20, "{logged}: the time of day");
    let args = ["--log_alternate_epoch=1", "--log_alternate_epoch_clock_id=999", "--write_bw_log"];
    let ran = zonal(&[&["run", "--clock=real"], &QUICK[2..5], &args].concat());
    let told = "zonal: job a: log_alternate_epoch_clock_id: 999: ";
    assert!(ran.code == 2 && ran.err.starts_with(told), "{} {}", ran.code, ran.err);
}

#[test]
fn the_line_before_the_run_has_the_smallest_and_the_largest_block() {
    let sizes = ["--bssplit=4k/50:64k/50,8k/100", "--size=64k"];
    let text = zonal(&[&QUICK[..5], &sizes].concat()).expect_ok();
    let line = "bs=(R) 4096B-64.0KiB, (W) 8192B-8192B, (T) 8192B-8192B, ioengine=";
    assert!(text.contains(line), "{text}");
}

/// Options of the command line of fio that are about its program, with a part of what is said instead.
const OF_FIOS_PROGRAM: [(&str, &str); 19] = [
    ("aux-path", "verify_state_save"),
    ("bandwidth-log", "write_bw_log"),
    ("latency-log", "write_lat_log"),
    ("enghelp", "--cmdhelp=ioengine"),
    ("debug", "--trace"),
    ("inflate-log", "never compressed"),
    ("merge-blktrace-only", "read_iolog"),
    ("server", "zonal serve"),
    ("server-internal", "zonal serve"),
    ("client", "zonal serve"),
    ("remote-config", "zonal serve"),
    ("daemonize", "zonal serve"),
    ("trigger", "zonal crash"),
    ("trigger-file", "zonal crash"),
    ("trigger-timeout", "zonal crash"),
    ("trigger-remote", "zonal crash"),
    ("cpuclock-test", "use fio"),
    ("crctest", "use fio"),
    ("memcpytest", "use fio"),
];

#[test]
fn options_of_fio_that_are_about_its_program_say_what_to_use() {
    for (option, instead) in OF_FIOS_PROGRAM {
        for arg in [format!("--{option}"), format!("--{option}=1")] {
            let ran = zonal(&[&QUICK[..], &[&arg]].concat());
            let told = format!("zonal: command line: --{option} is not supported: ");
            let is_told = ran.err.starts_with(&told) && ran.err.contains(instead);
            assert!(ran.code == 2 && is_told, "{arg}: {} {}", ran.code, ran.err);
        }
    }
    let version = zonal(&["run", "--version"]).expect_ok();
    assert_eq!(version, format!("zonal-{}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn options_of_the_command_line_of_fio_are_understood() {
    json(&["--eta-newline=10", "--eta-interval=1s", "--idle-prof=percpu", "--alloc-size=1024"]);
    json(&["--max-jobs=2", "--numj=2", "--terse-version=3"]);
    let both = zonal(&[&QUICK[..5], &["--append-terse"]].concat()).expect_ok();
    assert!(both.starts_with("a: (g=0)") && both.contains("\n3;zonal-"), "{both}");
    for (arg, told) in [
        ("--readonly", "--readonly: job a writes or trims"),
        ("--max-jobs=0", "--max-jobs: found 1 clones of all jobs, expected at most 0"),
    ] {
        let ran = zonal(&[&QUICK[..], &[arg]].concat());
        assert_eq!((ran.code, ran.err), (2, format!("zonal: {told}\n")));
    }
}
