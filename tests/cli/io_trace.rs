//! `zonal run --trace` and `--explain`. What blktrace's tools and Perfetto's schema make of the files
//! is tested by tests/traces/run.
use crate::support::TestDir;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;

const DEVICE: &str = "--device=null:zones=8,zone_size=1M,max_open=8,latency=10us,depth=4";

fn run(dir: &TestDir, args: &[&str]) -> String {
    let common = ["run", "--clock=virtual", DEVICE, "--name=a", "--zonemode=zbd", "--bs=4k"];
    let output = dir.zonal(&[&common[..], args].concat());
    assert_eq!(output.code, 0, "{}", output.err);
    output.out
}

/// The slices of a trace for Chrome: name, beginning and length in microseconds, by thread.
fn slices(trace: &str) -> BTreeMap<String, Vec<(String, f64, f64)>> {
    let trace: Value = serde_json::from_str(trace).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("events");
    let mut names = BTreeMap::new();
    let mut slices: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for event in events {
        let thread = event["tid"].as_u64();
        match event["ph"].as_str() {
            Some("M") if event["name"] == "thread_name" => {
                names.insert(thread, event["args"]["name"].as_str().expect("a name").to_owned());
            }
            Some("X") => {
                let micros = |key: &str| event[key].as_f64().expect("a number");
                let name = event["name"].as_str().expect("a name").to_owned();
                let slice = (name, micros("ts"), micros("dur"));
                slices.entry(names[&thread].clone()).or_default().push(slice);
            }
            _ => {}
        }
    }
    slices
}

#[test]
fn trace_agrees_with_the_report() {
    let dir = TestDir::new();
    let job = ["--rw=randwrite", "--iodepth=8", "--number_ios=500", "--nomerges"];
    let files = ["--trace=trace.json", "--output-format=json"];
    let report: Value =
        serde_json::from_str(&run(&dir, &[&job[..], &files].concat())).expect("a report");
    let write = &report["jobs"][0]["write"];
    let slices = slices(&dir.read("trace.json"));
    let named = |track: &str, name: &str| -> Vec<f64> {
        let of_track = slices.iter().filter(|(thread, _)| thread.starts_with(track));
        let all = of_track.flat_map(|(_, slices)| slices);
        all.filter(|(found, ..)| found == name).map(|(.., lasts)| *lasts).collect()
    };
    let ios = named("channel", "write");
    assert_eq!(write["total_ios"], 500);
    assert_eq!(
        (ios.len(), named("hctx", "write").len(), named("zone", "write").len()),
        (500, 500, 500)
    );
    // The device takes 10 us; the rest of an I/O's time it waits in the plug or for a tag.
    let sum = |values: Vec<f64>| values.iter().sum::<f64>();
    let waits = sum(named("channel", "plug")) + sum(named("channel", "tag"));
    let device = sum(named("channel", "device"));
    assert!((sum(ios.clone()) - waits - device).abs() < 0.01, "{waits} {device}");
    // The job takes a completion when it has the time, 1 us of which each I/O costs.
    let mean = write["clat_ns"]["mean"].as_f64().expect("a mean") / 1000.0;
    let traced = sum(ios) / 500.0;
    assert!((mean - traced).abs() < 2.0, "{mean} us reported, {traced} us traced");
    // Writes of a zone do not overlap.
    for (zone, mut writes) in slices.into_iter().filter(|(thread, _)| thread.starts_with("zone")) {
        writes.sort_by(|a, b| a.1.total_cmp(&b.1));
        let overlap = writes.windows(2).any(|pair| pair[0].1 + pair[0].2 > pair[1].1 + 1e-6);
        assert!(!overlap, "{zone}");
    }
}

