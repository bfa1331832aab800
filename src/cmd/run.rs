//! `zonal run`.
mod fio;
mod shown;

use super::traced::{self, TraceArgs};
use crate::args::{ClockArg, Eta, address, zone_write};
use crate::config;
use crate::interrupt::{exit_code, set_on_interrupt};
use crate::terminal::{JobLine, notices, print_error, stdout};
use anyhow::{Context, Result, bail, ensure};
use clap::{ArgGroup, Args};
use fio::FioArgs;
use serde_json::Value;
use shown::Shown;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use zonal_backend::is_block_device;
use zonal_blk::{Nanos, QueueOptions, ZoneWrite};
use zonal_device::inject::Rule;
use zonal_fio::job::Job;
use zonal_fio::jobfile::{self, JobSet, SystemEnvironment};
use zonal_fio::options;
use zonal_fio::report::{self, Format, TerseVersion};
use zonal_fio::verify::Dump;
use zonal_lab::check_writable;
use zonal_lab::devices::{DeviceOptions, Devices};
use zonal_lab::executor::{ClockKind, Executor, FinishedTask};
use zonal_lab::experiment::available_cpus;
use zonal_lab::io_trace::IoTrace;
use zonal_lab::page;
use zonal_lab::run::{Run, RunInfo, ViewRecording, jobs_without_io, jobs_without_zones};
use zonal_sim::CostModel;

/// The version as reports have it.
const VERSION: &str = concat!("zonal-", env!("CARGO_PKG_VERSION"));

