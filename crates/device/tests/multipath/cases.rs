//! Rules, one by one.
use crate::path::{Habits, TestPath};
use crate::world::{CONFIG, World, ZONE, bio, null_device};
use std::sync::Arc;
use zonal_blk::{Bio, Device, Limits, Nanos, Op, Sector, Status, ZoneWrite};
use zonal_device::multipath::{
    IoPolicy, MultipathConfig, MultipathDevice, MultipathError, Path, PathState,
};

/// Commands take 1 us to the device and 1 us back.
const ARRIVED: Nanos = Nanos(1500);

fn world(policy: IoPolicy) -> World {
    World::new(MultipathConfig { policy, ..CONFIG }, Habits::default(), ZoneWrite::Plug)
}

fn arrived(world: &World) -> [u64; 2] {
    [0, 1].map(|path| world.paths[path].arrived())
}

fn read(sector: u64) -> Bio {
    Bio::read(Sector(sector), 8, 0)
}

#[test]
fn policies_choose_as_their_names_say() {
    let mut numa = world(IoPolicy::Numa);
    (0..6).for_each(|_| numa.submit(0, read(0)));
    numa.finish();
    assert_eq!(arrived(&numa), [6, 0], "the first");
    numa.paths[0].cut();
    numa.submit(0, read(0));
    numa.finish();
    assert_eq!(arrived(&numa), [6, 1], "the first that is live");
    numa.paths[0].mend();
    numa.submit(0, read(0));
    numa.finish();
    assert_eq!(arrived(&numa), [7, 1], "back to the first");

    let mut turns = world(IoPolicy::RoundRobin);
    (0..6).for_each(|_| turns.submit(0, read(0)));
    turns.finish();
    assert_eq!(arrived(&turns), [3, 3]);

    // The second path is slow, so that more are in flight there.
    let medium = null_device(2);
    let slow = Habits { latency: Nanos(10_000), ..Habits::default() };
    let paths =
        vec![TestPath::new("a", &medium, Habits::default()), TestPath::new("b", &medium, slow)];
    let config = MultipathConfig { policy: IoPolicy::QueueDepth, ..CONFIG };
    let mut depth = World::of(medium, paths, config, ZoneWrite::Plug);
    for round in 0..10 {
        (0..2).for_each(|channel| depth.submit(channel, read(0)));
        depth.run_until(Nanos(2000 * (round + 1)));
    }
    depth.finish();
    let [fast, slow] = arrived(&depth);
    assert_eq!((fast + slow, slow), (20, 1), "it had one in flight all the time");
}

#[test]
fn policies_choose_among_the_paths_in_the_best_state() {
    let config = |policy| MultipathConfig { policy, ..CONFIG };
    for policy in [IoPolicy::Numa, IoPolicy::RoundRobin, IoPolicy::QueueDepth] {
        let medium = null_device(2);
        let path = |name| TestPath::new(name, &medium, Habits::default());
        let paths = vec![path("a"), path("b"), path("c")];
        let mut world = World::of(Arc::clone(&medium), paths, config(policy), ZoneWrite::Plug);
        let mut arrived = |states: [PathState; 3]| {
            let before: Vec<u64> = world.paths.iter().map(|path| path.arrived()).collect();
            world.paths.iter().zip(states).for_each(|(path, state)| path.access(state));
            (0..6).for_each(|_| world.submit(0, read(0)));
            assert_eq!(world.statuses(), [Status::Ok; 6]);
            let paths = world.paths.iter().zip(before);
            paths.map(|(path, before)| path.arrived() - before).collect::<Vec<u64>>()
        };
        let (live, far, none) = (PathState::Live, PathState::NonOptimized, PathState::Inaccessible);
        assert_eq!(arrived([far, live, far]), [0, 6, 0], "{policy}");
        assert_eq!(arrived([none, far, live]), [0, 0, 6], "{policy}");
        let alternates = if policy == IoPolicy::Numa { [6, 0, 0] } else { [3, 0, 3] };
        assert_eq!(arrived([live, far, live]), alternates, "{policy}");
        let alternates = if policy == IoPolicy::Numa { [0, 6, 0] } else { [0, 3, 3] };
        assert_eq!(arrived([none, far, far]), alternates, "{policy}");
    }
}

