//! Zoned offsets without a block layer: what a job asks for, and what others see of it.
use super::*;
use crate::job::{Checksum, Extent, VerifyMethod, VerifyOptions, ZbdOptions, ZoneMode};
use std::collections::{BTreeMap, BTreeSet};
use zonal_device::device_spec;

const ZONE: u64 = 64 << 10;
const BLOCK: u64 = 4096;

fn table(spec: &str, max_open_zones: u32) -> Arc<ZbdTable> {
    let device = device_spec::build(&device_spec::parse(spec).expect("a spec")).expect("a device");
    Arc::new(ZbdTable::new(&*device, max_open_zones).expect("a report"))
}

fn job(table: &Arc<ZbdTable>, id: u32, random: bool, zones: std::ops::Range<u64>) -> ZbdJob {
    job_of(table, id, Job { random, ..Job::default() }, zones)
}

fn job_of(table: &Arc<ZbdTable>, id: u32, job: Job, zones: std::ops::Range<u64>) -> ZbdJob {
    let region = Region {
        start: zones.start * ZONE,
        end: zones.end * ZONE,
        size: (zones.end - zones.start) * ZONE,
        io_size: match job.io_size {
            Some(Extent::Bytes(bytes)) => bytes,
            _ => 0,
        },
        lba: 512,
        limit: zones.end * ZONE,
    };
    let job = Job { zonemode: ZoneMode::Zbd, ..job };
    let rng = |purpose| Rng::new(1, [u64::from(id), 0, 0, purpose]);
    ZbdJob::new(&job, region, Arc::clone(table), ZONE, id, (rng(1), rng(3)))
}

fn io(next: NextIo) -> Io {
    match next {
        NextIo::Io(io) => io,
        other => panic!("expected an I/O, got {other:?}"),
    }
}

/// Writes one block and completes it.
fn write(job: &mut ZbdJob) -> u64 {
    loop {
        match job.next(DataDir::Write, BLOCK) {
            NextIo::Io(io) => {
                assert_eq!(io.zone.and_then(|zone| job.done(io.op, zone)), None);
                return io.offset;
            }
            NextIo::Manage(io) => {
                assert_eq!(io.op, Op::ZoneReset);
                assert_eq!(job.done(io.op, io.zone.expect("a zone")), None);
            }
            // Each block has been visited.
            NextIo::EndOfPass => job.rewind(),
            other => panic!("nothing else is in the way: {other:?}"),
        }
    }
}

#[test]
fn sequential_writes_follow_write_pointers_and_reset_full_zones_on_the_next_pass() {
    let table = table("null:zones=2,zone_size=64k,max_open=0", 0);
    let mut job = job(&table, 0, false, 0..2);
    let blocks = 2 * ZONE / BLOCK;
    let first: Vec<u64> = (0..blocks).map(|_| write(&mut job)).collect();
    assert!(first.iter().copied().eq((0..blocks).map(|i| i * BLOCK)));
    assert_eq!(job.next(DataDir::Write, BLOCK), NextIo::EndOfPass);
    job.rewind();
    let next = job.next(DataDir::Write, BLOCK);
    assert!(matches!(next, NextIo::Manage(Io { op: Op::ZoneReset, offset: 0, .. })), "{next:?}");
    assert_eq!(job.next(DataDir::Write, BLOCK), NextIo::Wait, "the reset is in flight");
    job.done(Op::ZoneReset, 0);
    assert_eq!(write(&mut job), 0);
}

#[test]
fn random_writes_stay_within_the_limit_of_open_zones_until_one_is_full() {
    let table = table("null:zones=64,zone_size=64k,max_open=0", 4);
    let mut job = job(&table, 0, true, 0..64);
    let zones: BTreeSet<u64> = (0..16).map(|_| write(&mut job) / ZONE).collect();
    assert!(zones.len() <= 4, "{zones:?}");
    let zones: BTreeSet<u64> = (0..2000).map(|_| write(&mut job) / ZONE).collect();
    assert!(zones.len() > 32, "full zones make room for others: {zones:?}");
}

#[test]
fn random_writes_at_the_limit_of_open_zones_go_to_all_of_them_alike() {
    let table = table("null:zones=64,zone_size=16m,max_open=0", 4);
    let mut job = job(&table, 0, true, 0..64);
    let mut writes = BTreeMap::new();
    for _ in 0..4000 {
        *writes.entry(write(&mut job) >> 24).or_insert(0) += 1;
    }
    assert_eq!(writes.len(), 4, "{writes:?}");
    assert!(writes.values().all(|count| (800..1200).contains(count)), "{writes:?}");
}

#[test]
fn a_job_is_blocked_until_the_zone_that_it_waits_for_is_released() {
    let table = table("null:zones=64,zone_size=64k,max_open=0", 1);
    let (mut first, mut second) = (job(&table, 0, true, 0..64), job(&table, 1, true, 0..64));
    assert!(!second.is_blocked(), "it has not tried");
    let Io { op, zone, .. } = io(first.next(DataDir::Write, BLOCK));
    assert_eq!(second.next(DataDir::Write, BLOCK), NextIo::Contended);
    assert!(second.is_blocked());
    assert_eq!(second.next(DataDir::Write, BLOCK), NextIo::Contended, "as it was");
    assert!(!first.is_blocked());
    assert_eq!(first.done(op, zone.expect("a zone")), None);
    assert!(!second.is_blocked());
    assert_eq!(io(second.next(DataDir::Write, BLOCK)).zone, zone);
}

