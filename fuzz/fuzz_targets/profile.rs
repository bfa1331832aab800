//! Any text as a device profile: parsed or refused, never a panic; errors name the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zonal_device::device_spec::parse_profile;

fuzz_target!(|text: &str| {
    if let Err(error) = parse_profile("fuzz.toml", text) {
        assert!(error.to_string().starts_with("fuzz.toml"), "{error}");
    }
});