#[test]
fn commands_refused_where_the_device_became_inaccessible_go_over_another_path() {
    let mut world = world(IoPolicy::Numa);
    (0..4).for_each(|_| world.submit(0, read(0)));
    world.write(0, ZONE, 1, 1);
    world.submit(0, bio(Op::ZoneAppend, 2 * ZONE, 1, 2));
    world.paths[0].access(PathState::Inaccessible);
    world.paths[1].access(PathState::NonOptimized);
    assert_eq!(world.statuses(), [Status::Ok; 6]);
    assert_eq!(arrived(&world), [0, 6]);
    assert_eq!((world.count("path_errors"), world.count("resent")), (6, 6));
    assert_eq!(
        (world.blocks(1)[..2].to_vec(), world.blocks(2)[..2].to_vec()),
        (vec![1, 0], vec![2, 0])
    );
}

#[test]
fn while_the_device_is_inaccessible_everywhere_commands_wait_for_the_timeout() {
    let config = MultipathConfig { hold_timeout: Some(Nanos(1_000_000_000)), ..CONFIG };
    for returns in [true, false] {
        let mut world = World::new(config, Habits::default(), ZoneWrite::Off);
        world.paths.iter().for_each(|path| path.access(PathState::Inaccessible));
        (0..4).for_each(|block| world.write(0, ZONE + 8 * block, 1, block + 1));
        world.run_until(Nanos(999_000_000));
        assert_eq!((world.outstanding(), arrived(&world)), (4, [0, 0]));
        if returns {
            world.paths[1].access(PathState::NonOptimized);
            assert_eq!(world.statuses(), [Status::Ok; 4]);
            assert_eq!(world.blocks(1)[..5], [1, 2, 3, 4, 0]);
        } else {
            world.run_until(Nanos(1_010_000_000));
            assert_eq!(world.statuses(), [Status::Transport; 4]);
        }
    }
}

#[test]
fn writes_of_a_zone_in_flight_together_keep_to_one_path() {
    let config = MultipathConfig { policy: IoPolicy::RoundRobin, ..CONFIG };
    let mut world = World::new(config, Habits::default(), ZoneWrite::Off);
    (0..6).for_each(|block| world.write(0, ZONE + 8 * block, 1, block));
    assert_eq!(world.statuses(), [Status::Ok; 6]);
    assert_eq!(arrived(&world), [6, 0]);
    world.write(0, ZONE + 48, 1, 0);
    world.finish();
    assert_eq!(arrived(&world), [6, 1], "none was in flight, so it was the other's turn");
}

#[test]
fn write_whose_answer_was_lost_is_found_done() {
    let mut world = world(IoPolicy::Numa);
    world.write(0, ZONE, 2, 7);
    world.run_until(ARRIVED);
    world.paths[0].cut();
    assert_eq!(world.statuses(), [Status::Ok]);
    assert_eq!(arrived(&world), [1, 0], "once");
    assert_eq!((world.count("found_done"), world.count("resent")), (1, 0));
    assert_eq!(world.blocks(1)[..3], [7, 7, 0]);
}

#[test]
fn write_that_did_not_arrive_goes_over_the_other_path() {
    let mut world = world(IoPolicy::Numa);
    world.write(0, ZONE, 2, 7);
    world.paths[0].cut();
    assert_eq!(world.statuses(), [Status::Ok]);
    assert_eq!(arrived(&world), [0, 1]);
    assert_eq!((world.count("found_done"), world.count("resent")), (0, 1));
    assert_eq!(world.blocks(1)[..3], [7, 7, 0]);
}

#[test]
fn writes_that_were_lost_together_go_again_one_by_one_and_in_order() {
    let config = MultipathConfig { policy: IoPolicy::Numa, ..CONFIG };
    let mut world = World::new(config, Habits::default(), ZoneWrite::Off);
    // Two hardware queues, so that neither sees what the other lost.
    for block in 0..6 {
        world.write((block % 2) as usize, ZONE + 8 * block, 1, block + 1);
    }
    world.paths[0].cut();
    // This one comes while the zone recovers.
    world.write(0, ZONE + 48, 1, 7);
    assert_eq!(world.statuses(), [Status::Ok; 7]);
    assert_eq!((world.paths[1].arrived(), world.paths[1].refused()), (7, 0));
    assert_eq!(world.blocks(1)[..8], [1, 2, 3, 4, 5, 6, 7, 0]);
}

