//! A process of a job on a file system: its operations and its statistics.
//!
//! Invariants: at most `iodepth` operations are in flight; a file is closed after its last operation
//! has completed; the same seed gives the same operations.
use super::{FileId, FileOp};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use zonal_blk::{Nanos, Status};
use zonal_fio::generate::{Generator, NextIo, Region};
use zonal_fio::job::{DataDir, Extent, FileService, Fraction, Job, PatternProgram, Rw};
use zonal_fio::logs::{LoggedIo, Logs};
use zonal_fio::rng::Rng;
use zonal_fio::runner::Pace;
use zonal_fio::stats::IoStats;
use zonal_fio::trace::{PatternError, Raidtest, Trace, TraceSlice};

/// The stream of random numbers for `rate_process=poisson`; files use those from 2 on.
const PACE_STREAM: u64 = u64::MAX;

/// An operation and its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessStep {
    pub(super) file: FileId,
    pub(super) op: FileOp,
}

/// Determines the operations of a clone, so that they can be repeated.
#[derive(Clone, Debug)]
pub(super) struct ProcessSpec {
    pub(super) job: Arc<Job>,
    /// Index of the job in the job file.
    pub(super) index: u32,
    /// Index of the clone in the job.
    pub(super) clone: u32,
    pub(super) seed: u64,
    /// The requests of `pattern=raidtest`, of all clones together.
    pub(super) trace: Option<Arc<Trace>>,
}

impl ProcessSpec {
    /// The first clone of a job.
    pub(super) fn new(job: &Arc<Job>, index: u32, seed: u64) -> Result<Self, PatternError> {
        let mut spec = ProcessSpec { job: Arc::clone(job), index, clone: 0, seed, trace: None };
        if job.pattern.program == Some(PatternProgram::Raidtest) {
            let pattern = Raidtest {
                start: 0,
                size: spec.size_of(0),
                requests: job.pattern.requests.unwrap_or(Raidtest::REQUESTS),
                align: job.pattern.align.unwrap_or(512),
                max_size: job.pattern.max_size.unwrap_or(Raidtest::MAX_SIZE),
                writes: job.pattern.writes.unwrap_or(Fraction::HALF),
                seed: job.randseed.wrapping_add(seed),
            };
            let (name, requests) = ("raidtest".to_owned(), pattern.generate()?);
            spec.trace = Some(Arc::new(Trace { name, files: Vec::new(), requests }));
        }
        Ok(spec)
    }

    /// Another clone of the job.
    pub(super) fn of_clone(&self, clone: u32) -> Self {
        ProcessSpec { clone, ..self.clone() }
    }

    fn owner(&self) -> u32 {
        if self.job.fs.shared { 0 } else { self.clone }
    }

    fn stream(&self, clone: u32) -> [u64; 3] {
        [self.job.randseed, u64::from(self.index), u64::from(clone)]
    }

    /// The files of the clone.
    pub(super) fn files(&self) -> impl Iterator<Item = (FileId, u64)> + '_ {
        let file = |number| FileId { owner: self.owner(), number };
        (0..self.nr_files()).map(move |number| (file(number), self.size_of(number)))
    }

    fn nr_files(&self) -> u32 {
        self.job.fs.nrfiles.unwrap_or(1)
    }

    /// The size of a file: a whole number of blocks in the range of sizes.
    fn size_of(&self, number: u32) -> u64 {
        let (min, max) = self.job.fs.filesize.unwrap_or_default();
        let block = self.job.bs[self.dir() as usize];
        let blocks = (max - min) / block + 1;
        let [a, b, c] = self.stream(self.owner());
        let purpose = 2 + u64::from(number);
        let drawn = Rng::new(self.seed, [a, b, c, purpose]).below(blocks);
        (min + drawn * block) / block * block
    }

    fn pace(&self) -> Pace {
        let stream = [self.job.randseed, self.index.into(), self.clone.into(), PACE_STREAM];
        Pace::new(&self.job, self.total(), Rng::new(self.seed, stream))
    }

    fn dir(&self) -> DataDir {
        if self.job.rw == Rw::Read { DataDir::Read } else { DataDir::Write }
    }

    /// Bytes of one run.
    pub(super) fn total(&self) -> u64 {
        let in_bytes = |extent| match extent {
            Some(Extent::Bytes(bytes)) => Some(bytes),
            _ => None,
        };
        if self.trace.is_some() {
            return u64::MAX;
        }
        let all = || self.files().fold(0_u64, |sum, (_, size)| sum.saturating_add(size));
        let once =
            in_bytes(self.job.io_size).or_else(|| in_bytes(self.job.size)).unwrap_or_else(all);
        once.saturating_mul(self.job.loops)
    }

    fn source(&self) -> Source {
        if let Some(trace) = &self.trace {
            let slice = TraceSlice::new(Arc::clone(trace), self.clone, self.job.numjobs);
            return Source::Random(Box::new(Generator::replay(&self.job, slice)));
        }
        if self.job.random || self.job.rw == Rw::Mixed {
            let end = self.size_of(0);
            let region = Region { start: 0, end, size: end, io_size: end, lba: 512, limit: end };
            let stream = self.stream(self.clone);
            let generator =
                Generator::new(&self.job, region, None, 0, self.clone, self.seed, stream);
            return Source::Random(Box::new(generator));
        }
        Source::Files(Files { open: VecDeque::new(), next: 0 })
    }
}

