//! One device by the name that a user gives it.
//!
//! ```text
//!  null:zones=64, zns-1t, drive.toml     an emulated device, created here
//!  NAME.img                              an image in a file
//!  nvme-tcp://HOST:PORT/NQN              a namespace of an NVMe/TCP subsystem
//!  /dev/ngXnY                            an NVMe namespace of this machine, by pass-through
//!  /dev/NAME                             a block device of this machine
//! ```
//!
//! The form of the name alone decides the kind of device, whether or not it exists.
use super::{AttachedDevice, Notices};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::sync::Arc;
use zonal_backend::image::{self, ImageName};
use zonal_backend::linux::LinuxDevice;
use zonal_backend::linux::passthrough::{self, NvmeDevice};
use zonal_backend::nvme_tcp::{self, Address};
use zonal_blk::{Queue, QueueOptions};
use zonal_device::control::DeviceControl;
use zonal_device::device_spec::{self, DeviceSpec};
use zonal_device::inject::InjectDevice;
use zonal_os::text_file;

/// A device before the block layer is attached to it.
pub struct OpenDevice {
    /// As it was named.
    pub name: String,
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
    /// The device.
    pub model: Arc<dyn DeviceControl>,
    /// What injects faults into it, if that can be done.
    pub inject: Option<Arc<InjectDevice>>,
}

impl OpenDevice {
    /// A device that was created from a spec.
    pub fn from_spec(name: &str, spec: &DeviceSpec, model: Arc<dyn DeviceControl>) -> Self {
        OpenDevice {
            name: name.to_owned(),
            kind: spec.kind(),
            description: spec.describe(),
            keeps_data: spec.keeps_data(),
            is_persistent: false,
            uuid: None,
            model,
            inject: None,
        }
    }

    /// The device, behind one that injects faults, which has no rules yet.
    #[must_use]
    pub fn with_inject(self, seed: u64) -> Self {
        let inject = Arc::new(InjectDevice::new(self.model, seed));
        OpenDevice { model: Arc::clone(&inject) as _, inject: Some(inject), ..self }
    }

    /// Attaches the block layer for up to `channels` channels at once.
    ///
    /// # Errors
    /// The device's limits are inconsistent, or it cannot do what `options` need.
    pub fn attach(self, options: QueueOptions, channels: usize) -> Result<AttachedDevice> {
        let OpenDevice { name, kind, description, keeps_data, is_persistent, uuid, model, inject } =
            self;
        let share_queues = channels > usize::from(model.limits().nr_queues);
        let queue =
            Queue::attach(Arc::clone(&model) as _, QueueOptions { share_queues, ..options })
                .with_context(|| format!("device {name}"))?;
        Ok(AttachedDevice {
            name,
            kind,
            description,
            keeps_data,
            is_persistent,
            uuid,
            model,
            inject,
            queue,
        })
    }
}

/// Creates, opens or connects to a device, for up to `channels` channels at once. `seed` is for
/// emulated devices.
///
/// # Errors
/// The name is malformed, or the device cannot be opened or connected to.
pub fn open(name: &str, seed: u64, channels: usize, notices: &Notices) -> Result<OpenDevice> {
    let in_device = || format!("device {name}");
    let found = |kind, description, uuid, model: Arc<dyn DeviceControl>| OpenDevice {
        name: name.to_owned(),
        kind,
        description,
        keeps_data: true,
        is_persistent: true,
        uuid,
        model,
        inject: None,
    };
    if ImageName::is_image_name(name) {
        let image::OpenImage { device, description, .. } = open_image(name, notices)?;
        return Ok(found("image", description, Some(device.superblock().uuid), device));
    }
    if passthrough::is_name(name) {
        let device = NvmeDevice::open(name).with_context(in_device)?;
        return Ok(found("nvme", device.describe(), None, Arc::new(device)));
    }
    if is_block_device(name) {
        let device = LinuxDevice::open(name).with_context(in_device)?;
        return Ok(found("linux", device.describe(), None, Arc::new(device)));
    }
    if name.starts_with(nvme_tcp::SCHEME) {
        let address: Address = name.parse().with_context(in_device)?;
        let queues = u16::try_from(channels).unwrap_or(u16::MAX);
        let notify = notices.with_prefix("nvme-tcp");
        let (device, description) =
            nvme_tcp::open(&address, queues, &notify).with_context(in_device)?;
        return Ok(found("nvme-tcp", description, None, device));
    }
    create(name, &load(name)?.with_seed(seed))
}

/// Creates the device of a spec.
///
/// # Errors
/// The spec is inconsistent.
pub fn create(name: &str, spec: &DeviceSpec) -> Result<OpenDevice> {
    let model = device_spec::build(spec).with_context(|| format!("device {name}"))?;
    Ok(OpenDevice::from_spec(name, spec, model))
}

/// Opens an image. What its user may not expect, such as damage that was repaired, goes to
/// `notices`.
///
/// # Errors
/// The name is malformed, or the image cannot be opened.
pub fn open_image(name: &str, notices: &Notices) -> Result<image::OpenImage> {
    let in_image = || format!("image {name}");
    let parsed: ImageName = name.parse().with_context(in_image)?;
    let opened = image::open(&parsed).with_context(in_image)?;
    for notice in &opened.notices {
        notices.notify(&format!("image {name}: {notice}"));
    }
    Ok(opened)
}

/// Parses a spec, or reads the profile that it names.
///
/// # Errors
/// The spec is malformed, the profile cannot be read, or `name` is no emulated device.
pub fn load(name: &str) -> Result<DeviceSpec> {
    ensure!(
        !is_block_device(name),
        "device {name}: unknown device `{name}`, expected one made here; a block device of this \
         machine is named on the command line: `zonal run --device` in real time, `zonal zone`, \
         `zonal serve`"
    );
    ensure!(
        !is_external(name),
        "device {name}: found an image or a device of another program, expected a model, which is \
         made here; the others are for `zonal run` in real time, `zonal zone` and `zonal serve`"
    );
    device_spec::load(name, |path| text_file::read_string(Path::new(path)))
        .with_context(|| format!("device {name}"))
}

/// The text of a profile, built in or from a file.
///
/// # Errors
/// There is no such profile, or the file cannot be read.
pub fn profile_text(name: &str) -> Result<String> {
    if let Some(text) = device_spec::profile_text(name) {
        return Ok(text.to_owned());
    }
    ensure!(
        name.ends_with(".toml"),
        "unknown profile `{name}`, expected {} or a file NAME.toml{}",
        device_spec::profile_names(),
        zonal_blk::meant(name, device_spec::profile_names().split(", "))
    );
    text_file::read_string(Path::new(name))
        .with_context(|| format!("{name}: cannot read the device profile"))
}

/// Whether this names a device that exists independently of this program.
pub fn is_external(name: &str) -> bool {
    name.starts_with(nvme_tcp::SCHEME) || ImageName::is_image_name(name) || is_block_device(name)
}

/// Whether this names a block device or an NVMe namespace of this machine.
pub fn is_block_device(name: &str) -> bool {
    name.starts_with("/dev/")
}

/// Whether a trace may choose this device by its name. Never a block device of this machine, which
/// would be overwritten because the trace came from one of the same name.
pub fn is_device(name: &str) -> bool {
    !is_block_device(name)
        && (name.parse::<Address>().is_ok()
            || name.parse::<ImageName>().is_ok()
            || load(name).is_ok())
}
