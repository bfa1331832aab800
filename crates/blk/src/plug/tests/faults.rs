//! Conditions under which faults of the zoned block layer of Linux were found, as listed in
//! docs/reliability.md, where no other test covers them.
use crate::bio::{Bio, BioFlags};
use crate::op::Op;
use crate::plug::{ZonePhase, ZoneWrite};
use crate::status::Status;
use crate::testing::{End, Rig, Setup, move_to};
use crate::units::{Sector, ZoneNo};
use crate::zone::ZoneCondition;
use std::sync::{Arc, Mutex};

/// Freezes a queue with a write in flight, which the caller fails, and another one that waits for it.
fn fail_while_frozen(rig: &mut Rig) -> [u64; 2] {
    let ids = [rig.write(0, 8), rig.write_on(1, 8, 8)];
    rig.queue.freeze();
    ids
}

#[test]
fn write_that_fails_in_a_frozen_queue_is_reported_and_the_queue_drains() {
    for policy in [ZoneWrite::Plug, ZoneWrite::Qd1] {
        let mut rig = Setup::new().policy(policy).channels(2).build();
        let [failed, waits] = fail_while_frozen(&mut rig);
        let held = rig.write(0, 8);
        assert_eq!(rig.fail(), [(failed, Status::IoError)]);
        assert_eq!((rig.poll_on(1), rig.reports()), (vec![(waits, Status::IoError)], 1));
        assert!(rig.queue.is_quiescent(), "nobody waits for the report");
        rig.queue.unfreeze();
        assert_eq!(rig.drain(), [(held, Status::Ok)]);
    }
}

#[test]
fn write_that_fails_in_a_frozen_queue_whose_device_does_not_answer_leaves_it_to_the_next_write() {
    let mut rig = Setup::new().channels(2).build();
    rig.device.refuse_reports(true);
    fail_while_frozen(&mut rig);
    rig.fail();
    rig.poll_on(1);
    assert!(rig.queue.is_quiescent() && rig.plug(0).unwrap().flags.need_wp_update);
    rig.device.refuse_reports(false);
    rig.queue.unfreeze();
    let write = rig.write(0, 8);
    assert_eq!(rig.drain(), [(write, Status::Ok)]);
}

#[test]
fn write_that_fails_with_all_tags_taken_is_reported_without_one() {
    for scheduler in ["none", "mq-deadline"] {
        let mut rig = Setup::new()
            .limits(|limits| limits.queue_depth = 2)
            .options(|options| options.scheduler = scheduler.parse().unwrap())
            .build();
        let failed = rig.write(0, 8);
        let others = [rig.write(64, 8), rig.write(128, 8), rig.write(192, 8)];
        let waits = rig.write(8, 8);
        assert_eq!(rig.device.in_flight(0), 2, "two wait for a tag");
        assert_eq!(rig.fail(), [(failed, Status::IoError), (waits, Status::IoError)]);
        assert_eq!((rig.reports(), rig.device.in_flight(0)), (1, 2), "the tag went to a write");
        assert_eq!(rig.drain(), others.map(|id| (id, Status::Ok)));
    }
}

#[test]
fn parts_of_a_write_across_zones_may_complete_in_any_order() {
    for reversed in [false, true] {
        let mut rig = Setup::new()
            .limits(|limits| limits.capacity = Sector(3 * 64 + 8))
            .zone(3, |zone| (zone.len, zone.capacity) = (Sector(8), Sector(8)))
            .zone(2, |zone| move_to(zone, 56))
            .build();
        // It fills both zones, the second of which is smaller.
        let across = rig.write(3 * 64 - 8, 16);
        assert_eq!(rig.writes(), [(184, 8), (192, 8)]);
        rig.device.end_nth(0, usize::from(reversed), End::ByZoneRules);
        assert_eq!(rig.poll(), []);
        let (first, second) = (rig.plug(2).is_some(), rig.plug(3).is_some());
        assert_eq!((first, second), (reversed, !reversed), "a full zone has no plug");
        assert_eq!(rig.end_on(0, End::ByZoneRules), [(across, Status::Ok)]);
        assert_eq!((rig.queue.live_plugs(), rig.references()), (0, 0));
    }
}

#[test]
fn writes_behind_one_with_preflush_and_fua_go_on_and_the_plug_goes() {
    let flags = BioFlags::PREFLUSH | BioFlags::FUA;
    for policy in [ZoneWrite::Plug, ZoneWrite::Qd1] {
        let mut rig = Setup::new().policy(policy).channels(2).build();
        let ids = [rig.write_with(flags, 0, 8), rig.write_on(1, 8, 8)];
        let last = rig.write_with(flags, 16, 48);
        let behind = [ids[0], ids[1], last].map(|id| (id, Status::Ok));
        assert_eq!(rig.drain(), behind);
        assert_eq!(rig.writes(), [(0, 8), (8, 8), (16, 48)]);
        assert_eq!((rig.queue.live_plugs(), rig.references()), (0, 0));
    }
}

