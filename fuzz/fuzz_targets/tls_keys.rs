//! Files of pre-shared keys, and ClientHellos that offer them: none panics, and what is found was offered.
#![no_main]
use libfuzzer_sys::fuzz_target;
use zonal_nvme::tls::{ConfiguredPsk, IdentityVersion, PskTable, Psks};

const HOST: &str = "nqn.2026-11.org.example:host";
const SUBSYSTEM: &str = "nqn.2026-11.org.example:zns";
const KEY: &str = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";

fuzz_target!(|bytes: &[u8]| {
    let own: Psks = format!("{HOST} {KEY}").parse().expect("a list");
    offers(&own, bytes);
    let Ok(text) = str::from_utf8(bytes) else { return };
    if let Ok(key) = text.parse::<ConfiguredPsk>() {
        let psk = key.tls_psk(IdentityVersion::V1, HOST, SUBSYSTEM).expect("short names");
        assert_eq!(psk.key.len(), psk.suite.hash().size());
    }
    if let Ok(psks) = text.parse::<Psks>() {
        offers(&psks, bytes);
    }
});

/// What is found in an extension has an identity that is in there.
fn offers(psks: &Psks, extension: &[u8]) {
    if let Some(found) = PskTable::new(psks, SUBSYSTEM).find(extension) {
        let identity = found.identity.as_bytes();
        assert!(extension.windows(identity.len()).any(|window| window == identity));
    }
}
