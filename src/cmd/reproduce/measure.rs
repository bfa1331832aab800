//! Measures the cells of a table, round by round.
//!
//! Takes a table; gives for each cell the figure of each round. Keeps true: every cell has its own
//! devices, made for the round; rounds go over all cells before the next begins, so that what
//! disturbs the machine for a while disturbs all cells alike; what is compared is measured close
//! together and compared round by round.
use super::table::{Cell, Table, Unit};
use crate::cli::{ClockKind, Eta, ReproduceArgs};
use crate::devices::{Devices, Wishes};
use crate::machine::{Finished, Machine};
use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use std::sync::Arc;
use zonal_blk::{Nanos, QueueOptions};
use zonal_workload::job::{DataDir, Job};
use zonal_workload::jobfile::{self, SystemSource};
use zonal_workload::plan;

/// Of a cell's time in a round, what is not measured.
pub const RAMP_SHARE: f64 = 0.1;

/// What was measured, by cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Results(pub Vec<Rounds>);

/// The figures of a cell, round by round; there is at least one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rounds(pub Vec<f64>);

impl Results {
    /// The figure of a cell: the median of its rounds.
    pub fn figure(&self, cell: usize) -> f64 {
        self.0[cell].median()
    }

    /// A cell's figure as a multiple of `times` another's: the median over the rounds of what it
    /// was in each, which a machine that is slow for some rounds does not change.
    pub fn ratio(&self, cell: usize, base: usize, times: f64) -> f64 {
        let rounds = self.0[cell].0.iter().zip(&self.0[base].0);
        Rounds(rounds.map(|(figure, base)| figure / (base * times)).collect()).median()
    }
}

impl Rounds {
    /// In rising order.
    fn sorted(&self) -> Vec<f64> {
        let mut figures = self.0.clone();
        figures.sort_by(f64::total_cmp);
        figures
    }

    /// The figure in the middle; of an even number of rounds, between the two in the middle.
    fn median(&self) -> f64 {
        let figures = self.sorted();
        let (lower, upper) = ((figures.len() - 1) / 2, figures.len() / 2);
        (figures[lower] + figures[upper]) / 2.0
    }

    /// How far the figures lie apart, in percent of the median.
    pub fn spread(&self) -> f64 {
        let figures = self.sorted();
        (figures[figures.len() - 1] - figures[0]) / self.median() * 100.0
    }
}

/// Measures a table.
pub fn measure(table: &Table, args: &ReproduceArgs) -> Result<Results> {
    let mut machine = Machine::new(args.clock, args.io_cost, Eta::Never)?;
    let time = Nanos((args.time / f64::from(args.rounds) * 1e9) as u64);
    let mut results = Results(vec![Rounds::default(); table.cells.len()]);
    let order = by_column(table);
    let progress = progress(table.cells.len() as u64 * u64::from(args.rounds));
    for round in 0..args.rounds {
        let seed = args.seed.wrapping_add(u64::from(round));
        for &at in &order {
            let cell = &table.cells[at];
            progress.set_message(format!("{} {}", cell.row, cell.column));
            let figure = measure_cell(cell, &mut machine, time, seed)
                .with_context(|| format!("{} {}", cell.row, cell.column))?;
            if machine.is_stopped() {
                bail!("interrupted");
            }
            results.0[at].0.push(figure);
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    Ok(results)
}

/// The cells column by column: those of a column are the ones that are compared.
fn by_column(table: &Table) -> Vec<usize> {
    let column = |at: &usize| {
        let own = table.cells[*at].column;
        table.cells.iter().position(|cell| cell.column == own)
    };
    let mut order: Vec<usize> = (0..table.cells.len()).collect();
    order.sort_by_key(column);
    order
}

/// Shown on a terminal only.
fn progress(cells: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("[{bar:24}] {pos}/{len} eta {eta} {msg}");
    ProgressBar::new(cells).with_style(style.expect("the template is well formed"))
}

/// The figure of one cell in one round.
fn measure_cell(cell: &Cell, machine: &mut Machine, time: Nanos, seed: u64) -> Result<f64> {
    let setup = &cell.setup;
    let mut jobs = jobfile::parse_args(&setup.jobs, &SystemSource)?.jobs;
    for job in &mut jobs {
        limit(job, time);
    }
    let jobs: Vec<Arc<Job>> = jobs.into_iter().map(Arc::new).collect();
    let phases = plan::phases(&jobs);
    let wishes = Wishes {
        queue: QueueOptions { zone_write: setup.zone_write, ..QueueOptions::default() },
        scheduler: Some(setup.scheduler.to_owned()),
        seed,
        ..Wishes::default()
    };
    let devices = Devices::attach(&wishes, &phases)?;
    let mut finished = Vec::new();
    for phase in phases {
        finished.extend(machine.run(phase, &devices, seed)?);
    }
    figure(&finished, cell.unit)
}

/// Has a job end after `time`, of which the first part is not measured.
fn limit(job: &mut Job, time: Nanos) {
    let ramp = Nanos((time.0 as f64 * RAMP_SHARE) as u64);
    job.ramp_time = ramp;
    job.runtime = Some(time - ramp);
    job.time_based = true;
}

/// What all clones did together: their I/O over the time of the longest.
fn figure(finished: &[Finished], unit: Unit) -> Result<f64> {
    let (mut ios, mut bytes, mut time) = (0, 0, Nanos(0));
    for Finished { task, outcome, .. } in finished {
        if let Some(status) = outcome.error {
            bail!("job {}: {status}", task.job.name);
        }
        for dir in [DataDir::Read, DataDir::Write] {
            ios += outcome.stats.ios(dir);
            bytes += outcome.stats.bytes(dir);
            time = time.max(outcome.stats.runtime(dir));
        }
    }
    let per_second = |count: u64| count as f64 * 1e9 / time.0.max(1) as f64;
    Ok(unit.of(per_second(ios), per_second(bytes)))
}

/// How the figures were measured, for people.
pub fn describe(args: &ReproduceArgs) -> String {
    let clock = match args.clock {
        ClockKind::Real => "real clock".to_owned(),
        ClockKind::Virtual => format!("virtual clock, {}", args.io_cost),
    };
    format!(
        "{clock}, seed {}, median of {} rounds of {:.4} s a cell",
        args.seed,
        args.rounds,
        args.time / f64::from(args.rounds)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_lies_in_the_middle_and_the_spread_is_in_percent_of_it() {
        let rounds = Rounds(vec![11.0, 10.0, 12.1]);
        assert_eq!(rounds.median(), 11.0);
        assert!((rounds.spread() - 19.09).abs() < 0.01);
        let two = Rounds(vec![1.0, 3.0]);
        assert_eq!((two.median(), two.spread()), (2.0, 100.0));
        assert_eq!(Rounds(vec![5.0]).spread(), 0.0);
    }

    #[test]
    fn ratio_is_that_of_the_usual_round_however_slow_the_machine_was_in_others() {
        let slow_at_times = Rounds(vec![10.0, 2.0, 10.0]);
        let twice = Rounds(vec![20.0, 4.0, 3.0]);
        let results = Results(vec![slow_at_times, twice]);
        assert_eq!(results.ratio(1, 0, 1.0), 2.0);
        assert_eq!(results.ratio(1, 0, 4.0), 0.5);
        assert_eq!(results.figure(1), 4.0);
    }
}
