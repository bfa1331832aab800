//! `zonal.run`.
use crate::device::{Zone, zones};
use crate::jobs::Jobs;
use crate::watch::{JobWatch, Watched, watch};
use anyhow::{Context, Result, ensure};
use pyo3::prelude::*;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use zonal_backend::Notices;
use zonal_blk::{Bytes, QueueOptions};
use zonal_device::inject::Rule;
use zonal_fio::job::Job;
use zonal_fio::report::{self, Format as ReportFormat};
use zonal_lab::check_writable;
use zonal_lab::devices::{DeviceOptions, Devices};
use zonal_lab::executor::{ClockKind, Executor, FinishedTask};
use zonal_lab::io_trace::{self, Format};
use zonal_lab::progress::JobProgress;
use zonal_lab::reproduce::ANY_MACHINE;
use zonal_lab::run::{Run, RunInfo, ViewRecording, jobs_without_io, jobs_without_zones};
use zonal_sim::CostModel;

/// What Python's `run` takes besides jobs.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Options {
    device: Option<String>,
    clock: String,
    seed: u64,
    scheduler: Option<String>,
    sched_opts: Vec<String>,
    zone_write: Option<String>,
    merge: bool,
    io_cost: Option<String>,
    faults: Vec<String>,
    allow_unsupported: bool,
    record: Option<PathBuf>,
    trace: Option<PathBuf>,
    explain: bool,
    explain_html: Option<PathBuf>,
    head_trace: Option<PathBuf>,
    record_view: Option<PathBuf>,
}

impl Options {
    /// Whether the way of each I/O is kept.
    fn traces_ios(&self) -> bool {
        self.trace.is_some() || self.explain || self.explain_html.is_some()
    }

    /// What an I/O costs its thread, if it is said.
    fn costs(&self, clock: ClockKind) -> Result<Option<CostModel>> {
        let costs = self.io_cost.as_deref().map(str::parse::<CostModel>).transpose();
        let costs = costs.map_err(anyhow::Error::from).context("--io-cost")?;
        ensure!(
            costs.is_none() || clock == ClockKind::Virtual,
            "--io-cost: found --clock=real, where an I/O costs what it takes, expected --clock=virtual"
        );
        Ok(costs)
    }

    /// Writes the page that explains where the time went.
    fn write_page(&self, trace: &io_trace::IoTrace) -> Result<()> {
        let Some(path) = &self.explain_html else { return Ok(()) };
        fs::write(path, trace.page()).with_context(|| format!("--explain-html {}", path.display()))
    }

    /// Begins to record and to trace.
    fn start_tracing(&self, run: &mut Run, clock: ClockKind) -> Result<()> {
        run.start_recording(clock)?;
        if let Some(path) = &self.explain_html {
            check_writable(path).with_context(|| format!("--explain-html {}", path.display()))?;
        }
        if let Some(path) = &self.head_trace {
            ensure!(
                !self.traces_ios(),
                "--head-trace: found --trace or --explain as well, expected one of them"
            );
            run.trace_heads(path)?;
        }
        if self.traces_ios() {
            let file = self.trace.as_ref().map(|path| (path.clone(), Format::of(path)));
            run.trace_ios(io_trace::Settings { file, one_in: 1, limit: TRACE_SIZE })?;
        }
        Ok(())
    }
}

/// Most memory for what is traced.
const TRACE_SIZE: Bytes = Bytes(256 << 20);

/// A device after a run: name, description, kind, zone-write policy, zones.
pub type DeviceState = (String, String, &'static str, &'static str, Vec<Zone>);

/// The result of a run.
#[derive(IntoPyObject)]
pub struct Finished {
    /// The report, as fio's json+.
    json: String,
    /// The report for people.
    text: String,
    devices: Vec<DeviceState>,
    /// The failures.
    errors: Vec<String>,
    /// Other remarks for the user.
    notices: Vec<String>,
}

/// The clock by its name.
///
/// # Errors
/// There is no such clock.
fn clock(name: &str) -> Result<ClockKind> {
    match name {
        "real" => Ok(ClockKind::Real),
        "virtual" => Ok(ClockKind::Virtual),
        other => {
            let near = zonal_blk::did_you_mean(other, ["real", "virtual"]);
            anyhow::bail!("--clock: found `{other}`, expected real or virtual{near}")
        }
    }
}

