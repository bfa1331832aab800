//! Access to storage: [`Stack`], a device with its block layer, and below it block devices and NVMe
//! namespaces of this machine, image files, and NVMe/TCP targets.
//!
//! ```text
//!  names      devices by the names that users give them
//!  stack      a device that is opened, wrapped and attached
//!  linux      block devices of this machine, and NVMe namespaces past the kernel's block layer
//!  image      image files
//!  nvme_tcp   namespaces of NVMe/TCP targets
//! ```
//!
//! A backend implements [`zonal_blk::Device`] and [`zonal_blk::HwQueue`], whose `poll` never blocks and
//! whose `wait_fds` names what to wait for. It has no loop.
#![warn(clippy::undocumented_unsafe_blocks)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod error;
pub mod image;
pub mod linux;
mod names;
mod notices;
pub mod nvme_tcp;
mod segments;
mod stack;
mod tags;

pub use error::{OpenError, ProfileError, StackError};
pub use names::{is_block_device, is_device, is_external, load, open_image, profile_text};
pub use notices::Notices;
pub use stack::{OpenOptions, Recording, RecordingError, Stack, Unattached, UnnamedLog};
