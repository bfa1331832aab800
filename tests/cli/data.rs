//! Jobs that verify their data.
use crate::support::{TestDir, example, zonal};
use serde_json::Value;

const DEVICE: &str = "--device=null:zoned=false,size=1M,memory=true";
const CHECK: [&str; 5] = ["--name=a", "--bs=4k", "--verify=crc32c", "--clock", "virtual"];

#[test]
fn example_verifies_and_reports_reads_and_flushes() {
    let out = zonal(&["run", "--clock=virtual", "--output-format=json", &example("verify.fio")]);
    let json: Value = serde_json::from_str(&out.expect_ok()).expect("JSON");
    let job = |index: usize, what: &str| json["jobs"][index][what]["total_ios"].as_u64();
    assert_eq!((job(0, "read"), job(0, "write")), (Some(2048), Some(2048)));
    assert_eq!((job(2, "write"), job(2, "sync")), (Some(1024), Some(31)));
    let flushes = &json["jobs"][2]["sync"]["lat_ns"];
    assert!(flushes["N"] == 31 && flushes["percentile"]["99.000000"].is_u64(), "{flushes}");
}

#[test]
fn flushes_are_reported_as_in_fio() {
    let out =
        zonal(&[&["run", DEVICE, "--rw=write", "--fsync=16"][..], &CHECK].concat()).expect_ok();
    let lines: Vec<&str> = out.lines().collect();
    let at = lines.iter().position(|line| *line == "  fsync/fdatasync/sync_file_range:");
    let at = at.unwrap_or_else(|| panic!("{out}"));
    assert!(lines[at + 1].starts_with("    sync (nsec): min="), "{out}");
    assert!(lines[at + 2].starts_with("    sync percentiles (nsec):"), "{out}");
    assert!(out.contains("issued rwts: total=256,256,0,15 short"), "{out}");
}

#[test]
fn verification_errors_are_reported_as_by_fio_and_dumped() {
    let dir = TestDir::new();
    let read = ["run", DEVICE, "--rw=read", "--verify_dump=1", "--continue_on_error=verify"];
    let ran = dir.zonal(&[&read[..], &CHECK].concat());
    assert_eq!(ran.code, 1, "{}", ran.out);
    let told: Vec<&str> = ran.err.lines().collect();
    let second = "verify: bad magic header 0, wanted acca at file null:zoned=false,size=1M,memory=true \
                  offset 4096, length 4096 (requested block: offset=4096, length=4096)";
    assert_eq!((told.len(), told[1]), (101, second));
    assert_eq!(told[100], "zonal: job a: 156 more such errors");
    assert!(
        ran.out.contains("errors    : total=256, first_error=84/<data mismatch>"),
        "{}",
        ran.out
    );
    assert_eq!(dir.read("a.4096.received"), "\0".repeat(4096));
    assert!(!dir.path().join("a.4096.expected").exists(), "nobody knows what should be there");
}

#[test]
fn writes_have_fua_with_sync_and_with_writefua() {
    for (option, fua) in [("--sync=1", 4), ("--writefua=1", 4), ("--writefua=0", 0)] {
        let dir = TestDir::new();
        let job = ["--name=a", "--rw=write", "--number_ios=4", "--record=log", option];
        dir.zonal(&[&["run", DEVICE][..], &job].concat()).expect_ok();
        let events = dir.zonal(&["crash", "log", "--events"]).expect_ok();
        assert_eq!(events.matches(" FUA\n").count(), fua, "{option}: {events}");
    }
}

#[test]
fn device_without_data_is_rejected_for_verification() {
    let run = |method: &str| {
        zonal(&["run", "--device=null", "--parse-only", "--name=a", "--rw=write", method])
    };
    let ran = run("--verify=md5");
    let message = "zonal: job a: verify=md5: the device null keeps no data, so nothing could be \
                   read back; give it memory=true\n";
    assert_eq!((ran.code, ran.err.as_str()), (2, message));
    run("--verify=null").expect_ok();
}

