//! `zonal crash`: the states that a loss of power may leave, from a recording.
mod files;

use crate::args::{seconds, sectors};
use crate::interrupt::{exit_code, set_on_interrupt};
use crate::terminal::{StepBar, print_error, stdout};
use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::{ArgGroup, Args, ValueEnum};
use std::fs;
use std::io::{BufReader, BufWriter, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use zonal_blk::{BioFlags, Sector};
use zonal_crash::check::Check;
use zonal_crash::content::diff;
use zonal_crash::dm_log_writes::{DmLog, import as import_log};
use zonal_crash::image::materialise;
use zonal_crash::judge::{Judge, ZonefsOracle};
use zonal_crash::log::{Command, End, Event, Events, Header, Log};
use zonal_crash::report;
use zonal_crash::{CheckProcess, MarksOracle, Options, Progress, State, States};
use zonal_device::quantity::format_size;
use zonal_lab::crash_page;
use zonal_lab::fio_job::FioJob;
use zonal_lab::fio_verify::FioVerifyOracle;
use zonal_lab::page;
use zonal_lab::progress::StepProgress;
use zonal_os::output_file::{self, refuse_fifo};

/// Options of `zonal crash`.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    group = ArgGroup::new("mode"),
    group = ArgGroup::new("checked").args(["check", "oracle"]),
    group = ArgGroup::new("image").args(["check", "oracle", "materialise", "diff"]),
)]
pub struct CrashArgs {
    /// The log that `--record` of `zonal run` or `zonal serve` wrote
    #[arg(value_name = "LOG", required = true)]
    pub log: Option<PathBuf>,
    #[command(subcommand)]
    pub files: Option<files::FilesCommand>,
    /// List the states, one a line
    #[arg(long, group = "mode")]
    pub list: bool,
    /// List the events of the log, one a line, with their numbers
    #[arg(long, group = "mode")]
    pub events: bool,
    /// LOG is one of dm-log-writes: write it as a log of the crash lab to this file
    #[arg(long, group = "mode", value_name = "FILE", requires = "size")]
    pub import: Option<PathBuf>,
    /// For --import: the size of the disk
    #[arg(long, value_name = "SIZE", requires = "import", value_parser = sectors)]
    pub size: Option<u64>,
    /// Make the image of a state
    #[arg(long, group = "mode", num_args = 2, value_names = ["STATE", "IMAGE"])]
    pub materialise: Vec<String>,
    /// Show where two states differ
    #[arg(long, group = "mode", num_args = 2, value_names = ["STATE", "STATE"])]
    pub diff: Vec<State>,
    /// Run a command on the image of each state; exit code 0 says that it is good. In the command,
    /// {image} stands for the file, {marks} for a file with the marks before the loss of power, and
    /// {state} for the state
    #[arg(long, group = "mode", value_name = "COMMAND")]
    pub check: Option<String>,
    /// Judge each state without a command: `zonefs`, what was synced is there; `fio-verify`, that and
    /// each block with a header of fio is where it was written to; `marks`, the commands of --script
    /// succeed
    #[arg(long, group = "mode", value_name = "NAME")]
    pub oracle: Option<OracleName>,
    /// For --oracle marks: lines MARK => COMMAND, what must hold after each mark. A MARK that ends
    /// with * stands for all that begin so
    #[arg(long, value_name = "FILE", required_if_eq("oracle", "marks"))]
    pub script: Option<PathBuf>,
    /// For --oracle fio-verify: the job whose writes were recorded, in a job file. It verifies in each state
    /// what it had written and flushed
    #[arg(long, value_name = "FILE", requires = "oracle")]
    pub job: Option<PathBuf>,
    /// Check this state only
    #[arg(long, requires = "checked", conflicts_with_all = ["resume", "junit", "json", "html"])]
    pub state: Option<State>,
    /// Checks at the same time [default: one for each processor]
    #[arg(long, requires = "checked", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// A check that takes longer has failed
    #[arg(long, requires = "checked", value_name = "SECONDS", default_value_t = 60.0, value_parser = seconds)]
    pub timeout: f64,
    /// Check no more states after this many failures; 0 to check all
    #[arg(long, requires = "checked", value_name = "N", default_value_t = 0)]
    pub max_failures: usize,
    /// Keep the results in this file, so that an interrupted run can continue
    #[arg(long, requires = "checked", value_name = "FILE")]
    pub resume: Option<PathBuf>,
    /// Write the results as JUnit XML
    #[arg(long, requires = "checked", value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Write the results as JSON
    #[arg(long, requires = "checked", value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a page (HTML) with the results and a timeline of the log
    #[arg(long, requires = "checked", value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Make images in this folder [default: that for temporary files]
    #[arg(long, requires = "checked", value_name = "DIR")]
    pub work: Option<PathBuf>,
    /// A copy of the image from before the recording, if it had data then
    #[arg(long, value_name = "IMAGE", requires = "image")]
    pub base: Option<PathBuf>,
    /// The most states at one event: more are sampled
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub per_cut: u64,
    /// Selects the sample
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Only N states, spread over the log
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub sample: Option<u64>,
    /// Only losses of power after these events
    #[arg(long, value_name = "FIRST-LAST", value_parser = cuts)]
    pub cuts: Option<RangeInclusive<u64>>,
    /// The size of the drive's write cache: older writes are durable without a flush
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = sectors)]
    pub cache: u64,
    /// The drive writes this much atomically, at multiples of it: 512 and more, in powers of two
    /// [default: a logical block]
    #[arg(long, value_name = "SIZE", value_parser = atomic)]
    pub atomic: Option<u64>,
}

