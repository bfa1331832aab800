//! Zonal's use of the operating system: the clock, waiting, rings, sockets, TLS, files of secrets.
//!
//! ```text
//!  poll         the loop that drives any frontend over any backend, and the only code that sleeps where
//!               I/O passes; io_uring and sockets, which never block
//!  tls          pre-shared keys and encryption, under NVMe/TCP
//!  secrets      files of secrets and keys; random numbers
//!  text_file    small files that people write
//!  output_file  files that the program makes
//!  service      what a service manager is told
//!  unix_socket  sockets at a path
//!  fork         what a child process must not use
//!  blk_zone     the kernel's zone descriptors
//!  bus_error    survives that memory shared by others is taken away
//!  usage        what this process takes of its machine
//!  uuid, cpus, memory
//! ```
//!
//! The most important types:
//! - [`poll::Frontend`]: takes requests in and gives completions out; [`poll::serve`] drives it.
//! - [`poll::Poller`]: how one thread waits, by a [`poll::WaitPolicy`].
//! - [`RealClock`]: the clock that all who use a device share.
#![warn(clippy::undocumented_unsafe_blocks)]
// A server's log has lines of its own.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod blk_zone;
// It has static mappings, which atomics of loom cannot be.
#[cfg(not(loom))]
pub mod bus_error;
mod cpus;
pub mod fork;
pub mod group;
pub mod mapped;
mod mapping_slot;
mod memory;
pub mod output_file;
pub mod poll;
pub mod secrets;
pub mod service;
pub mod text_file;
pub mod tls;
pub mod unix_socket;
pub mod usage;
pub mod uuid;

pub use cpus::{allowed_cpus, cpus_of_nodes};
pub use memory::return_freed_buffers;

use quanta::{Clock as Counter, Instant};
use std::io;
use std::time::Duration;
use zonal_blk::{Clock, Nanos};

/// Called with messages for the user.
pub type Notify = std::sync::Arc<dyn Fn(&str) + Send + Sync>;

/// The time of a clock of the system, by its number as in clock_gettime(2).
///
/// # Errors
/// The system has no such clock.
pub fn read_clock(id: u32) -> io::Result<Duration> {
    let id = libc::clockid_t::try_from(id).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a timespec that lives during the call.
    if unsafe { libc::clock_gettime(id, &raw mut time) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Ok(Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0)))
}

/// The time since the clock was started, from the processor's time stamp counter where that is
/// invariant, else from the system's monotonic clock.
#[derive(Clone, Debug)]
pub struct RealClock {
    counter: Counter,
    origin: Instant,
}

impl RealClock {
    /// A clock that starts now.
    pub fn start() -> Self {
        let counter = Counter::new();
        let origin = counter.now();
        RealClock { counter, origin }
    }
}

impl Clock for RealClock {
    fn now(&self) -> Nanos {
        let since = self.counter.now().duration_since(self.origin);
        Nanos(u64::try_from(since.as_nanos()).expect("a run is shorter than 500 years"))
    }
}