#[test]
fn job_without_time_to_verify_gets_a_warning_and_runs() {
    let time = ["--rw=write", "--time_based", "--runtime=1ms"];
    let ran = zonal(&[&["run", DEVICE][..], &time, &CHECK].concat());
    let message = "  notices: job a: verification read phase will never start because write phase \
                   uses all of runtime\n";
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(ran.out.contains(message), "{}", ran.out);
}

#[test]
fn a_later_run_verifies_what_an_earlier_one_completed_or_flushed() {
    let dir = TestDir::new();
    let spec = "null:zones=4,zone_size=64K,lba=4K";
    dir.zonal(&["create", "d.img", "--profile", spec]).expect_ok();
    let job = ["run", "--device=d.img", "--name=w", "--rw=write", "--bs=4k", "--zonemode=zbd"];
    let job = [&job[..], &["--verify=crc32c", "--do_verify=0", "--fsync=4"]].concat();
    let first = ["--io_size=40k", "--verify_state_save=1"];
    dir.zonal(&[&job[..], &first].concat()).expect_ok();
    let name = "local-w-0-verify.state";
    let saved = dir.read(name);
    assert_eq!(saved, "zonal verify state 1\nwrites 10\nunfinished\nsynced 8\nunsynced\n");
    let verified = |dir: &TestDir, options: &[&str]| {
        let again = ["--verify_only", "--verify_state_load=1", "--output-format=json"];
        let ran = dir.zonal(&[&job[..], &again, options].concat());
        let json: Value = serde_json::from_str(&ran.out).unwrap_or(Value::Null);
        (ran.code, json["jobs"][0]["read"]["total_ios"].as_u64(), ran.err)
    };
    let fsynced = &["--verify_policy=fsynced"][..];
    assert_eq!(verified(&dir, &[]), (0, Some(10), String::new()));
    assert_eq!(verified(&dir, fsynced), (0, Some(8), String::new()));
    // What the earlier run would have to have written as well is not there.
    let dir = dir.with(name, &saved.replace("writes 10", "writes 12"));
    let (code, _, err) = verified(&dir, &[]);
    assert!(code == 1 && err.contains("verify: bad magic header"), "{code}: {err}");
    let dir = dir.with(name, &saved.replace("unfinished", "unfinished 3 5"));
    assert_eq!(verified(&dir, &[]), (0, Some(8), String::new()));
    let dir = dir.with(name, "something else\n");
    let (code, _, err) = verified(&dir, &[]);
    let told =
        format!("zonal: job w: verify_state_load: {name}: line 1: expected zonal verify state 1\n");
    assert_eq!((code, err), (2, told));
    let (code, _, err) = verified(&dir, &["--name=x", "--verify_state_load=1", "--verify=md5"]);
    assert!(code == 2 && err.contains("verify_state_load: needs verify_only"), "{code}: {err}");
}

#[test]
fn writes_contain_what_the_job_says() {
    for (options, pattern) in
        [("buffer_pattern=0xdeadface", "0xdeadface"), ("zero_buffers", "0x00")]
    {
        let job = format!(
            "[w]\nrw=write\nbs=8k\n{options}\n[r]\nstonewall\nrw=read\nbs=8k\nverify=pattern\n\
             verify_pattern={pattern}\n"
        );
        let dir = TestDir::new().with("a.fio", &job);
        for clock in ["virtual", "real"] {
            dir.zonal(&["run", "--clock", clock, DEVICE, "a.fio"]).expect_ok();
        }
        let other = TestDir::new().with("a.fio", &job.replace(options, "refill_buffers"));
        let ran = other.zonal(&["run", "--clock=virtual", DEVICE, "a.fio"]);
        assert!(ran.code == 1 && ran.err.contains("verify"), "{ran:?}");
    }
}
