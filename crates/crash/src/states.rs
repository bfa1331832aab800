//! Enumeration: the states that a loss of power may leave, at each event of a log.
//!
//! Where there are few, all of them; where there are many, the extremes and a random sample that a
//! seed determines. A state that is equal to one of the last [`REMEMBERED`], and has the same marks
//! before it, is left out.
use crate::choices::Choice;
use crate::drive::{Drive, Effect};
use crate::log::{End, Log};
use crate::outcome::{ReplayStep, Steps};
use crate::state::State;
use crate::synced::{Synced, Tracker};
use std::collections::{HashSet, VecDeque};
use std::ops::RangeInclusive;
use zonal_device::rng::Rng;

/// States that are recognised when they come again.
pub const REMEMBERED: usize = 1 << 20;

/// Which states to enumerate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The most states at one event.
    pub per_cut: u64,
    /// Selects the sample.
    pub seed: u64,
    /// Size of the drive's cache in sectors: older writes are durable.
    pub cache_sectors: u64,
    /// Writes are torn at multiples of this, in sectors.
    pub atomic_sectors: u64,
    /// Cuts, as numbers of events.
    pub cuts: RangeInclusive<u64>,
    /// Some of the states only.
    pub sample: Option<Sample>,
}

/// A choice of states that is spread over a log: one of each of N equal parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// How many are wanted.
    pub wanted: u64,
    /// How many states there are.
    pub all: u64,
}

impl Sample {
    /// Whether state `number`, from 0, is one of them.
    fn has(self, number: u64, seed: u64) -> bool {
        if self.wanted >= self.all {
            return true;
        }
        let (wanted, all) = (u128::from(self.wanted), u128::from(self.all));
        let part = u128::from(number) * wanted / all;
        let first = |part: u128| u64::try_from((part * all).div_ceil(wanted)).unwrap_or(u64::MAX);
        let (from, to) = (first(part), first(part + 1));
        let part = u64::try_from(part).expect("less than the number");
        number == from + Rng::new(seed ^ part.rotate_left(32)).below(to - from)
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            per_cut: 32,
            seed: 0,
            cache_sectors: 64 << 11,
            atomic_sectors: 1,
            cuts: 0..=u64::MAX,
            sample: None,
        }
    }
}

impl Options {
    /// These, with a sample of this many of the log's states.
    pub fn with_sample(self, log: &Log, wanted: u64) -> Self {
        let all = Options { sample: None, ..self.clone() }.count(log);
        Options { sample: Some(Sample { wanted, all }), ..self }
    }

    /// How many states of the log these select. Without a sample that takes an enumeration.
    pub fn count(self, log: &Log) -> u64 {
        match self.sample {
            Some(sample) => sample.wanted.min(sample.all),
            None => {
                let states = States::new(log, self);
                states.filter(|next| matches!(next, Progress::State(..))).count() as u64
            }
        }
    }
}

/// The next thing in the replay of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// This has become durable. It holds for all states from here on.
    Settled(Vec<Effect>),
    /// A mark. It comes before all states from here on.
    Mark(String),
    /// A state: what is durable, and these effects.
    State(State, Vec<Effect>),
}

/// The states of a log, with what has to be known to make them.
pub struct States {
    steps: Steps,
    drive: Drive,
    tracker: Tracker,
    options: Options,
    seen: Seen,
    /// States of the current cut that were not considered yet, the next one last.
    pending: Vec<State>,
    /// States that were found.
    found: u64,
    /// The cut before the first event was looked at.
    begun: bool,
}

impl States {
    /// The states of a log.
    pub fn new(log: &Log, options: Options) -> Self {
        States {
            steps: Steps::new(log.events()),
            drive: Drive::new(log.header(), options.cache_sectors),
            tracker: Tracker::default(),
            options,
            seen: Seen::default(),
            pending: Vec::new(),
            found: 0,
            begun: false,
        }
    }

    /// How the log ended, after the last state.
    pub fn end(&self) -> Option<&End> {
        self.steps.events().end()
    }

    /// The events that were read.
    pub fn events(&self) -> u64 {
        self.steps.events().number()
    }

    /// The drive as it is now.
    pub fn drive(&self) -> &Drive {
        &self.drive
    }

