//! Running a check on the image of each state, several at a time, and shrinking the first failure.
//!
//! ```text
//!  States --> durable.img    what is durable at the cut, brought forward from cut to cut
//!               | copy
//!             N.img          plus the effects of the state; the command runs on it
//! ```
use crate::drive::{Drive, Effect};
pub use crate::error::CheckError;
use crate::image::{ImageWriter, MakeError, copy_file, make_base, materialise};
use crate::journal::Journal;
use crate::judge::{Case, Judge};
use crate::log::{End, Log};
use crate::outcome::{ReplayStep, Steps};
use crate::state::{State, ZoneFate};
use crate::states::{Options, Progress, States};
use crate::synced::{Synced, Tracker};
use crate::verdict::Judgement;
pub use crate::verdict::Verdict;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Runs of the check to shrink a failure.
const SHRINK_RUNS: u32 = 64;

/// The checks to make, and how.
pub struct Check {
    /// The recording.
    pub log: Log,
    /// Which states.
    pub options: Options,
    /// A copy of the image from before the recording.
    pub base: Option<PathBuf>,
    /// The judge of states.
    pub judge: Box<dyn Judge>,
    /// Checks at the same time.
    pub jobs: usize,
    /// Ends the run early.
    pub stop: Arc<AtomicBool>,
    /// No more states are checked after this many failures; 0 for no limit.
    pub max_failures: usize,
    /// Where images are made; in the folder for temporary files if `None`.
    pub work: Option<PathBuf>,
}

/// The results of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// All states, in the order of the log.
    pub verdicts: Vec<Verdict>,
    /// The first state that failed, with the fewest changes that still fail, and what it lacks.
    pub shrunk: Option<(Verdict, Vec<String>)>,
    /// The run was ended early.
    pub interrupted: bool,
    /// How the log ended, if its end was reached.
    pub end: Option<End>,
    /// Its events.
    pub events: u64,
}

impl Report {
    /// The states that failed.
    pub fn failures(&self) -> impl Iterator<Item = &Verdict> {
        self.verdicts.iter().filter(|verdict| verdict.failure.is_some())
    }
}

/// A state that is to be checked.
struct Job {
    number: usize,
    state: State,
    effects: Vec<Effect>,
    image: PathBuf,
    marks: PathBuf,
    synced: Synced,
}

/// State that the threads of a run share.
struct CheckShared {
    jobs: Mutex<Receiver<Job>>,
    /// By the number of the state.
    verdicts: Mutex<Vec<(usize, Verdict)>>,
    failures: AtomicBool,
    /// A state was judged, whose verdict was not known before.
    judged: AtomicBool,
    error: Mutex<Option<CheckError>>,
    journal: Mutex<Option<Journal>>,
}

/// The files of what is durable at the current cut.
struct Durable<'a> {
    check: &'a Check,
    dir: &'a Path,
    image: PathBuf,
    writer: Option<ImageWriter>,
    blocks: crate::log::Blocks,
    marks: PathBuf,
    marks_file: File,
}

impl<'a> Durable<'a> {
    fn new(check: &'a Check, dir: &'a Path) -> Result<Self, CheckError> {
        let (image, marks) = (dir.join("durable.img"), dir.join("marks"));
        make_base(check.log.header(), check.base.as_deref(), &image)?;
        let marks_file = File::create(&marks).map_err(file_error(&marks))?;
        let blocks = check.log.blocks();
        Ok(Durable { check, dir, image, writer: None, blocks, marks, marks_file })
    }

    fn settle(&mut self, effects: &[Effect]) -> Result<(), CheckError> {
        let writer = match self.writer.take() {
            Some(writer) => writer,
            None => ImageWriter::open(&self.image, self.check.log.header())?,
        };
        let writer = self.writer.insert(writer);
        Ok(writer.apply(effects, &mut self.blocks)?)
    }

    fn mark(&mut self, text: &str) -> Result<(), CheckError> {
        writeln!(self.marks_file, "{text}").map_err(file_error(&self.marks))
    }

    /// Copies the files for a state.
    fn job(
        &mut self,
        number: usize,
        state: State,
        effects: Vec<Effect>,
        synced: Synced,
    ) -> Result<Job, CheckError> {
        if let Some(writer) = self.writer.take() {
            writer.close()?;
        }
        let image = self.dir.join(format!("{number}.img"));
        let marks = self.dir.join(format!("{number}.marks"));
        copy_file(&self.image, &image)?;
        if self.check.judge.wants_marks() {
            copy_file(&self.marks, &marks)?;
        }
        Ok(Job { number, state, effects, image, marks, synced })
    }
}

fn file_error(path: &Path) -> impl FnOnce(std::io::Error) -> CheckError {
    |error| CheckError::File { path: path.to_owned(), error }
}

