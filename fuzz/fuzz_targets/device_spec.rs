//! Any text as a device spec: parsed or refused, never a panic. A parsed spec describes itself, and a
//! small device can be built from it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zonal_device::device_spec;

/// Larger devices take too long to build.
const MAX_ZONES: u64 = 1 << 12;

fuzz_target!(|text: &str| {
    let Ok(device) = device_spec::parse(text) else { return };
    assert!(device.describe().starts_with(&format!("{}, ", device.kind())));
    let zones = device.config().get("zones");
    if zones.is_none_or(|zones| zones <= MAX_ZONES) && !device.keeps_data() {
        device_spec::build(&device).expect("a parsed spec makes a device");
    }
});
