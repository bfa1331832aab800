//! Job options that change what a job does, in both clocks.
use crate::support::zonal;
use serde_json::Value;

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
        // Four standard deviations of the sum of 250 exponential times; a busy machine adds some.
        assert!((187..313).contains(&runtime) || clock == "real" && runtime > 187, "{runtime}");
        assert_ne!(runtime, 249, "evenly spaced I/Os take 249 ms");
        assert_eq!(count(json, 0, "read"), 250, "{clock}");
    });
    let (code, _, err) = run("virtual", &["--name=a", PLAIN, "--rate_process=poisson"]);
    assert_eq!((code, err.as_str()), (2, "zonal: rate_process: needs rate or rate_iops\n"));
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
    for option in ["--write_hint=short", "--fdp=1", "--dataplacement=fdp", "--num_range=4"] {
        let (code, _, err) = run("virtual", &["--name=a", PLAIN, option]);
        let name = option[2..].split_once('=').expect("a value").0;
        let told = format!("{name} is not supported:");
        assert!(code == 2 && err.contains(&told), "{option}: {err}");
    }
}
