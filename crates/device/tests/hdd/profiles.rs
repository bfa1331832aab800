//! The built-in profiles, and the errors for parameters that contradict each other.
use zonal_blk::ZoneWrite;
use zonal_device::HddConfig;
use zonal_device::device_spec::{build, help, kinds, parse, parse_profile};

#[test]
fn every_profile_makes_a_rotating_device_by_each_of_its_names() {
    let hdd = kinds().find(|kind| kind.name == "hdd").unwrap();
    for (name, text) in hdd.profiles {
        let spec = parse(name).unwrap();
        assert_eq!(spec, parse(&format!("hdd:profile={name}")).unwrap());
        assert_eq!(spec, parse_profile(name, text).unwrap());
        assert_eq!(spec, parse_profile("p", &format!("device = \"{name}\"")).unwrap());
        let limits = build(&spec).unwrap().limits().clone();
        assert!(limits.rotational);
        let zoned = *name != "sata-2009";
        assert_eq!(limits.nr_zones > 0, zoned);
        if zoned {
            assert_eq!(ZoneWrite::default_for(&limits), ZoneWrite::Qd1);
            assert_eq!(limits.zone_size.to_bytes().0, 256 << 20);
        }
    }
}

#[test]
fn the_disk_behind_the_other_adapter_differs_in_the_longest_command_alone() {
    let other = parse("smr-30t:max_io=1M").unwrap();
    assert_eq!(parse("smr-30t-mpi3mr").unwrap(), other);
}

#[test]
fn every_option_of_a_profile_can_be_overridden() {
    let spec = parse("smr-30t:order=fifo,cache=4M,heads=20").unwrap();
    let config = spec.config_of::<HddConfig>().expect("a disk");
    assert_eq!((config.cache.0, config.heads), (4 << 20, 20));
    let in_file = "cache = \"4M\"\nheads = 20\norder = \"fifo\"\nprofile = \"smr-30t\"\n";
    let from_file = parse_profile("p", &format!("device = \"hdd\"\n{in_file}")).unwrap();
    assert_eq!(from_file, spec);
    let help = help();
    for option in HddConfig::OPTIONS {
        assert!(help.contains(&format!("\n  {} ", option.name)), "{}", option.name);
    }
}

#[test]
fn contradictions_are_refused_with_the_values_and_the_rule() {
    let messages: Vec<String> = [
        "smr-30t:rate=300MB/s",
        "smr-30t:rpm=5400",
        "smr-30t:max_open=200000",
        "smr-30t:seek_full=4ms",
        "smr-30t:seek_average=15ms",
        "smr-30t:settle=9ms",
        "smr-30t:skew=9ms",
        "smr-30t:track_inner=3M",
        "smr-30t:cache=256K",
        "smr-30t:cache=0",
        "smr-30t:piece=1000",
        "smr-30t:depth=33",
        "smr-30t:heads=0",
        "smr-30t:rings=0",
        "smr-30t:rpm=0",
        "smr-30t:link_rate=1kB/s",
        "smr-30t:order=random",
        "smr-30t:size=1T,zones=4",
        "smr-30t:rate=fast",
        "smr-30t:zone_sise=1M",
        "smr-30t:cache=1M,profile=smr-20t",
        "hdd:profile=smr-40t",
        "hdd:zones=4",
        "hdd:size=1000T",
        "smr-40",
    ]
    .iter()
    .map(|text| format!("{text}\n    {}", parse(text).unwrap_err()))
    .collect();
    insta::assert_snapshot!(messages.join("\n"));
}

#[test]
fn contradiction_in_a_profile_is_refused_with_its_line() {
    let text = "device = \"hdd\"\nrpm = 7200\ntrack_outer = \"2250K\"\nskew = \"1ms\"\n\
        rate = \"300MB/s\"\n";
    let error = parse_profile("p.toml", text).unwrap_err().to_string();
    assert!(error.starts_with("p.toml:5: option `rate`: found 300MB/s"), "{error}");
    assert!(error.contains("track_outer=2250KiB") && error.contains("rpm=7200"), "{error}");
}
