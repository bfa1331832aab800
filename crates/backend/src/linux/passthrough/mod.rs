//! An NVMe namespace of this machine through its generic node (`/dev/ngXnY`), past the kernel's
//! block layer, which has no system call for zone appends.
//!
//! ```text
//!  NvmeDevice      opens the node, claims its block device, identifies the namespace
//!  node            what sysfs knows of the node: its block device, what the driver can map
//!  abi             the kernel's structures; admin commands and zone reports, by ioctl
//!  NvmeCommands    requests as commands, by io_uring
//! ```
mod abi;
mod commands;
mod device;
mod error;
mod node;

pub use device::NvmeDevice;
pub use error::NodeError;
pub use node::is_name;

#[cfg(test)]
pub(super) use commands::testing;
