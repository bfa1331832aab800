//! What a device is offered as: a ublk block device, an NVMe/TCP target, or files. Each is a
//! [`Frontend`](crate::poll::Frontend), which [`serve`](crate::poll::serve) drives.
pub mod nvme_tcp;
pub mod ublk;
pub mod zonefs;
