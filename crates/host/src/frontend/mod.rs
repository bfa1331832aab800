//! What a device is offered as: a ublk block device, an NVMe/TCP target, or files.
pub mod nvme_tcp;
pub mod ublk;
pub mod zonefs;
