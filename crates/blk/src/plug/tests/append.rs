//! Zone append, emulated and native (A22 to A25).
use crate::bio::Bio;
use crate::op::Op;
use crate::plug::ZonePhase;
use crate::split::append_max;
use crate::status::Status;
use crate::testing::{End, Setup};
use crate::units::Sector;
use crate::zone::ZoneCondition;

#[test]
fn a22_emulated_append_is_a_write_at_the_write_pointer_and_says_where_it_landed() {
    let mut rig = Setup::new().build();
    rig.write(64, 8);
    rig.append(1, 8);
    rig.append(1, 16);
    rig.device.end(0, Status::Ok);
    rig.poll();
    rig.device.end(0, Status::Ok);
    let first = rig.completions_on(0);
    rig.device.end(0, Status::Ok);
    let second = rig.completions_on(0);
    assert_eq!((first[0].sector, second[0].sector), (Sector(72), Sector(80)));
    assert_eq!(rig.started(), [(Op::Write, 64, 8), (Op::Write, 72, 8), (Op::Write, 80, 16)]);
}

#[test]
fn a22_emulated_appends_are_not_merged() {
    let mut rig = Setup::new().build();
    (0..4).for_each(|_| _ = rig.append(0, 8));
    rig.drain();
    assert_eq!(rig.writes(), [(0, 8), (8, 8), (16, 8), (24, 8)]);
    assert_eq!(rig.plug(0).unwrap().counters.appends, 4);
}

#[test]
fn a22_emulated_append_that_does_not_fit_fails_and_the_zone_stays_as_it_is() {
    let mut rig = Setup::new().build();
    rig.write(0, 60);
    let append = rig.append(0, 8);
    assert_eq!(rig.poll(), [(append, Status::IoError)]);
    let fits = rig.append(0, 4);
    assert_eq!(rig.drain(), [(0, Status::Ok), (fits, Status::Ok)]);
}

#[test]
fn a23_appends_are_emulated_if_the_device_has_none_or_if_asked_to() {
    for setup in [
        Setup::new(),
        Setup::new().native_append().options(|options| options.emulate_append = true),
    ] {
        let mut rig = setup.build();
        rig.append(0, 8);
        assert_eq!(rig.started(), [(Op::Write, 0, 8)]);
        rig.drain();
        // At most the longest command, and at most a zone.
        assert_eq!(append_max(rig.queue.limits()), 64);
    }
    let longest = |max_sectors| {
        let rig = Setup::new().limits(|limits| limits.max_sectors = max_sectors).build();
        append_max(rig.queue.limits())
    };
    assert_eq!((longest(32), longest(128)), (32, 64));
}

#[test]
fn a24_native_appends_pass_by_the_plug_many_at_a_time() {
    let mut rig = Setup::new().native_append().build();
    (0..3).for_each(|_| _ = rig.append(0, 8));
    assert_eq!(rig.started(), [(Op::ZoneAppend, 0, 8); 3]);
    rig.device.end_nth(0, 2, End::ByZoneRules);
    rig.device.end_nth(0, 0, End::ByZoneRules);
    let landed = rig.completions_on(0);
    let landed: Vec<_> = landed.iter().map(|c| (c.user_data, c.sector.0)).collect();
    assert_eq!(landed, [(2, 0), (0, 8)]);
    rig.drain();
    assert_eq!((rig.queue.live_plugs(), rig.references()), (0, 0));
    assert_eq!(rig.known(0), (ZonePhase::Active, 24), "the device was asked");
}

#[test]
fn a24_mixing_aborts_the_waiting_writes_and_fails_those_that_come_while_appends_are_out() {
    let mut rig = Setup::new().native_append().build();
    let first = rig.write(0, 8);
    let waits = rig.write(8, 8);
    let append = rig.append(0, 8);
    assert_eq!(rig.poll(), [(waits, Status::IoError)]);
    let mixed = rig.write(16, 8);
    assert_eq!(rig.poll(), [(mixed, Status::IoError)]);
    assert_eq!(rig.drain(), [(first, Status::Ok), (append, Status::Ok)]);
    // Nothing is in flight any more: the write pointer is read from the device.
    let write = rig.write(16, 8);
    assert_eq!(rig.drain(), [(write, Status::Ok)]);
    assert_eq!(rig.reports(), 1);
    assert_eq!(rig.known(0), (ZonePhase::Active, 24));
}

#[test]
fn a24_failed_write_beside_an_append_does_not_fix_a_pointer_that_the_append_still_moves() {
    let mut rig = Setup::new().native_append().build();
    rig.write(0, 8);
    rig.append(0, 8);
    rig.fail();
    rig.device.end_nth(0, 0, End::ByZoneRules);
    rig.poll();
    let write = rig.write(8, 8);
    assert_eq!(rig.drain(), [(write, Status::Ok)]);
}

#[test]
fn a24_reset_beside_an_append_does_not_fix_a_pointer_that_the_append_still_moves() {
    let mut rig = Setup::new().native_append().build();
    rig.reset(0);
    rig.append(0, 8);
    rig.ok();
    let early = rig.write(0, 8);
    assert_eq!(rig.poll(), [(early, Status::IoError)]);
    rig.drain();
    let write = rig.write(8, 8);
    assert_eq!(rig.drain(), [(write, Status::Ok)]);
}

#[test]
fn a25_append_begins_at_a_zones_start_fits_the_limit_and_is_never_split() {
    for setup in [Setup::new(), Setup::new().native_append()] {
        let mut rig = setup.limits(|limits| limits.max_sectors = 128).build();
        let longest = append_max(rig.queue.limits());
        for (at, len) in [(8, 8), (64, longest + 1)] {
            let append = rig.submit_bio(0, Bio::new(Op::ZoneAppend, Sector(at), len, 0));
            assert_eq!(rig.poll(), [(append, Status::IoError)]);
        }
        let append = rig.append(1, longest);
        assert_eq!(rig.drain(), [(append, Status::Ok)]);
        assert_eq!(rig.started().len(), 1);
    }
}

#[test]
fn append_to_an_unwritable_zone_fails_with_its_status() {
    let mut rig = Setup::new()
        .zone(0, |zone| zone.cond = ZoneCondition::Offline)
        .zone(1, |zone| zone.cond = ZoneCondition::ReadOnly)
        .build();
    let (offline, read_only) = (rig.append(0, 8), rig.append(1, 8));
    assert_eq!(rig.poll(), [(offline, Status::Offline), (read_only, Status::IoError)]);
    assert_eq!(rig.started(), []);
}
