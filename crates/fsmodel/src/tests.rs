//! The block I/O of small operations, and properties of any operations.
use super::mount::Layout;
use super::testing::{FILE, Harness, limits, zones};
use super::ufs::Ufs;
use super::zfs::Zfs;
use super::zoned::{BTRFS, XFS, ZonedFs};
use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use zonal_blk::ZoneWrite;
use zonal_fio::job::Job;

const KIB: u64 = 1024;
const SECOND: Nanos = Nanos(1_000_000_000);

fn job(direct: bool) -> Job {
    Job { direct, numjobs: 8, iodepth: 16, ..Job::default() }
}

fn params(kind: FsKind, change: impl FnOnce(&mut Params)) -> Params {
    let mut params = Params::new(kind, &FsOptions::default());
    change(&mut params);
    params
}

fn zoned(
    kind: FsKind,
    direct: bool,
    conventional: u64,
    change: impl FnOnce(&mut Params),
) -> Harness {
    let variant = if kind == FsKind::Xfs { XFS } else { BTRFS };
    let (params, report, job) = (params(kind, change), zones(64, conventional), job(direct));
    let plug = ZoneWrite::Plug;
    let fs = ZonedFs::new(params, variant, &limits(64), plug, &report, &job, &Layout::new());
    Harness::new(fs.expect("no files, and there is room for them"), 1)
}

fn ufs(direct: bool, size: u64, change: impl FnOnce(&mut Params)) -> Harness {
    let params = params(FsKind::Ufs, change);
    let fs = Ufs::new(params, &limits(0), &job(direct), &vec![(FILE, size)]);
    Harness::new(fs.expect("room for the file"), 1)
}

fn zfs(disks: usize, size: u64, change: impl FnOnce(&mut Params)) -> Harness {
    let params = params(FsKind::Zfs, change);
    let limits = limits(0);
    let fs = Zfs::new(params, &vec![&limits; disks], &job(false), &vec![(FILE, size)], 1);
    Harness::new(fs.expect("room for the file"), 1)
}

fn write(offset: u64, len: u64) -> FileOp {
    FileOp::Write { offset, len }
}

fn read(offset: u64, len: u64) -> FileOp {
    FileOp::Read { offset, len }
}

#[test]
fn btrfs_appends_to_one_zone_after_another_and_commits_its_trees() {
    let mut harness = zoned(FsKind::Btrfs, true, 0, |_| {});
    harness.run(FILE, FileOp::Create);
    for offset in [0, 128, 256] {
        harness.run(FILE, write(offset * KIB, 128 * KIB));
    }
    harness.advance(Nanos(31 * SECOND.0));
    insta::assert_snapshot!(harness.text());
}

#[test]
fn xfs_writes_open_files_back_to_a_zone_each_and_packs_closed_ones() {
    let mut harness = zoned(FsKind::Xfs, false, 2, |_| {});
    let files = [0, 1, 2, 3].map(|number| FileId { owner: number, number });
    for file in files {
        harness.run(file, FileOp::Create);
        harness.run(file, write(0, 64 * KIB));
        harness.run(file, write(64 * KIB, 32 * KIB));
    }
    harness.run(files[2], FileOp::Close);
    harness.run(files[3], FileOp::Close);
    assert_eq!(harness.text(), "", "nothing is written early");
    harness.advance(Nanos(61 * SECOND.0));
    insta::assert_snapshot!(harness.text());
}

#[test]
fn ufs_direct_reads_partly_written_blocks_and_waits_for_writes_before_reads() {
    let mut harness = ufs(true, 1024 * KIB, |_| {});
    harness.run(FILE, write(8 * KIB, 160 * KIB));
    harness.start(0, FILE, read(512, KIB));
    harness.advance(SECOND);
    insta::assert_snapshot!(harness.text());
}

#[test]
fn ufs_buffered_reads_a_block_once_and_defers_writes() {
    let mut harness = ufs(false, 1024 * KIB, |params| params.memory = 64 * KIB);
    harness.run(FILE, read(3 * KIB, 4 * KIB));
    harness.run(FILE, read(6 * KIB, 4 * KIB));
    harness.run(FILE, write(7 * KIB, 512));
    harness.run(FILE, write(64 * KIB, 32 * KIB));
    let before = harness.text();
    harness.advance(Nanos(31 * SECOND.0));
    insta::assert_snapshot!(format!("{before}after 30 s:\n{}", harness.text()));
}

