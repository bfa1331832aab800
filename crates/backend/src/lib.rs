//! What storage is reached through: devices of the block layer over block devices and NVMe
//! namespaces of this machine, image files, and NVMe/TCP targets.
//!
//! ```text
//!  linux      block devices of this machine, and NVMe namespaces past the kernel's block layer
//!  image      image files
//!  nvme_tcp   namespaces of NVMe/TCP targets
//! ```
//!
//! A backend implements [`zonal_blk::Device`] and [`zonal_blk::HwQueue`], whose `poll` never blocks and
//! whose `wait_fds` names what to wait for. It has no loop.
#![warn(clippy::undocumented_unsafe_blocks)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod image;
pub mod linux;
pub mod nvme_tcp;
mod segments;
mod tags;
