//! Runs a file system with all clones of its job.
//!
//! After the last step nothing is in flight. A failed I/O ends all processes. On devices that store
//! data, reads of files are verified.
use super::bioq::Bioq;
use super::disk::{Disk, MountError};
use super::process::{Process, ProcessSpec};
use super::{BlockIo, Content, Effects, FileId, FileSystem, FsCounters, OpId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use zonal_blk::sched::Scheduler;
use zonal_blk::{Bio, Buf, Channel, Clock, Completion, Nanos, Op, Status};
use zonal_fio::job::{DataDir, Job};
use zonal_fio::logs::Logs;
use zonal_fio::runner::{ClockedRunner, Outcome, Progress, Runner, RunnerStep};
use zonal_fio::stats::SAMPLE_PERIOD;
use zonal_fio::verify::Findings;

/// A disk and its channel.
struct DiskChannel {
    channel: Channel,
    keeps_data: bool,
    /// The queue of the disk driver, if it sorts.
    driver: Option<Bioq>,
}

/// A file system, its processes and its disks.
pub struct FsRunner {
    job: Arc<Job>,
    fs: Box<dyn FileSystem>,
    processes: Vec<Process>,
    disks: Vec<DiskChannel>,
    effects: Effects,
    completions: Vec<Completion>,
    /// Reads in flight to be verified, on devices that store data.
    reads: BTreeMap<u64, Content>,
    counters: FsCounters,
    started: bool,
    next_sample: Nanos,
    /// The processes are done.
    stopped: bool,
    done: (u64, u64),
    progress: Arc<Progress>,
}

impl FsRunner {
    /// A runner for the processes of `process_specs` on a file system on `disks`.
    pub(super) fn new(
        job: Arc<Job>,
        fs: Box<dyn FileSystem>,
        process_specs: impl Iterator<Item = ProcessSpec>,
        disks: &[Disk],
        name: &'static str,
    ) -> Result<Self, MountError> {
        let no_queue = |problem: String| MountError::new(&job, "filesystem", problem);
        let open = |disk: &Disk| {
            let channel = disk.queue.channel().map_err(|error| no_queue(error.to_string()))?;
            let depth = disk.queue.limits().queue_depth.into();
            let driver = fs.sorts().then(|| Bioq::new(depth));
            Ok(DiskChannel { channel, keeps_data: disk.keeps_data, driver })
        };
        let native = disks.iter().all(|disk| disk.queue.limits().append_max_sectors > 0);
        Ok(FsRunner {
            disks: disks.iter().map(open).collect::<Result<_, _>>()?,
            job,
            fs,
            processes: process_specs.map(Process::new).collect(),
            effects: Effects::default(),
            completions: Vec::new(),
            reads: BTreeMap::new(),
            counters: FsCounters { name, native_appends: native, ..FsCounters::default() },
            started: false,
            next_sample: Nanos(0),
            stopped: false,
            done: (0, 0),
            progress: Arc::default(),
        })
    }

    /// Has the processes, in order, write logs.
    pub fn set_logs(&mut self, logs: impl Iterator<Item = Option<Logs>>) {
        self.processes.iter_mut().zip(logs).for_each(|(process, logs)| process.logs = logs);
    }

    /// Start of the processes, end of the ramp, samples.
    fn begin(&mut self, now: Nanos) {
        if !std::mem::replace(&mut self.started, true) {
            self.next_sample = now + SAMPLE_PERIOD;
            for process in &mut self.processes {
                process.pace.begin(now);
                process.stats.start(now);
                process.start_logs(now);
            }
        }
        let samples = now >= self.next_sample;
        for process in self.processes.iter_mut().filter(|process| !process.is_idle) {
            if samples {
                process.stats.sample(now);
                process.stats.halve(now);
            }
            process.sample_logs(now);
            if process.pace.ramp_ends(now, 0) {
                process.stats.reset(now);
                process.start_logs(now);
            }
        }
        if samples {
            self.next_sample = now + SAMPLE_PERIOD;
        }
    }

    fn reap_completions(&mut self, now: Nanos) -> bool {
        let mut completions = std::mem::take(&mut self.completions);
        for disk in &mut self.disks {
            let count = disk.channel.poll(now, &mut completions);
            if let Some(driver) = &mut disk.driver {
                (0..count).for_each(|_| driver.completed());
            }
        }
        let worked = !completions.is_empty();
        for completion in completions.drain(..) {
            let status = self.verify(&completion);
            if status != Status::Ok {
                self.fail(status);
            }
            self.fs.complete(now, &completion, &mut self.effects);
        }
        self.completions = completions;
        worked
    }

    /// The status of an I/O after verification of what it read.
    fn verify(&mut self, completion: &Completion) -> Status {
        let content = self.reads.remove(&completion.user_data);
        let (Some(content), Some(buf)) = (content, &completion.buf) else {
            return completion.status;
        };
        let mut at = 0;
        let is_valid = |(file, offset, bytes): (FileId, u64, u64)| {
            let part = &buf[at..at + bytes as usize];
            at += bytes as usize;
            matches(part, file, offset)
        };
        if completion.status == Status::Ok && !parts(&content, buf.len()).into_iter().all(is_valid)
        {
            return Status::Protection;
        }
        completion.status
    }

    /// Ends all processes: after a failed write, the file system would shut down.
    fn fail(&mut self, status: Status) {
        for process in &mut self.processes {
            process.error.get_or_insert(status);
            process.pace.stop();
        }
    }

    fn complete_operations(&mut self, now: Nanos) -> bool {
        let mut completed = std::mem::take(&mut self.effects.completed);
        for &(OpId { process, slot }, status) in &completed {
            if let Some((dir, bytes)) =
                self.processes[process as usize].completed(now, slot, status)
            {
                self.counters.file_bytes[usize::from(dir != DataDir::Read)] += bytes;
                self.done.0 += 1;
                self.done.1 += bytes;
            }
        }
        self.progress.ios.store(self.done.0, Ordering::Relaxed);
        self.progress.bytes.store(self.done.1, Ordering::Relaxed);
        let worked = !completed.is_empty();
        completed.clear();
        self.effects.completed = completed;
        if let Some(status) = self.effects.failed.take() {
            self.fail(status);
        }
        worked
    }

    /// Starts operations of the processes, and finishes processes and runs.
    fn run_processes(&mut self, now: Nanos) -> bool {
        let mut worked = false;
        for (number, process) in (0..).zip(&mut self.processes) {
            while let Some((slot, step)) = process.next(now) {
                let id = OpId { process: number, slot };
                self.fs.start(now, id, step.file, step.op, &mut self.effects);
                worked = true;
            }
            if !process.is_idle && process.in_flight == 0 && process.pace.is_over(now) {
                process.finish(now);
                worked = true;
            }
        }
        if !self.stopped && self.processes.iter().all(|process| process.is_idle) {
            worked = true;
            if self.processes.iter().all(Process::is_over) || self.has_failed() {
                self.stopped = true;
                self.fs.stop();
                self.disks.iter_mut().for_each(|disk| disk.channel.drain());
            } else {
                self.processes.iter_mut().for_each(|process| process.restart(now));
                self.counters = FsCounters {
                    name: self.counters.name,
                    native_appends: self.counters.native_appends,
                    ..FsCounters::default()
                };
            }
        }
        worked
    }

    fn has_failed(&self) -> bool {
        self.processes.iter().any(|process| process.error.is_some())
    }

    fn submit(&mut self, now: Nanos) -> bool {
        let mut ios = std::mem::take(&mut self.effects.ios);
        let mut worked = !ios.is_empty();
        for io in ios.drain(..) {
            self.count(&io);
            match &mut self.disks[io.disk].driver {
                Some(driver) => driver.add(io),
                None => self.send(now, io),
            }
        }
        self.effects.ios = ios;
        for disk in 0..self.disks.len() {
            while let Some(io) = self.disks[disk].driver.as_mut().and_then(Bioq::next) {
                self.send(now, io);
                worked = true;
            }
        }
        worked
    }

    fn send(&mut self, now: Nanos, io: BlockIo) {
        let disk = &mut self.disks[io.disk];
        let mut bio = Bio::new(io.op, io.sector, io.nr_sectors, io.id);
        bio.flags = io.flags;
        bio.prio = self.job.prio;
        if disk.keeps_data && io.nr_sectors > 0 {
            let mut buf = Buf::zeroed(io.nr_sectors as usize * 512);
            if io.op == Op::Read {
                self.reads.insert(io.id, io.content);
            } else {
                let mut at = 0;
                for (file, offset, bytes) in parts(&io.content, buf.len()) {
                    let bytes = bytes as usize;
                    fill(&mut buf[at..at + bytes], file, offset);
                    at += bytes;
                }
            }
            bio.buf = Some(buf);
        }
        disk.channel.submit(now, bio);
    }

    fn count(&mut self, io: &BlockIo) {
        let counters = &mut self.counters;
        let dir = usize::from(io.op != Op::Read);
        let bytes = u64::from(io.nr_sectors) * 512;
        match io.content {
            Content::Data { .. } | Content::Multiple(_) => {
                counters.data_ios[dir] += 1;
                counters.data_bytes[dir] += bytes;
            }
            Content::Metadata => {
                counters.metadata_ios[dir] += 1;
                counters.metadata_bytes[dir] += bytes;
            }
            Content::None => {}
        }
        match io.op {
            Op::ZoneAppend => counters.appends += 1,
            Op::ZoneReset => counters.zone_resets += 1,
            Op::Flush => counters.flushes += 1,
            _ => {}
        }
    }

    /// When to step again after a step without work.
    fn wait(&mut self, now: Nanos) -> RunnerStep {
        let disks = self.disks.iter_mut().filter_map(|disk| disk.channel.next_event().at());
        let depth = self.job.iodepth;
        let active = |process: &&Process| !process.is_idle;
        let paces = self.processes.iter().filter(active).filter_map(|process| {
            let next = process.pace.next_submit();
            let submits = process.in_flight < depth && next > now;
            // A process that could submit and does not waits for one of its own operations.
            submits.then_some(next).or(process.pace.deadline().filter(|&end| end > now))
        });
        let at = disks.chain(paces).chain(self.fs.next_event()).min();
        match at {
            Some(at) if at <= now => RunnerStep::NOTHING,
            at => RunnerStep::Wait(at),
        }
    }
}

/// The parts of a buffer: file, first byte and length.
fn parts(content: &Content, len: usize) -> Vec<(FileId, u64, u64)> {
    match content {
        Content::Data { file, offset } => vec![(*file, *offset, len as u64)],
        Content::Multiple(parts) => parts.clone(),
        Content::Metadata | Content::None => Vec::new(),
    }
}

const SECTOR_SIZE: usize = 512;

/// Fills a buffer with the sectors of a file from `offset` on. Each sector has a tag, so that a read
/// shows whether it returns what was written.
fn fill(buf: &mut [u8], file: FileId, offset: u64) {
    for (number, sector) in (0..).zip(buf.chunks_exact_mut(SECTOR_SIZE)) {
        sector[..16].copy_from_slice(&tag(file, offset + number * SECTOR_SIZE as u64));
    }
}

/// Whether a buffer holds the sectors of a file from `offset` on. Zeroed sectors belong to a file that
/// was laid out and not written.
fn matches(buf: &[u8], file: FileId, offset: u64) -> bool {
    (0..).zip(buf.chunks_exact(SECTOR_SIZE)).all(|(number, sector)| {
        let expected = tag(file, offset + number * SECTOR_SIZE as u64);
        sector[..16] == expected || sector[..16] == [0; 16]
    })
}

/// The tag of a sector; never zero, as the offset is stored plus one.
fn tag(file: FileId, offset: u64) -> [u8; 16] {
    let mut tag = [0; 16];
    tag[..4].copy_from_slice(&file.owner.to_le_bytes());
    tag[4..8].copy_from_slice(&file.number.to_le_bytes());
    tag[8..].copy_from_slice(&(offset + 1).to_le_bytes());
    tag
}

impl Runner for FsRunner {
    fn job(&self) -> &Arc<Job> {
        &self.job
    }

    fn clones(&self) -> u32 {
        self.job.numjobs
    }

    fn scheduler(&self) -> Scheduler {
        self.disks[0].channel.queue().scheduler()
    }

    fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    fn total(&self) -> Option<u64> {
        let mut totals = self.processes.iter().map(|process| process.pace.total());
        totals.try_fold(0_u64, |sum, total| Some(sum.saturating_add(total?)))
    }

    fn for_each_channel(&mut self, visit: &mut dyn FnMut(&mut Channel)) {
        self.disks.iter_mut().for_each(|disk| visit(&mut disk.channel));
    }

    fn is_scheduled(&self) -> bool {
        let waits = |disk: &DiskChannel| {
            let channel = &disk.channel;
            channel.outstanding() > 0 && channel.queue().scheduler() != Scheduler::None
        };
        self.disks.iter().any(waits)
    }

    fn next_event(&mut self) -> Option<Nanos> {
        self.disks.iter_mut().filter_map(|disk| disk.channel.next_event().at()).min()
    }

    fn stop(&mut self) {
        self.processes.iter_mut().for_each(|process| process.pace.stop());
    }

    /// The first outcome has the counters of the file system.
    fn into_outcomes(self: Box<Self>) -> Vec<Outcome> {
        let cached_bytes = self.fs.cached_bytes();
        let mut counters = Some(Box::new(FsCounters { cached_bytes, ..self.counters }));
        let outcome = |process: Process| Outcome {
            stats: process.stats,
            error: process.error,
            reason: None,
            findings: Findings::default(),
            verify_state: None,
            thread_id: 0,
            file_system: counters.take(),
        };
        self.processes.into_iter().map(outcome).collect()
    }
}

impl<C: Clock> ClockedRunner<C> for FsRunner {
    fn step(&mut self, clock: &C) -> RunnerStep {
        let now = clock.now();
        if now < self.job.startdelay {
            return RunnerStep::Wait(Some(self.job.startdelay));
        }
        self.begin(now);
        let mut worked = self.reap_completions(now);
        if self.fs.next_event().is_some_and(|at| at <= now) {
            self.fs.wake(now, &mut self.effects);
            worked = true;
        }
        worked |= self.complete_operations(now);
        worked |= self.run_processes(now);
        worked |= self.submit(now);
        if worked {
            // The model includes the CPU time.
            return RunnerStep::NOTHING;
        }
        if self.stopped && self.disks.iter_mut().all(|disk| disk.channel.is_idle()) {
            return RunnerStep::Done;
        }
        self.wait(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zonal_blk::Buf;

    #[test]
    fn a_misplaced_sector_is_detected() {
        let file = FileId { owner: 1, number: 2 };
        let mut buf = Buf::zeroed(2048);
        assert!(matches(&buf, file, 512), "never written");
        fill(&mut buf, file, 512);
        assert!(matches(&buf, file, 512));
        assert!(!matches(&buf, file, 1024));
        assert!(!matches(&buf, FileId { owner: 1, number: 3 }, 512));
    }
}
