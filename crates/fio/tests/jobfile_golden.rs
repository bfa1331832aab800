//! Complete job files, compared field by field.
use std::path::Path;
use zonal_blk::Nanos;
use zonal_fio::job::{
    AddressOptions, CpusPolicy, Extent, FsOptions, Job, LimitOptions, Rw, ThinkOptions, ZoneMode,
};
use zonal_fio::jobfile::{JobSet, SystemEnvironment, parse_file};

const SECOND: u64 = 1_000_000_000;

fn parse(file: &str) -> JobSet {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/jobfile");
    parse_file(&folder.join(file), &SystemEnvironment).expect(file)
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn named(files: &[&str]) -> FsOptions {
    let names = files.iter().map(|file| (*file).to_owned()).collect();
    FsOptions { names, ..FsOptions::default() }
}

#[test]
fn nvme_read_job() {
    let set = parse("nvme-read.fio");
    let expected = Job {
        name: "read".into(),
        rw: Rw::Read,
        bs: [4096; 3],
        iodepth: 64,
        address: AddressOptions { restarts: true, ..AddressOptions::default() },
        // Not set in the file: filled in from iodepth.
        iodepth_low: 64,
        numjobs: 4,
        runtime: Some(Nanos(120 * SECOND)),
        time_based: true,
        ramp_time: Nanos(30 * SECOND),
        group_reporting: true,
        cpus_allowed: vec![1, 2, 3, 4],
        cpus_allowed_policy: CpusPolicy::Split,
        ioengine: "io_uring".into(),
        filename: Some("/dev/nvme0n1".into()),
        fs: named(&["/dev/nvme0n1"]),
        direct: true,
        own_options: pairs(&[("rw", "read"), ("filename", "/dev/nvme0n1")]),
        ..Job::default()
    };
    assert_eq!(set.jobs, [expected]);
    assert_eq!(
        set.global_options,
        pairs(&[
            ("ioengine", "io_uring"),
            ("direct", "1"),
            ("hipri", ""),
            ("fixedbufs", "1"),
            ("registerfiles", "1"),
            ("bs", "4k"),
            ("iodepth", "64"),
            ("numjobs", "4"),
            ("cpus_allowed", "1-4"),
            ("cpus_allowed_policy", "split"),
            ("ramp_time", "30"),
            ("runtime", "120"),
            ("time_based", ""),
            ("group_reporting", ""),
        ])
    );
    let ignored: Vec<&str> = set.ignored.iter().map(|ignored| ignored.name).collect();
    assert_eq!(ignored, ["hipri", "fixedbufs", "registerfiles"]);
    assert!(set.ignored.iter().all(|ignored| !ignored.changes_workload()));
}

/// The options that `[global]` sets in the file of stages.
fn staged() -> Job {
    Job {
        filename: Some("hdd:smr".into()),
        fs: named(&["hdd", "smr"]),
        zonemode: ZoneMode::Zbd,
        zonesize: Some(256 << 20),
        bs: [16 << 10; 3],
        direct: true,
        ..Job::default()
    }
}

#[test]
fn stages_of_a_zoned_job() {
    let set = parse("zbd-stages.fio");
    let [fill, overwrite, mixed] = &set.jobs[..] else { panic!("three jobs") };
    assert_eq!(
        *fill,
        Job {
            name: "fill".into(),
            rw: Rw::Write,
            bs: [128 << 10; 3],
            size: Some(Extent::Zones(64)),
            iodepth: 8,
            address: AddressOptions { restarts: true, ..AddressOptions::default() },
            iodepth_low: 8,
            own_options: pairs(&[("rw", "write"), ("size", "64z"), ("iodepth", "8")]),
            ..staged()
        }
    );
    assert_eq!(
        *overwrite,
        Job {
            name: "overwrite".into(),
            stonewall: true,
            rw: Rw::Write,
            random: true,
            rw_modifier: 4,
            offset: Extent::Percent(25),
            io_size: Some(Extent::Bytes(8 << 30)),
            max_open_zones: 12,
            job_max_open_zones: 3,
            numjobs: 4,
            offset_increment: Extent::Zones(8),
            rate: [0, 20 << 20, 20 << 20],
            time_based: true,
            runtime: Some(Nanos(90 * SECOND)),
            startdelay: Nanos(SECOND / 2),
            own_options: overwrite.own_options.clone(),
            ..staged()
        }
    );
    assert_eq!(
        *mixed,
        Job {
            name: "mixed".into(),
            stonewall: true,
            rw: Rw::Mixed,
            random: true,
            rwmixread: 70,
            norandommap: true,
            think: ThinkOptions {
                time: Nanos(50_000),
                blocks: Some(16),
                ..ThinkOptions::default()
            },
            iodepth: 32,
            address: AddressOptions { restarts: true, ..AddressOptions::default() },
            iodepth_batch: 8,
            iodepth_batch_complete_min: 4,
            iodepth_batch_complete_max: 16,
            iodepth_low: 16,
            limits: LimitOptions { depths: mixed.limits.depths, ..LimitOptions::default() },
            randseed: 42,
            runtime: Some(Nanos(120 * SECOND)),
            own_options: mixed.own_options.clone(),
            ..staged()
        }
    );
    assert_eq!(set.ignored, []);
}

#[test]
fn own_options_have_the_names_of_fio_and_the_values_as_written() {
    let set = parse("zbd-stages.fio");
    assert_eq!(
        set.jobs[2].own_options[..3],
        pairs(&[("stonewall", ""), ("rw", "randrw"), ("rwmixwrite", "30")])
    );
    assert!(set.global_options.contains(&("bs".into(), "16k".into())), "the last value counts");
    let included = &set.jobs[1].own_options;
    assert!(included.contains(&("startdelay".into(), "500ms".into())), "included options too");
}
