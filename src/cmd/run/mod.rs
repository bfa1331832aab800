//! `zonal run`: jobs through the block layer onto devices.
mod data;
mod sections;
mod traces;

use crate::cli::{ClockKind, RunArgs};
use crate::devices::{DeviceOptions, Devices};
use crate::machine::{Executor, FinishedTask};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use zonal_blk::QueueOptions;
use zonal_fio::job::Job;
use zonal_fio::jobfile::{self, JobSet, SystemEnvironment};
use zonal_fio::plan::{self, Task};
use zonal_fio::report::{self, Format, JobReport, Report};

/// Runs the jobs that `job_args` describe.
pub fn run(args: &RunArgs, job_args: Vec<OsString>) -> Result<ExitCode> {
    let formats = Format::parse_list(&args.output_format).context("--output-format")?;
    let JobSet { jobs, ignored, global_options } =
        jobfile::parse_args(job_args, &SystemEnvironment)?;
    if jobs.is_empty() {
        bail!("no jobs: name a job file, or give a job with --name=... (see zonal run --help)");
    }
    for option in &ignored {
        eprintln!("zonal: {option}");
    }
    let jobs: Vec<Arc<Job>> = jobs.into_iter().map(Arc::new).collect();
    let mut phases = plan::phases(&jobs);
    traces::load(&mut phases, args.device.as_deref())?;
    let devices = Devices::attach(&device_options(args), &phases)?;
    check_regions(&phases, &devices)?;
    data::check(&phases, &devices)?;
    traces::fit(&mut phases, &devices)?;
    if args.parse_only {
        return Ok(ExitCode::SUCCESS);
    }
    if args.clock == ClockKind::Real {
        report_missing_cpus(&jobs);
    }
    data::warn(&phases);
    let mut output = open_output(args)?;
    let recordings = traces::record(&mut phases, &devices)?;
    if formats.contains(&Format::Normal) {
        for phase in &phases {
            for task in phase.iter().filter(|task| task.clone == 0) {
                write!(output, "{}", report::announce(&task.job, task.group))?;
            }
        }
        output.flush()?;
    }
    let mut executor = Executor::new(args.clock, args.io_cost, args.eta)?;
    let mut finished = Vec::new();
    for phase in phases {
        finished.extend(executor.run(phase, &devices, args.seed)?);
    }
    data::report(&finished, &devices)?;
    let failed = finished.iter().any(|done| done.outcome.error.is_some());
    let report = make_report(args, global_options, &finished, &devices, executor.timestamp_ms());
    write!(output, "{}", report::render(&report, &formats)).context("writing the report")?;
    if args.dump_plugs {
        dump_plugs(&devices);
    }
    traces::check(&recordings)?;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Says once which CPUs of `cpus_allowed` this machine does not have.
fn report_missing_cpus(jobs: &[Arc<Job>]) {
    let online = zonal_host::online_cpus();
    let wanted = jobs.iter().flat_map(|job| &job.cpus_allowed);
    let missing: BTreeSet<usize> = wanted.copied().filter(|cpu| !online.contains(cpu)).collect();
    if !missing.is_empty() {
        eprintln!(
            "zonal: cpus_allowed: CPUs {missing:?} are not there; others of {online:?} take their place"
        );
    }
}

fn device_options(args: &RunArgs) -> DeviceOptions {
    DeviceOptions {
        device: args.device.clone(),
        queue: QueueOptions {
            zone_write: args.zone_write.map(Into::into),
            merge: !args.nomerges,
            ..QueueOptions::default()
        },
        scheduler: args.scheduler.clone(),
        sched_opts: args.sched_opt.clone(),
        seed: args.seed,
        real_time: args.clock == ClockKind::Real,
        ..DeviceOptions::default()
    }
}

/// Finds out before anything runs whether all jobs fit their devices.
fn check_regions(phases: &[Vec<Task>], devices: &Devices) -> Result<()> {
    for task in phases.iter().flatten() {
        let limits = devices.of(task).queue.limits();
        if task.job.fs.kind.is_some() {
            zonal_fsmodel::check(&task.job, limits)?;
        } else {
            task.region(limits)?;
        }
    }
    Ok(())
}

fn open_output(args: &RunArgs) -> Result<Box<dyn Write>> {
    Ok(match &args.output {
        None => Box::new(std::io::stdout()),
        Some(path) => Box::new(
            std::fs::File::create(path).with_context(|| format!("--output {}", path.display()))?,
        ),
    })
}

fn make_report<'a>(
    args: &RunArgs,
    global_options: Vec<(String, String)>,
    finished: &'a [FinishedTask],
    devices: &Devices,
    timestamp_ms: Option<u64>,
) -> Report<'a> {
    let descriptions: Vec<&str> = devices.iter().map(|d| d.description.as_str()).collect();
    let policies: Vec<&str> = devices.iter().map(|d| d.queue.zone_write().name()).collect();
    let job = |done: &'a FinishedTask| JobReport {
        job: &done.task.job,
        groupid: done.task.group,
        pid: done.outcome.thread_id,
        stats: done.outcome.stats.clone(),
        error: done.outcome.error,
        eta: 0,
        elapsed: done.elapsed,
    };
    Report {
        version: concat!("zonal-", env!("CARGO_PKG_VERSION")).to_owned(),
        timestamp_ms,
        global_options,
        jobs: finished.iter().map(job).collect(),
        device: descriptions.join("; "),
        clock: match args.clock {
            ClockKind::Real => "real",
            ClockKind::Virtual => "virtual",
        },
        seed: args.seed,
        policy: policies.join("; "),
        extra: sections::of(finished, devices),
    }
}

fn dump_plugs(devices: &Devices) {
    for device in devices.iter() {
        println!("{}: {} zone write plugs live", device.name, device.queue.live_plugs());
        for plug in device.queue.dump_plugs(false) {
            println!("  {plug}");
        }
    }
}
