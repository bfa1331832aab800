//! Which clones run when: phases divided by `stonewall`, reporting groups.
//!
//! Takes the jobs in their order; gives phases, one after another, each of clones that run together.
use crate::generate::random::Rng;
use crate::generate::{Generator, Region, RegionError, ZbdTable};
use crate::job::{CpusPolicy, Job, ZoneMode};
use crate::runner::JobRunner;
use crate::runner::run_state::RunState;
use crate::runner::verifier::Verifier;
use crate::trace::{Recording, TraceSlice};
use std::sync::Arc;
use zonal_blk::{Channel, Limits};

/// What a clone's random numbers are for, beside those of its generator.
const CHECKED_DATA: u64 = 2;

/// One clone of a job, to be run on a thread of its own.
#[derive(Clone, Debug)]
pub struct Task {
    /// The job.
    pub job: Arc<Job>,
    /// The job's place in the job file.
    pub index: u32,
    /// The clone's place among its like.
    pub clone: u32,
    /// Reporting group.
    pub group: u32,
    /// The requests that the clone does, instead of its own.
    pub share: Option<TraceSlice>,
    /// The device that a trace is for, whatever the job names.
    pub device: Option<String>,
    /// The trace that is made of the run.
    pub recording: Option<Arc<Recording>>,
}

/// Divides the jobs into phases. A job with `stonewall` begins a phase, and as in fio a group.
pub fn phases(jobs: &[Arc<Job>]) -> Vec<Vec<Task>> {
    let mut phases: Vec<Vec<Task>> = Vec::new();
    let mut group = 0;
    for (index, job) in (0..).zip(jobs) {
        if index == 0 || job.stonewall {
            phases.push(Vec::new());
        }
        if index > 0 && (job.stonewall || job.new_group) {
            group += 1;
        }
        let phase = phases.last_mut().expect("the first job begins a phase");
        let clone = |clone| Task { index, clone, group, ..Task::of(job) };
        phase.extend((0..job.numjobs).map(clone));
    }
    phases
}

/// The number of write-target zones that the jobs of a phase allow: the smallest that one of them
/// asks for, 0 if none does.
pub fn max_open_zones<'a>(jobs: impl Iterator<Item = &'a Job>) -> u32 {
    jobs.map(|job| job.max_open_zones).filter(|&limit| limit > 0).min().unwrap_or(0)
}

impl Task {
    /// The first clone of a job by itself.
    pub fn of(job: &Arc<Job>) -> Self {
        Task {
            job: Arc::clone(job),
            index: 0,
            clone: 0,
            group: 0,
            share: None,
            device: None,
            recording: None,
        }
    }

    /// The device that the clone asks for.
    pub fn device(&self) -> Option<&str> {
        self.device.as_deref().or(self.job.filename.as_deref())
    }

    /// Where the clone works on a device: anywhere, if a trace says so.
    ///
    /// # Errors
    /// The option that does not fit the device.
    pub fn region(&self, limits: &Limits) -> Result<Region, RegionError> {
        match self.share {
            Some(_) => {
                let end = limits.capacity.to_bytes().0;
                Ok(Region { start: 0, end, io_size: u64::MAX })
            }
            None => Region::new(&self.job, self.clone, limits),
        }
    }

    /// Makes the clone ready to run. `id` tells it from all others that share `zbd`; `seed` is
    /// mixed with the job's own; `with_data` is for devices that keep data.
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
        let generator = match &self.share {
            Some(share) => Generator::replay(&self.job, share.clone()),
            None => Generator::new(&self.job, region, zbd.clone(), zone_size, id, seed, stream),
        };
        let numbers = Rng::new(seed, [stream[0], stream[1], stream[2], CHECKED_DATA]).next();
        let zone_size = channel.queue().limits().zone_size;
        let verifier = Verifier::new(&self.job, self.clone, numbers, zbd, zone_size);
        // What is checked is checked after each loop.
        let (bytes, loops) = match &verifier {
            Some(_) => (region.io_size, self.job.loops),
            None => (region.io_size.saturating_mul(self.job.loops), 1),
        };
        let run_state = RunState::new(&self.job, self.recording.as_ref(), verifier, bytes, loops);
        let job = Arc::clone(&self.job);
        let mut runner = JobRunner::new(job, channel, generator, bytes, with_data);
        runner.set_run_state(run_state);
        runner
    }

    /// The CPUs that the clone may use, out of those there are (`cpus_allowed`,
    /// `cpus_allowed_policy`). A CPU that there is not is replaced by one that there is, so that a
    /// job made for a larger machine runs.
    pub fn cpus(&self, online: &[usize]) -> Vec<usize> {
        let wanted = &self.job.cpus_allowed;
        if wanted.is_empty() || online.is_empty() {
            return Vec::new();
        }
        let there = |&cpu: &usize| {
            if online.contains(&cpu) { cpu } else { online[cpu % online.len()] }
        };
        match self.job.cpus_allowed_policy {
            CpusPolicy::Split => vec![there(&wanted[self.clone as usize % wanted.len()])],
            CpusPolicy::Shared => {
                let mut cpus: Vec<usize> = wanted.iter().map(there).collect();
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
    fn stonewall_begins_a_phase_and_a_group_new_group_only_a_group() {
        let jobs = [job("a", 2, true, false), job("b", 1, false, true), job("c", 1, true, false)];
        let phases = phases(&jobs);
        let seen: Vec<Vec<_>> = phases
            .iter()
            .map(|phase| phase.iter().map(|t| (t.job.name.as_str(), t.clone, t.group)).collect())
            .collect();
        let expected = vec![vec![("a", 0, 0), ("a", 1, 0), ("b", 0, 1)], vec![("c", 0, 2)]];
        assert_eq!(seen, expected);
    }

    #[test]
    fn cpus_are_shared_or_split_and_those_missing_are_replaced() {
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
