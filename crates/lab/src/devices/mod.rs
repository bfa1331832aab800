//! The devices of a run: those that its jobs name, with the block layer attached.
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use zonal_backend::{Notices, OpenOptions, Stack, Unattached, is_block_device, is_external, load};
use zonal_blk::QueueOptions;
use zonal_blk::sched::Scheduler;
use zonal_device::device_spec::DeviceSpec;
use zonal_device::inject::Rule;
use zonal_fio::generate::ZbdTable;
use zonal_fio::job::Job;
use zonal_fio::plan::Task;

/// Options of all devices of a run, where the jobs do not give them.
#[derive(Clone, Debug, Default)]
pub struct DeviceOptions {
    /// One device for all jobs, whatever they name.
    pub device: Option<String>,
    /// Each clone has a file of its own on its device, and each file that jobs name is one.
    pub files: bool,
    /// The spec of that device, in place of its name.
    pub spec: Option<DeviceSpec>,
    /// The queues. Their scheduler is ignored: see `scheduler`.
    pub queue: QueueOptions,
    /// The I/O of devices that take time or transfer data is counted, as with `queue.iostats`.
    pub disk_stats: bool,
    /// One scheduler for all devices, whatever the jobs name.
    pub scheduler: Option<String>,
    /// Attributes of the schedulers, `name=value`, set after those of the jobs.
    pub sched_opts: Vec<String>,
    /// Faults that are injected into every device.
    pub faults: Vec<Rule>,
    /// More can be added while jobs run.
    pub injectable: bool,
    /// Added to the seeds of emulated devices.
    pub seed: u64,
    /// Records all that changes the device to this file, for the crash lab. There can be one device.
    pub record: Option<PathBuf>,
    /// Time is real, so that devices may be external ones.
    pub real_time: bool,
    /// Jobs may name disks of this machine, too.
    pub allow_disks: bool,
    /// Receives notices about devices.
    pub notices: Notices,
}

/// The devices of a run.
#[derive(Default)]
pub struct Devices {
    /// The name of the one device of all jobs.
    one: Option<String>,
    /// One device per name, or several for a file system on several disks.
    by_name: BTreeMap<String, Vec<Stack>>,
    /// By name, the zones as the jobs of the last phase saw them.
    zones: Mutex<BTreeMap<String, Arc<ZbdTable>>>,
}

/// The needs of the jobs of one device.
#[derive(Default)]
struct DeviceUse<'a> {
    /// Channels in use at the same time, at most.
    channels: usize,
    /// Devices of this name: several for a file system on several disks.
    disks: u32,
    jobs: Vec<&'a Job>,
}

impl Devices {
    /// Attaches every device that a task names, with as many channels as the busiest phase needs.
    ///
    /// # Errors
    /// A task has no device, a device cannot be created or opened, or jobs contradict one another.
    pub fn attach(device_options: &DeviceOptions, phases: &[Vec<Task>]) -> Result<Self> {
        let mut uses: BTreeMap<String, DeviceUse<'_>> = BTreeMap::new();
        for phase in phases {
            let mut here: BTreeMap<&str, usize> = BTreeMap::new();
            for task in phase {
                let name = device_name(device_options.device.as_deref(), task)?;
                // All clones on a file system share its channel.
                if task.clone == 0 || task.job.fs.kind.is_none() {
                    *here.entry(name).or_default() += 1;
                }
                if task.clone == 0 {
                    let needs = uses.entry(name.to_owned()).or_default();
                    needs.disks = needs.disks.max(task.job.fs.disks);
                    needs.jobs.push(&task.job);
                }
            }
            for (name, count) in here {
                let most = &mut uses.entry(name.to_owned()).or_default().channels;
                *most = count.max(*most);
            }
        }
        let disks: u32 = uses.values().map(|needs| needs.disks.max(1)).sum();
        ensure!(
            device_options.record.is_none() || disks == 1,
            "--record: found {disks} devices, expected one"
        );
        let attach = |(name, needs): (String, DeviceUse<'_>)| {
            let disks = attach_by_name(device_options, &name, &needs)?;
            Ok((name, disks))
        };
        let by_name = uses.into_iter().map(attach).collect::<Result<_>>()?;
        Ok(Devices { one: device_options.device.clone(), by_name, zones: Mutex::default() })
    }

    /// One device, for all tasks.
    pub fn one(attached: Stack) -> Self {
        let name = attached.name.clone();
        let by_name = BTreeMap::from([(name.clone(), vec![attached])]);
        Devices { one: Some(name), by_name, zones: Mutex::default() }
    }

    /// The name of the device of all tasks, if there is one.
    pub(crate) fn name_of_one(&self) -> Option<&str> {
        self.one.as_deref()
    }

    /// The device of a task; of a file system on several, the first.
    ///
    /// # Panics
    /// The task was not among those that the devices were attached for.
    pub fn of(&self, task: &Task) -> &Stack {
        &self.disks_of(task)[0]
    }

