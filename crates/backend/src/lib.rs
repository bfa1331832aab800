//! What storage is reached through: devices of the block layer over block devices and NVMe
//! namespaces of this machine, image files, and NVMe/TCP targets.
pub mod image;
pub mod linux;
pub mod nvme_tcp;
mod segments;
mod tags;