#[test]
fn zone_that_another_job_resets_after_it_was_chosen_is_written_from_its_start() {
    for random in [false, true] {
        let table = table("null:zones=1,zone_size=64k,max_open=0", 0);
        let (mut a, mut b) = (job(&table, 0, false, 0..1), job(&table, 1, random, 0..1));
        write(&mut a);
        let second = io(a.next(DataDir::Write, BLOCK));
        assert_eq!(b.next(DataDir::Write, BLOCK), NextIo::Contended, "it has chosen the zone");
        assert_eq!(a.done(second.op, 0), None);
        let trim = io(a.next(DataDir::Trim, BLOCK));
        assert_eq!(b.next(DataDir::Write, BLOCK), NextIo::Contended);
        assert_eq!(a.done(trim.op, 0), None);
        assert_eq!(write(&mut b), 0, "not after the data that was there when it chose");
    }
}

#[test]
fn random_jobs_that_waited_for_a_zone_go_elsewhere_when_it_is_full() {
    let table = table("null:zones=4096,zone_size=64k,max_open=0", 1);
    let (mut a, mut b) = (job(&table, 0, true, 0..4096), job(&table, 1, true, 0..4096));
    let blocks: Vec<Io> = (0..ZONE / BLOCK).map(|_| io(a.next(DataDir::Write, BLOCK))).collect();
    let zone = blocks[0].zone.expect("a zone");
    assert_eq!(b.next(DataDir::Write, BLOCK), NextIo::Contended);
    for block in blocks {
        a.done(block.op, zone);
    }
    assert_ne!(write(&mut b) / ZONE, u64::from(zone));
}

#[test]
fn a_job_that_meets_a_zone_of_another_waits_until_it_lets_go() {
    let table = table("null:zones=4,zone_size=64k,max_open=0", 0);
    let (mut a, mut b) = (job(&table, 0, false, 0..4), job(&table, 1, false, 0..4));
    let first = io(a.next(DataDir::Write, BLOCK));
    assert_eq!(b.next(DataDir::Write, BLOCK), NextIo::Contended);
    assert_eq!(b.next(DataDir::Write, BLOCK), NextIo::Contended);
    a.done(first.op, first.zone.expect("a zone"));
    assert_eq!(write(&mut b), BLOCK, "after the first job's block");
}

/// Completes an I/O that nothing follows.
fn complete(job: &mut ZbdJob, io: Io) {
    assert_eq!(job.done(io.op, io.zone.expect("a zone")), None);
}

/// The zones that the next writes go to, each completed before the next; with the resets and finishes
/// between them.
fn trail(job: &mut ZbdJob, writes: usize) -> Vec<(Op, u64)> {
    let mut seen = Vec::new();
    while seen.iter().filter(|(op, _)| *op == Op::Write).count() < writes {
        match job.next(DataDir::Write, BLOCK) {
            NextIo::Io(io) | NextIo::Manage(io) => {
                seen.push((io.op, io.offset / ZONE));
                complete(job, io);
            }
            other => panic!("after {seen:?}: {other:?}"),
        }
    }
    seen
}

#[test]
fn a_write_that_falls_in_a_rest_smaller_than_a_block_finishes_it_and_goes_to_the_next_zone() {
    // fio 3.41: bs=16k, zones of 64k with a capacity of 40k.
    let table = table("null:zones=2,zone_size=64k,zone_capacity=6k,max_open=0", 0);
    let mut job = job(&table, 0, false, 0..2);
    let (write, finish) = (Op::Write, Op::ZoneFinish);
    assert_eq!(trail(&mut job, 2), [(write, 0), (finish, 0), (write, 1)]);
    let NextIo::Manage(io) = job.next(DataDir::Write, BLOCK) else { panic!("the last zone") };
    assert_eq!((io.op, io.offset), (finish, ZONE));
    assert_eq!(job.next(DataDir::Write, BLOCK), NextIo::Wait, "it is open until then");
    complete(&mut job, io);
    assert_eq!(job.next(DataDir::Write, BLOCK), NextIo::EndOfPass);
    assert_eq!(table.readable(1), (ZONE, ZONE), "finished zones are read to their end");
}