enum Source {
    /// Offsets in one file.
    Random(Box<Generator>),
    /// Whole files, sequentially.
    Files(Files),
}

/// Open files.
struct Files {
    open: VecDeque<OpenFile>,
    /// The number of the next file to open.
    next: u32,
}

struct OpenFile {
    number: u32,
    size: u64,
    offset: u64,
    in_flight: u32,
}

/// An operation in flight.
#[derive(Clone, Copy)]
struct Slot {
    started: Nanos,
    step: ProcessStep,
}

/// A process.
pub(super) struct Process {
    spec: ProcessSpec,
    pub(super) pace: Pace,
    source: Source,
    slots: Vec<Option<Slot>>,
    /// The free slots, of which the lowest is used next.
    free: BinaryHeap<Reverse<u32>>,
    pub(super) in_flight: u32,
    pub(super) stats: IoStats,
    pub(super) error: Option<Status>,
    pub(super) logs: Option<Logs>,
    warm_runs: u32,
    /// Has finished a run, and waits for the other processes.
    pub(super) is_idle: bool,
}

impl Process {
    pub(super) fn new(spec: ProcessSpec) -> Self {
        let job = &spec.job;
        Process {
            pace: spec.pace(),
            source: spec.source(),
            slots: vec![None; job.iodepth as usize],
            free: (0..job.iodepth).map(Reverse).collect(),
            in_flight: 0,
            stats: IoStats::of_job(job),
            error: None,
            logs: None,
            warm_runs: job.fs.warm_runs,
            is_idle: false,
            spec,
        }
    }

    /// Whether it has finished all runs.
    pub(super) fn is_over(&self) -> bool {
        self.is_idle && self.warm_runs == 0
    }

    /// Starts the run after a warm run: the same operations, with new statistics.
    pub(super) fn restart(&mut self, now: Nanos) {
        self.warm_runs -= 1;
        self.is_idle = false;
        self.source = self.spec.source();
        self.pace = self.spec.pace();
        self.pace.begin(now);
        self.stats.reset(now);
        self.start_logs(now);
    }

    /// Starts the logs if what follows is measured.
    pub(super) fn start_logs(&mut self, now: Nanos) {
        let is_measured = self.warm_runs == 0 && !self.pace.is_ramping();
        if let Some(logs) = self.logs.as_mut().filter(|_| is_measured) {
            logs.start(now);
        }
    }

    /// Samples the logs if that is due.
    pub(super) fn sample_logs(&mut self, now: Nanos) {
        if let Some(logs) = &mut self.logs {
            logs.sample(now, || self.stats.counts());
        }
    }

    /// The last operation of a run has completed.
    pub(super) fn finish(&mut self, now: Nanos) {
        self.is_idle = true;
        self.stats.finish(now);
        if let Some(logs) = self.logs.as_mut().filter(|_| self.warm_runs == 0) {
            logs.finish(now);
        }
    }

    /// The next operation to start, with its slot; `None` until one in flight completes or the pace
    /// allows it.
    pub(super) fn next(&mut self, now: Nanos) -> Option<(u32, ProcessStep)> {
        let &Reverse(slot) = self.free.peek()?;
        if !self.pace.may_submit(now) {
            return None;
        }
        let step = match &mut self.source {
            Source::Files(files) => files.next(&self.spec),
            Source::Random(generator) => match generator.next_io() {
                NextIo::Io(io) => {
                    let file = FileId { owner: self.spec.owner(), number: 0 };
                    let (offset, len) = (io.offset, io.len);
                    let op = match io.dir {
                        DataDir::Write => FileOp::Write { offset, len },
                        _ => FileOp::Read { offset, len },
                    };
                    Some(ProcessStep { file, op })
                }
                _ => None,
            },
        };
        let Some(step) = step else {
            if self.in_flight == 0 {
                self.pace.stop();
            }
            return None;
        };
        self.in_flight += 1;
        if let Some((dir, len)) = accounted(step.op) {
            self.pace.submitted(dir, len);
            self.pace.issued(now, self.in_flight as usize >= self.slots.len());
            self.stats.submitted(1, self.in_flight);
        }
        self.free.pop();
        self.slots[slot as usize] = Some(Slot { started: now, step });
        Some((slot, step))
    }

