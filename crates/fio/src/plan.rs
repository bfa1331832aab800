//! The execution plan of a run: phases separated by `stonewall`, reporting groups, and clones that
//! run at the same time.
mod order;

use crate::generate::{FilePlace, Generator, Region, RegionError, ZbdTable};
use crate::job::{CpusPolicy, Job, ZoneMode};
use crate::logs::{LogFiles, Logs};
use crate::mistake::mistake;
use crate::rng::Rng;
use crate::runner::command_prio::CommandPrios;
use crate::runner::contents::Contents;
use crate::runner::run_state::{RunParts, RunState};
use crate::runner::verifier::Verifier;
use crate::runner::write_streams::WriteStreams;
use crate::runner::{
    CloneOrder, JobRunner, Pace, Recording, RunLimits, StatusReports, SteadyGroup,
};
use crate::trace::TraceSlice;
use crate::verify::VerifyState;
use order::arrange;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use zonal_blk::{Channel, DataPlacement, Limits};

/// The stream of random numbers for written data; the generator uses 0 and 1.
const DATA_STREAM: u64 = 2;
/// The stream for `rate_process=poisson`.
const PACE_STREAM: u64 = 4;
/// The stream for `cmdprio_percentage`.
const PRIO_STREAM: u64 = 5;
/// The stream for `plid_select=random`.
const PLACEMENT_STREAM: u64 = 9;
/// The stream for a range of `startdelay`.
const DELAY_STREAM: u64 = 7;
/// The stream for `trim_percentage`.
const TRIM_STREAM: u64 = 6;
/// That of what writes contain.
const CONTENTS_STREAM: u64 = 8;

/// Most clones of all jobs of a run, as in fio.
const MAX_CLONES: u64 = 4096;
/// Most I/Os in flight in a phase: those of two clones with the largest `iodepth`.
const MAX_IN_FLIGHT: u64 = 2 << 20;

/// One clone of a job.
#[derive(Clone, Debug)]
pub struct Task {
    /// The job.
    pub job: Arc<Job>,
    /// Index of the job in the job file.
    pub index: u32,
    /// Index of the clone in the job.
    pub clone: u32,
    /// Reporting group.
    pub group: u32,
    /// The requests to replay instead of generated I/O.
    pub trace_slice: Option<TraceSlice>,
    /// The device of a trace; overrides that of the job.
    pub device: Option<String>,
    /// The file of the clone on its device; `None` if the device is the file.
    pub file: Option<FilePlace>,
    /// The trace to record.
    pub recording: Option<Arc<Recording>>,
    /// The files of the logs to write.
    pub logs: LogFiles,
    /// The state in which an earlier run left what is to be verified.
    pub verify_state: Option<Arc<VerifyState>>,
    /// Where to publish statistics while the clone runs.
    pub status: Option<StatusReports>,
    /// How it begins and ends by others.
    pub order: Option<CloneOrder>,
    /// The clones with which it is steady.
    pub steady: Option<Arc<SteadyGroup>>,
    /// Bytes that it and the clones with which it is reported have done in their ramp.
    pub ramp: Option<Arc<AtomicU64>>,
}

/// Why jobs cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// There are too many clones.
    #[error("numjobs: the jobs have {0} clones in total, expected at most {MAX_CLONES}")]
    Clones(u64),
    /// Too many I/Os would be in flight at the same time.
    #[error(
        "iodepth: job {job} and those that run with it would have {found} I/Os in flight, expected \
         at most {MAX_IN_FLIGHT}"
    )]
    InFlight {
        /// The first of the jobs.
        job: String,
        /// `numjobs` times `iodepth`, over all jobs of the phase.
        found: u64,
    },
    /// There is not one job that another can wait for.
    #[error("job {job}: wait_for: {problem}")]
    WaitFor {
        /// The job that waits.
        job: String,
        /// The error.
        problem: String,
    },
    /// The clones on a file system have one runner.
    #[error("job {job}: jobs on file systems cannot be combined with wait_for or exitall")]
    OrderOnFileSystem {
        /// The job on a file system.
        job: String,
    },
}

