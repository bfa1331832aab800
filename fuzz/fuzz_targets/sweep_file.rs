//! Any text as the file of a sweep: read or refused, never a panic. What is read has points.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zonal_lab::sweep::{file, points};

fuzz_target!(|text: &str| {
    let Ok(sweep) = file::parse("fuzz", text) else { return };
    assert_eq!(sweep.options.axes.len(), sweep.ranges.len());
    if sweep.bayesian.is_none() {
        let points = points(&sweep.options.axes, sweep.options.search, sweep.options.seed);
        assert!(!points.expect("it was checked").is_empty());
    }
});
