//! Any text as the state of a drive, and as a workload of file operations: refused, or the same after it was text again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zonal_crash::State;
use zonal_crash::files::Workload;

fuzz_target!(|text: &str| {
    if let Ok(state) = text.parse::<State>() {
        assert_eq!(state.to_string().parse(), Ok(state));
    }
    if let Ok(workload) = Workload::parse("w", text) {
        assert_eq!(Workload::parse("w", &workload.to_string()), Ok(workload));
    }
});
