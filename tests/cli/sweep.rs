//! `zonal sweep`, and errors about what was asked for.
use crate::support::{TestDir, zonal};

const DEVICE: &str = "--device=null:zones=8,zone_size=1M,latency=10us";
const JOB: [&str; 5] = ["--name=a", "--rw=write", "--bs=4k", "--zonemode=zbd", "--size=4z"];

#[test]
fn sweep_prints_a_row_for_each_point_and_is_deterministic() {
    let vary =
        ["sweep", "--vary", "iodepth=1..4", "--vary=zone_write=plug,qd1", "--seeds=2", DEVICE];
    let args = [&vary[..], &JOB].concat();
    let out = zonal(&args).expect_ok();
    let rows: Vec<Vec<&str>> =
        out.lines().skip(2).map(|l| l.split_whitespace().collect()).collect();
    assert_eq!(rows[0][..3], ["iodepth", "zone_write", "MB/s"], "{out}");
    let points: Vec<&[&str]> = rows[1..].iter().map(|row| &row[..2]).collect();
    let expected =
        [["1", "plug"], ["1", "qd1"], ["2", "plug"], ["2", "qd1"], ["4", "plug"], ["4", "qd1"]];
    assert_eq!(points, expected, "{out}");
    assert_eq!(zonal(&args).expect_ok(), out);
}

#[test]
fn sweep_resumes_and_writes_plots() {
    let dir = TestDir::new();
    let first = ["sweep", "--vary=iodepth=1,2", "--resume=done", "--format=csv", DEVICE];
    let before = dir.zonal(&[&first[..], &JOB].concat()).expect_ok();
    let kept = dir.read("done");
    let again = [&first[..], &["--plot=plots"], &JOB].concat();
    assert_eq!(dir.zonal(&again).expect_ok(), before);
    assert_eq!(dir.read("done"), kept, "nothing was measured again");
    assert!(dir.read("plots/sweep-throughput.svg").contains("<svg"));
}

const FILE: &str = "jobs = \"\"\"\n[a]\nrw=write\nzonemode=zbd\nsize=4z\n\"\"\"\n\
                    device = 'null:zones=8,zone_size=1M,latency=10us'\nrepetitions = 2\n\
                    metric = 'bandwidth'\noutput = 'kept'\n[space]\n\
                    bs = { from = '4k', to = '16k', factor = 2 }\nzone_write = ['plug', 'qd1']\n";

#[test]
fn sweep_file_is_the_same_sweep_goes_on_and_says_how_to_repeat_a_point() {
    let dir = TestDir::new().with("sweep.toml", FILE);
    let by_file = dir.zonal(&["sweep", "sweep.toml", "--format=json"]).expect_ok();
    assert_eq!(dir.read("kept.jsonl").lines().count(), 12);
    let document: serde_json::Value = serde_json::from_str(&by_file).unwrap();
    assert_eq!(document["best"], serde_json::json!({ "bs": "16k", "zone_write": "plug" }));
    for point in document["points"].as_array().unwrap() {
        let words = point["repeat"].as_str().unwrap().replace(['\'', '"'], "");
        let words: Vec<&str> = words.split_whitespace().skip(1).collect();
        let again = zonal(&[&words[..], &["--format=json"]].concat()).expect_ok();
        let again: serde_json::Value = serde_json::from_str(&again).unwrap();
        assert_eq!(again["points"][0]["samples"], point["samples"]);
    }
    assert_eq!(dir.zonal(&["sweep", "sweep.toml", "--format=json"]).expect_ok(), by_file);
    assert_eq!(dir.read("kept.jsonl").lines().count(), 12, "nothing was measured again");
}

#[test]
fn sweep_file_with_an_impossible_point_goes_on_and_exits_with_1() {
    let text = FILE.replace("bs = {", "iodepth = [1, 0]\nbs = {");
    let dir = TestDir::new().with("sweep.toml", &text);
    let ran = dir.zonal(&["sweep", "sweep.toml", "--format=csv"]);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    let failed = ran.out.lines().filter(|line| line.contains("expected 1 to 1048576")).count();
    assert_eq!((ran.out.lines().count(), failed), (13, 6), "{}", ran.out);
}

