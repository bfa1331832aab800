//! Why a namespace cannot be used through its generic node.
use super::abi::PassthruError;
use crate::backend::linux::sysfs::LimitsError;
use std::io;
use zonal_nvme::NvmeStatus;
use zonal_nvme::ns::ScanError;

/// Why not.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The name is not that of a generic node.
    #[error("found `{0}`, expected the generic node of an NVMe namespace, such as ng0n1")]
    Name(String),
    /// It cannot be opened.
    #[error("{0}")]
    Open(io::Error),
    /// It is a file, or something else.
    #[error("expected a character device, the generic node of an NVMe namespace")]
    NotACharacterDevice,
    /// It is a device of another kind.
    #[error(
        "found a character device of another kind, expected the generic node of an NVMe namespace"
    )]
    NotGeneric,
    /// Others have the namespace.
    #[error(
        "it is in use: {0} is mounted, or part of another device, or a program has it for itself"
    )]
    InUse(String),
    /// The namespace's block device cannot be held, so that others could get it.
    #[error("cannot hold its block device {path}: {source}")]
    Hold {
        /// The block device.
        path: String,
        /// Why not.
        source: io::Error,
    },
    /// What sysfs says is missing, or makes no sense.
    #[error(transparent)]
    Attribute(#[from] LimitsError),
    /// I/O goes through io_uring.
    #[error(
        "no io_uring with long entries: {0} (Linux 5.19 has them; see kernel.io_uring_disabled in \
         sysctl)"
    )]
    Ring(io::Error),
    /// A command did not reach the controller.
    #[error("{doing}: {source}")]
    System {
        /// What was being done.
        doing: &'static str,
        /// The kernel's reason.
        source: io::Error,
    },
    /// The controller refused a command.
    #[error("{doing}: the controller answered {status:?}")]
    Refused {
        /// What was being done.
        doing: &'static str,
        /// What it answered.
        status: NvmeStatus,
    },
    /// The namespace breaks a rule.
    #[error(transparent)]
    Namespace(#[from] ScanError),
    /// Bios carry no metadata.
    #[error("blocks have {0} bytes of metadata, expected none")]
    Metadata(u16),
}

impl NodeError {
    pub(super) fn of(doing: &'static str, failed: PassthruError) -> Self {
        match failed {
            PassthruError::System(source) => NodeError::System { doing, source },
            PassthruError::Nvme(status) => NodeError::Refused { doing, status },
        }
    }
}
