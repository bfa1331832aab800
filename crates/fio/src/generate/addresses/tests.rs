//! Lengths and offsets as fio 3.33 has them.
use super::*;
use crate::generate::{Generator, NextIo};
use crate::job::AddressOptions;
use std::collections::BTreeSet;
use zonal_blk::Op;

const MIB: u64 = 1 << 20;

fn region(len: u64) -> Region {
    Region { start: 0, end: len, io_size: len, lba: 512, to_end: false }
}

fn addresses(job: &Job, len: u64) -> Addresses {
    assert!(Addresses::needed(job), "another generator has these");
    let [offsets, lengths] = [1, 3].map(|purpose| Rng::new(1, [0, 0, 0, purpose]));
    Addresses::new(job, region(len), offsets, lengths)
}

fn job(random: bool, address: AddressOptions) -> Job {
    Job { random, address, ..Job::default() }
}

/// The next read; after the end of the region the first one.
fn next(addresses: &mut Addresses) -> Io {
    addresses.next(DataDir::Read).unwrap_or_else(|| {
        addresses.rewind();
        addresses.next(DataDir::Read).expect("the region holds a block")
    })
}

fn offsets(addresses: &mut Addresses, count: usize) -> Vec<u64> {
    (0..count).map(|_| next(addresses).offset).collect()
}

fn split(sizes: &[(u64, u8)]) -> Job {
    let split = BlockSizes::Split(sizes.to_vec());
    let bs = sizes.iter().map(|(size, _)| *size).max().expect("a size");
    let sizes = [0; 3].map(|_| split.clone());
    Job { bs: [bs; 3], ..job(true, AddressOptions { sizes, ..AddressOptions::default() }) }
}

#[test]
fn lengths_have_the_percentages_of_their_split() {
    let job = Job { norandommap: true, ..split(&[(1024, 20), (4096, 50), (65536, 30)]) };
    let mut addresses = addresses(&job, 1 << 30);
    let mut counts = [0; 3];
    for _ in 0..10_000 {
        let io = next(&mut addresses);
        counts[[1024, 4096, 65536].iter().position(|&len| len == io.len).expect("a size")] += 1;
        assert!(io.offset.is_multiple_of(1024) && io.offset + io.len <= 1 << 30);
    }
    for (count, percent) in counts.into_iter().zip([20_i32, 50, 30]) {
        let expected = percent * 100;
        assert!((count - expected).abs() < 200, "{counts:?}");
    }
}

#[test]
fn ranges_have_the_multiples_of_their_least_size_and_the_largest() {
    // As in fio: 3k, 6k and, for what 9k would be, 8k have 3, 3 and 2 of 8 I/Os.
    let sizes = [0; 3].map(|_| BlockSizes::Range { min: 3072 });
    let address = AddressOptions { sizes, ..AddressOptions::default() };
    let mut addresses = addresses(&Job { bs: [8192; 3], ..job(false, address) }, 1 << 40);
    let mut counts = [0; 3];
    for _ in 0..8000 {
        let len = next(&mut addresses).len;
        counts[[3072, 6144, 8192].iter().position(|&size| size == len).expect("a size")] += 1;
    }
    for (count, expected) in counts.into_iter().zip([3000_i32, 3000, 2000]) {
        assert!((count - expected).abs() < 200, "{counts:?}");
    }
}

#[test]
fn unaligned_sizes_of_a_range_are_any_numbers_of_logical_blocks() {
    let sizes = [0; 3].map(|_| BlockSizes::Range { min: 2048 });
    let address = AddressOptions { sizes, unaligned: true, ..AddressOptions::default() };
    let job = Job { bs: [4096; 3], ..job(false, address) };
    let mut addresses = addresses(&job, MIB);
    let (mut seen, mut end) = (BTreeSet::new(), 0);
    for _ in 0..200 {
        let Io { offset, len, .. } = next(&mut addresses);
        assert!(offset == end || offset == 0, "one follows another");
        end = offset + len;
        seen.insert(len);
    }
    assert!(seen.into_iter().eq((2048..=4096).step_by(512)));
}

#[test]
fn blocks_of_several_sizes_cover_the_region_once_in_a_pass() {
    let mut addresses = addresses(&split(&[(1024, 50), (65536, 50)]), MIB);
    let mut seen = vec![false; 1024];
    let mut left = MIB;
    while left > 0 {
        let io = next(&mut addresses);
        for block in io.offset / 1024..(io.offset + io.len) / 1024 {
            assert!(!std::mem::replace(&mut seen[block as usize], true), "block {block} twice");
        }
        left -= io.len;
    }
    assert_eq!(next(&mut addresses).len % 1024, 0, "a new pass begins");
}

