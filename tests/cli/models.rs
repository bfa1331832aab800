//! `zonal devices`, `zonal fit`, `zonal validate` and `zonal advise`.
use crate::support::{TestDir, zonal};
use serde_json::Value;

#[test]
fn profiles_of_drives_are_sound() {
    // The write buffer of a disk, which fills first, must not count.
    for (device, time, shown) in [
        ("smr-30t:zones=2048", "3", "shingled"),
        ("sata-2009", "3", "rotation"),
        ("zns-1t", "0.3", "32 dies on 8 channels"),
        ("zn540", "0.3", "transfers and programs of a zone's dies"),
    ] {
        let ran = zonal(&["devices", device, "--time", time]);
        assert!(ran.out.contains(shown), "{}{}", ran.out, ran.err);
        assert_eq!(ran.code, 0, "{}", ran.out);
        assert!(ran.out.contains("checks\n  ok "), "{}", ran.out);
        assert!(!ran.out.contains("FAIL"), "{}", ran.out);
    }
}

#[test]
fn page_of_a_device_has_what_the_text_has() {
    let args = ["devices", "zns-1t", "--time", "0.1"];
    let text = zonal(&args).out;
    let page = zonal(&[&args[..], &["--format=html"]].concat()).expect_ok();
    assert!(page.contains("class=\"narrow\"") && page.ends_with("</html>\n"), "{page}");
    assert!(page.contains("<code>zonal devices zns-1t --time 0.1 "), "{page}");
    let (_, checks) = text.split_once("checks\n").expect("checks");
    for check in checks.lines() {
        let (_, what) = check.trim().split_once("  ").expect("ok and what");
        assert!(page.contains(what.trim()), "{what} in {page}");
    }
}

#[test]
fn contradictory_device_parameters_are_rejected() {
    let ran = zonal(&["devices", "smr-30t:seek_full=3ms"]);
    assert_eq!(ran.code, 2, "{}", ran.out);
    assert!(ran.err.starts_with("zonal: device smr-30t:seek_full=3ms: option `"), "{}", ran.err);
}

const MEASURED: &str = "job,value,unit\n\
    rw=write bs=4k iodepth=1 zonemode=zbd,100,KIOPS\n\
    rw=write bs=64k iodepth=1 zonemode=zbd,100,KIOPS\n";

#[test]
fn fit_finds_the_measured_latency() {
    let profile = "device = \"null\"\nlatency = \"20us\" # to be found\n";
    let dir = TestDir::new().with("mine.toml", profile).with("measured.csv", MEASURED);
    let args = ["fit", "mine.toml", "measured.csv", "--free=latency", "--output=fitted.toml"];
    let out = dir.zonal(&[&args[..], &["--time", "0.01", "--io-cost=0"]].concat()).expect_ok();
    assert!(out.contains("predicted  2 cells, median"), "{out}");
    let fitted = dir.read("fitted.toml");
    assert!(fitted.ends_with(" # to be found\n"), "{fitted}");
    let page =
        dir.zonal(&[&args[..], &["--time", "0.01", "--io-cost=0", "--format=html"]].concat());
    let page = page.expect_ok();
    assert!(page.contains("<h2>Options</h2>") && page.contains("<circle"), "{page}");
    assert_eq!(dir.read("fitted.toml"), fitted, "the format is no part of the fit");
    let latency = fitted.split('"').nth(3).and_then(|text| text.strip_suffix("ns"));
    let latency: u64 = latency.and_then(|digits| digits.parse().ok()).expect("nanoseconds");
    assert!((9_900..=10_100).contains(&latency), "{fitted}");
}

#[test]
fn bad_measurements_are_reported_with_file_and_line() {
    let dir = TestDir::new()
        .with("mine.toml", "device = \"null\"\nlatency = \"20us\"\n")
        .with("bad.csv", &MEASURED.replace("100,KIOPS\nrw", "100,KIOPS\n,"))
        .with("unknown.csv", &MEASURED.replace("bs=64k", "bs=64q"));
    let expect_error = |csv: &str| {
        let ran = dir.zonal(&["fit", "mine.toml", csv, "--free=latency"]);
        assert_eq!(ran.code, 2, "{}", ran.out);
        ran.err
    };
    assert!(expect_error("bad.csv").starts_with("zonal: bad.csv: "), "{}", expect_error("bad.csv"));
    assert!(expect_error("unknown.csv").contains("bs"), "{}", expect_error("unknown.csv"));
    assert!(expect_error("none.csv").starts_with("zonal: none.csv: cannot read"));
}

