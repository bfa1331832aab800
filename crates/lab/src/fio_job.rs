//! A job with `verify` as the judge of the crash lab: in each state it verifies what it had written and
//! flushed before the loss of power, as with `verify_policy=fsynced`.
use crate::devices::DeviceOptions;
use crate::executor::{Executor, FinishedTask};
use crate::run::Run;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use zonal_blk::{Op, Status};
use zonal_crash::State;
use zonal_crash::judge::Case;
use zonal_crash::log::{Blocks, Command, Event, Log};
use zonal_fio::job::{Job, Rw};
use zonal_fio::jobfile::{SystemEnvironment, parse_file};
use zonal_fio::verify::{BlockHeader, StateTracker, VerifyState};

/// The job whose writes were recorded.
pub struct FioJob {
    job: Arc<Job>,
    /// By the number of events before the loss of power: what was known then.
    states: BTreeMap<u64, Arc<VerifyState>>,
    /// A state had something to verify.
    found: AtomicBool,
}

impl FioJob {
    /// The job of a file, which has one, and of a log of its writes.
    ///
    /// # Errors
    /// The file has no job that can verify what one clone of it wrote, or the log is damaged.
    pub fn open(file: &Path, log: &Log) -> Result<Self> {
        let mut jobs = parse_file(file, &SystemEnvironment)?.jobs;
        let found = jobs.len();
        let job = jobs.pop().filter(|_| found == 1);
        let mut job = job.with_context(|| format!("found {found} jobs, expected one"))?;
        let verify = &job.verify;
        let writes = job.rw != Rw::Read && job.rw != Rw::Trim;
        let has_header = verify.method.is_some_and(|method| method.has_header());
        ensure!(
            writes && job.numjobs == 1 && has_header && verify.offset == 0 && !job.time_based,
            "job {}: expected one clone that writes with verify=meta or a checksum, without \
             verify_offset and time_based",
            job.name
        );
        (job.verify.only, job.verify.fsynced) = (true, true);
        job.verify.state_save = false;
        let states = states(&job, log).context("the log")?;
        Ok(FioJob { job: Arc::new(job), states, found: AtomicBool::new(false) })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.job.name
    }

    /// The faults that the job finds in a state.
    ///
    /// # Errors
    /// The job cannot be run on the image.
    pub fn violation(&self, case: &Case<'_>) -> Result<Option<String>> {
        let state: State = case.state.parse()?;
        let Some((_, known)) = self.states.range(..=state.cut).next_back() else { return Ok(None) };
        if known.synced == 0 {
            return Ok(None);
        }
        self.found.store(true, Ordering::Relaxed);
        let image = case.image.to_string_lossy().into_owned();
        let options = DeviceOptions {
            device: Some(image.clone()),
            real_time: true,
            ..DeviceOptions::default()
        };
        let jobs = [Arc::clone(&self.job)];
        let mut run = Run::prepare_after(&jobs, &options, known)?;
        let mut executor = Executor::real_time(Arc::default(), Box::new(()));
        let finished = run.execute(&mut executor, 0)?;
        Ok(finished.iter().find_map(|done| wrong(done, &image)))
    }

    /// Whether any state had something to verify.
    ///
    /// # Errors
    /// None had: no write of the job was followed by a flush.
    pub fn conclude(&self) -> Result<(), String> {
        match self.found.load(Ordering::Relaxed) {
            true => Ok(()),
            false => Err(format!(
                "--job: found no state in which a write of job {} was flushed, expected the log of that \
                 job with fsync, fdatasync or sync",
                self.job.name
            )),
        }
    }
}

/// The findings of a job that verified.
fn wrong(done: &FinishedTask, image: &str) -> Option<String> {
    let found = done.outcome.findings.kept().first().map(|finding| finding.text(image));
    let failed = || done.outcome.error.map(|error| error.to_string());
    Some(format!("job {}: {}", done.task.job.name, found.or_else(failed)?))
}

/// The state of a job's writes after each event that changes it.
fn states(job: &Job, log: &Log) -> Result<BTreeMap<u64, Arc<VerifyState>>> {
    let mut tracker = StateTracker::new(job.sync.is_fua());
    let (mut blocks, lba) = (log.blocks(), log.header().zoned().0.lba_size);
    let mut in_flight: BTreeMap<u64, InFlight> = BTreeMap::new();
    let mut states = BTreeMap::new();
    for (event, number) in log.events().zip(1..) {
        match event {
            Event::Started { id, command } if command.op == Op::Flush => {
                tracker.flushes();
                in_flight.insert(id, InFlight::Flush);
            }
            Event::Started { id, command } if command.op.is_write() => {
                let writes = writes(&command, lba, &mut blocks, &mut tracker)?;
                in_flight.insert(id, InFlight::Writes(writes));
            }
            Event::Ended { id, status, .. } => match in_flight.remove(&id) {
                Some(InFlight::Flush) => tracker.flushed(status == Status::Ok),
                Some(InFlight::Writes(writes)) if status == Status::Ok => {
                    writes.into_iter().for_each(|write| tracker.completed(write));
                }
                _ => continue,
            },
            _ => continue,
        }
        states.insert(number, Arc::new(tracker.state()));
    }
    Ok(states)
}

/// A command that has not completed.
enum InFlight {
    Flush,
    /// The writes that are whole in it.
    Writes(Vec<u32>),
}

/// The writes of the job that a command begins. Returns those that are whole in it; the others count as
/// unfinished.
fn writes(
    command: &Command,
    lba: u32,
    blocks: &mut Blocks,
    tracker: &mut StateTracker,
) -> Result<Vec<u32>> {
    let bytes = u64::from(command.nr_sectors) * 512;
    let mut block = vec![0; lba as usize];
    let mut whole: BTreeMap<u32, bool> = BTreeMap::new();
    for (at, number) in (0..).step_by(lba as usize).zip(command.block_numbers()) {
        blocks.read(number, &mut block)?;
        let Some(header) = BlockHeader::find(&block) else { continue };
        let write = tracker.nearest(header.number);
        tracker.wrote_up_to(write);
        *whole.entry(write).or_insert(true) &= at + u64::from(header.len) <= bytes;
    }
    Ok(whole.into_iter().filter(|(_, is_whole)| *is_whole).map(|(write, _)| write).collect())
}
