//! The write buffer, read segments, flushes.
use crate::rig::{PLAIN, Rig, config, with};
use zonal_blk::{Bio, BioFlags, Bytes, Op, Sector, Status};

#[test]
fn write_is_done_when_it_is_in_the_cache() {
    let config = config(PLAIN);
    let mut rig = Rig::new(&config);
    let on_link = 4096 * 1_000_000_000 / config.link_rate;
    for sector in [0, 50_000_000, 900_000] {
        assert_eq!(rig.time(Op::Write, sector, 8), config.command.0 + on_link);
    }
}

#[test]
fn full_cache_makes_writes_wait_for_the_medium() {
    let config = config(PLAIN);
    let mut rig = Rig::new(&config);
    for at in 0..400 {
        rig.time(Op::Write, at * 2048, 2048);
    }
    let counters = rig.device.counters();
    assert!(counters.full_waits > 300, "{counters:?}");
    let rate = 400 * (1 << 20) * 1000 / (rig.now / 1_000_000);
    let expected = config.outer_rate();
    assert!(rate.abs_diff(expected) < expected / 20, "{rate}, expected {expected}");
}

#[test]
fn flush_and_forced_unit_access_wait_for_the_medium() {
    let config = config(PLAIN);
    let mut rig = Rig::new(&config);
    for i in 0..20 {
        rig.time(Op::Write, i * 1_000_000, 8);
    }
    assert_ne!(rig.device.buffered(), (Bytes(0), 0));
    assert!(rig.time(Op::Flush, 0, 0) > config.settle.0);
    assert_eq!(rig.device.buffered(), (Bytes(0), 0));

    let mut flagged = |flags| {
        let at = rig.now;
        rig.submit(Bio { flags, ..Bio::new(Op::Write, Sector(77_777_776), 8, 0) });
        rig.run();
        assert_eq!(rig.ends.last().unwrap().status, Status::Ok);
        rig.now - at
    };
    let cached = flagged(BioFlags::NONE);
    assert!(flagged(BioFlags::PREFLUSH) > 10 * cached);
    assert!(flagged(BioFlags::FUA) > 10 * cached);
    assert_eq!(rig.device.buffered(), (Bytes(0), 0), "what was written before it is, too");
}

#[test]
fn number_of_cached_commands_limits_small_writes() {
    let time = |options: &str| {
        let mut rig = Rig::new(&with(PLAIN, options));
        for i in 0..500 {
            rig.time(Op::Write, i * 7919 % 1000 * 100_000, 8);
        }
        (rig.now, rig.device.counters().full_waits)
    };
    let (few, waits) = time("cache_commands=8");
    let (many, none) = time("cache_commands=1024");
    assert!(waits > 400 && none == 0, "{waits} {none}");
    assert!(few > 20 * many);
    let (some, _) = time("cache_commands=64");
    assert!(some < few, "more to choose from makes the ways shorter: {some} {few}");
}

#[test]
fn what_was_read_or_waits_to_be_written_is_read_without_the_head() {
    let config = with(PLAIN, "segments=2,read_ahead=256K");
    let mut rig = Rig::new(&config);
    let hit = |rig: &mut Rig, sector| {
        let before = rig.device.counters().cache_hits;
        rig.time(Op::Read, sector, 8);
        rig.device.counters().cache_hits > before
    };
    assert!(!hit(&mut rig, 1_000_000));
    assert!(hit(&mut rig, 1_000_000), "read before");
    rig.now += 20_000_000;
    assert!(hit(&mut rig, 1_000_256), "read ahead");
    assert!(!hit(&mut rig, 9_000_000));
    assert!(!hit(&mut rig, 19_000_000));
    assert!(!hit(&mut rig, 1_000_000), "two others came since");
    rig.time(Op::Write, 30_000_000, 8);
    assert!(hit(&mut rig, 30_000_000), "waits to be written");
    rig.time(Op::Write, 1_000_000, 8);
    rig.time(Op::Flush, 0, 0);
    assert!(!hit(&mut rig, 1_000_000), "what was read is stale");
}

