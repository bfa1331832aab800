//! Why a namespace cannot be used through its generic node.
use super::abi::PassthruError;
use crate::linux::sysfs::LimitsError;
use std::io;
use zonal_nvme::NvmeStatus;
use zonal_nvme::ns::ScanError;

/// Why a namespace cannot be used through its generic node.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The name is not that of a generic node.
    #[error("found `{0}`, expected the generic node of an NVMe namespace, such as ng0n1")]
    Name(String),
    /// It cannot be opened.
    #[error("{0}")]
    Open(io::Error),
    /// It is not a character device.
    #[error("expected a character device, the generic node of an NVMe namespace")]
    NotACharacterDevice,
    /// It is another character device.
    #[error(
        "found a character device of another kind, expected the generic node of an NVMe namespace"
    )]
    NotGeneric,
    /// This process may not open it: who may.
    #[error("permission denied: {0}")]
    Forbidden(String),
    /// The namespace is in use.
    #[error("it is in use: {path} is {by}")]
    InUse {
        /// Its block device, or the node.
        path: String,
        /// How it is used.
        by: String,
    },
    /// The namespace's block device cannot be opened exclusively.
    #[error("cannot claim its block device {path}: {source}")]
    Claim {
        /// The block device.
        path: String,
        /// Why a namespace cannot be used through its generic node.
        source: io::Error,
    },
    /// An attribute in sysfs is missing or has an unexpected value.
    #[error(transparent)]
    Attribute(#[from] LimitsError),
    /// There is no io_uring with long entries.
    #[error(
        "no io_uring with long entries: {0} (Linux 5.19 has them; see kernel.io_uring_disabled in \
         sysctl)"
    )]
    Ring(io::Error),
    /// A command did not reach the controller.
    #[error("{doing}: {source}")]
    System {
        /// The operation that failed.
        doing: &'static str,
        /// The kernel's reason.
        source: io::Error,
    },
    /// The controller failed a command.
    #[error("{doing}: the controller answered {status:?}")]
    Refused {
        /// The operation that failed.
        doing: &'static str,
        /// The status.
        status: NvmeStatus,
    },
    /// The namespace is not supported or contradicts itself.
    #[error(transparent)]
    Namespace(#[from] ScanError),
    /// Its blocks have metadata, which bios have not.
    #[error("blocks have {0} bytes of metadata, expected none")]
    Metadata(u16),
}

impl NodeError {
    pub(super) fn of(doing: &'static str, error: PassthruError) -> Self {
        match error {
            PassthruError::System(source) => NodeError::System { doing, source },
            PassthruError::Nvme(status) => NodeError::Refused { doing, status },
        }
    }
}
