//! Common uses of the program.
use crate::support::{TestDir, example, zonal};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

const SMALL: &str = "--device=null:zones=8,zone_size=1M";
const WRITER: [&str; 4] = ["--name=a", "--rw=write", "--zonemode=zbd", "--size=2z"];

#[test]
fn job_of_the_command_line_is_reported_as_by_fio() {
    let out = zonal(&[&["run", SMALL][..], &WRITER].concat()).expect_ok();
    let first = out.lines().next().expect("a first line");
    assert!(first.starts_with("a: (g=0): rw=write, bs=(R) 4096B-4096B"), "{out}");
    for part in ["write: IOPS=", "issued rwts: total=0,512,0,0", "Run status group 0 (all jobs):"] {
        assert!(out.contains(part), "{part}: {out}");
    }
}

#[test]
fn json_has_the_fields_of_fio() {
    let args = [&["run", SMALL, "--output-format=json"][..], &WRITER].concat();
    let json: Value = serde_json::from_str(&zonal(&args).expect_ok()).expect("JSON");
    let job = &json["jobs"][0];
    assert_eq!(job["jobname"], "a");
    assert_eq!(job["write"]["total_ios"], 512);
    assert_eq!(job["write"]["io_bytes"], 2 << 20);
    assert!(job["write"]["clat_ns"]["percentile"]["99.000000"].is_u64());
    assert!(job["write"]["iops"].as_f64().expect("a number") > 0.0);
}

#[test]
fn the_six_workloads_are_reported_as_a_table() {
    let text = std::fs::read_to_string(example("zwp.fio")).expect("the example");
    let short = text.replace("runtime=2\n", "runtime=5ms\n");
    assert_ne!(text, short);
    let dir = TestDir::new().with("zwp.fio", &short);
    let out = dir.zonal(&["run", "--clock=virtual", "zwp.fio"]).expect_ok();
    let table: Vec<&str> = out.lines().skip_while(|line| !line.starts_with("  job ")).collect();
    let end = table.iter().position(|line| line.is_empty()).expect("a blank line after the table");
    let names = table[1..end].iter().map(|line| line.split_whitespace().next());
    let expected =
        ["seqw4K1", "seqw4K16", "seqw1M1", "seqw1M16", "rndw4K16", "rndw128K16"].map(Some);
    assert!(names.eq(expected), "{out}");
    let [seen, outcome, rates, tails, plugs, no_data] = &table[end + 1..] else {
        panic!("five lines at the end: {out}");
    };
    assert_eq!((*seen, *outcome), ("Seen:", "  6 groups of jobs in 1 s, without an error"));
    assert!(rates.starts_with("  most IOPS: ") && rates.contains("; fewest: "), "{out}");
    assert!(tails.starts_with("  99% of I/Os within "), "{out}");
    assert!(plugs.contains(" writes to sequential zones, one at a time in each; "), "{out}");
    assert!(no_data.ends_with("bandwidths mean nothing"), "{out}");
}

#[test]
fn disks_of_this_machine_need_consent_where_jobs_name_them() {
    let job = ["run", "--name=a", "--filename=/dev/no-such-disk", "--rw=write", "--size=1m"];
    let ran = zonal(&job);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (
            2,
            "zonal: job a: filename=/dev/no-such-disk: found a disk of this machine, expected \
             --allow-dev beside it, or --device on the command line: jobs that write overwrite its \
             data\n"
        )
    );
    let ran = zonal(&[&job[..], &["--allow-dev"]].concat());
    assert_eq!(ran.code, 2);
    assert!(ran.err.starts_with("zonal: device /dev/no-such-disk: No such file"), "{}", ran.err);
    let ran = zonal(&[&job[..], &["--allow-dev", "--clock=virtual"]].concat());
    assert!(
        ran.code == 2 && ran.err.starts_with("zonal: --allow-dev: found --clock=virtual"),
        "{}",
        ran.err
    );
}

