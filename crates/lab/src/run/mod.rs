//! Jobs made ready to run: traces read, devices attached, everything checked; and the report of a
//! run.
mod files;
mod head_trace;
mod logs;
mod nothing;
mod sections;
mod status;
mod traces;
mod unplaced;
mod verify_state;
mod view;

use crate::devices::{DeviceOptions, Devices};
use crate::executor::{ClockKind, Executor, FinishedTask};
use crate::io_trace::{self, IoTrace};
use anyhow::{Result, bail};
use head_trace::HeadTrace;
use logs::Logs;
pub use nothing::jobs_without_io;
use std::path::Path;
use std::sync::Arc;
use traces::Recordings;
pub use unplaced::jobs_without_zones;
pub use view::ViewRecording;
use zonal_blk::{DataPlacement, Nanos};
use zonal_fio::job::{Job, Rw};
use zonal_fio::plan::{self, Task};
use zonal_fio::report::{self, JobReport, Report};
use zonal_fio::verify::VerifyState;

/// Most bytes of data in flight in a phase: 64 GiB.
const MAX_BUFFERS: u64 = 64 << 30;

/// Jobs with their devices.
pub struct Run {
    phases: Vec<Vec<Task>>,
    devices: Devices,
    recordings: Recordings,
    logs: Logs,
    head_trace: Option<HeadTrace>,
    io_trace: Option<IoTrace>,
    /// A notice about jobs without a device.
    unnamed: Option<String>,
}

/// The part of a report about the run as a whole.
pub struct RunInfo {
    /// The program and its version.
    pub version: String,
    /// Milliseconds since 1970 at the end of the run; `None` in virtual time.
    pub timestamp_ms: Option<u64>,
    /// Milliseconds since 1970 at the start of the run; `None` in virtual time.
    pub started_ms: Option<u64>,
    /// Options of all jobs, by name.
    pub global_options: Vec<(String, String)>,
    /// The clock.
    pub clock: ClockKind,
    /// The seed.
    pub seed: u64,
    /// The run was ended early.
    pub interrupted: bool,
}

impl Run {
    /// Reads the traces of jobs, attaches their devices, and checks that all jobs can run.
    ///
    /// # Errors
    /// A trace or a device cannot be used, or a job does not fit its device.
    pub fn prepare(jobs: &[Arc<Job>], options: &DeviceOptions) -> Result<Self> {
        let jobs = files::jobs(jobs, options.files);
        let mut phases = plan::phases(&jobs)?;
        traces::load(&mut phases, options.device.as_deref())?;
        let unnamed = files::without_device(&mut phases, options)?;
        let devices = Devices::attach(options, &phases)?;
        if options.files {
            files::place(&mut phases, &devices)?;
        }
        Run::checked(phases, devices, unnamed, options.seed)
    }

    /// The same on a device that has been attached.
    ///
    /// # Errors
    /// As [`Run::prepare`].
    pub fn prepare_on(jobs: &[Arc<Job>], devices: Devices, seed: u64) -> Result<Self> {
        let mut phases = plan::phases(jobs)?;
        traces::load(&mut phases, devices.name_of_one())?;
        Run::checked(phases, devices, None, seed)
    }

    /// The same for jobs that verify what an earlier run has left in this state.
    ///
    /// # Errors
    /// As [`Run::prepare`].
    pub fn prepare_after(
        jobs: &[Arc<Job>],
        options: &DeviceOptions,
        state: &Arc<VerifyState>,
    ) -> Result<Self> {
        let mut phases = plan::phases(jobs)?;
        let tasks = phases.iter_mut().flatten();
        tasks.for_each(|task| task.verify_state = Some(Arc::clone(state)));
        let devices = Devices::attach(options, &phases)?;
        Run::checked(phases, devices, None, options.seed)
    }

    fn checked(
        mut phases: Vec<Vec<Task>>,
        devices: Devices,
        unnamed: Option<String>,
        seed: u64,
    ) -> Result<Self> {
        check_regions(&phases, &devices)?;
        check_data(&phases, &devices)?;
        phases.iter().try_for_each(|phase| check_buffers(phase, &devices))?;
        traces::fit(&mut phases, &devices, seed)?;
        verify_state::load(&mut phases)?;
        Ok(Run {
            phases,
            devices,
            recordings: Recordings::new(),
            logs: Logs::default(),
            head_trace: None,
            io_trace: None,
            unnamed,
        })
    }

    /// The devices.
    pub fn devices(&self) -> &Devices {
        &self.devices
    }

    /// The devices, when nothing more is to run.
    pub fn into_devices(self) -> Devices {
        self.devices
    }

