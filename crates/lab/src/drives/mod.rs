//! Which kind of drive suits a job: the same flash, with the same spare part, as an ordinary drive, as
//! one with data placement and as a ZNS drive.
//!
//! Each drive is filled once, written by the jobs until it is in their steady state, and then
//! measured, in virtual time and with several seeds. The jobs have a device without zones each time:
//! on the ZNS drive the host has the translation layer.
mod flash;
mod render;

use crate::devices::Devices;
use crate::estimate::Estimate;
use crate::executor::{Executor, FinishedTask};
use crate::experiment::{self, Outcome, RunLength, available_cpus, parallel_map};
use crate::progress::{JobProgress, PhaseProgress, StepProgress};
use crate::run::Run;
use anyhow::{Context, Result};
use flash::Flash;
pub use flash::{Drive, FLASH};
pub use render::{conclusion, csv, html, json, text};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use zonal_blk::{Bytes, Nanos, QueueOptions};
use zonal_device::DeviceControl;
use zonal_device::control::TranslationStats;
use zonal_fio::job::{DataDir, Job, StreamOptions};
use zonal_fio::jobfile::{self, SystemEnvironment};
use zonal_sim::CostModel;

/// The job that fills a drive.
const FILL: [&str; 4] = ["--name=fill", "--rw=write", "--bs=1m", "--iodepth=8"];

/// Steps of the threads of jobs between two looks at how much has been written.
const STEPS_PER_LOOK: u64 = 256;

/// The drives to compare, and for how long.
#[derive(Clone, Debug)]
pub struct DrivesOptions {
    /// The drives.
    pub drives: Vec<Drive>,
    /// The ordinary drive whose flash all have: a spec or a TOML profile; [`FLASH`] if not given.
    pub flash: Option<String>,
    /// Writes of the jobs that are not measured, in sizes of the drive.
    pub before: f64,
    /// Writes that are measured, likewise.
    pub measured: f64,
    /// The most virtual seconds that each of the two takes.
    pub seconds: f64,
    /// Erasures that a block endures.
    pub cycles: u32,
    /// The first seed of the jobs.
    pub seed: u64,
    /// How often each drive is measured, each time with the next seed.
    pub seeds: u32,
    /// The cost of an I/O for the thread that submits it.
    pub io_cost: CostModel,
}

/// Drives that were measured with the same jobs.
pub struct Comparison {
    /// The ordinary drive whose flash all have, as it was named.
    pub flash: String,
    /// The options.
    pub options: DrivesOptions,
    /// The drives, in the order in which they were named.
    pub drives: Vec<MeasuredDrive>,
    /// Whether some were not measured.
    pub interrupted: bool,
}

/// A drive that was measured.
pub struct MeasuredDrive {
    /// The drive.
    pub drive: Drive,
    /// One line that describes it.
    pub description: String,
    /// The size that the jobs see, and that of the flash.
    pub sizes: (Bytes, Bytes),
    /// Its results, one for each seed. What its translation layer did is that of the measured time.
    pub outcomes: Vec<Outcome>,
}

impl Comparison {
    /// Jobs that did no I/O, and why, as [`Advice::without_io`](crate::advise::Advice::without_io).
    pub fn without_io(&self) -> Vec<String> {
        let drives = self.drives.iter();
        experiment::remarks(
            drives.map(|it| (it.drive.name().to_owned(), experiment::without_io(&it.outcomes))),
        )
    }

    /// Whether some job did no I/O on any drive: the comparison is for the others.
    pub fn leaves_out_a_job(&self) -> bool {
        experiment::is_idle_in_all(
            self.drives.iter().map(|it| experiment::without_io(&it.outcomes)),
        )
    }
}

impl MeasuredDrive {
    fn estimate(&self, value: impl Fn(&Outcome) -> f64) -> Estimate {
        let values: Vec<f64> = self.outcomes.iter().map(value).collect();
        Estimate::of(&values).expect("a drive is measured at least once")
    }

    /// Bytes written to the flash for each that the jobs wrote.
    pub fn write_amplification(&self) -> Estimate {
        self.estimate(Outcome::write_amplification)
    }

