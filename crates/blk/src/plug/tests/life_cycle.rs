//! Plugs become live with activity and are released exactly once (A1 to A9).
use crate::plug::ZonePhase;
use crate::status::Status;
use crate::testing::{End, Rig, Setup};
use crate::zone::ZoneCondition;

#[test]
fn a01_a02_first_write_makes_the_plug_and_every_write_in_the_layer_holds_it() {
    let mut rig = Setup::new().build();
    assert_eq!(rig.queue.live_plugs(), 0);
    rig.write(0, 8);
    let plug = rig.plug(0).unwrap();
    assert!(plug.flags.plugged && !plug.flags.need_wp_update);
    assert_eq!((plug.references, plug.waiting), (2, 0));
    rig.write(8, 8);
    rig.write(16, 8);
    assert_eq!(rig.plug(0).map(|plug| (plug.references, plug.waiting)), Some((4, 2)));
    assert_eq!(rig.queue.live_plugs(), 1, "one plug per zone");
    rig.drain();
    let plug = rig.plug(0).unwrap();
    assert_eq!((plug.references, plug.flags.plugged), (1, false));
}

#[test]
fn a03_misplaced_first_write_fails_without_reaching_the_device() {
    let mut rig = Setup::new().build();
    rig.write(8, 8);
    assert_eq!(rig.poll(), [(0, Status::IoError)]);
    assert_eq!(rig.started(), []);
    assert_eq!((rig.queue.live_plugs(), rig.references()), (0, 0));
}

#[test]
fn a04_idle_partially_written_zone_keeps_its_plug_and_a_full_one_lets_it_go() {
    let mut rig = Setup::new().build();
    rig.write(0, 8);
    rig.drain();
    assert_eq!(rig.queue.live_plugs(), 1);
    rig.write(8, 56);
    assert_eq!(rig.queue.live_plugs(), 1, "the last write has not completed");
    rig.drain();
    assert_eq!((rig.queue.live_plugs(), rig.references()), (0, 0));
    assert_eq!(rig.known(0), (ZonePhase::Full, 64));
}

#[test]
fn a04_zone_with_less_capacity_than_size_lets_its_plug_go_at_capacity() {
    let mut rig =
        Setup::new().zones(|zones| zones.iter_mut().for_each(|zone| zone.capacity.0 = 48)).build();
    rig.write(0, 48);
    rig.drain();
    assert_eq!(rig.queue.live_plugs(), 0);
    let beyond = rig.write(48, 8);
    assert_eq!(rig.poll(), [(beyond, Status::IoError)]);
}

#[test]
fn a04_reset_and_finished_zones_let_their_plugs_go() {
    let mut rig = Setup::new().build();
    rig.write(0, 8);
    rig.write(64, 8);
    rig.drain();
    assert_eq!(rig.queue.live_plugs(), 2);
    rig.reset(0);
    rig.finish(1);
    rig.drain();
    assert_eq!((rig.queue.live_plugs(), rig.references()), (0, 0));
    assert_eq!(rig.known(0), (ZonePhase::Empty, 0));
    assert_eq!(rig.known(1), (ZonePhase::Full, 64));
}

#[test]
fn a04_plug_of_a_full_zone_goes_when_the_completion_comes_while_another_write_is_submitted() {
    // The first fault: the last write of a zone completes on one thread while another holds the
    // plug to submit there. The second of the two must release the plug.
    let mut rig = Setup::new().channels(2).build();
    let last = rig.write(0, 64);
    let late = rig.write_on(1, 64 - 8, 8);
    assert_eq!(rig.poll_on(1), [(late, Status::IoError)]);
    assert_eq!(rig.queue.live_plugs(), 1);
    assert_eq!(rig.ok(), [(last, Status::Ok)]);
    assert_eq!((rig.queue.live_plugs(), rig.references()), (0, 0));
    let after = rig.write_on(1, 64 - 8, 8);
    assert_eq!(rig.poll_on(1), [(after, Status::IoError)]);
    assert_eq!((rig.queue.live_plugs(), rig.references()), (0, 0));
}

#[test]
fn a04_failed_write_that_leaves_the_zone_empty_lets_its_plug_go() {
    let mut rig = Setup::new().build();
    rig.write(0, 8);
    rig.fail();
    assert_eq!((rig.queue.live_plugs(), rig.references()), (0, 0));
}

#[test]
fn a04_plug_goes_when_a_misplaced_write_finds_the_zone_reset_past_the_layer() {
    let mut rig = Setup::new().build();
    rig.write(0, 8);
    rig.drain();
    rig.device.set_zone(0, |zone| crate::testing::move_to(zone, 0));
    let misplaced = rig.write(24, 8);
    assert_eq!(rig.poll(), [(misplaced, Status::IoError)]);
    assert_eq!((rig.queue.live_plugs(), rig.references()), (0, 0));
}

