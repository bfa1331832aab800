//! A device loses zones, or is formatted, while its queue is attached (A39).
use crate::bio::BioFlags;
use crate::op::Op;
use crate::plug::{ZonePhase, ZoneWrite};
use crate::queue::{Queue, SwitchError};
use crate::sched::Scheduler;
use crate::status::Status;
use crate::testing::{End, Rig, Setup, move_to};
use crate::units::{Sector, ZoneNo};

/// Reads the zones of a queue anew, which has nothing inside.
fn revalidate(rig: &Rig) -> Result<u32, SwitchError> {
    rig.queue.freeze();
    let zones = rig.queue.revalidate();
    rig.queue.unfreeze();
    zones
}

#[test]
fn plugs_beyond_the_end_go_when_a_device_has_fewer_zones() {
    for policy in [ZoneWrite::Plug, ZoneWrite::Qd1] {
        let mut rig = Setup::new().policy(policy).build();
        let writes = [0, 64, 192].map(|at| rig.write(at, 8));
        assert_eq!(rig.drain(), writes.map(|id| (id, Status::Ok)));
        assert_eq!(rig.queue.live_plugs(), 3);
        rig.device.keep_zones(2);
        assert_eq!(revalidate(&rig), Ok(2));
        assert_eq!((rig.queue.live_plugs(), rig.queue.nr_zones()), (2, 2));
        assert_eq!(rig.queue.capacity(), Sector(128));
        assert!(rig.queue.attributes().contains(&("nr_zones", "2".to_owned())));
        assert!(rig.queue.dump_plugs(true).iter().all(|plug| plug.zone.0 < 2));
        assert_eq!(rig.queue.cached_zone(ZoneNo(2)), None);
        assert_eq!(rig.queue.all_zones().filter(Result::is_ok).count(), 2);
        assert_eq!(rig.queue.all_zones().count(), 2, "no error after the last");
        rig.started();
        let beyond = [rig.write(200, 8), rig.submit(Op::Read, 128, 8), rig.reset(3)];
        assert_eq!(rig.drain(), beyond.map(|id| (id, Status::Invalid)));
        assert_eq!(rig.started(), [], "none reached the device");
        let inside = rig.write(72, 8);
        assert_eq!(rig.drain(), [(inside, Status::Ok)]);
    }
}

#[test]
fn writes_that_wait_for_a_lost_zone_fail_and_the_queue_drains() {
    let mut rig = Setup::new().build();
    let lost =
        [(192, 8), (200, 8), (208, 8)].map(|(at, len)| rig.write_with(BioFlags::NOMERGE, at, len));
    rig.device.keep_zones(3);
    rig.queue.freeze();
    assert_eq!(rig.queue.revalidate(), Err(SwitchError::NotQuiescent));
    let held = [rig.write(216, 8), rig.write(0, 8)];
    assert_eq!(rig.fail(), lost.map(|id| (id, Status::IoError)));
    assert_eq!(rig.queue.revalidate(), Ok(3));
    rig.queue.unfreeze();
    assert_eq!(rig.drain(), [(held[0], Status::Invalid), (held[1], Status::Ok)]);
    assert_eq!(rig.writes(), [(192, 8), (0, 8)], "of the lost zone only the first");
    assert_eq!((rig.queue.live_plugs(), rig.references()), (1, 1));
}

#[test]
fn zones_that_were_formatted_are_written_from_their_start() {
    let mut rig = Setup::new().conventional(3).build();
    rig.write(0, 64);
    rig.write(64, 8);
    rig.finish(2);
    rig.drain();
    for zone in 0..3 {
        rig.device.set_zone(zone, |zone| move_to(zone, 0));
    }
    assert_eq!(revalidate(&rig), Ok(4));
    assert_eq!((rig.queue.live_plugs(), rig.known(0)), (0, (ZonePhase::Empty, 0)));
    let writes = [0, 64, 128].map(|at| rig.write(at, 8));
    let conventional = rig.write(230, 3);
    let all = writes.into_iter().chain([conventional]);
    assert_eq!(rig.drain(), all.map(|id| (id, Status::Ok)).collect::<Vec<_>>());
}