#[test]
fn a_write_that_may_open_no_zone_goes_to_one_that_is_being_written() {
    // fio 3.41 with a limit of two zones: the place among them is that of the offset in the region; without
    // room there, the first that has room; without any, a random job resets its first choice, and a
    // sequential one ends.
    let rests = "null:zones=8,zone_size=64k,zone_capacity=6k,max_open=0";
    let open = |spec: &str, zones: &[u32]| {
        let table = table(spec, 2);
        for &zone in zones {
            let mut job = job(&table, 0, false, zone.into()..u64::from(zone) + 1);
            trail(&mut job, 1);
            job.finish();
        }
        table
    };
    let aim = |job: &mut ZbdJob, zone| {
        job.pending[DataDir::Write as usize] = Some(Target { zone, at: 0, len: BLOCK });
    };
    let roomy = open("null:zones=8,zone_size=64k,max_open=0", &[6, 2]);
    for (aimed, zone) in [(0, 6), (3, 6), (4, 2), (7, 2), (2, 2), (6, 6)] {
        let mut job = job(&roomy, 9, true, 0..8);
        aim(&mut job, aimed);
        assert_eq!(trail(&mut job, 1), [(Op::Write, zone)], "aimed at {aimed}");
        job.finish();
    }
    for (aimed, zone) in [(0, 6), (5, 2)] {
        let table = open(rests, &[6, 2]);
        let mut random = job(&table, 9, true, 0..8);
        aim(&mut random, aimed);
        assert_eq!(trail(&mut random, 1), [(Op::ZoneReset, zone), (Op::Write, zone)]);
        let mut sequential = job(&open(rests, &[6, 2]), 9, false, 0..8);
        aim(&mut sequential, aimed);
        assert_eq!(sequential.next(DataDir::Write, BLOCK), NextIo::Contended);
    }
}

#[test]
fn zones_that_were_finished_or_left_open_are_known_to_the_jobs_after() {
    let before = table("null:zones=4,zone_size=64k,zone_capacity=6k,max_open=0", 2);
    let mut finishes = job(&before, 0, false, 0..2);
    trail(&mut finishes, 2);
    finishes.finish();
    assert_eq!(before.readable(0), (0, ZONE), "zone 0 is finished, zone 1 has a rest");
    // As the device reports them then: the first is full, the second empty.
    let spec = "null:zones=4,zone_size=64k,zone_capacity=6k,max_open=0,written=0";
    let device = device_spec::build(&device_spec::parse(spec).expect("a spec")).expect("a device");
    let report = || ZbdTable::new(&*device, 2).expect("a report");
    assert_eq!(report().readable(0), (0, 6 << 10));
    let after = report().after(&before);
    assert_eq!((after.readable(0), after.write_zones()), ((0, ZONE), (0, 2)));
    let region = |zones: u64| Region {
        start: 0,
        end: zones * ZONE,
        size: zones * ZONE,
        io_size: 0,
        lba: 512,
        limit: zones * ZONE,
    };
    assert_eq!(after.zone_capacity(region(1)), Some(6 << 10));
    assert!(after.has_one_reset_region(region(2)) && after.has_one_reset_region(region(2)));
    assert!(!report().after(&after).has_one_reset_region(region(3)), "another job had two zones");
}

#[test]
fn reads_stay_below_write_pointers_and_end_where_nothing_is_written() {
    let table = table("null:zones=4,zone_size=64k,max_open=0", 0);
    let mut job = job(&table, 0, true, 0..4);
    assert_eq!(job.next(DataDir::Read, BLOCK), NextIo::EndOfPass);
    let written: BTreeSet<u64> = (0..20).map(|_| write(&mut job)).collect();
    for _ in 0..200 {
        let next = match job.next(DataDir::Read, BLOCK) {
            NextIo::EndOfPass => {
                job.rewind();
                job.next(DataDir::Read, BLOCK)
            }
            next => next,
        };
        let offset = io(next).offset;
        assert!(written.contains(&offset), "{offset} was never written");
    }
}

#[test]
fn conventional_zones_are_written_anywhere_by_anybody() {
    let table = table("null:zones=2,zone_size=64k,conventional=2,max_open=0", 0);
    let (mut a, mut b) = (job(&table, 0, true, 0..2), job(&table, 1, true, 0..2));
    let owned: Vec<Io> = (0..8).map(|_| io(a.next(DataDir::Write, BLOCK))).collect();
    assert!(owned.iter().all(|io| io.zone.is_none()));
    io(b.next(DataDir::Write, BLOCK));
}

#[test]
fn a_trim_resets_its_zone() {
    let table = table("null:zones=2,zone_size=64k,max_open=0", 0);
    let mut job = job(&table, 0, false, 0..2);
    write(&mut job);
    let trim = io(job.next(DataDir::Trim, BLOCK));
    assert_eq!((trim.op, trim.dir, trim.offset), (Op::ZoneReset, DataDir::Trim, 0));
    job.done(trim.op, 0);
    assert_eq!(table.readable(0), (0, 0));
}

#[test]
fn zones_that_a_job_leaves_partially_written_count_after_it_has_ended() {
    let table = table("null:zones=4,zone_size=64k,max_open=0", 1);
    let (mut a, mut b) = (job(&table, 0, false, 0..2), job(&table, 1, false, 2..4));
    write(&mut a);
    assert_eq!(b.next(DataDir::Write, BLOCK), NextIo::Contended);
    a.finish();
    assert_eq!(b.next(DataDir::Write, BLOCK), NextIo::Contended, "zone 0 is active on the device");
    assert_eq!(
        b.waits_for(),
        "waits to open a zone: 1 zones are being written, the limit is 1, and the job can write none \
         of them"
    );
    let mut c = job(&table, 2, true, 0..4);
    assert_eq!(write(&mut c), BLOCK, "the open zone is in its region");
}

