//! Any text as a job file: parsed or refused, never a panic; errors name the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zonal_fio::jobfile::{JobError, MemoryEnvironment, parse_str};

fuzz_target!(|text: &str| {
    // A file that includes itself, and one that it can include.
    let source = MemoryEnvironment::default()
        .with_file("fuzz.fio", text)
        .with_file("more.fio", "bs=8k\niodepth=4\n")
        .with_variable("SIZE", "64k");
    match parse_str("fuzz.fio", text, &source) {
        Ok(set) => assert!(!set.jobs.is_empty()),
        Err(JobError::NoJobs { .. }) => {}
        Err(error) => assert!(error.to_string().contains(".fio"), "{error}"),
    }
});
