//! Bad input: exit code 2, and one line that says what is wrong and where.
use crate::support::{RunOutput, TestDir, zonal};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs::File;

const SMALL: &str = "--device=null:zones=8,zone_size=1M";
const JOB: &str = "[a]\nrw=write\nzonemode=zbd\nbs=4k\nsize=1z\n";

#[track_caller]
fn expect_error(ran: RunOutput, message: &str) {
    assert_eq!((ran.code, ran.err.as_str(), ran.out.as_str()), (2, message, ""));
}

#[test]
fn job_file_that_cannot_be_parsed_names_file_and_line() {
    for (text, message) in [
        ("[a]\nrw=write\nbsx=4k\n", "bad.fio:3: unknown option \"bsx\", did you mean \"bs\"?"),
        ("[a]\nbs=4k\n\ncolour=red\n", "bad.fio:4: unknown option \"colour\""),
        ("rw=write\n[a]\n", "bad.fio:1: \"rw=write\" is before the first [section]"),
        ("[a\nrw=write\n", "bad.fio:1: expected a section such as [job], found \"[a\""),
        ("[a]\nbs=4q\n", "bad.fio:2: bs: expected a size such as 4k, found \"4q\""),
        ("[a]\nsize=200%\n", "bad.fio:2: size: percentage above 100 in \"200%\""),
        (
            "[a]\nrw=wriet\n",
            "bad.fio:2: rw: expected one of read, write, trim, rw, readwrite, randread, randwrite, randtrim, randrw, trimwrite, randtrimwrite, found \"wriet\", did you mean `write`?",
        ),
        ("[a]\nzonemode=strided\n", "bad.fio:2: zonemode: needs zonesize"),
        (
            "[a]\nopendir=d\n",
            "bad.fio:2: opendir is not supported: the job uses one device, not files; \
             --allow-unsupported runs the job without it",
        ),
        ("[a]\nnrfiles=2\n", "bad.fio:2: nrfiles: needs filesize or size"),
        ("[a]\noffset=9z\n", "bad.fio:2: offset: needs zonemode=zbd"),
        (
            "[a]\ninclude no.fio\n",
            "bad.fio:2: include no.fio: No such file or directory (os error 2)",
        ),
        (
            "; nothing\n",
            "bad.fio: no job is defined: a job file needs a [section], the command line needs --name",
        ),
    ] {
        let dir = TestDir::new().with("bad.fio", text);
        expect_error(dir.zonal(&["run", SMALL, "bad.fio"]), &format!("zonal: {message}\n"));
    }
}

#[test]
fn missing_files_are_named() {
    let dir = TestDir::new().with("ok.fio", JOB);
    for (args, message) in [
        (["run", SMALL, "missing.fio"], "missing.fio: No such file or directory (os error 2)"),
        (
            ["run", "--device=missing.toml", "ok.fio"],
            "device missing.toml: missing.toml: cannot read the device profile: \
             No such file or directory (os error 2)",
        ),
    ] {
        expect_error(dir.zonal(&args), &format!("zonal: {message}\n"));
    }
    let ran = dir.zonal(&["run", SMALL, "--output=no/such/place", "ok.fio"]);
    expect_error(ran, "zonal: --output no/such/place: No such file or directory (os error 2)\n");
}