#[test]
fn a_device_without_writable_zones_leaves_nothing_to_do() {
    let config = zonal_device::NullConfig {
        zones: 2,
        zone_size: zonal_blk::Bytes(ZONE),
        max_open: Some(0),
        ..Default::default()
    };
    let device = zonal_device::NullDevice::new(&config).expect("a device");
    for zone in 0..2 {
        let offline = zonal_blk::ZoneCondition::Offline;
        device.set_condition(zonal_blk::ZoneNo(zone), offline).expect("a zone");
    }
    let table = Arc::new(ZbdTable::new(&device, 0).expect("a report"));
    for random in [false, true] {
        assert_eq!(job(&table, 0, random, 0..2).next(DataDir::Write, BLOCK), NextIo::Exhausted);
    }
}

#[test]
fn a_block_longer_than_zones_that_are_partly_written_ends_the_job() {
    let table = table("null:zones=4,zone_size=64k,zone_capacity=48k,max_open=1", 0);
    let mut first = job(&table, 0, false, 0..4);
    write(&mut first);
    first.finish();
    // The other zone may not be opened: a random job goes to the one that is open, and would reset it.
    for id in 1..9 {
        let mut job = job(&table, id, id > 1, 0..4);
        (job.least_room, job.purpose.least) = (ZONE, ZONE);
        job.smallest = [ZONE; 3];
        assert_eq!(job.next(DataDir::Write, ZONE), NextIo::Exhausted);
        assert!(job.problem().is_some_and(|it| it.contains("is longer than zone")));
    }
}

#[test]
fn appends_go_to_the_zones_start_and_move_on_when_it_is_full() {
    let table = table("null:zones=2,zone_size=64k,max_open=0,written=1", 0);
    let mut job = job(&table, 0, false, 0..2);
    job.appends = true;
    let blocks = ZONE / BLOCK;
    for _ in 0..blocks {
        let next = io(job.next(DataDir::Write, BLOCK));
        assert_eq!((next.op, next.offset, next.zone), (Op::ZoneAppend, 0, Some(0)));
    }
    let next = job.next(DataDir::Write, BLOCK);
    let reset = matches!(next, NextIo::Manage(Io { op: Op::ZoneReset, offset: ZONE, .. }));
    assert!(reset, "the second zone is written already: {next:?}");
}

fn early_resets(threshold: &str, frequency: &str) -> ZbdOptions {
    let part = |text: &str| text.parse().expect("a fraction");
    let (reset_threshold, reset_frequency) = (part(threshold), part(frequency));
    ZbdOptions { reset_threshold, reset_frequency, ..ZbdOptions::default() }
}

fn counting_table(spec: &str) -> Arc<ZbdTable> {
    let device = device_spec::build(&device_spec::parse(spec).expect("a spec")).expect("a device");
    Arc::new(ZbdTable::new(&*device, 0).expect("a report").counting_data())
}

#[test]
fn the_count_of_writes_until_an_early_reset_begins_again_with_each_pass() {
    // fio 3.41 with zones of 16 blocks, zone_reset_threshold=0 and zone_reset_frequency=0.2.
    let table = counting_table("null:zones=4,zone_size=64k,max_open=0");
    let zbd = early_resets("0", "0.2");
    let mut job = job_of(&table, 0, Job { rw: Rw::Write, zbd, ..Job::default() }, 0..4);
    let (write, reset) = ((Op::Write, 0), (Op::ZoneReset, 0));
    let pass = [write, write, write, write, reset, write];
    assert_eq!(trail(&mut job, 5), pass);
    assert_eq!(trail(&mut job, 3), [write; 3]);
    job.rewind();
    assert_eq!(trail(&mut job, 5), pass, "not after two more");
}

/// The places of the next writes of a job, in blocks.
fn written(job: &mut ZbdJob, block: u64, count: usize) -> Vec<u64> {
    let mut offsets = Vec::new();
    while offsets.len() < count {
        match job.next(DataDir::Write, block) {
            NextIo::EndOfPass => job.rewind(),
            NextIo::Io(io) | NextIo::Manage(io) => {
                offsets.extend((io.op == Op::Write).then_some(io.offset / block));
                complete(job, io);
            }
            other => panic!("nothing is in flight: {other:?}"),
        }
    }
    offsets
}

#[test]
fn an_early_reset_after_a_zone_with_less_room_than_a_block_is_one_of_the_next_zone() {
    // fio 3.41 with --iodepth=4 --verify=meta and a capacity of six and a half blocks, in the 37th write: all 36
    // before are verified, also if the last ones are still in flight when that is due.
    let table = counting_table("null:zones=5,zone_size=64k,zone_capacity=48k,max_open=0");
    let method = Some(VerifyMethod::Checksum(Checksum::Md5));
    let verify = VerifyOptions { method, ..VerifyOptions::default() };
    let (rw, bs, zbd) = (Rw::Write, [ZONE / 2; 3], early_resets("0", "0.5"));
    let mut job = job_of(&table, 0, Job { rw, bs, zbd, verify, ..Job::default() }, 0..5);
    let next = |job: &mut ZbdJob| job.next(DataDir::Write, ZONE / 2);
    assert!(matches!(next(&mut job), NextIo::Io(io) if io.zone == Some(0)));
    assert_eq!(next(&mut job), NextIo::Wait, "the write in flight comes first");
    job.done(Op::Write, 0);
    assert!(
        matches!(next(&mut job), NextIo::Manage(io) if (io.op, io.zone) == (Op::ZoneFinish, Some(0)))
    );
    job.done(Op::ZoneFinish, 0);
    assert_eq!(next(&mut job), NextIo::Verify);
    job.verified(None);
    assert!(matches!(next(&mut job), NextIo::Io(io) if io.zone == Some(1)), "it is empty");
}