#[test]
fn ufs_writers_wait_at_the_high_water_mark_until_half_is_written() {
    let mut harness = ufs(false, 1024 * KIB, |params| {
        params.dirty = 64 * KIB;
        params.background = 48 * KIB;
        params.chunk = 16 * KIB;
        params.op_cost = Nanos(0);
        params.byte_rate = u64::MAX;
    });
    let block = |at: u64| write(at * 32 * KIB, 16 * KIB);
    (0..5).for_each(|at| harness.run(FILE, block(at)));
    harness.start(1, FILE, block(8));
    harness.start(2, FILE, read(0, 512));
    harness.advance(Nanos(100));
    let of =
        |harness: &Harness, process| harness.completed.iter().any(|(id, _)| id.process == process);
    assert!(of(&harness, 2) && !of(&harness, 1), "it waits without the lock of the file");
    harness.advance(SECOND);
    assert!(of(&harness, 1));
    let written = harness.done.iter().filter(|io| io.op == Op::Write).count();
    assert_eq!(written, 3, "of 5 blocks: down to the low-water mark");
}

#[test]
fn zfs_reads_records_and_rewrites_them_with_their_transaction_group() {
    let mut harness = zfs(2, 1024 * KIB, |params| params.memory = 0);
    harness.run(FILE, read(100 * KIB, 64 * KIB));
    harness.run(FILE, write(512 * KIB, 1024));
    harness.run(FILE, write(256 * KIB, 128 * KIB));
    let before = harness.text();
    harness.advance(Nanos(31 * SECOND.0));
    insta::assert_snapshot!(format!("{before}after 30 s:\n{}", harness.text()));
}

#[test]
fn ufs_writes_are_exclusive_and_reads_are_shared() {
    let in_flight = |ops: &[FileOp]| {
        let mut harness = ufs(true, 1024 * KIB, |_| {});
        for (process, &op) in (0..).zip(ops) {
            harness.start(process, FILE, op);
        }
        harness.sent.len()
    };
    let (read, write) = (read(0, 512), write(512, 512));
    assert_eq!(in_flight(&[read, read, read]), 3);
    assert_eq!(in_flight(&[write, write]), 1, "one reads its block, the other waits for the lock");
    assert_eq!(in_flight(&[read, write, read]), 1, "a read does not pass a waiting write");
}

#[test]
fn a_second_disk_takes_half_of_the_records() {
    let mut harness = zfs(2, 4096 * KIB, |params| params.memory = 0);
    harness.run(FILE, read(0, 4096 * KIB));
    let of =
        |disk| harness.sent.iter().filter(|io| io.disk == disk && io.nr_sectors == 256).count();
    assert_eq!((of(0), of(1)), (16, 16));
}

