//! Fits to figures of the model itself.
use super::*;
use crate::measurements::{self, Assume};
use crate::validate::Errors;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Loads of a ZNS drive, without figures.
const LOADS: [&str; 10] = [
    "write:write,4096,1,1",
    "write:write,131072,1,1",
    "write:write,16384,4,1",
    "append:write,4096,1,1",
    "append:write,4096,1,8",
    "append:write,32768,4,4",
    "randread:read,4096,1,1",
    "randread:read,65536,4,16",
    "read:read,4096,1,1",
    "read:read,131072,1,4",
];

fn run_options(device: &str) -> RunOptions {
    // The ramp is for resets of the written zones.
    let (seconds, ramp) = (Some(0.004), Some(0.1));
    RunOptions {
        device: device.to_owned(),
        costs: None,
        seconds,
        ramp,
        seed: 0,
        stop: Arc::default(),
    }
}

fn options(device: &str) -> FitOptions {
    let run = run_options(device);
    FitOptions { steps: 40, starts: 1, folds: Some(0), hold_out: None, loads: 60, run }
}

/// The figures of the device under [`LOADS`], as a file of measurements.
fn measured(device: &str) -> Cells {
    let spec = zonal_backend::load(device).unwrap();
    let mut text = measurements::COLUMNS.join(",") + "\n";
    for load in LOADS {
        let (op, numbers) = load.split_once(',').unwrap();
        let row = |metric: &str, value: f64, unit: &str| {
            format!("io,spdk,4096,{op},{numbers},{metric},{value},{unit}\n")
        };
        let probe = measurements::COLUMNS.join(",") + "\n" + &row("iops", 1.0, "1/s");
        let probe = measurements::parse("x", &probe, &Assume::default()).unwrap();
        let done = measurements::run(&probe.loads[0], &spec, &run_options(device)).unwrap();
        let figures = done.of(probe.cells[0].dir, None);
        let _ = write!(text, "{}", row("iops", figures.iops, "1/s"));
        let _ = write!(text, "{}", row("lat_mean", figures.mean, "us"));
    }
    measurements::parse("x", &text, &Assume::default()).unwrap()
}

/// A profile file with other values than the built-in one.
fn wrong(dir: &tempfile::TempDir, changes: &[(&str, &str)]) -> String {
    let mut text = zonal_backend::profile_text("zn540").unwrap();
    for (option, value) in changes {
        let from = text.find(&format!("\n{option} = ")).expect(option) + 1;
        let to = from + text[from..].find('\n').unwrap();
        text.replace_range(from..to, &format!("{option} = \"{value}\""));
    }
    let path = dir.path().join("wrong.toml");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn hidden_parameters_of_a_drive_are_recovered() {
    let cells = measured("zn540");
    let dir = tempfile::tempdir().unwrap();
    let hidden = [("latency", "12us"), ("page_read", "30us"), ("link_rate", "1400MB/s")];
    let path = wrong(&dir, &hidden);
    let names = hidden.map(|(name, _)| name.to_owned());
    let profile = Profile::load(&path).unwrap().adjusting(&names).unwrap();
    let fitted = fit(&profile, &cells, &options(&path), &()).unwrap();
    let shipped = Profile::load("zn540").unwrap().adjusting(&names).unwrap();
    let truth = shipped.format(&[0.0; 3]);
    let text = text(&fitted, &cells);
    let after = Errors::of(cells.cells.iter().filter_map(|cell| {
        Some((fitted.after[cell.load].as_ref()?.figure(cell) / cell.value - 1.0) * 100.0)
    }))
    .unwrap();
    assert!(after.median < 1.0 && after.p90 < 3.0, "expected {truth:?}:\n{text}");
    assert!(fitted.options.iter().all(|option| option.verdict == Verdict::Adjusted), "{text}");
    assert!(fitted.runs < 10 * 40, "{text}");
}

#[test]
fn parameters_that_move_nothing_are_named_and_stay() {
    let cells = measured("zn540");
    let names = ["latency", "partial_time"].map(str::to_owned);
    let profile = Profile::load("zn540").unwrap().adjusting(&names).unwrap();
    let fitted = fit(&profile, &cells, &options("zn540"), &()).unwrap();
    let [_, partial] = &fitted.options[..] else { panic!("two options") };
    assert_eq!(partial.verdict, Verdict::MovesNothing, "no block is short: {partial:?}");
    assert_eq!(partial.before, partial.after);
    assert!(text(&fitted, &cells).contains("cannot determine it: it moves nothing"));
}

/// Counts the steps.
#[derive(Default)]
struct Steps {
    total: AtomicU64,
    done: AtomicU64,
}

impl StepProgress for Steps {
    fn start(&self, _title: &str, total: u64) {
        self.total.store(total, Ordering::Relaxed);
    }

    fn message(&self, _text: &str) {}

    fn advance(&self, steps: u64) {
        self.done.fetch_add(steps, Ordering::Relaxed);
    }

    fn finish(&self) {}
}

#[test]
fn few_loads_free_few_parameters_and_folds_predict_each_load_once() {
    let mut cells = measured("zn540");
    cells.loads.truncate(4);
    cells.cells.retain(|cell| cell.load < 4);
    let profile = Profile::load("zn540").unwrap().adjusting(&[]).unwrap();
    let folds = FitOptions { folds: Some(2), ..options("zn540") };
    let steps = Steps::default();
    let fitted = fit(&profile, &cells, &folds, &steps).unwrap();
    let [total, done] = [&steps.total, &steps.done].map(|steps| steps.load(Ordering::Relaxed));
    assert_eq!(done, total, "progress ends where it said it would");
    let adjusted = fitted.options.iter().filter(|option| option.verdict == Verdict::Adjusted);
    assert!((1..=2).contains(&adjusted.count()), "{:?}", fitted.options);
    assert!(fitted.held_out.iter().all(Option::is_some));
    let one = FitOptions { folds: Some(5), ..options("zn540") };
    let error = fit(&profile, &cells, &one, &()).err().unwrap().to_string();
    assert!(error.ends_with("expected 0, or 2 to the number of loads (4)"), "{error}");
}

#[test]
fn loads_are_sampled_from_all_kinds() {
    let cells = measured("zn540");
    let chosen = sample(&cells, (0..LOADS.len()).collect(), 8);
    assert_eq!(chosen.len(), 8);
    let mut classes: Vec<&str> = chosen.iter().map(|&at| cells.loads[at].class()).collect();
    classes.sort_unstable();
    classes.dedup();
    assert_eq!(classes.len(), 4, "{classes:?}");
    assert_eq!(sample(&cells, vec![3, 5], 8), [3, 5]);
}
