//! Valid and damaged blocks, and the log against a model.
use super::*;
use crate::job::{Checksum, VerifyMethod, VerifyOptions};
use proptest::prelude::*;
use std::collections::BTreeMap;
use zonal_blk::Nanos;

const LEN: usize = 4096;

fn options(method: VerifyMethod) -> VerifyOptions {
    VerifyOptions { method: Some(method), ..VerifyOptions::default() }
}

fn methods() -> Vec<VerifyMethod> {
    use Checksum::*;
    let sums = [
        Md5, Crc64, Crc32, Crc32c, Crc16, Crc7, Sha1, Sha256, Sha512, Sha3_224, Sha3_256, Sha3_384,
        Sha3_512, Xxhash,
    ];
    sums.into_iter().map(VerifyMethod::Checksum).chain([VerifyMethod::Meta]).collect()
}

fn format(options: &VerifyOptions) -> BlockFormat {
    BlockFormat::new(options, 7, 0).expect("a method")
}

fn write_id(offset: u64, number: u32) -> WriteId {
    WriteId { offset, number, time: Nanos(1_500_000_000) }
}

fn filled(format: &mut BlockFormat, write: WriteId) -> Vec<u8> {
    let mut buf = vec![0; LEN];
    format.fill(&mut buf, write);
    buf
}

/// The errors in a block that should be that of `write`.
fn wrong(format: &mut BlockFormat, mut buf: Vec<u8>, write: WriteId) -> Vec<String> {
    let (mut found, io_len) = (Vec::new(), buf.len() as u64);
    let expected = Expected { offset: write.offset, number: Some(write.number) };
    format.check(&mut buf, expected, |at, len, mismatch| {
        let (offset, io) = (write.offset + at as u64, (write.offset, io_len));
        found.push(Finding { offset, len: len as u64, io, mismatch, dump: None }.text("f"));
    });
    found
}

#[test]
fn written_blocks_are_valid() {
    for method in methods() {
        for (interval, offset) in [(None, 0), (Some(512), 0), (Some(1024), 200), (None, 2000)] {
            let options = VerifyOptions { interval, offset, ..options(method) };
            let format = &mut format(&options);
            let buf = filled(format, write_id(8192, 3));
            assert_eq!(wrong(format, buf, write_id(8192, 3)), [""; 0], "{options:?}");
        }
    }
}

#[test]
fn every_damaged_byte_of_header_and_data_is_detected() {
    for method in methods() {
        let format = &mut format(&VerifyOptions { offset: 200, ..options(method) });
        let mut good = vec![0; 512];
        format.fill(&mut good, write_id(0, 0));
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            let is_header = (200..200 + HEADER_LEN).contains(&at);
            let found = wrong(format, bad, write_id(0, 0));
            assert_eq!(
                found.len(),
                usize::from(is_header || method != VerifyMethod::Meta),
                "{method:?}: byte {at}"
            );
        }
    }
}

#[test]
fn zeroed_misplaced_and_stale_blocks_are_distinguished() {
    for pattern in [None, Some("0x01".parse().expect("a pattern"))] {
        let has_pattern = pattern.is_some();
        let format = &mut format(&VerifyOptions { pattern, ..options(VerifyMethod::Meta) });
        let tells = |format: &mut BlockFormat, buf, text: &str| {
            let found = wrong(format, buf, write_id(8192, 9));
            assert!(found.len() == 1 && found[0].starts_with(text), "{text}: {found:?}");
        };
        let in_place =
            "at file f offset 8192, length 4096 (requested block: offset=8192, length=4096)";
        let zeroed = format!("verify: bad magic header 0, wanted acca {in_place}");
        tells(format, vec![0; LEN], &zeroed);
        let misplaced = filled(format, write_id(4096, 9));
        let text = format!("verify: bad header offset 4096, wanted 8192 {in_place}");
        tells(format, misplaced, &text);
        let stale = filled(format, write_id(8192, 8));
        // With a pattern there is no seed, as in fio.
        let text = if has_pattern { "numberio 8, wanted 9" } else { "rand_seed" };
        tells(format, stale, &format!("verify: bad header {text}"));
        // Its number has wrapped around.
        let old = filled(format, write_id(8192, 9 + 65536));
        if !has_pattern {
            tells(format, old, "verify: bad header rand_seed");
        }
    }
}