#[test]
fn traces_of_the_same_seed_are_the_same() {
    for format in ["perfetto", "json", "blktrace"] {
        let dir = TestDir::new();
        let job = ["--rw=randwrite", "--iodepth=4", "--numjobs=3", "--number_ios=50"];
        let trace = |file: &str| {
            let [file, format] = [format!("--trace={file}"), format!("--trace-format={format}")];
            run(&dir, &[&job[..], &[&file, &format]].concat());
        };
        trace("one");
        trace("two");
        let extension = if format == "blktrace" { ".blktrace.2" } else { "" };
        let bytes =
            |name: &str| fs::read(dir.path().join(format!("{name}{extension}"))).expect("a trace");
        let (one, two) = (bytes("one"), bytes("two"));
        assert!(one.len() > 1000 && one == two, "{format}: {} and {} bytes", one.len(), two.len());
    }
}

#[test]
fn sampled_trace_has_some_ios_and_a_full_one_says_so() {
    let dir = TestDir::new();
    let job = ["--rw=write", "--iodepth=4", "--number_ios=1000", "--trace=trace.json"];
    run(&dir, &[&job[..], &["--trace-sample=10"]].concat());
    let channel = |dir: &TestDir| {
        let slices = slices(&dir.read("trace.json"));
        slices["channel 0"].iter().filter(|(name, ..)| name == "write").count()
    };
    assert_eq!(slices(&dir.read("trace.json")).len(), 6, "a channel, a hardware queue, zones");
    assert_eq!(channel(&dir), 100);
    let common = ["run", "--clock=virtual", DEVICE, "--name=a", "--zonemode=zbd", "--bs=4k"];
    let output = dir.zonal(&[&common[..], &job, &["--trace-size=64k"]].concat());
    assert_eq!(output.code, 0);
    assert!(output.err.contains("the trace is not whole"), "{}", output.err);
    let written = channel(&dir);
    assert!((1..1000).contains(&written));
    let lacks = format!("  trace_incomplete: ios={written}, full_at_ns=");
    assert!(output.out.contains(&lacks), "{lacks} in {}", output.out);
    assert_eq!(slices(&dir.read("trace.json"))["not whole"].len(), 1);
    let blktrace = [&job[..3], &["--trace=t.blktrace", "--trace-size=64k"]].concat();
    assert_eq!(dir.zonal(&[&common[..], &blktrace].concat()).code, 0);
    let bytes = fs::read(dir.path().join("t.blktrace.0")).expect("a trace");
    let says = |bytes: &[u8]| bytes == b"what followed is missing";
    assert!(bytes.windows(24).any(says));
}

#[test]
fn what_a_head_does_is_within_the_size_of_the_trace() {
    let dir = TestDir::new();
    let job = ["--device=sata-2009", "--name=a", "--rw=randread", "--number_ios=2000"];
    let trace = ["--trace=trace.json", "--trace-size=128k", "--trace-sample=2000"];
    let output = dir.zonal(&[&["run", "--clock=virtual"][..], &job, &trace].concat());
    assert_eq!(output.code, 0, "{}", output.err);
    // 2000 reads are 6000 activities and more, of 40 bytes each.
    assert!(output.out.contains("trace_incomplete: ios=0, full_at_ns="), "{}", output.out);
    let head = slices(&dir.read("trace.json")).remove("head").unwrap_or_default();
    assert!((1..4000).contains(&head.len()), "{}", head.len());
}

/// A small flash drive with slow dies.
const FLASH: &str =
    "--device=zns-1t:zones=8,zone_size=64M,zone_capacity=64M,max_open=4,max_active=4";