    /// Warnings about jobs that share a device where fio would have files, about jobs that read what was
    /// never written, and about jobs that will verify nothing: as in fio, verification gets what is left of the run time, which is nothing if
    /// a job writes for all of it.
    pub fn warnings(&self) -> Vec<String> {
        let first_clones = self.phases.iter().flatten().filter(|task| task.clone == 0);
        let never_verifies = |task: &&Task| {
            let (job, verify) = (&task.job, &task.job.verify);
            let verifies = verify.method.is_some() && verify.do_verify && verify.backlog == 0;
            verifies && job.time_based && job.rw != Rw::Read
        };
        let warning = |task: &Task| {
            format!(
                "job {}: verification read phase will never start because write phase uses all of \
                 runtime",
                task.job.name
            )
        };
        let shared = files::shared(&self.phases, &self.devices);
        let verification = first_clones.filter(never_verifies).map(warning);
        let unwritten = self.reads_of_nothing();
        self.unnamed.iter().cloned().chain(shared).chain(unwritten).chain(verification).collect()
    }

    /// Those about jobs that read what was never written, whose figures say nothing of the drive.
    pub fn reads_of_nothing(&self) -> Vec<String> {
        nothing::reads_of_nothing(&self.phases, &self.devices)
    }

    /// Creates the files of `write_iolog` and of logs. `clock` is that of the run.
    ///
    /// # Errors
    /// A file cannot be created, a clock cannot be read, or two jobs record to the same one.
    pub fn start_recording(&mut self, clock: ClockKind) -> Result<()> {
        self.logs = Logs::create(&mut self.phases, clock)?;
        self.recordings = traces::record(&mut self.phases, &self.devices)?;
        Ok(())
    }

    /// The lines with which fio introduces each job.
    pub fn announcement(&self) -> String {
        let first_clones = self.phases.iter().flatten().filter(|task| task.clone == 0);
        first_clones.map(|task| report::announce(&task.job, task.group)).collect()
    }

    /// Runs all phases, one after another, and records the device if that is asked for. There is
    /// nothing to run a second time.
    ///
    /// # Errors
    /// The recording's file cannot be created, a clone cannot be made ready, or all wait for one
    /// another.
    pub fn execute(&mut self, executor: &mut Executor, seed: u64) -> Result<Vec<FinishedTask>> {
        self.execute_phases(executor, seed, |_, _| {})
    }

    /// The same; each phase is shown before it runs, with the devices as they are then.
    ///
    /// # Errors
    /// As [`Run::execute`].
    pub fn execute_phases(
        &mut self,
        executor: &mut Executor,
        seed: u64,
        mut begins: impl FnMut(&[Task], &Devices),
    ) -> Result<Vec<FinishedTask>> {
        self.devices.start_recording()?;
        let is_traced = self.head_trace.is_some() || self.io_trace.is_some();
        let mut finished = Vec::new();
        for phase in std::mem::take(&mut self.phases) {
            begins(&phase, &self.devices);
            finished.extend(executor.run(phase, &self.devices, seed, is_traced)?);
            if finished.iter().any(ends_run) {
                break;
            }
        }
        verify_state::save(&finished)?;
        Ok(finished)
    }

    /// Writes the activities of the heads of all rotating disks to a file.
    ///
    /// # Errors
    /// The file cannot be created, or no device is a rotating disk.
    pub fn trace_heads(&mut self, file: &Path) -> Result<()> {
        self.head_trace = Some(HeadTrace::start(&self.devices, file)?);
        Ok(())
    }

    /// Traces the I/Os of all devices. To be called before [`Run::execute`].
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn trace_ios(&mut self, settings: io_trace::Settings) -> Result<()> {
        self.io_trace = Some(IoTrace::start(self.devices.iter(), settings)?);
        Ok(())
    }

    /// The trace of I/Os, if there is one.
    pub fn io_trace(&self) -> Option<&IoTrace> {
        self.io_trace.as_ref()
    }

    /// Checks that everything was recorded and logged.
    ///
    /// # Errors
    /// A file could not be written.
    pub fn check_recordings(&self) -> Result<()> {
        self.logs.check()?;
        self.head_trace.as_ref().map_or(Ok(()), HeadTrace::finish)?;
        traces::check(&self.recordings)
    }