#[test]
fn files_that_may_never_end_are_refused() {
    let dir = TestDir::new().with("ok.fio", JOB).with("zero.fio", "[a]\ninclude /dev/zero\n");
    let fifo = |name| {
        let (mode, kind) = (Mode::RUSR | Mode::WUSR, FileType::Fifo);
        mknodat(CWD, dir.path().join(name), kind, mode, 0).expect("a FIFO");
    };
    ["fifo", "fifo.toml", "fifo.img"].into_iter().for_each(fifo);
    let dir = dir.with("long.toml", &"#\n".repeat((1 << 19) + 1));
    let regular = "expected a regular file";
    let cannot_read = "cannot read the device profile";
    for (args, message) in [
        (&["run", SMALL, "fifo"][..], format!("fifo: found a FIFO, {regular}")),
        (&["run", SMALL, "/dev/zero"], format!("/dev/zero: found a device, {regular}")),
        (
            &["run", SMALL, "zero.fio"],
            format!("zero.fio:2: include /dev/zero: found a device, {regular}"),
        ),
        (
            &["run", "--device=fifo.toml", "ok.fio"],
            format!("device fifo.toml: fifo.toml: {cannot_read}: found a FIFO, {regular}"),
        ),
        (
            &["run", "--device=long.toml", "ok.fio"],
            format!(
                "device long.toml: long.toml: {cannot_read}: found more than 1 MiB, expected less"
            ),
        ),
        (
            &["create", "a.img", "--profile", "fifo.toml"],
            format!("device fifo.toml: fifo.toml: {cannot_read}: found a FIFO, {regular}"),
        ),
        (&["fit", "zns-1t", "fifo"], format!("fifo: cannot read: found a FIFO, {regular}")),
        (
            &["run", SMALL, "--trace=fifo", "ok.fio"],
            format!("--trace fifo: found a FIFO, {regular}"),
        ),
        (&["crash", "fifo", "--events"], format!("fifo: found a FIFO, {regular}")),
        (
            &["crash", "none", "--check=true {image}", "--resume=fifo"],
            format!("--resume fifo: found a FIFO, {regular}"),
        ),
        (
            &["check", "fifo"],
            "image fifo: cannot open the file: it is not a regular file".to_owned(),
        ),
        (
            &["check", "/dev/zero"],
            "image /dev/zero: cannot open the file: it is not a regular file".to_owned(),
        ),
        (
            &["zone", "report", "fifo.img"],
            "image fifo.img: cannot open the file: it is not a regular file".to_owned(),
        ),
    ] {
        expect_error(dir.zonal(args), &format!("zonal: {message}\n"));
    }
    let ran = dir.zonal_dev(&["torture", "--replay", "fifo"]);
    expect_error(ran, &format!("zonal-dev: --replay: fifo: found a FIFO, {regular}\n"));
    let kept = "--device=null:zones=8,zone_size=1M,memory=true";
    let ran = dir.zonal(&["run", kept, "--record=fifo", "ok.fio"]);
    let message = format!("zonal: --record: fifo: cannot write the log: found a FIFO, {regular}\n");
    assert_eq!((ran.code, ran.err), (2, message));
}

#[test]
fn terminal_executes_nothing_of_what_files_say() {
    let evil = "[\u{1b}[2Jtitle\u{7}]\nrw=write\nzonemode=zbd\nbs=4k\nsize=1z\n";
    let dir = TestDir::new().with("evil.fio", evil).with("bad.fio", "[a]\n\u{9b}2J=1\n");
    let show = |args: &[&str]| {
        let ran = dir.zonal(args);
        for text in [&ran.out, &ran.err] {
            let executed = |c: char| c.is_control() && c != '\n' && c != '\t';
            assert!(!text.contains(executed), "{args:?}: {text:?}");
        }
        ran
    };
    for format in ["normal", "terse", "json"] {
        let ran = show(&["run", SMALL, "--clock=virtual", "--output-format", format, "evil.fio"]);
        assert!(ran.code == 0 && ran.out.contains("\\u001b[2Jtitle\\u0007"), "{ran:?}");
    }
    let ran = show(&["run", SMALL, "bad.fio"]);
    assert!(ran.code == 2 && ran.err.contains("\\u{9b}2J"), "{ran:?}");
    let ran = show(&["crash", "no\u{1b}[2Jfile", "--events"]);
    assert!(ran.code == 2 && ran.err.contains("\\u001b[2J"), "{ran:?}");
}

#[test]
fn endless_standard_input_is_refused() {
    let dir = TestDir::new();
    let mut endless = dir.command(&["run", SMALL, "-"]);
    let output = endless.stdin(File::open("/dev/zero").expect("it is there")).output();
    let message = "zonal: -: found more than 16 MiB, expected less\n";
    expect_error(RunOutput::from(output.expect("it starts")), message);
}