    /// An operation has completed. Returns the direction and bytes that it is accounted with.
    pub(super) fn completed(
        &mut self,
        now: Nanos,
        slot: u32,
        status: Status,
    ) -> Option<(DataDir, u64)> {
        let Slot { started, step } =
            self.slots[slot as usize].take().expect("an operation completes once");
        self.free.push(Reverse(slot));
        self.in_flight -= 1;
        if let Source::Files(files) = &mut self.source {
            files.completed(step);
        }
        let Some((dir, len)) = accounted(step.op) else {
            if self.in_flight == 0 {
                self.pace.drained(now);
            }
            return None;
        };
        if status != Status::Ok {
            self.stats.error(dir, status);
            self.error.get_or_insert(status);
            self.pace.stop();
            return None;
        }
        let (slat, clat) = (Nanos(0), now - started);
        if self.stats.is_early(started) {
            self.stats.record_early(dir, len, clat);
        } else {
            self.stats.record(dir, len, slat, clat, 1);
        }
        if let Some(logs) = &mut self.logs {
            let (FileOp::Read { offset, .. } | FileOp::Write { offset, .. }) = step.op else {
                unreachable!("other operations are not accounted")
            };
            logs.record(now, LoggedIo { dir, bytes: len, offset, slat, clat, ioprio: None });
        }
        self.stats.completed(1);
        self.pace.completed(now, self.in_flight);
        Some((dir, len))
    }
}

/// The direction and bytes that an operation is accounted with.
fn accounted(op: FileOp) -> Option<(DataDir, u64)> {
    match op {
        FileOp::Read { len, .. } => Some((DataDir::Read, len)),
        FileOp::Write { len, .. } => Some((DataDir::Write, len)),
        FileOp::Create | FileOp::Close => None,
    }
}

impl Files {
    fn next(&mut self, spec: &ProcessSpec) -> Option<ProcessStep> {
        let job = &spec.job;
        let owner = spec.owner();
        let file = |number| FileId { owner, number };
        let done = |open: &OpenFile| open.offset >= open.size && open.in_flight == 0;
        if let Some(index) = self.open.iter().position(done) {
            let open = self.open.remove(index).expect("a valid index");
            return Some(ProcessStep { file: file(open.number), op: FileOp::Close });
        }
        let nr_files = spec.nr_files();
        // More I/O than the files hold: start over.
        if self.next == nr_files && self.open.is_empty() {
            self.next = 0;
        }
        let may_open = job.fs.openfiles.unwrap_or(nr_files).max(1) as usize;
        if self.next < nr_files && self.open.len() < may_open {
            let number = self.next;
            self.next += 1;
            let size = spec.size_of(number);
            self.open.push_back(OpenFile { number, size, offset: 0, in_flight: 0 });
            if spec.dir() == DataDir::Write {
                self.open.back_mut().expect("just added").in_flight = 1;
                return Some(ProcessStep { file: file(number), op: FileOp::Create });
            }
        }
        let ready = |open: &OpenFile| open.offset < open.size;
        let index = self.open.iter().position(ready)?;
        let open = &mut self.open[index];
        let offset = open.offset;
        let len = job.bs[spec.dir() as usize].min(open.size - offset);
        open.offset += len;
        open.in_flight += 1;
        let op = match spec.dir() {
            DataDir::Read => FileOp::Read { offset, len },
            _ => FileOp::Write { offset, len },
        };
        let step = ProcessStep { file: file(open.number), op };
        if job.fs.service == FileService::RoundRobin
            && let Some(open) = self.open.remove(index)
        {
            self.open.push_back(open);
        }
        Some(step)
    }

    fn completed(&mut self, step: ProcessStep) {
        let of = |open: &&mut OpenFile| open.number == step.file.number;
        if step.op != FileOp::Close
            && let Some(open) = self.open.iter_mut().find(of)
        {
            open.in_flight -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zonal_fio::job::FsOptions;

    #[test]
    fn the_lowest_free_slot_is_used_next() {
        let fs = FsOptions { filesize: Some((1 << 20, 1 << 20)), ..FsOptions::default() };
        let job = Job { iodepth: 4, rw: Rw::Read, fs, ..Job::default() };
        let spec = ProcessSpec::new(&Arc::new(job), 0, 0).expect("no pattern");
        let mut process = Process::new(spec);
        process.pace.begin(Nanos(0));
        let mut next = |completed: &[u32]| {
            for &slot in completed {
                process.completed(Nanos(0), slot, Status::Ok);
            }
            let slots = std::iter::from_fn(|| process.next(Nanos(0)));
            slots.map(|(slot, _)| slot).collect::<Vec<u32>>()
        };
        assert_eq!(next(&[]), [0, 1, 2, 3]);
        assert!(next(&[]).is_empty(), "the queue is full");
        assert_eq!(next(&[3, 1]), [1, 3]);
        assert_eq!(next(&[2, 0, 3]), [0, 2, 3]);
    }
}