#[test]
fn zeroes_across_zones_are_cut_at_the_border() {
    let mut rig = Setup::new().zone(0, |zone| move_to(zone, 56)).build();
    let zeroes = rig.submit(Op::WriteZeroes, 56, 72 + 8);
    assert_eq!(rig.drain(), [(zeroes, Status::Ok)]);
    let sent = rig.started();
    assert_eq!(sent, [56, 64, 128].map(|at| (Op::WriteZeroes, at, if at == 64 { 64 } else { 8 })));
    assert_eq!(rig.known(2), (ZonePhase::Active, 8));
}

/// A disk that emulates blocks of 512 bytes: zone 3 is conventional, the others are written in 4 KiB.
fn emulated_blocks() -> Setup {
    Setup::new().conventional(3).limits(|limits| limits.write_granularity = 4096)
}

#[test]
fn writes_below_the_granularity_of_sequential_zones_fail_without_reaching_the_device() {
    for policy in [ZoneWrite::Plug, ZoneWrite::Qd1, ZoneWrite::Off] {
        let mut rig = emulated_blocks().policy(policy).build();
        let fine = [(0, 1), (0, 12), (4, 8), (60, 8)].map(|(at, len)| rig.write(at, len));
        let batch = rig.write_batch(&[(0, 4), (4, 4)]);
        let append = rig.append(0, 4);
        let zeroes = rig.submit(Op::WriteZeroes, 0, 4);
        let all = fine.into_iter().chain(batch).chain([append, zeroes]);
        let refused: Vec<_> = all.map(|id| (id, Status::Invalid)).collect();
        assert_eq!((rig.poll(), rig.started()), (refused, vec![]));
        // A part of a block in the conventional zone, after a whole one in a sequential zone.
        let good = [rig.write(0, 8), rig.write(193, 3), rig.submit(Op::Read, 1, 1)];
        assert_eq!(rig.drain(), good.map(|id| (id, Status::Ok)));
    }
}

#[test]
fn splits_end_where_writes_to_sequential_zones_may() {
    let mut rig = emulated_blocks()
        .limits(|limits| (limits.max_sectors, limits.max_write_zeroes_sectors) = (45, 12))
        .build();
    assert_eq!(rig.queue.limits().max_sectors, 40);
    // Split at zones and at the longest command, which is a multiple of the granularity.
    let long = [rig.write(0, 120), rig.submit(Op::WriteZeroes, 120, 16)];
    assert_eq!(rig.drain(), long.map(|id| (id, Status::Ok)));
    let sent: Vec<_> = rig.started().into_iter().map(|(_, at, len)| (at, len)).collect();
    let of_zone = |zone: u64| sent.iter().filter(move |(at, _)| at / 64 == zone).copied();
    assert!(of_zone(0).eq([(0, 40), (40, 24)]), "{sent:?}");
    assert!(of_zone(1).eq([(64, 40), (104, 16), (120, 8)]), "{sent:?}");
    assert!(of_zone(2).eq([(128, 8)]), "{sent:?}");
    assert_eq!((rig.known(0).0, rig.known(1).0), (ZonePhase::Full, ZonePhase::Full));
    assert_eq!(rig.known(2), (ZonePhase::Active, 8));
}

#[test]
fn first_part_of_a_write_that_is_split_three_times_aborts_those_behind_it() {
    let mut rig = emulated_blocks().limits(|limits| limits.max_sectors = 45).build();
    let write = rig.write(0, 120);
    assert_eq!(rig.writes(), [(0, 40), (64, 40)]);
    rig.fail();
    assert_eq!(rig.drain(), [(write, Status::IoError)]);
    assert_eq!(rig.writes(), [(104, 16)], "of the other zone only");
    let again = rig.write(0, 8);
    assert_eq!(rig.drain(), [(again, Status::Ok)]);
}

#[test]
fn granularity_is_an_attribute_and_a_limit_of_what_can_be_changed() {
    let rig = emulated_blocks().build();
    let attributes = rig.queue.attributes();
    assert!(attributes.contains(&("zone_write_granularity", "4096".to_owned())), "{attributes:?}");
    rig.queue.freeze();
    assert!(rig.queue.set_max_sectors(12).is_err() && rig.queue.set_max_sectors(4).is_err());
    assert_eq!(rig.queue.set_max_sectors(16), Ok(()));
}

#[test]
fn zones_that_are_not_whole_units_of_the_granularity_are_refused() {
    let attach = |setup: Setup| {
        let attached = crate::Queue::attach(setup.device(), setup.queue_options());
        attached.err().map_or_else(String::new, |error| error.to_string())
    };
    assert_eq!(attach(emulated_blocks()), "");
    let granularity = |bytes| Setup::new().limits(move |limits| limits.write_granularity = bytes);
    assert!(attach(granularity(256)).contains("a power of two, and not less than the LBA size"));
    assert!(attach(granularity(3 * 512)).contains("a power of two"));
    assert!(attach(granularity(128 * 512)).contains("must hold whole units"));
    let short = emulated_blocks().zone(1, |zone| zone.capacity = Sector(60));
    assert!(attach(short).starts_with("zone 1: size and capacity of a sequential zone"));
    let between = emulated_blocks().zone(1, |zone| move_to(zone, 4));
    assert!(attach(between).starts_with("zone 1: the write pointer must lie in the zone"));
}

