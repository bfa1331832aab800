//! Pre-shared keys of TLS: the interchange format, files, derivation, and what a ClientHello offers.
use proptest::prelude::*;
use zonal_nvme::tls::{
    CipherSuite, ConfiguredPsk, IdentityVersion, PskError, PskTable, Psks, PsksError,
};

const HOST: &str = "nqn.psk-test-host";
const SUBSYSTEM: &str = "nqn.psk-test-subsys";
const DISCOVERY: &str = "nqn.2014-08.org.nvmexpress.discovery";

// The keys, and the identities of version 1 for these names, are those of libnvme's tests. The TLS PSKs
// were computed with hmac and hashlib of Python, by RFC 5869, sections 2.2 and 2.3, and RFC 8446, section
// 7.1. With digests of older versions of libnvme ("compat" in its tests), labels have no lengths.
const PLAIN: &str = "NVMeTLSkey-1:00:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";
const SHA256: &str = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";
const SHA384: &str =
    "NVMeTLSkey-1:02:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwP/w0S89ELi3W2LxIcLXVsDn8kXZQ==:";

struct Vector {
    configured: &'static str,
    identity: &'static str,
    key: &'static str,
}

/// The vectors of the standard, in pairs of version 0 and 1.
const STANDARD: [Vector; 4] = [
    Vector {
        configured: SHA256,
        identity: "NVMe0R01 nqn.psk-test-host nqn.psk-test-subsys",
        key: "05c6503551ad136e6ee32e6eeb3f6d500b69701d84ec71e328f65c7f51566f68",
    },
    Vector {
        configured: SHA256,
        identity: "NVMe1R01 nqn.psk-test-host nqn.psk-test-subsys \
                   iSbjiStwJ/1TrTvDlt2fjFmzvsytOJelidNnA+X5lEU=",
        key: "8fc3c0badfd4c0c66fa3ca33aadd0314f85536cc9bc47338b60f3e6e563786ca",
    },
    Vector {
        configured: SHA384,
        identity: "NVMe0R02 nqn.psk-test-host nqn.psk-test-subsys",
        key: "f42ba63824cdfe421914c582921f85b5b5b7e2d4df084caeedc9be20b212e8bb\
              0fe8a23e9d59a1c8fc6449da4970a78d",
    },
    Vector {
        configured: SHA384,
        identity: "NVMe1R02 nqn.psk-test-host nqn.psk-test-subsys \
                   QhW2+Rp6RzHlNtCslyRxMnwJ11tKKhz8JCAQpQ+XUD8f9td1VeH5h53yz2wKJG1a",
        key: "a2b2f943f479fc682555cec89857c80ed004ce92f32a973d5764155bb7e36b17\
              a85368a0666d250afac9282dda2e62ca",
    },
];

const OLD_LIBNVME: [Vector; 2] = [
    Vector {
        configured: SHA256,
        identity: "NVMe1R01 nqn.psk-test-host nqn.psk-test-subsys \
                   66GuqV08TsAGII39teWUfwQwizjv06Jy8jOcX3NAAzM=",
        key: "b9f5ab2a41ba6e72a23a12066302a2f775fa6c0942c8e0b18ca8ac07edf305e2",
    },
    Vector {
        configured: SHA384,
        identity: "NVMe1R02 nqn.psk-test-host nqn.psk-test-subsys \
                   RsKmYJ3nAn1ApjjMloJFbAkLPivONDAX/xW327YBUsn2eGShXSjCZvBaOxscLqmz",
        key: "fcefe2e2a2e682b1447dcabf1ec268f78f08c63cd075753abcc8bda2c5c34d48\
              d3014aa8d76ad80107e4f5c9f27e2149",
    },
];

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parse(text: &str) -> ConfiguredPsk {
    text.parse().expect("a key")
}

fn table(configured: &str) -> PskTable {
    let psks: Psks = format!("# hosts\n\n{HOST} {configured}\n").parse().expect("a list");
    PskTable::new(&psks, SUBSYSTEM)
}

/// The content of an extension `pre_shared_key` with these identities, and binders of 32 bytes.
fn extension(identities: &[&[u8]]) -> Vec<u8> {
    let length = |bytes: &[u8]| u16::try_from(bytes.len()).expect("short").to_be_bytes();
    let mut offered = Vec::new();
    for identity in identities {
        offered.extend([&length(identity)[..], identity, &[0; 4]].concat());
    }
    let binders = [&[32][..], &[7; 32]].concat().repeat(identities.len());
    [&length(&offered)[..], &offered, &length(&binders)[..], &binders].concat()
}

#[test]
fn tls_psks_are_those_computed_independently() {
    for Vector { configured, identity, key } in &STANDARD {
        let version =
            if identity.starts_with("NVMe0") { IdentityVersion::V0 } else { IdentityVersion::V1 };
        let psk = parse(configured).tls_psk(version, HOST, SUBSYSTEM).expect("short names");
        assert_eq!((&*psk.identity, &*hex(&psk.key)), (*identity, *key));
        let suite = CipherSuite::with_hash_size(key.len() / 2).expect("a suite");
        assert_eq!(psk.suite, suite);
    }
}