#[test]
fn dies_of_a_flash_drive_have_tracks_and_explain_its_reads() {
    let dir = TestDir::new();
    let common = ["run", "--clock=virtual", FLASH, "--zonemode=zbd", "--trace=trace.json"];
    let write = ["--name=w", "--rw=write", "--bs=256k", "--size=2z", "--iodepth=8"];
    let read = ["--name=r", "--stonewall", "--rw=randread", "--bs=4k", "--size=2z"];
    let more = ["--number_ios=2000", "--iodepth=32", "--explain", "--output-format=json"];
    let output = dir.zonal(&[&common[..], &write, &read, &more].concat());
    assert_eq!(output.code, 0, "{}", output.err);
    let slices = slices(&dir.read("trace.json"));
    let dies: Vec<_> = slices.iter().filter(|(track, _)| track.starts_with("die ")).collect();
    assert!(dies.len() > 1, "{:?}", slices.keys());
    for (die, slices) in &dies {
        let mut last = 0.0;
        for (name, from, lasts) in slices.iter() {
            assert!(*from >= last - 1e-6, "{die} does one thing at a time: {name} at {from}");
            last = from + lasts;
        }
    }
    let named = |name: &str| {
        dies.iter()
            .flat_map(|(_, slices)| slices.iter())
            .filter(|(found, ..)| found == name)
            .count()
    };
    assert!(
        named("program") > 0 && named("sense") > 1000,
        "{} {}",
        named("program"),
        named("sense")
    );
    let report: Value = serde_json::from_str(&output.out).expect("a report");
    let row = report["zonal"]["explain"][0]["read p99"].as_object().expect("reads");
    let nanos = |key: &str| row[key].as_u64().unwrap_or_else(|| panic!("{key} in {row:?}"));
    assert!(nanos("sense_ns") > 0 && nanos("transfer_ns") > 0, "{row:?}");
    let behind = nanos("behind_read_ns") + nanos("behind_program_ns");
    assert!(behind > nanos("sense_ns"), "the slowest wait for their dies: {row:?}");
    let parts = row.iter().filter(|(key, _)| key.ends_with("_ns") && *key != "lat_ns");
    let sum: f64 = parts.map(|(_, value)| value.as_f64().expect("a number")).sum();
    assert!((sum / nanos("lat_ns") as f64 - 1.0).abs() < 0.1, "{row:?}");
}

#[test]
fn explanation_adds_up_to_the_latency() {
    let dir = TestDir::new();
    let job = ["--rw=randread", "--filename=sata-2009", "--bs=4k", "--iodepth=4"];
    let options = ["--number_ios=2000", "--explain", "--output-format=json"];
    let output = dir.zonal(&[&["run", "--clock=virtual", "--name=a"][..], &job, &options].concat());
    assert_eq!(output.code, 0, "{}", output.err);
    let report: Value = serde_json::from_str(&output.out).expect("a report");
    let explained = &report["zonal"]["explain"][0];
    let percentiles = &report["jobs"][0]["read"]["clat_ns"]["percentile"];
    for (name, percentile) in [("read p50", "50.000000"), ("read p99", "99.000000")] {
        let row = explained[name].as_object().unwrap_or_else(|| panic!("{explained}"));
        let latency = row["lat_ns"].as_f64().expect("a number");
        let is_part = |key: &str| key.ends_with("_ns") && key != "lat_ns";
        let parts = row.iter().filter(|(key, _)| is_part(key));
        let sum: f64 = parts.map(|(_, value)| value.as_f64().expect("a number")).sum();
        assert!((sum / latency - 1.0).abs() < 0.05, "{name}: {row:?}");
        let reported = percentiles[percentile].as_f64().expect("a number");
        assert!((reported / latency - 1.0).abs() < 0.05, "{name}: {reported} {latency}");
        assert!(row["seek_ns"].as_u64() > Some(1_000_000), "{name}: {row:?}");
    }
}

#[test]
fn explanation_for_people_is_a_table_with_times_and_shares() {
    let dir = TestDir::new();
    let job = ["--rw=randread", "--filename=sata-2009", "--bs=4k", "--iodepth=4"];
    let options = ["--number_ios=2000", "--explain"];
    let ran = dir.zonal(&[&["run", "--clock=virtual", "--name=a"][..], &job, &options].concat());
    let (report, table) = ran
        .out
        .split_once("\nWhere the time of the I/Os went, sata-2009:\n")
        .unwrap_or_else(|| panic!("{}", ran.out));
    assert!(!report.contains("lat_ns"), "{report}");
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].contains("percentile") && lines[0].contains("seek"), "{table}");
    assert_eq!(lines.len(), 4, "{table}");
    for (line, percentile) in lines[1..].iter().zip(["p50", "p99", "p99.9"]) {
        assert!(line.starts_with(&format!("  read  {percentile}")), "{line}");
        let shares = line.match_indices(" %").map(|(at, _)| {
            let digits = line[..at].rsplit(' ').next().expect("a number");
            digits.parse::<u32>().expect("a percentage")
        });
        let sum: u32 = shares.sum();
        assert!((98..=102).contains(&sum), "{line}");
    }
}

