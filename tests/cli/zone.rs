//! `zonal zone`: blkzone's options, its output, and errors.
use crate::support::{run, zonal};

/// Eight zones of 1 MiB (2048 sectors), two of them conventional, at most four open.
const SMALL: &str = "null:zones=8,zone_size=1M,zone_capacity=768K,conventional=2,max_open=4";

/// Runs `zonal zone`: exit code, standard output, standard error.
fn zone(args: &[&str]) -> (i32, String, String) {
    run(&["zone"], args)
}

/// Standard output of a run that succeeds without messages.
#[track_caller]
fn run_ok(args: &[&str]) -> String {
    zonal(&[&["zone"][..], args].concat()).expect_ok()
}

/// The zone conditions of a report in their short names, with the write pointers.
fn conditions(report: &str) -> Vec<(String, String)> {
    let field = |line: &str, before: &str, end: char| {
        let (_, rest) = line.split_once(before).expect("the field");
        rest.split(end).next().expect("its text").to_owned()
    };
    let zones = report.lines().filter(|line| line.starts_with("  start:"));
    zones
        .map(|line| (field(line, "zcond:", ')')[3..].to_owned(), field(line, "wptr ", ' ')))
        .collect()
}

#[test]
fn report_is_that_of_blkzone_to_the_byte() {
    let script = "write 0x1000 8; open 6144; write 8192 16; close 8192; finish 10240; \
                  append 12288 24; reset 12288";
    let report = run_ok(&["report", SMALL, "--after", script]);
    let expected = "  \
  start: 0x000000000, len 0x000800, cap 0x000800, wptr 0x000000 reset:0 non-seq:0, zcond: 0(nw) [type: 1(CONVENTIONAL)]
  start: 0x000000800, len 0x000800, cap 0x000800, wptr 0x000000 reset:0 non-seq:0, zcond: 0(nw) [type: 1(CONVENTIONAL)]
  start: 0x000001000, len 0x000800, cap 0x000600, wptr 0x000008 reset:0 non-seq:0, zcond: 2(oi) [type: 2(SEQ_WRITE_REQUIRED)]
  start: 0x000001800, len 0x000800, cap 0x000600, wptr 0x000000 reset:0 non-seq:0, zcond: 3(oe) [type: 2(SEQ_WRITE_REQUIRED)]
  start: 0x000002000, len 0x000800, cap 0x000600, wptr 0x000010 reset:0 non-seq:0, zcond: 4(cl) [type: 2(SEQ_WRITE_REQUIRED)]
  start: 0x000002800, len 0x000800, cap 0x000600, wptr 0x000800 reset:0 non-seq:0, zcond:14(fu) [type: 2(SEQ_WRITE_REQUIRED)]
  start: 0x000003000, len 0x000800, cap 0x000600, wptr 0x000000 reset:0 non-seq:0, zcond: 1(em) [type: 2(SEQ_WRITE_REQUIRED)]
  start: 0x000003800, len 0x000800, cap 0x000600, wptr 0x000000 reset:0 non-seq:0, zcond: 1(em) [type: 2(SEQ_WRITE_REQUIRED)]
";
    assert_eq!(report, expected.trim_start_matches("  \n"));
}

#[test]
fn report_covers_the_range_and_prints_the_number_of_zones() {
    let all = run_ok(&["report", SMALL]);
    let lines: Vec<&str> = all.lines().collect();
    let part = run_ok(&["report", "-v", "-o", "4096", "-c", "2", SMALL]);
    let found: Vec<&str> = part.lines().collect();
    assert_eq!(found, [&["Found 2 zones from 0x1000"], &lines[2..4]].concat());
    let by_length = run_ok(&["report", "--offset", "0x1000", "--length", "2K", SMALL]);
    assert_eq!(by_length.lines().collect::<Vec<_>>(), &lines[2..3]);
    let rest = run_ok(&["report", "--offset=12288", "--length=1G", SMALL]);
    assert_eq!(rest.lines().count(), 2, "a range ends with the device");
}

#[test]
fn long_reports_are_split_as_by_blkzone() {
    let report = run_ok(&["report", "-v", "null:zones=5000,zone_size=1M"]);
    let found: Vec<&str> = report.lines().filter(|line| line.starts_with("Found")).collect();
    assert_eq!(found, ["Found 4096 zones from 0x0", "Found 904 zones from 0x800000"]);
    assert_eq!(report.lines().count(), 5002);
}

