//! How a table is measured.
use crate::executor::ClockKind;
use crate::experiment::RunLength;
use zonal_blk::Nanos;
use zonal_sim::CostModel;

/// A thread's time for an I/O where nothing is known about the machine: 1 us.
pub const ANY_MACHINE: CostModel = CostModel::Flat(Nanos(1000));

/// How a table is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasureSettings {
    /// The clock. In virtual time cells are independent of one another and of the machine.
    pub clock: ClockKind,
    /// How often each cell is measured.
    pub rounds: u32,
    /// Seconds of the clock per cell, over all rounds; `None` for jobs that run until they are done.
    pub seconds: Option<f64>,
    /// The seed of the first round; each further round has the next.
    pub seed: u64,
    /// The cost of an I/O for its thread in virtual time.
    pub costs: CostModel,
}

impl MeasureSettings {
    /// Settings of a table on models of drives: virtual time, seed 0, a thread of [`ANY_MACHINE`].
    pub fn virtual_time(rounds: u32, seconds: Option<f64>) -> Self {
        let clock = ClockKind::Virtual;
        MeasureSettings { clock, rounds, seconds, seed: 0, costs: ANY_MACHINE }
    }

    /// Settings of a table on null devices: real time, 7 rounds, 1.4 s in all per cell.
    pub fn real_time() -> Self {
        let (clock, seconds) = (ClockKind::Real, Some(1.4));
        MeasureSettings { clock, rounds: 7, seconds, seed: 0, costs: ANY_MACHINE }
    }

    /// How long a cell runs in a round; `None` for jobs that run until they are done.
    pub fn round(&self) -> Option<RunLength> {
        Some(RunLength::of(self.seconds? / f64::from(self.rounds)))
    }

    /// The seed of a round.
    pub fn seed_of(&self, round: u32) -> u64 {
        self.seed.wrapping_add(u64::from(round))
    }

    /// The costs as an argument of `--io-cost`.
    pub fn costs_argument(&self) -> String {
        match self.costs {
            CostModel::Flat(nanos) => nanos.to_string(),
            CostModel::Published => "published".to_owned(),
            CostModel::Host(host) => host.name().unwrap_or("FILE").to_owned(),
        }
    }

    /// One line for people.
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