#[test]
fn nvme_job_runs_unchanged() {
    let nvme = example("nvme-read.fio");
    zonal(&["run", "--device=null:zoned=false", "--parse-only", &nvme]).expect_ok();
    let ran = zonal(&["run", "--parse-only", &nvme]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("filename=/dev/nvme0n1: found a disk of this machine"), "{}", ran.err);
}

#[test]
fn all_examples_parse() {
    for name in ["zwp.fio", "negative-control.fio", "verify.fio"] {
        assert_eq!(zonal(&["run", "--parse-only", &example(name)]).expect_ok(), "");
    }
}

#[test]
fn parse_only_runs_nothing() {
    let dir = TestDir::new();
    let args = [&["run", SMALL, "--parse-only", "--output=report"][..], &WRITER].concat();
    assert_eq!(dir.zonal(&args).expect_ok(), "");
    assert!(!dir.path().join("report").exists());
}

#[test]
fn filename_names_the_device_of_a_job_and_device_overrides_it() {
    let jobs = "\
[global]
size=1m
[a]
filename=null:zones=8,zone_size=1M
[b]
filename=null:zoned=false,size=2M
";
    let dir = TestDir::new().with("two.fio", jobs);
    let out = dir.zonal(&["run", "two.fio"]).expect_ok();
    assert!(out.contains("8 zones of 1MiB"), "{out}");
    assert!(out.contains("2MiB without zones"), "{out}");
    let out = dir.zonal(&["run", "--device=null:zoned=false,size=4M", "two.fio"]).expect_ok();
    assert!(out.contains("4MiB without zones") && !out.contains("zones of"), "{out}");
}

#[test]
fn profile_names_a_device() {
    let dir = TestDir::new().with("small.toml", "device = \"null\"\nzones = 3\nzone_size = \"1M\"");
    let out = dir.zonal(&["run", "--device=small.toml", "--name=a"]).expect_ok();
    assert!(out.contains("null, 3 zones of 1MiB"), "{out}");
}

#[test]
fn job_file_comes_from_standard_input() {
    let out = TestDir::new().zonal_fed(&["run", SMALL, "-"], "[fed]\nsize=64k\n").expect_ok();
    assert!(out.contains("fed: (groupid=0, jobs=1): err= 0"), "{out}");
}

#[test]
fn output_is_written_to_the_file() {
    let dir = TestDir::new();
    let args = [&["run", SMALL, "--clock=virtual"][..], &WRITER].concat();
    let printed = dir.zonal(&args).expect_ok();
    let written = dir.zonal(&[&args[..], &["--output", "report"]].concat()).expect_ok();
    assert_eq!(written, "");
    assert_eq!(dir.read("report"), printed);
}

#[test]
fn options_that_change_the_job_need_to_be_allowed() {
    let jobs = "[a]\nopendir=d\nsize=4k\n[b]\nopendir=e\nsize=4k\n";
    let dir = TestDir::new().with("odd.fio", jobs);
    assert_eq!(dir.zonal(&["run", SMALL, "odd.fio"]).code, 2);
    let ran = dir.zonal(&["run", SMALL, "--allow-unsupported", "odd.fio"]);
    let message = "  notices: odd.fio:2: opendir is not supported, the job runs differently: the job \
                   uses one device, not files\n";
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(ran.out.contains(message), "{}", ran.out);
}

#[test]
fn more_jobs_than_hardware_queues_share_queues() {
    for clock in ["real", "virtual"] {
        let device = "--device=null:zones=8,zone_size=1M,queues=2,depth=4,latency=1us";
        let job = ["--name=a", "--rw=write", "--zonemode=zbd", "--size=1z", "--iodepth=8"];
        let clones = ["--numjobs=5", "--offset_increment=1z", "--group_reporting", "--clock"];
        let out = zonal(&[&["run", device][..], &job, &clones, &[clock]].concat()).expect_ok();
        assert!(out.contains("issued rwts: total=0,1280,0,0"), "{clock}: {out}");
    }
}

