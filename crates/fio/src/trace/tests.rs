//! Traces of every format.
use super::*;
use crate::job::Fraction;
use proptest::prelude::*;

const FIO_3: &str = include_str!("../../tests/data/trace/fio-3.33-v3.iolog");
const FIO_2: &str = include_str!("../../tests/data/trace/fio-v2.iolog");
const BLKPARSE: &str = include_str!("../../tests/data/trace/blkparse.txt");

fn parse(text: &str) -> Result<(Format, Trace), TraceError> {
    read("t", &mut text.as_bytes(), BlkparseAction::Queue)
}

fn parse_ok(text: &str) -> Trace {
    parse(text).expect("a trace").1
}

fn parse_err(text: &str) -> String {
    parse(text).expect_err("an error").to_string()
}

fn short(trace: &Trace) -> Vec<(u64, Op, u64, u64)> {
    trace.requests.iter().map(|it| (it.at.0 / 1000, it.op, it.offset, it.len)).collect()
}

#[test]
fn iolog_of_fio_3_33_is_parsed() {
    let (format, trace) = parse(FIO_3).expect("a trace");
    assert_eq!((format, &trace.files[..]), (Format::Iolog3, &[("f.dat".to_owned(), 2)][..]));
    let requests = short(&trace);
    assert_eq!(requests.len(), 14);
    assert_eq!(requests[..2], [(148, Op::Write, 57344, 8192), (174, Op::Read, 774_144, 4096)]);
    assert_eq!(requests[7], (9517, Op::Flush, 0, 0));
    assert_eq!(trace.requests[7].line, 11);
}

#[test]
fn iolog_version_2_has_the_same_requests_with_times_from_the_start() {
    let (format, trace) = parse(FIO_2).expect("a trace");
    assert_eq!(format, Format::Iolog2);
    let without_time = |trace: &Trace| {
        let requests = short(trace).into_iter();
        requests.map(|(_, op, offset, len)| (op, offset, len)).collect::<Vec<_>>()
    };
    assert_eq!(without_time(&trace), without_time(&parse_ok(FIO_3)));
    assert_eq!(trace.requests[2].at, Nanos(5_360_000));
    assert_eq!(trace.requests[3].at, Nanos(5_755_000));
}

#[test]
fn blkparse_events_of_an_action_are_parsed_up_to_the_summary() {
    let (format, trace) = parse(BLKPARSE).expect("a trace");
    assert_eq!(format, Format::Blkparse);
    assert_eq!(trace.files, [("8,0".to_owned(), 2), ("8,16".to_owned(), 13)]);
    let (none, asynchronous) = (BioFlags::NONE, BioFlags::ASYNC);
    let seen: Vec<_> = trace
        .requests
        .iter()
        .map(|it| (it.at.0, it.file, it.op, it.offset / 512, it.len / 512, it.flags))
        .collect();
    assert_eq!(
        seen,
        [
            (575, 0, Op::Write, 223_490, 8, asynchronous),
            (120_000, 0, Op::Read, 4096, 256, none),
            (200_000, 1, Op::Write, 1024, 16, none),
            (201_500, 1, Op::Write, 2048, 8, BioFlags::PREFLUSH | BioFlags::FUA),
            (300_000, 1, Op::Flush, 0, 0, none),
            (310_000, 1, Op::Flush, 0, 0, none),
            (400_000, 1, Op::Discard, 8192, 2048, none),
            (500_000, 1, Op::Write, 16, 8, none),
        ]
    );
    let issued = read("t", &mut BLKPARSE.as_bytes(), BlkparseAction::Issue).expect("a trace").1;
    let seen: Vec<_> = issued.requests.iter().map(|it| (it.op, it.offset / 512)).collect();
    assert_eq!(seen, [(Op::Write, 223_490), (Op::Read, 4096), (Op::Read, 4224)]);
    let parts: Vec<_> = trace.split().iter().map(|part| part.requests.len()).collect();
    assert_eq!(parts, [2, 6]);
}

#[test]
fn events_are_sorted_by_time() {
    let event = |time, sector| format!("8,0 0 1 {time} 1 Q R {sector} + 8 [a]\n");
    let trace = parse_ok(&[event("0.3", 3), event("0.000000002", 2), event("0.1", 1)].concat());
    let seen: Vec<_> = trace.requests.iter().map(|it| (it.at.0, it.offset / 512)).collect();
    assert_eq!(seen, [(2, 2), (100_000_000, 1), (300_000_000, 3)]);
}

#[test]
fn waits_of_version_2_add_up_and_short_ones_are_ignored() {
    let text = "fio version 2 iolog\na add\na open\na wait 99 0\na read 0 512\na wait 100 0\n\
                a read 0 512\na wait 250 0\na sync 0 0\na close\n";
    let times: Vec<u64> = parse_ok(text).requests.iter().map(|it| it.at.0).collect();
    assert_eq!(times, [0, 100_000, 350_000]);
}

