//! Real time for the block layer: threads that serve devices and jobs, storage that is reached through
//! the operating system, and ways to offer a device to other programs.
//!
//! ```text
//!  frontend   what a device is offered as: ublk, NVMe/TCP target, a virtual machine's controller
//!             (vfio-user), files (zonefs over FUSE)
//!  poll       the loop that drives any frontend over any backend, and the only code that sleeps
//!  backend    what storage is reached through: block devices, NVMe pass-through, images, NVMe/TCP
//!  control    a running server: its socket, metrics, log
//!  tls        pre-shared keys and encryption, under NVMe/TCP
//!  web        devices while they work, and recordings of that, as a page
//!  doctor     what of this machine can be used
//! ```
//!
//! The most important types:
//! - [`poll::Frontend`]: takes requests in and gives completions out; [`poll::serve`] drives it.
//! - [`poll::Poller`]: how one thread waits, by a [`poll::WaitPolicy`].
//! - [`RealClock`]: the clock that all who use a device share.
//! - [`frontend::nvme_tcp::Server`] and [`frontend::ublk::Server`]: exports of a device.
//! - [`JobThread`]: a fio job on a thread of its own, for [`run`].
//!
//! The crate that uses `unsafe` for io_uring, memory that is shared with the kernel and OpenSSL; the C library does
//! for pointers of C.
#![warn(clippy::undocumented_unsafe_blocks)]
// What nobody may be reading: see `control::log`.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod backend;
mod blk_zone;
pub mod control;
pub mod doctor;
pub mod frontend;
mod jobs;
mod memory;
pub mod poll;
pub mod secrets;
pub mod tls;
mod unix_socket;
pub mod uuid;
pub mod web;

pub use jobs::{JobThread, allowed_cpus, run};
pub use memory::return_freed_buffers;

use quanta::{Clock as Counter, Instant};
use zonal_blk::{Clock, Nanos};

/// Called with messages for the user.
pub type Notify = std::sync::Arc<dyn Fn(&str) + Send + Sync>;

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
