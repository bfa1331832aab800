//! `zonal-dev torture`: random runs over a failing device until one fails, time is up or all are done.
#[cfg(torture)]
mod probes;

use crate::shown::stdout;
use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use zonal_lab::experiment::available_cpus;
use zonal_os::text_file;
use zonal_torture::report::{Report, Seeds, marks};
use zonal_torture::{self as torture, Failure, History, Outcome, Profile};

/// Options of `zonal-dev torture`.
#[derive(Args, Debug)]
pub struct TortureArgs {
    /// Seed of the first run; each further run has the next seed
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Number of runs [default: 1000]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "minutes")]
    pub runs: Option<u64>,
    /// How long to run
    #[arg(long, value_name = "MINUTES", value_parser = minutes)]
    pub minutes: Option<f64>,
    /// Runs in parallel, each on a thread [default: the CPUs that this process may use]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Which devices and faults: any, zoned, regular, calm (no faults) or crash (power losses)
    #[arg(long, default_value = "any")]
    pub profile: Profile,
    /// Replay the history of a file that --save wrote
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seed", "runs", "minutes", "profile"])]
    pub replay: Option<PathBuf>,
    /// Write the shrunk history of a failure to a file
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Print the report as JSON, for --merge; a failure has its shrunk history
    #[arg(long)]
    pub json: bool,
    /// Merge reports that --json printed, of different seeds: runs, marks, mutants, failures
    #[arg(
        long, value_name = "FILE", num_args = 1..,
        conflicts_with_all = ["seed", "runs", "minutes", "profile", "jobs", "replay", "save"]
    )]
    pub merge: Vec<PathBuf>,
    /// Show no progress on the terminal
    #[arg(long)]
    pub quiet: bool,
    /// Fail unless every coverage mark was reached
    #[cfg(torture)]
    #[arg(long)]
    pub all_marks: bool,
    /// Switch on a bug in the layer, which has to be found; `all` for one after another, each for at
    /// most --minutes
    #[cfg(torture)]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["replay", "runs", "merge"])]
    pub mutant: Option<String>,
}

fn minutes(text: &str) -> Result<f64, String> {
    let minutes: f64 = text.parse().map_err(|_| "expected minutes such as 0.5".to_owned())?;
    if (0.001..=100_000.0).contains(&minutes) {
        Ok(minutes)
    } else {
        Err("expected 0.001 to 100000 minutes".to_owned())
    }
}

/// Runs for shrinking a history.
const SHRINK_TRIES: u32 = 4000;
/// Runs by default.
const RUNS: u64 = 1000;

