//! Any text as a device spec: understood or refused, never a panic. What is understood describes
//! itself, and if it is small it can be made.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zonal_device::DeviceSpec;
use zonal_device::device_spec;

/// Larger devices take too long to make.
const MAX_ZONES: u32 = 1 << 12;

fuzz_target!(|text: &str| {
    let Ok(device) = device_spec::parse(text) else { return };
    let (kind, zones) = match &device {
        DeviceSpec::Null(config) => ("null, ", config.zones),
        DeviceSpec::Hdd(config) => ("hdd, ", config.zones),
        DeviceSpec::Zns(config) => ("zns, ", config.zones),
    };
    assert!(device.describe().starts_with(kind));
    if zones <= MAX_ZONES && !device.keeps_data() {
        device_spec::build(&device).expect("a spec that was checked makes a device");
    }
});