    /// The zones of a device as the jobs of the next phase see them: as the device reports them, in
    /// `table`, and with what is known from the last phase.
    pub(crate) fn zones_after_last_phase(&self, name: &str, table: ZbdTable) -> Arc<ZbdTable> {
        let mut zones = self.zones.lock().expect("the lock of the zones");
        let table = Arc::new(match zones.get(name) {
            Some(before) => table.after(before),
            None => table,
        });
        zones.insert(name.to_owned(), Arc::clone(&table));
        table
    }

    /// The devices that a task's file system lies on.
    ///
    /// # Panics
    /// As [`Devices::of`].
    pub fn disks_of(&self, task: &Task) -> &[Stack] {
        let name = device_name(self.one.as_deref(), task);
        let disks = &self.by_name[name.expect("every task's device was found before the run")];
        &disks[..disks.len().min(task.job.fs.disks as usize)]
    }

    /// Starts the recording, if there is to be one. Before, it has no file: a run that is refused
    /// leaves none behind, and one from an earlier run as it is.
    ///
    /// # Errors
    /// The log cannot be created.
    pub fn start_recording(&self) -> Result<()> {
        let mut recordings = self.iter().filter_map(|stack| stack.recording.as_ref());
        recordings.try_for_each(|recording| recording.start().context("--record"))
    }

    /// Ends the recording, if there is one: its log is whole then.
    ///
    /// # Errors
    /// Part of the log could not be written.
    pub fn finish_recording(&self) -> Result<()> {
        let mut recordings = self.iter().filter_map(|stack| stack.recording.as_ref());
        recordings.try_for_each(|recording| recording.finish().context("--record"))
    }

    /// All devices, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Stack> {
        self.by_name.values().flatten()
    }
}

/// The device of a name, or several for a file system on several disks.
fn attach_by_name(
    device_options: &DeviceOptions,
    name: &str,
    needs: &DeviceUse<'_>,
) -> Result<Vec<Stack>> {
    let &DeviceOptions { ref notices, seed, .. } = device_options;
    let scheduler = scheduler(device_options, &needs.jobs)?;
    let queue = QueueOptions { scheduler, ..device_options.queue };
    if is_external(name) && device_options.real_time {
        // A job file that was written for another machine does not choose a disk of this one.
        ensure!(
            device_options.device.is_some() || device_options.allow_disks || !is_block_device(name),
            "job {}: filename={name}: found a disk of this machine, expected --allow-dev beside it, or \
             --device on the command line: jobs that write overwrite its data",
            needs.jobs[0].name
        );
        ensure!(
            needs.disks <= 1,
            "device {name}: fs_disks: found a device that is not emulated, expected one that can \
             be created several times"
        );
        let open = OpenOptions { seed, channels: needs.channels, notices: notices.clone() };
        let opened = Stack::open_with(name, &open)?;
        return Ok(vec![attach(opened, device_options, queue)?]);
    }
    let spec = match &device_options.spec {
        Some(spec) if device_options.device.is_some() => spec.clone(),
        _ => load(name)?,
    };
    let mut disk = |number: u32| {
        let spec = spec.clone().with_seed(seed.wrapping_add(number.into()));
        let created = Stack::create(name, &spec, needs.channels)?;
        let mut attached = attach(created, device_options, queue)?;
        if needs.disks > 1 {
            attached.name = format!("{name} ({})", number + 1);
        }
        Ok(attached)
    };
    (0..needs.disks).map(&mut disk).collect()
}

/// Wraps and attaches a device as the options say.
fn attach(
    mut stack: Stack<Unattached>,
    device_options: &DeviceOptions,
    queue: QueueOptions,
) -> Result<Stack> {
    let iostats = queue.iostats || device_options.disk_stats && stack.transfers();
    let DeviceOptions { faults, injectable, seed, record, .. } = device_options;
    if let Some(log) = record {
        stack = stack.record(log);
    }
    if *injectable || !faults.is_empty() {
        stack = stack.inject(*seed, faults.clone());
    }
    let attached = stack.attach(QueueOptions { iostats, ..queue });
    let attached = attached.map_err(|error| match error.is_of_recording() {
        true => anyhow::Error::from(error).context("--record"),
        false => error.into(),
    })?;
    attached.explain_failures(&Notices::default());
    Ok(attached)
}

/// The name of a task's device.
fn device_name<'a>(one: Option<&'a str>, task: &'a Task) -> Result<&'a str> {
    one.or(task.device()).with_context(|| {
        format!("job {}: no device: give --device or filename (see zonal devices)", task.job.name)
    })
}

