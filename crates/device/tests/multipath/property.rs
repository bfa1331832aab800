//! Random I/O over paths that fail at random, compared with a device without failures.
//!
//! Regular writes must all succeed, execute once, and be where they belong. Appends that succeed must
//! be where they report, and those that fail must not be there twice. If no lost command executes
//! late, the device must not have failed a single command.
use crate::path::Habits;
use crate::world::{CONFIG, World, ZONE, bio};
use proptest::prelude::*;
use std::collections::BTreeMap;
use zonal_blk::{Bio, Nanos, Op, Sector, Status, ZoneWrite};
use zonal_device::multipath::{IoPolicy, MultipathConfig, Path, PathState};

/// Zones 1 and 2 have regular writes, 3 and 4 appends.
const APPENDS: [u32; 2] = [3, 4];
const BLOCKS: u64 = ZONE / 8;

#[derive(Clone, Debug)]
enum Act {
    /// Writes or appends this many blocks to a zone.
    Put {
        channel: usize,
        zone: u32,
        blocks: u32,
    },
    Read {
        channel: usize,
        zone: u32,
    },
    /// Resets a zone with nothing in flight to it.
    Reset {
        zone: u32,
    },
    Cut(usize),
    Mend(usize),
    /// Changes the access of a path that is connected.
    Access(usize, PathState),
}

fn acts() -> impl Strategy<Value = Vec<(u64, Act)>> {
    let put = (0_usize..2, 1_u32..5, 1_u32..4);
    let access = prop_oneof![
        Just(PathState::Live),
        Just(PathState::NonOptimized),
        Just(PathState::Inaccessible)
    ];
    let act = prop_oneof![
        12 => put.prop_map(|(channel, zone, blocks)| Act::Put { channel, zone, blocks }),
        2 => (0_usize..2, 1_u32..5).prop_map(|(channel, zone)| Act::Read { channel, zone }),
        1 => (1_u32..5).prop_map(|zone| Act::Reset { zone }),
        3 => (0_usize..2).prop_map(Act::Cut),
        3 => (0_usize..2).prop_map(Act::Mend),
        3 => (0_usize..2, access).prop_map(|(path, state)| Act::Access(path, state)),
    ];
    prop::collection::vec((prop_oneof![Just(0_u64), 0_u64..6000], act), 1..80)
}

fn policy() -> impl Strategy<Value = IoPolicy> {
    prop_oneof![Just(IoPolicy::Numa), Just(IoPolicy::RoundRobin), Just(IoPolicy::QueueDepth)]
}

/// The content that the zones should have.
#[derive(Default)]
struct Model {
    /// Blocks of the regular writes of each zone, by number of the write.
    written: BTreeMap<u32, Vec<u64>>,
    /// Appends since the zone was empty: number and blocks.
    appended: BTreeMap<u32, Vec<(u64, u32)>>,
    /// Where appends that succeeded landed.
    landed: BTreeMap<u64, Sector>,
    /// Zones that are being emptied, by number of the reset.
    resets: BTreeMap<u64, u32>,
    next: u64,
}

impl Model {
    fn collect(&mut self, world: &mut World) {
        for done in std::mem::take(&mut world.done) {
            let is_append = self.appended.values().flatten().any(|&(id, _)| id == done.user_data);
            self.resets.remove(&done.user_data);
            if !is_append {
                assert_eq!(done.status, Status::Ok, "{}", done.user_data);
            } else if done.status == Status::Ok {
                self.landed.insert(done.user_data, done.sector);
            } else {
                assert_eq!(done.status, Status::Transport);
            }
        }
    }

    fn put(&mut self, world: &mut World, channel: usize, zone: u32, blocks: u32) {
        let start = u64::from(zone) * ZONE;
        if self.resets.values().any(|&reset| reset == zone) {
            return;
        }
        self.next += 1;
        let id = self.next;
        if APPENDS.contains(&zone) {
            let appends = self.appended.entry(zone).or_default();
            let used: u32 = appends.iter().map(|&(_, blocks)| blocks).sum();
            if u64::from(used + blocks) <= BLOCKS {
                appends.push((id, blocks));
                world.submit(channel, bio(Op::ZoneAppend, start, blocks, id));
            }
            return;
        }
        let written = self.written.entry(zone).or_default();
        if written.len() as u64 + u64::from(blocks) <= BLOCKS {
            world.write(channel, start + written.len() as u64 * 8, blocks, id);
            written.extend(std::iter::repeat_n(id, blocks as usize));
        }
    }