#[test]
fn errors_name_file_and_line() {
    let iolog2 = |rest: &str| parse_err(&format!("fio version 2 iolog\na add\na open\n{rest}"));
    let iolog3 = |rest: &str| parse_err(&format!("fio version 3 iolog\n0 a add\n5 a open\n{rest}"));
    let event = |rest: &str| parse_err(&format!("8,0 0 1 0.1 1 Q {rest}\n"));
    for (found, expected) in [
        (parse_err(""), "t:1: the file is empty"),
        (parse_err("hello\n"), "t:1: found \"hello\", expected \"fio version 2 iolog\""),
        (parse_err("fio version 1 iolog\n"), "t:1: found \"fio version 1 iolog\""),
        (parse_err("\x07tae...."), "t:1: the file is truncated: it ends within a record"),
        (parse_err("fio version 2 iolog\nb read 0 512\n"), "t:2: read: file b is not open"),
        (parse_err("fio version 2 iolog\nb open\n"), "t:2: open: file b was not added"),
        (iolog2("a close\na read 0 512\n"), "t:5: read: file a is not open"),
        (iolog2("a close\na close\n"), "t:5: close: file a is not open"),
        (iolog2("a read 0 512"), "t:4: the file is truncated"),
        (iolog2("a read x 512\n"), "t:4: found offset \"x\", expected bytes"),
        (iolog2("a read 0 0\n"), "t:4: read 0 0: expected a length"),
        (iolog2("a read 18446744073709551615 2\n"), "t:4: read 18446744073709551615 2"),
        (iolog2("a erase 0 512\n"), "t:4: found action \"erase\""),
        (iolog2("a read 0\n"), "t:4: found \"a read 0\", expected FILE ACTION"),
        (iolog2("a wait soon 0\n"), "t:4: found \"soon\", expected microseconds"),
        (iolog3("9 a wait 100 0\n"), "t:4: found action \"wait\""),
        (iolog3("4 a read 0 512\n"), "t:4: timestamp 4 is before that of the line above"),
        (iolog3("a read 0 512\n"), "t:4: found \"a\", expected a timestamp"),
        (event("R 8 + 8 [a]\n8,0 0 2"), "t:2: expected seconds in \"8,0 0 2\""),
        (event("R 8 - 8 [a]"), "t:1: expected SECTOR + SECTORS"),
        (event("Y 8 + 8 [a]"), "t:1: found \"Y\", expected RWBS"),
        (event("WY 8 + 8 [a]"), "t:1: found 'Y' in RWBS \"WY\""),
        (event("R 99999999999999999999 + 8 [a]"), "t:1: found \"99999999999999999999\""),
        (event("R 8 + 8 [a]\n8,0 0 2 1.x 1 Q R 8 + 8"), "t:2: found \"1.x\", expected seconds"),
        (event("R 8 + 8 [a]\nnonsense"), "t:2: found \"nonsense\", expected a device"),
        (parse_err("zonal pattern 1\n"), "t:2: the file is truncated"),
        (parse_err("zonal pattern 1\nmine\nR 0 512\n"), "t:4: the file is truncated"),
        (parse_err("zonal pattern 1\nmine\nT 0 512\n"), "t:3: found \"T 0 512\", expected R"),
        (parse_err("zonal pattern 1\nmine\nR 0 512\nend 1 00\n"), "t:4: found end \"1 00\""),
    ] {
        assert!(found.starts_with(expected), "{found:?}, expected {expected:?}");
    }
    let long = format!("fio version 2 iolog\n{}\n", "a".repeat(5000));
    assert_eq!(parse_err(&long), "t:2: the line is longer than 4096 bytes");
    let bytes = read("t", &mut &b"8,0 \xff\n"[..], BlkparseAction::Queue).expect_err("not text");
    assert_eq!(bytes.to_string(), "t:1: not valid UTF-8");
}

#[test]
fn damaged_pattern_fails_its_checksum() {
    let raidtest = Raidtest { requests: 50, ..raidtest() };
    let requests = raidtest.generate().expect("a pattern");
    let text = pattern::print(&raidtest.origin(), &requests);
    assert_eq!(parse_ok(&text).requests, requests);
    for (from, to) in [("R ", "W "), ("size=1073741824", "size=1073741825")] {
        let damaged = text.replacen(from, to, 1);
        assert!(parse_err(&damaged).ends_with("the file is damaged"), "{}", parse_err(&damaged));
    }
    let mut lines: Vec<&str> = text.lines().collect();
    lines.remove(10);
    assert!(parse_err(&(lines.join("\n") + "\n")).starts_with("t:52: found end \"50 "));
    assert_eq!(parse_err(&format!("{text}R 0 512\n")), "t:54: found a line after the end");
}

fn raidtest() -> Raidtest {
    Raidtest {
        start: 0,
        size: 1 << 30,
        requests: Raidtest::REQUESTS,
        align: 512,
        max_size: Raidtest::MAX_SIZE,
        writes: Fraction::HALF,
        seed: 1,
    }
}