/// A scheduler by its name, with attributes `NAME=VALUE`.
///
/// # Errors
/// There is no such scheduler or attribute, or the value is malformed.
pub fn named_scheduler(name: Option<&str>, options: &[String]) -> Result<Scheduler> {
    let device_options = DeviceOptions {
        scheduler: name.map(str::to_owned),
        sched_opts: options.to_vec(),
        ..DeviceOptions::default()
    };
    scheduler(&device_options, &[])
}

/// The scheduler of a device that `jobs` use: that of `device_options`, else that of the jobs
/// (`ioscheduler`), with the attributes of both.
fn scheduler(device_options: &DeviceOptions, jobs: &[&Job]) -> Result<Scheduler> {
    let mut named: Option<(&str, &Job)> = None;
    for job in jobs {
        let Some(name) = job.ioscheduler.as_deref() else { continue };
        match named {
            Some((other, by)) if other != name => bail!(
                "job {}: ioscheduler={name}: job {} gives the device {other}, and it can have one",
                job.name,
                by.name
            ),
            _ => named = Some((name, job)),
        }
    }
    let mut scheduler = match (device_options.scheduler.as_deref(), named) {
        (Some(name), _) => name.parse::<Scheduler>().context("--scheduler")?,
        (None, Some((name, job))) => {
            name.parse().with_context(|| format!("job {}: ioscheduler", job.name))?
        }
        (None, None) => Scheduler::default(),
    };
    // Attributes of a job are for the scheduler that it names, or for any if it names none.
    let name = scheduler.name();
    let applies = |job: &&&Job| job.ioscheduler.as_deref().is_none_or(|own| own == name);
    for job in jobs.iter().filter(applies) {
        for option in job.sched_opt.iter().flat_map(|options| options.split(',')) {
            set(&mut scheduler, option).with_context(|| format!("job {}: sched_opt", job.name))?;
        }
    }
    for option in &device_options.sched_opts {
        set(&mut scheduler, option).context("--sched-opt")?;
    }
    Ok(scheduler)
}

fn set(scheduler: &mut Scheduler, option: &str) -> Result<()> {
    let Some((name, value)) = option.split_once('=') else {
        bail!("found `{option}`, expected NAME=VALUE");
    };
    Ok(scheduler.set(name.trim(), value.trim())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str, ioscheduler: Option<&str>, sched_opt: Option<&str>) -> Job {
        Job {
            name: name.to_owned(),
            ioscheduler: ioscheduler.map(str::to_owned),
            sched_opt: sched_opt.map(str::to_owned),
            ..Job::default()
        }
    }

    fn describe(device_options: &DeviceOptions, jobs: &[&Job]) -> String {
        match scheduler(device_options, jobs) {
            Ok(scheduler) => {
                let value = |name| scheduler.attributes().into_iter().find(|a| a.name == name);
                let expire = value("read_expire").map_or(String::new(), |a| a.value);
                format!("{scheduler} {expire}")
            }
            Err(error) => format!("{error:#}"),
        }
    }

    #[test]
    fn scheduler_of_the_command_line_overrides_that_of_the_jobs() {
        let deadline = job("a", Some("mq-deadline"), Some("read_expire=7"));
        let plain = job("b", None, None);
        let mut device_options = DeviceOptions::default();
        assert_eq!(describe(&device_options, &[&plain]), "none ");
        assert_eq!(describe(&device_options, &[&plain, &deadline]), "mq-deadline 7ms");
        device_options.sched_opts = vec!["read_expire=9us".to_owned()];
        assert_eq!(describe(&device_options, &[&plain, &deadline]), "mq-deadline 9us");
        let none = DeviceOptions { scheduler: Some("none".to_owned()), ..DeviceOptions::default() };
        assert_eq!(describe(&none, &[&deadline]), "none ", "its attributes are not those of none");
    }

    #[test]
    fn jobs_that_name_different_schedulers_for_a_device_are_rejected() {
        let (a, b) = (job("a", Some("none"), None), job("b", Some("mq-deadline"), None));
        assert_eq!(
            describe(&DeviceOptions::default(), &[&a, &b]),
            "job b: ioscheduler=mq-deadline: job a gives the device none, and it can have one"
        );
    }

    #[test]
    fn bad_attributes_are_rejected_with_the_ones_that_exist() {
        let with = |options: &str| DeviceOptions {
            scheduler: Some("mq-deadline".to_owned()),
            sched_opts: vec![options.to_owned()],
            ..DeviceOptions::default()
        };
        let unknown = describe(&with("read_expiry=1"), &[]);
        assert!(unknown.starts_with("--sched-opt: "), "{unknown}");
        assert!(unknown.contains("`read_expiry`") && unknown.contains("read_expire"), "{unknown}");
        assert_eq!(describe(&with("x"), &[]), "--sched-opt: found `x`, expected NAME=VALUE");
        let bad = describe(&with("fifo_batch=0"), &[]);
        assert!(bad.contains("fifo_batch") && bad.contains("from 1"), "{bad}");
    }
}
