//! Reset, finish and reset all (A26 to A29).
use crate::op::Op;
use crate::plug::ZonePhase;
use crate::status::Status;
use crate::testing::{End, Setup};

#[test]
fn a26_reset_and_finish_of_a_conventional_zone_fail_without_reaching_the_device() {
    let mut rig = Setup::new().conventional(0).build();
    let (reset, finish) = (rig.reset(0), rig.finish(0));
    assert_eq!(rig.poll(), [(reset, Status::IoError), (finish, Status::IoError)]);
    assert_eq!(rig.started(), []);
}

#[test]
fn open_and_close_of_a_conventional_zone_fail_without_reaching_the_device() {
    let mut rig = Setup::new().conventional(0).build();
    let ids = [Op::ZoneOpen, Op::ZoneClose].map(|op| rig.submit(op, 0, 0));
    assert_eq!(rig.poll(), ids.map(|id| (id, Status::IoError)));
    assert_eq!(rig.started(), []);
}

#[test]
fn a26_management_does_not_wait_for_writes() {
    let mut rig = Setup::new().build();
    rig.write(0, 8);
    rig.reset(0);
    assert_eq!(rig.started(), [(Op::Write, 0, 8), (Op::ZoneReset, 0, 0)]);
    rig.device.end_nth(0, 1, End::Forced(Status::Ok));
    rig.fail();
    rig.drain();
}

#[test]
fn a27_write_pointer_moves_when_a_reset_or_finish_has_completed() {
    let mut rig = Setup::new().build();
    rig.write(0, 8);
    rig.write(64, 8);
    rig.drain();
    rig.reset(0);
    rig.finish(1);
    assert_eq!((rig.known(0).1, rig.known(1).1), (8, 8));
    rig.drain();
    assert_eq!((rig.known(0).1, rig.known(1).1), (0, 64));
}

#[test]
fn a27_completed_reset_aborts_the_writes_that_wait() {
    let mut rig = Setup::new().channels(2).build();
    let first = rig.write(0, 8);
    let (own, other) = (rig.write(8, 8), rig.write_on(1, 16, 8));
    let reset = rig.reset(0);
    rig.device.end_nth(0, 1, End::Forced(Status::Ok));
    let mut ended = rig.poll();
    ended.sort_unstable_by_key(|&(id, _)| id);
    assert_eq!(ended, [(own, Status::IoError), (reset, Status::Ok)]);
    assert_eq!(rig.poll_on(1), [(other, Status::IoError)]);
    assert_eq!(rig.fail(), [(first, Status::IoError)]);
    assert_eq!((rig.queue.live_plugs(), rig.references()), (0, 0));
}

#[test]
fn a27_failed_reset_or_finish_changes_nothing() {
    let mut rig = Setup::new().build();
    let first = rig.write(0, 8);
    let waits = rig.write(8, 8);
    for op in [Op::ZoneReset, Op::ZoneFinish, Op::ZoneResetAll] {
        let management = rig.submit(op, 0, 0);
        rig.device.end_nth(0, 1, End::Forced(Status::IoError));
        assert_eq!(rig.poll(), [(management, Status::IoError)]);
        assert_eq!(rig.known(0), (ZonePhase::Active, 16));
    }
    assert_eq!(rig.drain(), [(first, Status::Ok), (waits, Status::Ok)]);
}

#[test]
fn a28_reset_all_empties_every_sequential_zone_and_forgets_native_appends() {
    let mut rig = Setup::new().native_append().conventional(3).build();
    rig.write(0, 8);
    rig.write(64, 64);
    rig.append(2, 8);
    rig.drain();
    let reset = rig.submit(Op::ZoneResetAll, 0, 0);
    let early = rig.write(128, 8);
    assert_eq!(rig.poll(), [(early, Status::IoError)]);
    assert_eq!(rig.drain(), [(reset, Status::Ok)]);
    assert_eq!([0, 1, 2].map(|zone| rig.known(zone)), [(ZonePhase::Empty, 0); 3]);
    assert_eq!(rig.known(3).0, ZonePhase::Conventional);
    assert_eq!(rig.reports(), 0);
    assert_eq!((rig.queue.live_plugs(), rig.references()), (0, 0));
    let write = rig.write(128, 8);
    assert_eq!(rig.drain(), [(write, Status::Ok)]);
}

#[test]
fn a29_management_of_no_zone_is_invalid_and_of_a_device_without_zones_not_supported() {
    let mut rig = Setup::new().build();
    for at in [8, 256, 1 << 40] {
        let reset = rig.submit(Op::ZoneReset, at, 0);
        assert_eq!(rig.poll(), [(reset, Status::Invalid)]);
    }
    assert_eq!(Status::Invalid.errno(), 22);
    let mut rig =
        Setup::new().limits(|limits| (limits.nr_zones, limits.zone_size.0) = (0, 0)).build();
    for op in [Op::ZoneReset, Op::ZoneResetAll, Op::ZoneAppend] {
        let bio = rig.submit(op, 0, if op == Op::ZoneAppend { 8 } else { 0 });
        assert_eq!(rig.poll(), [(bio, Status::NotSupported)]);
    }
    let write = rig.write(100, 8);
    assert_eq!(rig.drain(), [(write, Status::Ok)]);
    let mut zones = Vec::new();
    let report = rig.queue.report_zones(crate::ZoneNo(0), 1, &mut zones);
    assert_eq!(report, Err(Status::NotSupported));
}

#[test]
fn more_resets_of_a_zone_than_can_be_counted_are_told_to_try_again() {
    let mut rig = Setup::new().build();
    let most = u64::from(u16::MAX);
    (0..most).for_each(|_| _ = rig.reset(1));
    let one = rig.reset(1);
    let all = rig.submit(Op::ZoneResetAll, 0, 0);
    assert_eq!(rig.poll(), [(one, Status::Again), (all, Status::Again)]);
    assert_eq!(rig.drain().len() as u64, most);
    assert_eq!(rig.references(), 0);
    let write = rig.write(0, 8);
    assert_eq!(rig.drain(), [(write, Status::Ok)], "zone 0 is not being reset");
}