impl Check {
    fn work_dir(&self) -> Result<tempfile::TempDir, CheckError> {
        let parent = self.work.clone().unwrap_or_else(std::env::temp_dir);
        let dir = tempfile::Builder::new().prefix("zonal-crash-").tempdir_in(&parent);
        dir.map_err(file_error(&parent))
    }

    /// Checks all states. `resume` has the results of states that were checked before, and gets those
    /// of the others; `progress` is called with the number of states so far.
    ///
    /// # Errors
    /// An image cannot be made, or the command cannot be run at all.
    pub fn run(
        &self,
        resume: Option<&Path>,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Report, CheckError> {
        let dir = self.work_dir()?;
        let (sender, jobs) = sync_channel(self.jobs);
        let (journal, mut known) = match resume {
            None => (None, Vec::new()),
            Some(path) => {
                let (journal, known) = Journal::open(path, &self.identity())?;
                (Some(journal), known)
            }
        };
        let shared = CheckShared {
            jobs: Mutex::new(jobs),
            verdicts: Mutex::default(),
            failures: AtomicBool::new(false),
            judged: AtomicBool::new(false),
            error: Mutex::new(None),
            journal: Mutex::new(journal),
        };
        let fed = std::thread::scope(|scope| {
            for _ in 0..self.jobs {
                scope.spawn(|| self.work(&shared));
            }
            let fed = self
                .feed(dir.path(), &mut known, &shared, progress, |job| sender.send(job).is_ok());
            drop(sender);
            fed
        });
        if let Some(error) = lock(&shared.error).take() {
            return Err(error);
        }
        let (end, events) = fed?;
        if !self.stop.load(Ordering::Relaxed) && shared.judged.load(Ordering::Relaxed) {
            self.judge.conclude().map_err(CheckError::Nothing)?;
        }
        let mut verdicts = std::mem::take(&mut *lock(&shared.verdicts));
        verdicts.sort_by_key(|&(number, _)| number);
        let verdicts: Vec<Verdict> = verdicts.into_iter().map(|(_, verdict)| verdict).collect();
        let interrupted = self.stop.load(Ordering::Relaxed);
        let mut report = Report { verdicts, shrunk: None, interrupted, end, events };
        let first = report.failures().next().cloned();
        if let Some(first) = first.filter(|_| !report.interrupted) {
            report.shrunk = Some(self.shrink(first)?);
        }
        Ok(report)
    }

    /// Goes through the states and sends those that are not known. Returns how the log ended, and its
    /// events.
    fn feed(
        &self,
        dir: &Path,
        known: &mut Vec<Verdict>,
        shared: &CheckShared,
        progress: &mut dyn FnMut(usize),
        send: impl Fn(Job) -> bool,
    ) -> Result<(Option<End>, u64), CheckError> {
        let mut known = known.drain(..).peekable();
        let mut durable = Durable::new(self, dir)?;
        let mut number = 0;
        let mut states = States::new(&self.log, self.options.clone());
        while let Some(next) = states.next() {
            if self.is_over(shared) {
                break;
            }
            match next {
                Progress::Settled(effects) => durable.settle(&effects)?,
                Progress::Mark(text) => durable.mark(&text)?,
                Progress::State(state, effects) => {
                    number += 1;
                    let text = state.to_string();
                    if let Some(verdict) = known.next_if(|verdict| verdict.state == text) {
                        lock(&shared.verdicts).push((number, verdict));
                    } else {
                        let job = durable.job(number, state, effects, states.synced())?;
                        if !send(job) {
                            break;
                        }
                    }
                    progress(number);
                }
            }
        }
        Ok((states.end().cloned(), states.events()))
    }

    fn is_over(&self, shared: &CheckShared) -> bool {
        let failed = || lock(&shared.verdicts).iter().filter(|(_, v)| v.failure.is_some()).count();
        self.stop.load(Ordering::Relaxed)
            || lock(&shared.error).is_some()
            || (self.max_failures > 0
                && shared.failures.load(Ordering::Relaxed)
                && failed() >= self.max_failures)
    }

    /// A thread that makes and checks states.
    fn work(&self, shared: &CheckShared) {
        let mut blocks = self.log.blocks();
        loop {
            let next = lock(&shared.jobs).recv();
            let Ok(job) = next else { return };
            if self.is_over(shared) {
                continue;
            }
            let made = ImageWriter::open(&job.image, self.log.header()).and_then(|mut image| {
                image.apply(&job.effects, &mut blocks)?;
                image.close()
            });
            let checked = made.map_err(CheckError::from).and_then(|()| {
                let verdict = self.verdict(&job.state, &job.image, &job.marks, &job.synced)?;
                if let Some(journal) = &mut *lock(&shared.journal) {
                    journal.add(job.number, &verdict)?;
                }
                Ok(verdict)
            });
            for file in [&job.image, &job.marks] {
                // What is left goes with the folder.
                let _removed = fs::remove_file(file);
            }
            match checked {
                Ok(verdict) => {
                    shared.judged.store(true, Ordering::Relaxed);
                    if verdict.failure.is_some() {
                        shared.failures.store(true, Ordering::Relaxed);
                    }
                    lock(&shared.verdicts).push((job.number, verdict));
                }
                Err(error) => {
                    lock(&shared.error).get_or_insert(error);
                }
            }
        }
    }

    /// Judges the image of a state.
    fn verdict(
        &self,
        state: &State,
        image: &Path,
        marks: &Path,
        synced: &Synced,
    ) -> Result<Verdict, CheckError> {
        let (state, started) = (state.to_string(), Instant::now());
        let case = Case { state: &state, image, marks, synced, log: &self.log };
        let Judgement { failure, output } = self.judge.judge(&case)?;
        let output = if failure.is_some() { output } else { String::new() };
        Ok(Verdict { state, failure, output, seconds: started.elapsed().as_secs_f64() })
    }

    /// Checks one state.
    ///
    /// # Errors
    /// No drive can be in that state, its image cannot be made, or the command cannot be run.
    pub fn replay(&self, state: &State) -> Result<Verdict, CheckError> {
        let dir = self.work_dir()?;
        let (image, marks) = (dir.path().join("state.img"), dir.path().join("state.marks"));
        let cache = self.options.cache_sectors;
        materialise(&self.log, state, self.base.as_deref(), cache, &image)?;
        let mut file = File::create(&marks).map_err(file_error(&marks))?;
        let (drive, tracker) = self
            .drive_at(state.cut, &mut |mark| writeln!(file, "{mark}"))
            .map_err(file_error(&marks))?;
        self.verdict(state, &image, &marks, &tracker.at(&drive))
    }

    /// Undoes the changes of a state that failed, as long as it still fails.
    fn shrink(&self, first: Verdict) -> Result<(Verdict, Vec<String>), CheckError> {
        let state: State = first.state.parse().expect("the text of a state");
        let (drive, _) =
            self.drive_at(state.cut, &mut |_| Ok(())).map_err(file_error(Path::new("marks")))?;
        let (mut best, mut verdict, mut runs) = (state, first, 0);
        loop {
            let smaller = simpler(&best, &drive).into_iter().find_map(|state| {
                runs += 1;
                if runs > SHRINK_RUNS || self.stop.load(Ordering::Relaxed) {
                    return None;
                }
                let found = self.replay(&state);
                match found {
                    Ok(verdict) if verdict.failure.is_none() => None,
                    Err(CheckError::Make(MakeError::Impossible(_))) => None,
                    found => Some(found.map(|verdict| (state, verdict))),
                }
            });
            match smaller {
                Some(found) => (best, verdict) = found?,
                None => break,
            }
        }
        let lacks = drive.describe(&best);
        Ok((verdict, lacks))
    }

    /// The drive at a cut, and what was synced then. `mark` gets the marks before.
    fn drive_at(
        &self,
        cut: u64,
        mark: &mut dyn FnMut(&str) -> std::io::Result<()>,
    ) -> std::io::Result<(Drive, Tracker)> {
        let mut drive = Drive::new(self.log.header(), self.options.cache_sectors);
        let mut tracker = Tracker::default();
        let (mut steps, mut settled) = (Steps::new(self.log.events()), Vec::new());
        while drive.events() < cut
            && let Some(step) = steps.next()
        {
            drive.advance(&step, &mut settled);
            tracker.advance(&step, &drive);
            settled.clear();
            if let ReplayStep::Mark(text) = &step {
                mark(text)?;
            }
        }
        Ok((drive, tracker))
    }

    /// The settings that results depend on, for resuming.
    fn identity(&self) -> String {
        let log = self.log.identity();
        format!("{log} {:?} {:?} {}", self.options, self.base, self.judge.identity())
    }
}

/// States with one change less, and then those with a smaller one.
fn simpler(state: &State, drive: &Drive) -> Vec<State> {
    let mut all = Vec::new();
    for zone in state.zones.keys() {
        let mut simpler = state.clone();
        simpler.zones.remove(zone);
        all.push(simpler);
    }
    for write in state.writes.keys() {
        let mut simpler = state.clone();
        simpler.writes.remove(write);
        all.push(simpler);
    }
    for (&zone, fate) in &state.zones {
        let ZoneFate::Data { kept, appends } = fate else { continue };
        let end = drive.zones.get(zone as usize).map_or(0, |zone| zone.end());
        let nearer = [kept + end.saturating_sub(*kept) / 2, kept + 1];
        for kept in nearer.into_iter().filter(|nearer| kept < nearer && *nearer < end) {
            let mut simpler = state.clone();
            simpler.zones.insert(zone, ZoneFate::Data { kept, appends: appends.clone() });
            all.push(simpler);
        }
    }
    all
}

/// A lock; a thread that panicked has left whole values.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