/// The oracles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OracleName {
    /// Zones as files.
    Zonefs,
    /// Blocks of jobs with `verify=`.
    FioVerify,
    /// What a script says.
    Marks,
}

fn cuts(text: &str) -> Result<RangeInclusive<u64>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if first <= last => Ok(first..=last),
        _ => Err("expected the number of an event, or FIRST-LAST".to_owned()),
    }
}

fn atomic(text: &str) -> Result<u64, String> {
    match sectors(text)? {
        sectors if sectors.is_power_of_two() => Ok(sectors),
        _ => Err("expected a power of two from 512 on".to_owned()),
    }
}

impl CrashArgs {
    fn log(&self) -> &Path {
        self.log.as_deref().expect("required where there is no command")
    }

    fn options(&self, log: &Log) -> Options {
        let options = Options {
            per_cut: self.per_cut,
            seed: self.seed,
            cache_sectors: self.cache,
            atomic_sectors: self.atomic.unwrap_or(1),
            cuts: self.cuts.clone().unwrap_or(0..=u64::MAX),
            sample: None,
        };
        match self.sample {
            Some(wanted) => options.with_sample(log, wanted),
            None => options,
        }
    }
}

/// Runs `zonal crash`.
///
/// # Errors
/// The log, a state, an image or a workload cannot be used.
pub fn run(args: &CrashArgs) -> Result<ExitCode> {
    if let Some(command) = &args.files {
        return files::run(command);
    }
    let name = args.log().display();
    if let (Some(to), Some(size)) = (&args.import, args.size) {
        return import(args.log(), Sector(size), to).with_context(|| format!("{name}"));
    }
    refuse_fifos(args)?;
    let log = Log::open(args.log()).with_context(|| format!("{name}"))?;
    if let Some(judge) = judge(args, &log)? {
        return check(args, judge, log);
    }
    let mut out = BufWriter::new(stdout());
    if args.events {
        let mut events = log.events();
        list_events(&mut events, &log, &mut out)?;
        warn_if_truncated(args, events.end(), events.number());
    } else if let [state, image] = &args.materialise[..] {
        let state = state.parse::<State>().context("--materialise")?;
        make(&log, args, &state, Path::new(image))?;
        writeln!(out, "{image}: state {state} of {name}")?;
    } else if let [a, b] = &args.diff[..] {
        let mut same = true;
        let mut line = |line: &str| {
            same = false;
            writeln!(out, "{line}")
        };
        diff(&log, [a, b], args.base.as_deref(), args.cache, &mut line)?;
        out.flush()?;
        return Ok(if same { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    } else {
        let mut states = States::new(&log, args.options(&log));
        let mut count = 0;
        for progress in &mut states {
            if let Progress::State(state, _) = progress {
                count += 1;
                if args.list {
                    writeln!(out, "{state}")?;
                }
            }
        }
        if !args.list {
            let header = log.header();
            writeln!(out, "{name}: {}, {}", header.device, header.summary())?;
            writeln!(out, "{} events, {count} states", states.events())?;
        }
        warn_if_truncated(args, states.end(), states.events());
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Imports a log of dm-log-writes.
fn import(from: &Path, size: Sector, to: &Path) -> Result<ExitCode> {
    ensure!(!to.exists(), "--import {}: the file exists; expected a new one", to.display());
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
    ensure!(
        folder.is_none_or(Path::is_dir),
        "--import {}: found no folder for it, expected one",
        to.display()
    );
    let file =
        output_file::open(fs::OpenOptions::new().read(true), from).context("cannot read it")?;
    let mut log = DmLog::open(BufReader::new(file))?;
    let header = Header::of_disk(&from.to_string_lossy(), size, 512).context("--size")?;
    let found = import_log(&mut log, &header, to);
    if found.is_err() {
        // It is not the whole log.
        let _removed = fs::remove_file(to);
    }
    let found = found?;
    if found.entries < found.expected {
        print_error(format_args!(
            "zonal: {}: found {} entries, expected {}: the end of the log is missing",
            from.display(),
            found.entries,
            found.expected
        ));
    }
    let mut out = stdout();
    writeln!(out, "{}: {} entries, {} events", to.display(), found.entries, found.totals.events)?;
    Ok(ExitCode::SUCCESS)
}

/// The judge of states, if states are to be checked.
fn judge(args: &CrashArgs, log: &Log) -> Result<Option<Box<dyn Judge>>> {
    let timeout = Duration::from_secs_f64(args.timeout);
    if let Some(command) = &args.check {
        ensure!(
            command.contains("{image}"),
            "--check: found `{command}`, expected a command with {{image}}, the name of the image"
        );
        return Ok(Some(Box::new(CheckProcess { command: command.clone(), timeout, mark: None })));
    }
    let Some(name) = args.oracle else {
        ensure!(args.script.is_none(), "--script: found no --oracle, expected --oracle marks");
        return Ok(None);
    };
    ensure!(
        args.script.is_none() || name == OracleName::Marks,
        "--script: found another oracle, expected --oracle marks"
    );
    ensure!(
        args.job.is_none() || name == OracleName::FioVerify,
        "--job: found another oracle, expected --oracle fio-verify"
    );
    let failed = |why: String| anyhow!("{}: {why}", args.log().display());
    Ok(Some(match (name, &args.script) {
        (OracleName::Zonefs, _) => Box::new(ZonefsOracle::new(log).map_err(failed)?),
        (OracleName::FioVerify, _) => {
            let oracle = FioVerifyOracle::new(log).map_err(failed)?;
            Box::new(match &args.job {
                Some(file) => {
                    let job = FioJob::open(file, log);
                    oracle.with_job(job.with_context(|| format!("--job {}", file.display()))?)
                }
                None => oracle,
            })
        }
        (OracleName::Marks, Some(script)) => Box::new(MarksOracle::open(script, log, timeout)?),
        (OracleName::Marks, None) => bail!("--oracle marks: expected --script FILE"),
    }))
}

/// Checks the states, and reports. Exits with 1 if one failed.
fn check(args: &CrashArgs, judge: Box<dyn Judge>, log: Log) -> Result<ExitCode> {
    if let Some(work) = args.work.as_deref().filter(|work| !work.is_dir()) {
        bail!("--work {}: found no folder of this name, expected one", work.display());
    }
    let by = args.check.clone().unwrap_or_else(|| judge.identity());
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let stop = Arc::default();
    set_on_interrupt(&stop)?;
    let check = Check {
        options: args.options(&log),
        log,
        base: args.base.clone(),
        judge,
        jobs: args.jobs.map_or(processors, usize::from),
        stop,
        max_failures: args.max_failures,
        work: args.work.clone(),
    };
    let mut out = stdout();
    if let Some(state) = &args.state {
        let verdict = check.replay(state)?;
        report::verdict(&mut out, &verdict)?;
        return Ok(ExitCode::from(u8::from(verdict.failure.is_some())));
    }
    for (option, file) in reports(args) {
        // Before the checks, which may take hours.
        let opened = fs::OpenOptions::new().append(true).create(true).open(file);
        opened.with_context(|| format!("{option} {}", file.display()))?;
    }
    let bar = StepBar::new("{prefix} {pos} of {len} states, {per_sec}, {eta} left");
    bar.start("checks", check.options.clone().count(&check.log));
    let results = check.run(args.resume.as_deref(), &mut |_| bar.advance(1))?;
    bar.finish();
    let name = args.log().to_string_lossy();
    for (option, file) in reports(args) {
        let text = match option {
            "--json" => report::json(&name, &by, &results),
            "--junit" => report::junit(&name, &results),
            _ => {
                let page = crash_page::render(&check.log, &name, &by, &results);
                page::with_command(&page, std::env::args().skip(1))
            }
        };
        let written = output_file::create(file).and_then(|mut out| out.write_all(text.as_bytes()));
        written.with_context(|| format!("{option} {}", file.display()))?;
    }
    warn_if_truncated(args, results.end.as_ref(), results.events);
    report::text(&mut out, &results)?;
    match exit_code().filter(|_| results.interrupted) {
        Some(interrupted) => Ok(interrupted),
        None => Ok(ExitCode::from(u8::from(results.failures().next().is_some()))),
    }
}

/// Refuses FIFOs among the files: opening one would wait for another process.
fn refuse_fifos(args: &CrashArgs) -> Result<()> {
    let named = [("--base", &args.base), ("--resume", &args.resume)];
    let named = named.into_iter().filter_map(|(option, file)| Some((option, file.as_ref()?)));
    for (option, file) in named.chain(reports(args)) {
        refuse_fifo(file).with_context(|| format!("{option} {}", file.display()))?;
    }
    refuse_fifo(args.log()).with_context(|| args.log().display().to_string())
}

/// The files that the results go to, with their options.
fn reports(args: &CrashArgs) -> impl Iterator<Item = (&'static str, &PathBuf)> {
    let files = [("--json", &args.json), ("--junit", &args.junit), ("--html", &args.html)];
    files.into_iter().filter_map(|(option, file)| Some((option, file.as_ref()?)))
}

fn make(log: &Log, args: &CrashArgs, state: &State, image: &Path) -> Result<()> {
    ensure!(!image.exists(), "{}: the file exists; expected a new one", image.display());
    let made = materialise(log, state, args.base.as_deref(), args.cache, image);
    if made.is_err() {
        // It is not an image of the state.
        let _removed = std::fs::remove_file(image);
    }
    Ok(made?)
}

/// Says so if the recording did not end as it should.
fn warn_if_truncated(args: &CrashArgs, end: Option<&End>, events: u64) {
    if let Some(End::Truncated(at)) = end {
        print_error(format_args!(
            "zonal: {}: no intact frame at byte {at}, and no footer: the end of the recording \
             is missing; {events} events can be used",
            args.log().display()
        ));
    }
}

fn list_events(events: &mut Events, log: &Log, out: &mut impl Write) -> Result<()> {
    let geometry = log.header().geometry();
    for (number, event) in (1..).zip(events) {
        match event {
            Event::Started { id, command } => {
                let Command { op, sector, nr_sectors, .. } = command;
                write!(out, "{number} start {id} {op:?}")?;
                if op.has_range() || op.is_zone_management() {
                    write!(out, " zone {} sector {sector}", sector.0 / geometry.zone_size.0)?;
                }
                if op.has_range() {
                    write!(out, " {}", format_size(u64::from(nr_sectors) * 512))?;
                }
                for (flag, name) in [(BioFlags::PREFLUSH, "PREFLUSH"), (BioFlags::FUA, "FUA")] {
                    if command.flags.contains(flag) {
                        write!(out, " {name}")?;
                    }
                }
                writeln!(out)?;
            }
            Event::Ended { id, status, landed } => {
                writeln!(out, "{number} end {id} at sector {landed}: {status}")?;
            }
            Event::Mark(text) => writeln!(out, "{number} mark {text}")?,
        }
    }
    Ok(())
}