#[test]
fn bio_of_an_emulated_append_is_a_plain_write_when_it_is_submitted_again() {
    let mut rig = Setup::new().build();
    let bio = |at, id| Bio { buf: None, ..Bio::new(Op::Write, Sector(at), 8, id) };
    rig.append(0, 8);
    rig.channels[0].submit(rig.now, bio(8, 1));
    rig.device.end(0, Status::Ok);
    let appended = rig.completions_on(0).pop().unwrap();
    assert_eq!(appended.sector, Sector(0));
    // The layer uses the request of the append again for the first of them, which waits.
    for (at, id) in [(16, 2), (24, 3)] {
        rig.channels[0].submit(rig.now, bio(at, id));
    }
    rig.device.end(0, Status::Ok);
    let first = rig.completions_on(0);
    assert_eq!((first.len(), first[0].sector, first[0].user_data), (1, Sector(8), 1));
    rig.device.end(0, Status::Ok);
    assert_eq!(rig.completions_on(0).len(), 2);
    assert_eq!(rig.writes(), [(0, 8), (8, 8), (16, 16)], "merged, as no append is");
}

#[test]
fn without_plugs_nothing_is_dumped_and_all_zones_can_be_reset() {
    for policy in [ZoneWrite::Off, ZoneWrite::Lock] {
        let locks = |options: &mut crate::QueueOptions| {
            options.scheduler = "mq-deadline".parse().unwrap();
        };
        let mut rig = Setup::new().options(locks).build();
        rig.write(0, 8);
        rig.drain();
        assert_eq!(rig.queue.dump_plugs(true).len(), 1);
        rig.queue.freeze();
        rig.queue.set_zone_write(policy).unwrap();
        rig.queue.unfreeze();
        rig.write(64, 64);
        rig.drain();
        assert!(rig.queue.dump_plugs(true).is_empty());
        let reset = rig.submit(Op::ZoneResetAll, 0, 0);
        assert_eq!(rig.drain(), [(reset, Status::Ok)]);
        let again = [rig.write(0, 8), rig.write(64, 8)];
        assert_eq!(rig.drain(), again.map(|id| (id, Status::Ok)));
        rig.queue.freeze();
        rig.queue.set_zone_write(ZoneWrite::Plug).unwrap();
        assert_eq!((rig.known(1), rig.queue.live_plugs()), ((ZonePhase::Active, 8), 2));
        rig.queue.unfreeze();
    }
}

#[test]
fn management_of_read_only_and_offline_zones_is_sent_and_the_device_judges() {
    for (cond, refusal) in
        [(ZoneCondition::ReadOnly, Status::IoError), (ZoneCondition::Offline, Status::Offline)]
    {
        let mut rig = Setup::new().zone(0, move |zone| zone.cond = cond).build();
        let ids = [rig.reset(0), rig.finish(0)];
        assert_eq!(rig.started(), [(Op::ZoneReset, 0, 0), (Op::ZoneFinish, 0, 0)]);
        assert_eq!(rig.drain(), ids.map(|id| (id, refusal)));
        // The zone has recovered without the layer knowing: the reset is sent.
        rig.device.set_zone(0, |zone| move_to(zone, 8));
        let reset = rig.reset(0);
        let write = {
            assert_eq!(rig.drain(), [(reset, Status::Ok)]);
            rig.write(0, 8)
        };
        assert_eq!(rig.drain(), [(write, Status::Ok)]);
    }
}

#[test]
fn reset_of_all_leaves_zones_that_are_read_only_or_offline_as_they_are() {
    let mut rig = Setup::new()
        .zone(0, |zone| zone.cond = ZoneCondition::ReadOnly)
        .zone(1, |zone| zone.cond = ZoneCondition::Offline)
        .zone(2, |zone| move_to(zone, 8))
        .build();
    rig.submit(Op::ZoneResetAll, 0, 0);
    rig.drain();
    let phases: Vec<ZonePhase> = (0..3).map(|zone| rig.known(zone).0).collect();
    assert_eq!(phases, [ZonePhase::ReadOnly, ZonePhase::Offline, ZonePhase::Empty]);
    let writes = [(rig.write(0, 8), Status::IoError), (rig.write(64, 8), Status::Offline)];
    assert_eq!(rig.poll(), writes);
    assert_eq!((rig.queue.live_plugs(), rig.references()), (0, 0));
}

#[test]
fn observer_of_a_failure_may_look_at_all_plugs_and_ask_for_zones() {
    let mut rig = Setup::new().build();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (queue, notes) = (Arc::downgrade(&rig.queue), Arc::clone(&seen));
    rig.queue.on_failure(move |_| {
        let queue = queue.upgrade().expect("it fails");
        let mut zones = Vec::new();
        queue.report_zones(ZoneNo(0), 4, &mut zones).expect("a report");
        notes.lock().unwrap().push((queue.dump_plugs(true).len(), zones.len()));
    });
    rig.write(0, 8);
    rig.write(8, 8);
    rig.fail();
    assert_eq!(*seen.lock().unwrap(), [(1, 4)]);
}
