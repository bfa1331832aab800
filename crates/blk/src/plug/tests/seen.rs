//! The state of plugs and zones in reports (A45 to A47).
use crate::bio::Bio;
use crate::iostat::IoStat;
use crate::op::Op;
use crate::plug::{PlugFlags, PlugInfo, ZoneCounters, ZonePhase, ZoneWrite};
use crate::status::Status;
use crate::testing::{Rig, Setup, move_to};
use crate::units::{Nanos, Sector, ZoneNo};

#[test]
fn a45_dump_shows_each_live_plug() {
    let mut rig = Setup::new().policy(ZoneWrite::Qd1).build();
    rig.write(0, 8);
    rig.write(64, 8);
    rig.write(72, 8);
    let shown: Vec<String> = rig.queue.dump_plugs(false).iter().map(PlugInfo::to_string).collect();
    let expected = [
        "zone 0: flags PLUGGED|LISTED, ref 3, cond Active, wp ofst 8, pending 0, writes 1, \
         appends 0, merges 0, parked 0 ns",
        "zone 1: flags PLUGGED|LISTED, ref 4, cond Active, wp ofst 16, pending 2, writes 2, \
         appends 0, merges 0, parked 0 ns",
    ];
    assert_eq!(shown, expected);
    rig.drain();
    let flags = rig.queue.dump_plugs(false)[0].flags;
    assert_eq!(flags, PlugFlags::default());
    assert_eq!(flags.to_string(), "-");
}

#[test]
fn counters_tell_writes_appends_merges_and_the_time_spent_waiting() {
    let mut rig = Setup::new().build();
    rig.write(0, 8);
    rig.now = Nanos(100);
    rig.write(8, 8);
    rig.write(16, 8);
    rig.append(0, 40);
    assert_eq!(rig.queue.dump_plugs(true)[0].waiting_since, Some(Nanos(100)));
    rig.now = Nanos(250);
    rig.ok();
    rig.now = Nanos(300);
    rig.drain();
    let zone = rig.queue.dump_plugs(true)[0];
    let parked_ns = 150 + 150 + 200;
    let counters = ZoneCounters { writes: 3, appends: 1, merges: 1, parked_ns };
    assert_eq!((zone.phase, zone.counters), (ZonePhase::Full, counters));
    assert!(rig.queue.dump_plugs(false).is_empty(), "a full zone has no plug");
}

#[test]
fn a46_attributes_say_what_sysfs_says() {
    let rig = Setup::new().limits(|limits| limits.max_active_zones = 3).build();
    let expected = [
        ("zoned", "host-managed"),
        ("nr_zones", "4"),
        ("chunk_sectors", "64"),
        ("max_open_zones", "0"),
        ("max_active_zones", "3"),
        ("zone_append_max_bytes", "32768"),
        ("zone_write_granularity", "512"),
        ("zoned_qd1_writes", "0"),
    ];
    let shown = rig.queue.attributes();
    let shown: Vec<(&str, &str)> = shown.iter().map(|(n, v)| (*n, v.as_str())).collect();
    assert_eq!(shown, expected);
    let regular =
        Setup::new().limits(|limits| (limits.nr_zones, limits.zone_size.0) = (0, 0)).build();
    assert_eq!(regular.queue.attributes()[0], ("zoned", "none".to_owned()));
    assert!(regular.queue.attributes().iter().all(|(name, _)| *name != "zoned_qd1_writes"));
}

#[test]
fn a47_cached_report_asks_the_device_only_about_what_appends_or_errors_made_uncertain() {
    let mut rig = Setup::new().native_append().like_the_kernel().build();
    rig.write(0, 8);
    rig.append(1, 8);
    rig.write(128, 8);
    rig.ok();
    rig.ok();
    rig.fail();
    let known = [(ZonePhase::Active, 8), (ZonePhase::Active, 8), (ZonePhase::Empty, 0)];
    assert_eq!(rig.known(0), known[0]);
    assert_eq!(rig.reports(), 0);
    assert_eq!((rig.known(1), rig.known(2), rig.reports()), (known[1], known[2], 2));
    assert_eq!([0, 1, 2].map(|zone| rig.known(zone)), known);
    assert_eq!(rig.reports(), 0);
    assert_eq!(rig.queue.cached_zone(ZoneNo(4)), None);
}

#[test]
fn a47_while_it_is_uncertain_the_phase_is_unknown() {
    let mut rig = Setup::new().native_append().build();
    rig.append(1, 8);
    assert_eq!((rig.known(1).0, rig.reports()), (ZonePhase::Unknown, 0));
    rig.drain();
    assert_eq!(rig.known(1).0, ZonePhase::Active);
}

#[test]
fn report_comes_from_the_device_with_the_writes_it_has_done() {
    let mut rig = Setup::new().zone(3, |zone| move_to(zone, 8)).build();
    rig.write(128, 8);
    rig.write(136, 8);
    rig.device.end(0, Status::Ok);
    let mut zones = Vec::new();
    rig.queue.report_zones(ZoneNo(2), 8, &mut zones).unwrap();
    let wps: Vec<Sector> = zones.iter().map(|zone| zone.wp).collect();
    assert_eq!(wps, [Sector(136), Sector(200)]);
    rig.drain();
    assert_eq!(rig.writes().len(), 2);
    assert_eq!(rig.submit(Op::Flush, 0, 0), 2);
    rig.drain();
}

#[test]
fn requests_are_counted_as_the_device_gets_them_if_somebody_wants_to_know() {
    let mut rig = Setup::new().channels(2).options(|options| options.iostats = true).build();
    rig.write(0, 8);
    rig.write(8, 8);
    rig.write(16, 8);
    rig.ok();
    // The two that waited were issued as one.
    rig.fail();
    rig.submit_bio(1, Bio::new(Op::Read, Sector(0), 8, 0));
    rig.submit(Op::Flush, 0, 0);
    rig.reset(1);
    rig.drain();
    let expected = IoStat {
        reads: 1,
        sectors_read: 8,
        writes: 2,
        sectors_written: 8,
        flushes: 1,
        zone_management: 1,
        failures: 1,
        write_merges: 1,
        ..IoStat::default()
    };
    assert_eq!(rig.queue.iostat(), Some(expected));
    assert_eq!(Setup::new().build().queue.iostat(), None);
}

#[test]
fn requests_are_counted_while_somebody_watches() {
    let mut rig = Setup::new().options(|options| options.watchable = true).build();
    rig.write(0, 8);
    rig.drain();
    rig.write(8, 8);
    let writes = |rig: &Rig| rig.queue.iostat().map(|stat| stat.writes);
    assert_eq!(writes(&rig), Some(0));
    assert_eq!(rig.queue.histograms().map(|found| found.in_flight), Some(1), "it always is known");
    let (one, another) = (rig.queue.watch(), rig.queue.watch());
    rig.drain();
    drop(one);
    rig.write(16, 8);
    rig.drain();
    assert_eq!(writes(&rig), Some(2));
    let times = rig.queue.histograms().expect("it can be watched");
    assert_eq!(times.writes.iter().sum::<u64>(), 2, "also of what was with the device already");
    drop(another);
    rig.write(24, 8);
    rig.drain();
    assert_eq!(writes(&rig), Some(2));
    let mut counted = Setup::new().options(|options| options.iostats = true).build();
    drop(counted.queue.watch());
    counted.write(0, 8);
    counted.drain();
    assert_eq!(writes(&counted), Some(1));
}