#[test]
fn the_count_of_writes_until_an_early_reset_goes_on_where_only_the_position_is_put_back() {
    // fio 3.41 with --bs=32k, zones of two blocks, zone_reset_threshold=0.6 and zone_reset_frequency=0.3, without a
    // queue, on a disk: passes, --time_based, and --rw=rw --rwmixread=0 with an io_size. Where the region ends does
    // not matter.
    let (anew, on) = ([0, 1, 2, 3, 4, 4, 5, 6], [0, 0, 1, 2, 2, 3, 4, 4]);
    let job = |rw, time_based, io_size| {
        let (bs, zbd) = ([ZONE / 2; 3], early_resets("0.6", "0.3"));
        Job { rw, bs, zbd, time_based, io_size: Some(Extent::Bytes(io_size)), ..Job::default() }
    };
    let small = "null:zones=5,zone_size=64k,zone_capacity=48k,max_open=0";
    for zones in [5, 6] {
        let table = || counting_table(&format!("null:zones={zones},zone_size=64k,max_open=0"));
        for (rw, time_based, io_size, expected) in [
            (Rw::Write, false, 9 * ZONE, anew),
            (Rw::Write, true, 0, on),
            (Rw::Mixed, false, 9 * ZONE, on),
            (Rw::Mixed, false, 5 * ZONE, anew),
        ] {
            let mut job = job_of(&table(), 0, job(rw, time_based, io_size), 0..5);
            assert!(written(&mut job, ZONE / 2, 10).into_iter().eq(0..10));
            assert_eq!(written(&mut job, ZONE / 2, 8), expected, "{rw:?} {time_based} {io_size}");
        }
    }
    let mut job = Job { bs: [ZONE / 8 * 3; 3], ..job(Rw::Write, false, 0) };
    job.io_size = None;
    let mut job = job_of(&counting_table(small), 0, job, 0..5);
    assert_eq!(written(&mut job, ZONE / 8 * 3, 10).len(), 10);
    assert_eq!(written(&mut job, ZONE / 8 * 3, 8), [0, 1, 2, 3, 5, 5, 6, 8], "below the zone size");
}

#[test]
fn what_is_written_is_verified_before_an_early_reset_and_each_read_counts() {
    // fio 3.41 with --verify, zone_reset_threshold=0 and zone_reset_frequency=0.2.
    let table = counting_table("null:zones=4,zone_size=64k,max_open=0");
    let method = crate::job::VerifyMethod::Null;
    let verify = crate::job::VerifyOptions { method: Some(method), ..Default::default() };
    let (rw, zbd) = (Rw::Write, early_resets("0", "0.2"));
    let mut job = job_of(&table, 0, Job { rw, zbd, verify, ..Job::default() }, 0..4);
    trail(&mut job, 4);
    for _read in 0..4 {
        assert_eq!(job.next(DataDir::Write, BLOCK), NextIo::Verify);
        job.verified(Some(&ZbdJob::read_at(0, BLOCK)));
    }
    assert_eq!(job.next(DataDir::Write, BLOCK), NextIo::Verify);
    job.verified(None);
    let (write, reset) = ((Op::Write, 0), (Op::ZoneReset, 0));
    assert_eq!(trail(&mut job, 1), [reset, write]);
    assert_eq!(job.next(DataDir::Write, BLOCK), NextIo::Verify, "the fifth after four reads");
}

