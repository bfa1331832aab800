//! Blocks that are right, blocks that are wrong in every way, and the log against a model.
use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use zonal_blk::Nanos;

const LEN: usize = 4096;

fn options(method: VerifyMethod) -> VerifyOptions {
    VerifyOptions { method: Some(method), ..VerifyOptions::default() }
}

fn methods() -> [VerifyMethod; 5] {
    let sums = [
        checksum::Checksum::Md5,
        checksum::Checksum::Crc32,
        checksum::Checksum::Crc32c,
        checksum::Checksum::Sha256,
    ];
    let [md5, crc32, crc32c, sha256] = sums.map(VerifyMethod::Checksum);
    [VerifyMethod::Meta, md5, crc32, crc32c, sha256]
}

fn stamp(options: &VerifyOptions) -> Stamp {
    Stamp::new(options, 7, 0).expect("a method")
}

fn place(offset: u64, number: u32) -> WriteId {
    WriteId { offset, number, time: Nanos(1_500_000_000) }
}

fn filled(stamp: &mut Stamp, place: WriteId) -> Vec<u8> {
    let mut buf = vec![0; LEN];
    stamp.fill(&mut buf, place);
    buf
}

/// The texts of what is wrong with a block that should be that of `place`.
fn wrong(stamp: &mut Stamp, mut buf: Vec<u8>, place: WriteId) -> Vec<String> {
    let mut found = Vec::new();
    let expected = Expected { offset: place.offset, number: Some(place.number) };
    stamp.check(&mut buf, expected, |at, len, mismatch| {
        let (offset, io) = (place.offset + at as u64, (place.offset, LEN as u64));
        found.push(Finding { offset, len: len as u64, io, mismatch, dump: None }.text("f"));
    });
    found
}

#[test]
fn what_was_written_is_right() {
    for method in methods() {
        for (interval, offset) in [(None, 0), (Some(512), 0), (Some(1024), 100), (None, 2000)] {
            let options = VerifyOptions { interval, offset, ..options(method) };
            let stamp = &mut stamp(&options);
            let buf = filled(stamp, place(8192, 3));
            assert_eq!(wrong(stamp, buf, place(8192, 3)), [""; 0], "{options:?}");
        }
    }
}

#[test]
fn every_damaged_byte_of_header_and_data_is_found() {
    for method in methods() {
        let stamp = &mut stamp(&VerifyOptions { offset: 100, ..options(method) });
        let good = filled(stamp, place(0, 0));
        for at in 0..LEN {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            let is_header = (100..100 + HEADER_LEN).contains(&at);
            let found = wrong(stamp, bad, place(0, 0));
            assert_eq!(
                found.len(),
                usize::from(is_header || method != VerifyMethod::Meta),
                "byte {at}"
            );
        }
    }
}

#[test]
fn zeroed_misplaced_and_stale_blocks_are_told_apart() {
    for pattern in [None, Some("0x01".parse().expect("a pattern"))] {
        let has_pattern = pattern.is_some();
        let stamp = &mut stamp(&VerifyOptions { pattern, ..options(VerifyMethod::Meta) });
        let tells = |stamp: &mut Stamp, buf, text: &str| {
            let found = wrong(stamp, buf, place(8192, 9));
            assert!(found.len() == 1 && found[0].starts_with(text), "{text}: {found:?}");
        };
        let in_place =
            "at file f offset 8192, length 4096 (requested block: offset=8192, length=4096)";
        let zeroed = format!("verify: bad magic header 0, wanted acca {in_place}");
        tells(stamp, vec![0; LEN], &zeroed);
        let misplaced = filled(stamp, place(4096, 9));
        let text = format!("verify: bad header offset 4096, wanted 8192 {in_place}");
        tells(stamp, misplaced, &text);
        let stale = filled(stamp, place(8192, 8));
        // With a pattern there is no seed, as in fio.
        let text = if has_pattern { "numberio 8, wanted 9" } else { "rand_seed" };
        tells(stamp, stale, &format!("verify: bad header {text}"));
        // Its number has come round.
        let old = filled(stamp, place(8192, 9 + 65536));
        if !has_pattern {
            tells(stamp, old, "verify: bad header rand_seed");
        }
    }
}

