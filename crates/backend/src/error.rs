//! Why a device cannot be opened, wrapped or attached.
use crate::image::{self, ImageName};
use crate::linux;
use crate::linux::passthrough::NodeError;
use crate::nvme_tcp::{AddressError, ConnectError};
use std::io;
use zonal_blk::AttachError;
use zonal_device::device_spec::{self, SpecError};
use zonal_device::image::ImageError;

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
        "found `{0}`, a block device, expected a model, such as the profile that is nearest to it (see \
         `zonal devices`); block devices are for `zonal run --device` in real time, `zonal zone` and \
         `zonal serve`"
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
        "unknown profile `{0}`, expected {names} or a file NAME.toml{hint}",
        names = device_spec::profile_names(),
        hint = zonal_blk::did_you_mean(.0, device_spec::profile_names().split(", "))
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

/// Why a device cannot be opened, wrapped or attached.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// It cannot be opened, made or connected to.
    #[error("{} {name}", if ImageName::is_image_name(name) { "image" } else { "device" })]
    Open {
        /// Its name.
        name: String,
        /// Why not.
        source: Box<OpenError>,
    },
    /// It is to be recorded, and keeps no data.
    #[error(
        "device {name}: found one that keeps no data, expected one that does (memory=true), or an \
         image: there is nothing to record"
    )]
    NothingToRecord {
        /// Its name.
        name: String,
    },
    /// It is to be recorded, and no image can have its zones.
    #[error("device {name}")]
    Record {
        /// Its name.
        name: String,
        /// Why not.
        source: ImageError,
    },
    /// It is to be recorded, and its profile cannot be read.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// It is to have a write cache, and nothing can be taken back on its medium.
    #[error(
        "device {name}: found one that cannot take back what was written, expected a model, or an \
         image without the latencies of one"
    )]
    WriteCache {
        /// Its name.
        name: String,
    },
    /// The block layer cannot be attached.
    #[error("device {name}")]
    Attach {
        /// Its name.
        name: String,
        /// Why not.
        source: AttachError,
    },
    /// It cannot be flushed.
    #[error("device {name}: cannot be flushed: {error}; what was not flushed before may be lost")]
    Flush {
        /// Its name.
        name: String,
        /// Why not.
        error: io::Error,
    },
}

impl StackError {
    pub(crate) fn open(name: &str, error: OpenError) -> Self {
        StackError::Open { name: name.to_owned(), source: Box::new(error) }
    }

    /// Whether it is the recording that cannot be made.
    pub fn is_of_recording(&self) -> bool {
        matches!(
            self,
            StackError::NothingToRecord { .. } | StackError::Record { .. } | StackError::Profile(_)
        )
    }
}
