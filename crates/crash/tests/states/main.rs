//! The states of random logs at each moment, compared with those that the specifications allow.
mod history;
mod reference;

use history::{History, OLD, ZONE, history};
use reference::{Content, Moment};
use std::collections::{BTreeMap, BTreeSet};
use zonal_blk::{BioFlags, Op, Sector, Status};
use zonal_crash::log::{BlockRun, Command, Event, Log, Writer};
use zonal_crash::{Effect, Options, Progress, States};

/// More states than this at one moment are not compared.
const MOST: usize = 2000;

fn apply(content: &mut Content, effects: &[Effect]) {
    for effect in effects {
        match effect {
            Effect::Write { lba, blocks } if *lba < ZONE => {
                for (at, &block) in (*lba as usize..).zip(blocks) {
                    content.anywhere[at] = Some(block);
                }
            }
            Effect::Write { lba, blocks } => {
                let (data, full) = &mut content.zones[(lba / ZONE) as usize - 1];
                assert!(
                    data.len() as u64 == lba % ZONE && !*full,
                    "off the write pointer: {effect:?}"
                );
                data.extend(blocks);
                *full = data.len() as u64 == history::CAPACITY;
            }
            Effect::Reset { zone } => content.zones[*zone as usize - 1] = (Vec::new(), false),
            Effect::Finish { zone } => content.zones[*zone as usize - 1].1 = true,
        }
    }
}

/// A history as a log.
struct Recorded {
    _dir: tempfile::TempDir,
    log: Log,
    start: Content,
}

impl Recorded {
    fn of(history: &History) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("log");
        let mut writer = Writer::create(&path, &history.header).expect("a log");
        history.events.iter().for_each(|event| writer.add(event.clone()));
        writer.finish().expect("it is written");
        let log = Log::open(&path).expect("a log");
        let zone = |&(written, full): &(u64, bool)| (vec![OLD; written as usize], full);
        let zones = history.start[1..].iter().map(zone).collect();
        Recorded { _dir: dir, log, start: Content { zones, ..Content::default() } }
    }

    /// All contents at each cut.
    fn states(&self, options: Options) -> BTreeMap<u64, Vec<Content>> {
        let (mut settled, mut found) = (self.start.clone(), BTreeMap::<_, Vec<_>>::new());
        for progress in States::new(&self.log, options) {
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
}

/// Compares all moments of a history, and returns how many there were, and how many had too many states.
fn compare(seed: u64, options: &Options) -> (usize, usize) {
    let history = history(seed, 36);
    let recorded = Recorded::of(&history);
    let (mut all, mut too_many) = (0, 0);
    let (unit, write_through) = (options.atomic_sectors, options.cache_sectors == 0);
    for cut in 0..=history.events.len() as u64 {
        all += 1;
        let Some(expected) = Moment::new(&history, cut, unit, write_through).contents(MOST) else {
            too_many += 1;
            continue;
        };
        let options = Options { per_cut: u64::MAX, cuts: cut..=cut, ..options.clone() };
        let found = recorded.states(options).remove(&cut).unwrap_or_default();
        let number = found.len();
        let found: BTreeSet<Content> = found.into_iter().collect();
        assert_eq!(number, found.len(), "seed {seed}, cut {cut}: some twice");
        let missing: Vec<_> = expected.difference(&found).take(2).collect();
        let extra: Vec<_> = found.difference(&expected).take(2).collect();
        assert!(
            missing.is_empty() && extra.is_empty(),
            "seed {seed}, cut {cut} of {unit} blocks: missing {missing:#?}, not allowed {extra:#?} in\n{}",
            history.events[..cut as usize]
                .iter()
                .map(|event| format!("{event:?}\n"))
                .collect::<String>()
        );
    }
    (all, too_many)
}

#[test]
fn states_at_each_moment_are_those_that_the_specifications_allow() {
    let (mut all, mut too_many) = (0, 0);
    for seed in 0..32 {
        for (atomic_sectors, cache_sectors) in [(1, 1 << 20), (2, 1 << 20), (3, 1 << 20), (1, 0)] {
            let options = Options { atomic_sectors, cache_sectors, ..Options::default() };
            let compared = compare(seed, &options);
            (all, too_many) = (all + compared.0, too_many + compared.1);
        }
    }
    assert!(too_many * 10 < all, "{too_many} of {all} moments had too many states");
}

#[test]
fn log_as_a_whole_has_the_states_of_all_moments_each_once() {
    for seed in 0..20 {
        let recorded = Recorded::of(&history(seed, 16));
        let options = Options { per_cut: u64::MAX, ..Options::default() };
        let mut seen = BTreeSet::new();
        for content in recorded.states(options.clone()).into_values().flatten() {
            assert!(seen.insert(content.clone()), "seed {seed}: twice: {content:?}");
        }
        let mut of_moments = BTreeSet::new();
        for cut in 0..=recorded.log.events().count() as u64 {
            let options = Options { cuts: cut..=cut, ..options.clone() };
            of_moments.extend(recorded.states(options).into_values().flatten());
        }
        assert_eq!(seen, of_moments, "seed {seed}");
    }
}

#[test]
fn zones_lose_their_tails_independently_of_one_another() {
    let write = |id, sector, first| {
        let blocks = vec![BlockRun { first, len: 2 }];
        let (op, flags) = (Op::Write, BioFlags::NONE);
        let command = Command { op, flags, sector: Sector(sector), nr_sectors: 2, blocks };
        let ended = Event::Ended { id, status: Status::Ok, landed: Sector(sector) };
        [Event::Started { id, command }, ended]
    };
    let events = [write(0, ZONE, 1), write(1, 2 * ZONE, 3)].concat();
    let empty = vec![(0, false); history::ZONES];
    let history = History {
        events,
        start: empty.clone(),
        header: history::header(&empty),
        issued: Vec::new(),
    };
    let found = Recorded::of(&history).states(Options { cuts: 4..=4, ..Options::default() });
    let lengths: BTreeSet<_> =
        found[&4].iter().map(|at| (at.zones[0].0.len(), at.zones[1].0.len())).collect();
    assert_eq!(lengths.len(), 9, "{lengths:?}");
}

#[test]
fn sample_depends_on_the_seed_alone_and_is_within_its_limit() {
    let recorded = Recorded::of(&history(3, 36));
    let sampled = |seed| recorded.states(Options { per_cut: 4, seed, ..Options::default() });
    assert_eq!(sampled(1), sampled(1));
    assert_ne!(sampled(1), sampled(2));
    assert!(sampled(1).values().all(|contents| contents.len() <= 4));
}