#[test]
fn zones_that_come_back_are_written_again_and_the_last_is_the_short_one() {
    let short = |setup: Setup| {
        setup
            .limits(|limits| limits.capacity = Sector(3 * 64 + 16))
            .zone(3, |zone| (zone.len, zone.capacity) = (Sector(16), Sector(16)))
    };
    let mut rig = short(Setup::new()).build();
    rig.device.keep_zones(3);
    assert_eq!((revalidate(&rig), rig.queue.capacity()), (Ok(3), Sector(192)));
    let whole = rig.write(128, 64);
    assert_eq!(rig.drain(), [(whole, Status::Ok)]);
    assert_eq!(rig.known(2).0, ZonePhase::Full, "the last of three is as large as the others");
    let reset = rig.reset(2);
    assert_eq!(rig.drain(), [(reset, Status::Ok)]);
    rig.device.keep_zones(4);
    let before = rig.write(192, 16);
    assert_eq!(rig.drain(), [(before, Status::Invalid)], "the queue does not know them yet");
    assert_eq!((revalidate(&rig), rig.queue.capacity()), (Ok(4), Sector(208)));
    let (whole, rest) = (rig.write(128, 64), rig.write(192, 16));
    assert_eq!(rig.drain(), [(whole, Status::Ok), (rest, Status::Ok)]);
    assert_eq!((rig.known(2).0, rig.known(3).0), (ZonePhase::Full, ZonePhase::Full));
}

#[test]
fn revalidation_that_fails_changes_nothing() {
    let mut rig = Setup::new().build();
    rig.write(192, 8);
    rig.drain();
    let refused = |expected: SwitchError| {
        rig.queue.freeze();
        assert_eq!(rig.queue.revalidate(), Err(expected));
        rig.queue.unfreeze();
        assert_eq!((rig.queue.nr_zones(), rig.queue.live_plugs()), (4, 1));
    };
    let device = std::sync::Arc::clone(&rig.device);
    device.refuse_reports(true);
    refused(SwitchError::Report(Status::Timeout));
    device.refuse_reports(false);
    for none_or_more in [0, 5] {
        device.keep_zones(none_or_more);
        let rule = "the zones are 1 up to those that the device was attached with";
        refused(SwitchError::Unsuitable(rule));
    }
    // The capacity of a zone is that of the others, and a report has all zones.
    device.keep_zones(3);
    device.set_zone(1, |zone| zone.capacity = Sector(32));
    let rule = "all sequential zones but the last must have the same capacity";
    refused(SwitchError::Zone { zone: 1, rule });
    device.set_zone(1, |zone| zone.capacity = Sector(64));
    device.zones.lock().unwrap().truncate(2);
    refused(SwitchError::Report(Status::IoError));
    let regular =
        Setup::new().limits(|limits| *limits = crate::Limits::regular(Sector(64))).build();
    assert!(matches!(revalidate(&regular), Err(SwitchError::Unsuitable(_))));
}

#[test]
fn locks_of_zones_follow_a_revalidation() {
    let scheduler: Scheduler = "mq-deadline".parse().unwrap();
    let locks = Setup::new().policy(ZoneWrite::Lock).options(|o| o.scheduler = scheduler);
    let mut rig = locks.build();
    rig.device.keep_zones(2);
    assert_eq!(revalidate(&rig), Ok(2));
    let writes = [(64, 8), (72, 8), (128, 8)].map(|(at, len)| rig.write(at, len));
    assert_eq!(rig.writes(), [(64, 8)]);
    let statuses = [Status::Ok, Status::Ok, Status::Invalid];
    assert_eq!(rig.drain(), std::iter::zip(writes, statuses).collect::<Vec<_>>());
}

#[test]
fn device_that_has_lost_zones_is_attached_with_those_that_are_left() {
    let setup = Setup::new();
    let device = setup.device();
    device.keep_zones(3);
    let queue = Queue::attach(std::sync::Arc::clone(&device) as _, setup.queue_options()).unwrap();
    assert_eq!((queue.limits().nr_zones, queue.limits().capacity), (3, Sector(192)));
    device.keep_zones(4);
    queue.freeze();
    assert!(matches!(queue.revalidate(), Err(SwitchError::Unsuitable(_))), "attach it again");
}

#[test]
fn torn_write_before_a_revalidation_leaves_no_old_pointer() {
    let mut rig = Setup::new().like_the_kernel().build();
    let write = rig.write(64, 16);
    assert_eq!(rig.end_on(0, End::Torn(8)), [(write, Status::IoError)]);
    assert_eq!(revalidate(&rig), Ok(4));
    let rest = rig.write(72, 8);
    assert_eq!(rig.drain(), [(rest, Status::Ok)]);
}
