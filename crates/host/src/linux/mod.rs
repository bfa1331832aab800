//! A block device of this machine as a device of Zonal.
//!
//! ```text
//!  LinuxDevice   opens it for itself alone (O_EXCL), past the page cache (O_DIRECT)
//!  sysfs         its limits, from /sys/dev/block
//!  zones         reports and management, by ioctl
//!  Queue         reads, writes and flushes, by io_uring
//! ```
mod device;
mod queue;
mod sysfs;
mod zones;

pub use device::{LinuxDevice, OpenError};
pub use sysfs::LimitsError;