/// Divides the jobs into phases. A job with `stonewall` starts a phase and, as in fio, a group.
///
/// # Errors
/// The jobs are too many or too deep; nothing has been allocated for them then.
pub fn phases(jobs: &[Arc<Job>]) -> Result<Vec<Vec<Task>>, PlanError> {
    check_sizes(jobs)?;
    let mut phases: Vec<Vec<Task>> = Vec::new();
    let mut group = 0;
    for (index, job) in (0..).zip(jobs) {
        if index == 0 || job.stonewall {
            phases.push(Vec::new());
        }
        if index > 0 && (job.stonewall || job.new_group) {
            group += 1;
        }
        let phase = phases.last_mut().expect("the first job starts a phase");
        let clone = |clone| Task { index, clone, group, ..Task::of(job) };
        phase.extend((0..job.numjobs).map(clone));
    }
    arrange(&mut phases)?;
    for phase in &mut phases {
        join_steady(phase);
        join_ramps(phase);
    }
    Ok(phases)
}

/// Has the clones of a phase that are reported together do the I/O of their ramp together.
fn join_ramps(phase: &mut [Task]) {
    let mut groups: BTreeMap<u32, Arc<AtomicU64>> = BTreeMap::new();
    for task in phase.iter_mut().filter(|it| it.job.limits.ramp_size > 0 && it.job.group_reporting)
    {
        task.ramp = Some(Arc::clone(groups.entry(task.group).or_default()));
    }
}

/// Has the clones of a phase that end at a steady state know those with which they are judged.
fn join_steady(phase: &mut [Task]) {
    let mut groups: BTreeMap<u32, Arc<SteadyGroup>> = BTreeMap::new();
    for at in 0..phase.len() {
        let (job, group) = (Arc::clone(&phase[at].job), phase[at].group);
        if !job.group_reporting {
            phase[at].steady = SteadyGroup::new(&job.limits.steady, 1);
            continue;
        }
        let is_member = |task: &&Task| {
            let (job, steady) = (&task.job, &task.job.limits.steady);
            task.group == group && job.group_reporting && steady.criterion.is_some()
        };
        let members = phase.iter().filter(is_member).count();
        if job.limits.steady.criterion.is_some() && !groups.contains_key(&group) {
            groups.extend(SteadyGroup::new(&job.limits.steady, members).map(|it| (group, it)));
        }
        phase[at].steady = job.limits.steady.criterion.and(groups.get(&group).map(Arc::clone));
    }
}

fn check_sizes(jobs: &[Arc<Job>]) -> Result<(), PlanError> {
    let clones = jobs.iter().map(|job| u64::from(job.numjobs)).sum();
    if clones > MAX_CLONES {
        return Err(PlanError::Clones(clones));
    }
    for phase in jobs.chunk_by(|_, next| !next.stonewall) {
        let found = phase.iter().map(|job| u64::from(job.numjobs) * u64::from(job.iodepth)).sum();
        if found > MAX_IN_FLIGHT {
            return Err(PlanError::InFlight { job: phase[0].name.clone(), found });
        }
    }
    Ok(())
}

/// The limit of zones being written in a phase: the lowest `max_open_zones` of its jobs, 0 if none
/// has one.
pub fn max_open_zones<'a>(jobs: impl Iterator<Item = &'a Job>) -> u32 {
    jobs.map(|job| job.max_open_zones).filter(|&limit| limit > 0).min().unwrap_or(0)
}

impl Task {
    /// A task for the first clone of a job.
    pub fn of(job: &Arc<Job>) -> Self {
        Task {
            job: Arc::clone(job),
            index: 0,
            clone: 0,
            group: 0,
            trace_slice: None,
            device: None,
            file: None,
            recording: None,
            logs: LogFiles::default(),
            verify_state: None,
            status: None,
            order: None,
            steady: None,
            ramp: None,
        }
    }

