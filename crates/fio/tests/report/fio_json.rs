//! The JSON formats: every field of fio, with its type.
use crate::support::{FIO_JSON, NEWER_FIO_JSON, clone_of, fio_run, job, report};
use serde_json::{Value, json};
use zonal_blk::{Nanos, Status};
use zonal_fio::job::DataDir;
use zonal_fio::report::{Format, render};
use zonal_fio::stats::IoStats;

fn fio() -> Value {
    serde_json::from_str(FIO_JSON).expect("fio writes JSON")
}

fn newer_fio() -> Value {
    serde_json::from_str(NEWER_FIO_JSON).expect("fio writes JSON")
}

fn ours(format: Format) -> Value {
    let job = job("mixed");
    let jobs = fio_run().map(|stats| clone_of(&job, stats));
    serde_json::from_str(&render(&report(jobs.into()), &[format])).expect("we write JSON")
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "fraction",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// A field that fio 3.33 does not have.
const SINCE_3_36: &str = "job_start";

/// Objects whose keys are data.
fn has_free_keys(path: &str) -> bool {
    ["bins", "job options", "global options"].iter().any(|name| path.ends_with(name))
}

/// Adds to `wrong` the fields at `path` and below that are missing in `ours` or have another type.
fn compare(path: &str, fio: &Value, ours: Option<&Value>, wrong: &mut Vec<String>) {
    let Some(ours) = ours else {
        return wrong.push(format!("{path}: missing"));
    };
    if kind(fio) != kind(ours) {
        return wrong.push(format!("{path}: {} instead of {}", kind(ours), kind(fio)));
    }
    match fio {
        Value::Object(fields) if !has_free_keys(path) => {
            for (key, value) in fields {
                compare(&format!("{path}.{key}"), value, ours.get(key), wrong);
            }
        }
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                compare(&format!("{path}[{i}]"), item, ours.get(i), wrong);
            }
        }
        _ => {}
    }
}

/// Removes the bins, which only `json+` has.
fn without_bins(mut fio: Value) -> Value {
    for dir in ["read", "write"] {
        let clat = fio["jobs"][0][dir]["clat_ns"].as_object_mut().expect("an object");
        assert!(clat.remove("bins").is_some());
    }
    fio
}

#[test]
fn json_plus_has_every_field_of_fio_with_its_type() {
    for fio in [fio(), newer_fio()] {
        let mut wrong = Vec::new();
        compare("", &fio, Some(&ours(Format::JsonPlus)), &mut wrong);
        assert!(wrong.is_empty(), "{}: {wrong:#?}", fio["fio version"]);
    }
}

#[test]
fn json_has_every_field_of_fio_with_its_type_and_no_bins() {
    let (fio, ours) = (without_bins(fio()), ours(Format::Json));
    let mut wrong = Vec::new();
    compare("", &fio, Some(&ours), &mut wrong);
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(ours["jobs"][0]["read"]["clat_ns"].get("bins"), None);
}

#[test]
fn a_job_has_the_fields_of_fio_in_the_same_order() {
    let ours = ours(Format::JsonPlus);
    for (fio, lacks) in [(fio(), SINCE_3_36), (newer_fio(), "")] {
        for part in ["", "/read", "/read/clat_ns", "/write/bw_min", "/trim", "/sync/lat_ns"] {
            let keys = |root: &Value| {
                let part = root.pointer(&format!("/jobs/0{part}")).expect("this part exists");
                let names = part.as_object().into_iter().flat_map(|fields| fields.keys());
                names.filter(|name| *name != lacks).cloned().collect::<Vec<_>>()
            };
            assert_eq!(keys(&ours), keys(&fio), "{part}");
        }
    }
}

#[test]
fn the_same_latencies_give_the_percentiles_and_bins_of_fio() {
    let (fio, ours) = (fio(), ours(Format::JsonPlus));
    for dir in ["read", "write"] {
        for part in ["percentile", "bins"] {
            let of = |root: &Value| root["jobs"][0][dir]["clat_ns"][part].clone();
            assert_eq!(of(&ours), of(&fio), "{dir} {part}");
        }
    }
}

#[test]
fn the_same_counts_give_the_rates_and_shares_of_fio() {
    let (fio, ours) = (fio(), ours(Format::Json));
    for dir in ["read", "write"] {
        for field in ["io_bytes", "io_kbytes", "bw_bytes", "bw", "runtime", "total_ios"] {
            let of = |root: &Value| root["jobs"][0][dir][field].clone();
            assert_eq!(of(&ours), of(&fio), "{dir} {field}");
        }
    }
    for field in ["iodepth_level", "iodepth_submit", "iodepth_complete", "latency_us", "latency_ms"]
    {
        assert_eq!(ours["jobs"][0][field], fio["jobs"][0][field], "{field}");
    }
}

#[test]
fn text_has_the_layout_of_fio() {
    let job = job("mixed");
    let jobs = fio_run().map(|stats| clone_of(&job, stats));
    let text = render(&report(jobs.into()), &[Format::JsonPlus]);
    let from_read = |text: &str| {
        let start = text.find("      \"read\" : {").expect("a read object");
        text[start..].lines().take(9).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(from_read(&text), from_read(FIO_JSON));
}

#[test]
fn reports_of_virtual_time_have_no_date() {
    let ours = ours(Format::Json);
    assert_eq!((&ours["timestamp"], &ours["timestamp_ms"]), (&json!(0), &json!(0)));
    assert_eq!(ours["time"], json!("Thu Jan  1 00:00:00 1970"));
}

#[test]
fn errors_and_additional_sections_are_under_zonal() {
    let mut stats = IoStats::new();
    stats.start(Nanos(0));
    stats.error(DataDir::Write, Status::ZoneOpenResource);
    stats.zone_resets(3);
    stats.finish(Nanos(1_000_000));
    let job = job("mixed");
    let mut report = report(vec![clone_of(&job, stats)]);
    report.jobs[0].error = Some(Status::ZoneOpenResource);
    report.extra.push(("plug".to_owned(), json!({ "queued": 7 })));
    let ours: Value =
        serde_json::from_str(&render(&report, &[Format::Json])).expect("we write JSON");
    let expected = json!({
        "device": "null:size=1g", "clock": "virtual", "policy": "plug", "seed": 1,
        "jobs": [{
            "jobname": "mixed", "zone_resets": 3,
            "errors": { "too many open zones": { "read": 0, "write": 1, "trim": 0 } },
        }],
        "plug": { "queued": 7 },
    });
    assert_eq!(ours["zonal"], expected);
    let errors = ["error", "total_err", "first_error"].map(|field| ours["jobs"][0][field].as_u64());
    assert_eq!(errors, [Some(109), Some(1), Some(109)]);
}
