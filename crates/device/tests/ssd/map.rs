//! A map on the flash, with a part of it in memory.
use crate::rig::{PAGES, Rig, read, small, write};
use zonal_blk::{Bio, Bytes, Op, Sector};
use zonal_device::SsdConfig;
use zonal_device::control::{DeviceControl, FaultHooks, MapStats};
use zonal_device::rng::Rng;
use zonal_device::ssd::Prefill;

/// Pages that a translation page maps.
const ENTRIES: u64 = 1024;
/// Translation pages of the drive.
const MAP: u64 = 32;

/// The small drive, eight times as large, with this many translation pages in memory.
fn mapped(in_memory: u64) -> SsdConfig {
    SsdConfig {
        size: Bytes(MAP * ENTRIES * 4096),
        map_cache: Bytes(in_memory * 4096),
        prefill: Prefill::Sequential,
        ..with_room()
    }
}

/// The small drive, with more flash and buffer for the map.
fn with_room() -> SsdConfig {
    SsdConfig {
        overprovision: 50_000,
        gc_buffer: Bytes(512 << 10),
        buffer: Bytes(2 << 20),
        ..small()
    }
}

fn map(rig: &Rig) -> MapStats {
    rig.stats().map.expect("the map is on the flash")
}

#[test]
fn read_takes_another_read_of_the_flash_if_its_translation_page_is_not_in_memory() {
    let mut rig = Rig::new(&mapped(8));
    let (flash, others) = (40_000 + 4096, 5_000 + 4096);
    assert_eq!(rig.time(read(0, 1)), 2 * flash + others);
    assert_eq!(rig.time(read(500, 1)), flash + others, "it is in memory now");
    assert_eq!((map(&rig).lookups, map(&rig).misses), (2, 1));
    let all = MAP * ENTRIES - 1;
    assert_eq!(rig.time(read(all, 1)), flash + others, "it was written last");
    let mut without = Rig::new(&SsdConfig { map_cache: Bytes(0), ..mapped(8) });
    assert_eq!(without.time(read(0, 1)), flash + others);
    assert_eq!(without.stats().map, None);
}

#[test]
fn reads_at_the_same_time_wait_for_the_same_read_of_a_translation_page() {
    let mut rig = Rig::new(&mapped(8));
    (0..4).for_each(|at| rig.submit(read(at * 200, 1)));
    rig.run();
    assert_eq!((map(&rig).lookups, map(&rig).misses), (4, 1));
}

#[test]
fn random_reads_miss_as_often_as_translation_pages_are_not_in_memory() {
    for (in_memory, depth) in [(8, 1), (24, 1), (8, 16)] {
        let mut rig = Rig::new(&mapped(in_memory));
        let mut rng = Rng::new(in_memory);
        let before = map(&rig);
        for _ in 0..8000 {
            while rig.channel.outstanding() < depth {
                rig.submit(read(rng.below(MAP * ENTRIES), 1));
            }
            rig.step();
        }
        rig.run();
        let MapStats { lookups, misses, .. } = map(&rig).since(&before);
        let (found, expected) =
            (misses as f64 / lookups as f64, 1.0 - in_memory as f64 / MAP as f64);
        assert!(
            (found - expected).abs() < 0.02,
            "{found:.3}, expected {expected:.3}, depth {depth}"
        );
    }
}

#[test]
fn sequential_reads_miss_once_for_each_translation_page() {
    let mut rig = Rig::new(&mapped(2));
    for page in (0..MAP * ENTRIES).step_by(64) {
        rig.time(read(page, 64));
    }
    assert_eq!((map(&rig).lookups, map(&rig).misses), (MAP * ENTRIES, MAP));
}

#[test]
fn map_that_fits_in_memory_is_read_once_and_never_written() {
    let empty = Prefill::Empty;
    let mut rig = Rig::new(&SsdConfig { prefill: empty, ..mapped(MAP * 2) });
    for turn in 0..2 {
        for page in (0..MAP * ENTRIES).step_by(64) {
            rig.time(write(page, 64));
            rig.time(read(page / 2, 1));
        }
        assert_eq!((map(&rig).misses, map(&rig).written), (MAP, Bytes(0)), "turn {turn}");
    }
    rig.overwrite(4000, 16, &mut Rng::new(1));
    assert_eq!((map(&rig).misses, map(&rig).written), (MAP, Bytes(0)));
}