/// By file and sector, the location of the last write.
fn final_places(harness: &Harness) -> BTreeMap<(FileId, u64), (usize, u64)> {
    let mut places = BTreeMap::new();
    for io in harness.done.iter().filter(|io| io.op != Op::Read) {
        let parts = match &io.content {
            Content::Data { file, offset } => {
                vec![(*file, *offset, u64::from(io.nr_sectors) * 512)]
            }
            Content::Multiple(parts) => parts.clone(),
            _ => continue,
        };
        let mut sector = io.sector.0;
        for (file, offset, bytes) in parts {
            for number in 0..bytes / 512 {
                places.insert((file, offset / 512 + number), (io.disk, sector));
                sector += 1;
            }
        }
    }
    places
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Files written sequentially: each byte is written to the device once, no two at the same place.
    #[test]
    fn every_byte_written_to_zones_reaches_the_device_once(
        seed in any::<u64>(),
        kind in prop_oneof![Just(FsKind::Xfs), Just(FsKind::Btrfs)],
        direct in any::<bool>(),
        steps in proptest::collection::vec((0_u32..4, 1_u64..40, any::<bool>()), 1..24),
    ) {
        let mut harness = zoned(kind, direct, 0, |params| {
            (params.dirty, params.background, params.chunk) = (96 * KIB, 32 * KIB, 24 * KIB);
        });
        harness.now = Nanos(seed % 1000);
        let mut sizes: BTreeMap<FileId, u64> = BTreeMap::new();
        let mut written = 0;
        for (owner, blocks, close) in steps {
            let file = FileId { owner, number: 0 };
            let size = sizes.entry(file).or_insert_with(|| {
                harness.run(file, FileOp::Create);
                0
            });
            harness.run(file, write(*size, blocks * 4 * KIB));
            *size += blocks * 4 * KIB;
            written += blocks * 4 * KIB;
            if close {
                harness.run(file, FileOp::Close);
            }
        }
        harness.advance(Nanos(120 * SECOND.0));
        harness.drain();
        let data = |io: &&BlockIo| matches!(io.content, Content::Data { .. });
        let sent: u64 = harness.done.iter().filter(data).map(|io| u64::from(io.nr_sectors) * 512).sum();
        prop_assert_eq!(sent, written, "each byte once, as none was overwritten");
        let places = final_places(&harness);
        let mut sectors: Vec<_> = places.values().collect();
        sectors.sort();
        sectors.dedup();
        prop_assert_eq!(sectors.len(), places.len(), "no two at one place");
        for (file, size) in sizes {
            for sector in 0..size / 512 {
                prop_assert!(places.contains_key(&(file, sector)), "{:?} {}", file, sector);
            }
        }
    }

    /// Overwritten in any order: finally every block that was written is on the device, at its own
    /// place.
    #[test]
    fn every_block_written_to_ufs_reaches_its_place(
        direct in any::<bool>(),
        steps in proptest::collection::vec((0_u64..1000, 1_u64..200, any::<bool>()), 1..40),
    ) {
        let mut harness = ufs(direct, 1024 * KIB, |params| params.memory = 128 * KIB);
        let mut expected = std::collections::BTreeSet::new();
        for (sector, len, writes) in steps {
            let len = len.min(2048 - sector);
            let (offset, bytes) = (sector * 512, len * 512);
            harness.run(FILE, if writes { write(offset, bytes) } else { read(offset, bytes) });
            if writes {
                expected.extend(sector..sector + len);
            }
        }
        harness.advance(Nanos(120 * SECOND.0));
        harness.drain();
        let places = final_places(&harness);
        for sector in expected {
            prop_assert_eq!(places.get(&(FILE, sector)).copied(), Some((0, sector)));
        }
    }

    /// Transaction groups are written one after another: records, metadata, a flush of every disk,
    /// then uberblocks; and finally all written records are on the disks.
    #[test]
    fn transaction_groups_are_on_the_disks_in_order(
        seed in any::<u64>(),
        steps in proptest::collection::vec((0_u64..2000, 1_u64..200, any::<bool>()), 1..40),
    ) {
        let mut harness = zfs(2, 1024 * KIB, |params| {
            (params.memory, params.dirty) = (512 * KIB, 512 * KIB);
            params.block = 32 * KIB;
        });
        harness.now = Nanos(seed % 1_000_000);
        let mut expected = std::collections::BTreeSet::new();
        for (sector, len, writes) in steps {
            let len = len.min(2048 - sector);
            let (offset, bytes) = (sector * 512, len * 512);
            harness.run(FILE, if writes { write(offset, bytes) } else { read(offset, bytes) });
            if writes {
                expected.extend(sector / 64..(sector + len).div_ceil(64));
            }
        }
        harness.advance(Nanos(70 * SECOND.0));
        harness.drain();
        let mut stage = 0;
        let mut flushed = 0;
        for io in harness.sent.iter().filter(|io| io.op != Op::Read) {
            let now = match (&io.content, io.op) {
                (Content::None, Op::Flush) => 2,
                (Content::Metadata, _) if io.flags.contains(BioFlags::FUA) => 3,
                (Content::Metadata, _) => 1,
                _ => 0,
            };
            flushed += u32::from(now == 2);
            prop_assert!(now >= stage || (now == 0 && stage == 3), "{} after {}", now, stage);
            stage = now;
        }
        prop_assert_eq!(flushed % 2, 0, "both disks");
        let places = final_places(&harness);
        for record in expected {
            prop_assert!(places.contains_key(&(FILE, record * 64)), "record {}", record);
        }
    }
}