#[test]
fn own_reports_are_measurements_of_the_model_itself() {
    let dir = TestDir::new();
    let job = ["--name=w", "--rw=write", "--zonemode=zbd", "--ioengine=io_uring", "--time_based"];
    let run = |bs: &str, output: &str| {
        let drive = ["run", "--clock=virtual", "--device=zn540", "--io-cost=io_uring", bs];
        let length = ["--ramp_time=300ms", "--runtime=500ms", "--output-format=json", output];
        dir.zonal(&[&drive[..], &length, &job].concat()).expect_ok();
    };
    run("--bs=4k", "--output=small.json");
    run("--bs=64k", "--output=large.json");
    let noisy = format!("note: a line of fio\n{}", dir.read("small.json"));
    let dir = dir.with("small.json", &noisy);
    let args = ["validate", "small.json", "large.json", "--device=zn540", "--runtime=0.5"];
    let json = dir.zonal(&[&args[..], &["--format=json"]].concat()).expect_ok();
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let cells = json["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 10, "rate, mean and three percentiles of each: {json}");
    for cell in cells {
        assert!(cell["error"].as_f64().expect("a number").abs() < 1.0, "{cell}");
    }
    let page = dir.zonal(&[&args[..], &["--format=html"]].concat()).expect_ok();
    assert!(page.contains("<svg") && page.ends_with("</html>\n"), "{page}");
    let text = dir.zonal(&[&args[..], &["--resume=state", "--plot=p"]].concat()).expect_ok();
    let dots = dir.read("p/validate-lat_p99.svg").matches("<circle").count();
    assert_eq!(dots, 2 + 1, "two cells and the legend");
    assert!(text.contains("free parameters of the profile: "), "{text}");
    assert!(text.contains("demerit"), "{text}");
    let resumed = dir.zonal(&[&args[..], &["--resume=state"]].concat()).expect_ok();
    assert!(resumed.contains("resumed: 2 of 2 loads"), "{resumed}");
    let ran = dir.zonal(&[&args[..], &["--resume=state", "--seed=3"]].concat());
    assert_eq!(ran.code, 2, "{}", ran.out);
    assert!(ran.err.contains("--resume state: it was begun with another `seed`"), "{}", ran.err);
}

#[test]
fn reports_that_cannot_be_run_again_are_refused_with_the_job() {
    let report = r#"{ "jobs": [ { "jobname": "w", "groupid": 0, "error": 0,
        "job options": { "rw": "write", "bs": "4k", "ioengine": "libaio", "atomic": "1" },
        "read": { "total_ios": 0 },
        "write": { "total_ios": 9, "iops": 9.0, "lat_ns": { "mean": 4000.0 } } } ] }"#;
    let dir = TestDir::new().with("slow.json", report);
    let refused = |args: &[&str]| {
        let ran = dir.zonal(&[&["validate", "slow.json", "--device=zn540"], args].concat());
        assert_eq!(ran.code, 2, "{}", ran.out);
        ran.err
    };
    let error = refused(&[]);
    assert!(error.starts_with("zonal: slow.json: slow: w: expected only options that"), "{error}");
    assert!(error.contains("atomic"), "{error}");
    assert!(refused(&["--kernel=3.2"]).contains("expected 4.10 or newer"));
    assert!(refused(&["--hold-out=1"]).contains("--hold-out"));
}

const WRITER: [&str; 6] = [
    "--name=a",
    "--rw=randwrite",
    "--bs=1m",
    "--zonemode=zbd",
    "--max_open_zones=16",
    "--numjobs=8",
];

#[test]
fn advice_is_what_is_surely_better_than_today_and_says_why() {
    let disk = "--device=smr-30t:zones=2048";
    let args = [&["advise", disk, "--iodepth=8", "--depths=8", "--time=5"][..], &WRITER].concat();
    let seeds = ["--schedulers=none,mq-deadline", "--seeds=8"];
    let out = zonal(&[&args[..], &seeds].concat()).expect_ok();
    let answer = "Change the order of writes to one write in flight on the whole disk (qd1): ";
    assert!(out.starts_with(answer), "{out}");
    assert!(out.contains("\nToday (Linux 6.12: mq-deadline, plug, depth 8): "), "{out}");
    assert!(out.contains("echo 1 > /sys/block/DISK/queue/zoned_qd1_writes\n"), "{out}");
    assert!(out.contains(" seeds"), "{out}");
    assert!(
        !out.lines()
            .zip(out.lines().skip(1).chain([""]))
            .any(|(line, next)| { line.ends_with(':') && !next.starts_with("  ") }),
        "a heading without reasons: {out}"
    );
    assert!(out.contains("of the drive's time goes to"), "{out}");
    let json = zonal(&[&args[..], &["--schedulers=none", "--format=json"]].concat()).expect_ok();
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let tried = json["tried"].as_array().expect("an array");
    let verdicts: Vec<&str> = tried.iter().filter_map(|it| it["verdict"].as_str()).collect();
    assert_eq!(verdicts[..2], ["advice", "today"], "{json}");
    let rates = [0, 1].map(|at| tried[at]["bytes_per_second"].as_f64().expect("a number"));
    assert!(rates[0] > rates[1], "{json}");
    assert_eq!(tried[0]["jobs"][0]["direction"], "write", "{json}");
    assert_eq!(json["today"], "mq-deadline, plug, depth 8");
    assert!(json["apply"].as_array().is_some_and(|lines| lines.len() >= 3), "{json}");
    assert!(tried[0]["drive_time_percent"]["seeks"].is_number(), "{json}");
}

