//! Emulated zoned devices after [`zonal_blk::Device`].
//!
//! The six types to know:
//!
//! - [`NullDevice`]: a zoned or regular device that takes no time unless configured to.
//! - [`HddDevice`]: a rotating disk, conventional or host-managed shingled.
//! - [`ZnsDevice`]: an NVMe flash drive with zones.
//! - [`SsdDevice`]: an NVMe flash drive without, on the same flash.
//! - [`ImageDevice`]: a zoned device in a file.
//! - [`Zones`]: the zone state machine that they all use.
//!
//! ```text
//!  "null:zones=4096,..." or a profile      device_spec   text -> validated configuration -> device
//!                                               |
//!  Request  ->  hardware queue  ->  hdd         hdd      link, buffer, head: when a command completes
//!                               or  zns         zns      controller, buffer, dies: likewise
//!                               or  ssd         ssd      likewise, with a translation layer
//!                               or  null        null     when commands are due, and in which order
//!                                     \
//!                                   storage              applies a command to zones and data
//!                                    /   \
//!                                zones   memory          zone conditions, write pointers; data
//! ```
//!
//! [`image`] keeps zones and data in a file that the caller opens; [`multipath`] is a device that is
//! reached over several others; [`inject`] wraps a device and makes it fail on demand, [`power`]
//! cuts its power; [`mapped`] is a zoned device as one without zones, and [`part`] a part of a device
//! without zones. [`control`] is what devices offer beyond I/O; [`power_loss`] has the rules of what a
//! drive may lose.
//!
//! Nothing here reads a clock, starts a thread or opens a file: time comes with each call, and the
//! text of a profile from the caller.
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation)]

pub mod config;
pub mod control;
pub mod device_spec;
pub mod flash;
pub mod hdd;
pub mod image;
pub mod inject;
pub mod mapped;
mod memory;
pub mod multipath;
pub mod null;
pub mod part;
pub mod power;
pub mod power_loss;
pub mod quantity;
pub mod rng;
pub mod ssd;
mod storage;
pub mod zns;
mod zns_options;
pub mod zones;

pub use config::{ConfigError, DeviceConfig};
pub use control::{DeviceControl, FaultHooks};
pub use device_spec::{DeviceSpec, SpecError};
pub use hdd::{HddConfig, HddDevice};
pub use image::ImageDevice;
pub use null::{NullConfig, NullDevice};
pub use ssd::{SsdConfig, SsdDevice};
pub use zns::{ZnsConfig, ZnsDevice};
pub use zones::{ResourceCounts, ZoneLayout, Zones};