#[test]
fn a05_a_zone_without_plug_is_remembered_by_its_phase() {
    let mut rig = Setup::new()
        .zone(1, |zone| zone.cond = ZoneCondition::Full)
        .zone(2, |zone| zone.cond = ZoneCondition::ReadOnly)
        .build();
    assert_eq!(rig.queue.live_plugs(), 0);
    let phases = [ZonePhase::Empty, ZonePhase::Full, ZonePhase::ReadOnly];
    assert_eq!([0, 1, 2].map(|zone| rig.known(zone).0), phases);
    assert_eq!(rig.reports(), 0, "the layer knows without asking");
    rig.drain();
}

#[test]
fn a06_writes_to_a_zone_being_reset_or_finished_fail_at_once() {
    let mut rig = Setup::new().build();
    for (begin, write) in [(Rig::reset as fn(&mut Rig, u64) -> u64, 0), (Rig::finish, 64)] {
        let management = begin(&mut rig, write / 64);
        let write = rig.write(write, 8);
        assert_eq!(rig.poll(), [(write, Status::IoError)]);
        assert_eq!(rig.ok(), [(management, Status::Ok)]);
    }
    assert!(rig.writes().is_empty());
    assert_eq!((rig.queue.live_plugs(), rig.references()), (0, 0));
}

#[test]
fn a06_write_to_a_full_zone_fails_at_once() {
    let mut rig = Setup::new().build();
    rig.write(0, 64);
    rig.drain();
    rig.started();
    let write = rig.write(0, 8);
    assert_eq!(rig.poll(), [(write, Status::IoError)]);
    assert_eq!(rig.started(), []);
    assert_eq!(rig.queue.live_plugs(), 0);
}

#[test]
fn a07_write_right_after_a_completed_reset_succeeds() {
    let mut rig = Setup::new().channels(2).build();
    rig.write(0, 64);
    rig.drain();
    let reset = rig.reset(0);
    assert_eq!(rig.ok(), [(reset, Status::Ok)]);
    // Another thread than the one that resets the zone.
    let write = rig.write_on(1, 0, 8);
    assert_eq!(rig.drain(), [(write, Status::Ok)]);
    assert_eq!(rig.known(0), (ZonePhase::Active, 8));
}

#[test]
fn a07_write_after_a_reset_that_overtook_a_write_still_comes_after_that_write() {
    let mut rig = Setup::new().build();
    let old = rig.write(0, 8);
    let reset = rig.reset(0);
    rig.device.end_nth(0, 1, End::Forced(Status::Ok));
    assert_eq!(rig.poll(), [(reset, Status::Ok)]);
    let new = rig.write(0, 8);
    assert_eq!(rig.writes(), [(0, 8)], "one write in flight per zone");
    assert_eq!(rig.fail(), [(old, Status::IoError), (new, Status::IoError)]);
    let again = rig.write(0, 8);
    assert_eq!(rig.drain(), [(again, Status::Ok)]);
}

#[test]
fn a08_waiting_writes_hold_one_reference_each_however_often_the_plug_is_found_busy() {
    // The second fault: a reference for work that was already scheduled, taken twice or dropped
    // twice.
    let mut rig = Setup::new().channels(2).build();
    for at in 0..8 {
        rig.write_on(at % 2, at as u64 * 8, 8);
    }
    assert_eq!(rig.plug(0).map(|plug| plug.references), Some(1 + 8));
    rig.device.end(0, Status::Ok);
    rig.poll_on(0);
    assert_eq!(rig.plug(0).map(|plug| plug.references), Some(1 + 1), "merged, one write is left");
    rig.drain();
    assert_eq!((rig.queue.live_plugs(), rig.references()), (0, 0));
}

#[test]
fn a09_a_plug_goes_with_nothing_in_flight_and_nothing_waiting() {
    let mut rig = Setup::new().build();
    rig.write(0, 32);
    rig.write(32, 32);
    rig.finish(0);
    rig.device.end_nth(0, 1, End::Forced(Status::Ok));
    assert_eq!(rig.poll().len(), 2, "the finish, and the write that it made impossible");
    let plug = rig.plug(0).expect("the first write holds the plug of the full zone");
    assert_eq!((plug.references, plug.waiting, plug.phase), (2, 0, ZonePhase::Full));
    rig.fail();
    assert_eq!((rig.plug(0), rig.references()), (None, 0));
}
