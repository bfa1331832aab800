//! Measures the cells of a table, round by round.
//!
//! In real time, each round visits all cells before the next round begins, so that a disturbance of
//! the machine affects all cells alike; cells that are compared are measured close together. In
//! virtual time a sample depends on the cell and the seed alone, so cells are measured in parallel.
use super::measured::MeasuredTable;
use super::results::{PERCENTILES, Results, Rounds, Sample};
use super::settings::MeasureSettings;
use super::table::{Cell, Table};
use crate::devices::DeviceOptions;
use crate::executor::{ClockKind, Executor};
use crate::experiment::{self, available_cpus, parallel_map};
use crate::progress::StepProgress;
use anyhow::{Context, Result};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use zonal_blk::QueueOptions;

/// Measures tables, one after another.
pub struct Bench<'a> {
    /// The executor of all tables in real time.
    real: Option<Executor>,
    /// Set to interrupt a measurement.
    stop: Arc<AtomicBool>,
    /// Threads for virtual time.
    workers: usize,
    progress: &'a dyn StepProgress,
}

/// A cell in a round.
#[derive(Clone, Copy)]
struct CellRound {
    cell: usize,
    round: u32,
}

impl<'a> Bench<'a> {
    /// A bench that measures in parallel on all CPUs that this process may use. Setting `stop`
    /// interrupts a measurement.
    pub fn new(stop: Arc<AtomicBool>, progress: &'a dyn StepProgress) -> Self {
        Bench { real: None, stop, workers: available_cpus(), progress }
    }

    /// The same with another number of threads for virtual time.
    pub fn with_workers(self, workers: usize) -> Self {
        Bench { workers, ..self }
    }

    /// Measures a table. Once `stop` is set, what was measured by then is returned.
    ///
    /// # Errors
    /// A cell cannot be measured.
    pub fn measure(&mut self, table: Table, settings: MeasureSettings) -> Result<MeasuredTable> {
        let results = self.results(&table, &settings)?;
        Ok(MeasuredTable::new(table, results, settings))
    }

    /// The samples of all cells. Cells that were not reached when `stop` was set have none.
    fn results(&mut self, table: &Table, settings: &MeasureSettings) -> Result<Results> {
        let order = by_column(table);
        let turns =
            (0..settings.rounds).flat_map(|round| order.iter().map(move |&cell| (cell, round)));
        let turns: Vec<CellRound> = turns.map(|(cell, round)| CellRound { cell, round }).collect();
        let progress = self.progress;
        progress.start(&table.name, turns.len() as u64);
        let measure = |turn: CellRound, executor: &mut Executor| {
            if executor.is_stopped() {
                return Ok(None);
            }
            let name = table.name_of(turn.cell);
            progress.message(&name);
            let seed = settings.seed_of(turn.round);
            let sample = measure_cell(&table.cells[turn.cell], executor, settings, seed);
            if executor.is_stopped() {
                return Ok(None);
            }
            progress.advance(1);
            sample.map(Some).with_context(|| format!("{}: {name}", table.name))
        };
        let stop = || Arc::clone(&self.stop);
        let samples = match settings.clock {
            ClockKind::Real => {
                let executor =
                    self.real.get_or_insert_with(|| Executor::real_time(stop(), Box::new(())));
                turns.iter().map(|&turn| measure(turn, executor)).collect::<Result<Vec<_>>>()?
            }
            ClockKind::Virtual => parallel_map(self.workers, &turns, |&turn| {
                measure(turn, &mut Executor::interruptible(settings.costs, stop(), Box::new(())))
            })?,
        };
        progress.finish();
        let mut results = Results(vec![Rounds::default(); table.cells.len()]);
        for (turn, sample) in turns.iter().zip(samples) {
            results.0[turn.cell].0.extend(sample);
        }
        Ok(results)
    }
}

/// The cells column by column: cells of a column are compared with one another.
fn by_column(table: &Table) -> Vec<usize> {
    let column = |at: &usize| {
        let own = &table.cells[*at].column;
        table.cells.iter().position(|cell| cell.column == *own)
    };
    let mut order: Vec<usize> = (0..table.cells.len()).collect();
    order.sort_by_key(column);
    order
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
        scheduler: Some(setup.scheduler.clone()),
        seed,
        ..DeviceOptions::default()
    };
    let outcome = experiment::run(&setup.jobs, &device_options, settings.round(), executor)?;
    let percentiles = outcome.latencies.percentiles(&PERCENTILES);
    Ok(Sample {
        figure: cell.unit.of(outcome.ios, outcome.bytes, outcome.write_amplification()),
        latency: std::array::from_fn(|at| percentiles[at]),
    })
}
