//! Drives of this machine as devices of Zonal: block devices, and NVMe namespaces past the kernel's
//! block layer.
//!
//! ```text
//!  LinuxDevice   opens a block device for itself alone (O_EXCL), past the page cache (O_DIRECT)
//!  sysfs         its limits, from /sys/dev/block
//!  zones         reports and management, by ioctl
//!  block         reads, writes and flushes, as entries of io_uring
//!  passthrough   NVMe commands, through a namespace's generic node
//!  Queue         a ring, for both
//!  chain         the commands that move data to and from lent pages, for both
//! ```
mod block;
mod chain;
mod device;
pub mod passthrough;
mod queue;
mod sysfs;
#[cfg(test)]
pub(crate) mod tests;

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