#[test]
fn jobs_that_would_take_all_memory_are_refused() {
    for (options, message) in [
        (
            &["--numjobs=4096", "--iodepth=1048576"][..],
            "iodepth: job a and those that run with it would have 4294967296 I/Os in flight, \
             expected at most 2097152",
        ),
        (
            &["--numjobs=4096", "--name=b"],
            "numjobs: the jobs have 4097 clones in total, expected at most 4096",
        ),
    ] {
        let ran = zonal(&[&["run", SMALL, "--name=a"][..], options].concat());
        expect_error(ran, &format!("zonal: {message}\n"));
    }
    let with_data = format!("{SMALL},memory=true");
    let options = ["--name=a", "--numjobs=4096", "--iodepth=512", "--bs=1m"];
    expect_error(
        zonal(&[&["run", &with_data][..], &options].concat()),
        "zonal: iodepth: job a and those that run with it would have 2199023255552 bytes of data in \
         flight, expected at most 68719476736\n",
    );
}

#[test]
fn unreachable_device_is_reported_once() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let target = listener.local_addr().expect("an address");
    drop(listener);
    let device = format!("nvme-tcp://{target}/nqn.2026-11.org.example:gone");
    let ran = zonal(&["zone", "report", &device]);
    let message = format!(
        "zonal: device {device}: cannot connect to {target}: Connection refused (os error 111)\n"
    );
    expect_error(ran, &message);
}

#[test]
fn bad_device_option_is_reported_with_its_value_and_rule() {
    for (spec, message) in [
        (
            "null:zone_size=1M,zone_capacity=2M",
            "option `zone_capacity`: found 2MiB, expected a non-zero multiple of lba=512 up to \
             zone_size=1MiB",
        ),
        ("null:zones=0", "option `zones`: found 0, expected from 1 to 16777216"),
        (
            "null:max_open=8,max_active=4",
            "option `max_open`: found 8, expected at most max_active=4",
        ),
        ("null:lba=1024", "option `lba`: found 1024, expected 512 or 4096"),
        (
            "null:lba=4096,zone_size=1000K,zone_capacity=999K",
            "option `zone_capacity`: found 999KiB, expected a non-zero multiple of lba=4096 up to \
             zone_size=1000KiB",
        ),
        ("null:zones=8,conventional=9", "option `conventional`: found 9, expected at most zones=8"),
        ("null:zones=x", "option `zones`: found `x`, expected a whole number"),
        (
            "null:queues=70000",
            "option `queues`: found `70000`, expected a whole number, at most 65535",
        ),
        ("null:zones=8,zones=9", "option `zones` is given twice, expected once"),
        ("null:zone-size=1M", "unknown option `zone-size`, did you mean `zone_size`?"),
        ("null:zoned", "found `zoned`, expected `option=value`"),
        (
            "null:zoned=false,zones=4",
            "option `zones` found with zoned=false, expected with zoned=true",
        ),
        (
            "disk",
            "unknown device `disk`, expected `null`, `hdd`, `zns`, `ssd` or a profile (smr-30t, smr-30t-mpi3mr, \
             smr-20t, smr-20t-512e, sata-2009, zns-1t, zn540), each also with `:option=value,...`, or `NAME.toml`",
        ),
        ("zns-1t:max_active=905", "option `max_active`: found 905, expected at most zones=904"),
    ] {
        let ran = zonal(&["run", "--device", spec, "--name=a"]);
        expect_error(ran, &format!("zonal: device {spec}: {message}\n"));
    }
}

#[test]
fn profile_errors_name_file_and_line() {
    for (text, message) in [
        (
            "device = \"null\"\nzones = 0\n",
            "bad.toml:2: option `zones`: found 0, expected from 1 to 16777216",
        ),
        (
            "device = \"null\"\n\nzonse = 4\n",
            "bad.toml:3: unknown option `zonse`, did you mean `zones`?",
        ),
        ("zones = 4\n", "bad.toml: found no key `device`, expected device = \"null\""),
    ] {
        let dir = TestDir::new().with("bad.toml", text);
        let ran = dir.zonal(&["run", "--device=bad.toml", "--name=a"]);
        expect_error(ran, &format!("zonal: device bad.toml: {message}\n"));
    }
}

