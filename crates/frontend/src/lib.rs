//! What a device is offered as: a ublk block device, an NVMe/TCP target, a controller or a block device
//! of a virtual machine, or files. Each is a [`Frontend`](crate::poll::Frontend), which
//! [`serve`](crate::poll::serve) drives.
mod guest;
pub mod nvme_tcp;
pub mod ublk;
pub mod vfio_user;
pub mod vhost_user;
pub mod zonefs;
