//! How a table is measured: what it asks for itself, but for what the arguments say.
use super::table::Method;
use crate::cli::{ClockKind, ReproduceArgs};
use crate::experiment::Span;
use zonal_blk::Nanos;

/// How a table is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct How {
    /// The clock.
    pub clock: ClockKind,
    /// Times that each cell is measured.
    pub rounds: u32,
    /// Time of the clock for each cell, over all rounds.
    pub seconds: f64,
    /// The first round's seed; each round has the next.
    pub seed: u64,
    /// Virtual time that an I/O costs its thread.
    pub io_cost: Nanos,
}

impl How {
    /// What the arguments say, else what the table asks for.
    pub fn new(method: Method, args: &ReproduceArgs) -> Self {
        How {
            clock: args.clock.unwrap_or(method.clock),
            rounds: args.rounds.unwrap_or(method.rounds),
            seconds: args.time.unwrap_or(method.seconds),
            seed: args.seed,
            io_cost: Nanos(args.io_cost),
        }
    }

    /// What a cell gets in a round.
    pub fn round(&self) -> Span {
        Span::of(self.seconds / f64::from(self.rounds))
    }

    /// The seed of a round.
    pub fn seed_of(&self, round: u32) -> u64 {
        self.seed.wrapping_add(u64::from(round))
    }

    /// For people.
    pub fn describe(&self) -> String {
        let clock = match self.clock {
            ClockKind::Real => "real clock".to_owned(),
            ClockKind::Virtual => {
                format!("virtual clock, {} ns of a thread an I/O", self.io_cost)
            }
        };
        let Span { ramp, measured } = self.round();
        let time = format!("{:.4}", ramp + measured);
        let time = time.trim_end_matches('0').trim_end_matches('.');
        let Self { seed, rounds, .. } = self;
        format!("{clock}, seed {seed}, median of {rounds} rounds of {time} s a cell")
    }
}