/// The operation and category of each record of a file of version 2.
fn actions(bytes: &[u8]) -> Vec<u64> {
    let field =
        |record: &[u8], at: usize| u64::from_ne_bytes(record[at..at + 8].try_into().unwrap());
    let (mut at, mut actions) = (0, Vec::new());
    while at < bytes.len() {
        assert_eq!(bytes[at..at + 4], 0x6561_7408_u32.to_ne_bytes(), "a record of version 2");
        actions.push(field(&bytes[at..], 32));
        at += 64 + usize::from(u16::from_ne_bytes(bytes[at + 50..at + 52].try_into().unwrap()));
    }
    actions
}

#[test]
fn blktrace_of_version_2_has_zone_operations_and_plugs_and_is_replayed() {
    let dir = TestDir::new();
    let device = "--device=null:zones=8,zone_size=64k,max_open=4,append_max=64k,latency=10us";
    let zonal = |args: &[&str]| {
        let common = ["run", "--clock=virtual", device, "--name=a"];
        let ran = dir.zonal(&[&common[..], args].concat());
        assert_eq!(ran.code, 0, "{}", ran.err);
    };
    let job = ["--rw=write", "--zonemode=zbd", "--bs=4k", "--iodepth=4", "--size=2z", "--loops=2"];
    for (write_mode, category) in [("write", 1 << 17), ("zone_append", 1 << 32)] {
        let mode = format!("--write_mode={write_mode}");
        zonal(&[&job[..], &[&mode, "--trace=t.blktrace2", "--io-cost=0"]].concat());
        let actions = actions(&fs::read(dir.path().join("t.blktrace.0")).expect("a trace"));
        let count = |action: u64, category: u64| {
            // A zone operation is a write, too.
            let of = |a: u64| if a >> 32 == 0 { a } else { a & !(1 << 17) };
            actions.iter().filter(|&&a| a & 0xff == action && of(a) & category != 0).count()
        };
        let [queued, merged, complete, plugged, unplugged] = [1, 2, 8, 18, 19];
        assert_eq!(count(queued, category), 64, "{write_mode}");
        assert_eq!(count(queued, 1 << 33), 2, "{write_mode}: zones are reset in the second loop");
        let waits = if write_mode == "write" { 1 } else { 0 };
        assert_eq!(count(plugged, !0).min(1), waits, "{write_mode}");
        // Writes that waited are merged into another one, or leave on their own.
        let left = count(unplugged, !0) + count(merged, !0);
        assert_eq!(count(plugged, !0), left, "{write_mode}");
        // An append has two records: where it landed, and its completion. Merged writes complete with
        // their request.
        let completed = if waits == 1 { 64 - count(merged, !0) } else { 128 };
        assert_eq!(count(complete, category), completed, "{write_mode}");
        let options = ["--read_iolog=t.blktrace.0", "--iodepth=4", "--io-cost=0"];
        let again = ["--write_iolog=again", "--write_iolog_format=blkparse"];
        zonal(&[&options[..], &again].concat());
        let text = dir.read("again");
        let written = text
            .lines()
            .filter(|line| line.contains(" Q "))
            .map(|line| line.split_ascii_whitespace().nth(6).expect("RWBS").to_owned());
        let written: Vec<String> = written.collect();
        let resets = written.iter().filter(|rwbs| *rwbs == "ZR").count();
        assert_eq!((written.len(), resets), (66, 2), "{write_mode}: {text}");
    }
}
