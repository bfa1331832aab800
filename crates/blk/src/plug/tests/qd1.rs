//! One write in flight per disk (A33 to A37).
use crate::op::Op;
use crate::plug::ZoneWrite;
use crate::status::Status;
use crate::testing::{End, Rig, Setup};

fn qd1() -> Setup {
    Setup::new().policy(ZoneWrite::Qd1)
}

fn listed(rig: &Rig) -> Vec<u32> {
    let listed = rig.queue.dump_plugs(true).into_iter().filter(|plug| plug.flags.listed);
    listed.map(|plug| plug.zone.0).collect()
}

#[test]
fn a33_rotating_devices_write_one_at_a_time_unless_told_otherwise() {
    for (rotational, policy) in [(true, ZoneWrite::Qd1), (false, ZoneWrite::Plug)] {
        let rig = Setup::new()
            .limits(|limits| limits.rotational = rotational)
            .options(|options| options.zone_write = None)
            .build();
        assert_eq!(rig.queue.zone_write(), policy);
    }
}

#[test]
fn a34_one_write_is_in_flight_per_disk() {
    let mut rig = qd1().channels(2).build();
    for zone in 0..4 {
        rig.write_on(zone % 2, zone as u64 * 64, 8);
        rig.write_on(zone % 2, zone as u64 * 64 + 8, 8);
    }
    assert_eq!(rig.writes(), [(0, 8)]);
    assert_eq!(rig.drain().len(), 8);
    assert_eq!(rig.device.most_per_disk(), 1);
    assert_eq!(listed(&rig), []);
}

#[test]
fn a35_plugs_take_turns_in_the_order_they_came_and_each_is_drained_before_the_next() {
    let mut rig = qd1().options(|options| options.merge = false).build();
    rig.write(128, 8);
    rig.write(0, 8);
    rig.write(64, 8);
    rig.write(136, 8);
    rig.write(8, 8);
    rig.ok();
    // Zone 2 gets more while it has the disk, and keeps it.
    rig.write(144, 8);
    rig.drain();
    let order = [(128, 8), (136, 8), (144, 8), (0, 8), (8, 8), (64, 8)];
    assert_eq!(rig.writes(), order);
}

#[test]
fn a35_drained_plug_goes_to_the_end_of_the_line() {
    let mut rig = qd1().build();
    rig.write(0, 8);
    rig.write(64, 8);
    rig.ok();
    rig.write(8, 8);
    rig.write(128, 8);
    rig.drain();
    assert_eq!(rig.writes(), [(0, 8), (64, 8), (8, 8), (128, 8)]);
}

#[test]
fn a08_a35_plug_is_listed_once_however_often_it_gets_writes() {
    let mut rig = qd1().options(|options| options.merge = false).build();
    rig.write(0, 8);
    rig.write(64, 8);
    rig.write(8, 8);
    rig.ok();
    rig.ok();
    // Zone 1 has the disk; zone 0 is not queued until it has a waiting write again.
    rig.write(128, 8);
    rig.write(16, 8);
    rig.drain();
    assert_eq!(rig.writes(), [(0, 8), (8, 8), (64, 8), (128, 8), (16, 8)]);
}

#[test]
fn a36_conventional_writes_reads_and_native_appends_are_not_limited() {
    let mut rig = qd1().native_append().conventional(3).build();
    rig.write(0, 8);
    rig.write(64, 8);
    rig.write(200, 8);
    rig.write(192, 8);
    rig.submit(Op::Read, 64, 8);
    rig.append(2, 8);
    let started: Vec<_> = rig.started().into_iter().map(|(op, at, _)| (op, at)).collect();
    let free = [(Op::Write, 200), (Op::Write, 192), (Op::Read, 64), (Op::ZoneAppend, 128)];
    assert_eq!(started[0], (Op::Write, 0));
    assert_eq!(started[1..], free);
    rig.drain();
}

#[test]
fn a36_waiting_writes_are_merged() {
    let mut rig = qd1().build();
    rig.write(0, 8);
    (0..4).for_each(|i| _ = rig.write(64 + i * 8, 8));
    rig.drain();
    assert_eq!(rig.writes(), [(0, 8), (64, 32)]);
}

#[test]
fn a37_aborted_plug_gives_up_its_place_in_the_line() {
    let mut rig = qd1().build();
    rig.write(0, 8);
    let aborted = rig.write(64, 8);
    rig.write(128, 8);
    assert_eq!(listed(&rig), [0, 1, 2]);
    let reset = rig.reset(1);
    rig.device.end_nth(0, 1, End::Forced(Status::Ok));
    let mut ended = rig.poll();
    ended.sort_unstable_by_key(|&(id, _)| id);
    assert_eq!(ended, [(aborted, Status::IoError), (reset, Status::Ok)]);
    assert_eq!(listed(&rig), [0, 2]);
    assert_eq!(rig.queue.dump_plugs(true)[1].references, 0);
    // It is queued again after the others.
    rig.write(64, 8);
    rig.drain();
    assert_eq!(rig.writes(), [(0, 8), (128, 8), (64, 8)]);
    assert_eq!(listed(&rig), []);
}

#[test]
fn a37_plug_with_the_disk_is_unlisted_when_its_write_fails_and_the_next_has_its_turn() {
    let mut rig = qd1().build();
    rig.write(0, 8);
    rig.write(8, 8);
    rig.write(64, 8);
    assert_eq!(rig.fail().len(), 2);
    assert_eq!((listed(&rig), rig.plug(0)), (vec![1], None));
    rig.drain();
    assert_eq!(rig.writes(), [(0, 8), (64, 8)]);
}

#[test]
fn a37_every_plug_of_the_line_can_be_aborted_at_once() {
    let mut rig = qd1().build();
    let first = rig.write(0, 8);
    (1..4).for_each(|zone| _ = rig.write(zone * 64, 8));
    let all = rig.submit(Op::ZoneResetAll, 0, 0);
    rig.device.end_nth(0, 1, End::Forced(Status::Ok));
    assert_eq!(rig.poll().len(), 4);
    assert_eq!(listed(&rig), [0]);
    assert_eq!(rig.fail(), [(first, Status::IoError)]);
    assert_eq!((listed(&rig), rig.references()), (vec![], 0));
    let write = rig.write(192, 8);
    assert_eq!(rig.drain(), [(write, Status::Ok)]);
    assert_eq!(all, 4);
}

#[test]
fn a35_misplaced_write_takes_no_turn() {
    let mut rig = qd1().build();
    let misplaced = rig.write(8, 8);
    assert_eq!(rig.poll(), [(misplaced, Status::IoError)]);
    assert_eq!((listed(&rig), rig.references()), (vec![], 0));
    let write = rig.write(64, 8);
    assert_eq!(rig.drain(), [(write, Status::Ok)]);
}

#[test]
fn full_disk_leaves_no_plug_and_no_reference() {
    let mut rig = qd1().channels(2).build();
    for at in 0..8 {
        for zone in 0..4 {
            rig.write_on((at % 2) as usize, zone * 64 + at * 8, 8);
        }
    }
    assert_eq!(rig.drain().len(), 32);
    assert_eq!((rig.queue.live_plugs(), rig.references()), (0, 0));
}
