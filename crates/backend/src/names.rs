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
use crate::error::{OpenError, ProfileError, StackError};
use crate::image::{self, ImageName};
use crate::notices::Notices;
use crate::nvme_tcp::{self, Address};
use std::path::Path;
use zonal_device::device_spec::{self, DeviceSpec};
use zonal_os::text_file;

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
    device_spec::load(name, |path| text_file::read_toml(Path::new(path)))
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
    text_file::read_toml(Path::new(name))
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