#[test]
fn percentage_of_random_ios_leaves_the_others_behind_the_one_before() {
    let address = AddressOptions { percentage_random: [30; 3], ..AddressOptions::default() };
    let mut addresses = addresses(&Job { norandommap: true, ..job(true, address) }, 1 << 30);
    let offsets = offsets(&mut addresses, 10_000);
    let sequential = offsets.windows(2).filter(|pair| pair[1] == pair[0] + 4096).count();
    assert!((6800..7200).contains(&sequential), "{sequential}");
}

#[test]
fn identical_sequences_repeat_their_offset() {
    let address = AddressOptions { identical: true, ..AddressOptions::default() };
    let mut addresses = addresses(&Job { rw_modifier: 4, ..job(true, address) }, MIB);
    let offsets = offsets(&mut addresses, 64);
    assert!(offsets.chunks(4).all(|run| run.iter().all(|&at| at == run[0])), "{offsets:?}");
    assert!(offsets.iter().collect::<BTreeSet<_>>().len() > 8);
}

#[test]
fn alignment_is_that_of_blockalign() {
    let address = AddressOptions { align: [Some(512); 3], ..AddressOptions::default() };
    let mut addresses = addresses(&Job { norandommap: true, ..job(true, address) }, MIB);
    let offsets = offsets(&mut addresses, 1000);
    assert!(offsets.iter().all(|at| at % 512 == 0 && at + 4096 <= MIB));
    assert!(offsets.iter().any(|at| at % 1024 == 512));
}

fn strided(random: bool, zonesize: u64, zonerange: u64, zoneskip: u64) -> Job {
    Job {
        zonemode: ZoneMode::Strided,
        zonesize: Some(zonesize),
        zonerange: Some(zonerange),
        bs: [65536; 3],
        ..job(random, AddressOptions { zoneskip, ..AddressOptions::default() })
    }
}

#[test]
fn strides_go_to_the_next_zone_after_their_bytes_and_start_over_at_the_end() {
    // fio 3.33 with --zonemode=strided --zonesize=256k --zonerange=1m --zoneskip=1m --size=10m.
    let mut addresses = addresses(&strided(false, MIB / 4, MIB, MIB), 10 * MIB);
    let seen: Vec<u64> = offsets(&mut addresses, 24).into_iter().map(|at| at / 65536).collect();
    let zone = |zone: u64| (0..4).map(move |block| zone * 32 + block);
    assert!(seen.into_iter().eq((0..5).chain(0..1).flat_map(zone)));
}

#[test]
fn strides_longer_than_their_zones_go_through_them_again() {
    let mut addresses = addresses(&strided(false, 2 * MIB, MIB, MIB), 10 * MIB);
    let seen: Vec<u64> = offsets(&mut addresses, 48).into_iter().map(|at| at / 65536).collect();
    assert!(seen.into_iter().eq((0..16).chain(0..16).chain(32..48)));
}

#[test]
fn random_strides_stay_in_their_zone() {
    let mut addresses = addresses(&strided(true, MIB / 4, MIB, MIB), 10 * MIB);
    for (io, at) in offsets(&mut addresses, 400).into_iter().enumerate() {
        assert_eq!(at / (2 * MIB), io as u64 / 4 % 5, "I/O {io} at {at}");
        assert!(at % (2 * MIB) < MIB);
    }
}

/// The next I/Os of a job that writes what it trims, each completed before the next one. A trim is not
/// overtaken by its write.
fn trims_and_writes(job: &Job, len: u64, count: usize) -> Vec<(Op, u64, u64)> {
    let mut generator = Generator::new(job, region(len), None, 0, 0, 1, [0; 3]);
    let mut seen = Vec::new();
    while seen.len() < count {
        match generator.next_io() {
            NextIo::Io(io) => {
                if let Some(zone) = io.zone {
                    assert_eq!(generator.next_io(), NextIo::Wait, "the trim is in flight");
                    assert_eq!(generator.done(io.op, zone), None);
                }
                seen.push((io.op, io.offset, io.len));
            }
            NextIo::EndOfPass => break,
            other => panic!("{other:?}"),
        }
    }
    seen
}

#[test]
fn trimmed_blocks_are_written_next() {
    for random in [false, true] {
        let job = Job { rw: crate::job::Rw::TrimWrite, random, ..Job::default() };
        let mut trims = BTreeSet::new();
        for pair in trims_and_writes(&job, MIB, 512).chunks(2) {
            assert_eq!((pair[0].0, pair[1].0), (Op::Discard, Op::Write));
            assert_eq!((pair[0].1, pair[0].2), (pair[1].1, pair[1].2));
            trims.insert(pair[0].1);
        }
        assert_eq!(trims.len(), 256, "each block once");
    }
}

