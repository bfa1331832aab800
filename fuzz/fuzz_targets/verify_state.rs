//! Any text as the state of a job's writes: refused with its line, or read as it is written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zonal_fio::verify::VerifyState;

fuzz_target!(|text: &str| match text.parse::<VerifyState>() {
    Ok(state) => assert_eq!(state.to_string().parse(), Ok(state)),
    Err(error) => assert!(error.to_string().starts_with("line "), "{error}"),
});