#[test]
fn translation_pages_that_are_written_count_as_written_to_the_flash() {
    let run = |in_memory| {
        let mut rig = Rig::new(&SsdConfig { prefill: Prefill::Random(2), ..mapped(in_memory) });
        let before = rig.stats();
        rig.overwrite(MAP * ENTRIES / 2, 16, &mut Rng::new(7));
        let stats = rig.stats().since(&before);
        let map = stats.map.unwrap().written.0;
        let of_data = (stats.media.0 - map) as f64 / stats.host.0 as f64;
        (stats.write_amplification(), of_data, map)
    };
    let (all, of_data, written) = run(MAP);
    assert_eq!((all, written), (of_data, 0));
    let (some, same, written) = run(MAP / 4);
    assert!((same / of_data - 1.0).abs() < 0.02, "data: {same:.3} and {of_data:.3}");
    assert!(some > same + 0.5 && written > 0, "{some:.3} with the map, {same:.3} without");
    let (fewer, ..) = run(1);
    assert!(fewer > some, "{fewer:.3} with a page in memory, {some:.3} with more");
}

#[test]
fn what_was_moved_changes_each_translation_page_once_for_a_superblock() {
    let config = SsdConfig { map_cache: Bytes(4096), prefill: Prefill::Random(1), ..with_room() };
    let mut rig = Rig::new(&config);
    let before = rig.stats();
    rig.overwrite(2 * PAGES, 16, &mut Rng::new(5));
    rig.device.drain();
    let stats = rig.stats().since(&before);
    let map = stats.map.unwrap();
    let changed = map.lookups - 2 * PAGES;
    let moved = (stats.media.0 - map.written.0) / 4096 - 2 * PAGES;
    assert!(changed <= PAGES / ENTRIES * stats.erased_superblocks, "{changed}, {stats:?}");
    assert!(changed > 0 && moved > 4 * changed, "{moved} pages moved, {changed} changes");
}

#[test]
fn smallest_map_and_fewest_free_superblocks_hold_nothing_up_for_ever() {
    for seed in 0..3 {
        let config = SsdConfig {
            map_cache: Bytes(4096),
            prefill: Prefill::Random(1),
            gc_low: 2,
            gc_high: 2,
            ..with_room()
        };
        let mut rig = Rig::new(&config);
        let mut rng = Rng::new(seed);
        for turn in 0..2 * PAGES {
            rig.submit(write(rng.below(PAGES), 1));
            if turn % 8 == 0 {
                rig.submit(read(rng.below(PAGES - 8), 8));
                rig.submit(Bio::new(Op::Discard, Sector(rng.below(PAGES) * 8), 8, 0));
            }
            if rig.channel.outstanding() > 200 {
                rig.step();
            }
        }
        rig.run();
        rig.device.drain();
        assert_eq!(rig.stats().host, Bytes(2 * PAGES * 4096));
        let levels = rig.device.levels();
        assert_eq!((levels[1].value, levels[4].value), (0, 0), "nothing is under way or waits");
    }
}

#[test]
fn discards_of_pages_without_data_change_nothing() {
    let mut rig = Rig::new(&SsdConfig { prefill: Prefill::Empty, ..mapped(1) });
    for page in (0..MAP * ENTRIES).step_by(64) {
        rig.time(Bio { op: Op::Discard, ..read(page, 64) });
    }
    rig.time(write(0, 1));
    rig.time(read(MAP * ENTRIES - 1, 1));
    assert_eq!(map(&rig).written, Bytes(4096), "the page that was written");
    assert_eq!(map(&rig).misses, MAP + 2);
}

#[test]
fn steady_state_of_the_map_need_not_be_waited_for() {
    let of = |prefill, warm: u64| {
        let mut rig = Rig::new(&SsdConfig { prefill, ..mapped(MAP / 4) });
        let mut rng = Rng::new(3);
        rig.overwrite(warm * MAP * ENTRIES, 16, &mut rng);
        rig.amplification_of(|rig| drop(rig.overwrite(MAP * ENTRIES, 16, &mut rng)))
    };
    let (begins, comes) = (of(Prefill::Random(3), 0), of(Prefill::Sequential, 3));
    assert!((begins / comes - 1.0).abs() < 0.03, "{begins:.3} and {comes:.3}");
}
