//! After a failed write: the writes that wait for it, and the write pointer (A30 to A32).
use crate::op::Op;
use crate::plug::{ZonePhase, ZoneWrite};
use crate::status::Status;
use crate::testing::{End, Rig, Setup, move_to};
use crate::units::ZoneNo;
use crate::zone::{Zone, ZoneCondition};

#[test]
fn a30_failed_write_aborts_those_behind_it_and_the_next_finds_the_plug_in_order() {
    let mut rig = Setup::new().channels(2).build();
    let failed = rig.write(0, 8);
    let (own, other) = (rig.write(8, 8), rig.write_on(1, 16, 8));
    assert_eq!(rig.fail(), [(failed, Status::IoError), (own, Status::IoError)]);
    assert_eq!(rig.poll_on(1), [(other, Status::IoError)]);
    assert_eq!((rig.writes(), rig.reports()), (vec![(0, 8)], 1));
    let write = rig.write_on(1, 0, 8);
    assert_eq!(rig.drain(), [(write, Status::Ok)]);
}

#[test]
fn writes_that_the_layer_does_not_send_are_refused_and_those_that_the_device_fails_are_not() {
    let refused = |rig: &mut Rig, how: Option<End>| {
        if let Some(how) = how {
            rig.device.end_nth(0, 0, how);
        }
        let done = rig.completions_on(0);
        done.iter().map(|done| (done.user_data, done.refused)).collect::<Vec<_>>()
    };
    let mut rig = Setup::new().build();
    let misplaced = rig.write(8, 8);
    assert_eq!(refused(&mut rig, None), [(misplaced, true)]);
    let (failed, behind) = (rig.write(0, 8), rig.write(8, 8));
    let failure = Some(End::Forced(Status::IoError));
    assert_eq!(refused(&mut rig, failure), [(failed, false), (behind, true)]);
    let reset = rig.reset(0);
    let early = rig.write(0, 8);
    assert_eq!(refused(&mut rig, None), [(early, true)]);
    assert_eq!(refused(&mut rig, Some(End::Forced(Status::Ok))), [(reset, false)]);
}

#[test]
fn a30_torn_write_goes_on_where_the_device_stopped() {
    for policy in [ZoneWrite::Plug, ZoneWrite::Qd1] {
        let mut rig = Setup::new().policy(policy).build();
        rig.write(0, 16);
        rig.end_on(0, End::Torn(4));
        assert_eq!(rig.known(0), (ZonePhase::Active, 4));
        let write = rig.write(4, 8);
        assert_eq!(rig.drain(), [(write, Status::Ok)]);
    }
}

#[test]
fn a30_as_the_kernel_all_writes_fail_until_report_reset_or_finish() {
    let report = |rig: &mut Rig| {
        rig.queue.report_zones(ZoneNo(0), 1, &mut Vec::new()).unwrap();
        4
    };
    let reset = |rig: &mut Rig| {
        rig.reset(0);
        rig.drain();
        0
    };
    let reset_all = |rig: &mut Rig| {
        rig.submit(Op::ZoneResetAll, 0, 0);
        rig.drain();
        0
    };
    let ways: [fn(&mut Rig) -> u64; 3] = [report, reset, reset_all];
    for mend in ways {
        let mut rig = Setup::new().like_the_kernel().build();
        rig.write(0, 8);
        rig.end_on(0, End::Torn(4));
        let plug = rig.plug(0).unwrap();
        assert!(plug.flags.need_wp_update);
        assert_eq!((plug.phase, plug.references, rig.reports()), (ZonePhase::Unknown, 1, 0));
        for at in [0, 4, 8] {
            let write = rig.write(at, 4);
            assert_eq!(rig.poll(), [(write, Status::IoError)]);
        }
        let append = rig.append(0, 4);
        assert_eq!(rig.poll(), [(append, Status::IoError)]);
        let wp = mend(&mut rig);
        let write = rig.write(wp, 4);
        assert_eq!(rig.drain(), [(write, Status::Ok)]);
    }
}

