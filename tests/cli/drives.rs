//! `zonal advise --drives`.
use crate::support::zonal;
use serde_json::Value;

/// A small drive, which is soon in its steady state.
const FLASH: &str =
    "--device=ssd:size=64M,overprovision=28%,dies=4,channels=2,block=96K,buffer=16M";

fn compare(args: &[&str]) -> String {
    let own = ["advise", "--drives=zns,ssd", FLASH, "--seeds=2", "--warm-up=1", "--name=a"];
    zonal(&[&own, args].concat()).expect_ok()
}

#[test]
fn drives_of_the_same_flash_write_as_much_to_it() {
    let run = |job: &[&str]| {
        let out = compare(&[&["--format=json", "--iodepth=8"], job].concat());
        let json: Value = serde_json::from_str(&out).expect("JSON");
        let drives = json["drives"].as_array().expect("drives").clone();
        assert_eq!(drives.iter().map(|drive| &drive["drive"]).collect::<Vec<_>>(), ["zns", "ssd"]);
        drives
    };
    let sequential = run(&["--rw=write", "--bs=128k"]);
    let rate = |drive: &Value| drive["bytes_per_second"]["mean"].as_f64().expect("a number");
    let (zns, ssd) = (rate(&sequential[0]), rate(&sequential[1]));
    // The media rate: each die programs two units of 96 KiB, each in 1.2 ms after a transfer of 78 us, and
    // erases their block in 3.5 ms.
    let media = 4.0 * 2.0 * 98_304.0 / (2.0 * 1.278e-3 + 3.5e-3);
    for (drive, rate) in [("zns", zns), ("ssd", ssd)] {
        assert!((rate / media - 1.0).abs() < 0.01, "{drive}: {rate} of {media}");
    }
    for drive in sequential {
        assert_eq!(drive["write_amplification"]["mean"], 1.0, "{drive}");
        // 3000 erasures of the flash, which is 28 % larger than the drive, and of what rounding adds.
        let writes = drive["drive_writes"]["mean"].as_f64().expect("a number");
        assert!((3840.0..4000.0).contains(&writes), "{drive}");
    }
    let random = run(&["--rw=randwrite", "--norandommap", "--bs=4k"]);
    let figure = |drive: usize, name: &str| random[drive][name]["mean"].as_f64().expect("a number");
    let (zns, ssd) = (figure(0, "write_amplification"), figure(1, "write_amplification"));
    assert!(zns > 1.3 && (zns / ssd - 1.0).abs() < 0.1, "{zns} and {ssd}");
    assert!(figure(1, "erases_per_drive_write") > 1.0 && figure(1, "bytes_per_second") > 1e6);
}

#[test]
fn drive_with_data_placement_does_not_copy_data_that_die_together() {
    let jobs = ["--rw=randwrite", "--norandommap", "--bs=16k", "--iodepth=16", "--size=10%"];
    let large = ["--name=b", "--rw=write", "--bs=64k", "--offset=10%", "--size=90%"];
    let options =
        ["advise", "--drives=ssd,fdp", FLASH, "--seeds=1", "--warm-up=2", "--format=json"];
    let out = zonal(&[&options[..], &["--name=a"], &jobs, &large].concat());
    let json: Value = serde_json::from_str(&out.expect_ok()).expect("JSON");
    let waf = |drive: usize| {
        json["drives"][drive]["write_amplification"]["mean"].as_f64().expect("a number")
    };
    assert!(waf(0) > 1.5 && waf(1) < 1.1, "{} and {}", waf(0), waf(1));
    let description = json["drives"][1]["description"].as_str().expect("text");
    assert!(description.contains("8 reclaim unit handles"), "{description}");
}

#[test]
fn comparison_of_drives_says_which_is_better_and_how_it_was_measured() {
    let job = ["--rw=randwrite", "--norandommap", "--bs=16k"];
    let text = compare(&job);
    let settings =
        "2 seeds, ± 95% confidence interval of the mean; after a fill and 1 drive writes";
    assert!(text.contains(settings), "{text}");
    for column in ["WAF", "99.9% ms", "erases", "drive writes"] {
        assert!(text.contains(column), "{column}: {text}");
    }
    assert_eq!(text.matches(" 99.9th percentile: ").count(), 1, "{text}");
    assert_eq!(text, compare(&job), "the same options give the same figures");
}

#[test]
fn read_only_jobs_are_compared_by_their_reads() {
    let out = compare(&["--format=json", "--rw=randread", "--bs=4k", "--time=0.1"]);
    let json: Value = serde_json::from_str(&out).expect("JSON");
    assert!(json["drives"][1]["iops"]["mean"].as_f64().expect("a number") > 1000.0, "{json}");
    assert_eq!(json["drives"][1]["erases_per_drive_write"]["mean"], 0.0, "{json}");
}

#[test]
fn drives_that_cannot_be_compared_are_refused() {
    for (args, expected) in [
        (vec!["--drives=fpd"], "invalid value 'fpd' for '--drives"),
        (
            vec!["--drives=fdp", "--dataplacement=fdp", "--plids=8"],
            "plids: found index 8, expected 0 to 7",
        ),
        (vec!["--drives=zns", "--device=zns"], "device zns: found a device of kind zns"),
        (vec!["--drives=zns", "--schedulers=none"], "cannot be used with"),
        (vec!["--device=null", "--cycles=5"], "--drives"),
        (vec![], "--device"),
        (vec!["--drives=ssd", "--warm-up=0"], "expected a number from 0.01 to 1000"),
    ] {
        let ran = zonal(&[&["advise", "--name=a", "--rw=randwrite"], &args[..]].concat());
        assert_eq!(ran.code, 2, "{args:?}: {}", ran.out);
        assert!(ran.err.contains(expected), "{args:?}: {}", ran.err);
    }
}
