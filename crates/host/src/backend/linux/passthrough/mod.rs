//! An NVMe namespace of this machine through its generic node (`/dev/ngXnY`), past the kernel's
//! block layer, which has no call for zone appends.
//!
//! ```text
//!  NvmeDevice      opens the node, holds its block device, asks what there is
//!  node            what sysfs says of the node: its block device, what the driver can map
//!  abi             commands as the kernel takes them; those that are waited for, by ioctl
//!  NvmeCommands    requests as commands, by io_uring
//! ```
mod abi;
mod commands;
mod device;
mod error;
mod node;
#[cfg(test)]
pub(super) mod testing;

pub use device::NvmeDevice;
pub use error::NodeError;
pub use node::is_name;
