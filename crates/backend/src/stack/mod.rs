//! A device with all that stands on it: opened by its name, wrapped, with the block layer attached.
//!
//! ```text
//!  Queue          the block layer
//!  InjectDevice   faults: a command that it fails reaches nothing below
//!  PowerDevice    a volatile write cache, which a loss of power empties
//!  RecordDevice   the log for the crash lab: what reached the device, in the order in which it did
//!  device         emulated, an image, a drive of this machine, a namespace of a target
//! ```
//!
//! The order is always this one, whatever the order of the calls.
//!
//! ```
//! use zonal_backend::Stack;
//! use zonal_blk::QueueOptions;
//!
//! let stack = Stack::open("null:zones=4,zone_size=1M,memory=true")?
//!     .inject(0, vec![])
//!     .attach(QueueOptions::default())?;
//! let channel = stack.queue.channel()?;
//! assert_eq!(channel.queue().limits().nr_zones, 4);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
mod flush;
mod recording;

pub use recording::{Recording, RecordingError, UnnamedLog};

use crate::error::{OpenError, ProfileError, StackError};
use crate::image::{self, ImageName};
use crate::linux::LinuxDevice;
use crate::linux::passthrough::{self, NvmeDevice};
use crate::names::{is_block_device, load, open_image, profile_text};
use crate::notices::Notices;
use crate::nvme_tcp::{self, Address};
use std::path::PathBuf;
use std::sync::Arc;
use zonal_blk::{Bytes, Queue, QueueOptions};
use zonal_crash::log::Header;
use zonal_crash::{RecordDevice, Recorder};
use zonal_device::control::DeviceControl;
use zonal_device::device_spec::{self, DeviceSpec};
use zonal_device::image::Profile;
use zonal_device::inject::{InjectDevice, Rule};
use zonal_device::power::PowerDevice;
use zonal_device::quantity::format_size;

/// How a device is opened.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Of the random numbers of an emulated device.
    pub seed: u64,
    /// Channels in use at the same time, at most: queues to ask for, of a device that one connects to. With
    /// more than the device has, its queues are shared.
    pub channels: usize,
    /// Receives notices.
    pub notices: Notices,
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions { seed: 0, channels: 1, notices: Notices::default() }
    }
}

/// A device with its block layer. Before [`Stack::attach`] it has none: `Stack<Unattached>`.
pub struct Stack<Q = Arc<Queue>> {
    /// As it was named.
    pub name: String,
    /// The name of the device that it is a part of, if it is one.
    pub whole: Option<String>,
    /// Its kind in one word, such as `null` or `image`.
    pub kind: &'static str,
    /// One line for people.
    pub description: String,
    /// It stores data, so bios have to carry buffers.
    pub keeps_data: bool,
    /// It outlives this program, with its data.
    pub is_persistent: bool,
    /// Its UUID, if it has one.
    pub uuid: Option<[u8; 16]>,
    /// The device with its wrappers, for its statistics and estimates.
    pub model: Arc<dyn DeviceControl>,
    /// The wrapper that injects faults into it.
    pub inject: Option<Arc<InjectDevice>>,
    /// Its volatile write cache.
    pub power: Option<Arc<PowerDevice>>,
    /// Its recording, which the parts of a device have in common.
    pub recording: Option<Arc<Recording>>,
    /// The block layer.
    pub queue: Q,
}

/// The wrappers of a device, before the block layer is attached.
#[derive(Default)]
pub struct Unattached {
    channels: usize,
    log: Option<PathBuf>,
    cache_sectors: Option<u64>,
    inject: Option<(u64, Vec<Rule>)>,
}

impl Stack<Unattached> {
    /// Opens, creates or connects to a device for one channel.
    ///
    /// # Errors
    /// The name is malformed, or the device cannot be opened or connected to.
    pub fn open(name: &str) -> Result<Self, StackError> {
        Self::open_with(name, &OpenOptions::default())
    }