    /// The report of a run.
    pub fn report<'a>(&self, finished: &'a [FinishedTask], info: RunInfo) -> Report<'a> {
        let (devices, clock) = (&self.devices, info.clock);
        let job = |finished: &'a FinishedTask| JobReport {
            job: &finished.task.job,
            groupid: finished.task.group,
            pid: finished.outcome.thread_id,
            transfers: devices.of(&finished.task).transfers(),
            stats: finished.outcome.stats.clone(),
            error: finished.outcome.error,
            eta: 0,
            elapsed: finished.elapsed,
        };
        let interrupted = info.interrupted.then(|| ("interrupted".to_owned(), true.into()));
        Report {
            jobs: finished.iter().filter(|done| done.task.job.report.stats).map(job).collect(),
            disk_util: sections::disk_util(finished, devices),
            extra: interrupted
                .into_iter()
                .chain(sections::sections(finished, devices, clock))
                .collect(),
            ..self.report_of_no_jobs(info)
        }
    }

    fn report_of_no_jobs(&self, info: RunInfo) -> Report<'static> {
        let devices = &self.devices;
        let descriptions: Vec<&str> = devices.iter().map(|d| d.description.as_str()).collect();
        let policies: Vec<&str> = devices.iter().map(|d| d.queue.zone_write().name()).collect();
        Report {
            version: info.version,
            timestamp_ms: info.timestamp_ms,
            started_ms: info.started_ms,
            global_options: info.global_options,
            jobs: Vec::new(),
            device: descriptions.join("; "),
            clock: info.clock.name(),
            seed: info.seed,
            policy: policies.join("; "),
            disk_util: Vec::new(),
            extra: Vec::new(),
        }
    }

    /// Shows a report of the jobs so far at the end of each `interval` of the clock, while they run.
    ///
    /// # Errors
    /// A job is on a file system, whose statistics are known at the end only.
    pub fn show_status(
        &mut self,
        info: RunInfo,
        interval: Nanos,
        show: status::ShowStatus,
    ) -> Result<()> {
        let tasks = || self.phases.iter().flatten();
        if let Some(task) = tasks().find(|task| task.job.fs.kind.is_some()) {
            let name = &task.job.name;
            bail!(
                "--status-interval: job {name} is on a file system, which reports at its end only"
            );
        }
        let transfers = tasks().map(|task| self.devices.of(task).transfers()).collect();
        let is_wanted = tasks().any(|task| task.job.logs.disk_util);
        let counted = self.devices.iter().filter(|_| is_wanted);
        let disks =
            counted.map(|device| (device.name.clone(), Arc::clone(&device.queue))).collect();
        let report = self.report_of_no_jobs(info);
        status::show(&mut self.phases, report, disks, transfers, interval, show);
        Ok(())
    }
}

/// Whether a clone ends the whole run (`exit_what=all`).
fn ends_run(finished: &FinishedTask) -> bool {
    let failed = finished.outcome.error.is_some();
    finished.task.order.as_ref().is_some_and(|order| order.ends_run(failed))
}

/// Checks that all jobs fit their devices.
fn check_regions(phases: &[Vec<Task>], devices: &Devices) -> Result<()> {
    for task in phases.iter().flatten() {
        let queue = &devices.of(task).queue;
        let placement = queue.device().placement().map(DataPlacement::layout);
        task.job.address.streams.check(&task.job.name, placement)?;
        let limits = queue.limits();
        if task.job.fs.kind.is_some() {
            zonal_fsmodel::check(&task.job, limits)?;
        } else {
            task.region(limits)?;
        }
    }
    Ok(())
}

/// Checks that the buffers of all I/Os that may be in flight in a phase are not absurdly many.
fn check_buffers(phase: &[Task], devices: &Devices) -> Result<()> {
    let bytes = |task: &Task| {
        let largest = task.job.bs.iter().max().expect("three sizes");
        if devices.of(task).keeps_data {
            u64::from(task.job.iodepth).saturating_mul(*largest)
        } else {
            0
        }
    };
    let total = phase.iter().map(bytes).fold(0, u64::saturating_add);
    if total > MAX_BUFFERS {
        bail!(
            "iodepth: job {} and those that run with it would have {total} bytes of data in \
             flight, expected at most {MAX_BUFFERS}",
            phase[0].job.name
        );
    }
    Ok(())
}

/// Checks that devices store what is to be verified.
fn check_data(phases: &[Vec<Task>], devices: &Devices) -> Result<()> {
    for task in phases.iter().flatten() {
        let (job, device) = (&task.job, devices.of(task));
        if job.verify.needs_data() && !device.keeps_data {
            let method = job.verify.method.map_or("0", |method| method.name());
            bail!(
                "job {}: verify={method}: the device {} keeps no data, so nothing could be read \
                 back; give it memory=true",
                job.name,
                device.name
            );
        }
    }
    Ok(())
}