    /// Megabytes a second of the jobs, reads and writes.
    pub fn throughput(&self) -> Estimate {
        self.estimate(|outcome| outcome.bytes / 1e6)
    }

    /// I/Os a second.
    pub fn iops(&self) -> Estimate {
        self.estimate(|outcome| outcome.ios)
    }

    /// A percentile of the completion latencies in milliseconds.
    pub fn latency(&self, percentile: f64) -> Estimate {
        self.estimate(|outcome| outcome.latencies.percentiles(&[percentile])[0] as f64 / 1e6)
    }

    /// How often a block is erased, on average, while the jobs write the size of the drive; 0 if they
    /// wrote nothing.
    pub fn erases(&self) -> Estimate {
        let (size, _) = self.sizes;
        self.estimate(|outcome| {
            let TranslationStats { host, erased_superblocks, superblocks, .. } = layer(outcome);
            let sizes = host.0 as f64 / size.0 as f64;
            if host.0 == 0 {
                0.0
            } else {
                erased_superblocks as f64 / f64::from(superblocks) / sizes
            }
        })
    }

    /// How often the jobs can write the size of the drive until blocks that endure `cycles` erasures
    /// are worn.
    pub fn drive_writes(&self, cycles: u32) -> Estimate {
        let (size, flash) = self.sizes;
        let all = f64::from(cycles) * flash.0 as f64 / size.0 as f64;
        self.estimate(|outcome| all / outcome.write_amplification())
    }
}

fn layer(outcome: &Outcome) -> TranslationStats {
    outcome.devices[0].translation.expect("each of the drives has a translation layer")
}

/// Measures jobs on drives; once `stop` is set, on those that were done by then.
///
/// # Errors
/// A drive cannot be created, or a job cannot run on it.
pub fn compare(
    jobs: &[Job],
    options: &DrivesOptions,
    stop: &Arc<AtomicBool>,
    progress: &dyn StepProgress,
) -> Result<Comparison> {
    let name = options.flash.as_deref().unwrap_or(FLASH);
    let flash = Flash::of(name).with_context(|| format!("device {name}"))?;
    experiment::check_one_phase(jobs)?;
    let seeds = (0..options.seeds).map(|at| options.seed.wrapping_add(at.into()));
    let turn = |&drive: &Drive| seeds.clone().map(move |seed| (drive, seed));
    let turns: Vec<(Drive, u64)> = options.drives.iter().flat_map(turn).collect();
    progress.start("", turns.len() as u64);
    let outcomes = parallel_map(available_cpus(), &turns, |&(drive, seed)| {
        let outcome = measure(&flash, drive, jobs, options, seed, stop);
        progress.advance(1);
        outcome.with_context(|| drive.name())
    })?;
    progress.finish();
    let mut outcomes = outcomes.into_iter();
    let mut drives = Vec::new();
    for &drive in &options.drives {
        let own: Vec<_> = outcomes.by_ref().take(options.seeds as usize).collect();
        if let Some(outcomes) = own.into_iter().collect::<Option<_>>() {
            let (description, sizes) = (flash.describe(drive)?, flash.sizes());
            drives.push(MeasuredDrive { drive, description, sizes, outcomes });
        }
    }
    Ok(Comparison {
        flash: name.to_owned(),
        interrupted: drives.len() < options.drives.len(),
        options: options.clone(),
        drives,
    })
}