#[test]
fn block_of_fio_is_right() {
    let pattern = Some("0xdeadbeef".parse().expect("a pattern"));
    let stamp = &mut stamp(&VerifyOptions {
        pattern,
        ..options(VerifyMethod::Checksum(checksum::Checksum::Crc32c))
    });
    let mut buf = [0xde, 0xad, 0xbe, 0xef].repeat(LEN / 4);
    buf[..header::FIO.len()].copy_from_slice(&header::FIO);
    assert_eq!(wrong(stamp, buf.clone(), place(4096, 1)), [""; 0]);
    // The same again, but for the time and what depends on it.
    let ours = filled(stamp, place(4096, 1));
    assert_eq!((&ours[..24], &ours[32..36]), (&buf[..24], &buf[32..36]));
    assert_eq!(ours[40..], buf[40..]);
}

#[test]
fn damaged_data_is_told_as_by_fio() {
    let stamp = &mut stamp(&options(VerifyMethod::Checksum(checksum::Checksum::Crc32c)));
    let mut buf = filled(stamp, place(0, 0));
    let stored = buf[40..44].to_vec();
    buf[1000] ^= 1;
    let found = wrong(stamp, buf, place(0, 0));
    let [text] = found.as_slice() else { panic!("{found:?}") };
    let hex: String = stored.iter().map(|byte| format!("{byte:02x}")).collect();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("crc32c: verify failed at file f offset 0, length 4096 ("));
    assert_eq!(lines[1], format!("       Expected CRC: {hex}"));
    assert!(lines[2].starts_with("       Received CRC: "));
}

#[test]
fn pattern_alone_has_no_header_and_tells_the_first_wrong_byte() {
    let pattern = Some("0xaabb%o".parse().expect("a pattern"));
    let stamp = &mut stamp(&VerifyOptions { pattern, ..options(VerifyMethod::Pattern) });
    let mut buf = filled(stamp, place(4096, 0));
    assert_eq!(buf[..12], [0xaa, 0xbb, 0, 0x10, 0, 0, 0, 0, 0, 0, 0xaa, 0xbb]);
    assert_eq!(wrong(stamp, buf.clone(), place(4096, 0)), [""; 0]);
    buf[11] = 0xba;
    let found = wrong(stamp, buf, place(4096, 0));
    assert!(found[0].starts_with("got pattern 'ba', wanted 'bb'. Bad bits 1\n"), "{found:?}");
}

#[test]
fn only_the_damaged_interval_is_told() {
    let stamp = &mut stamp(&VerifyOptions { interval: Some(1024), ..options(methods()[3]) });
    let mut buf = filled(stamp, place(0, 0));
    buf[2048..3072].fill(0);
    let found = wrong(stamp, buf, place(0, 0));
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("offset 2048, length 1024 (requested block: offset=0"), "{found:?}");
}

proptest! {
    #[test]
    fn log_forgets_what_is_overlapped_and_nothing_else(
        steps in prop::collection::vec((0_u64..64, 1_u32..8, any::<bool>()), 1..80),
    ) {
        let mut log = Log::default();
        // By sector, the write that is there.
        let mut model: BTreeMap<u64, (u64, u32)> = BTreeMap::new();
        for (number, (sector, nr_sectors, is_write)) in (0..).zip(steps) {
            let range = sector..sector + u64::from(nr_sectors);
            let hit: Vec<u32> = range.clone().filter_map(|at| Some(model.get(&at)?.1)).collect();
            model.retain(|_, (_, number)| !hit.contains(number));
            if is_write {
                log.insert(Record { sector, nr_sectors, number, appended: number % 2 == 1 });
                model.extend(range.map(|at| (at, (sector, number))));
            } else {
                log.forget(range);
            }
        }
        let mut expected: Vec<(u64, u32)> = model.into_values().collect();
        expected.dedup();
        prop_assert_eq!(log.len(), expected.len());
        let popped = std::iter::from_fn(|| log.pop());
        let popped: Vec<(u64, u32)> = popped
            .inspect(|record| assert_eq!(record.appended, record.number % 2 == 1))
            .map(|record| (record.sector, record.number))
            .collect();
        prop_assert_eq!(popped, expected);
    }
}