#[test]
fn reads_before_an_early_reset_take_the_place_of_random_writes() {
    // fio 3.41 with --rw=randwrite --verify=md5, zone_reset_threshold=0.5 and zone_reset_frequency=0.1: each read
    // uses up a block of the random map.
    let table = counting_table("null:zones=4,zone_size=64k,max_open=0");
    let verify = crate::job::VerifyOptions {
        method: Some(crate::job::VerifyMethod::Null),
        ..Default::default()
    };
    let (rw, random, zbd) = (Rw::Write, true, early_resets("0.5", "0.1"));
    let mut job = job_of(&table, 0, Job { rw, random, zbd, verify, ..Job::default() }, 0..4);
    let (mut writes, mut reads) = (0, 0);
    loop {
        match job.next(DataDir::Write, BLOCK) {
            NextIo::Io(io) => {
                writes += 1;
                job.done(io.op, io.zone.expect("a zone"));
            }
            NextIo::Verify if reads < 7 => {
                reads += 1;
                job.verified(Some(&ZbdJob::read_at(0, BLOCK)));
            }
            NextIo::Verify => job.verified(None),
            NextIo::Manage(io) => _ = job.done(io.op, io.zone.expect("a zone")),
            NextIo::EndOfPass => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((writes, reads), (64 - 7, 7));
}

#[test]
fn runs_of_a_random_job_stay_in_a_zone_that_is_full_before_its_end() {
    // fio 3.41 with --rw=randwrite:8; a sequential job goes on in the next zone.
    let table = table("null:zones=4,zone_size=64k,zone_capacity=16k,max_open=0", 0);
    let (rw, random, rw_modifier) = (Rw::Write, true, 8);
    let mut job = job_of(&table, 0, Job { rw, random, rw_modifier, ..Job::default() }, 0..4);
    let zones: BTreeSet<u64> = trail(&mut job, 8).into_iter().map(|(_, zone)| zone).collect();
    assert_eq!(zones.len(), 1, "{zones:?}");
}

#[test]
fn a_write_that_its_zone_cuts_short_leaves_the_rest_in_the_random_map() {
    // fio 3.41 with --rw=randwrite --bsrange=4k-12k: zones of one block, of which each pass writes 64.
    let table = table("null:zones=4,zone_size=64k,zone_capacity=4k,max_open=0", 0);
    let sizes = [0; 3].map(|_| crate::job::BlockSizes::Range { min: BLOCK });
    let address = crate::job::AddressOptions { sizes, ..Default::default() };
    let bs = [3 * BLOCK; 3];
    let options = Job { rw: Rw::Write, random: true, bs, address, ..Job::default() };
    let mut job = job_of(&table, 0, options, 0..4);
    trail(&mut job, 64);
    assert_eq!(job.next(DataDir::Write, BLOCK), NextIo::EndOfPass);
}

#[test]
fn a_sequential_job_that_may_open_no_zone_goes_on_after_a_full_one() {
    // fio 3.41 with a limit of two zones and a queue: the zone after the first of them is full, too.
    let table = table("null:zones=8,zone_size=64k,max_open=0", 2);
    let mut job = job(&table, 0, false, 0..8);
    let blocks = ZONE / BLOCK;
    let first: Vec<Io> = (0..2 * blocks).map(|_| io(job.next(DataDir::Write, BLOCK))).collect();
    assert_eq!(job.next(DataDir::Write, BLOCK), NextIo::Wait, "both are open");
    first.into_iter().for_each(|io| complete(&mut job, io));
    let after: Vec<_> = trail(&mut job, 2 * blocks as usize).into_iter().collect();
    assert_eq!(after[..2], [(Op::ZoneReset, 1), (Op::Write, 1)]);
    assert_eq!(after.last(), Some(&(Op::Write, 2)));
}

#[test]
fn every_nth_write_resets_its_zone_first_from_the_threshold_on() {
    let table = counting_table("null:zones=4,zone_size=64k,max_open=0");
    let zbd = early_resets("0.5", "0.25");
    let mut job = job_of(&table, 0, Job { random: true, zbd, ..Job::default() }, 0..4);
    let mut data = [0; 4];
    let (mut writes, mut early) = (0, Vec::new());
    while writes < 200 {
        let total: u64 = data.iter().sum();
        assert_eq!(table.data(), total);
        let io = match job.next(DataDir::Write, BLOCK) {
            NextIo::Io(io) | NextIo::Manage(io) => io,
            NextIo::EndOfPass => {
                job.rewind();
                continue;
            }
            other => panic!("nothing is in flight: {other:?}"),
        };
        let zone = io.zone.expect("a zone") as usize;
        match io.op {
            Op::Write => (data[zone], writes) = (data[zone] + BLOCK, writes + 1),
            Op::ZoneReset if data[zone] < ZONE => {
                assert!(total >= 2 * ZONE, "half of the region holds data");
                data[zone] = 0;
                early.push(writes);
            }
            op => {
                assert_eq!(op, Op::ZoneReset, "the zone is full");
                data[zone] = 0;
            }
        }
        assert_eq!(job.done(io.op, zone as u32), None);
    }
    assert!(early.len() > 10, "{early:?}");
    assert!(early.windows(2).all(|pair| pair[1] - pair[0] >= 3), "every fourth: {early:?}");
}

#[test]
fn a_job_that_reads_and_writes_begins_with_a_write_and_writes_where_nothing_is_to_read() {
    let table = table("null:zones=2,zone_size=64k,max_open=0", 0);
    let mut job = job(&table, 0, true, 0..2);
    job.mixed = true;
    assert_eq!(job.instead_of_read(), DataDir::Write);
    let first = io(job.next(DataDir::Read, BLOCK));
    assert_eq!(first.op, Op::Write);
    assert_eq!(job.instead_of_read(), DataDir::Read);
    let read = io(job.next(DataDir::Read, BLOCK));
    assert_eq!(
        (read.op, read.offset),
        (Op::Read, first.offset),
        "as in fio, while it is in flight"
    );
}

/// The writes of a sequential job of several passes with up to four in flight, and what it did besides.
fn sequence(spec: &str, streams: bool, seed: u64) -> Vec<NextIo> {
    let mut job = job(&table(spec, 0), 0, false, 0..4);
    job.streamed = if streams { 4 } else { 0 };
    let (mut rng, mut in_flight, mut seen) = (Rng::new(seed, [0; 4]), Vec::new(), Vec::new());
    while seen.len() < 300 {
        if in_flight.len() < 4 && rng.below(2) == 0 {
            let next = job.next(DataDir::Write, BLOCK << rng.below(3));
            match &next {
                NextIo::Io(io) | NextIo::Manage(io) => in_flight.push((io.op, io.zone)),
                NextIo::EndOfPass if in_flight.is_empty() => job.rewind(),
                _ => {}
            }
            seen.push(next);
        } else if !in_flight.is_empty() {
            let (op, zone) = in_flight.remove(0);
            let due = job.done(op, zone.expect("a sequential zone"));
            in_flight.extend(due.map(|io| (io.op, io.zone)));
        }
    }
    seen
}

#[test]
fn writes_that_follow_each_other_are_those_that_the_source_would_give() {
    for capacity in ["64k", "60k", "44k"] {
        let spec = format!("null:zones=4,zone_size=64k,zone_capacity={capacity},max_open=0");
        for seed in 0..20 {
            assert_eq!(sequence(&spec, true, seed), sequence(&spec, false, seed), "{spec} {seed}");
        }
    }
}

#[test]
fn a_sequential_reader_starts_within_a_zone() {
    // fio 3.41 with --rw=read --offset=4k --size=2z.
    let table = table("null:zones=4,zone_size=64k,written=100%,max_open=0", 0);
    let read = Job { zonemode: ZoneMode::Zbd, ..Job::default() };
    let limit = 2 * ZONE;
    let (start, size) = (3 * BLOCK, limit - 3 * BLOCK);
    let region = Region { start, end: limit, size, io_size: 0, lba: 512, limit };
    let streams = (Rng::new(1, [0; 4]), Rng::new(1, [1; 4]));
    let mut job = ZbdJob::new(&read, region, table, ZONE, 0, streams);
    for _pass in 0..2 {
        for block in 3..2 * ZONE / BLOCK {
            assert_eq!(io(job.next(DataDir::Read, BLOCK)).offset, block * BLOCK);
        }
        assert_eq!(job.next(DataDir::Read, BLOCK), NextIo::EndOfPass);
        job.rewind();
    }
}

#[test]
fn a_zone_that_writes_in_flight_fill_counts_as_one_without_room_where_zones_are_limited() {
    // fio 3.41 with --iodepth=16 and --random_distribution=zoned, of which all I/O is in the first zone.
    let blocks = ZONE / BLOCK;
    let aim = |job: &mut ZbdJob| {
        let target = Target { zone: 0, at: 0, len: BLOCK };
        job.pending[DataDir::Write as usize] = Some(target);
        job.next(DataDir::Write, BLOCK)
    };
    for (max_open, next_zone) in [(0, None), (3, Some(1)), (1, None)] {
        let table = table("null:zones=4,zone_size=64k,max_open=0", max_open);
        let mut job = job(&table, 0, true, 0..4);
        let filling: Vec<Io> = (0..blocks).map(|_| io(aim(&mut job))).collect();
        assert!(filling.iter().all(|io| io.zone == Some(0)));
        match next_zone {
            Some(zone) => assert_eq!(io(aim(&mut job)).zone, Some(zone)),
            None if max_open == 0 => assert_eq!(aim(&mut job), NextIo::Wait),
            None => {
                assert_eq!(aim(&mut job), NextIo::Contended, "until nothing is in flight");
                filling.into_iter().for_each(|io| complete(&mut job, io));
                assert_eq!(io(aim(&mut job)).zone, Some(1), "the next one, not the full one");
            }
        }
    }
}

#[test]
fn a_random_job_resets_no_zone_while_another_job_writes_all_that_may_be_open() {
    let table = table("null:zones=8,zone_size=64k,max_open=0", 1);
    let (mut first, mut second) = (job(&table, 0, true, 0..4), job(&table, 1, true, 4..8));
    let aim = |job: &mut ZbdJob, zone| {
        job.pending[DataDir::Write as usize] = Some(Target { zone, at: 0, len: BLOCK });
        job.next(DataDir::Write, BLOCK)
    };
    let blocks = ZONE / BLOCK;
    let filling: Vec<Io> = (0..blocks).map(|_| io(aim(&mut first, 0))).collect();
    assert_eq!(aim(&mut first, 0), NextIo::Contended, "until nothing is in flight");
    filling.into_iter().for_each(|io| complete(&mut first, io));
    let other: Vec<Io> = (0..blocks).map(|_| io(aim(&mut second, 2))).collect();
    assert_eq!(aim(&mut first, 0), NextIo::Contended, "its zone keeps its data");
    assert_eq!(aim(&mut first, 0), NextIo::Contended, "as it was");
    other.into_iter().for_each(|io| complete(&mut second, io));
    // As in fio 3.41 where no other job comes between.
    assert_eq!(io(aim(&mut first, 0)).offset, ZONE);
}

#[test]
fn zones_that_a_verifying_job_resets_first_are_still_to_be_opened() {
    // fio 3.41 with --verify=null --size=2z --max_open_zones=1 after a job that left another zone open.
    let table = table("null:zones=4,zone_size=64k,written=0-1,max_open=0", 1);
    let other = Purpose { job: 1, max_opened: u32::MAX, room: 0, least: BLOCK };
    assert!(matches!(table.acquire(3, other), crate::generate::zbd::Acquire::Granted(_)));
    let method = Some(crate::job::VerifyMethod::Null);
    let verify = crate::job::VerifyOptions { method, ..Default::default() };
    let mut job = job_of(&table, 0, Job { rw: Rw::Write, verify, ..Job::default() }, 0..2);
    for _zone in 0..2 {
        let NextIo::Manage(reset) = job.next(DataDir::Write, BLOCK) else { panic!("a reset") };
        complete(&mut job, reset);
    }
    assert_eq!(job.next(DataDir::Write, BLOCK), NextIo::Contended);
}

#[test]
fn the_reset_of_an_open_zone_takes_all_of_it_from_the_data() {
    // fio 3.41, which finishes the zone first: what it counts is then below zero, and it resets early from there on.
    let spec = "null:zones=4,zone_size=64k,zone_capacity=6k,max_open=0";
    let device = device_spec::build(&device_spec::parse(spec).expect("a spec")).expect("a device");
    let table = Arc::new(ZbdTable::new(&*device, 1).expect("a report").counting_data());
    let mut job = job(&table, 0, true, 0..4);
    let aim = |job: &mut ZbdJob, zone| {
        job.pending[DataDir::Write as usize] = Some(Target { zone, at: 0, len: BLOCK });
    };
    aim(&mut job, 0);
    trail(&mut job, 1);
    assert_eq!(table.data(), BLOCK);
    aim(&mut job, 2);
    assert_eq!(trail(&mut job, 1), [(Op::ZoneReset, 0), (Op::Write, 0)]);
    assert_eq!(table.data(), (2 * BLOCK).wrapping_sub(ZONE));
}

#[test]
fn the_reset_of_a_finished_zone_takes_all_of_it_from_the_data() {
    // fio 3.41 with --bs=12k in zones of 14.5 blocks of 4 KiB.
    let table = counting_table("null:zones=4,zone_size=64k,zone_capacity=58k,max_open=0");
    let mut job = job(&table, 0, true, 0..4);
    let mut write_first = || {
        job.pending[DataDir::Write as usize] = Some(Target { zone: 0, at: 0, len: BLOCK });
        trail(&mut job, 1)
    };
    (0..14).for_each(|_| assert_eq!(write_first(), [(Op::Write, 0)]));
    assert_eq!(write_first(), [(Op::ZoneFinish, 0), (Op::Write, 1)]);
    assert_eq!(table.data(), 15 * BLOCK);
    assert_eq!(write_first(), [(Op::ZoneReset, 0), (Op::Write, 0)]);
    assert_eq!(table.data(), (16 * BLOCK).wrapping_sub(ZONE));
}

#[test]
fn reads_go_on_where_verification_before_an_early_reset_ended() {
    // fio 3.41 with --rw=rw --verify=null --zone_reset_threshold=0.6 --zone_reset_frequency=0.1.
    let table = table("null:zones=4,zone_size=64k,written=100%,max_open=0", 0);
    let mut job = job_of(&table, 0, Job::default(), 0..4);
    assert_eq!(io(job.next(DataDir::Read, BLOCK)).offset, 0);
    job.verified(Some(&ZbdJob::read_at(ZONE + 5 * BLOCK, BLOCK)));
    assert_eq!(io(job.next(DataDir::Read, BLOCK)).offset, ZONE + 6 * BLOCK);
}

#[test]
fn a_random_job_that_verifies_finishes_no_zone_on_its_way_from_a_full_one() {
    let table = table("null:zones=4,zone_size=64k,zone_capacity=40k,max_open=2", 0);
    let method = Some(crate::job::VerifyMethod::Null);
    let verify = crate::job::VerifyOptions { method, ..Default::default() };
    let block = 32 << 10;
    let options = Job { rw: Rw::Write, random: true, bs: [block; 3], verify, ..Job::default() };
    let mut job = job_of(&table, 0, options, 0..4);
    // The zone and, before the write, finishes.
    let mut write_to = |zone: u64| {
        let mut finished = Vec::new();
        loop {
            match job.write_at(zone * ZONE, block) {
                NextIo::Io(io) => {
                    job.done(io.op, io.zone.expect("a zone"));
                    return (io.offset / ZONE, finished);
                }
                NextIo::Manage(io) => {
                    assert_eq!(io.op, Op::ZoneFinish);
                    finished.push(io.zone.expect("a zone"));
                    job.done(io.op, io.zone.expect("a zone"));
                }
                other => panic!("nothing else is in the way: {other:?}"),
            }
        }
    };
    assert_eq!(write_to(0), (0, vec![]));
    assert_eq!(write_to(0), (1, vec![0]), "less than a block is left of it");
    assert_eq!(
        write_to(0),
        (2, vec![]),
        "the first that may be opened after the one being written"
    );
}