#[test]
fn writes_follow_longer_trims_up_to_the_start_of_the_last_one() {
    // fio 3.33 with --rw=trimwrite --bs=512,512,2048.
    let job = Job { rw: crate::job::Rw::TrimWrite, bs: [512, 512, 2048], ..Job::default() };
    let seen = trims_and_writes(&job, MIB, 8);
    let (write, trim) = (|at| (Op::Write, at, 512), |at| (Op::Discard, at, 2048));
    let writes = (1..=4).map(|block| write(block * 512));
    let begin = [trim(0), write(0), trim(2048)];
    assert!(seen.into_iter().eq(begin.into_iter().chain(writes).chain([trim(4096)])));
}

#[test]
fn writes_longer_than_their_trims_end_with_the_region() {
    // fio 3.33 with --rw=trimwrite --bs=128k,128k,64k --size=1M.
    let bs = [128 << 10, 128 << 10, 64 << 10];
    let job = Job { rw: crate::job::Rw::TrimWrite, bs, ..Job::default() };
    let seen = trims_and_writes(&job, MIB, 100);
    let write = |block: u64| (Op::Write, block << 17, 128 << 10);
    let trim = |block: u64| (Op::Discard, block << 16, 64 << 10);
    let begin = [trim(0), write(0), trim(1)];
    assert!(seen.iter().copied().eq(begin.into_iter().chain((1..8).map(write))), "{seen:?}");
}

#[test]
fn trims_of_several_sizes_are_written_with_their_length() {
    for random in [false, true] {
        let mut job = split(&[(4096, 50), (16384, 50)]);
        (job.rw, job.random) = (crate::job::Rw::TrimWrite, random);
        let seen = trims_and_writes(&job, MIB, 80);
        for pair in seen.chunks(2) {
            assert_eq!((pair[0].0, pair[1].0), (Op::Discard, Op::Write));
            assert_eq!((pair[0].1, pair[0].2), (pair[1].1, pair[1].2));
        }
        assert!(seen.iter().any(|io| io.2 == 4096) && seen.iter().any(|io| io.2 == 16384));
    }
}

#[test]
fn a_direction_with_one_size_has_that_size_at_multiples_of_it() {
    // fio 3.33 with --rw=randrw --bs=4k,16k.
    let job = Job {
        rw: crate::job::Rw::Mixed,
        bs: [4096, 16384, 4096],
        ..job(true, AddressOptions::default())
    };
    let mut addresses = addresses(&job, MIB);
    for (at, dir) in [DataDir::Read, DataDir::Write].into_iter().cycle().take(100).enumerate() {
        let Some(io) = addresses.next(dir) else { continue };
        assert_eq!(io.len, job.bs[dir as usize], "I/O {at}");
        assert!(io.offset.is_multiple_of(io.len), "I/O {at} at {}", io.offset);
    }
}

#[test]
fn what_follows_a_random_block_is_not_in_the_map() {
    // fio 3.33 with --rw=randread --percentage_random=5 --bs=4k --size=3211264: 466 to 579 offsets.
    let address = AddressOptions { percentage_random: [5; 3], ..AddressOptions::default() };
    let mut addresses = addresses(&job(true, address), 3_211_264);
    let seen: BTreeSet<u64> = offsets(&mut addresses, 784).into_iter().collect();
    assert!((430..=620).contains(&seen.len()), "{}", seen.len());
}

#[test]
fn random_blocks_of_a_stride_are_visited_once() {
    // fio 3.33 with --zonemode=strided --zonesize=1m --zonerange=1m --zoneskip=1m --rw=randread.
    let mut addresses = addresses(&strided(true, MIB, MIB, MIB), 10 * MIB);
    let seen = offsets(&mut addresses, 160);
    for (zone, of_zone) in (0..).zip(seen.chunks(16)) {
        let blocks: BTreeSet<u64> = of_zone.iter().map(|at| at / 65536).collect();
        assert!(blocks.into_iter().eq((0..16).map(|block| zone % 5 * 32 + block)), "zone {zone}");
    }
}

#[test]
fn blocks_of_another_alignment_are_not_in_the_map() {
    // "Any use of blockalign= turns off randommap", fio 3.33 says.
    let address = AddressOptions { align: [Some(512); 3], ..AddressOptions::default() };
    let mut addresses = addresses(&job(true, address), MIB);
    let seen = offsets(&mut addresses, 1000);
    assert!(seen.iter().all(|at| at % 512 == 0 && at + 4096 <= MIB));
    assert!(seen.iter().any(|at| at % 4096 != 0), "{seen:?}");
}
