//! The forms in which a device is offered: a ublk block device, an NVMe/TCP target, a controller or a
//! block device of a virtual machine, or files. Each is a [`Frontend`](zonal_os::poll::Frontend), which
//! [`serve`](zonal_os::poll::serve) drives.
//!
//! ```text
//!  nvme_tcp     an NVMe/TCP target
//!  vfio_user    an NVMe controller of a virtual machine
//!  vhost_user   a block device of a virtual machine
//!  ublk         a block device of this machine
//!  zonefs       a file for each zone, over FUSE
//!  guest        memory and messages of virtual machines
//! ```
#![warn(clippy::undocumented_unsafe_blocks)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod guest;
pub mod nvme_tcp;
pub mod ublk;
pub mod vfio_user;
pub mod vhost_user;
pub mod zonefs;
