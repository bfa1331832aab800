//! [`Server`] serves devices in this process; control, metrics, the page and the log of a server.
//!
//! ```text
//!  server    exports of devices: starting, readiness, failures, the end
//!  control   a running server: its socket, metrics, log
//!  web       devices while they work, and recordings of that, as a page
//!  doctor    what of this machine can be used
//! ```
#![forbid(unsafe_code)]
// What nobody may be reading: see `control::log`.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod control;
pub mod doctor;
mod server;
#[cfg(feature = "http")]
pub mod web;

#[cfg(feature = "http")]
pub use server::watched;
pub use server::{
    ControlOptions, NvmeOptions, Running, ServeError, ServeOptions, Server, Stopper, Stopping,
    UblkOptions, ZonefsOptions, managed, stopping,
};