#[test]
fn raidtest_requests_are_reproducible() {
    let requests = raidtest().generate().expect("a pattern");
    let first: Vec<_> = requests.iter().take(3).map(|it| (it.op, it.offset, it.len)).collect();
    assert_eq!(first, PINNED);
    assert_eq!(requests.len(), 10_000);
    let writes = requests.iter().filter(|it| it.op == Op::Write).count();
    assert!((4800..5200).contains(&writes), "{writes} of 10000 are writes");
    let mean = requests.iter().map(|it| it.len).sum::<u64>() / 10_000;
    assert!((63 << 10..66 << 10).contains(&mean), "{mean} bytes on average");
    let aligned =
        |it: &Request| (it.offset | it.len).is_multiple_of(512) && it.offset + it.len <= 1 << 30;
    assert!(requests.iter().all(aligned));
    assert!(requests.iter().any(|it| it.len == 512) && requests.iter().any(|it| it.len == 131_072));
}

#[test]
fn raidtest_fills_a_region_that_holds_one_request() {
    let tight = Raidtest { start: 4096, size: 4096, max_size: 4096, align: 4096, ..raidtest() };
    let requests = tight.generate().expect("a pattern");
    assert!(requests.iter().all(|it| (it.offset, it.len) == (4096, 4096)));
    for (wrong, option) in [
        (Raidtest { align: 0, ..tight }, "align"),
        (Raidtest { align: 1000, ..tight }, "align"),
        (Raidtest { max_size: 4097, ..tight }, "max_size"),
        (Raidtest { size: 4095, ..tight }, "size"),
        (Raidtest { requests: 0, ..tight }, "requests"),
    ] {
        assert_eq!(wrong.generate().expect_err(option).option, option);
    }
}

#[test]
fn slices_are_consecutive_and_complete() {
    let trace =
        Arc::new(Trace { requests: raidtest().generate().expect("a pattern"), ..Trace::default() });
    for clones in [1, 3, 32, 9_999, 20_000] {
        let mut at = 0;
        for clone in 0..clones {
            let share = TraceSlice::new(Arc::clone(&trace), clone, clones);
            assert_eq!(share.range.start, at);
            assert!(share.range.len().abs_diff(10_000 / clones as usize) <= 1);
            at = share.range.end;
        }
        assert_eq!(at, 10_000);
    }
}

#[test]
fn times_and_offsets_are_scaled() {
    let mut trace = parse_ok(FIO_3);
    let options = ReplayOptions { time_scale: 200, scale: 2, align: 8192, ..Default::default() };
    trace.transform(&options);
    assert_eq!(short(&trace)[..2], [(74, Op::Write, 24576, 8192), (87, Op::Read, 385_024, 4096)]);
    trace.transform(&ReplayOptions { no_stall: true, ..Default::default() });
    assert_eq!(trace.end(), Nanos(0));
}

/// A valid or almost valid line of one of the formats.
fn line() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "8,0",
        "0",
        "1",
        "0.1",
        "Q",
        "D",
        "W",
        "FWFS",
        "ZR",
        "R",
        "+",
        "8",
        "[a]",
        "a",
        "add",
        "open",
        "close",
        "read",
        "write",
        "trim",
        "sync",
        "wait",
        "100",
        "512",
        "end",
        "F",
        "CPU0",
        "18446744073709551615",
        "-1",
        "",
        "\u{fffd}",
        "fio version 3 iolog",
        "zonal pattern 1",
    ]);
    prop::collection::vec(word, 0..12).prop_map(|words| words.join(" "))
}

proptest! {
    #[test]
    fn any_bytes_are_parsed_or_rejected(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Err(error) = read("t", &mut &bytes[..], BlkparseAction::Queue) {
            prop_assert!(error.line >= 1);
        }
    }

    #[test]
    fn almost_valid_lines_are_parsed_or_rejected(
        header in 0_usize..4,
        lines in prop::collection::vec(line(), 0..12),
    ) {
        let header = ["", iolog::HEADER_2, iolog::HEADER_3, pattern::HEADER][header];
        let text = format!("{header}\n{}\n", lines.join("\n"));
        if let Ok((_, trace)) = parse(text.trim_start_matches('\n')) {
            prop_assert!(trace.requests.is_sorted_by_key(|it| it.at));
        }
    }

    #[test]
    fn printed_patterns_parse_to_the_same_requests(drawn in prop::collection::vec((0_u8..3, 0..u64::MAX / 2, 1..u64::MAX / 2), 0..50)) {
        let request = |(index, (op, offset, len)): (usize, (u8, u64, u64))| {
            let op = [Op::Read, Op::Write, Op::Flush][usize::from(op)];
            let (offset, len) = if op == Op::Flush { (0, 0) } else { (offset, len) };
            let line = u32::try_from(index).expect("few") + 3;
            Request { at: Nanos(0), offset, len, line, file: 0, op, flags: BioFlags::NONE }
        };
        let requests: Vec<Request> = drawn.into_iter().enumerate().map(request).collect();
        let (format, trace) = parse(&pattern::print("by hand", &requests)).expect("a pattern");
        prop_assert_eq!(format, Format::Pattern);
        prop_assert_eq!(trace.requests, requests);
    }
}

/// The first requests of `raidtest()`.
const PINNED: [(Op, u64, u64); 3] = [
    (Op::Write, 82_217_472, 9728),
    (Op::Write, 1_018_950_656, 98_816),
    (Op::Write, 247_515_136, 3072),
];
