//! Measures the cells of a table, round by round.
//!
//! Takes a table; gives for each cell a sample of each round. Keeps true: every cell has its own
//! devices, made for the round.
//!
//! On the real clock rounds go over all cells before the next begins, so that what disturbs the
//! machine for a while disturbs all cells alike; what is compared is measured close together. In
//! virtual time a cell's sample depends on the cell and the seed alone, so cells are measured side
//! by side, each in a virtual time of its own.
use super::how::How;
use super::measured::{PERCENTILES, Results, Rounds, Sample};
use super::table::{Cell, Setup, Table, Unit};
use crate::cli::{ClockKind, Eta};
use crate::devices::{Devices, Wishes};
use crate::machine::{Finished, Machine};
use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use zonal_blk::{Nanos, QueueOptions};
use zonal_workload::job::{DataDir, Job};
use zonal_workload::jobfile::{self, SystemSource};
use zonal_workload::plan::{self, Task};
use zonal_workload::stats::{Histogram, IoStats};

/// What measures tables, one after another.
pub struct Bench {
    /// That of the real clock, of which there can be one, when it was first wanted.
    real: Option<Machine>,
    /// Threads for virtual time.
    workers: usize,
}

/// A cell in a round.
#[derive(Clone, Copy)]
struct Turn {
    cell: usize,
    round: u32,
}

impl Bench {
    /// With a thread for each processor that this process may use.
    pub fn new() -> Self {
        Self::with_workers(thread::available_parallelism().map_or(1, NonZeroUsize::get))
    }

    /// With so many threads for virtual time.
    pub fn with_workers(workers: usize) -> Self {
        Bench { real: None, workers }
    }

    /// Measures a table.
    ///
    /// # Errors
    /// What is wrong with a cell, or an interrupt.
    pub fn measure(&mut self, table: &Table, how: &How) -> Result<Results> {
        let order = by_column(table);
        let turns = (0..how.rounds).flat_map(|round| order.iter().map(move |&cell| (cell, round)));
        let turns: Vec<Turn> = turns.map(|(cell, round)| Turn { cell, round }).collect();
        let progress = progress(turns.len() as u64).with_prefix(table.name);
        let show = |turn: Turn| progress.set_message(table.name_of(turn.cell));
        let measure = |turn: Turn, machine: &mut Machine| {
            let sample =
                measure_cell(&table.cells[turn.cell], machine, how, how.seed_of(turn.round));
            progress.inc(1);
            sample.with_context(|| format!("{}: {}", table.name, table.name_of(turn.cell)))
        };
        let samples = match how.clock {
            ClockKind::Real => {
                let machine = match &mut self.real {
                    Some(machine) => machine,
                    none => none.insert(machine(how)?),
                };
                let one = |&turn: &Turn| {
                    show(turn);
                    let sample = measure(turn, machine);
                    if machine.is_stopped() {
                        bail!("interrupted");
                    }
                    sample
                };
                turns.iter().map(one).collect::<Result<Vec<Sample>>>()?
            }
            ClockKind::Virtual => side_by_side(self.workers, &turns, |&turn| {
                show(turn);
                measure(turn, &mut machine(how)?)
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
pub fn machine(how: &How) -> Result<Machine> {
    Machine::new(how.clock, how.costs, Eta::Never)
}

/// Does something with each of `items` on so many threads; gives the outcomes in their order.
///
/// # Errors
/// The first item's, of those that fail; what was not begun by then is not done.
fn side_by_side<T: Sync, R: Send>(
    workers: usize,
    items: &[T],
    work: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(items.len()));
    let worker = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { break };
            let outcome = work(item);
            if outcome.is_err() {
                next.store(items.len(), Ordering::Relaxed);
            }
            done.lock().unwrap_or_else(PoisonError::into_inner).push((at, outcome));
        }
    };
    thread::scope(|scope| {
        for _ in 0..workers.clamp(1, items.len().max(1)) {
            scope.spawn(worker);
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|&(at, _)| at);
    done.into_iter().map(|(_, outcome)| outcome).collect()
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
fn measure_cell(cell: &Cell, machine: &mut Machine, how: &How, seed: u64) -> Result<Sample> {
    let setup = &cell.setup;
    let (ramp, measured) = how.round();
    let phases = phases(setup, ramp, measured)?;
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
    sample(&finished, cell.unit)
}

/// The clones of a cell's jobs, which end after so many seconds that are not measured and so many
/// that are.
///
/// # Errors
/// What is wrong with the jobs.
pub fn phases(setup: &Setup, ramp: f64, measured: f64) -> Result<Vec<Vec<Task>>> {
    let mut jobs = jobfile::parse_args(&setup.jobs, &SystemSource)?.jobs;
    for job in &mut jobs {
        job.ramp_time = Nanos((ramp * 1e9) as u64);
        job.runtime = Some(Nanos((measured * 1e9) as u64));
        job.time_based = true;
    }
    let jobs: Vec<Arc<Job>> = jobs.into_iter().map(Arc::new).collect();
    Ok(plan::phases(&jobs))
}

/// What all clones did together: their I/O over the time of the longest.
fn sample(finished: &[Finished], unit: Unit) -> Result<Sample> {
    let mut all = IoStats::new();
    for Finished { task, outcome, .. } in finished {
        if let Some(status) = outcome.error {
            bail!("job {}: {status}", task.job.name);
        }
        all.merge(&outcome.stats);
    }
    let (mut ios, mut bytes, mut time) = (0, 0, Nanos(0));
    let mut latencies = Histogram::new();
    for dir in [DataDir::Read, DataDir::Write] {
        ios += all.ios(dir);
        bytes += all.bytes(dir);
        time = time.max(all.runtime(dir));
        latencies.merge(all.clat_histogram(dir));
    }
    if ios == 0 {
        bail!("no I/O completed in the time that is measured");
    }
    let per_second = |count: u64| count as f64 * 1e9 / time.0.max(1) as f64;
    let percentiles = latencies.percentiles(&PERCENTILES);
    Ok(Sample {
        figure: unit.of(per_second(ios), per_second(bytes)),
        latency: std::array::from_fn(|at| percentiles[at]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn outcomes_are_in_the_order_of_the_items_however_many_threads_there_are() {
        let items: Vec<u64> = (0..50).collect();
        let squares: Vec<u64> = items.iter().map(|item| item * item).collect();
        for workers in [0, 1, 3, 100] {
            let outcomes = side_by_side(workers, &items, |item| Ok(item * item)).unwrap();
            assert_eq!(outcomes, squares);
        }
        assert_eq!(side_by_side(2, &[0_u8; 0], |_| Ok(())).unwrap(), []);
    }

    #[test]
    fn failure_ends_the_work_and_is_told() {
        let items: Vec<u64> = (0..1000).collect();
        let begun = AtomicUsize::new(0);
        let outcome = side_by_side(1, &items, |&item| {
            begun.fetch_add(1, Ordering::Relaxed);
            if item == 3 { Err(anyhow!("three")) } else { Ok(item) }
        });
        assert_eq!(outcome.unwrap_err().to_string(), "three");
        assert_eq!(begun.into_inner(), 4);
    }
}