#[test]
fn stale_blocks_pass_if_neither_seed_nor_number_is_checked() {
    let with = |header_seed, write_sequence| {
        let off = |on: bool| (!on).then_some(false);
        format(&VerifyOptions {
            header_seed: off(header_seed),
            write_sequence: off(write_sequence),
            ..options(VerifyMethod::Checksum(Checksum::Crc32c))
        })
    };
    for (seed, number) in [(true, true), (true, false), (false, true), (false, false)] {
        let format = &mut with(seed, number);
        let stale = filled(format, write_id(8192, 8));
        let wanted = match (seed, number) {
            (true, _) => Some("rand_seed"),
            (false, true) => Some("numberio 8, wanted 9"),
            (false, false) => None,
        };
        let found = wrong(format, stale, write_id(8192, 9));
        let is_wanted = |text: &str| found.len() == 1 && found[0].contains(text);
        assert!(wanted.map_or(found.is_empty(), is_wanted), "{seed} {number}: {found:?}");
    }
}

#[test]
fn block_of_fio_is_valid() {
    let pattern = Some("0xdeadbeef".parse().expect("a pattern"));
    let format = &mut format(&VerifyOptions {
        pattern,
        ..options(VerifyMethod::Checksum(Checksum::Crc32c))
    });
    let mut buf = [0xde, 0xad, 0xbe, 0xef].repeat(LEN / 4);
    buf[..header::FIO.len()].copy_from_slice(&header::FIO);
    assert_eq!(wrong(format, buf.clone(), write_id(4096, 1)), [""; 0]);
    // Equal except for the time and what depends on it.
    let ours = filled(format, write_id(4096, 1));
    assert_eq!((&ours[..24], &ours[32..36]), (&buf[..24], &buf[32..36]));
    assert_eq!(ours[40..], buf[40..]);
}

#[test]
fn damaged_data_is_reported_as_by_fio() {
    let format = &mut format(&options(VerifyMethod::Checksum(Checksum::Crc32c)));
    let mut buf = filled(format, write_id(0, 0));
    let stored = buf[40..44].to_vec();
    buf[1000] ^= 1;
    let found = wrong(format, buf, write_id(0, 0));
    let [text] = found.as_slice() else { panic!("{found:?}") };
    let hex: String = stored.iter().map(|byte| format!("{byte:02x}")).collect();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("crc32c: verify failed at file f offset 0, length 4096 ("));
    assert_eq!(lines[1], format!("       Expected CRC: {hex}"));
    assert!(lines[2].starts_with("       Received CRC: "));
}

#[test]
fn pattern_has_no_header_and_reports_the_first_wrong_byte() {
    let pattern = Some("0xaabb%o".parse().expect("a pattern"));
    let format = &mut format(&VerifyOptions { pattern, ..options(VerifyMethod::Pattern) });
    let mut buf = filled(format, write_id(4096, 0));
    assert_eq!(buf[..12], [0xaa, 0xbb, 0, 0x10, 0, 0, 0, 0, 0, 0, 0xaa, 0xbb]);
    assert_eq!(wrong(format, buf.clone(), write_id(4096, 0)), [""; 0]);
    buf[11] = 0xba;
    let found = wrong(format, buf, write_id(4096, 0));
    assert!(found[0].starts_with("got pattern 'ba', wanted 'bb'. Bad bits 1\n"), "{found:?}");
}

/// The bytes that fio 3.41 wrote with the same options.
#[test]
fn pattern_starts_anew_after_its_interval() {
    let pattern = Some("%o0xab".parse().expect("a pattern"));
    let format = &mut format(&VerifyOptions {
        pattern,
        pattern_interval: 512,
        ..options(VerifyMethod::Pattern)
    });
    let mut buf = filled(format, write_id(4096, 0));
    assert_eq!(buf[504..512], [0, 0x10, 0, 0, 0, 0, 0, 0]);
    assert_eq!(buf[512..522], [0, 0x12, 0, 0, 0, 0, 0, 0, 0xab, 0]);
    assert_eq!(wrong(format, buf.clone(), write_id(4096, 0)), [""; 0]);
    buf[513] = 0x10;
    let found = wrong(format, buf, write_id(4096, 0));
    assert!(found[0].starts_with("got pattern '10', wanted '12'. Bad bits 1\n"), "{found:?}");
}