#[test]
fn read_ahead_ends_when_a_command_arrives() {
    let random_reads = |options: &str| {
        let mut rig = Rig::new(&with(PLAIN, options));
        for i in 0..200 {
            rig.time(Op::Read, i * 7919 % 1000 * 100_000, 8);
        }
        rig.now
    };
    let (with, without) = (random_reads("read_ahead=1M"), random_reads("read_ahead=0"));
    assert!(with < without + without / 100, "{with} {without}");

    // A read of what the head is about to reach goes on from there.
    let config = config("hdd:size=64G,heads=2,rings=4,read_ahead=4M,command=10us");
    let mut rig = Rig::new(&config);
    rig.time(Op::Read, 0, 8);
    assert!(rig.time(Op::Read, 64, 8) < config.revolution().0 / 10);
}

#[test]
fn reads_are_served_while_writes_fill_the_cache() {
    let mut rig = Rig::new(&config(PLAIN));
    let mut at = 0;
    for i in 0..40 {
        for _ in 0..16 {
            rig.submit(Bio::new(Op::Write, Sector(at), 2048, 1));
            at += 2048;
        }
        let asked = rig.now;
        rig.submit(Bio::new(Op::Read, Sector(100_000_000 + i * 100_000), 8, 2));
        rig.run_to(8, |_| {});
        let read = rig.ends.iter().rfind(|end| end.user_data == 2);
        assert!(read.is_some_and(|end| end.at < asked + 120_000_000), "{read:?} {asked}");
    }
    rig.run();
}

#[test]
fn reads_take_turns_with_runs_that_are_written_to_their_end() {
    // No run is longer than what the head writes at least.
    let mut rig = Rig::new(&with(PLAIN, "min_run=2M"));
    let mut written = 0;
    let mut write = |rig: &mut Rig| {
        rig.submit(Bio::new(Op::Write, Sector(written * 7919 % 1000 * 100_000), 1024, 1));
        written += 1;
    };
    (0..30).for_each(|_| write(&mut rig));
    for i in 0..20 {
        let asked = rig.now;
        rig.submit(Bio::new(Op::Read, Sector(100_000_000 + i * 100_000), 8, 2));
        while std::mem::take(&mut rig.ends).iter().all(|end| end.user_data != 2) {
            assert!(rig.now < asked + 200_000_000, "read {i} waits for all writes");
            rig.run_to(30, |_| {});
            (0..rig.ends.iter().filter(|end| end.user_data == 1).count())
                .for_each(|_| write(&mut rig));
        }
    }
    rig.run();
}

#[test]
fn a_sequential_stream_is_read_ahead_of_before_the_head_leaves_it() {
    let time = |options: &str| {
        let mut rig = Rig::new(&with(PLAIN, &format!("segments=4,read_ahead=1M,{options}")));
        let mut next = [0, 60 << 21];
        for stream in [0, 1] {
            rig.submit(Bio::new(Op::Read, Sector(next[stream]), 128, stream as u64));
        }
        for _ in 0..200 {
            rig.run_to(1, |_| {});
            for end in std::mem::take(&mut rig.ends) {
                let stream = usize::from(end.user_data == 1);
                next[stream] += 128;
                rig.submit(Bio::new(Op::Read, Sector(next[stream]), 128, end.user_data));
            }
        }
        rig.run();
        rig.now
    };
    let (one_by_one, ahead) = (time("min_ahead=0"), time("min_ahead=512K"));
    assert!(ahead < one_by_one / 3, "{ahead} {one_by_one}");
}

#[test]
fn small_sequential_reads_are_not_held_up_by_turns_of_the_disk() {
    let mut rig = Rig::new(&config("hdd:size=64G,heads=2,rings=4"));
    let reads = 10_000;
    for at in 0..reads {
        rig.time(Op::Read, at * 8, 8);
    }
    let rate = reads * 4096 * 1000 / rig.now;
    assert!(rate > 100, "{rate} MB/s");
}