#[test]
fn write_that_was_done_in_part_is_an_error() {
    let mut world = world(IoPolicy::Numa);
    world.write(0, ZONE, 4, 7);
    world.paths[0].cut();
    // Half of it, past the paths.
    let mut aside = World::of(
        Arc::clone(&world.medium),
        vec![TestPath::new("aside", &world.medium, Habits::default())],
        CONFIG,
        ZoneWrite::Plug,
    );
    aside.write(0, ZONE, 2, 7);
    aside.finish();
    assert_eq!(world.statuses(), [Status::IoError]);
    assert_eq!(world.paths[1].arrived(), 0);
}

#[test]
fn write_behind_the_pointer_is_refused_by_the_device_also_after_a_failure() {
    let config = MultipathConfig { policy: IoPolicy::Numa, ..CONFIG };
    let mut world = World::new(config, Habits::default(), ZoneWrite::Off);
    world.write(0, ZONE, 2, 1);
    world.finish();
    world.write(0, ZONE, 1, 2);
    world.paths[0].cut();
    assert_eq!(world.statuses(), [Status::IoError], "not taken for one that was done");
    assert_eq!(world.blocks(1)[..2], [1, 1]);
}

#[test]
fn append_is_sent_again_only_if_it_was_not_done() {
    for (when, expected) in [(Nanos(0), Status::Ok), (ARRIVED, Status::Transport)] {
        let mut world = world(IoPolicy::Numa);
        world.write(0, ZONE, 1, 1);
        world.finish();
        world.submit(0, bio(Op::ZoneAppend, ZONE, 1, 2));
        world.run_until(world.now + when);
        world.paths[0].cut();
        let done = world.finish();
        assert_eq!(done[0].status, expected);
        assert_eq!(world.blocks(1)[..4], [1, 2, 0, 0], "once");
        if expected == Status::Ok {
            assert_eq!(done[0].sector, Sector(ZONE + 8));
        }
    }
}

#[test]
fn appends_lost_together_are_not_sent_again_if_one_was_done() {
    let mut world = world(IoPolicy::Numa);
    (1..=3).for_each(|id| world.submit(0, bio(Op::ZoneAppend, ZONE, 1, id)));
    world.run_until(ARRIVED);
    // These have not arrived.
    (4..=5).for_each(|id| world.submit(0, bio(Op::ZoneAppend, ZONE, 1, id)));
    world.paths[0].cut();
    assert_eq!(world.statuses(), [Status::Transport; 5]);
    let mut blocks = world.blocks(1)[..4].to_vec();
    blocks.sort_unstable();
    assert_eq!(blocks, [0, 1, 2, 3]);
    // Once all is known again, it is proved again.
    world.submit(0, Bio::new(Op::ZoneReset, Sector(ZONE), 0, 0));
    world.finish();
    world.paths[0].mend();
    world.submit(0, bio(Op::ZoneAppend, ZONE, 1, 6));
    world.paths[0].cut();
    assert_eq!(world.statuses(), [Status::Ok]);
}

#[test]
fn reads_and_zone_management_are_sent_again() {
    let mut world = world(IoPolicy::Numa);
    for op in [Op::ZoneOpen, Op::ZoneClose, Op::ZoneFinish, Op::ZoneReset, Op::ZoneResetAll] {
        for when in [Nanos(0), ARRIVED] {
            world.write(0, 2 * ZONE, 1, 1);
            world.finish();
            world.submit(0, Bio::new(op, Sector(2 * ZONE), 0, 0));
            world.submit(0, read(0));
            world.run_until(world.now + when);
            world.paths[0].cut();
            assert_eq!(world.statuses(), [Status::Ok; 2], "{op:?}");
            world.paths[0].mend();
            world.submit(0, Bio::new(Op::ZoneReset, Sector(2 * ZONE), 0, 0));
            world.finish();
        }
    }
}