/// Options of `zonal run` that are not job options.
#[derive(Args, Debug)]
#[command(group(ArgGroup::new("traced").args(["trace", "explain", "explain_html"]).multiple(true)))]
pub struct RunArgs {
    /// Device for all jobs: a spec (see `zonal devices`), a TOML profile, or in real time an image
    /// NAME.img, nvme-tcp://HOST:PORT/NQN, a block device /dev/NAME or an NVMe namespace
    /// /dev/ngXnY. Without it, each job's `filename` names its device; the last two need --allow-dev then
    #[arg(long, value_name = "SPEC", value_parser = config::device)]
    pub device: Option<String>,
    /// Let jobs name disks of this machine, /dev/NAME; jobs that write overwrite their data. A disk that
    /// is mounted is refused nevertheless. On a terminal you are asked
    #[arg(long)]
    pub allow_dev: bool,
    /// Give each clone a region of its own on the device, as large as its file would be in fio, and
    /// each file that jobs name; without it, all of them use the device from `offset` on
    #[arg(long)]
    pub files: bool,
    /// Real threads and real time, or discrete events in virtual time
    #[arg(long, value_enum, default_value_t = ClockArg::Real)]
    pub clock: ClockArg,
    /// Random seed of the jobs and of the device; in virtual time the same seed
    /// gives the same output to the byte
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// How writes to sequential zones are kept in order [default: qd1 for rotating devices, else
    /// plug]
    #[arg(long, value_parser = zone_write(), value_name = "POLICY")]
    pub zone_write: Option<ZoneWrite>,
    #[arg(
        long,
        value_name = "NAME",
        help = concat!(
            "I/O scheduler of all devices: ",
            zonal_blk::scheduler_names!(),
            ". Without it, each job's `ioscheduler` names its device's [default: none]"
        )
    )]
    pub scheduler: Option<String>,
    /// Set an attribute of the scheduler; can be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub sched_opt: Vec<String>,
    /// Do not merge contiguous writes that wait in a plug
    #[arg(long)]
    pub nomerges: bool,
    /// Inject a fault into every device, such as fail=write,zone=3,count=2 or
    /// delay=read,time=20ms,one_in=100; can be repeated, the first rule that matches applies
    #[arg(long = "fault", value_name = "RULE")]
    pub faults: Vec<Rule>,
    /// Virtual time that an I/O costs the thread that does it, in nanoseconds; `published` for what
    /// it cost the machine of the published zone write plugging tables, by scheduler and length
    /// [default: 1000]
    #[arg(long, value_name = "NS")]
    pub io_cost: Option<CostModel>,
    /// Output formats, separated by commas: normal, json, json+, terse
    #[arg(long, value_name = "LIST", default_value = "normal")]
    pub output_format: String,
    /// The same as --output-format=terse
    #[arg(long)]
    pub minimal: bool,
    /// Write the report to a file
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Show progress: on a terminal, always or never
    #[arg(long, value_enum, default_value_t = Eta::Auto)]
    pub eta: Eta,
    /// After the run, show the live zone write plugs
    #[arg(long)]
    pub dump_plugs: bool,
    /// Write what the heads of rotating disks do to a file, as CSV: when an activity begins, where
    /// the head is, and how much is in the write buffer
    #[arg(long, value_name = "FILE", conflicts_with = "trace")]
    pub head_trace: Option<PathBuf>,
    #[command(flatten)]
    pub trace: TraceArgs,
    /// Say where the time of the I/Os at p50, p99 and p99.9 went: plug, scheduler, tag, device
    #[arg(long, conflicts_with = "head_trace")]
    pub explain: bool,
    /// The same as a page, with stacked bars
    #[arg(long, value_name = "FILE", conflicts_with = "head_trace")]
    pub explain_html: Option<PathBuf>,
    /// Record everything that changes the device to this file, with its data, for `zonal crash`
    #[arg(long, alias = "record-all", value_name = "LOG")]
    pub record: Option<PathBuf>,
    /// Show the devices as a page for a browser on this address while the jobs run, in real time; port
    /// 0 for any that is free. On an address that other machines reach, the page has a token in its
    /// URL
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    pub web: Option<SocketAddr>,
    /// Show the devices in the terminal while the jobs run, in real time, as `zonal top` does; its keys
    /// can change them
    #[cfg(feature = "top")]
    #[arg(long, conflicts_with = "status_interval")]
    pub top: bool,
    /// Record what the page would show to a file, for `zonal view`
    #[arg(long, value_name = "FILE")]
    pub record_view: Option<PathBuf>,
    /// While the jobs run, report what they have done at the end of each interval of the clock: a
    /// time such as 30s or 500ms, in seconds without a unit
    #[arg(long, value_name = "TIME", value_parser = interval)]
    pub status_interval: Option<Nanos>,
    #[command(flatten)]
    pub fio: FioArgs,
    /// Print the jobs as a command line, and run nothing
    #[arg(long)]
    pub showcmd: bool,
    /// Explain a job option, or list them all, and run nothing
    #[arg(long, value_name = "OPTION", require_equals = true, num_args = 0..=1,
          default_missing_value = "all")]
    pub cmdhelp: Option<String>,
    /// Run jobs whose fio options Zonal lacks without them, even if that changes their I/O
    #[arg(long)]
    pub allow_unsupported: bool,
    /// Parse and check everything, but run nothing
    #[arg(long)]
    pub parse_only: bool,
}