/// Runs jobs.
#[pyfunction]
pub fn run(
    py: Python<'_>,
    jobs: Jobs,
    options: Options,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Finished> {
    watch(py, progress, |stop, watched| run_jobs(&jobs, &options, stop, watched))
}

fn run_jobs(
    jobs: &Jobs,
    options: &Options,
    stop: &Arc<AtomicBool>,
    watched: &Arc<Watched>,
) -> Result<Finished> {
    let (set, mut notices) = jobs.parse(options.allow_unsupported)?;
    let jobs: Vec<Arc<Job>> = set.jobs.into_iter().map(Arc::new).collect();
    let clock = clock(&options.clock)?;
    let costs = options.costs(clock)?;
    let told = Arc::<Mutex<Vec<String>>>::default();
    let mut run = Run::prepare(&jobs, &device_options(options, clock, &told)?)?;
    notices.extend(run.warnings());
    options.start_tracing(&mut run, clock)?;
    let view = options.record_view.as_deref().map(|path| ViewRecording::start(run.devices(), path));
    let view = view.transpose()?;
    let mut progress: Box<dyn JobProgress> = Box::new(JobWatch::new(watched));
    if let Some(view) = &view {
        progress = view.progress(progress);
    }
    let mut executor = match clock {
        ClockKind::Virtual => {
            Executor::interruptible(costs.unwrap_or(ANY_MACHINE), Arc::clone(stop), progress)
        }
        ClockKind::Real => Executor::real_time(Arc::clone(stop), progress),
    };
    let started_ms = clock.timestamp_ms();
    let finished = run.execute(&mut executor, options.seed)?;
    let info = RunInfo {
        version: concat!("zonal-", env!("CARGO_PKG_VERSION")).to_owned(),
        timestamp_ms: clock.timestamp_ms(),
        started_ms,
        global_options: set.global_options,
        clock,
        seed: options.seed,
        interrupted: executor.is_stopped(),
    };
    let mut report = run.report(&finished, info);
    let mut text = run.announcement() + &report::render(&report, &[ReportFormat::Normal]);
    if let Some(trace) = run.io_trace() {
        report.extra.extend(trace.sections(options.explain));
        if options.explain {
            text += &trace.explained();
        }
        let summary = trace.finish()?;
        if summary.full_at.is_some() {
            notices.push(format!("the trace is not whole: {summary}"));
        }
        options.write_page(trace)?;
    }
    let json = report::render(&report, &[ReportFormat::JsonPlus]);
    if let Some(view) = view {
        view.finish(["run".to_owned()].into_iter(), clock.name())?;
    }
    run.check_recordings()?;
    run.devices().finish_recording()?;
    let devices = run.devices();
    notices.append(&mut told.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(Finished {
        json,
        text,
        devices: states(devices)?,
        errors: errors(&finished, devices),
        notices,
    })
}

fn device_options(
    options: &Options,
    clock: ClockKind,
    told: &Arc<Mutex<Vec<String>>>,
) -> Result<DeviceOptions> {
    let told = Arc::clone(told);
    let notices = Notices::new(move |notice| {
        told.lock().unwrap_or_else(PoisonError::into_inner).push(notice.to_owned());
    });
    let policy = options.zone_write.as_deref().map(str::parse).transpose();
    let rule = |text: &String| text.parse::<Rule>().map_err(anyhow::Error::from).context("--fault");
    Ok(DeviceOptions {
        device: options.device.clone(),
        queue: QueueOptions {
            zone_write: policy.context("--zone-write")?,
            merge: options.merge,
            iostats: true,
            ..QueueOptions::default()
        },
        disk_stats: true,
        scheduler: options.scheduler.clone(),
        sched_opts: options.sched_opts.clone(),
        faults: options.faults.iter().map(rule).collect::<Result<_>>()?,
        seed: options.seed,
        record: options.record.clone(),
        real_time: clock == ClockKind::Real,
        notices,
        ..DeviceOptions::default()
    })
}

fn states(devices: &Devices) -> Result<Vec<DeviceState>> {
    let state = |device: &zonal_backend::Stack| {
        let found = zones(&device.queue, 0, u32::MAX);
        let found = found.with_context(|| format!("device {}: zone report", device.name))?;
        let (name, description) = (device.name.clone(), device.description.clone());
        Ok((name, description, device.kind, device.queue.zone_write().name(), found))
    };
    devices.iter().map(state).collect()
}

/// What the program would print to standard error, and what it would end with exit code 1 for.
fn errors(finished: &[FinishedTask], devices: &Devices) -> Vec<String> {
    let mut errors = Vec::new();
    for FinishedTask { task, outcome, .. } in finished {
        let (name, findings) = (&task.job.name, &outcome.findings);
        if let Some(status) = outcome.error {
            let why = outcome.reason.clone().or_else(|| {
                devices.of(task).queue.first_failure().map(|failure| failure.to_string())
            });
            let why = why.map_or_else(String::new, |why| format!(": {why}"));
            errors.push(format!("job {name}: {status}{why}"));
        }
        let device = &devices.of(task).name;
        errors.extend(findings.kept().iter().map(|finding| finding.text(device)));
        if findings.not_kept() > 0 {
            errors.push(format!("job {name}: {} more such errors", findings.not_kept()));
        }
    }
    errors.extend(jobs_without_io(finished, devices));
    errors.extend(jobs_without_zones(finished, devices));
    errors
}
