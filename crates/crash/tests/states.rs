//! The states of random logs, compared with a simple reference: what each block may hold, found by
//! looking through the whole history at each event.
use std::collections::{BTreeMap, BTreeSet};
use zonal_blk::{BioFlags, Limits, Op, Sector, Status, Zone, ZoneCondition, ZoneKind, ZoneNo};
use zonal_crash::log::{Command, Event, Header, Log, Writer};
use zonal_crash::{Effect, Options, Progress, States};
use zonal_device::image::{ImageGeometry, Profile, Superblock};
use zonal_device::rng::Rng;

/// Zones of eight blocks of 512 bytes; zone 0 is conventional.
const ZONE: u64 = 8;
const ZONES: u64 = 3;

fn header() -> Header {
    let limits = Limits::zoned(3, Sector(ZONE));
    let mut zones: Vec<Zone> = limits.empty_zones(ZoneNo(0), 3).collect();
    zones[0].kind = ZoneKind::Conventional;
    zones[0].cond = ZoneCondition::NotWritePointer;
    let geometry = ImageGeometry::of(&limits, &zones).expect("a geometry");
    let superblock = Superblock::new([1; 16], geometry, Profile::Spec("null".to_owned()));
    Header { device: "test".to_owned(), superblock: superblock.expect("one"), zones: Vec::new() }
}

/// A command of a history: what the reference knows of it.
#[derive(Clone, Debug)]
struct Done {
    command: Command,
    /// The numbers of the events of its start and, if it has completed, its end.
    started: u64,
    ended: Option<u64>,
}

/// Random events: up to three commands in flight, one for each zone, as zone write plugging has it.
fn history(seed: u64) -> (Vec<Event>, Vec<Done>) {
    let mut rng = Rng::new(seed);
    let (mut events, mut commands): (Vec<Event>, Vec<Done>) = (Vec::new(), Vec::new());
    let (mut wps, mut next_block) = ([0; ZONES as usize], 1);
    // By zone; the last one is that of flushes.
    let mut in_flight: [Option<usize>; 4] = [None; 4];
    while events.len() < 40 {
        let lane = rng.below(4) as usize;
        let number = events.len() as u64 + 1;
        if let Some(id) = in_flight[lane].take() {
            commands[id].ended = Some(number);
            let landed = commands[id].command.sector;
            events.push(Event::Ended { id: id as u64, status: Status::Ok, landed });
            continue;
        }
        let (zone, at) = (lane as u64 * ZONE, rng.below(ZONE - 2));
        let (op, sector, nr_sectors) = match lane {
            3 => (Op::Flush, 0, 0),
            0 => (Op::Write, at, 1 + rng.below(2)),
            _ if wps[lane] == ZONE || rng.below(8) == 0 => (Op::ZoneReset, zone, 0),
            _ => (Op::Write, zone + wps[lane], (1 + rng.below(3)).min(ZONE - wps[lane])),
        };
        if lane < 3 {
            wps[lane] = if op == Op::ZoneReset { 0 } else { wps[lane] + nr_sectors };
        }
        let fua = op == Op::Write && rng.below(6) == 0;
        let flags = if fua { BioFlags::FUA } else { BioFlags::NONE };
        let first = next_block;
        next_block += nr_sectors;
        let len = u32::try_from(nr_sectors).expect("short");
        let blocks = vec![zonal_crash::log::BlockRun { first, len }];
        let command = Command { op, flags, sector: Sector(sector), nr_sectors: len, blocks };
        in_flight[lane] = Some(commands.len());
        events.push(Event::Started { id: commands.len() as u64, command: command.clone() });
        commands.push(Done { command, started: number, ended: None });
    }
    // The end of a log is no different from other cuts if all commands end.
    for id in in_flight.into_iter().flatten() {
        commands[id].ended = Some(events.len() as u64 + 1);
        let landed = commands[id].command.sector;
        events.push(Event::Ended { id: id as u64, status: Status::Ok, landed });
    }
    (events, commands)
}

/// Whether a write is durable at a cut: by its FUA, or by a flush that began after it had completed.
fn is_durable(write: &Done, commands: &[Done], cut: u64) -> bool {
    let Some(ended) = write.ended.filter(|&ended| ended <= cut) else { return false };
    let flushed = commands.iter().any(|other| {
        let over = other.ended.is_some_and(|ended| ended <= cut);
        other.command.op == Op::Flush && over && other.started > ended
    });
    flushed || write.command.flags.contains(BioFlags::FUA)
}

/// The lengths that a sequential zone may have at a cut.
fn lengths(zone: u64, commands: &[Done], cut: u64) -> BTreeSet<u64> {
    let here = |done: &&Done| {
        done.command.sector.0 / ZONE == zone && done.command.op != Op::Flush && done.started <= cut
    };
    // Commands of a zone are one after the other, so only the last can be in flight.
    let all: Vec<&Done> = commands.iter().filter(here).collect();
    let reset = |done: &&Done| done.command.op == Op::ZoneReset;
    let over = |done: &&Done| done.ended.is_some_and(|ended| ended <= cut);
    let from = all.iter().rposition(|done| reset(done) && over(done)).map_or(0, |at| at + 1);
    let writes = || all[from..].iter().filter(|done| done.command.op == Op::Write);
    let end = |done: &&Done| done.command.sector.0 % ZONE + u64::from(done.command.nr_sectors);
    let durable = writes().filter(|done| is_durable(done, commands, cut)).map(end).max();
    let mut lengths: BTreeSet<u64> =
        (durable.unwrap_or(0)..=writes().map(end).max().unwrap_or(0)).collect();
    if all.last().is_some_and(|last| reset(last) && !over(last)) {
        lengths.insert(0);
    }
    lengths
}

