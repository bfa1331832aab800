//! Device specs and profiles: what is accepted, and the errors for the rest.
use proptest::prelude::*;
use std::io;
use zonal_blk::{Bytes, Nanos};
use zonal_device::device_spec::{build, help, kinds, load, parse, parse_profile};
use zonal_device::{NullConfig, SpecError};

fn error(text: &str) -> String {
    parse(text).map_or_else(|error| error.to_string(), |spec| format!("parsed: {spec:?}"))
}

#[test]
fn specification_sets_what_it_names_and_leaves_the_rest() {
    let spec = parse(
        "null: zones=64, zone_size=96MiB,zone_capacity=90m,max_open=8,lba=4K,latency=10us,memory=true",
    );
    let expected = NullConfig {
        zones: 64,
        zone_size: Bytes(96 << 20),
        zone_capacity: Some(Bytes(90 << 20)),
        max_open: Some(8),
        lba: 4096,
        latency: Nanos(10_000),
        memory: true,
        ..NullConfig::default()
    };
    assert_eq!(spec.unwrap().config_of(), Some(&expected));
}

#[test]
fn device_without_options_is_that_of_the_published_measurements() {
    for text in ["null", "null:"] {
        let limits = build(&parse(text).unwrap()).unwrap().limits().clone();
        assert_eq!((limits.nr_zones, limits.max_open_zones), (4096, 128));
        assert_eq!(limits.zone_size.to_bytes(), Bytes(256 << 20));
    }
}

#[test]
fn open_limit_follows_the_active_limit_unless_it_is_given() {
    for (text, max_open) in [("null:max_active=14", 14), ("null:max_active=500", 128)] {
        let device = build(&parse(text).unwrap()).unwrap();
        assert_eq!(device.limits().max_open_zones, max_open);
    }
}

#[test]
fn host_adapters_are_known_by_their_drivers() {
    for (text, max_io, depth) in [
        ("smr-30t", "1280KiB", 32),
        ("smr-30t:hba=mpt3sas", "1280KiB", 32),
        ("smr-30t:hba=mpi3mr", "1MiB", 32),
        ("hdd:hba=megaraid,depth=4", "1MiB", 4),
        ("smr-30t:max_io=2M,hba=megaraid", "2MiB", 32),
    ] {
        let limits = build(&parse(text).unwrap()).unwrap().limits().clone();
        let longest = u64::from(limits.max_sectors) * 512;
        assert_eq!(zonal_device::quantity::format_size(longest), max_io, "{text}");
        assert_eq!(limits.queue_depth, depth, "{text}");
    }
    let error = parse("smr-30t:hba=mpt2sas").unwrap_err().to_string();
    assert!(
        error.contains("`hba`: found `mpt2sas`, expected") && error.contains("mpi3mr"),
        "{error}"
    );
}

#[test]
fn large_disk_without_a_profile_says_which_one_it_lacks() {
    let assumptions = |text: &str| parse(text).unwrap().assumptions().join(", ");
    let small =
        "assumed to have the tracks and seeks of a small disk; smr-31t has those of a large one";
    assert_eq!(assumptions("hdd:size=28T,recording=smr"), small);
    assert_eq!(assumptions("hdd:recording=smr,zones=114688"), small);
    let own = "hdd:recording=smr,size=28T,track_outer=2250K,track_inner=1270K";
    for text in ["hdd:recording=smr,size=1T", "hdd:size=28T", own, "smr-30t:size=28T"] {
        assert_eq!(assumptions(text), "", "{text}");
    }
    assert!(parse("smr-31t").is_ok(), "what is named exists");
}

#[test]
fn limits_that_were_not_given_are_lowered_to_those_that_were() {
    for (text, open, active, assumed) in [
        (
            // As many as there are is no limit.
            "zns-1t:zones=8",
            0,
            0,
            "max_active lowered from 14 to zones=8, max_open lowered from 14 to zones=8",
        ),
        ("zns-1t:max_active=4", 4, 4, "max_open lowered from 14 to max_active=4"),
        ("zns-1t:zones=8,max_active=3,max_open=2", 2, 3, ""),
        ("smr-30t:size=10G", 0, 0, "max_open lowered from 128 to zones=40"),
        ("zns-1t:zones=20", 14, 14, ""),
        ("null:zones=8", 0, 0, ""),
    ] {
        let spec = parse(text).unwrap();
        let limits = build(&spec).unwrap().limits().clone();
        assert_eq!((limits.max_open_zones, limits.max_active_zones), (open, active), "{text}");
        assert_eq!(spec.assumptions().join(", "), assumed, "{text}");
        assert!(spec.describe().ends_with(assumed), "{text}: {}", spec.describe());
    }
    let error = parse("zns-1t:zones=8,max_open=9").unwrap_err().to_string();
    assert!(error.starts_with("option `max_open`: found 9, expected"), "{error}");
}