#[test]
fn zone_size_need_not_be_a_power_of_two() {
    let device = "--device=null:zones=4,zone_size=96M,zone_capacity=90M";
    let job = ["--name=a", "--rw=write", "--bs=1m", "--zonemode=zbd", "--io_size=360m"];
    let out = zonal(&[&["run", device][..], &job].concat()).expect_ok();
    assert!(out.contains("(360MiB/") && out.contains("0 zone resets"), "{out}");
}

#[test]
fn jobs_that_do_not_fit_their_device_are_rejected_before_anything_runs() {
    for (device, options, message) in [
        (
            "null:lba=4096",
            &["--bs=512"][..],
            "bs: 512 bytes is not a multiple of the device's LBA of 4096",
        ),
        (
            "null:zones=8,zone_size=1M",
            &["--zonemode=zbd", "--size=9z"],
            "size: the region ends at 9437184, beyond the device's 8388608 bytes",
        ),
        (
            "null:zoned=false,size=1G",
            &["--zonemode=zbd"],
            "zonemode: zbd needs a zoned device, this one has no zones",
        ),
        (
            "null:zones=8,zone_size=1M,max_open=4",
            &["--zonemode=zbd", "--max_open_zones=5"],
            "max_open_zones: found 5, but the device allows 4 open zones; ignore_zone_limits=1 \
             tries more",
        ),
        (
            "null:zones=8,zone_size=1M",
            &["--zonemode=zbd", "--zonesize=2m"],
            "zonesize: 2097152 bytes, but the device's zones have 1048576",
        ),
    ] {
        let args = [&["run", "--device", device, "--name=first", "--size=4k", "--name=a"], options];
        expect_error(zonal(&args.concat()), &format!("zonal: job a: {message}\n"));
    }
}