    /// The data that must be there in the state that came last.
    pub fn synced(&self) -> Synced {
        self.tracker.at(&self.drive)
    }

    /// The states of the current cut, the last one first.
    fn states_here(&self) -> Vec<State> {
        let unit = (self.options.atomic_sectors / self.drive.lba_sectors).max(1);
        let choices = self.drive.choices(unit);
        let cut = self.drive.events();
        let all = choices.iter().try_fold(1u64, |all, choice| all.checked_mul(choice.count()));
        let mut states = match all.filter(|&all| all <= self.options.per_cut) {
            Some(all) => (0..all).map(|number| numbered(cut, &choices, number)).collect(),
            None => self.sample(cut, &choices),
        };
        states.reverse();
        states
    }

    fn sample(&self, cut: u64, choices: &[Choice]) -> Vec<State> {
        let limit = usize::try_from(self.options.per_cut).unwrap_or(usize::MAX);
        let state = |index: &mut dyn FnMut(usize, &Choice) -> u64| {
            let mut state = State { cut, ..State::default() };
            for (number, choice) in choices.iter().enumerate() {
                choice.set(index(number, choice), &mut state);
            }
            state
        };
        let mut states = vec![state(&mut |_, _| 0), state(&mut |_, _| 1)];
        for one in 0..choices.len() {
            states.push(state(&mut |number, _| u64::from(number == one)));
            states.push(state(&mut |number, _| u64::from(number != one)));
        }
        states.truncate(limit / 2 + 1);
        let mut rng = Rng::new(self.options.seed ^ cut.rotate_left(32));
        while states.len() < limit {
            states.push(state(&mut |_, choice| match rng.below(2) {
                0 => 0,
                _ => rng.below(choice.count()),
            }));
        }
        states.truncate(limit);
        states
    }

    /// The next state of the current cut that is new.
    fn next_here(&mut self) -> Option<Progress> {
        while let Some(state) = self.pending.pop() {
            // More appends than the zone has room for.
            let Ok(effects) = self.drive.effects(&state) else { continue };
            if !self.seen.is_new(self.drive.identify(&effects)) {
                continue;
            }
            let number = self.found;
            self.found += 1;
            if self.options.sample.is_none_or(|sample| sample.has(number, self.options.seed)) {
                return Some(Progress::State(state, effects));
            }
        }
        None
    }

    fn look(&mut self) {
        if self.options.cuts.contains(&self.drive.events()) {
            self.pending = self.states_here();
        }
    }
}

/// State `number` of all combinations.
fn numbered(cut: u64, choices: &[Choice], mut number: u64) -> State {
    let mut state = State { cut, ..State::default() };
    for choice in choices {
        choice.set(number % choice.count(), &mut state);
        number /= choice.count();
    }
    state
}

impl Iterator for States {
    type Item = Progress;

    fn next(&mut self) -> Option<Progress> {
        if !self.begun {
            self.begun = true;
            self.look();
        }
        loop {
            if let Some(state) = self.next_here() {
                return Some(state);
            }
            if self.drive.events() >= *self.options.cuts.end() {
                return None;
            }
            let step = self.steps.next()?;
            let mut settled = Vec::new();
            self.drive.advance(&step, &mut settled);
            self.tracker.advance(&step, &self.drive);
            self.look();
            if let ReplayStep::Mark(text) = step {
                return Some(Progress::Mark(text));
            }
            if !settled.is_empty() {
                return Some(Progress::Settled(settled));
            }
        }
    }
}

/// The states that were met last.
#[derive(Default)]
struct Seen {
    known: HashSet<u64>,
    order: VecDeque<u64>,
}

impl Seen {
    fn is_new(&mut self, state: u64) -> bool {
        if !self.known.insert(state) {
            return false;
        }
        self.order.push_back(state);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sample_has_one_state_of_each_part(wanted in 1..400u64, all in 1..3000u64, seed: u64) {
            let sample = Sample { wanted, all };
            let chosen: Vec<u64> = (0..all).filter(|&number| sample.has(number, seed)).collect();
            prop_assert_eq!(chosen.len() as u64, wanted.min(all));
            for (part, number) in (0..).zip(&chosen).filter(|_| wanted < all) {
                prop_assert_eq!(number * wanted / all, part);
            }
        }
    }
}