/// Runs `zonal-dev torture`. Exits with 1 if a run fails.
pub fn run(args: &TortureArgs) -> Result<ExitCode> {
    torture::silence_panics();
    #[cfg(torture)]
    if let Some(name) = &args.mutant {
        return probes::find_mutants(args, name);
    }
    if let Some(file) = &args.replay {
        ensure!(!args.json, "--json: found it with --replay, which prints text");
        return replay(args, file);
    }
    if !args.merge.is_empty() {
        return merge(args);
    }
    if let Some(file) = &args.save {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        ensure!(
            !file.is_dir() && folder.is_none_or(Path::is_dir),
            "--save: found {}, expected a file in a folder that exists",
            file.display()
        );
    }
    let mut tally = Tally::default();
    let found = search(args, &mut tally)?;
    let found = found.map(|(history, failure)| torture::shrink(&history, &failure, SHRINK_TRIES));
    let mut out = stdout();
    if args.json {
        let mut report = tally.report(args);
        if let Some((history, failure)) = found {
            save(args, &history)?;
            report.add_failure(args.profile.name(), history, &failure);
        }
        print_report(args, &report)?;
        return Ok(exit_code(args, &report));
    }
    write!(out, "{}", tally.report.text())?;
    if let Some((short, failure)) = found {
        report(&mut out, args, &short, &failure)?;
        return Ok(ExitCode::FAILURE);
    }
    #[cfg(torture)]
    if !probes::show_marks(&mut out, args.all_marks)? {
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Merges reports, and prints what they come to.
fn merge(args: &TortureArgs) -> Result<ExitCode> {
    let read = |file: &PathBuf| -> Result<Report> {
        let name = format!("--merge: {}", file.display());
        let text = text_file::read_string(file).with_context(|| name.clone())?;
        serde_json::from_str(&text).with_context(|| format!("{name}: expected a report of --json"))
    };
    let (first, others) = args.merge.split_first().expect("clap wants one");
    let mut all = read(first)?;
    for file in others {
        let merged = all.merge(read(file)?);
        merged.map_err(|error| anyhow!("{}: {error}", file.display()))?;
    }
    print_report(args, &all)?;
    Ok(exit_code(args, &all))
}

fn print_report(args: &TortureArgs, report: &Report) -> Result<()> {
    let text =
        if args.json { format!("{:#}\n", serde_json::to_value(report)?) } else { report.text() };
    Ok(stdout().write_all(text.as_bytes())?)
}

#[cfg(torture)]
fn exit_code(args: &TortureArgs, report: &Report) -> ExitCode {
    let is_missing = args.all_marks && report.marks.values().any(|reached| !reached);
    if report.passed() && !is_missing { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(not(torture))]
fn exit_code(_args: &TortureArgs, report: &Report) -> ExitCode {
    if report.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs seed after seed. Returns the failing history; of several, that of the lowest seed.
fn search(args: &TortureArgs, tally: &mut Tally) -> Result<Option<(History, Failure)>> {
    let limit = args.minutes.map(|minutes| Duration::from_secs_f64(minutes * 60.0));
    let runs = match limit {
        Some(_) => u64::MAX,
        None => args.runs.unwrap_or(RUNS),
    };
    let live = ProgressLine::new(args.quiet, if limit.is_none() { Some(runs) } else { None });
    let search = Search {
        args,
        limit,
        runs,
        start: Instant::now(),
        next: AtomicU64::new(0),
        over: AtomicBool::new(false),
        tally: Mutex::new((tally, live)),
    };
    let found = std::thread::scope(|scope| {
        let jobs = args.jobs.map_or_else(available_cpus, usize::from);
        let others: Vec<_> = (1..jobs).map(|_| scope.spawn(|| search.work())).collect();
        let mut found = vec![search.work()];
        found.extend(others.into_iter().map(|other| other.join().expect("a worker's outcome")));
        found
    });
    let mut failed = Vec::new();
    for worker in found {
        let (history, marks) = worker?;
        merge_marks(marks);
        failed.extend(history);
    }
    Ok(failed.into_iter().min_by_key(|(history, _)| history.seed))
}

#[cfg(torture)]
fn merge_marks(marks: u64) {
    zonal_blk::probe::reach_all(marks);
}

#[cfg(not(torture))]
fn merge_marks(_marks: u64) {}

/// State that the workers share.
struct Search<'a> {
    args: &'a TortureArgs,
    limit: Option<Duration>,
    runs: u64,
    start: Instant,
    next: AtomicU64,
    /// A failure was found.
    over: AtomicBool,
    tally: Mutex<(&'a mut Tally, ProgressLine)>,
}

/// A failing history, if there is one, and the set of reached marks.
type Searched = (Option<(History, Failure)>, u64);

impl Search<'_> {
    fn work(&self) -> Result<Searched> {
        let found = self.find();
        #[cfg(torture)]
        let marks = zonal_blk::probe::reached();
        #[cfg(not(torture))]
        let marks = 0;
        Ok((found?, marks))
    }

    fn find(&self) -> Result<Option<(History, Failure)>> {
        while !self.over.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let late = self.limit.is_some_and(|limit| self.start.elapsed() >= limit);
            if number >= self.runs || late {
                break;
            }
            let history = History::draw(self.args.seed.wrapping_add(number), self.args.profile);
            let outcome = torture::run(&history).map_err(|error| anyhow!(error))?;
            let (tally, live) = &mut *self.tally.lock().expect("tally lock");
            tally.report.add(&history.config, &outcome);
            tally.report.seconds = self.start.elapsed().as_secs_f64();
            tally.last = tally.last.max(number);
            live.show(tally);
            if let Some(failure) = outcome.failure {
                self.over.store(true, Ordering::Relaxed);
                return Ok(Some((history, failure)));
            }
        }
        Ok(None)
    }
}

fn replay(args: &TortureArgs, file: &Path) -> Result<ExitCode> {
    let name = file.display();
    let text = text_file::read_string(file).with_context(|| format!("--replay: {name}"))?;
    let history: History = serde_json::from_str(&text)
        .with_context(|| format!("--replay: {name}: expected a history"))?;
    let outcome = torture::run(&history).map_err(|error| anyhow!("{name}: {error}"))?;
    let mut out = stdout();
    match outcome.failure {
        Some(failure) => {
            report(&mut out, args, &history, &failure)?;
            Ok(ExitCode::FAILURE)
        }
        None => {
            let Outcome { steps, ios, .. } = outcome;
            writeln!(out, "{name}: {steps} steps, {ios} I/Os, nothing wrong")?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Prints a failure and how to reproduce it.
fn report(
    out: &mut impl Write,
    args: &TortureArgs,
    history: &History,
    failure: &Failure,
) -> Result<()> {
    writeln!(out, "\nseed {}: {failure}\n", history.seed)?;
    writeln!(out, "{}", history.config)?;
    for (number, step) in history.steps.iter().enumerate() {
        writeln!(out, "{number:4}  +{:<8} {:?}", step.after, step.action)?;
    }
    if args.replay.is_none() {
        let (profile, seed) = (args.profile.name(), history.seed);
        writeln!(out, "\nagain: zonal-dev torture --seed {seed} --runs 1 --profile {profile}")?;
    }
    if let Some(file) = save(args, history)? {
        writeln!(out, "again, in short: zonal-dev torture --replay {}", file.display())?;
    }
    Ok(())
}

/// Writes a history to the file that --save names. Returns the file.
fn save<'a>(args: &'a TortureArgs, history: &History) -> Result<Option<&'a Path>> {
    let Some(file) = &args.save else { return Ok(None) };
    let text = serde_json::to_string_pretty(history)?;
    std::fs::write(file, text).with_context(|| format!("{}", file.display()))?;
    Ok(Some(file))
}

/// The results of the runs so far.
#[derive(Default)]
struct Tally {
    report: Report,
    /// The number of the last run.
    last: u64,
}

impl Tally {
    /// The report with what is the same for all runs, and the marks.
    fn report(&self, args: &TortureArgs) -> Report {
        let mut report = self.report.clone();
        report.version = env!("CARGO_PKG_VERSION").to_owned();
        let (first, last) = (args.seed, args.seed.wrapping_add(self.last));
        report.seeds = vec![Seeds { profile: args.profile.name().to_owned(), first, last }];
        report.marks = marks();
        report
    }
}

/// The line of progress.
struct ProgressLine(ProgressBar);

impl ProgressLine {
    fn new(quiet: bool, runs: Option<u64>) -> Self {
        let target = if quiet {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr_with_hz(4)
        };
        let bar = ProgressBar::with_draw_target(runs, target);
        let template = if runs.is_some() {
            "{msg} [{bar:24}] {pos}/{len} runs, eta {eta}"
        } else {
            "{msg}, {pos} runs, {elapsed}"
        };
        bar.set_style(ProgressStyle::with_template(template).expect("the template is well formed"));
        ProgressLine(bar)
    }

    fn show(&self, tally: &Tally) {
        let Report { runs, ios, seconds, .. } = tally.report;
        if runs.is_multiple_of(16) {
            self.0.set_position(runs);
            self.0.set_message(format!("{:.0} I/Os a second", ios as f64 / seconds.max(1e-9)));
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
