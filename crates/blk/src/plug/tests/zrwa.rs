//! Zones with a random write area: the plug orders nothing there, and does again when the area is gone.
use crate::limits::ZrwaLimits;
use crate::op::Op;
use crate::plug::{ZonePhase, ZoneWrite};
use crate::status::Status;
use crate::testing::{Rig, Setup, ZONE, move_to};
use crate::zone::{Zone, ZoneAttributes, ZoneCondition};

/// A device with random write areas of 16 sectors.
fn setup() -> Setup {
    Setup::new().limits(|limits| limits.zrwa = ZrwaLimits { size: 16, granularity: 4, max: 2 })
}

/// Zone 0 has an area.
fn opened(setup: Setup) -> Rig {
    let mut rig = setup.build();
    let open = rig.submit(Op::ZoneOpenZrwa, 0, 0);
    assert_eq!(rig.ok(), [(open, Status::Ok)]);
    rig.started();
    rig
}

#[test]
fn writes_in_any_order_reach_the_device_at_once() {
    for policy in [ZoneWrite::Plug, ZoneWrite::Qd1] {
        let mut rig = opened(setup().policy(policy));
        rig.write(8, 4);
        rig.write(0, 4);
        rig.write(0, 4);
        rig.write(12, 4);
        assert_eq!(rig.writes(), [(8, 4), (0, 4), (0, 4), (12, 4)], "{policy:?}");
        assert_eq!(rig.reports(), 0, "nothing is asked of the device");
        assert!(rig.drain().iter().all(|&(_, status)| status == Status::Ok));
        assert_eq!((rig.queue.live_plugs(), rig.references()), (0, 0));
    }
}

#[test]
fn zones_without_an_area_are_plugged_as_ever() {
    let mut rig = opened(setup());
    rig.write(ZONE, 4);
    rig.write(ZONE + 4, 4);
    let wrong = rig.write(ZONE + 40, 4);
    assert_eq!(rig.writes(), [(ZONE, 4)]);
    assert!(rig.drain().contains(&(wrong, Status::IoError)));
    assert_eq!(rig.device.most_per_zone(), 1);
}

#[test]
fn open_that_fails_leaves_the_zone_in_order() {
    let mut rig = setup().build();
    let open = rig.submit(Op::ZoneOpenZrwa, 0, 0);
    let meanwhile = rig.write(0, 4);
    assert_eq!(rig.poll(), [(meanwhile, Status::IoError)], "the zone is being managed");
    assert_eq!(rig.end(Status::NoSpace), [(open, Status::NoSpace)]);
    rig.write(0, 4);
    let wrong = rig.write(8, 4);
    assert_eq!(rig.poll(), [(wrong, Status::IoError)]);
    rig.drain();
}

#[test]
fn appends_fail_without_reaching_the_device() {
    for setup in [setup(), setup().native_append()] {
        let mut rig = opened(setup);
        let append = rig.append(0, 4);
        assert_eq!(rig.poll(), [(append, Status::IoError)]);
        assert_eq!(rig.started(), []);
        rig.write(4, 4);
        assert_eq!(rig.writes(), [(4, 4)], "the zone has its area");
        rig.drain();
    }
}

#[test]
fn after_a_reset_or_finish_the_zone_is_in_order_again() {
    for (op, phase) in [(Op::ZoneReset, ZonePhase::Empty), (Op::ZoneFinish, ZonePhase::Full)] {
        let mut rig = opened(setup());
        rig.submit(op, 0, 0);
        rig.drain();
        assert_eq!(rig.known(0).0, phase);
        let wrong = rig.write(8, 4);
        assert_eq!(rig.poll(), [(wrong, Status::IoError)], "{op:?}");
    }
    let mut rig = opened(setup());
    rig.submit(Op::ZoneResetAll, 0, 0);
    rig.drain();
    assert_eq!(rig.known(0).0, ZonePhase::Empty);
}

#[test]
fn failed_write_finds_that_the_area_is_gone() {
    let mut rig = opened(setup());
    rig.device.set_zone(0, |zone| move_to(zone, 8));
    let late = rig.write(0, 4);
    assert_eq!(rig.fail(), [(late, Status::IoError)]);
    assert_eq!(rig.reports(), 1);
    rig.writes();
    let wrong = rig.write(12, 4);
    let right = rig.write(8, 4);
    assert_eq!(rig.writes(), [(8, 4)]);
    assert_eq!(rig.poll(), [(wrong, Status::IoError)]);
    assert_eq!(rig.ok(), [(right, Status::Ok)]);
}

#[test]
fn area_that_somebody_else_opened_is_found_in_the_report() {
    let mut rig = setup().build();
    rig.device.set_zone(0, |zone| {
        zone.cond = ZoneCondition::ExplicitOpen;
        zone.attributes = ZoneAttributes::ZRWA;
    });
    rig.write(8, 4);
    assert_eq!((rig.reports(), rig.writes()), (1, vec![(8, 4)]));
    rig.write(4, 4);
    assert_eq!((rig.reports(), rig.writes()), (0, vec![(4, 4)]));
    rig.drain();
    let closed = |zone: &mut Zone| {
        zone.cond = ZoneCondition::Closed;
        zone.attributes = ZoneAttributes::ZRWA;
    };
    let mut rig = setup().zone(0, closed).build();
    rig.write(8, 4);
    assert_eq!((rig.reports(), rig.writes()), (0, vec![(8, 4)]), "found when it was attached");
    rig.drain();
}

#[test]
fn flush_of_the_area_needs_a_device_that_has_areas_and_ends_in_the_zone() {
    let mut rig = opened(setup());
    let flush = rig.submit(Op::ZrwaFlush, 0, 8);
    assert_eq!(rig.started(), [(Op::ZrwaFlush, 0, 8)]);
    assert_eq!(rig.ok(), [(flush, Status::Ok)]);
    for (sector, len) in [(4, 4), (0, 65), (3 * ZONE, u32::MAX)] {
        let wrong = rig.submit(Op::ZrwaFlush, sector, len);
        assert_eq!(rig.poll(), [(wrong, Status::Invalid)], "{len} from {sector}");
    }
    let mut plain = Setup::new().build();
    for op in [Op::ZrwaFlush, Op::ZoneOpenZrwa] {
        let refused = plain.submit(op, 0, 0);
        assert_eq!(plain.poll(), [(refused, Status::NotSupported)]);
    }
}
