//! Devices by the names that users give them, with the block layer attached.
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::sync::Arc;
use zonal_blk::sched::Scheduler;
use zonal_blk::{Queue, QueueOptions};
use zonal_device::model::Model;
use zonal_device::spec::{self, DeviceSpec};
use zonal_host::image::{self, ImageName};
use zonal_host::nvme_tcp::{self, Address, NvmeTcpDevice};
use zonal_workload::job::Job;
use zonal_workload::plan::Task;

/// A device with its block layer.
pub struct Attached {
    /// As it was named.
    pub name: String,
    /// What it is.
    pub description: String,
    /// Whether bios have to carry data.
    pub keeps_data: bool,
    /// What can be asked about itself.
    pub model: Arc<dyn Model>,
    /// The block layer.
    pub queue: Arc<Queue>,
}

/// Reads a spec or the profile that it names.
///
/// # Errors
/// What is wrong with it.
pub fn load(name: &str) -> Result<DeviceSpec> {
    ensure!(
        !is_remote(name),
        "device {name}: found a device of another program, expected one made here; it is for \
         `zonal run` in real time and `zonal zone`"
    );
    ensure!(
        !ImageName::looks_like(name),
        "device {name}: found an image, expected a model; images are for `zonal run` in real time, \
         `zonal zone` and `zonal serve`"
    );
    spec::load(name, |path| std::fs::read_to_string(path)).with_context(|| format!("device {name}"))
}

/// The text of a profile: of one that the program has, or a file.
///
/// # Errors
/// There is none of this name, or it cannot be read.
pub fn profile_text(name: &str) -> Result<String> {
    if let Some(text) = spec::profile_text(name) {
        return Ok(text.to_owned());
    }
    ensure!(
        name.ends_with(".toml"),
        "unknown profile `{name}`, expected {} or a file NAME.toml",
        spec::profile_names()
    );
    std::fs::read_to_string(name).with_context(|| format!("{name}: cannot read the device profile"))
}

/// Whether this names a device of another program or machine.
pub fn is_remote(name: &str) -> bool {
    name.starts_with(nvme_tcp::SCHEME)
}

/// Whether this names a device that is there already, and goes on when it is let go of.
fn is_found(name: &str) -> bool {
    is_remote(name) || ImageName::looks_like(name)
}

/// Whether this names a device.
pub fn is_device(name: &str) -> bool {
    match is_remote(name) {
        true => name.parse::<Address>().is_ok(),
        false => name.parse::<ImageName>().is_ok() || load(name).is_ok(),
    }
}

/// Opens an image, and says on standard error what one may not expect of it.
///
/// # Errors
/// What is wrong with its name, or why it cannot be opened.
pub fn open_image(name: &str) -> Result<image::Opened> {
    let in_image = || format!("image {name}");
    let parsed: ImageName = name.parse().with_context(in_image)?;
    let opened = image::open(&parsed).with_context(in_image)?;
    for notice in &opened.notices {
        eprintln!("zonal: image {name}: {notice}");
    }
    Ok(opened)
}

/// Makes a device, opens it if it is an image, or connects to it if it is of another program, and
/// attaches the block layer for up to `channels` channels at once.
///
/// # Errors
/// What is wrong with the name, why it cannot be connected to, or what [`attach`] says.
pub fn open(name: &str, options: QueueOptions, channels: usize) -> Result<Attached> {
    if ImageName::looks_like(name) {
        return attach_image(name, open_image(name)?, options, channels);
    }
    if !is_remote(name) {
        return attach(name, &load(name)?, options, channels);
    }
    let in_device = || format!("device {name}");
    let address: Address = name.parse().with_context(in_device)?;
    let queues = u16::try_from(channels).unwrap_or(u16::MAX);
    let device = NvmeTcpDevice::connect(&address, queues).with_context(in_device)?;
    let description = device.describe();
    with_queue(name, description, true, Arc::new(device), options, channels)
}

/// Attaches the block layer to an image for up to `channels` channels at once.
///
/// # Errors
/// What the image lacks for the options.
pub fn attach_image(
    name: &str,
    opened: image::Opened,
    options: QueueOptions,
    channels: usize,
) -> Result<Attached> {
    with_queue(name, opened.description, true, opened.device, options, channels)
}

/// A UUID as it is written (RFC 9562 section 4).
pub fn show_uuid(uuid: &[u8; 16]) -> String {
    let hex: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// Makes a device and attaches the block layer for up to `channels` channels at once.
///
/// # Errors
/// The rule that the device breaks, or what it lacks for the options.
pub fn attach(
    name: &str,
    spec: &DeviceSpec,
    options: QueueOptions,
    channels: usize,
) -> Result<Attached> {
    let model = spec::build(spec).with_context(|| format!("device {name}"))?;
    attach_device(name, spec, model, options, channels)
}

/// The same for a device that was made already.
///
/// # Errors
/// What the device lacks for the options.
pub fn attach_device(
    name: &str,
    spec: &DeviceSpec,
    model: Arc<dyn Model>,
    options: QueueOptions,
    channels: usize,
) -> Result<Attached> {
    with_queue(name, spec.describe(), spec.keeps_data(), model, options, channels)
}

fn with_queue(
    name: &str,
    description: String,
    keeps_data: bool,
    model: Arc<dyn Model>,
    options: QueueOptions,
    channels: usize,
) -> Result<Attached> {
    let share_queues = channels > usize::from(model.limits().nr_queues);
    let queue = Queue::attach(Arc::clone(&model) as _, QueueOptions { share_queues, ..options })
        .with_context(|| format!("device {name}"))?;
    Ok(Attached { name: name.to_owned(), description, keeps_data, model, queue })
}

/// What the queues of all devices are to be like, as far as jobs do not say.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
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
    by_name: BTreeMap<String, Vec<Attached>>,
}

