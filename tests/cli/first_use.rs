//! What somebody meets who uses the program for the first time: misspelt words, jobs that do nothing,
//! commands that destroy, help.
use crate::support::{TestDir, repository, zonal};

#[test]
fn misspelt_words_are_answered_by_the_nearest_right_one() {
    let device = "--device=null:zones=8,zone_size=1M";
    for (args, right) in [
        (&["rnu"][..], "run"),
        (&["image", "craete"], "create"),
        (&["zone", "reprot", "null"], "report"),
        (&["run", device, "--name=a", "--rw=reed"], "`read`"),
        (&["run", device, "--name=a", "--ioengine=libaoi"], "`libaio`"),
        (&["run", device, "--name=a", "--verify=crc32d"], "`crc32c`"),
        (&["run", device, "--name=a", "--random_distribution=zpif"], "`zipf`"),
        (&["run", device, "--name=a", "--zonemode=zdb"], "`zbd`"),
        (&["run", device, "--name=a", "--clock=virtaul"], "'virtual'"),
        (&["run", device, "--name=a", "--zone-write=plgu"], "'plug'"),
        (&["run", device, "--name=a", "--output-format=jsno"], "`json`"),
        (&["run", device, "--name=a", "--ioscheduler=kybre"], "`kyber`"),
        (
            &["run", device, "--name=a", "--scheduler=bfq", "--sched-opt=slice_idel=1"],
            "`slice_idle`",
        ),
        (&["run", device, "--name=a", "--fault=fail=wriet"], "`write`"),
        (&["run", "--device=null:zoned_size=1M", "--name=a"], "`zone_size`"),
        (&["run", "--device=smr-30t:hba=mpt4sas", "--name=a"], "did you mean `mpt3sas`?"),
        (&["run", device, "--name=a", "--fault=fial=write"], "did you mean `fail`?"),
        (&["fit", "zn54", "x.json"], "`zn540`"),
        (&["run", device, "--name=a", "--scheduler=deadline"], "`mq-deadline`"),
        (&["sweep", device, "--name=a", "--vary=policy=plug"], "`zone_write`"),
        (&["crash", "--lsit", "x.log"], "'--list'"),
        (&["options", "iodeph"], "iodepth"),
        (&["devices", "zns-1"], "`zns-1t`"),
        (&["run", "zns-1t", "--name=a"], "--device zns-1t"),
        (&["advise", "--device=zns-1t", "null"], "--device null"),
        (&["zone", "reset", "--conut=3", "null"], "'--count'"),
        (&["advise", "--devise=null", "--name=a"], "did you mean --device?"),
        (&["advise", "--devise", "null", "--name=a"], "did you mean --device?"),
        (&["advise", "--name=a"], "no device: give --device (see zonal devices), or --drives"),
        (&["advise", "device=null", "--name=a"], "an option is given as --device=null"),
        (&["run", device, "--name=a", "bs=4k"], "an option is given as --bs=4k"),
        (&["sweep", device, "--vray=iodepth=1", "--name=a"], "did you mean --vary?"),
        (&["zone", "report", "null:zone_cap=1M"], "did you mean `zone_capacity`?"),
        (&["reproduce", "smr-seq"], "did you mean `smr-seq-qd`?"),
        (&["ctl", "none.sock", "stats"], "did you mean `stat`?"),
        (&["ctl", "none.sock", "statu"], "did you mean `status`?"),
        (&["devices", "smr-3"], "did you mean `smr-30t`?"),
        (&["zone", "report", "a.img:latency=modle"], "did you mean `model`?"),
        (&["zone", "report", "nvme-tcp://h:1/nqn.a?iopolcy=numa"], "did you mean `iopolicy`?"),
    ] {
        let ran = zonal(args);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}: {}", ran.err);
        assert!(ran.err.contains(right), "{args:?}: {}", ran.err);
    }
}

#[test]
fn a_misspelt_key_of_a_profile_is_answered_by_the_nearest_right_one() {
    let dir = TestDir::new().with("p.toml", "device = \"null\"\nzone_cap = \"1M\"\n");
    let ran = dir.zonal(&["zone", "report", "p.toml"]);
    let told = "p.toml:2: unknown option `zone_cap`, did you mean `zone_capacity`?";
    assert!(ran.code == 2 && ran.err.contains(told), "{ran:?}");
}

#[test]
fn a_misspelt_host_is_answered_by_the_nearest_right_one() {
    let cells = "set,driver,lba,op,block,zones,depth,metric,value,unit\n\
                 io,spdk,4096,append:write,4096,1,1,iops,50000,1/s\n";
    let dir = TestDir::new().with("cells.csv", cells);
    let ran = dir.zonal(&["validate", "--device=zn540", "--host-cost=spkd", "cells.csv"]);
    let told = "--host-cost: found `spkd`, expected spdk, io_uring, io_uring_cmd, libaio or a file, \
                did you mean `spdk`?";
    assert!(ran.code == 2 && ran.err.contains(told), "{ran:?}");
}