#[test]
fn bad_sweep_files_are_refused() {
    let bayesian = format!("search = 'bayesian'\npoints = 4\n{FILE}");
    for (args, text, message) in [
        (
            &[][..],
            "jobs = 1\n[space]\nbs = [1]",
            "sweep.toml: line 1: `jobs`: found an integer, expected a text",
        ),
        (&[], &FILE.replace("repetitions", "repetition"), "line 8: unknown key `repetition`"),
        (&[], &FILE.replace("repetitions", "repetition"), "did you mean `repetitions`?"),
        (&["--seeds=2"], FILE, "--seeds: found sweep.toml as well"),
        (&["--bs=4k"], FILE, "found `--bs=4k` beside sweep.toml"),
        (&[], &bayesian, "Bayesian search is done by the Python package: python3 -c"),
        (&[], &FILE.replace("rw=write", "rw=wirte"), "<jobs>:2"),
    ] {
        let dir = TestDir::new().with("sweep.toml", text);
        let ran = dir.zonal(&[&["sweep", "sweep.toml"], args].concat());
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{}", ran.err);
        assert!(ran.err.contains(message), "{}\nexpected {message}", ran.err);
    }
    let ran = zonal(&["sweep", "no.toml"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("no.toml: No such file"), "{}", ran.err);
}

#[test]
fn sweep_with_failures_exits_with_1_and_says_which_rule_was_broken() {
    let job = ["--name=a", "--rw=write", "--bs=4k", "--size=64k"];
    let ran = zonal(&[&["sweep", "--vary=offset=0,4k", DEVICE][..], &job].concat());
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    assert!(ran.out.contains("a write must begin at the write pointer"), "{}", ran.out);
}

#[test]
fn bad_axes_are_named_with_the_nearest_right_name() {
    for (vary, message) in [
        ("iodeph=1", "--vary: unknown axis `iodeph`, did you mean `iodepth`?"),
        (
            "zone_write=plgu",
            "--vary: no policy is called `plgu`, expected plug, qd1, lock or off, did you mean `plug`?",
        ),
        ("iodepth=1..100", "expected it to end with 64"),
        ("iodepth=1,0", "iodepth: expected 1 to 1048576, found \"0\""),
    ] {
        let ran = zonal(&[&["sweep", "--vary", vary, DEVICE][..], &JOB].concat());
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{}", ran.err);
        assert!(ran.err.contains(message), "{}", ran.err);
    }
}

#[test]
fn misspelt_names_of_devices_schedulers_and_options_are_recognised() {
    for (args, message) in [
        (&["--device=smr-30", "--name=a"][..], "unknown device `smr-30`, did you mean `smr-30t`?"),
        (
            &[DEVICE, "--name=a", "--scheduler=mq-deadlin"],
            concat!(
                "no scheduler is called `mq-deadlin`, expected ",
                zonal_blk::scheduler_names!(),
                ", did you mean `mq-deadline`?"
            ),
        ),
        (&[DEVICE, "--name=a", "--clokc=real"], "unknown option --clokc, did you mean --clock?"),
        (&[DEVICE, "--name=a", "--zone-write=plgu"], "plug"),
        (
            &["--device=null:latency=10", "--name=a"],
            "option `latency`: found `10`, expected a time such as 500ns, 10us or 8ms",
        ),
    ] {
        let ran = zonal(&[&["run"], args].concat());
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{}", ran.err);
        assert!(ran.err.contains(message), "{}", ran.err);
    }
}

#[test]
fn job_that_did_nothing_is_an_error_that_says_why() {
    let read = ["--name=a", "--rw=read", "--zonemode=zbd", "--bs=4k"];
    for clock in ["--clock=real", "--clock=virtual"] {
        let ran =
            zonal(&[&["run", clock, "--device=null:zones=8,zone_size=1M"][..], &read].concat());
        assert_eq!(ran.code, 1);
        assert!(ran.err.starts_with("zonal: job a: no I/O was done: the zones of"), "{}", ran.err);
        assert!(ran.err.ends_with("with written=100%\n"), "{}", ran.err);
        let full = "--device=null:zones=8,zone_size=1M,written=100%";
        zonal(&[&["run", clock, full][..], &read].concat()).expect_ok();
    }
}

#[test]
fn failed_write_says_where_it_went_and_which_rule_it_broke_in_both_clocks() {
    let device = "--device=null:zones=8,zone_size=1M";
    for clock in ["--clock=real", "--clock=virtual"] {
        let args = ["run", clock, device, "--name=a", "--rw=write", "--bs=4k", "--offset=4k"];
        let ran = zonal(&args);
        assert_eq!(ran.code, 1);
        let told = "first_failure: device=null:zones=8,zone_size=1M, op=Write, sector=8, sectors=8, \
                    status=I/O error, rule=a write must begin at the write pointer, zone=0, \
                    zone_start=0, zone_condition=empty, write_pointer=0";
        assert!(ran.out.contains(told), "{}", ran.out);
        let hint = "zonal: job a: a zone refused a write; zonemode=zbd places writes at the write \
                    pointers of zones\n";
        assert_eq!(ran.err, hint, "{clock}");
    }
}

#[test]
fn faults_of_a_run_are_those_of_a_server() {
    let run = ["run", "--clock=virtual", DEVICE, "--fault=fail=write,status=medium,count=1"];
    let ran = zonal(&[&run[..], &JOB].concat());
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(
        ran.out.contains("status=medium error, rule=the device failed it, zone=0"),
        "{}",
        ran.out
    );
    let plain = ["--name=a", "--rw=write", "--bs=64k", "--io_size=1m"];
    let ran = zonal(&[&run[..], &plain].concat());
    assert_eq!((ran.code, ran.err.as_str()), (1, ""), "no zone refused that write");
    let ran = zonal(&[&["run", DEVICE, "--fault=bang"][..], &JOB].concat());
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("fault `bang`: expected fail=KIND, delay=KIND or tear=write first"),
        "{}",
        ran.err
    );
}

#[test]
fn output_that_cannot_be_written_is_named() {
    let ran = zonal(&[&["run", DEVICE, "--output=/dev/full"][..], &JOB].concat());
    let message = "zonal: --output /dev/full: No space left on device (os error 28)\n";
    assert_eq!((ran.code, ran.err.as_str()), (2, message));
}

#[test]
fn address_without_port_is_refused() {
    let ran = zonal(&["serve", "null", "--metrics=localhost", "--nvme-tcp=localhost:4420"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("expected HOST:PORT such as 127.0.0.1:4420"), "{}", ran.err);
}
