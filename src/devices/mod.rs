//! Devices by the names that users give them, with the block layer attached.
mod opened;

use anyhow::{Context, Result, bail, ensure};
pub use opened::{
    OpenDevice, format_uuid, is_block_device, is_device, is_external, load, make, open, open_image,
    profile_text,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use zonal_blk::sched::Scheduler;
use zonal_blk::{Queue, QueueOptions};
use zonal_device::control::DeviceControl;
use zonal_device::device_spec::DeviceSpec;
use zonal_fio::job::Job;
use zonal_fio::plan::Task;

/// A device with its block layer.
pub struct AttachedDevice {
    /// As it was named.
    pub name: String,
    /// What it is, in a word.
    pub kind: &'static str,
    /// What it is, in a line.
    pub description: String,
    /// Whether bios have to carry data.
    pub keeps_data: bool,
    /// Whether it is still there, with its data, when this program has ended.
    pub is_persistent: bool,
    /// Its own identity, if it has one.
    pub uuid: Option<[u8; 16]>,
    /// What can be asked about itself.
    pub model: Arc<dyn DeviceControl>,
    /// The block layer.
    pub queue: Arc<Queue>,
}

/// What the queues of all devices are to be like, as far as jobs do not say.
#[derive(Clone, Debug, Default)]
pub struct DeviceOptions {
    /// One device for all jobs, whatever they name.
    pub device: Option<String>,
    /// What that device is, if its name does not say.
    pub spec: Option<DeviceSpec>,
    /// The queues; the scheduler is in `scheduler`.
    pub queue: QueueOptions,
    /// One scheduler for all devices, whatever the jobs name.
    pub scheduler: Option<String>,
    /// Attributes of the schedulers, `name=value`, after those that jobs set.
    pub sched_opts: Vec<String>,
    /// Chooses the devices' random numbers, with their own seeds.
    pub seed: u64,
    /// Time is real, so that devices can be those of other programs.
    pub real_time: bool,
}

/// The devices of a run.
pub struct Devices {
    /// The one for all jobs.
    one: Option<String>,
    /// One for each name, or several for a file system on several disks.
    by_name: BTreeMap<String, Vec<AttachedDevice>>,
}

/// What the jobs of one device ask of it.
#[derive(Default)]
struct DeviceUse<'a> {
    /// Channels of the busiest phase.
    channels: usize,
    /// Devices of this name, for a file system on several disks.
    disks: u32,
    jobs: Vec<&'a Job>,
}

impl Devices {
    /// Attaches every device that a task names, with as many channels as the busiest phase needs.
    ///
    /// # Errors
    /// A task without a device, a device that is none, or what does not go together.
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
                    let asked = uses.entry(name.to_owned()).or_default();
                    asked.disks = asked.disks.max(task.job.fs.disks);
                    asked.jobs.push(&task.job);
                }
            }
            for (name, count) in here {
                let most = &mut uses.entry(name.to_owned()).or_default().channels;
                *most = count.max(*most);
            }
        }
        let attach = |(name, asked): (String, DeviceUse<'_>)| {
            let scheduler = scheduler(device_options, &asked.jobs)?;
            let options = QueueOptions { scheduler, ..device_options.queue };
            // A job file that was written for another machine does not choose a disk of this one.
            let named = device_options.device.is_some() || !is_block_device(&name);
            if is_external(&name) && device_options.real_time && named {
                ensure!(
                    asked.disks <= 1,
                    "device {name}: fs_disks: found a device that is not made here, which is one"
                );
                let found = open(&name, device_options.seed, asked.channels)?;
                let attached = found.attach(options, asked.channels)?;
                return Ok((name, vec![attached]));
            }
            let spec = match &device_options.spec {
                Some(spec) if device_options.device.is_some() => spec.clone(),
                _ => load(&name)?,
            };
            let disk = |number: u32| {
                let spec = spec.clone().with_seed(device_options.seed.wrapping_add(number.into()));
                let mut attached = make(&name, &spec)?.attach(options, asked.channels)?;
                if asked.disks > 1 {
                    attached.name = format!("{name} ({})", number + 1);
                }
                Ok(attached)
            };
            let disks = (0..asked.disks).map(disk).collect::<Result<Vec<AttachedDevice>>>()?;
            Ok((name, disks))
        };
        let by_name = uses.into_iter().map(attach).collect::<Result<_>>()?;
        Ok(Devices { one: device_options.device.clone(), by_name })
    }

    /// One device, for all tasks.
    pub fn one(attached: AttachedDevice) -> Self {
        let name = attached.name.clone();
        Devices { one: Some(name.clone()), by_name: BTreeMap::from([(name, vec![attached])]) }
    }

    /// The device of a task, the first one if its file system lies on several.
    ///
    /// # Panics
    /// If the task was not among those that the devices were attached for.
    pub fn of(&self, task: &Task) -> &AttachedDevice {
        &self.disks_of(task)[0]
    }

    /// The devices that a task's file system lies on.
    ///
    /// # Panics
    /// As [`Devices::of`].
    pub fn disks_of(&self, task: &Task) -> &[AttachedDevice] {
        let name = device_name(self.one.as_deref(), task);
        let disks = &self.by_name[name.expect("every task's device was found before the run")];
        &disks[..disks.len().min(task.job.fs.disks as usize)]
    }

    /// All devices, by name.
    pub fn iter(&self) -> impl Iterator<Item = &AttachedDevice> {
        self.by_name.values().flatten()
    }
}