/// Runs the jobs that `job_args` describe. Exits with 1 if a job failed, and as by the signal if one
/// ended the run early.
pub fn run(args: &RunArgs, job_args: Vec<OsString>) -> Result<ExitCode> {
    if args.cmdhelp.is_some() || args.fio.version {
        return tell_only(args);
    }
    let formats = formats(args)?;
    let command_line = args.showcmd.then(|| jobfile::command_line(&job_args, &SystemEnvironment));
    let set = jobfile::parse_args(job_args, &SystemEnvironment)?;
    let mut notices = set.notices(args.allow_unsupported)?;
    let JobSet { jobs, global_options, .. } = set;
    if let Some(words) = command_line {
        writeln!(stdout(), "zonal run {}", words?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if jobs.is_empty() {
        bail!("no jobs: name a job file, or give a job with --name=... (see zonal run --help)");
    }
    let jobs: Vec<Arc<Job>> = jobs.into_iter().map(Arc::new).collect();
    let clock = clock(args)?;
    let mut run = Run::prepare(&jobs, &device_options(args, &jobs, clock, &formats)?)?;
    notices.extend(warnings(&run, &jobs, clock));
    args.fio.check(&jobs, &notices)?;
    tell(&notices);
    if args.parse_only {
        return Ok(ExitCode::SUCCESS);
    }
    let output = Arc::new(Mutex::new(open_output(args)?));
    start_recording(&mut run, args, clock)?;
    if formats.contains(&Format::Normal) {
        write_to(&output, &run.announcement()).with_context(|| written_to(args))?;
    }
    let started_ms = clock.timestamp_ms();
    let info = |timestamp_ms, global_options, interrupted| RunInfo {
        version: VERSION.to_owned(),
        timestamp_ms,
        started_ms,
        global_options,
        clock,
        seed: args.seed,
        interrupted,
    };
    if let Some(interval) = args.status_interval {
        let (output, formats) = (Arc::clone(&output), formats.clone());
        let show = move |report: &report::Report<'_>| {
            // If it fails, so does the report at the end, which says so.
            let _ = write_to(&output, &report::render(report, &formats));
        };
        run.show_status(info(None, global_options.clone(), false), interval, Box::new(show))?;
    }
    let mut shown = Shown::start(args, &run)?;
    let mut executor = executor(args, clock, shown.recording.as_ref())?;
    let finished = shown.during(|| run.execute(&mut executor, args.seed))?;
    report_findings(&finished, run.devices())?;
    let mut report =
        run.report(&finished, info(clock.timestamp_ms(), global_options, executor.is_stopped()));
    if !notices.is_empty() {
        report.extra.push(("notices".to_owned(), notices.into()));
    }
    report.extra.extend(sections(args, &run, &formats));
    let text = report::render(&report, &formats) + &explained(args, &run, &formats);
    write_to(&output, &text).with_context(|| written_to(args))?;
    if args.dump_plugs {
        dump_plugs(run.devices())?;
    }
    finish_recording(&run, args)?;
    shown.finish(clock)?;
    Ok(match executor.is_stopped().then(exit_code).flatten() {
        Some(interrupted) => interrupted,
        None => success(&finished, run.devices()),
    })
}

/// Prints what is asked for in place of a run.
fn tell_only(args: &RunArgs) -> Result<ExitCode> {
    if let Some(option) = &args.cmdhelp {
        return explain(option);
    }
    writeln!(stdout(), "{VERSION}")?;
    Ok(ExitCode::SUCCESS)
}

/// The formats of the report.
fn formats(args: &RunArgs) -> Result<Vec<Format>> {
    let formats = match args.minimal {
        true => vec![Format::Terse(TerseVersion::V3)],
        false => Format::parse_list(&args.output_format).context("--output-format")?,
    };
    Ok(args.fio.formats(formats))
}

/// Asks on a terminal whether the disks of this machine that jobs name may be used.
fn consent(args: &RunArgs, jobs: &[Arc<Job>], clock: ClockKind) -> Result<bool> {
    let is_asked = io::stdin().is_terminal() && io::stderr().is_terminal();
    if args.device.is_some() || clock == ClockKind::Virtual || !is_asked {
        return Ok(false);
    }
    let names = jobs.iter().filter_map(|job| job.filename.as_deref());
    let disks: BTreeSet<&str> = names.filter(|name| is_block_device(name)).collect();
    if disks.is_empty() {
        return Ok(false);
    }
    let disks = disks.into_iter().collect::<Vec<_>>().join(", ");
    print_error(format_args!(
        "zonal: the jobs use {disks} of this machine, and those that write overwrite its data. \
         Continue? (yes or no)"
    ));
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(answer.trim() == "yes")
}

/// Tells a person what is in the report, too: a program that reads the report may take anything on
/// standard error for a failure.
fn tell(notices: &[String]) {
    if io::stderr().is_terminal() {
        notices.iter().for_each(|notice| tracing::warn!("{notice}"));
    }
}

/// The clock, which the other options have to fit.
fn clock(args: &RunArgs) -> Result<ClockKind> {
    let clock = ClockKind::from(args.clock);
    ensure!(
        args.io_cost.is_none() || clock == ClockKind::Virtual,
        "--io-cost: found --clock=real, where an I/O costs what it takes, expected --clock=virtual"
    );
    ensure!(
        !args.allow_dev || clock == ClockKind::Real,
        "--allow-dev: found --clock=virtual, expected --clock=real, in which disks work"
    );
    shown::check(args, clock)?;
    Ok(clock)
}

/// Begins to record and to trace what `args` ask for.
fn start_recording(run: &mut Run, args: &RunArgs, clock: ClockKind) -> Result<()> {
    run.start_recording(clock)?;
    // Before the jobs, which may take hours.
    let late = [("--explain-html", &args.explain_html), ("--record-view", &args.record_view)];
    for (option, file) in late {
        let Some(file) = file else { continue };
        check_writable(file).with_context(|| format!("{option} {}", file.display()))?;
    }
    if let Some(file) = &args.head_trace {
        run.trace_heads(file)?;
    }
    if args.trace.trace.is_some() || args.explain || args.explain_html.is_some() {
        run.trace_ios(args.trace.settings())?;
    }
    Ok(())
}

/// The sections of a report about traced I/Os. For people there is a table instead: [`explained`].
fn sections(args: &RunArgs, run: &Run, formats: &[Format]) -> Vec<(String, Value)> {
    let is_data = formats.iter().any(|format| *format != Format::Normal);
    run.io_trace().map_or_else(Vec::new, |trace| trace.sections(args.explain && is_data))
}

/// The table of `--explain`, after a report for people.
fn explained(args: &RunArgs, run: &Run, formats: &[Format]) -> String {
    let trace = run.io_trace().filter(|_| args.explain && formats.contains(&Format::Normal));
    trace.map_or_else(String::new, IoTrace::explained)
}

/// Writes what was traced, and checks that everything was recorded.
fn finish_recording(run: &Run, args: &RunArgs) -> Result<()> {
    if let Some(trace) = run.io_trace() {
        traced::finish(trace)?;
        if let Some(file) = &args.explain_html {
            fs::write(file, page::with_command(&trace.page(), std::env::args().skip(1)))
                .with_context(|| format!("--explain-html {}", file.display()))?;
        }
    }
    run.check_recordings()?;
    run.devices().finish_recording()
}

/// Whether all jobs did their I/O; prints why a job did none.
fn success(finished: &[FinishedTask], devices: &Devices) -> ExitCode {
    let idle = jobs_without_io(finished, devices);
    let unplaced = jobs_without_zones(finished, devices);
    idle.iter().chain(&unplaced).for_each(|job| print_error(format_args!("zonal: {job}")));
    let failed = finished.iter().any(|finished| finished.outcome.error.is_some());
    if failed || !idle.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Explains a job option, or lists them all (fio's `--cmdhelp`).
fn explain(option: &str) -> Result<ExitCode> {
    let text = match option {
        "all" => options::list(),
        option => super::info::explained(option).context("--cmdhelp")?,
    };
    write!(stdout(), "{text}")?;
    Ok(ExitCode::SUCCESS)
}

fn device_options(
    args: &RunArgs,
    jobs: &[Arc<Job>],
    clock: ClockKind,
    formats: &[Format],
) -> Result<DeviceOptions> {
    let is_json = |format: &Format| matches!(format, Format::Json | Format::JsonPlus);
    Ok(DeviceOptions {
        device: args.device.clone(),
        files: args.files,
        queue: QueueOptions {
            zone_write: args.zone_write,
            merge: !args.nomerges,
            iostats: formats.iter().any(is_json)
                || args.record_view.is_some()
                || shown::in_terminal(args),
            watchable: args.web.is_some(),
            ..QueueOptions::default()
        },
        disk_stats: true,
        injectable: shown::in_terminal(args),
        scheduler: args.scheduler.clone(),
        sched_opts: args.sched_opt.clone(),
        faults: args.faults.clone(),
        seed: args.seed,
        record: args.record.clone(),
        real_time: clock == ClockKind::Real,
        allow_disks: args.allow_dev || consent(args, jobs, clock)?,
        notices: notices(),
        ..DeviceOptions::default()
    })
}

/// The default of `--io-cost`.
const IO_COST: CostModel = CostModel::Flat(Nanos(1000));

fn executor(args: &RunArgs, clock: ClockKind, view: Option<&ViewRecording>) -> Result<Executor> {
    let eta = if shown::in_terminal(args) { Eta::Never } else { args.eta };
    let (stop, progress) = (Arc::default(), Box::new(JobLine::new(eta)) as _);
    let progress = match view {
        Some(view) => view.progress(progress),
        None => progress,
    };
    set_on_interrupt(&stop)?;
    Ok(match clock {
        ClockKind::Virtual => {
            Executor::interruptible(args.io_cost.unwrap_or(IO_COST), stop, progress)
                .on_processors(available_cpus())
        }
        ClockKind::Real => Executor::real_time(stop, progress),
    })
}

/// Parses an interval.
fn interval(text: &str) -> Result<Nanos, String> {
    match options::parse_seconds(text) {
        Ok(Nanos(0)) => Err("expected more than 0".to_owned()),
        Ok(interval) => Ok(interval),
        Err(error) => Err(error.to_string()),
    }
}

/// Where reports go; several threads report.
type Output = Arc<Mutex<Box<dyn Write + Send>>>;

fn write_to(output: &Output, text: &str) -> io::Result<()> {
    let mut output = output.lock().expect("no thread panics while it writes");
    output.write_all(text.as_bytes())?;
    output.flush()
}

fn open_output(args: &RunArgs) -> Result<Box<dyn Write + Send>> {
    Ok(match &args.output {
        None => Box::new(stdout()),
        Some(path) => {
            Box::new(File::create(path).with_context(|| format!("--output {}", path.display()))?)
        }
    })
}

/// The destination of the report, for errors.
fn written_to(args: &RunArgs) -> String {
    let path = args.output.as_ref();
    path.map_or("standard output".to_owned(), |path| format!("--output {}", path.display()))
}

/// Warnings of what the jobs may not expect.
fn warnings(run: &Run, jobs: &[Arc<Job>], clock: ClockKind) -> Vec<String> {
    let missing = (clock == ClockKind::Real).then(|| missing_cpus(jobs)).flatten();
    missing.into_iter().chain(run.warnings()).collect()
}

/// The CPUs of `cpus_allowed` that this machine does not have.
fn missing_cpus(jobs: &[Arc<Job>]) -> Option<String> {
    let allowed = zonal_os::allowed_cpus();
    let wanted = jobs.iter().flat_map(|job| &job.cpus_allowed);
    let missing: BTreeSet<usize> = wanted.copied().filter(|cpu| !allowed.contains(cpu)).collect();
    (!missing.is_empty()).then(|| {
        format!("cpus_allowed: CPUs {missing:?} are not online; {allowed:?} are used instead")
    })
}

/// Prints verification errors, and dumps the blocks that were read and expected if the job has
/// `verify_dump`.
fn report_findings(finished: &[FinishedTask], devices: &Devices) -> Result<()> {
    for FinishedTask { task, outcome, .. } in finished {
        let (name, findings) = (&task.job.name, &outcome.findings);
        if let Some(reason) = &outcome.reason {
            print_error(format_args!("zonal: job {name}: {reason}"));
        }
        for finding in findings.kept() {
            print_error(format_args!("{}", finding.text(&devices.of(task).name)));
            let Some(Dump { received, expected }) = &finding.dump else { continue };
            let dumps = [("received", Some(received)), ("expected", expected.as_ref())];
            for (what, bytes) in dumps.into_iter().filter_map(|(what, it)| Some((what, it?))) {
                let file = format!("{}.{}.{what}", name.replace('/', "_"), finding.io.0);
                fs::write(&file, bytes).with_context(|| format!("verify_dump: {file}"))?;
            }
        }
        if findings.not_kept() > 0 {
            let more = findings.not_kept();
            print_error(format_args!("zonal: job {name}: {more} more such errors"));
        }
    }
    Ok(())
}

fn dump_plugs(devices: &Devices) -> io::Result<()> {
    let mut out = stdout();
    for device in devices.iter() {
        let live = device.queue.live_plugs();
        writeln!(out, "{}: {live} zone write plugs live", device.name)?;
        for plug in device.queue.dump_plugs(false) {
            writeln!(out, "  {plug}")?;
        }
    }
    Ok(())
}