#[test]
fn a30_as_the_kernel_a_finish_mends_the_plug_and_lets_it_go() {
    let mut rig = Setup::new().like_the_kernel().build();
    rig.write(0, 8);
    rig.fail();
    assert_eq!(rig.queue.live_plugs(), 1);
    rig.finish(0);
    rig.drain();
    assert_eq!((rig.queue.live_plugs(), rig.known(0).0), (0, ZonePhase::Full));
}

#[test]
fn a30_without_an_answer_from_the_device_each_write_asks_again() {
    let mut rig = Setup::new().build();
    rig.device.refuse_reports(true);
    rig.write(0, 8);
    rig.fail();
    assert!(rig.plug(0).unwrap().flags.need_wp_update);
    let early = rig.write(0, 8);
    assert_eq!(rig.poll(), [(early, Status::IoError)]);
    assert_eq!(rig.reports(), 2);
    rig.device.refuse_reports(false);
    let append = rig.append(0, 8);
    assert_eq!(rig.drain(), [(append, Status::Ok)]);
    assert_eq!(rig.known(0), (ZonePhase::Active, 8));
}

#[test]
fn a30_write_pointer_outside_of_the_zone_is_not_believed() {
    let mut rig = Setup::new().build();
    rig.write(64, 8);
    rig.device.set_zone(1, |zone| {
        zone.wp.0 = 8;
        zone.cond = ZoneCondition::Closed;
    });
    rig.fail();
    assert!(rig.plug(1).unwrap().flags.need_wp_update);
    rig.device.set_zone(1, |zone| move_to(zone, 0));
    let write = rig.write(64, 8);
    assert_eq!(rig.drain(), [(write, Status::Ok)]);
}

#[test]
fn a30_write_that_fails_while_the_zone_is_being_reset_leaves_the_pointer_to_the_reset() {
    let mut rig = Setup::new().build();
    rig.write(0, 8);
    rig.reset(0);
    rig.fail();
    assert_eq!(rig.reports(), 0);
    assert!(rig.plug(0).unwrap().flags.need_wp_update);
    rig.ok();
    assert_eq!((rig.known(0), rig.reports()), ((ZonePhase::Empty, 0), 0));
    assert_eq!((rig.queue.live_plugs(), rig.references()), (0, 0));
}

#[test]
fn a31_reset_past_the_layer_is_noticed_by_the_first_write() {
    let mut rig = Setup::new().build();
    rig.write(0, 8);
    rig.drain();
    rig.device.set_zone(0, |zone| move_to(zone, 0));
    let write = rig.write(0, 8);
    assert_eq!(rig.drain(), [(write, Status::Ok)]);
    assert_eq!(rig.known(0), (ZonePhase::Active, 8));
}

#[test]
fn a31_write_where_the_pointer_was_before_a_reset_past_the_layer_fails_and_mends_the_plug() {
    let mut rig = Setup::new().build();
    rig.write(0, 8);
    rig.drain();
    rig.device.set_zone(0, |zone| move_to(zone, 0));
    let write = rig.write(8, 8);
    assert_eq!(rig.drain(), [(write, Status::IoError)]);
    let write = rig.write(0, 8);
    assert_eq!(rig.drain(), [(write, Status::Ok)]);
}

#[test]
fn a31_as_the_kernel_the_first_write_after_a_reset_past_the_layer_fails() {
    let mut rig = Setup::new().like_the_kernel().build();
    rig.write(0, 8);
    rig.drain();
    rig.device.set_zone(0, |zone| move_to(zone, 0));
    rig.queue.report_zones(ZoneNo(0), 4, &mut Vec::new()).unwrap();
    let write = rig.write(0, 8);
    assert_eq!(rig.poll(), [(write, Status::IoError)], "a report mends only what it knows broken");
}

#[test]
fn a32_too_many_open_or_active_zones_reach_the_submitter_as_such() {
    for (status, errno) in [(Status::ZoneOpenResource, 109), (Status::ZoneActiveResource, 75)] {
        let mut rig = Setup::new().build();
        let write = rig.write(0, 8);
        assert_eq!(rig.end(status), [(write, status)]);
        assert_eq!(status.errno(), errno);
        assert_eq!((rig.queue.live_plugs(), rig.references()), (0, 0));
        let open = rig.submit(Op::ZoneOpen, 0, 0);
        assert_eq!(rig.end(status), [(open, status)]);
    }
}