/// The name of a task's device.
fn device_name<'a>(one: Option<&'a str>, task: &'a Task) -> Result<&'a str> {
    one.or(task.device()).with_context(|| {
        format!("job {}: no device: give --device or filename (see zonal devices)", task.job.name)
    })
}

/// The scheduler of a device that no job uses.
///
/// # Errors
/// What is wrong with its name or its attributes.
pub fn named_scheduler(name: Option<&str>, options: &[String]) -> Result<Scheduler> {
    let device_options = DeviceOptions {
        scheduler: name.map(str::to_owned),
        sched_opts: options.to_vec(),
        ..DeviceOptions::default()
    };
    scheduler(&device_options, &[])
}

/// The scheduler of a device that `jobs` use: the one that the command line names, else the one
/// that the jobs name (`ioscheduler`), with the attributes of both.
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
    // What jobs set is for the scheduler that they name, or for any if they name none.
    let applies =
        |job: &Job| job.ioscheduler.as_deref().is_none_or(|name| name == scheduler.name());
    let wanted: Vec<&Job> = jobs.iter().copied().filter(|job| applies(job)).collect();
    for job in wanted {
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

    fn shown(device_options: &DeviceOptions, jobs: &[&Job]) -> String {
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
    fn command_line_names_the_scheduler_before_the_jobs_do() {
        let deadline = job("a", Some("mq-deadline"), Some("read_expire=7"));
        let plain = job("b", None, None);
        let mut device_options = DeviceOptions::default();
        assert_eq!(shown(&device_options, &[&plain]), "none ");
        assert_eq!(shown(&device_options, &[&plain, &deadline]), "mq-deadline 7ms");
        device_options.sched_opts = vec!["read_expire=9us".to_owned()];
        assert_eq!(shown(&device_options, &[&plain, &deadline]), "mq-deadline 9us");
        let none = DeviceOptions { scheduler: Some("none".to_owned()), ..DeviceOptions::default() };
        assert_eq!(shown(&none, &[&deadline]), "none ", "its attributes are not those of none");
    }

    #[test]
    fn jobs_that_name_different_schedulers_for_a_device_are_told_so() {
        let (a, b) = (job("a", Some("none"), None), job("b", Some("mq-deadline"), None));
        assert_eq!(
            shown(&DeviceOptions::default(), &[&a, &b]),
            "job b: ioscheduler=mq-deadline: job a gives the device none, and it can have one"
        );
    }

    #[test]
    fn wrong_attributes_name_the_option_and_what_there_is() {
        let with = |options: &str| DeviceOptions {
            scheduler: Some("mq-deadline".to_owned()),
            sched_opts: vec![options.to_owned()],
            ..DeviceOptions::default()
        };
        let unknown = shown(&with("read_expiry=1"), &[]);
        assert!(unknown.starts_with("--sched-opt: "), "{unknown}");
        assert!(unknown.contains("`read_expiry`") && unknown.contains("read_expire"), "{unknown}");
        assert_eq!(shown(&with("x"), &[]), "--sched-opt: found `x`, expected NAME=VALUE");
        let bad = shown(&with("fifo_batch=0"), &[]);
        assert!(bad.contains("fifo_batch") && bad.contains("from 1"), "{bad}");
    }
}
