//! Monitoring and changing served devices.
//!
//! ```text
//!  zonal ctl --> ControlServer    a request in a line of JSON, the response in another
//!                  Command          the words of a request, parsed
//!                  DeviceManager    executes it on a queue and its device
//!                    attributes       reads and sets the attributes of a queue
//!                    scrub            compares a device's data with their checksums
//!                    view             a device at one moment, for zonal top
//!  Prometheus -> MetricsServer    counters as text
//!                  snapshot         what a device has said last about its zones and events
//!                  http             paths and pages, for clients that are not trusted; also of web
//!
//!  tracing ----> log              lines on standard error
//! ```
//!
//! A command is executed completely or refused. One that changes a queue freezes it and waits until it
//! has drained, and if that takes too long changes nothing.
mod attributes;
mod command;
#[cfg(feature = "http")]
pub(crate) mod http;
pub mod log;
mod managed;
mod manager;
mod metrics;
#[cfg(feature = "http")]
mod metrics_server;
mod scrub;
mod snapshot;
mod socket;
mod view;

pub use command::{Command, CommandError, NAMES, PowerCut};
pub use managed::{ManagedDevice, Power, SaveImage};
pub use manager::DeviceManager;
#[cfg(feature = "http")]
pub use metrics_server::MetricsServer;
#[cfg(feature = "http")]
pub(crate) use socket::execute;
pub use socket::{ControlClient, ControlServer};
#[cfg(feature = "http")]
pub(crate) use view::written;
pub use view::{Cell, MAX_CELLS, MapRange, Plug, View, ZoneMap};