#[test]
fn advice_worsens_no_job_unless_a_goal_is_given() {
    let jobs =
        ["--name=in", "--zonemode=zbd", "--rw=write", "--bs=1m", "--iodepth=4", "--rate=20m"];
    let readers = ["--name=readers", "--zonemode=zbd", "--rw=randread", "--bs=64k"];
    let readers = [&readers[..], &["--offset=100z", "--size=100z"]].concat();
    let args =
        ["advise", "--device=smr-30t:written=50-2000", "--schedulers=mq-deadline", "--time=4"];
    let args = [&args[..], &["--depths=own,16,readers=8", "--seeds=3", "--format=json"]].concat();
    let run = |goal: &[&str]| -> Value {
        let out = zonal(&[&args[..], goal, &jobs, &readers].concat()).expect_ok();
        serde_json::from_str(&out).expect("JSON")
    };
    let json = run(&[]);
    assert_eq!(json["goals"], serde_json::json!(["rates", "99% latency"]), "{json}");
    let tried = json["tried"].as_array().expect("an array");
    let names = |it: &Value| (it["iodepth"].clone(), it["verdict"].as_str().map(str::to_owned));
    let worse = tried.iter().map(names).find(|(depth, _)| *depth == 16).expect("it was tried");
    assert!(
        worse.1.is_some_and(|verdict| verdict.starts_with("worse than today: readers read")),
        "{json}"
    );
    assert!(tried[0]["iodepth"].is_null(), "{json}");
    let deeper = run(&["--goal=readers:throughput"]);
    assert!(!deeper["tried"][0]["iodepth"].is_null(), "{deeper}");
    let ran = zonal(&[&args[..], &["--goal=reader:p99<50ms"], &jobs, &readers].concat());
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("--goal: no job is called `reader`, did you mean `readers`?"),
        "{}",
        ran.err
    );
}

#[test]
fn advice_at_another_depth_is_what_a_sweep_measures_there() {
    let disk = ["--device=smr-30t:zones=64", "--time=1", "--seeds=1", "--format=json"];
    let json = |command: &[&str]| -> Value {
        let out = zonal(&[command, &disk, &WRITER].concat()).expect_ok();
        serde_json::from_str(&out).expect("JSON")
    };
    let one = ["advise", "--schedulers=none", "--zone-write=qd1", "--depths=8", "--iodepth=2"];
    let advice = json(&one);
    let sweep = json(&["sweep", "--vary=iodepth=8", "--vary=zone_write=qd1"]);
    let tried = advice["tried"].as_array().expect("an array");
    let advice = tried.iter().find(|it| it["iodepth"] == 8).expect("it was tried");
    let sweep = &sweep["points"][0]["figures"];
    assert_eq!(
        (&advice["bytes_per_second"], advice["latency_ns"]["p99"].as_f64()),
        (&sweep["bytes_per_second"]["mean"], sweep["clat_p99_ns"]["mean"].as_f64()),
        "{advice} {sweep}"
    );
}

#[test]
fn the_page_leads_with_the_answer() {
    let args = ["advise", "--device=smr-30t:zones=64", "--depths=4", "--time=1", "--seeds=1"];
    let run = |format: &str| zonal(&[&args[..], &WRITER, &[format]].concat()).expect_ok();
    let json: Value = serde_json::from_str(&run("--format=json")).expect("JSON");
    let answer = json["answer"].as_str().expect("an answer");
    let page = run("--format=html");
    let (_, after_heading) = page.split_once("</h1>\n").expect("a heading");
    assert!(after_heading.starts_with(&format!("<p class=\"answer\">{answer}</p>\n")), "{page}");
    let places =
        ["To apply it", "<figure", "Why", "What was measured", "class=\"command\"", "<footer>"]
            .map(|part| page.find(part).unwrap_or_else(|| panic!("no {part}: {page}")));
    assert!(places.is_sorted(), "{places:?}");
}

#[test]
fn advice_needs_jobs_and_suitable_policies() {
    for (args, message) in [
        (vec!["advise", "--device=null"], "no job"),
        (
            vec!["advise", "--device=null:zoned=false", "--zone-write=plug", "--name=a"],
            "--zone-write: the device has no zones",
        ),
        (
            vec!["advise", "--device=null", "--schedulers=none", "--zone-write=lock", "--name=a"],
            "--zone-write lock needs the scheduler mq-deadline",
        ),
        (vec!["advise", "--device=null", "--schedulers=cfq", "--name=a"], "--schedulers: "),
    ] {
        let ran = zonal(&args);
        assert_eq!(ran.code, 2, "{}", ran.out);
        assert!(ran.err.starts_with(&format!("zonal: {message}")), "{}", ran.err);
    }
}