#[test]
fn errors_name_the_option_what_was_found_and_what_was_expected() {
    let messages: Vec<String> = [
        "disk",
        "null:zones",
        "null:zones=4,",
        "null:zone-size=4M",
        "null:colour=red",
        "null:zones=4,zones=5",
        "null:zones=many",
        "null:zones=",
        "null:zones=99999999999",
        "null:zones=0",
        "null:zones=16777217",
        "null:zone_size=1000",
        "null:zone_size=0",
        "null:zone_size=99999999T",
        "null:zone_size=4096T,zones=4096",
        "null:zone_size=4M,zone_capacity=5M",
        "null:zone_capacity=0",
        "null:conventional=5000",
        "null:max_open=9,max_active=8",
        "null:lba=1024",
        "null:lba=4K,max_io=5K",
        "null:queues=0",
        "null:queues=65536",
        "null:depth=0",
        "null:latency=fast",
        "null:latency=99999999999s",
        "null:max_io=0",
        "null:max_io=2G",
        "null:append_max=2M",
        "null:memory=yes",
        "null:memory=true,zones=16777216",
        "null:size=1T,zones=4",
        "null:size=99999T,zone_size=4K",
        "null:zoned=false,zones=4",
        "null:zoned=false,size=100",
    ]
    .iter()
    .map(|text| format!("{text}\n    {}", error(text)))
    .collect();
    insta::assert_snapshot!(messages.join("\n"));
}

#[test]
fn profile_has_the_options_of_a_specification() {
    let profile = "device = \"null\"\nzones = 0x40\nzone_size = \"96M\"\nmemory = true\n";
    assert_eq!(
        parse_profile("p.toml", profile).unwrap(),
        parse("null:zones=64,zone_size=96M,memory=true").unwrap(),
    );
}

#[test]
fn errors_in_profiles_name_file_and_line() {
    let messages: Vec<String> = [
        "zones = 4",
        "device = \"disk\"",
        "device = 5",
        "device = \"null\"\nzone_sise = 4",
        "device = \"null\"\n\nzones = -4",
        "device = \"null\"\nzones = 1.5",
        "device = \"null\"\nlatency = [1]",
        "device = \"null\"\nzones = 4\nzones = 5",
        "device = \"null\"\nzone_size = \"4M\"\nzone_capacity = \"5M\"",
        "device = \"null\"\nmax_active = 8\nmax_open = 9",
        "device = \"null\"\nzones = 4\nsize = \"1T\"",
        "device = \"null\"\nzones = ",
        "device = \"null\"\ncalibrated = \"latency\"",
        "device = \"null\"\n\ncalibrated = [\"latency\", \"speed\"]",
        "device = \"zns\"\nzones = 9\nmax_active = 10",
        "device = \"zns\"\nmax_active = 20\nmax_open = 21",
        "device = \"zns\"\nmax_active = 905",
        "device = \"zns\"\nzone_size = \"1G\"\nzone_capacity = \"2G\"",
        "device = \"zns\"\nbuffer = \"64K\"",
        "device = \"zns-1t\"\n\nbuffer = \"2M\"",
        "device = \"zns\"\nprogram = \"6ms\"",
        "device = \"zns\"\nzone_rate = \"3GB/s\"",
        "device = \"zns\"\nchannel_rate = \"100MB/s\"",
        "device = \"zns\"\nchannels = 5",
        "device = \"zns\"\nzone_dies = 12",
        "device = \"zns\"\nblock = \"1000K\"",
        "device = \"zns\"\nzrwa = \"1M\"\nzrwa_granularity = \"3M\"",
        "device = \"zns\"\nmax_io = \"512K\"",
    ]
    .iter()
    .map(|text| {
        let error = parse_profile("p.toml", text).unwrap_err();
        format!("{text}\n    {error}")
    })
    .collect();
    insta::assert_snapshot!(messages.join("\n"));
}