/// Measures a drive of its own. `None` if it was stopped.
fn measure(
    flash: &Flash,
    drive: Drive,
    jobs: &[Job],
    options: &DrivesOptions,
    seed: u64,
    stop: &Arc<AtomicBool>,
) -> Result<Option<Outcome>> {
    let stack = flash.stack(drive)?.attach(QueueOptions::default())?;
    let model = Arc::clone(&stack.model);
    let mut turn = Turn { devices: Devices::one(stack), model, now: Nanos(0), options, seed, stop };
    let fill = jobfile::parse_args(FILL, &SystemEnvironment)?.jobs;
    turn.run(fill, u64::MAX)?;
    let jobs = placed(jobs, drive, flash.ids());
    let writes = jobs.iter().any(|job| job.uses(DataDir::Write));
    let length = RunLength { ramp: 0.0, measured: options.seconds };
    let limited = || experiment::limited(jobs.clone(), Some(length));
    let sizes =
        |sizes: f64| if writes { (sizes * flash.sizes().0.0 as f64) as u64 } else { u64::MAX };
    if writes && options.before > 0.0 {
        turn.run_limited(&limited(), sizes(options.before))?;
    }
    let before = turn.written();
    let finished = turn.run_limited(&limited(), sizes(options.measured))?;
    if stop.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let mut outcome = experiment::outcome(&finished, &turn.devices)?;
    outcome.devices[0].translation = Some(turn.written().since(&before));
    Ok(Some(outcome))
}

/// The jobs as they run on a drive: only one with data placement is told which data belong together. A
/// job that does not say so itself has a placement identifier of its own for as long as there are some.
fn placed(jobs: &[Job], drive: Drive, ids: usize) -> Vec<Job> {
    let mut jobs = jobs.to_vec();
    let says_so = jobs.iter().any(|job| job.address.streams.fdp);
    for (at, job) in jobs.iter_mut().enumerate() {
        if drive != Drive::Fdp {
            job.address.streams = StreamOptions::default();
        } else if !says_so {
            let index = u16::try_from(at % ids).expect("a drive has few");
            let indices = vec![index];
            job.address.streams = StreamOptions { fdp: true, indices, ..StreamOptions::default() };
        }
    }
    jobs
}

/// A drive that jobs run on, one after another.
struct Turn<'a> {
    devices: Devices,
    model: Arc<dyn DeviceControl>,
    now: Nanos,
    options: &'a DrivesOptions,
    seed: u64,
    stop: &'a Arc<AtomicBool>,
}

impl Turn<'_> {
    fn written(&self) -> TranslationStats {
        self.model.translation().expect("each of the drives has a translation layer")
    }

    fn run(&mut self, jobs: Vec<Job>, bytes: u64) -> Result<Vec<FinishedTask>> {
        let jobs: Vec<Arc<Job>> = jobs.into_iter().map(Arc::new).collect();
        self.run_limited(&jobs, bytes)
    }

    /// Runs jobs until they are done, or have written this much.
    fn run_limited(&mut self, jobs: &[Arc<Job>], bytes: u64) -> Result<Vec<FinishedTask>> {
        let enough = Arc::new(AtomicBool::new(self.stop.load(Ordering::Relaxed)));
        let until = UntilWritten {
            model: Arc::clone(&self.model),
            bytes: self.written().host.0.saturating_add(bytes),
            enough: Arc::clone(&enough),
            stop: Arc::clone(self.stop),
        };
        let mut executor = Executor::Virtual {
            now: self.now,
            costs: self.options.io_cost,
            workers: 1,
            stop: enough,
            progress: Box::new(until),
        };
        let mut run = Run::prepare_on(jobs, std::mem::take(&mut self.devices), self.seed)?;
        let finished = run.execute(&mut executor, self.seed)?;
        self.devices = run.into_devices();
        if let Executor::Virtual { now, .. } = executor {
            self.now = now;
        }
        Ok(finished)
    }
}

/// Stops jobs once they have written enough.
struct UntilWritten {
    model: Arc<dyn DeviceControl>,
    bytes: u64,
    enough: Arc<AtomicBool>,
    /// Stops everything.
    stop: Arc<AtomicBool>,
}

impl JobProgress for UntilWritten {
    fn start(&mut self, _phase: PhaseProgress) {}

    fn update(&mut self, _elapsed: Nanos) {
        let written = self.model.translation().map_or(0, |stats| stats.host.0);
        if written >= self.bytes || self.stop.load(Ordering::Relaxed) {
            self.enough.store(true, Ordering::Relaxed);
        }
    }

    fn finish(&mut self) {}

    fn steps(&self) -> u64 {
        STEPS_PER_LOOK
    }
}