#[test]
fn image_without_a_profile_says_which_there_are() {
    let ran = zonal(&["create", "a.img"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{}", ran.err);
    assert!(ran.err.starts_with("zonal: create: found no --profile, expected"), "{}", ran.err);
    assert!(ran.err.contains("zn540"), "{}", ran.err);
}

#[test]
fn limits_that_do_not_fit_a_small_device_are_lowered_and_said_to_be() {
    let dir = TestDir::new();
    let ran = dir.zonal(&["create", "a.img", "--profile=zns-1t", "--zones=8"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.starts_with("a.img: 8 zones of 2GiB"), "{}", ran.out);
    assert!(ran.err.contains("max_open lowered from 14 to zones=8"), "{}", ran.err);
}

#[test]
fn job_without_device_says_how_to_give_one() {
    let ran = zonal(&["run", "--name=a"]);
    let message = "job a: no device: give --device or filename (see zonal devices)";
    expect_error(ran, &format!("zonal: {message}\n"));
}

#[test]
fn unknown_command_line_options_are_named() {
    for (option, message) in [
        ("--bogus", "command line: unknown option --bogus"),
        ("--iodeph=4", "command line: unknown option --iodeph, did you mean --iodepth?"),
        ("--numjobs=4000000000", "command line: numjobs: expected 1 to 4096, found \"4000000000\""),
        (
            "--iodepth=4000000000",
            "command line: iodepth: expected 1 to 1048576, found \"4000000000\"",
        ),
        ("--size=4q", "command line: size: expected a size such as 4k, 50% or 8z, found \"4q\""),
        (
            "--output-format=xml",
            "--output-format: unknown output format 'xml': expected normal, terse, json or json+",
        ),
        ("--section=b", "command line: --section=b: the job files have no such section"),
    ] {
        expect_error(zonal(&["run", SMALL, "--name=a", option]), &format!("zonal: {message}\n"));
    }
    for args in [&["run", "--clock=sundial"][..], &["run", "--seed=x"], &["frob"], &[]] {
        let ran = zonal(args);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(!ran.err.is_empty());
    }
}

#[test]
fn options_that_would_do_nothing_are_refused() {
    for (options, message) in [
        (
            &["--io-cost=5"][..],
            "zonal: --io-cost: found --clock=real, where an I/O costs what it takes, expected \
             --clock=virtual\n",
        ),
        (&["--trace-size=1M"], "--trace <FILE>"),
        (&["--trace-sample=2"], "--explain"),
        (&["--log_issue_time=1"], "log_issue_time: needs write_lat_log and log_offset"),
    ] {
        let ran = zonal(&[&["run", SMALL, "--name=a"][..], options].concat());
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{options:?}: {}", ran.err);
        assert!(ran.err.contains(message), "{options:?}: {}", ran.err);
    }
}

#[test]
fn trace_that_cannot_be_written_is_told_before_the_jobs_run() {
    for format in ["perfetto", "json", "blktrace"] {
        let format = format!("--trace-format={format}");
        let ran = zonal(&["run", SMALL, "--name=a", "--trace=no/such/place", &format]);
        expect_error(ran, "zonal: --trace no/such/place: No such file or directory (os error 2)\n");
    }
}

#[test]
fn numbers_and_options_that_clap_refuses_say_what_is_expected() {
    for (args, message) in [
        (
            &["run", "--seed=-1"][..],
            "invalid value '-1' for '--seed <SEED>': expected a whole number",
        ),
        (
            &["run", "--seed=99999999999999999999"],
            "'99999999999999999999' for '--seed <SEED>': expected a smaller number",
        ),
        (&["crash", "--sho", "x.log"], "error: unexpected argument '--sho' found\n\nUsage: "),
        (&["serve", "--nvme-tpc=localhost:4420", "null"], "similar argument exists: '--nvme-tcp'"),
    ] {
        let ran = zonal(args);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}: {}", ran.err);
        assert!(ran.err.contains(message), "{args:?}: {}", ran.err);
    }
}

/// Values that their options do not take.
const BAD_VALUES: &str = "iodepth=abc iodepth=0 bs=-4k bs=0 bs=16E bs=99999999999999999999 size=1e9x \
    size=200% size=$foo size=(1+ size=(1/0) io_size=5q offset=200% runtime=-5 runtime=5parsecs \
    runtime=99999999999d thinktime=5x startdelay=5-2 rwmixread=101 rw=wriet rw=write:abc bsrange=4k \
    bsrange=8k-4k bssplit=4k/60:8k/60 random_distribution=zipf:1 random_distribution=zoned:50/10:40/90 \
    ioengine=spdk cpus_allowed=0- cpus_allowed=foo prioclass=7 cmdprio_bssplit=4k/10/1/2/3 \
    verify=crc33 verify_pattern=zz exit_what=some zonemode=zdb max_open_zones=-1 \
    zone_reset_threshold=1.5 filesystem=ext4 filesize=10-5 pattern=raidtst steadystate=iops \
    steadystate=iosp:5% latency_percentile=200 continue_on_error=maybe ignore_error=EFOO loops=x \
    numjobs=0 numjobs=5000 rate=1m,2m,3m,4m kb_base=1001 unit_base=3 flow=5000 randseed=abc \
    log_avg_msec=1h log_window_value=mean replay_skip=raed time_based=maybe direct=2 \
    sync=sometimes num_range=8 sprandom=1 fdp=2 dataplacement=streams plids=0- plid_select=schem";

#[test]
fn each_bad_value_is_named_with_file_line_and_option() {
    for line in BAD_VALUES.split_whitespace() {
        let dir = TestDir::new().with("t.fio", &format!("[a]\n{line}\n"));
        let ran = dir.zonal(&["run", SMALL, "t.fio"]);
        let (option, value) = line.split_once('=').expect("an option");
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{line}: {}", ran.err);
        let told = ran.err.strip_prefix(&format!("zonal: t.fio:2: {option}"));
        let told = told.unwrap_or_else(|| panic!("{line}: {}", ran.err));
        // Options that no value is for say why, with no value.
        let why = told.starts_with(" is not supported: ") || told.contains(value);
        assert!(why && told.lines().count() == 1, "{line}: {}", ran.err);
    }
}