#[test]
fn file_is_read_for_a_profile_only() {
    let never = |_: &str| -> io::Result<String> { panic!("no file to read") };
    assert!(load("null:zones=4", never).is_ok());
    let found = load("dir/p.toml", |path| {
        assert_eq!(path, "dir/p.toml");
        Ok("device = \"null\"".to_owned())
    });
    assert_eq!(found.unwrap(), parse("null").unwrap());
    let missing = load("p.toml", |_| Err(io::ErrorKind::NotFound.into()));
    assert!(matches!(missing, Err(SpecError::Read { file, .. }) if file == "p.toml"));
}

#[test]
fn shipped_profiles_make_devices() {
    let mut descriptions = Vec::new();
    for (name, text) in [
        ("null-bench", include_str!("../profiles/null-bench.toml")),
        ("null-smr", include_str!("../profiles/null-smr.toml")),
        ("null-zns", include_str!("../profiles/null-zns.toml")),
        ("zns-1t", include_str!("../profiles/zns-1t.toml")),
    ] {
        let spec = parse_profile(name, text).unwrap();
        build(&spec).unwrap();
        descriptions.push(spec.describe());
    }
    let expected = [
        "null, 4096 zones of 256MiB, 128 open at most, 512B blocks",
        "null, 4096 zones of 256MiB, 41 conventional, 128 open at most, 4096B blocks, latency 4ms",
        "null, 2048 zones of 2GiB, zone capacity 1077MiB, 14 open at most, 14 active at most, \
         appends up to 1MiB, 4096B blocks, latency 10us, jitter 2us from seed 0",
        "zns, 904 zones of 2GiB, zone capacity 1077MiB, 14 open at most, 14 active at most, \
         appends up to 1MiB, 4096B blocks, 32 dies on 8 channels, 32 to a zone, 96KiB programmed in \
         1200us, buffer 32MiB",
    ];
    assert_eq!(descriptions, expected);
}

#[test]
fn help_lists_every_option_once() {
    let help = help();
    let lists = help.split("\nOptions of ").skip(1);
    for (kind, list) in kinds().zip(lists) {
        assert!(list.starts_with(kind.name), "{list}");
        for option in kind.options {
            let is_it = |line: &&str| {
                line.split_whitespace().next() == Some(option.name) && line.contains(option.help)
            };
            assert_eq!(list.lines().filter(is_it).count(), 1, "{}", option.name);
        }
    }
}

fn option_like() -> impl Strategy<Value = String> {
    let names: Vec<_> = NullConfig::OPTIONS.iter().map(|option| option.name).collect();
    let name = prop_oneof![4 => prop::sample::select(names), 1 => Just("zone")];
    let value = prop_oneof![
        any::<u64>().prop_map(|number| number.to_string()),
        "[0-9]{1,3}[KMGT]?(iB|B)?",
        "[0-9]{1,6}(ns|us|ms|s)",
        "true|false|0|512|4096|1",
        "\\PC{0,6}",
    ];
    (name, value).prop_map(|(name, value)| format!("{name}={value}"))
}

proptest! {
    #[test]
    fn no_text_makes_the_parsers_panic(text in "\\PC*", head in "(null)?:?") {
        let _ = parse(&format!("{head}{text}"));
        let _ = parse_profile("p", &text);
        let _ = parse_profile("p", &format!("device = \"null\"\n{text}"));
    }

    #[test]
    fn what_parses_is_valid_and_can_be_described(
        options in prop::collection::vec(option_like(), 0..6),
    ) {
        if let Ok(spec) = parse(&format!("null:{}", options.join(","))) {
            prop_assert_eq!(spec.config().validate(), Ok(()));
            prop_assert!(spec.describe().starts_with("null, "));
        }
    }
}

#[test]
fn data_are_where_a_device_says_or_everywhere() {
    for (text, expected) in [
        ("zns:zones=8,max_open=4,max_active=4", "zns:zones=8,max_open=4,max_active=4,written=100%"),
        ("zns:zones=8,max_open=4,max_active=4,written=2", ""),
        ("ssd", "ssd:prefill=sequential"),
        ("ssd:prefill=random:1", ""),
        ("null:zoned=false", ""),
    ] {
        let expected = if expected.is_empty() { text } else { expected };
        let found = parse(text).unwrap().with_data().unwrap();
        assert_eq!(format!("{found:?}"), format!("{:?}", parse(expected).unwrap()), "{text}");
    }
}
