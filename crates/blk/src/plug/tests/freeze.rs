//! Freezing, draining, changing the policy and unfreezing: nothing is lost (A19, A33, A44).
use crate::plug::{ZonePhase, ZoneWrite};
use crate::queue::SwitchError;
use crate::status::Status;
use crate::testing::{Setup, move_to};
use crate::wake::Wake;

#[test]
fn a19_a44_freeze_waits_for_writes_that_wait_in_plugs() {
    let mut rig = Setup::new().channels(2).build();
    let first = rig.write_on(0, 0, 8);
    let waits = rig.write_on(1, 8, 8);
    rig.queue.freeze();
    assert!(!rig.queue.is_quiescent());
    assert_eq!(rig.ok(), [(first, Status::Ok)]);
    assert!(!rig.queue.is_quiescent(), "the second is with the device");
    rig.ok();
    assert!(!rig.queue.is_quiescent(), "its submitter has not heard of it");
    assert_eq!(rig.poll_on(1), [(waits, Status::Ok)]);
    assert!(rig.queue.is_quiescent());
}

#[test]
fn a44_waiting_writes_go_out_while_the_queue_is_frozen() {
    let mut rig = Setup::new().build();
    let ids = [rig.write(0, 8), rig.write(8, 8)];
    rig.queue.freeze();
    assert_eq!(rig.drain(), ids.map(|id| (id, Status::Ok)));
    assert!(rig.queue.is_quiescent());
}

#[test]
fn frozen_queue_holds_new_bios_in_order_and_lets_them_in_after_unfreezing() {
    let mut rig = Setup::new().build();
    rig.queue.freeze();
    rig.queue.freeze();
    let held = [rig.write(0, 8), rig.write(8, 8)];
    assert!(rig.channels[0].has_held_bios());
    assert_eq!((rig.channels[0].outstanding(), rig.channels[0].next_event()), (2, Wake::External));
    rig.queue.unfreeze();
    assert_eq!((rig.poll(), rig.started().len()), (vec![], 0), "freezes nest");
    rig.queue.unfreeze();
    assert_eq!(rig.channels[0].next_event(), Wake::Now);
    // What is submitted after unfreezing does not overtake what is held.
    let late = rig.write(16, 8);
    assert_eq!(rig.drain(), [held[0], held[1], late].map(|id| (id, Status::Ok)));
}

#[test]
fn bio_submitted_after_unfreezing_does_not_overtake_those_held_while_others_were_inside() {
    let mut rig = Setup::new().build();
    let inside = rig.write(0, 8);
    rig.queue.freeze();
    let held = rig.write(8, 8);
    rig.queue.unfreeze();
    let late = rig.write(16, 8);
    assert_eq!(rig.drain(), [inside, held, late].map(|id| (id, Status::Ok)));
}

#[test]
fn a33_policy_changes_while_the_queue_is_frozen_and_quiescent_and_not_otherwise() {
    let mut rig = Setup::new().build();
    let refused = Err(SwitchError::NotQuiescent);
    assert_eq!(rig.queue.set_zone_write(ZoneWrite::Qd1), refused);
    rig.write(0, 8);
    rig.queue.freeze();
    assert_eq!(rig.queue.set_zone_write(ZoneWrite::Qd1), refused);
    assert_eq!(rig.queue.zone_write(), ZoneWrite::Plug);
    rig.drain();
    assert_eq!(rig.queue.set_zone_write(ZoneWrite::Qd1), Ok(()));
    rig.queue.unfreeze();
    rig.write(8, 8);
    rig.write(64, 8);
    assert_eq!(rig.writes(), [(0, 8), (8, 8)]);
    rig.drain();
}

#[test]
fn nothing_is_lost_when_the_policy_changes_under_load() {
    let mut rig = Setup::new().channels(2).build();
    let policies = [ZoneWrite::Qd1, ZoneWrite::Plug, ZoneWrite::Off, ZoneWrite::Plug];
    let (mut done, mut wp) = (Vec::new(), 0);
    for policy in policies {
        (0..2).for_each(|channel| _ = rig.write_on(channel, wp + channel as u64 * 4, 4));
        wp += 8;
        rig.queue.freeze();
        let held = rig.write_on(0, wp, 4);
        wp += 4;
        // Draining admits no bio: the held write is still held.
        done.extend(rig.drain());
        assert!(rig.queue.is_quiescent() && !done.iter().any(|&(id, _)| id == held));
        assert_eq!(rig.queue.set_zone_write(policy), Ok(()));
        rig.queue.unfreeze();
        done.extend(rig.drain());
    }
    let expected: Vec<_> = (0..rig.next_id).map(|id| (id, Status::Ok)).collect();
    assert_eq!(done, expected);
    assert_eq!(rig.known(0), (ZonePhase::Active, wp));
}

#[test]
fn plugs_learn_the_write_pointers_when_they_come_into_use() {
    let mut rig = Setup::new().policy(ZoneWrite::Off).build();
    rig.write(0, 8);
    rig.write(64, 64);
    rig.drain();
    rig.queue.freeze();
    rig.queue.set_zone_write(ZoneWrite::Plug).unwrap();
    rig.queue.unfreeze();
    assert_eq!((rig.known(0), rig.queue.live_plugs()), ((ZonePhase::Active, 8), 1));
    let write = rig.write(8, 8);
    assert_eq!(rig.drain(), [(write, Status::Ok)]);
}

#[test]
fn policy_stays_if_the_zones_cannot_be_read() {
    let rig = Setup::new().policy(ZoneWrite::Off).build();
    rig.queue.freeze();
    rig.device.refuse_reports(true);
    let refused = Err(SwitchError::Report(Status::Timeout));
    assert_eq!(rig.queue.set_zone_write(ZoneWrite::Plug), refused);
    rig.device.refuse_reports(false);
    rig.device.zones.lock().unwrap().pop();
    let short = Err(SwitchError::Report(Status::IoError));
    assert_eq!(rig.queue.set_zone_write(ZoneWrite::Plug), short);
    assert_eq!(rig.queue.zone_write(), ZoneWrite::Off);
}

#[test]
fn change_of_policy_notices_what_happened_past_the_layer() {
    let mut rig = Setup::new().build();
    rig.write(0, 8);
    rig.drain();
    rig.device.set_zone(0, |zone| move_to(zone, 0));
    rig.queue.freeze();
    rig.queue.set_zone_write(ZoneWrite::Qd1).unwrap();
    rig.queue.unfreeze();
    assert_eq!((rig.queue.live_plugs(), rig.known(0).1), (0, 0));
}
