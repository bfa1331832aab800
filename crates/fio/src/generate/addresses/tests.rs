//! Lengths and offsets as fio 3.33 has them.
use super::*;
use crate::generate::{Generator, NextIo};
use crate::job::{AddressOptions, Rw};
use std::collections::BTreeSet;
use zonal_blk::Op;

const MIB: u64 = 1 << 20;

fn region(len: u64) -> Region {
    Region { start: 0, end: len, size: len, io_size: len, lba: 512, limit: len }
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
fn an_alignment_that_is_no_block_size_of_any_direction_turns_the_map_off() {
    // fio 3.41 with `--rw=randread --bs=4k,8k --ba=4k`: "Any use of blockalign= turns off randommap".
    let aligned = |bs| {
        let address = AddressOptions { align: [Some(4096); 3], ..AddressOptions::default() };
        Job { bs, ..job(true, address) }
    };
    assert!(!Addresses::needed(&aligned([4096; 3])));
    let job = aligned([4096, 8192, 8192]);
    assert!(Addresses::needed(&job));
    let seen: BTreeSet<u64> = offsets(&mut addresses(&job, 64 * 4096), 64).into_iter().collect();
    assert!(seen.len() < 60, "blocks come again: {}", seen.len());
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
        bs: [65536; 3],
        ..job(
            random,
            AddressOptions { zonerange: Some(zonerange), zoneskip, ..AddressOptions::default() },
        )
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
fn lfsr_has_the_same_order_in_each_zone_of_a_stride() {
    // fio 3.41 with --random_generator=lfsr --zonemode=strided --zonesize=20k --zonerange=32k --zoneskip=4k.
    let mut job = strided(true, 5 * 65536, 8 * 65536, 65536);
    job.address.lfsr = true;
    let mut addresses = addresses(&job, 10 * MIB);
    let seen: Vec<u64> = offsets(&mut addresses, 20).into_iter().map(|at| at / 65536).collect();
    assert_eq!(seen[..5].iter().collect::<BTreeSet<_>>().len(), 5, "{seen:?}");
    for (zone, blocks) in (0..).zip(seen.chunks(5)) {
        assert!(
            blocks.iter().eq(seen[..5].iter().map(|at| at + zone * 9).collect::<Vec<_>>().iter())
        );
    }
}

#[test]
fn lfsr_has_nothing_to_do_in_zones_that_are_shorter_than_a_block() {
    let mut job = strided(true, 32768, 32768, MIB);
    job.address.lfsr = true;
    assert_eq!(addresses(&job, 10 * MIB).next(DataDir::Write), None);
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
        let job = Job { rw: Rw::TrimWrite, random, ..Job::default() };
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
    let job = Job { rw: Rw::TrimWrite, bs: [512, 512, 2048], ..Job::default() };
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
    let job = Job { rw: Rw::TrimWrite, bs, ..Job::default() };
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
        (job.rw, job.random) = (Rw::TrimWrite, random);
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
    let job =
        Job { rw: Rw::Mixed, bs: [4096, 16384, 4096], ..job(true, AddressOptions::default()) };
    let mut addresses = addresses(&job, MIB);
    let mut counts = [0; 3];
    for (at, dir) in [DataDir::Read, DataDir::Write].into_iter().cycle().take(100).enumerate() {
        let Some(io) = addresses.next(dir) else { continue };
        counts[dir as usize] += 1;
        assert_eq!(io.len, job.bs[dir as usize], "I/O {at}");
        assert!(io.offset.is_multiple_of(io.len), "I/O {at} at {}", io.offset);
    }
    assert!(counts[..2].iter().all(|&count| count > 10), "{counts:?}");
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
    // fio 3.33 with --rw=randwrite --bs=4k --ba=8k --size=92k: 23 I/Os at 10 of 11 places.
    let address = AddressOptions { align: [Some(8192); 3], ..AddressOptions::default() };
    let mut addresses = self::addresses(&job(true, address), 23 << 12);
    let seen: BTreeSet<u64> = offsets(&mut addresses, 23).into_iter().collect();
    assert!(seen.iter().all(|at| at % 8192 == 0), "{seen:?}");
    assert!((2..=11).contains(&seen.len()), "blocks come again: {seen:?}");
}

/// A region of this many blocks of 4 KiB on a device of `device` of them.
fn on_device(blocks: u64, device: u64, io_size: u64) -> Region {
    let [end, limit, io_size] = [blocks, device, io_size].map(|blocks| blocks << 12);
    Region { start: 0, end, size: end, io_size, lba: 512, limit }
}

/// Directions and first blocks of the I/Os of the first pass, `count` at most.
fn pass(generator: &mut Generator, count: usize) -> Vec<(DataDir, u64)> {
    let next = || match generator.next_io() {
        NextIo::Io(io) => Some((io.dir, io.offset >> 12)),
        NextIo::EndOfPass => None,
        other => panic!("{other:?}"),
    };
    std::iter::from_fn(next).take(count).collect()
}

fn blocks_of(seen: &[(DataDir, u64)], dir: DataDir) -> Vec<u64> {
    seen.iter().filter(|io| io.0 == dir).map(|io| io.1).collect()
}

fn generator(job: &Job, region: Region) -> Generator {
    Generator::new(job, region, None, 0, 0, 1, [0; 3])
}

#[test]
fn a_direction_starts_over_alone_where_io_size_is_more_than_the_region() {
    // fio 3.41 with --rw=rw --bs=4k --size=64k --io_size=200k --rwmixread=50, or time_based.
    let mixed = Job { rw: Rw::Mixed, ..Job::default() };
    let timed = Job { time_based: true, ..mixed.clone() };
    for (job, io_size) in [(mixed, 50), (timed, 16)] {
        let seen = pass(&mut generator(&job, on_device(16, 256, io_size)), 200);
        for dir in [DataDir::Read, DataDir::Write] {
            let expected = (0..16).cycle().take(blocks_of(&seen, dir).len());
            assert!(blocks_of(&seen, dir).into_iter().eq(expected), "{dir:?}: {seen:?}");
        }
        assert_eq!(seen.len(), 200);
    }
}

#[test]
fn passes_of_mixed_jobs_end_with_a_direction() {
    // fio 3.41 with --rw=rw --bs=4k --size=64k --loops=3 --ioengine=psync.
    let mixed = Job { rw: Rw::Mixed, ..Job::default() };
    let mut without = generator(&mixed, on_device(16, 256, 16));
    let seen = pass(&mut without, 100);
    let last = DataDir::ALL.map(|dir| blocks_of(&seen, dir).last().copied());
    assert!(last.contains(&Some(15)) && seen.len() > 16, "{seen:?}");
}

#[test]
fn a_sequential_block_that_begins_in_the_region_may_end_beyond_it() {
    // fio 3.41 with --rw=write --bs=12k --size=44k on 128k and on 44k; with bssplit it may not.
    let job = Job { rw: Rw::Write, bs: [12 << 10; 3], ..Job::default() };
    let blocks = |job: &Job, device| {
        let seen = pass(&mut generator(job, on_device(11, device, 11)), 100);
        blocks_of(&seen, DataDir::Write)
    };
    assert_eq!(blocks(&job, 32), [0, 3, 6, 9]);
    assert_eq!(blocks(&job, 11), [0, 3, 6]);
    let sizes = [0; 3].map(|_| BlockSizes::Split(vec![(8192, 50), (12 << 10, 50)]));
    let address = AddressOptions { sizes, ..AddressOptions::default() };
    assert!(blocks(&Job { address, ..job }, 32).into_iter().all(|block| block <= 9));
    // With --rw=write:4k --bs=8k --size=28k on 128k, 28k and 24k.
    let skipping = Job { rw: Rw::Write, rw_modifier: 4096, bs: [8192; 3], ..Job::default() };
    let blocks = |device, count| {
        let region = on_device(7.min(device), device, 7);
        blocks_of(&pass(&mut generator(&skipping, region), count), DataDir::Write)
    };
    assert_eq!(blocks(32, 10), [0, 3, 6]);
    assert_eq!(blocks(7, 10), [0, 3]);
    assert_eq!(blocks(6, 4), [0, 3, 0, 3], "the end of the device");
}

/// A sequential job with strides in blocks of 4 KiB.
fn stride(bs: u64, zonesize: u64, zonerange: u64, zoneskip: u64) -> Job {
    let [zonesize, zonerange] = [zonesize, zonerange].map(|blocks| Some(blocks << 12));
    let zoneskip = zoneskip << 12;
    let address = AddressOptions { zonerange, zoneskip, ..AddressOptions::default() };
    let zonemode = ZoneMode::Strided;
    Job { zonemode, zonesize, bs: [bs << 12; 3], ..job(false, address) }
}

#[test]
fn strides_go_on_beyond_the_region_to_the_end_of_the_device() {
    // fio 3.41 with --size=60k --zonemode=strided --zonesize=16k --zoneskip=8k on 128k.
    let zone = |zone: u64| (0..4).map(move |block| zone * 6 + block);
    let to_end: Vec<u64> = (0..6).flat_map(zone).take(22).collect();
    let reads =
        |job: &Job, region| blocks_of(&pass(&mut generator(job, region), 100), DataDir::Read);
    let job = stride(1, 4, 4, 2);
    assert_eq!(reads(&job, on_device(15, 32, 15)), to_end);
    // A runtime has what is beyond the size begin again in each zone.
    let timed = Job { time_based: true, ..job };
    let expected = [0, 1, 2, 3, 6, 7, 8, 9, 12, 13, 14, 12, 18, 18, 18, 18, 24, 24, 24, 24];
    assert_eq!(reads(&timed, on_device(15, 32, 15))[..20], expected);
    // --bs=12k --zonesize=52k --zonerange=20k --zoneskip=4k: blocks reach beyond their zone.
    let seen = reads(&stride(3, 13, 5, 1), on_device(17, 17, 17));
    assert_eq!(seen, [0, 3, 0, 3, 0, 6, 9, 6, 9, 6, 12]);
    // --bs=12k --zonesize=20k --zonerange=32k --zoneskip=8k on 128k: the last zone has no room.
    assert_eq!(reads(&stride(3, 5, 8, 2), on_device(32, 32, 32)), [0, 3, 10, 13, 20, 23]);
}

/// A job of reads alone, which may have writes, in strides of which `zonesize` blocks are done in a zone of
/// `zonerange`.
fn strides_for_io_size(zonesize: u64, zonerange: u64) -> Job {
    Job { rw: Rw::Mixed, rwmixread: 100, ..stride(1, zonesize, zonerange, 5) }
}

#[test]
fn strides_longer_than_the_region_start_over_at_its_end_for_io_size_and_in_time() {
    // fio 3.41 with --rw=rw --rwmixread=100 --bs=4k --zonemode=strided --zonesize=28k --zoneskip=20k --size=16k
    // --io_size=128k on 204k.
    let reads =
        |job: &Job, region| blocks_of(&pass(&mut generator(job, region), 32), DataDir::Read);
    let first = [0, 1, 2, 3, 0, 1, 2];
    let expected: Vec<u64> =
        first.into_iter().chain((1..5).flat_map(|zone| [zone * 12; 7])).take(32).collect();
    let mixed = strides_for_io_size(7, 7);
    assert_eq!(reads(&mixed, on_device(4, 51, 32)), expected);
    let timed = Job { rw: Rw::Read, time_based: true, ..mixed.clone() };
    assert_eq!(reads(&timed, on_device(4, 51, 4)), expected);
    assert_eq!(reads(&mixed, on_device(4, 51, 4)), [0, 1, 2, 3], "as much as the region");
}

#[test]
fn runs_in_strides_beyond_the_region_go_on_at_the_start_of_the_zone() {
    // fio 3.41 with --rw=randrw:4 --rwmixread=100 --bs=4k --zonemode=strided --zonesize=40k --zonerange=20k
    // --zoneskip=20k --size=32k --io_size=160k --norandommap on 204k; with --rw=randread each block is the next.
    let mut job = strides_for_io_size(10, 5);
    (job.random, job.norandommap, job.rw_modifier) = (true, true, 4);
    let reads = |job: &Job| pass(&mut generator(job, on_device(8, 51, 40)), 40);
    // Those that begin a run are at random.
    let follow = |job: &Job| -> Vec<u64> {
        reads(job)
            .into_iter()
            .enumerate()
            .filter(|(at, _)| at % 4 > 0)
            .map(|(_, io)| io.1)
            .collect()
    };
    let zones =
        |zones: std::ops::Range<u64>, each| zones.flat_map(move |zone| vec![zone * 10; each]);
    let beyond: Vec<u64> = zones(1..2, 8).chain(zones(2..3, 7)).chain(zones(3..4, 8)).collect();
    assert_eq!(follow(&job)[7..], beyond[..23]);
    let other = Job { rw: Rw::Read, ..job.clone() };
    assert!(follow(&other)[7..].iter().any(|at| at % 10 > 0));
    // --rw_sequencer=identical: the first block of each zone, and of each five, ends what is identical.
    job.address.identical = true;
    let seen = reads(&job);
    for (at, pair) in seen.windows(2).enumerate().filter(|(at, _)| (at + 1) % 4 > 0) {
        let zone = (at + 1) as u64 / 10 * 10;
        let is_new = (at + 1) % 5 == 0;
        assert!(is_new || pair[0].1 == pair[1].1, "{at}: {seen:?}");
        assert!(!is_new || pair[1].1 == zone, "{at}: {seen:?}");
    }
}

#[test]
fn what_is_skipped_in_a_stride_may_lead_out_of_its_zone_once() {
    // fio 3.41 with --rw=read:4k --bs=4k --size=80k --zonemode=strided --zonesize=28k --zonerange=16k
    // --zoneskip=12k on 160k: what is done of a zone has its range after four.
    let skipping = |skip: i64, zonesize, range, zoneskip| {
        let mut job = stride(1, zonesize, range, zoneskip);
        job.rw_modifier = skip << 12;
        move |blocks, device| {
            let seen = pass(&mut generator(&job, on_device(blocks, device, blocks)), 100);
            blocks_of(&seen, DataDir::Read)
        }
    };
    let expected = [0, 2, 4, 0, 0, 2, 4, 7, 9, 11, 7, 7, 9, 11];
    assert_eq!(skipping(1, 7, 4, 3)(20, 40)[..14], expected);
    // --rw=read:8k with --zonerange=20k.
    let expected = [0, 3, 6, 0, 3, 0, 3, 8, 11, 14, 8, 11, 8, 11];
    assert_eq!(skipping(2, 7, 5, 3)(20, 40)[..14], expected);
    // --rw=read:4k --zonesize=12k --zoneskip=28k on 44k: the job ends with the device.
    assert_eq!(skipping(1, 3, 3, 7)(11, 11), [0, 2, 0, 10]);
}

#[test]
fn random_blocks_of_a_coarser_alignment_are_whole_ones() {
    // fio 3.41 with --rw=randwrite --bs=4k --ba=8k --size=92k --norandommap: the last block begins at 80k.
    let address = AddressOptions { align: [Some(8192); 3], ..AddressOptions::default() };
    let job = Job { norandommap: true, ..job(true, address) };
    let seen = offsets(&mut addresses(&job, 23 << 12), 1000);
    let blocks: BTreeSet<u64> = seen.into_iter().collect();
    assert!(blocks.into_iter().eq((0..=80 << 10).step_by(8192)), "each multiple of 8 KiB");
    // With --ba=16k --size=8k it does nothing.
    let address = AddressOptions { align: [Some(16 << 10); 3], ..job.address.clone() };
    let job = Job { address, ..job };
    assert!(addresses(&job, 8192).next(DataDir::Read).is_none());
    assert_eq!(offsets(&mut addresses(&job, 16 << 10), 3), [0; 3]);
}

#[test]
fn blocks_of_several_sizes_in_strides_end_in_the_region() {
    // fio 3.41 with --bssplit=16k/60:32k/40 --zonesize=16k --zonerange=96k --zoneskip=96k --size=128k
    // --io_size=1m: only the first zone begins in the region; with --size=300k the first two do.
    let sizes = [0; 3].map(|_| BlockSizes::Split(vec![(16 << 10, 60), (32 << 10, 40)]));
    for random in [false, true] {
        let mut job = stride(8, 4, 24, 24);
        (job.random, job.address.sizes) = (random, sizes.clone());
        let mut one = generator(&job, on_device(32, 440, 32));
        let first = pass(&mut one, 100);
        assert!(first.len() == 1 && first[0].1 < 24, "{first:?}");
        one.rewind();
        assert!(pass(&mut one, 100)[0].1 < 24);
        let two = pass(&mut generator(&job, on_device(75, 440, 75)), 100);
        assert!(two.len() == 2 && (48..72).contains(&two[1].1), "{two:?}");
    }
}

#[test]
fn lfsr_begins_once_at_each_block_of_the_smallest_size_and_cuts_none() {
    // fio 3.41 with --bssplit=4k/10:8k/30:12k/60 --random_generator=lfsr.
    let mut job = split(&[(4096, 10), (8192, 30), (12 << 10, 60)]);
    job.address.lfsr = true;
    let mut addresses = addresses(&job, 1000 << 12);
    let ios: Vec<Io> = std::iter::from_fn(|| addresses.next(DataDir::Read)).collect();
    let starts: BTreeSet<u64> = ios.iter().map(|io| io.offset >> 12).collect();
    assert!(ios.len() == 1000 && starts.into_iter().eq(0..1000));
    let short = ios.iter().filter(|io| io.len == 4096).count();
    assert!((70..130).contains(&short), "{short}");
}

#[test]
fn a_size_of_another_direction_has_no_part_in_the_random_map() {
    // fio 3.41 with --rw=randread --bs=8k,24k --size=1220608: 149 offsets.
    let job = Job { bs: [8192, 24 << 10, 24 << 10], ..job(true, AddressOptions::default()) };
    let seen = pass(&mut generator(&job, on_device(298, 400, 298)), 1000);
    assert_eq!(seen.iter().map(|io| io.1).collect::<BTreeSet<_>>().len(), 149);
}

#[test]
fn blocks_that_follow_random_ones_end_the_pass_with_the_region() {
    // fio 3.41 with --rw=randread --bs=4k --percentage_random=20 --size=20k on 512k, and on 20k, where another
    // block is drawn instead.
    let address = AddressOptions { percentage_random: [20; 3], ..AddressOptions::default() };
    let job = Job { norandommap: true, ..job(true, address) };
    let short = pass(&mut generator(&job, on_device(5, 128, 5)), 1000);
    assert!(short.len() < 1000 && short.last().expect("some").1 == 4, "{short:?}");
    assert_eq!(pass(&mut generator(&job, on_device(5, 5, 5)), 1000).len(), 1000);
    // With --bs=8k --ba=4k a block that follows another may end beyond the region.
    let address = AddressOptions { align: [Some(4096); 3], ..job.address };
    let job = Job { bs: [8192; 3], address, ..job };
    let mut generator = generator(&job, on_device(5, 128, 5));
    let mut last = 0;
    for _pass in 0..100 {
        last = last.max(pass(&mut generator, 1000).last().map_or(0, |io| io.1));
        generator.rewind();
    }
    assert_eq!(last, 4);
}

#[test]
fn a_stride_longer_than_the_region_ends_the_pass_at_the_first_block_beyond_that() {
    // fio 3.41 with --bs=16k --zonemode=strided --zonesize=128k --zoneskip=80k --size=96k.
    let random = Job { random: true, norandommap: true, ..stride(4, 32, 32, 20) };
    let seen = pass(&mut generator(&random, on_device(24, 400, 24)), 1000);
    assert!(seen.len() < 200 && seen.iter().all(|io| io.1 % 52 < 24), "{seen:?}");
    let sequential = pass(&mut generator(&stride(4, 32, 32, 20), on_device(24, 400, 24)), 1000);
    assert_eq!(blocks_of(&sequential, DataDir::Read), [0, 4, 8, 12, 16, 20]);
}

#[test]
fn random_blocks_of_several_sizes_end_the_pass_where_a_stride_is_longer_than_the_region() {
    // fio 3.41 with --rw=randread --bssplit=16k/50:32k/50 --zonemode=strided --zonesize=96k --size=64k.
    let mut job = Job { random: true, ..stride(8, 24, 24, 20) };
    job.address.sizes = [0; 3].map(|_| BlockSizes::Split(vec![(16 << 10, 50), (32 << 10, 50)]));
    let mut generator = generator(&job, on_device(16, 400, 16));
    let ends = |_| {
        generator.rewind();
        pass(&mut generator, 100).len()
    };
    let passes: Vec<usize> = (0..100).map(ends).collect();
    let longest = passes.iter().max();
    assert!(passes.contains(&0) && longest.is_some_and(|&ios| ios < 8), "{passes:?}");
}