#[test]
fn target_finds_every_form_of_a_key() {
    for Vector { configured, identity, key } in STANDARD.iter().chain(&OLD_LIBNVME) {
        let table = table(configured);
        let found = table.find(&extension(&[identity.as_bytes()])).expect("a known identity");
        assert_eq!((&*found.identity, &*hex(&found.key)), (*identity, *key));
        assert_eq!((&*found.host, &*found.subsystem), (HOST, SUBSYSTEM));
    }
    // Without a hash the identities of old and new versions are the same: it is the standard's key.
    let psk = parse(PLAIN).tls_psk(IdentityVersion::V1, HOST, SUBSYSTEM).expect("short names");
    assert!(psk.identity.ends_with(" quJVUJjp/BImWR0UQay/MjSfEgyAr6TyBOWybS/B404="));
    assert_eq!(**table(PLAIN).find(&extension(&[psk.identity.as_bytes()])).expect("known"), psk);
}

#[test]
fn target_finds_keys_for_discovery_and_the_first_known_one_of_several() {
    let table = table(SHA256);
    let discovery = format!("NVMe0R01 {HOST} {DISCOVERY}");
    let found = table.find(&extension(&[discovery.as_bytes()])).expect("known");
    assert_eq!(found.subsystem, DISCOVERY);
    let known = STANDARD[0].identity.as_bytes();
    let found = table.find(&extension(&[b"a ticket", known, discovery.as_bytes()]));
    assert_eq!(found.expect("known").identity.as_bytes(), known);
    for unknown in [&b"NVMe0R02 nqn.psk-test-host nqn.psk-test-subsys"[..], b"", &known[1..]] {
        assert_eq!(table.find(&extension(&[unknown])), None);
    }
    assert_eq!(table.find(&extension(&[])), None);
}

#[test]
fn long_names_have_no_identity_of_version_0() {
    let long = format!("nqn.{}", "a".repeat(219));
    assert_eq!(parse(SHA256).tls_psk(IdentityVersion::V0, &long, &long), None);
    let psk = parse(SHA256).tls_psk(IdentityVersion::V1, &long, &long);
    assert_eq!(psk.expect("a digest of both").host, long);
}

#[test]
fn keys_that_are_none_say_why() {
    let wrong = |text: &str| text.parse::<ConfiguredPsk>().expect_err(text);
    for text in [
        "",
        "NVMeTLSkey-1",
        "NVMeTLSkey-1:01:",
        "NVMeTLSkey-2:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:",
        "NVMeTLSkey-1:03:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:",
        "NVMeTLSkey-1:1:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:",
        &SHA256[..SHA256.len() - 1],
        "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:",
    ] {
        assert_eq!(wrong(text), PskError::Form, "{text}");
    }
    assert_eq!(wrong("NVMeTLSkey-1:01:VR?:"), PskError::Base64);
    assert_eq!(wrong(&format!("{SHA256}:")), PskError::Base64);
    assert_eq!(wrong("NVMeTLSkey-1:01::"), PskError::Length(0));
    assert_eq!(wrong("NVMeTLSkey-1:01:ia6zGodOr4SE:"), PskError::Length(5));
    assert_eq!(wrong(&SHA256.replace(":01:", ":02:")), PskError::HashLength(32));
    assert_eq!(wrong(&SHA384.replace(":02:", ":01:")), PskError::HashLength(48));
    assert_eq!(wrong(&SHA256.replace("VRLb", "VSLb")), PskError::Checksum);
}

#[test]
fn files_say_which_line_is_wrong_and_show_no_key() {
    let wrong = |text: &str| text.parse::<Psks>().expect_err(text);
    assert_eq!(wrong("# nothing\n\n"), PsksError::Empty);
    assert_eq!(wrong(&format!("\n{HOST}")), PsksError::Words(2, 1));
    assert_eq!(wrong(&format!("{HOST} {SHA256} x")), PsksError::Words(1, 3));
    assert_eq!(wrong(&format!("host {SHA256}")), PsksError::Name(1, "host".to_owned()));
    let swapped = PsksError::Name(1, "a secret".to_owned());
    assert_eq!(wrong(&format!("{SHA256} {HOST}")), swapped);
    let twice = format!("{HOST} {SHA256}\n{HOST} {SHA384}");
    assert_eq!(wrong(&twice), PsksError::Twice(2, HOST.to_owned()));
    let error = wrong(&format!("{HOST} {}", SHA256.replace("VRLb", "VSLb")));
    assert_eq!(error, PsksError::Key(1, PskError::Checksum));
    assert!(!error.to_string().contains("LbtnN9"), "{error}");
    let psks: Psks = format!("{HOST} {SHA256}").parse().expect("a list");
    assert!(!format!("{psks:?}").contains("85, 18"), "{psks:?}");
}

proptest! {
    #[test]
    fn parsing_never_panics(text in "(NVMeTLSkey-1:)?(00|01|02|x)?:?[A-Za-z0-9+/=:]{0,80}:?") {
        let _ = text.parse::<ConfiguredPsk>();
        let _ = format!("{HOST} {text}").parse::<Psks>();
    }

    /// A key with one changed character is another one, which its checksum shows.
    #[test]
    fn damaged_keys_are_refused(at in 16_usize..60, to in "[A-Za-z0-9+/]") {
        let mut text = SHA256.to_owned();
        text.replace_range(at..=at, &to);
        prop_assert_eq!(text.parse::<ConfiguredPsk>().is_ok(), text == SHA256);
    }

    #[test]
    fn extensions_of_any_content_are_read(
        mut bytes in prop::collection::vec(any::<u8>(), 0..80),
        cut in 0_usize..200,
        flip in 0_usize..80,
    ) {
        let table = table(SHA256);
        prop_assert_eq!(table.find(&bytes), None);
        let known = extension(&[b"x", STANDARD[0].identity.as_bytes()]);
        let _ = table.find(&known[..cut.min(known.len())]);
        bytes = known;
        bytes[flip] ^= 0x41;
        let _ = table.find(&bytes);
    }
}
