//! How a table is measured: what it asks for itself, but for what the arguments say.
use super::table::Method;
use crate::cli::{ClockKind, ReproduceArgs};
use crate::experiment::RunLength;
use zonal_sim::CostModel;

/// How a table is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasureSettings {
    /// The clock.
    pub clock: ClockKind,
    /// Times that each cell is measured.
    pub rounds: u32,
    /// Time of the clock for each cell, over all rounds; `None` for jobs that run to their end.
    pub seconds: Option<f64>,
    /// The first round's seed; each round has the next.
    pub seed: u64,
    /// What I/Os cost their threads in virtual time.
    pub costs: CostModel,
}

impl MeasureSettings {
    /// What the arguments say, else what the table asks for. Jobs that run to their end take as long
    /// as that takes.
    pub fn new(method: Method, args: &ReproduceArgs) -> Self {
        MeasureSettings {
            clock: args.clock.unwrap_or(method.clock),
            rounds: args.rounds.unwrap_or(method.rounds),
            seconds: method.seconds.map(|seconds| args.time.unwrap_or(seconds)),
            seed: args.seed,
            costs: args.io_cost.unwrap_or(method.costs),
        }
    }

    /// What a cell gets in a round; `None` for jobs that run to their end.
    pub fn round(&self) -> Option<RunLength> {
        Some(RunLength::of(self.seconds? / f64::from(self.rounds)))
    }

    /// The seed of a round.
    pub fn seed_of(&self, round: u32) -> u64 {
        self.seed.wrapping_add(u64::from(round))
    }

    /// The costs as `--io-cost` takes them.
    pub fn costs_argument(&self) -> String {
        match self.costs {
            CostModel::Flat(nanos) => nanos.to_string(),
            CostModel::Published => "published".to_owned(),
        }
    }

    /// For people.
    pub fn describe(&self) -> String {
        let clock = match self.clock {
            ClockKind::Real => "real clock".to_owned(),
            ClockKind::Virtual => format!("virtual clock, {}", self.costs),
        };
        let Self { seed, rounds, .. } = self;
        let Some(RunLength { ramp, measured }) = self.round() else {
            let rounds = if *rounds == 1 { "once" } else { &format!("median of {rounds} runs") };
            return format!("{clock}, seed {seed}, each job to its end, {rounds}");
        };
        let time = format!("{:.4}", ramp + measured);
        let time = time.trim_end_matches('0').trim_end_matches('.');
        format!("{clock}, seed {seed}, median of {rounds} rounds of {time} s a cell")
    }
}