#[test]
fn filter_selects_zones_and_count_limits_the_output() {
    let script = "finish 4096; finish 6144; open 8192; write 10240 8";
    let filtered = |filter: &str, more: &[&str]| {
        let args = ["report", SMALL, "--after", script, "-v", "--filter", filter];
        run_ok(&[&args, more].concat())
    };
    for (filter, condition, count) in [
        ("full", "fu", 2),
        ("explicit-open", "oe", 1),
        ("implicit-open", "oi", 1),
        ("empty", "em", 2),
        ("conventional", "nw", 2),
        ("closed", "cl", 0),
        ("read-only", "ro", 0),
        ("offline", "of", 0),
    ] {
        let report = filtered(filter, &[]);
        let found = conditions(&report);
        assert_eq!(found.len(), count, "{filter}");
        assert!(found.iter().all(|(short, _)| short == condition), "{filter}: {found:?}");
        assert!(report.ends_with(&format!("Found {count} of {count} matching zones from 0x0\n")));
    }
    let partial = filtered("full", &["--count", "1"]);
    assert_eq!(conditions(&partial).len(), 1);
    assert!(partial.ends_with("Found 1 of 2 matching zones from 0x0\n"), "{partial}");
}

#[test]
fn capacity_is_the_sum_over_the_range() {
    assert_eq!(run_ok(&["capacity", SMALL]), "0x000003400\n");
    assert_eq!(run_ok(&["capacity", "-o", "4096", "-c", "2", SMALL]), "0x000000c00\n");
}

#[test]
fn zones_are_opened_closed_finished_and_reset() {
    let name = |command| format!("{SMALL}: successful {command} of zones in range from");
    for command in ["open", "finish", "reset"] {
        let out = run_ok(&[command, "-v", "-o", "4096", "-l", "4096", SMALL]);
        assert_eq!(out, format!("{} 4096, to 8192\n", name(command)));
    }
    let out =
        run_ok(&["close", "-f", "-v", "-o", "4096", "-c", "1", "--after", "open 4096", SMALL]);
    assert_eq!(out, format!("{} 4096, to 6144\n", name("close")));
    let out = run_ok(&["reset", "--after", "write 4096 8; finish 6144", SMALL]);
    let told = "reset zones 0 to 7: 2 held data, 772KiB, which are gone";
    assert_eq!(out, format!("{SMALL}: {told}\n"), "conventional zones are left out");
    let out = run_ok(&["reset", SMALL]);
    assert_eq!(out, format!("{SMALL}: reset zones 0 to 7: none held data\n"));
}

#[test]
fn bad_ranges_and_devices_exit_with_2_and_name_the_option() {
    let start = "expected the start of a zone, a multiple of 2048";
    for (args, message) in [
        (&["report", "-o", "7", SMALL][..], format!("--offset 7: {start}")),
        (&["reset", "-o", "2049", SMALL], format!("--offset 2049: {start}")),
        (&["finish", "-o", "16K", SMALL], "--offset 16384: the device ends at sector 16384".into()),
        (
            &["open", "-l", "100", SMALL],
            "--length 100: expected whole zones, a multiple of 2048".into(),
        ),
        (&["reset", "-c", "0", SMALL], "--count 0: expected at least one zone".into()),
        (&["report", "null:zoned=false"], "device null:zoned=false: it has no zones".into()),
        (&["report", "disk"], "device disk: unknown device `disk`".into()),
        (&["report", "--after", "burn 0", SMALL], "--after: `burn 0`: found burn".into()),
    ] {
        let (code, out, err) = zone(args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
        assert!(err.contains(&message), "{args:?}: {err}");
    }
    for args in [&["report", "-o", "x", SMALL][..], &["report", "-c", "1", "-l", "1", SMALL]] {
        let (code, _, err) = zone(args);
        assert_eq!(code, 2, "{err}");
        assert!(err.contains("--offset") || err.contains("--length"), "{err}");
    }
}

#[test]
fn failed_operation_exits_with_1_and_prints_its_status() {
    for (args, message) in [
        (
            &["open", "-o", "4096", SMALL][..],
            "zonal: zone 6 at sector 12288: too many open zones: at most 4 zones may be open \
             (zone 6: empty, write pointer 12288)\n",
        ),
        (
            &["finish", SMALL],
            "zonal: zone 0 at sector 0: I/O error: a conventional zone has no conditions to change \
             (zone 0: not-write-pointer)\n",
        ),
        (
            &["close", "-o", "4096", SMALL],
            "zonal: zone 2 at sector 4096: I/O error: only an open zone can be closed (zone 2: \
             empty, write pointer 4096)\n",
        ),
        (
            &["report", "--after", "write 4104 8", SMALL],
            "zonal: --after: write 4104 8: I/O error: a write must begin at the write pointer (zone 2: \
             empty, write pointer 4096)\n",
        ),
    ] {
        assert_eq!(zone(args), (1, String::new(), message.to_owned()), "{args:?}");
    }
}
