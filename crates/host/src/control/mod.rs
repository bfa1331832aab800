//! Devices at work, watched and changed from outside.
//!
//! ```text
//!  zonal ctl --> socket     a line of JSON there, a line back
//!                  command    words -> what is asked for
//!                    operate    asks the queue and the device, or changes them
//!  Prometheus --> metrics   the same counters as text, over HTTP
//! ```
//!
//! Keeps true: what is asked for is refused as a whole or done as a whole; what changes a queue
//! waits until nothing is inside, and if that takes too long changes nothing.
mod attributes;
mod command;
mod manager;
mod metrics;
mod socket;

pub use command::{Command, CommandError};
pub use manager::{DeviceManager, ManagedDevice};
pub use metrics::MetricsServer;
pub use socket::{ControlServer, send_command};
