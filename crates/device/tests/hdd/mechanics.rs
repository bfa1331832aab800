//! Geometry, seeks, rotation, and the order of reads.
use crate::rig::{PLAIN, Rig, SMR, config, with};
use zonal_blk::{Bio, Op, Sector, Status, ZoneWrite};
use zonal_device::hdd::{Geometry, HeadActivity};

const MS: u64 = 1_000_000;

#[test]
fn bytes_of_a_band_pass_under_the_head_one_after_another_at_the_rate_of_the_track() {
    for spec in [PLAIN, SMR] {
        let config = config(spec);
        let geometry = Geometry::new(&config);
        let (turn, track) = (geometry.revolution(), config.track_outer.0);
        let start = geometry.locate(0);
        for tracks in 0..4 {
            for part in [0, 1, track / 3, track - 1] {
                let place = geometry.locate(tracks * track + part);
                let expected = tracks * (turn + config.skew.0) + part * turn / track;
                assert_eq!(place.time - start.time, expected, "{spec}");
                assert_eq!(place.track - start.track, tracks);
            }
        }
    }
}

#[test]
fn addresses_lead_from_the_rim_to_the_hub_and_tracks_get_shorter() {
    for spec in [PLAIN, SMR] {
        let config = config(spec);
        let geometry = Geometry::new(&config);
        let end = config.capacity().0;
        let step = end / 1000;
        let radii: Vec<f64> = (0..1000).map(|i| geometry.locate(i * step).radius).collect();
        assert_eq!(radii[0], 0.0);
        assert!(radii[999] > 0.96 && radii.iter().all(|radius| (0.0..=1.0).contains(radius)));
        // Bands side by side begin at the same radius again.
        let band = if config.size.0 == end { 0.0 } else { 0.05 };
        assert!(radii.windows(2).all(|pair| pair[1] >= pair[0] - band), "{spec}");
        let speed = |at: u64| geometry.locate(at + 65536).time - geometry.locate(at).time;
        assert!(speed(end - (1 << 20)) > speed(0) * 3 / 2, "the inner tracks are slower");
    }
}

#[test]
fn seek_curve_goes_through_the_figures_of_the_data_sheet() {
    let config = config(PLAIN);
    let curve = config.seek_curve();
    assert_eq!(curve.time(0.0), config.settle.0);
    assert!(curve.time(1.0).abs_diff(config.seek_full.0) < 10);
    // All pairs of 400 places.
    let pairs = (0..400u32).flat_map(|a| (0..400u32).map(move |b| a.abs_diff(b)));
    let sum: u64 = pairs.map(|d| curve.time(f64::from(d) / 400.0)).sum();
    let mean = sum / (400 * 400);
    assert!(mean.abs_diff(config.seek_average.0) < config.seek_average.0 / 100, "{mean}");
    let times: Vec<u64> = (0..=100).map(|i| curve.time(f64::from(i) / 100.0)).collect();
    assert!(times.is_sorted());
}

#[test]
fn writing_a_sector_again_takes_a_turn_without_the_write_cache() {
    let config = with(PLAIN, "write_cache=false");
    let mut rig = Rig::new(&config);
    rig.time(Op::Write, 800, 8);
    for _ in 0..5 {
        assert_eq!(rig.time(Op::Write, 800, 8), config.revolution().0);
    }
}

#[test]
fn write_that_follows_too_late_waits_for_the_rest_of_a_turn() {
    let config = with(PLAIN, "write_cache=false");
    let mut rig = Rig::new(&config);
    rig.time(Op::Write, 0, 8);
    let passes = 8 * 512 * config.revolution().0 / config.track_outer.0;
    let time = rig.time(Op::Write, 8, 8);
    assert!(time.abs_diff(config.revolution().0 + passes) < 2, "{time}");
}

#[test]
fn sequential_reads_run_at_the_rate_of_tracks_and_skew() {
    let config = config("hdd:size=64G,heads=2,rings=4,read_ahead=4M");
    let mut rig = Rig::new(&config);
    for at in 0..200 {
        rig.time(Op::Read, at * 2048, 2048);
    }
    let rate = 200 * (1 << 20) * 1000 / (rig.now / MS);
    let expected = config.outer_rate();
    assert!(rate.abs_diff(expected) < expected / 20, "{rate}, expected {expected}");
}

#[test]
fn a_seek_before_a_write_takes_longer() {
    let time = |op, options: &str| {
        let mut rig = Rig::new(&with(PLAIN, &format!("write_cache=false,{options}")));
        let far = (0..100).map(|i| rig.time(op, i * 7919 % 100 * 1_000_000, 8));
        far.sum::<u64>()
    };
    assert_eq!(time(Op::Read, "write_settle=0"), time(Op::Read, "write_settle=5ms"));
    let (without, with) = (time(Op::Write, "write_settle=0"), time(Op::Write, "write_settle=5ms"));
    let longer = with - without;
    // 500 ms, and a random difference of the rotational latencies.
    assert!((300 * MS..700 * MS).contains(&longer), "{longer}");
}