#[test]
fn without_a_path_commands_wait_and_go_in_order_when_one_is_back() {
    let config = MultipathConfig { hold_timeout: Some(Nanos(1_000_000_000)), ..CONFIG };
    let mut world = World::new(config, Habits::default(), ZoneWrite::Off);
    world.paths.iter().for_each(|path| path.cut());
    (0..4).for_each(|block| world.write(0, ZONE + 8 * block, 1, block + 1));
    world.submit(0, read(0));
    world.run_until(Nanos(999_000_000));
    assert_eq!(world.outstanding(), 5);
    world.paths[1].mend();
    assert_eq!(world.statuses(), [Status::Ok; 5]);
    assert_eq!(world.blocks(1)[..5], [1, 2, 3, 4, 0]);
}

#[test]
fn without_a_path_for_too_long_commands_fail() {
    let config = MultipathConfig { hold_timeout: Some(Nanos(1_000_000_000)), ..CONFIG };
    let mut world = World::new(config, Habits::default(), ZoneWrite::Plug);
    world.write(0, ZONE, 1, 1);
    world.run_until(ARRIVED);
    world.paths.iter().for_each(|path| path.cut());
    world.submit(1, read(0));
    world.run_until(Nanos(999_000_000));
    assert_eq!(world.outstanding(), 2);
    world.run_until(Nanos(1_010_000_000));
    assert_eq!(world.statuses(), [Status::Transport; 2]);
    assert_eq!(world.count("no_path"), 2);
    // The plug finds out from the device where the zone is, and goes on.
    world.paths[0].mend();
    world.write(0, ZONE + 8, 1, 2);
    assert_eq!(world.statuses(), [Status::Ok]);
    assert_eq!(world.blocks(1)[..3], [1, 2, 0]);
}

#[test]
fn with_all_paths_gone_commands_fail_at_once() {
    let mut world = world(IoPolicy::RoundRobin);
    world.write(0, ZONE, 1, 1);
    world.paths.iter().for_each(|path| path.give_up());
    world.submit(0, read(0));
    world.run_until(Nanos(1_000_000));
    assert_eq!(world.outstanding(), 0);
    assert!(world.statuses().iter().all(|&status| status == Status::Transport));
}

#[test]
fn what_may_still_be_done_late_is_waited_for() {
    let quiesce = Nanos(5_000_000);
    for op in [Op::ZoneAppend, Op::ZoneReset, Op::Write, Op::Read] {
        let config = MultipathConfig { quiesce, policy: IoPolicy::Numa, ..CONFIG };
        let mut world = World::new(config, Habits::default(), ZoneWrite::Plug);
        world.submit(0, bio(op, ZONE, 1, 1));
        world.paths[0].cut();
        world.run_until(Nanos(4_000_000));
        let waits = matches!(op, Op::ZoneAppend | Op::ZoneReset);
        assert_eq!(world.outstanding(), usize::from(waits), "{op:?}");
        assert_eq!(world.statuses(), [Status::Ok]);
        if op == Op::Write {
            // A reset must not come between the write and what is left of it.
            world.submit(0, Bio::new(Op::ZoneReset, Sector(ZONE), 0, 0));
            world.run_until(Nanos(4_900_000));
            assert_eq!(world.outstanding(), 1);
            assert_eq!(world.statuses(), [Status::Ok]);
        }
    }
}

#[test]
fn limits_are_the_strictest_and_geometry_agrees() {
    let medium = null_device(4);
    let limits = medium.limits().clone();
    let weaker = Limits { max_sectors: 16, queue_depth: 4, max_open_zones: 3, ..limits.clone() };
    let path = |name, limits: &Limits| -> Arc<dyn Path> {
        TestPath::with_limits(name, &medium, Habits::default(), limits.clone())
    };
    let device = MultipathDevice::new(vec![path("a", &limits), path("b", &weaker)], CONFIG);
    let device = device.unwrap();
    let both = device.limits();
    assert_eq!((both.max_sectors, both.queue_depth, both.max_open_zones), (16, 4, 3));
    let other = Limits { zone_size: Sector(64), ..limits.clone() };
    let error = MultipathDevice::new(vec![path("a", &limits), path("b", &other)], CONFIG).err();
    let error = error.unwrap().to_string();
    assert_eq!(error, "path b: zone_size in sectors: found 64, expected 128");
    let none = MultipathDevice::new(Vec::new(), CONFIG).err();
    assert_eq!(none, Some(MultipathError::Count(0)));
}