#[test]
fn only_the_damaged_interval_is_reported() {
    let format = &mut format(&VerifyOptions {
        interval: Some(1024),
        ..options(VerifyMethod::Checksum(Checksum::Crc32c))
    });
    let mut buf = filled(format, write_id(0, 0));
    buf[2048..3072].fill(0);
    let found = wrong(format, buf, write_id(0, 0));
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("offset 2048, length 1024 (requested block: offset=0"), "{found:?}");
}

proptest! {
    #[test]
    fn log_removes_overlapped_writes_and_nothing_else(
        steps in prop::collection::vec((0_u64..64, 1_u32..8, any::<bool>()), 1..80),
    ) {
        let mut log = Log::new(false);
        // By sector, the write that is there.
        let mut model: BTreeMap<u64, (u64, u32)> = BTreeMap::new();
        for (number, (sector, nr_sectors, is_write)) in (0..).zip(steps) {
            let range = sector..sector + u64::from(nr_sectors);
            let hit: Vec<u32> = range.clone().filter_map(|at| Some(model.get(&at)?.1)).collect();
            model.retain(|_, (_, number)| !hit.contains(number));
            if is_write {
                let (appended, trimmed, uncertain) =
                    (number % 2 == 1, number % 3 == 1, number % 5 == 1);
                log.insert(Record { sector, nr_sectors, number, appended, trimmed, uncertain });
                model.extend(range.map(|at| (at, (sector, number))));
            } else {
                log.remove(range);
            }
        }
        let mut expected: Vec<(u64, u32)> = model.into_values().collect();
        expected.dedup();
        prop_assert_eq!(log.len(), expected.len());
        let popped = std::iter::from_fn(|| log.pop());
        let popped: Vec<(u64, u32)> = popped
            .inspect(|record| assert_eq!(record.appended, record.number % 2 == 1))
            .inspect(|record| assert_eq!(record.trimmed, record.number % 3 == 1))
            .inspect(|record| assert_eq!(record.uncertain, record.number % 5 == 1))
            .map(|record| (record.sector, record.number))
            .collect();
        prop_assert_eq!(popped, expected);
    }
}

#[test]
fn writes_are_popped_in_order_of_sectors_or_in_their_own_and_then_as_often_as_they_were_written() {
    let written = [(16, 8), (0, 8), (16, 8), (32, 8), (36, 8), (48, 8)];
    let log_of = |in_order: bool| {
        let mut log = Log::new(in_order);
        for (number, (sector, nr_sectors)) in (0..).zip(written) {
            let (appended, trimmed, uncertain) = (false, false, false);
            log.queue(sector, nr_sectors, number);
            log.insert(Record { sector, nr_sectors, number, appended, trimmed, uncertain });
        }
        log
    };
    let popped = |mut log: Log| {
        let known = |it: &Record| if it.uncertain { None } else { Some(it.number) };
        std::iter::from_fn(move || log.pop().map(|it| (it.sector, known(&it)))).collect::<Vec<_>>()
    };
    assert_eq!([false, true].map(|in_order| log_of(in_order).len()), [4, 6]);
    assert_eq!(popped(log_of(false)), [(0, Some(1)), (16, Some(2)), (36, Some(4)), (48, Some(5))]);
    // Each is expected to hold the last write; of one that was overwritten in part nothing is known.
    let expected = [(16, Some(2)), (0, Some(1)), (16, Some(2)), (32, None), (36, Some(4))];
    let last = [(48, Some(5))];
    assert_eq!(popped(log_of(true)), [&expected[..], &last].concat());
    let mut log = log_of(true);
    log.cancel(5);
    assert_eq!(popped(log), expected, "the last one has failed");
}
