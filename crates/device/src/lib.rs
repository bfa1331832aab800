//! Emulated zoned devices behind [`zonal_blk::Device`].
//!
//! ```text
//!  "null:zones=4096,..." or a profile      spec      text -> validated configuration -> device
//!                                            |
//!  Request  ->  hardware queue  ->  hdd      hdd/      a rotating disk: link, buffer, head
//!                              or  zns      zns/      a flash drive: controller, buffer, dies
//!                                    |
//!                                   null     null/     when commands are due, and in which order
//!                                    |  \
//!                                    |   memory        the data, if the device keeps any
//!                                  zones               conditions, write pointers, open resources
//! ```
//!
//! `inject` wraps a device and makes it fail as its operator says;
//! `multipath` is a device that is reached over several others.
//! `image` is a device whose zones and data are in a file, which somebody else opens.
//!
//! Nothing here reads a clock, starts a thread or opens a file: time comes with each call, the
//! text of a profile from whoever asks for the device.
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation)]

pub mod control;
pub mod device_spec;
pub mod hdd;
pub mod image;
pub mod inject;
mod memory;
pub mod multipath;
pub mod null;
pub mod quantity;
pub mod rng;
mod storage;
pub mod zns;
pub mod zones;

pub use device_spec::{DeviceSpec, SpecError};
pub use hdd::{HddConfig, HddDevice};
pub use image::ImageDevice;
pub use null::{ConfigError, NullConfig, NullDevice};
pub use zns::{ZnsConfig, ZnsDevice};
pub use zones::{ResourceCounts, ZoneLayout, Zones};
