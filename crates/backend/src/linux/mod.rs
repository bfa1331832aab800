//! Drives of this machine: block devices, and NVMe namespaces past the kernel's block layer.
//!
//! ```text
//!  LinuxDevice   a block device, opened exclusively (O_EXCL) and for direct I/O (O_DIRECT)
//!  sysfs         its limits, from /sys/dev/block
//!  block         its commands: I/O by io_uring, zone reports and management by ioctl
//!  passthrough   NVMe commands, through a namespace's generic node
//!  Queue         a hardware queue over a ring, for both
//!  users         what uses a device that is not free, for errors
//!  chain         linked commands for the data of external buffers, for both
//! ```
mod block;
mod chain;
mod device;
mod failure;
pub mod passthrough;
mod queue;
mod sysfs;
#[cfg(test)]
mod tests;
mod users;

pub use device::{LinuxDevice, OpenError};
pub use sysfs::LimitsError;

use zonal_blk::Limits;

/// Describes a device in one line, for reports.
fn describe(name: &str, limits: &Limits) -> String {
    let size = if limits.nr_zones > 0 {
        format!("{} zones of {} bytes", limits.nr_zones, limits.zone_size.to_bytes())
    } else {
        format!("{} bytes without zones", limits.capacity.to_bytes())
    };
    format!("{name}, {size}, {}B blocks", limits.lba_size)
}