#[test]
fn zone_that_goes_read_only_or_offline_tells_its_waiters_at_once() {
    for (cond, status) in
        [(ZoneCondition::ReadOnly, Status::IoError), (ZoneCondition::Offline, Status::Offline)]
    {
        for policy in [ZoneWrite::Plug, ZoneWrite::Qd1] {
            let mut rig = Setup::new().policy(policy).channels(2).build();
            let first = rig.write(0, 8);
            let (own, other) = (rig.write(8, 8), rig.write_on(1, 16, 8));
            rig.device.set_zone(0, |zone| zone.cond = cond);
            assert_eq!(rig.end_on(0, End::ByZoneRules), [(first, status), (own, status)]);
            assert_eq!(rig.poll_on(1), [(other, status)]);
            let late = rig.write(0, 8);
            assert_eq!(rig.poll(), [(late, status)]);
            assert_eq!(rig.writes(), [(0, 8)]);
            assert_eq!((rig.queue.live_plugs(), rig.references()), (0, 0));
        }
    }
}

#[test]
fn conventional_zone_that_was_offline_when_plugs_came_into_use_is_written_after_it_recovers() {
    for policy in [ZoneWrite::Plug, ZoneWrite::Qd1] {
        let offline = |zone: &mut Zone| zone.cond = ZoneCondition::Offline;
        let mut rig = Setup::new().policy(policy).conventional(0).zone(0, offline).build();
        let early = rig.write(8, 8);
        assert_eq!(rig.end(Status::Offline), [(early, Status::Offline)], "the device says so");
        rig.device.set_zone(0, |zone| zone.cond = ZoneCondition::NotWritePointer);
        rig.writes();
        let anywhere = [rig.write(8, 8), rig.write(0, 8)];
        assert_eq!(rig.writes(), [(8, 8), (0, 8)], "as to any conventional zone");
        assert_eq!(rig.drain(), anywhere.map(|id| (id, Status::Ok)));
        assert_eq!((rig.queue.live_plugs(), rig.references()), (0, 0));
    }
}

#[test]
fn conventional_zone_that_was_read_only_gets_no_write_pointer_from_an_append_and_a_reset_of_all() {
    let read_only = |zone: &mut Zone| zone.cond = ZoneCondition::ReadOnly;
    let mut rig = Setup::new().native_append().conventional(0).zone(0, read_only).build();
    let append = rig.append(0, 8);
    assert_eq!(rig.poll(), [(append, Status::IoError)]);
    let reset = rig.submit(Op::ZoneResetAll, 0, 0);
    assert_eq!(rig.ok(), [(reset, Status::Ok)]);
    rig.device.set_zone(0, |zone| zone.cond = ZoneCondition::NotWritePointer);
    let write = rig.write(8, 8);
    assert_eq!((rig.known(0).0, rig.queue.live_plugs()), (ZonePhase::Conventional, 0));
    assert_eq!(rig.ok(), [(write, Status::Ok)]);
}

#[test]
fn recovered_zone_is_written_again() {
    let mut rig = Setup::new().zone(0, |zone| zone.cond = ZoneCondition::Offline).build();
    let early = rig.write(0, 8);
    assert_eq!(rig.poll(), [(early, Status::Offline)]);
    rig.device.set_zone(0, |zone| move_to(zone, 0));
    let write = rig.write(0, 8);
    assert_eq!(rig.drain(), [(write, Status::Ok)]);
}

#[test]
fn zone_report_lets_a_recovered_zone_be_written_also_when_nothing_else_is_asked_for() {
    for cond in [ZoneCondition::ReadOnly, ZoneCondition::Offline] {
        let mut rig = Setup::new().like_the_kernel().zone(0, move |zone| zone.cond = cond).build();
        rig.write(0, 8);
        assert!(rig.poll().iter().all(|&(_, status)| status != Status::Ok));
        rig.device.set_zone(0, |zone| move_to(zone, 0));
        rig.queue.report_zones(ZoneNo(0), 4, &mut Vec::new()).unwrap();
        let write = rig.write(0, 8);
        assert_eq!(rig.drain(), [(write, Status::Ok)], "{cond:?}");
    }
}