    fn reset(&mut self, world: &mut World, zone: u32) {
        world.paths.iter().for_each(|path| path.mend());
        while world.outstanding() > 0 {
            let next = world.now + Nanos(1_000_000);
            world.run_until(next);
        }
        self.collect(world);
        self.check(world);
        self.written.remove(&zone);
        self.appended.remove(&zone);
        self.next += 1;
        self.resets.insert(self.next, zone);
        let bio = Bio::new(Op::ZoneReset, Sector(u64::from(zone) * ZONE), 0, self.next);
        world.submit(0, bio);
    }

    /// Nothing is in flight.
    fn check(&self, world: &World) {
        for (&zone, written) in &self.written {
            assert_eq!(world.blocks(zone)[..written.len()], written[..], "zone {zone}");
        }
        for (&zone, appends) in &self.appended {
            let blocks = world.blocks(zone);
            for &(id, len) in appends {
                let found = blocks.iter().filter(|&&block| block == id).count();
                match self.landed.get(&id) {
                    Some(landed) => {
                        let at = usize::try_from((landed.0 - u64::from(zone) * ZONE) / 8).unwrap();
                        assert!(blocks[at..at + len as usize].iter().all(|&block| block == id));
                        assert_eq!(found, len as usize, "append {id} is there once");
                    }
                    None => assert!(found == 0 || found == len as usize, "append {id}: {found}"),
                }
            }
        }
    }
}

fn run(config: MultipathConfig, habits: Habits, policy: ZoneWrite, acts: &[(u64, Act)]) -> World {
    let mut world = World::new(config, habits, policy);
    let mut model = Model::default();
    for &(gap, ref act) in acts {
        world.run_until(world.now + Nanos(gap));
        model.collect(&mut world);
        match *act {
            Act::Put { channel, zone, blocks } => {
                // Without plugs the order of two hardware queues is undefined.
                let channel = if policy == ZoneWrite::Off { 0 } else { channel };
                model.put(&mut world, channel, zone, blocks);
            }
            Act::Read { channel, zone } => {
                let bio = Bio::read(Sector(u64::from(zone) * ZONE), 8, u64::MAX);
                world.submit(channel, bio);
            }
            Act::Reset { zone } => model.reset(&mut world, zone),
            Act::Cut(path) => world.paths[path].cut(),
            Act::Mend(path) => world.paths[path].mend(),
            Act::Access(path, state) => {
                let path = &world.paths[path];
                if path.state() != PathState::Connecting {
                    path.access(state);
                }
            }
        }
    }
    world.paths.iter().for_each(|path| path.mend());
    let end = world.now + Nanos(60_000_000_000);
    while world.outstanding() > 0 && world.now < end {
        world.run_until(world.now + Nanos(10_000_000));
    }
    assert_eq!(world.outstanding(), 0, "I/O is stuck");
    model.collect(&mut world);
    // Late commands too.
    world.run_until(world.now + Nanos(1_000_000_000));
    model.check(&world);
    world
}

fn refused(world: &World) -> u64 {
    world.paths.iter().map(|path| path.refused()).sum()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn plugged_writes_are_done_once_and_in_order(
        acts in acts(), policy in policy(), seed: u64, jitter in 0_u64..3000, flaky in 0_u64..12,
    ) {
        let flaky = if flaky == 1 { 0 } else { flaky };
        let habits = Habits { jitter: Nanos(jitter), flaky, seed, ..Habits::default() };
        let world = run(MultipathConfig { policy, ..CONFIG }, habits, ZoneWrite::Plug, &acts);
        prop_assert_eq!(refused(&world), 0);
    }

    #[test]
    fn writes_in_flight_together_are_done_once_and_in_order(
        acts in acts(), policy in policy(), seed: u64,
    ) {
        // A write after one that is refused for the access fails for its place in the zone.
        let refuses = |act: &Act| matches!(act, Act::Access(_, PathState::Inaccessible));
        let acts: Vec<_> = acts.into_iter().filter(|(_, act)| !refuses(act)).collect();
        let habits = Habits { seed, ..Habits::default() };
        let world = run(MultipathConfig { policy, ..CONFIG }, habits, ZoneWrite::Off, &acts);
        prop_assert_eq!(refused(&world), 0);
    }

    #[test]
    fn commands_that_are_done_late_do_no_harm(
        acts in acts(), policy in policy(), seed: u64, jitter in 0_u64..3000,
    ) {
        let (ghosts, jitter) = (Nanos(50_000), Nanos(jitter));
        let habits = Habits { jitter, ghosts, seed, ..Habits::default() };
        let config = MultipathConfig { policy, quiesce: ghosts, ..CONFIG };
        run(config, habits, ZoneWrite::Plug, &acts);
    }
}
