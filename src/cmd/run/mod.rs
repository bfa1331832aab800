//! `zonal run`: jobs through the block layer onto devices.
mod phase;
mod progress;

use super::devices::{self, Attached};
use crate::cli::{ClockKind, RunArgs};
use anyhow::{Context, Result, bail};
use phase::Machine;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use zonal_blk::QueueOptions;
use zonal_workload::job::Job;
use zonal_workload::jobfile::{self, JobSet, SystemSource};
use zonal_workload::plan::{self, Task};
use zonal_workload::report::{self, Format, JobReport, Report};
use zonal_workload::runner::Outcome;

/// A clone that has run.
struct Finished {
    task: Task,
    outcome: Outcome,
    /// Seconds from the start of the run to the end of its phase.
    elapsed: u64,
}

/// Runs the jobs that `job_args` describe.
pub fn run(args: &RunArgs, job_args: Vec<OsString>) -> Result<ExitCode> {
    let formats = Format::parse_list(&args.output_format).context("--output-format")?;
    let JobSet { jobs, ignored, global_given } = jobfile::parse_args(job_args, &SystemSource)?;
    if jobs.is_empty() {
        bail!("no jobs: name a job file, or give a job with --name=... (see zonal run --help)");
    }
    for option in &ignored {
        eprintln!("zonal: {option}");
    }
    let jobs: Vec<Arc<Job>> = jobs.into_iter().map(Arc::new).collect();
    let phases = plan::phases(&jobs);
    let devices = attach_devices(args, &phases)?;
    check_regions(args, &phases, &devices)?;
    if args.parse_only {
        return Ok(ExitCode::SUCCESS);
    }
    let mut output = open_output(args)?;
    if formats.contains(&Format::Normal) {
        for phase in &phases {
            for task in phase.iter().filter(|task| task.clone == 0) {
                write!(output, "{}", report::announce(&task.job, task.group))?;
            }
        }
        output.flush()?;
    }
    let mut machine = Machine::new(args)?;
    let mut finished = Vec::new();
    for phase in phases {
        machine.run(phase, |task| device_of(args, task, &devices), &mut finished)?;
    }
    let failed = finished.iter().any(|done| done.outcome.error.is_some());
    let report = make_report(args, global_given, &finished, &devices, machine.timestamp_ms());
    write!(output, "{}", report::render(&report, &formats)).context("writing the report")?;
    if args.dump_plugs {
        dump_plugs(&devices);
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The name of a task's device.
fn device_name<'a>(args: &'a RunArgs, task: &'a Task) -> Result<&'a str> {
    let name = args.device.as_deref().or(task.job.filename.as_deref());
    name.with_context(|| {
        format!("job {}: no device: give --device or filename (see zonal devices)", task.job.name)
    })
}

fn device_of<'a>(
    args: &RunArgs,
    task: &Task,
    devices: &'a BTreeMap<String, Attached>,
) -> &'a Attached {
    let name = device_name(args, task).expect("every task's device was found before the run");
    &devices[name]
}

/// Attaches every device that a job names, with as many channels as the busiest phase needs.
fn attach_devices(args: &RunArgs, phases: &[Vec<Task>]) -> Result<BTreeMap<String, Attached>> {
    let mut channels: BTreeMap<String, usize> = BTreeMap::new();
    for phase in phases {
        let mut here: BTreeMap<&str, usize> = BTreeMap::new();
        for task in phase {
            *here.entry(device_name(args, task)?).or_default() += 1;
        }
        for (name, count) in here {
            let most = channels.entry(name.to_owned()).or_default();
            *most = count.max(*most);
        }
    }
    let options = QueueOptions {
        zone_write: args.zone_write.map(Into::into),
        merge: !args.nomerges,
        ..QueueOptions::default()
    };
    let attach = |(name, channels): (String, usize)| {
        let spec = devices::load(&name)?.with_seed(args.seed);
        let attached = devices::attach(&name, &spec, options, channels)?;
        Ok((name, attached))
    };
    channels.into_iter().map(attach).collect()
}

/// Finds out before anything runs whether all jobs fit their devices.
fn check_regions(
    args: &RunArgs,
    phases: &[Vec<Task>],
    devices: &BTreeMap<String, Attached>,
) -> Result<()> {
    for task in phases.iter().flatten() {
        task.region(device_of(args, task, devices).queue.limits())?;
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
    finished: &'a [Finished],
    devices: &BTreeMap<String, Attached>,
    timestamp_ms: Option<u64>,
) -> Report<'a> {
    let descriptions: Vec<&str> = devices.values().map(|d| d.description.as_str()).collect();
    let policies: Vec<String> =
        devices.values().map(|d| format!("{:?}", d.queue.zone_write()).to_lowercase()).collect();
    let job = |done: &'a Finished| JobReport {
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
        extra: Vec::new(),
    }
}

fn dump_plugs(devices: &BTreeMap<String, Attached>) {
    for device in devices.values() {
        println!("{}: {} zone write plugs live", device.name, device.queue.live_plugs());
        for plug in device.queue.dump_plugs(false) {
            println!("  {plug}");
        }
    }
}