    /// The device of the clone, if it names one.
    pub fn device(&self) -> Option<&str> {
        self.device.as_deref().or(self.job.filename.as_deref())
    }

    /// The region of the clone on a device: all of it for a trace.
    ///
    /// # Errors
    /// The option that does not fit the device.
    pub fn region(&self, limits: &Limits) -> Result<Region, RegionError> {
        match self.trace_slice {
            Some(_) => {
                let end = limits.capacity.to_bytes().0;
                let lba = limits.lba_size.into();
                let (size, io_size) = (u64::MAX, u64::MAX);
                Ok(Region { start: 0, end, size, io_size, lba, limit: end })
            }
            None => {
                let clone = if mistake!(ClonesOverlap) { 0 } else { self.clone };
                let region = match self.file {
                    Some(file) => Region::in_file(&self.job, clone, file, limits),
                    None => Region::new(&self.job, clone, limits),
                };
                Ok(self.with_mistakes(region?, limits))
            }
        }
    }

    /// A region as a job generator with a mistake would have it, if one is switched on.
    fn with_mistakes(&self, mut region: Region, limits: &Limits) -> Region {
        let zbd = self.job.zonemode == ZoneMode::Zbd;
        if mistake!(OneZoneTooMany) && zbd {
            let end = region.end + limits.zone_size.to_bytes().0;
            region.end = end.min(limits.capacity.to_bytes().0);
        }
        let block = self.job.bs.into_iter().max().expect("three block sizes");
        if mistake!(RegionTooShort) && !zbd && region.len() > block {
            region.end -= block;
        }
        if mistake!(OffsetForgotten) {
            region.start = 0;
        }
        if mistake!(AmountHalved) && self.job.io_size.is_some() {
            region.io_size /= 2;
        }
        region
    }

    /// Creates the runner of the clone. `id` is unique among the clones that share `zbd`; `seed` is
    /// mixed with that of the job; `with_data` is for devices that store data.
    pub fn runner(
        &self,
        region: Region,
        channel: Channel,
        zbd: Option<Arc<ZbdTable>>,
        id: u32,
        seed: u64,
        with_data: bool,
    ) -> JobRunner {
        let zone_size = channel.queue().limits().zone_size.to_bytes().0;
        let zbd = zbd.filter(|_| self.job.zonemode == ZoneMode::Zbd);
        let stream = [self.job.randseed, u64::from(self.index), u64::from(self.clone)];
        let mut generator = match &self.trace_slice {
            Some(slice) => Generator::replay(&self.job, slice.clone()),
            None => Generator::new(&self.job, region, zbd.clone(), zone_size, id, seed, stream),
        };
        if self.job.zbd.recover_errors {
            generator.recover_from(channel.queue().device());
        }
        let zone_size = channel.queue().limits().zone_size;
        let rng = |purpose| Rng::new(seed, [stream[0], stream[1], stream[2], purpose]);
        let seeds = (rng(DATA_STREAM).next(), rng(TRIM_STREAM));
        let mut verifier = Verifier::new(&self.job, self.clone, seeds, zbd, zone_size);
        if let (Some(verifier), Some(state)) = (&mut verifier, &self.verify_state) {
            verifier.load(Arc::clone(state), self.job.verify.fsynced);
        }
        let contents = Contents::new(&self.job, region.len(), rng(CONTENTS_STREAM));
        let contents = contents.filter(|_| verifier.is_none() && with_data);
        let placement = channel.queue().device().placement().map(DataPlacement::layout);
        let parts = RunParts {
            streams: WriteStreams::new(&self.job, placement, rng(PLACEMENT_STREAM)),
            recording: self.recording.as_ref(),
            logs: Logs::new(&self.job, &self.logs),
            limits: RunLimits::new(&self.job, self.steady.as_ref()),
            prios: CommandPrios::new(&self.job, rng(PRIO_STREAM)),
            contents: contents.map(Box::new),
            verifier,
        };
        let run_state = RunState::new(&self.job, parts);
        let job = Arc::clone(&self.job);
        let mut pace = Pace::new(&job, region.io_size, rng(PACE_STREAM));
        pace.start_after_up_to(job.limits.startdelay_max, &mut rng(DELAY_STREAM));
        pace.set_passes(&job, region);
        if let Some(ramp) = &self.ramp {
            pace.join_ramp(Arc::clone(ramp));
        }
        let mut runner = JobRunner::new(job, channel, generator, pace, with_data);
        runner.set_run_state(run_state);
        runner.set_status(self.status.clone());
        runner.set_order(self.order.clone());
        runner
    }