#[test]
fn writes_that_ignore_zones_are_told_of_zonemode_wherever_jobs_are_measured() {
    let job = ["--device=zns-1t", "--name=a", "--rw=randwrite", "--bs=4k"];
    let told = "; job a: a zone refused a write; zonemode=zbd places writes at the write pointers";
    let quick = ["--time=0.1", "--seeds=1"];
    let advise = ["advise", "--schedulers=none", "--depths=1", "--zone-write=plug"];
    let ran = zonal(&[&advise[..], &quick, &job].concat());
    assert!(ran.code == 2 && ran.err.contains(told), "{ran:?}");
    let ran = zonal(&[&["sweep", "--vary=iodepth=1"], &quick[..], &job].concat());
    assert!(ran.code == 1 && ran.out.contains(told), "{ran:?}");
}

#[test]
fn notices_before_the_json_of_a_report_are_skipped() {
    let job = ["--name=w", "--rw=write", "--bs=128k", "--zonemode=zbd", "--io_size=25m"];
    let run = ["run", "--clock=virtual", "--device=zn540", "--output-format=json", "--direct=1"];
    let report = zonal(&[&run[..], &job, &["--ioengine=io_uring"]].concat()).expect_ok();
    let dir = TestDir::new()
        .with("r.json", &format!("note: both iodepth >= 1\nfio: and so on\n{report}"));
    let ran = dir.zonal(&["validate", "r.json", "--device=zn540"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("r.json: lat_p50 of r: w:write"), "{}", ran.out);
}

#[test]
fn destructive_commands_say_what_they_emptied() {
    let dir = TestDir::new();
    dir.zonal(&["create", "a.img", "--profile=null:zones=4,zone_size=1M"]).expect_ok();
    let reset = || dir.zonal(&["zone", "reset", "a.img"]).expect_ok();
    assert_eq!(reset(), "a.img: reset zones 0 to 3: none held data\n");
    let write = ["--name=a", "--rw=write", "--zonemode=zbd", "--bs=64k", "--io_size=1536k"];
    dir.zonal(&[&["run", "--device=a.img"][..], &write].concat()).expect_ok();
    assert!(reset().contains("2 held data"), "two zones were written");
    assert_eq!(reset(), "a.img: reset zones 0 to 3: none held data\n");
}

#[test]
fn thousands_of_jobs_in_flight_run_at_once() {
    let device = "--device=null:zoned=false,size=16G,queues=4096";
    let jobs = ["--name=a", "--rw=randread", "--numjobs=4096", "--iodepth=64", "--number_ios=1"];
    let run = ["run", "--clock=virtual", "--output-format=json", "--group_reporting", device];
    let out = zonal(&[&run[..], &jobs].concat()).expect_ok();
    let json: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(json["jobs"][0]["read"]["total_ios"], 4096);
}

#[test]
fn readme_says_what_was_never_measured_and_links_what_was_published() {
    let readme = std::fs::read_to_string(repository("README.md")).expect("the README");
    assert!(readme.contains("never measured on real hardware"));
    let sources = std::fs::read_to_string(repository("docs/reproduce.md")).expect("the page");
    let lists = sources.matches("https://lore.kernel.org/").count();
    assert!(lists >= 3 && !sources.contains("?q="), "messages are linked by their ids");
}

#[test]
fn help_has_headings_and_fits_the_terminal() {
    let help = zonal(&["serve", "--help"]).expect_ok();
    for heading in
        ["NVMe/TCP and the NVMe subsystem:", "Monitoring and control:", "Log:", "Virtual machines:"]
    {
        assert!(help.lines().any(|line| line == heading), "{heading}: {help}");
    }
    let (about, options) = help.split_once("\nUsage: ").expect("a usage");
    assert!(about.contains("\n\nExamples:\n  zonal serve "), "{about}");
    let longest = options.lines().skip(1).map(|line| line.chars().count()).max();
    assert!(longest.is_some_and(|longest| longest <= 100), "{longest:?}: {options}");
    let short = zonal(&["serve", "-h"]).expect_ok();
    assert!(!short.contains("Examples:"), "{short}");
}

#[test]
fn reads_of_what_was_never_written_are_no_measurement() {
    let job = ["--name=db", "--rw=randread", "--bs=4k", "--number_ios=10"];
    let told =
        "db: the zones of the device zns-1t are empty, and a drive answers reads of what was never";
    let ran = zonal(
        &[&["run", "--clock=virtual", "--device=zns-1t", "--output-format=json"], &job[..]]
            .concat(),
    );
    assert!(ran.code == 0 && ran.out.contains(told), "{ran:?}");
    let time = ["--time=0.1", "--seeds=1", "--depths=1", "--schedulers=none"];
    let ran = zonal(&[&["advise", "--device=zns-1t"], &time[..], &job].concat());
    assert!(ran.code == 2 && ran.out.is_empty() && ran.err.contains(told), "{ran:?}");
    for device in ["zns-1t:written=100%", "null:zones=8,zone_size=1M"] {
        let device = format!("--device={device}");
        let ran = zonal(
            &[&["run", "--clock=virtual", &device, "--output-format=json"], &job[..]].concat(),
        );
        assert!(ran.code == 0 && !ran.out.contains("never written"), "{ran:?}");
    }
    let written = ["--name=w", "--rw=write", "--bs=1m", "--zonemode=zbd", "--io_size=4m"];
    let after = ["--name=db", "--stonewall", "--rw=read", "--bs=4k", "--number_ios=10"];
    let run = ["run", "--clock=virtual", "--device=zns-1t", "--output-format=json"];
    let ran = zonal(&[&run[..], &written, &after].concat());
    assert!(ran.code == 0 && !ran.out.contains("never written"), "{ran:?}");
}

#[test]
fn a_job_without_io_is_told_wherever_jobs_are_measured() {
    let told = "job r: no I/O was done: the zones of the device zns-1t are empty, so there is nothing to read; \
                write to it first, or create it with written=100%";
    let reader = ["--name=r", "--rw=read", "--bs=4k", "--zonemode=zbd", "--offset=9z", "--size=1z"];
    let writer = ["--name=w", "--rw=write", "--bs=128k", "--zonemode=zbd", "--size=1z"];
    // The writer has the same device: what the reader's own zone lacks has another name.
    let both = [&writer[..], &reader].concat();
    let told_beside = "job r: no I/O was done: the zones of its region hold less than a block each";
    let quick = ["--device=zns-1t", "--time=0.01", "--seeds=1"];
    let advise = ["advise", "--schedulers=none", "--depths=1,4", "--zone-write=plug"];
    let sweep = ["sweep", "--vary=iodepth=1,4"];
    let none = zonal(&[&advise[..], &quick, &reader].concat());
    assert!(none.code == 2 && none.out.is_empty() && none.err.contains(told), "{none:?}");
    for (command, field) in [(&advise[..], "\"without_io\": [\n    \""), (&sweep, "\"failed\": \"")]
    {
        let ran = zonal(&[command, &quick, &both].concat());
        assert!(ran.code == 1 && ran.out.contains(told_beside), "{command:?}: {ran:?}");
        assert!(!ran.out.contains("below the write pointers ("), "it is so in all: {}", ran.out);
        let json = zonal(&[command, &quick, &both, &["--json"]].concat());
        let field = format!("{field}{told_beside}");
        assert!(json.code == 1 && json.out.contains(&field), "{command:?}: {json:?}");
        let page = zonal(&[command, &quick, &both, &["--format=html"]].concat());
        assert!(page.code == 1 && page.out.contains(told_beside), "{command:?}: {page:?}");
        let alone = zonal(&[command, &quick, &writer].concat()).expect_ok();
        assert!(!alone.contains("no I/O"), "{command:?}: {alone}");
    }
    let csv = zonal(&[&advise[..], &quick, &both, &["--format=csv"]].concat());
    assert!(csv.code == 1 && csv.err.contains(told_beside), "{csv:?}");
    // Without zones for the job to know of, a drive answers without its medium.
    let reader = ["--name=db", "--rw=randread", "--bs=4k"];
    let unwritten = zonal(&[&sweep[..], &quick, &reader].concat()).expect_ok();
    assert!(unwritten.contains("\njob db: the zones of the device zns-1t are empty, and a drive"));
}

#[test]
fn an_option_and_a_profile_can_be_asked_for_by_name() {
    assert!(zonal(&["options", "iodepth"]).expect_ok().contains("iodepth"));
    let json = zonal(&["options", "depth", "--format=json"]);
    assert!(json.code == 2 && json.err.contains("did you mean"), "{json:?}");
    let json: serde_json::Value =
        serde_json::from_str(&zonal(&["options", "iodepth", "--json"]).expect_ok()).expect("JSON");
    let names: Vec<_> = json.as_array().expect("a list").iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["iodepth"]);
    let csv = zonal(&["options", "iodepth_batch_submit", "--format=csv"]).expect_ok();
    assert!(csv.lines().count() == 2 && csv.contains("\niodepth_batch,"), "{csv}");
}

#[test]
fn a_region_without_a_zone_says_how_large_one_is() {
    let job = ["--name=a", "--rw=write", "--zonemode=zbd", "--size=64m"];
    let ran = zonal(&[&["run", "--device=zns-1t"], &job[..]].concat());
    let told = "size: the region of 67108864 bytes does not hold one whole zone; expected at least 2147483648, or 1z";
    assert!(ran.code == 2 && ran.err.contains(told), "{}", ran.err);
}
