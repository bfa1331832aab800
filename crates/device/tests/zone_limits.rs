//! Limits on open zones: which zone is closed implicitly, and threads that open zones at the limit.
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use zonal_blk::{Sector, Status, ZoneCondition, ZoneNo};
use zonal_device::{ZoneLayout, Zones};

const SIZE: u64 = 1 << 20;

fn zones(nr_zones: u32, max_open: u32, max_active: u32) -> Zones {
    Zones::new(&ZoneLayout {
        nr_zones,
        zone_size: Sector(SIZE),
        zone_capacity: Sector(SIZE),
        conventional: 0,
        max_open,
        max_active,
        zrwa: zonal_blk::ZrwaLimits::NONE,
        extension: 64,
    })
}

fn write(zones: &Zones, zone: u32, at: u64) -> Result<(), Status> {
    zones.write(ZoneNo(zone), Sector(u64::from(zone) * SIZE + at), 8, || {})
}

fn in_condition(zones: &Zones, cond: ZoneCondition) -> Vec<u64> {
    let mut report = Vec::new();
    zones.report(ZoneNo(0), usize::MAX, &mut report).unwrap();
    let found = report.iter().filter(|zone| zone.cond == cond);
    found.map(|zone| zone.start.0 / SIZE).collect()
}

#[test]
fn implicitly_open_zones_are_closed_in_turn() {
    let zones = zones(8, 3, 0);
    for zone in [5, 2, 7] {
        write(&zones, zone, 0).unwrap();
    }
    for (zone, closed) in [
        (0, vec![2]),
        (1, vec![2, 5]),
        (2, vec![5, 7]),
        // The search went on after zone 7: it begins again with the first.
        (3, vec![0, 5, 7]),
        (4, vec![0, 1, 5, 7]),
    ] {
        let wp = if zone == 2 { 8 } else { 0 };
        write(&zones, zone, wp).unwrap();
        assert_eq!(in_condition(&zones, ZoneCondition::Closed), closed, "after {zone}");
    }
}

#[test]
fn explicitly_open_zones_are_not_closed_for_others() {
    let zones = zones(8, 2, 0);
    zones.open(ZoneNo(0)).unwrap();
    zones.open(ZoneNo(1)).unwrap();
    assert_eq!(write(&zones, 2, 0), Err(Status::ZoneOpenResource));
    zones.close(ZoneNo(0)).unwrap();
    assert_eq!(write(&zones, 2, 0), Ok(()));
}

#[test]
fn limit_that_no_sequential_zone_can_exceed_is_none() {
    let all = zones(8, 8, 9);
    assert_eq!((all.max_open(), all.max_active()), (0, 0));
    let some = zones(8, 7, 7);
    assert_eq!((some.max_open(), some.max_active()), (7, 7));
}

#[test]
fn threads_at_the_open_limit_get_through_and_never_exceed_it() {
    const THREADS: u32 = 4;
    const ZONES: u32 = 16;
    const MAX_OPEN: u32 = 3;
    const ROUNDS: u64 = 4000;
    let zones = &zones(ZONES, MAX_OPEN, 0);
    let writing = &AtomicBool::new(true);
    thread::scope(|scope| {
        let watcher = scope.spawn(move || {
            let mut looks = 0u64;
            while writing.load(Ordering::Acquire) {
                assert!(zones.in_use().open() <= MAX_OPEN);
                looks += 1;
                thread::yield_now();
            }
            looks
        });
        let writers: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        for zone in (thread..ZONES).step_by(THREADS as usize) {
                            assert_eq!(write(zones, zone, round * 8), Ok(()));
                        }
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        writing.store(false, Ordering::Release);
        assert!(watcher.join().unwrap() > 0);
    });
    let mut report = Vec::new();
    zones.report(ZoneNo(0), usize::MAX, &mut report).unwrap();
    assert!(report.iter().all(|z| (z.wp - z.start).0 == ROUNDS * 8));
    assert_eq!(zones.in_use().open(), MAX_OPEN);
}

#[test]
fn threads_that_do_everything_leave_the_accounts_in_order() {
    const ZONES: u32 = 6;
    let zones = &zones(ZONES, 2, 4);
    thread::scope(|scope| {
        for thread in 0..4u64 {
            scope.spawn(move || {
                let mut state = thread + 1;
                for _ in 0..20_000 {
                    // A linear congruential generator (Knuth's MMIX) is random enough here.
                    state =
                        state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    let zone = ZoneNo((state >> 33) as u32 % ZONES);
                    let _any_status = match (state >> 60) % 8 {
                        0 => zones.open(zone),
                        1 => zones.close(zone),
                        2 => zones.finish(zone),
                        3 | 4 => zones.reset(zone, || {}),
                        _ => zones.append(zone, 8, |_| {}),
                    };
                    let in_use = zones.in_use();
                    assert!(in_use.open() <= 2 && in_use.active() <= 4, "{in_use:?}");
                }
            });
        }
    });
}