    /// Opens, creates or connects to a device.
    ///
    /// # Errors
    /// As [`Stack::open`].
    pub fn open_with(name: &str, options: &OpenOptions) -> Result<Self, StackError> {
        let failed = |error| StackError::open(name, error);
        let &OpenOptions { seed, channels, ref notices } = options;
        let found = |kind, description, uuid, model| Stack {
            keeps_data: true,
            is_persistent: true,
            uuid,
            ..Stack::of_model(name, kind, description, model, channels)
        };
        if ImageName::is_image_name(name) {
            let image::OpenImage { device, description, .. } = open_image(name, notices)?;
            return Ok(found("image", description, Some(device.superblock().uuid), device));
        }
        if passthrough::is_name(name) {
            let device = NvmeDevice::open(name).map_err(|error| failed(error.into()))?;
            return Ok(found("nvme", device.describe(), None, Arc::new(device)));
        }
        if is_block_device(name) {
            let device = LinuxDevice::open(name).map_err(|error| failed(error.into()))?;
            return Ok(found("linux", device.describe(), None, Arc::new(device)));
        }
        if name.starts_with(nvme_tcp::SCHEME) {
            let address: Address =
                name.parse().map_err(|error| failed(OpenError::Address(error)))?;
            let queues = u16::try_from(channels).unwrap_or(u16::MAX);
            let opened = nvme_tcp::open(&address, queues, &notices.with_prefix("nvme-tcp"));
            let (device, description) = opened.map_err(|error| failed(error.into()))?;
            return Ok(found("nvme-tcp", description, None, device));
        }
        let spec = load(name)?.with_seed(seed);
        for assumption in spec.assumptions() {
            notices.notify(&format!("device {name}: {assumption}"));
        }
        Self::create(name, &spec, channels)
    }

    /// Creates the device of a spec, for up to `channels` concurrent channels.
    ///
    /// # Errors
    /// The spec is inconsistent.
    pub fn create(name: &str, spec: &DeviceSpec, channels: usize) -> Result<Self, StackError> {
        let model =
            device_spec::build(spec).map_err(|error| StackError::open(name, error.into()))?;
        Ok(Self::from_spec(name, spec, model, channels))
    }

    /// A device that was created from a spec.
    pub fn from_spec(
        name: &str,
        spec: &DeviceSpec,
        model: Arc<dyn DeviceControl>,
        channels: usize,
    ) -> Self {
        let keeps_data = spec.keeps_data();
        Stack { keeps_data, ..Self::of_model(name, spec.kind(), spec.describe(), model, channels) }
    }

    /// A device that keeps no data, for up to `channels` concurrent channels.
    pub fn of_model(
        name: &str,
        kind: &'static str,
        description: String,
        model: Arc<dyn DeviceControl>,
        channels: usize,
    ) -> Self {
        Stack {
            name: name.to_owned(),
            whole: None,
            kind,
            description,
            keeps_data: false,
            is_persistent: false,
            uuid: None,
            model,
            inject: None,
            power: None,
            recording: None,
            queue: Unattached { channels, ..Unattached::default() },
        }
    }

    /// Faults can be injected into it, by these rules and others that are added later. `seed` decides
    /// which commands a random rule hits.
    #[must_use]
    pub fn inject(mut self, seed: u64, rules: Vec<Rule>) -> Self {
        self.queue.inject = Some((seed, rules));
        self
    }

    /// Gives it a volatile write cache of this many sectors.
    #[must_use]
    pub fn write_cache(mut self, sectors: u64) -> Self {
        self.queue.cache_sectors = Some(sectors);
        self
    }

    /// All that changes it can be recorded to this file, once the [`Recording`] is started.
    #[must_use]
    pub fn record(mut self, log: impl Into<PathBuf>) -> Self {
        self.queue.log = Some(log.into());
        self
    }

    /// Wraps the device so that it is recorded and has its write cache, for parts of it that have both in
    /// common.
    ///
    /// # Errors
    /// A wrapper is not for such devices.
    pub fn wrap(self) -> Result<Self, StackError> {
        let (mut stack, Unattached { channels, log, cache_sectors, inject }) = self.replace(());
        if let Some(log) = log {
            stack.wrap_in_recorder(log)?;
        }
        if let Some(sectors) = cache_sectors {
            stack.wrap_in_cache(sectors)?;
        }
        Ok(stack.replace(Unattached { channels, inject, ..Unattached::default() }).0)
    }