/// The values that a block of the conventional zone may hold at a cut.
fn values(block: u64, commands: &[Done], cut: u64) -> BTreeSet<u64> {
    let value = |done: &Done| {
        let at = block.checked_sub(done.command.sector.0)?;
        let inside = at < u64::from(done.command.nr_sectors) && done.started <= cut;
        (inside && done.command.op == Op::Write).then(|| done.command.blocks[0].first + at)
    };
    let mut values = BTreeSet::from([0]);
    for done in commands {
        let Some(value) = value(done) else { continue };
        if is_durable(done, commands, cut) {
            values.clear();
        }
        values.insert(value);
    }
    values
}

/// Blocks, by their addresses.
type Content = BTreeMap<u64, u64>;

fn apply(content: &mut Content, effects: &[Effect]) {
    for effect in effects {
        match effect {
            Effect::Write { lba, blocks } => content.extend((*lba..).zip(blocks.iter().copied())),
            Effect::Reset { zone } => {
                content.retain(|lba, _| lba / ZONE != u64::from(*zone));
            }
            Effect::Finish { .. } => panic!("no zone is finished"),
        }
    }
}

fn length(content: &Content, zone: u64) -> u64 {
    content.range(zone * ZONE..(zone + 1) * ZONE).count() as u64
}

/// All contents at each cut.
fn states(events: &[Event], options: Options) -> BTreeMap<u64, Vec<Content>> {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("log");
    let mut writer = Writer::create(&path, &header()).expect("a log");
    events.iter().for_each(|event| writer.add(event.clone()));
    writer.finish().expect("it is written");
    let log = Log::open(&path).expect("a log");
    let (mut settled, mut found): (Content, BTreeMap<u64, Vec<Content>>) = Default::default();
    for progress in States::new(&log, options) {
        match progress {
            Progress::Settled(effects) => apply(&mut settled, &effects),
            Progress::Mark(_) => {}
            Progress::State(state, effects) => {
                let mut content = settled.clone();
                apply(&mut content, &effects);
                found.entry(state.cut).or_default().push(content);
            }
        }
    }
    found
}

#[test]
fn states_are_those_that_the_rules_allow_and_all_of_them() {
    let options = Options { per_cut: u64::MAX, ..Options::default() };
    for seed in 0..15 {
        let (events, commands) = history(seed);
        let found = states(&events, options.clone());
        let mut seen = BTreeSet::new();
        let (mut of_zone, mut of_block) = (BTreeMap::new(), BTreeMap::new());
        for (&cut, contents) in &found {
            for content in contents {
                assert!(seen.insert(content.clone()), "seed {seed}: twice: {cut} {content:?}");
                for zone in 1..ZONES {
                    let length = length(content, zone);
                    let legal = lengths(zone, &commands, cut);
                    assert!(
                        legal.contains(&length),
                        "seed {seed}, cut {cut}, zone {zone}: {length} of {legal:?}"
                    );
                    of_zone.entry(zone).or_insert_with(BTreeSet::new).insert(length);
                }
                for block in 0..ZONE {
                    let value = content.get(&block).copied().unwrap_or(0);
                    let legal = values(block, &commands, cut);
                    assert!(
                        legal.contains(&value),
                        "seed {seed}, cut {cut}, block {block}: {value} of {legal:?}"
                    );
                    of_block.entry(block).or_insert_with(BTreeSet::new).insert(value);
                }
            }
        }
        // A state that is left out equals an earlier one, so all are found over the whole log.
        for cut in 0..=events.len() as u64 {
            for zone in 1..ZONES {
                assert!(
                    lengths(zone, &commands, cut).is_subset(&of_zone[&zone]),
                    "seed {seed}, cut {cut}"
                );
            }
            for block in 0..ZONE {
                assert!(
                    values(block, &commands, cut).is_subset(&of_block[&block]),
                    "seed {seed}, cut {cut}"
                );
            }
        }
    }
}

#[test]
fn zones_lose_their_tails_independently_of_one_another() {
    let write = |id, sector, first| {
        let blocks = vec![zonal_crash::log::BlockRun { first, len: 2 }];
        let (op, flags) = (Op::Write, BioFlags::NONE);
        let command = Command { op, flags, sector: Sector(sector), nr_sectors: 2, blocks };
        let ended = Event::Ended { id, status: Status::Ok, landed: Sector(sector) };
        [Event::Started { id, command }, ended]
    };
    let events = [write(0, ZONE, 1), write(1, 2 * ZONE, 3)].concat();
    let found = states(&events, Options { cuts: 4..=4, ..Options::default() });
    let lengths: BTreeSet<_> = found[&4].iter().map(|at| (length(at, 1), length(at, 2))).collect();
    assert_eq!(lengths.len(), 9, "{lengths:?}");
}

#[test]
fn sample_depends_on_the_seed_alone_and_is_within_its_limit() {
    let (events, _) = history(3);
    let sampled = |seed| states(&events, Options { per_cut: 4, seed, ..Options::default() });
    assert_eq!(sampled(1), sampled(1));
    assert_ne!(sampled(1), sampled(2));
    assert!(sampled(1).values().all(|contents| contents.len() <= 4));
}