    /// The CPUs that the clone may use (`cpus_allowed`, `cpus_allowed_policy`). A CPU that is not online
    /// is replaced by one that is, so that a job for a larger machine runs; empty for all CPUs.
    pub fn cpus(&self, online: &[usize]) -> Vec<usize> {
        let allowed = &self.job.cpus_allowed;
        if allowed.is_empty() || online.is_empty() {
            return Vec::new();
        }
        let replaced = |&cpu: &usize| {
            if online.contains(&cpu) { cpu } else { online[cpu % online.len()] }
        };
        match self.job.cpus_allowed_policy {
            CpusPolicy::Split => vec![replaced(&allowed[self.clone as usize % allowed.len()])],
            CpusPolicy::Shared => {
                let mut cpus: Vec<usize> = allowed.iter().map(replaced).collect();
                cpus.sort_unstable();
                cpus.dedup();
                cpus
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str, numjobs: u32, stonewall: bool, new_group: bool) -> Arc<Job> {
        Arc::new(Job { name: name.into(), numjobs, stonewall, new_group, ..Job::default() })
    }

    #[test]
    fn stonewall_starts_a_phase_and_a_group_new_group_only_a_group() {
        let jobs = [job("a", 2, true, false), job("b", 1, false, true), job("c", 1, true, false)];
        let phases = phases(&jobs).expect("a few jobs");
        let seen: Vec<Vec<_>> = phases
            .iter()
            .map(|phase| phase.iter().map(|t| (t.job.name.as_str(), t.clone, t.group)).collect())
            .collect();
        let expected = vec![vec![("a", 0, 0), ("a", 1, 0), ("b", 0, 1)], vec![("c", 0, 2)]];
        assert_eq!(seen, expected);
    }

    #[test]
    fn too_many_clones_or_ios_are_refused() {
        let deep = |numjobs, iodepth, stonewall| {
            Arc::new(Job { name: "d".into(), numjobs, iodepth, stonewall, ..Job::default() })
        };
        let error = |jobs: &[_]| phases(jobs).expect_err("too much").to_string();
        assert_eq!(
            error(&[deep(4096, 1 << 20, false)]),
            "iodepth: job d and those that run with it would have 4294967296 I/Os in flight, \
             expected at most 2097152"
        );
        assert_eq!(
            error(&[deep(4096, 1, false), deep(1, 1, true)]),
            "numjobs: the jobs have 4097 clones in total, expected at most 4096"
        );
        let most = deep(2, 1 << 20, true);
        assert!(phases(&[Arc::clone(&most), most]).is_ok(), "one after the other");
    }

    #[test]
    fn cpus_are_shared_or_split_and_missing_ones_are_replaced() {
        let job = |policy| Job {
            cpus_allowed: vec![1, 2, 3, 4],
            cpus_allowed_policy: policy,
            ..Job::default()
        };
        let task = |policy, clone| Task { clone, ..Task::of(&Arc::new(job(policy))) };
        let split: Vec<_> =
            (0..5).map(|clone| task(CpusPolicy::Split, clone).cpus(&[0, 1])[0]).collect();
        assert_eq!(split, [1, 0, 1, 0, 1]);
        assert_eq!(task(CpusPolicy::Shared, 0).cpus(&[0, 1]), [0, 1]);
        assert_eq!(task(CpusPolicy::Split, 2).cpus(&[0, 1, 2, 3, 4]), [3]);
    }
}