/// The time for 32 reads all over the disk, submitted at the same time.
fn spread_reads(options: &str) -> u64 {
    let mut rig = Rig::new(&with(PLAIN, options));
    for i in 0..32 {
        let sector = i * 7919 % 32 * (64 << 21) / 32;
        rig.submit(Bio::new(Op::Read, Sector(sector), 8, i));
    }
    rig.run();
    assert_eq!(rig.ends.len(), 32);
    rig.now
}

#[test]
fn drive_with_a_queue_saves_half_of_the_access_time() {
    let fifo = spread_reads("order=fifo");
    assert_eq!(fifo, spread_reads("order=fifo"), "the same again");
    assert!(spread_reads("order=satf") < fifo / 2);
    let ata = spread_reads("host=ata");
    assert!(ata > fifo * 9 / 10, "one command at a time cannot be reordered: {ata}");
}

#[test]
fn oldest_read_is_not_passed_over_for_ever() {
    // A read at the far end, and a stream of reads near the head.
    let far = |max_age: &str| {
        let mut rig = Rig::new(&with(PLAIN, max_age));
        rig.time(Op::Read, 0, 8);
        for i in 0..400 {
            rig.submit(Bio::new(Op::Read, Sector(i * 4999 % 100_000 * 8), 8, i));
            if i == 5 {
                rig.submit(Bio::new(Op::Read, Sector((64 << 21) - 8), 8, 9999));
            }
            if i > 20 {
                rig.run_to(20, |_| {});
            }
        }
        rig.run();
        rig.ends.iter().position(|end| end.user_data == 9999).expect("it ends")
    };
    let (young, old) = (far("max_age=50ms"), far("max_age=10s"));
    assert!(young < 40 && old > 100, "{young} {old}");
}

#[test]
fn medium_errors_cost_turns_and_end_reads_that_fail_for_good() {
    let clean = spread_reads("order=fifo");
    let config = with(PLAIN, "order=fifo,error_rate=300000,seed=4");
    let mut rig = Rig::new(&config);
    for i in 0..32 {
        let sector = i * 7919 % 32 * (64 << 21) / 32;
        rig.submit(Bio::new(Op::Read, Sector(sector), 8, i));
    }
    rig.run();
    let retries = rig.device.counters().retries;
    assert!(retries > 3, "{retries}");
    assert_eq!((rig.now - clean) / config.revolution().0, retries);

    let mut broken = Rig::new(&with(PLAIN, "error_rate=1000000,retries=3"));
    broken.submit(Bio::new(Op::Read, Sector(0), 8, 1));
    broken.run();
    assert_eq!(broken.ends[0].status, Status::Medium);
    assert!(broken.now >= 3 * config.revolution().0);
}

#[test]
fn counted_times_have_passed_in_the_middle_of_a_step_too() {
    let mut rig = Rig::new(&with(PLAIN, "write_cache=false,error_rate=300000,seed=4"));
    for i in 0..16 {
        rig.submit(Bio::new(Op::Read, Sector(i * 999_999 % (60 << 20) / 8 * 8), 2048, i));
    }
    while rig.ends.len() < 16 {
        rig.wait(MS / 3);
        let c = rig.device.counters();
        let sum = c.seek_time.0 + c.rotate_time.0 + c.transfer_time.0 + c.idle_time.0;
        assert_eq!(sum, rig.now);
    }
}

#[test]
fn trace_and_counters_account_for_all_of_the_time() {
    let mut rig = Rig::traced(&with(PLAIN, "write_cache=false"), Some(10_000), ZoneWrite::Plug);
    for i in 0..50 {
        let op = if i % 3 == 0 { Op::Write } else { Op::Read };
        rig.time(op, i * 999_999 % (60 << 20) / 8 * 8, 64);
    }
    let c = rig.device.counters();
    let sum = c.seek_time.0 + c.rotate_time.0 + c.transfer_time.0 + c.idle_time.0;
    assert_eq!(sum, rig.now);
    let trace = rig.device.trace();
    assert!(trace.windows(2).all(|pair| pair[0].at <= pair[1].at));
    let time_of = |what: HeadActivity| {
        let mut times = trace.windows(2).filter(|pair| pair[0].activity == what);
        times.by_ref().map(|pair| pair[1].at.0 - pair[0].at.0).sum::<u64>()
    };
    assert_eq!(time_of(HeadActivity::Seek), c.seek_time.0);
    assert_eq!(time_of(HeadActivity::Rotate), c.rotate_time.0);
    let seeks = trace.iter().filter(|entry| entry.activity == HeadActivity::Seek).count();
    assert_eq!(seeks as u64, c.seeks);

    let mut bounded = Rig::traced(&with(PLAIN, "write_cache=false"), Some(10), ZoneWrite::Plug);
    (0..50).for_each(|i| _ = bounded.time(Op::Read, i * 99_999 / 8 * 8, 8));
    assert_eq!(bounded.device.trace().len(), 10);
}
