//! Any text as the state of a drive: refused, or the same after it was text again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zonal_crash::State;

fuzz_target!(|text: &str| {
    if let Ok(state) = text.parse::<State>() {
        assert_eq!(state.to_string().parse(), Ok(state));
    }
});
