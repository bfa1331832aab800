//! Devices while they are served: control, metrics, the page and the log.
//!
//! ```text
//!  control   a running server: its socket, metrics, log
//!  web       devices while they work, and recordings of that, as a page
//!  doctor    what of this machine can be used
//! ```
#![forbid(unsafe_code)]
// What nobody may be reading: see `control::log`.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod control;
pub mod doctor;
pub mod web;