/// What the jobs of one device ask of it.
#[derive(Default)]
struct Use<'a> {
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
    pub fn attach(wishes: &Wishes, phases: &[Vec<Task>]) -> Result<Self> {
        let mut uses: BTreeMap<String, Use<'_>> = BTreeMap::new();
        for phase in phases {
            let mut here: BTreeMap<&str, usize> = BTreeMap::new();
            for task in phase {
                let name = device_name(wishes.device.as_deref(), task)?;
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
        let attach = |(name, asked): (String, Use<'_>)| {
            let scheduler = scheduler(wishes, &asked.jobs)?;
            let options = QueueOptions { scheduler, ..wishes.queue };
            if is_found(&name) && wishes.real_time {
                ensure!(
                    asked.disks <= 1,
                    "device {name}: fs_disks: found a device that is not made here, which is one"
                );
                let found = open(&name, options, asked.channels)?;
                return Ok((name, vec![found]));
            }
            let spec = match &wishes.spec {
                Some(spec) if wishes.device.is_some() => spec.clone(),
                _ => load(&name)?,
            };
            let disk = |number: u32| {
                let spec = spec.clone().with_seed(wishes.seed.wrapping_add(number.into()));
                let mut attached = attach(&name, &spec, options, asked.channels)?;
                if asked.disks > 1 {
                    attached.name = format!("{name} ({})", number + 1);
                }
                Ok(attached)
            };
            let disks = (0..asked.disks).map(disk).collect::<Result<Vec<Attached>>>()?;
            Ok((name, disks))
        };
        let by_name = uses.into_iter().map(attach).collect::<Result<_>>()?;
        Ok(Devices { one: wishes.device.clone(), by_name })
    }

    /// One device, for all tasks.
    pub fn one(attached: Attached) -> Self {
        let name = attached.name.clone();
        Devices { one: Some(name.clone()), by_name: BTreeMap::from([(name, vec![attached])]) }
    }

    /// The device of a task, the first one if its file system lies on several.
    ///
    /// # Panics
    /// If the task was not among those that the devices were attached for.
    pub fn of(&self, task: &Task) -> &Attached {
        &self.disks_of(task)[0]
    }

    /// The devices that a task's file system lies on.
    ///
    /// # Panics
    /// As [`Devices::of`].
    pub fn disks_of(&self, task: &Task) -> &[Attached] {
        let name = device_name(self.one.as_deref(), task);
        let disks = &self.by_name[name.expect("every task's device was found before the run")];
        &disks[..disks.len().min(task.job.fs.disks as usize)]
    }

    /// All devices, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Attached> {
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
    let wishes = Wishes {
        scheduler: name.map(str::to_owned),
        sched_opts: options.to_vec(),
        ..Wishes::default()
    };
    scheduler(&wishes, &[])
}

/// The scheduler of a device that `jobs` use: the one that the command line names, else the one
/// that the jobs name (`ioscheduler`), with the attributes of both.
fn scheduler(wishes: &Wishes, jobs: &[&Job]) -> Result<Scheduler> {
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
    let mut scheduler = match (wishes.scheduler.as_deref(), named) {
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
    for option in &wishes.sched_opts {
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

    fn shown(wishes: &Wishes, jobs: &[&Job]) -> String {
        match scheduler(wishes, jobs) {
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
        let mut wishes = Wishes::default();
        assert_eq!(shown(&wishes, &[&plain]), "none ");
        assert_eq!(shown(&wishes, &[&plain, &deadline]), "mq-deadline 7ms");
        wishes.sched_opts = vec!["read_expire=9us".to_owned()];
        assert_eq!(shown(&wishes, &[&plain, &deadline]), "mq-deadline 9us");
        let none = Wishes { scheduler: Some("none".to_owned()), ..Wishes::default() };
        assert_eq!(shown(&none, &[&deadline]), "none ", "its attributes are not those of none");
    }

    #[test]
    fn jobs_that_name_different_schedulers_for_a_device_are_told_so() {
        let (a, b) = (job("a", Some("none"), None), job("b", Some("mq-deadline"), None));
        assert_eq!(
            shown(&Wishes::default(), &[&a, &b]),
            "job b: ioscheduler=mq-deadline: job a gives the device none, and it can have one"
        );
    }

    #[test]
    fn wrong_attributes_name_the_option_and_what_there_is() {
        let with = |options: &str| Wishes {
            scheduler: Some("mq-deadline".to_owned()),
            sched_opts: vec![options.to_owned()],
            ..Wishes::default()
        };
        let unknown = shown(&with("read_expiry=1"), &[]);
        assert!(unknown.starts_with("--sched-opt: "), "{unknown}");
        assert!(unknown.contains("`read_expiry`") && unknown.contains("read_expire"), "{unknown}");
        assert_eq!(shown(&with("x"), &[]), "--sched-opt: found `x`, expected NAME=VALUE");
        let bad = shown(&with("fifo_batch=0"), &[]);
        assert!(bad.contains("fifo_batch") && bad.contains("from 1"), "{bad}");
    }
}