#[test]
fn interrupt_stops_the_jobs_and_prints_the_report() {
    let args = ["run", SMALL, "--name=a", "--time_based", "--runtime=600", "--output-format=terse"];
    let args = [&args[..], &["--eta=always"]].concat();
    let dir = TestDir::new();
    let mut command = dir.command(&args);
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let mut progress = BufReader::new(child.stderr.take().expect("standard error is a pipe"));
    let mut line = String::new();
    progress.read_line(&mut line).expect("the program tells how far it is");
    assert!(line.starts_with("Jobs: 1 "), "{line}");
    kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
    let mut out = String::new();
    child.stdout.take().expect("a pipe").read_to_string(&mut out).expect("text");
    assert_eq!(child.wait().expect("the program ends").code(), Some(130));
    assert!(out.starts_with("3;zonal-"), "{out}");
}

#[test]
fn closed_output_ends_the_program_silently() {
    let mut child = TestDir::new()
        .command(&["options"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("the program ends");
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(!err.contains("panicked"), "{err}");
}

#[test]
fn doctor_examines_the_machine_and_fails_for_what_is_needed_and_missing() {
    let all = zonal(&["doctor"]).expect_ok();
    assert!(all.contains("io_uring") && all.contains("zonal serve --ublk"), "{all}");
    let json: Value =
        serde_json::from_str(&zonal(&["doctor", "--json"]).expect_ok()).expect("JSON");
    for check in json.as_array().expect("a list") {
        let (name, usable) = (check["name"].as_str().expect("a name"), check["usable"] == true);
        assert_eq!(zonal(&["doctor", name]).code, i32::from(!usable), "{name}");
    }
    let wrong = zonal(&["doctor", "ublck"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.err.contains("unknown part `ublck`, expected one of ublk"), "{}", wrong.err);
    assert!(wrong.err.contains("did you mean `ublk`"), "{}", wrong.err);
}

#[test]
fn manual_pages_of_all_commands_are_written() {
    let dir = TestDir::new();
    dir.zonal(&["man", "pages"]).expect_ok();
    for (page, part) in
        [("zonal.1", "doctor"), ("zonal-run.1", "zone"), ("zonal-zone-report.1", "")]
    {
        assert!(dir.read(&format!("pages/{page}")).contains(part), "{page}");
    }
    let wrong = dir.zonal(&["man", "/proc/none"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.err.contains("directory /proc/none"), "{}", wrong.err);
}

#[test]
fn help_lists_the_options() {
    for (args, part) in [
        (&["--help"][..], "Run fio jobs through the zoned block layer onto a device"),
        (&["run", "--help"], "--zone-write"),
        (&["devices"], "zone_capacity"),
        (&["options"], "iodepth_batch_complete_max"),
        (&["--version"], concat!("zonal ", env!("CARGO_PKG_VERSION"), " (commit ")),
        (&["completions", "bash"], "complete -F _zonal"),
    ] {
        assert!(zonal(args).expect_ok().contains(part), "{args:?}");
    }
}

#[test]
fn on_a_terminal_one_is_asked_before_a_disk_is_used() {
    let run = "run --name=a --filename=/dev/no-such-disk --rw=write --size=1m";
    for (answer, end) in [("no", "expected --allow-dev beside it"), ("yes", "No such file")] {
        let shell = format!("{} {run}", env!("CARGO_BIN_EXE_zonal"));
        let mut script = Command::new("script");
        script.args(["-qec", &shell, "/dev/null"]).env("ZONAL_CONFIG", "");
        script.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = script.spawn().expect("script of util-linux");
        let mut keys = child.stdin.take().expect("a pipe");
        writeln!(keys, "{answer}").expect("an answer is read");
        let output = child.wait_with_output().expect("it ends");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("the jobs use /dev/no-such-disk of this machine"), "{text}");
        assert!(output.status.code() == Some(2) && text.contains(end), "{answer}: {text}");
    }
}
