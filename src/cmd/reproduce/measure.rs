//! Measures the cells of a table, round by round.
//!
//! Takes a table; gives for each cell a sample of each round. Keeps true: every cell has its own
//! devices, made for the round.
//!
//! On the real clock rounds go over all cells before the next begins, so that what disturbs the
//! machine for a while disturbs all cells alike; what is compared is measured close together. In
//! virtual time a cell's sample depends on the cell and the seed alone, so cells are measured side
//! by side, each in a virtual time of its own.
use super::how::MeasureSettings;
use super::measured::{PERCENTILES, Results, Rounds, Sample};
use super::table::{Cell, Table};
use crate::cli::{ClockKind, Eta};
use crate::devices::DeviceOptions;
use crate::experiment::{self, processors, side_by_side};
use crate::machine::Executor;
use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use zonal_blk::QueueOptions;

/// What measures tables, one after another.
pub struct Bench {
    /// That of the real clock, of which there can be one, when it was first wanted.
    real: Option<Executor>,
    /// Threads for virtual time.
    workers: usize,
}

/// A cell in a round.
#[derive(Clone, Copy)]
struct CellRound {
    cell: usize,
    round: u32,
}

impl Bench {
    /// With a thread for each processor that this process may use.
    pub fn new() -> Self {
        Self::with_workers(processors())
    }

    /// With so many threads for virtual time.
    pub fn with_workers(workers: usize) -> Self {
        Bench { real: None, workers }
    }

    /// Measures a table.
    ///
    /// # Errors
    /// What is wrong with a cell, or an interrupt.
    pub fn measure(&mut self, table: &Table, settings: &MeasureSettings) -> Result<Results> {
        let order = by_column(table);
        let turns =
            (0..settings.rounds).flat_map(|round| order.iter().map(move |&cell| (cell, round)));
        let turns: Vec<CellRound> = turns.map(|(cell, round)| CellRound { cell, round }).collect();
        let progress = progress(turns.len() as u64).with_prefix(table.name);
        let show = |turn: CellRound| progress.set_message(table.name_of(turn.cell));
        let measure = |turn: CellRound, executor: &mut Executor| {
            let sample = measure_cell(
                &table.cells[turn.cell],
                executor,
                settings,
                settings.seed_of(turn.round),
            );
            progress.inc(1);
            sample.with_context(|| format!("{}: {}", table.name, table.name_of(turn.cell)))
        };
        let samples = match settings.clock {
            ClockKind::Real => {
                let executor = match &mut self.real {
                    Some(executor) => executor,
                    none => none.insert(executor(settings)?),
                };
                let one = |&turn: &CellRound| {
                    show(turn);
                    let sample = measure(turn, executor);
                    if executor.is_stopped() {
                        bail!("interrupted");
                    }
                    sample
                };
                turns.iter().map(one).collect::<Result<Vec<Sample>>>()?
            }
            ClockKind::Virtual => side_by_side(self.workers, &turns, |&turn| {
                show(turn);
                measure(turn, &mut executor(settings)?)
            })?,
        };
        progress.finish_and_clear();
        let mut results = Results(vec![Rounds::default(); table.cells.len()]);
        for (turn, sample) in turns.iter().zip(samples) {
            results.0[turn.cell].0.push(sample);
        }
        Ok(results)
    }
}

/// A machine whose time begins now.
///
/// # Errors
/// There is another one for the real clock.
pub fn executor(settings: &MeasureSettings) -> Result<Executor> {
    Executor::new(settings.clock, settings.costs, Eta::Never)
}

/// The cells column by column: those of a column are the ones that are compared.
fn by_column(table: &Table) -> Vec<usize> {
    let column = |at: &usize| {
        let own = &table.cells[*at].column;
        table.cells.iter().position(|cell| cell.column == *own)
    };
    let mut order: Vec<usize> = (0..table.cells.len()).collect();
    order.sort_by_key(column);
    order
}

/// Shown on a terminal only.
fn progress(turns: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix} [{bar:24}] {pos}/{len} eta {eta} {msg}");
    ProgressBar::new(turns).with_style(style.expect("the template is well formed"))
}

/// One cell in one round.
fn measure_cell(
    cell: &Cell,
    executor: &mut Executor,
    settings: &MeasureSettings,
    seed: u64,
) -> Result<Sample> {
    let setup = &cell.setup;
    let device_options = DeviceOptions {
        queue: QueueOptions { zone_write: setup.zone_write, ..QueueOptions::default() },
        scheduler: Some(setup.scheduler.to_owned()),
        seed,
        ..DeviceOptions::default()
    };
    let outcome = experiment::run(&setup.jobs, &device_options, settings.round(), executor)?;
    let percentiles = outcome.latencies.percentiles(&PERCENTILES);
    Ok(Sample {
        figure: cell.unit.of(outcome.ios, outcome.bytes),
        latency: std::array::from_fn(|at| percentiles[at]),
    })
}
