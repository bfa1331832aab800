//! Any text as the name of an NVMe/TCP device: parsed or refused, never a panic. The text of a parsed
//! address parses to the same address.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zonal_backend::nvme_tcp::Address;

fuzz_target!(|text: &str| {
    let Ok(address) = text.parse::<Address>() else { return };
    let again: Address = address.to_string().parse().expect("its own name");
    assert_eq!((&again.target, &again.nqn), (&address.target, &address.nqn));
    assert_eq!(again.more_targets, address.more_targets);
    assert_eq!(address.paths().count(), 1 + address.more_targets.len());
});