    /// A device that is a part of this one, which has been wrapped.
    #[must_use]
    pub fn part(&self, name: &str, size: Bytes, model: Arc<dyn DeviceControl>) -> Self {
        let description = format!("{} of {}", format_size(size.0), self.description);
        Stack {
            whole: Some(self.name.clone()),
            keeps_data: self.keeps_data,
            is_persistent: self.is_persistent,
            power: self.power.clone(),
            recording: self.recording.clone(),
            ..Self::of_model(name, self.kind, description, model, self.queue.channels)
        }
    }

    /// Wraps the device, and attaches the block layer.
    ///
    /// # Errors
    /// A wrapper is not for such devices, the device's limits are inconsistent, or it cannot do what
    /// `options` need.
    pub fn attach(self, options: QueueOptions) -> Result<Stack, StackError> {
        let (mut stack, Unattached { channels, inject, .. }) = self.wrap()?.replace(());
        if let Some((seed, rules)) = inject {
            let device = Arc::new(InjectDevice::new(stack.model, seed));
            rules.into_iter().for_each(|rule| device.add(rule));
            stack.model = Arc::clone(&device) as _;
            stack.inject = Some(device);
        }
        let share_queues =
            options.share_queues || channels > usize::from(stack.model.limits().nr_queues);
        let queue =
            Queue::attach(Arc::clone(&stack.model) as _, QueueOptions { share_queues, ..options })
                .map_err(|source| StackError::Attach { name: stack.name.clone(), source })?;
        Ok(stack.replace(queue).0)
    }
}

impl Stack<()> {
    fn wrap_in_recorder(&mut self, log: PathBuf) -> Result<(), StackError> {
        let name = self.name.clone();
        if !self.keeps_data {
            return Err(StackError::NothingToRecord { name });
        }
        let superblock = self.model.superblock().cloned();
        let header = Header::of(&name, &*self.model, superblock, self.image_profile()?)
            .map_err(|source| StackError::Record { name, source })?;
        let recorder = Recorder::idle();
        let device = RecordDevice::new(Arc::clone(&self.model), Arc::clone(&recorder));
        self.model = Arc::new(device);
        self.recording = Some(Arc::new(Recording { recorder, header, log }));
        Ok(())
    }

    fn wrap_in_cache(&mut self, sectors: u64) -> Result<(), StackError> {
        let device = PowerDevice::new(Arc::clone(&self.model), sectors);
        let device = device.ok_or_else(|| StackError::WriteCache { name: self.name.clone() })?;
        let device = Arc::new(device);
        self.model = Arc::clone(&device) as _;
        self.power = Some(device);
        Ok(())
    }
}

impl<Q> Stack<Q> {
    /// The spec that an image with the content of the device records, or of the device that it is a part of.
    ///
    /// # Errors
    /// The file of the device's profile cannot be read.
    pub fn image_profile(&self) -> Result<Profile, ProfileError> {
        // A write cache is of a whole device.
        let cached = self.power.as_ref().and_then(|device| device.superblock());
        if let Some(superblock) = cached.or_else(|| self.model.superblock()) {
            return Ok(superblock.profile.clone());
        }
        let name = self.whole.as_ref().unwrap_or(&self.name);
        Ok(match name.ends_with(".toml") {
            true => Profile::Toml(profile_text(name)?),
            false => Profile::Spec(name.clone()),
        })
    }

    /// Whether it transfers data, or models the time that takes.
    pub fn transfers(&self) -> bool {
        self.keeps_data || self.model.lateness().is_some()
    }

    /// The device with something else on it, and what was on it.
    fn replace<R>(self, queue: R) -> (Stack<R>, Q) {
        let Stack { name, whole, kind, description, keeps_data, is_persistent, uuid, .. } = self;
        let Stack { model, inject, power, recording, queue: before, .. } = self;
        let stack = Stack {
            name,
            whole,
            kind,
            description,
            keeps_data,
            is_persistent,
            uuid,
            model,
            inject,
            power,
            recording,
            queue,
        };
        (stack, before)
    }
}

impl Stack {
    /// Has its queue find out why writes and zone management fail ([`Queue::first_failure`]), and
    /// tells it to `notices`.
    pub fn explain_failures(&self, notices: &Notices) {
        let (name, notices) = (self.name.clone(), notices.clone());
        self.queue.on_failure(move |failure| notices.notify(&format!("device {name}: {failure}")));
    }
}
