//! Any arguments, one a line: parsed or refused, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zonal_fio::jobfile::{MemoryEnvironment, parse_args};

fuzz_target!(|text: &str| {
    let source = MemoryEnvironment::default().with_file("a.fio", "[a]\nrw=randrw\n[b]\nbs=64k\n");
    let set = parse_args(text.lines(), &source);
    assert!(set.is_err() || set.is_ok_and(|set| !set.jobs.is_empty()));
});
