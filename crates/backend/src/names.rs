//! Devices by the names that users give them.
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
use crate::image::{self, ImageName};
use crate::linux;
use crate::linux::passthrough::NodeError;
use crate::nvme_tcp::{self, Address, AddressError, ConnectError};
use crate::stack::{Notices, StackError};
use std::io;
use std::path::Path;
use zonal_device::device_spec::{self, DeviceSpec, SpecError};
use zonal_os::text_file;

/// Why a device cannot be opened, made or connected to.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The name of an image is malformed.
    #[error(transparent)]
    ImageName(#[from] image::NameError),
    /// The image cannot be opened.
    #[error(transparent)]
    Image(#[from] image::OpenError),
    /// The NVMe namespace cannot be used.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The block device cannot be used.
    #[error(transparent)]
    Linux(#[from] linux::OpenError),
    /// The address is malformed.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The target cannot be connected to.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The spec or the profile is invalid.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A block device is named where a device is made.
    #[error(
        "unknown device `{0}`, expected one made here; a block device of this machine is named on \
         the command line: `zonal run --device` in real time, `zonal zone`, `zonal serve`"
    )]
    BlockDevice(String),
    /// A device that exists is named where one is made.
    #[error(
        "found an image or a device of another program, expected a model, which is made here; the \
         others are for `zonal run` in real time, `zonal zone` and `zonal serve`"
    )]
    External,
}

/// Why there is no text of a profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// There is no such profile.
    #[error(
        "unknown profile `{0}`, expected {names} or a file NAME.toml{meant}",
        names = device_spec::profile_names(),
        meant = zonal_blk::meant(.0, device_spec::profile_names().split(", "))
    )]
    Unknown(String),
    /// The file cannot be read.
    #[error("{file}: cannot read the device profile")]
    Read {
        /// The file.
        file: String,
        /// Why not.
        source: io::Error,
    },
}

/// Opens an image. What its user may not expect, such as damage that was repaired, goes to
/// `notices`.
///
/// # Errors
/// The name is malformed, or the image cannot be opened.
pub fn open_image(name: &str, notices: &Notices) -> Result<image::OpenImage, StackError> {
    let failed = |error| StackError::open(name, error);
    let parsed: ImageName = name.parse().map_err(|error| failed(OpenError::ImageName(error)))?;
    let opened = image::open(&parsed).map_err(|error| failed(error.into()))?;
    for notice in &opened.notices {
        notices.notify(&format!("image {name}: {notice}"));
    }
    Ok(opened)
}

/// Parses a spec, or reads the profile that it names.
///
/// # Errors
/// The spec is malformed, the profile cannot be read, or `name` is no emulated device.
pub fn load(name: &str) -> Result<DeviceSpec, StackError> {
    let failed = |error| StackError::open(name, error);
    if is_block_device(name) {
        return Err(failed(OpenError::BlockDevice(name.to_owned())));
    }
    if is_external(name) {
        return Err(failed(OpenError::External));
    }
    device_spec::load(name, |path| text_file::read_string(Path::new(path)))
        .map_err(|error| failed(error.into()))
}

/// The text of a profile, built in or from a file.
///
/// # Errors
/// There is no such profile, or the file cannot be read.
pub fn profile_text(name: &str) -> Result<String, ProfileError> {
    if let Some(text) = device_spec::profile_text(name) {
        return Ok(text.to_owned());
    }
    if !name.ends_with(".toml") {
        return Err(ProfileError::Unknown(name.to_owned()));
    }
    text_file::read_string(Path::new(name))
        .map_err(|source| ProfileError::Read { file: name.to_owned(), source })
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
