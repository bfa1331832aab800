//! A device that is reached over several paths.
//!
//! Takes requests through its hardware queues; gives each to one of its paths, and to another if
//! that one fails. Keeps true: every request comes back once; a write to a sequential zone is done
//! once and in the order of the zone, whatever paths fail and come back; no request waits longer
//! for a path than it is held ([`MultipathConfig::hold`]).
//!
//! ```text
//!   start --> policy   which of the paths that are live              IoPolicy
//!         --> zones    writes of a zone that are in flight together  ZoneTable
//!             |        take one path; if the zone recovers, in line
//!             v
//!           path  . . . its transport fails: was the command done?
//!             |                     |
//!             v                     v
//!           done        line        in the order of the zone, one at a time: a zone report
//!                                   over a live path tells                       verdict
//! ```
//!
//! # A command whose response was lost
//!
//! Nobody knows whether the device did it. What follows depends on what it would do twice:
//!
//! - Reads and flushes change nothing: sent again at once.
//! - **A write to a sequential zone** cannot be sent again blindly: done twice, the second is not at
//!   the write pointer and fails, although the data are there. The zone report decides. The pointer
//!   is at or behind the end of the write: it was done, for nobody else writes there. It is not
//!   beyond the beginning: it was not, and is sent. Anything between is an I/O error.
//! - **A zone append** has no place of its own, so that a second one would succeed too. It is sent
//!   again only if the report proves that it was not done: if the pointer is where the appends and
//!   writes whose end is known have brought it. Else it ends with [`Status::Transport`], also if the
//!   pointer moved by just its length, since that does not say where its data lie among others.
//! - Zone management leads to the same state however often it is done, and writes elsewhere leave
//!   the same data: sent again.
//!
//! # A command that is still under way
//!
//! What the host has given up may lie in a buffer of the target and be done later. For a write to a
//! sequential zone that is harmless: of it and its repetition the write pointer lets one pass, and
//! the other is found out by a second report. Everything else waits for
//! [`MultipathConfig::quiesce`] before it is repeated, and so does a zone's management after a write
//! of it was lost: a reset must not come between a write and its repetition. NVMe leaves that time
//! to host and controller (Base 2.1 section 9.6, communication loss handling; Command Quiesce Time);
//! Linux 6.12 does not wait.
//!
//! The device has one writer, this one: who writes its zones past it makes reports say other things.
mod held;
mod limits;
mod policy;
mod queue;
mod reconnect;
mod recovery_queue;
mod verdict;
mod zones;

use crate::control::{DeviceControl, DeviceStats};
pub use limits::{LimitError, check_compatible};
pub use policy::{IoPolicy, ParsePolicyError};
use queue::MultipathQueue;
pub use reconnect::{Reconnect, ReconnectAction, ReconnectConfig};
use recovery_queue::RecoveryQueue;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use zonal_blk::{Device, HwQueue, Limits, Nanos, Status, Zone, ZoneNo};
use zones::ZoneTable;

/// The most paths of a device.
pub const MAX_PATHS: usize = 16;

/// Whether commands can be sent over a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathState {
    /// They can.
    Live,
    /// They cannot, and may again.
    Connecting,
    /// They never will again.
    Gone,
}

/// A way to a device.
///
/// Its hardware queues outlive the loss of its transport: what is in flight then comes back with
/// [`Status::Transport`] or [`Status::Timeout`], after the state has ceased to be live, and what is
/// started while it is not live is handed back and has no effect.
pub trait Path: Device {
    /// Whether commands can be sent now.
    fn state(&self) -> PathState;

    /// What it is called in reports.
    fn name(&self) -> String;
}

/// How the paths are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MultipathConfig {
    /// Which path a command takes.
    pub policy: IoPolicy,
    /// How long a command is held for a path; `None` for ever.
    pub hold: Option<Nanos>,
    /// How long a path's commands may be done after it failed.
    pub quiesce: Nanos,
}

/// Paths that do not make a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MultipathError {
    /// None, or too many.
    #[error("found {0} paths, expected 1 to {MAX_PATHS}")]
    Count(usize),
    /// They lead to different devices.
    #[error("path {path}: {source}")]
    Limits {
        /// The path that differs from the first.
        path: String,
        /// In what.
        source: LimitError,
    },
    /// The zones cannot be had.
    #[error("zone report: {0}")]
    Report(Status),
}

/// A path with what is counted of it. Written by every thread, so in a line of its own.
#[repr(align(64))]
struct Slot {
    path: Arc<dyn Path>,
    /// Commands in flight; counted for the policy that goes by it.
    active: AtomicU32,
}

/// How often things happened that are no everyday matter.
#[derive(Default)]
struct Counters {
    path_errors: AtomicU64,
    resent: AtomicU64,
    found_done: AtomicU64,
    in_doubt: AtomicU64,
    no_path: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// A device that is reached over several paths.
pub struct MultipathDevice {
    limits: Limits,
    config: MultipathConfig,
    slots: Box<[Slot]>,
    zones: ZoneTable,
    line: Mutex<RecoveryQueue>,
    counters: Counters,
}

impl MultipathDevice {
    /// A device of `paths`, at least one of them live. Its limits are the strictest of theirs.
    ///
    /// # Errors
    /// Why they do not make a device.
    pub fn new(
        paths: Vec<Arc<dyn Path>>,
        config: MultipathConfig,
    ) -> Result<Arc<Self>, MultipathError> {
        if !(1..=MAX_PATHS).contains(&paths.len()) {
            return Err(MultipathError::Count(paths.len()));
        }
        let mut limits = paths[0].limits().clone();
        for path in &paths[1..] {
            let fits = limits::stack_limits(&mut limits, path.limits());
            fits.map_err(|source| MultipathError::Limits { path: path.name(), source })?;
        }
        let slot = |path| Slot { path, active: AtomicU32::new(0) };
        let mut device = MultipathDevice {
            zones: ZoneTable::new(&[]),
            limits,
            config,
            slots: paths.into_iter().map(slot).collect(),
            line: Mutex::default(),
            counters: Counters::default(),
        };
        if device.limits.nr_zones > 0 {
            let mut zones = Vec::new();
            device
                .report_zones(ZoneNo(0), usize::MAX, &mut zones)
                .map_err(MultipathError::Report)?;
            device.zones = ZoneTable::new(&zones);
        }
        Ok(Arc::new(device))
    }

    fn line(&self) -> MutexGuard<'_, RecoveryQueue> {
        self.line.lock().expect("a thread died while it held the line")
    }

    /// The paths' states, in order.
    pub fn states(&self) -> impl Iterator<Item = PathState> {
        self.slots.iter().map(|slot| slot.path.state())
    }
}

/// Whether a path answered so because it failed, and not because of the command.
fn is_path_error(status: Status) -> bool {
    matches!(status, Status::Transport | Status::Timeout)
}

impl Device for MultipathDevice {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Asks the live paths, in order, until one answers.
    fn report_zones(&self, first: ZoneNo, max: usize, zones: &mut Vec<Zone>) -> Result<(), Status> {
        let before = zones.len();
        for slot in self.slots.iter().filter(|slot| slot.path.state() == PathState::Live) {
            match slot.path.report_zones(first, max, zones) {
                Err(status) if is_path_error(status) => zones.truncate(before),
                answer => return answer,
            }
        }
        Err(Status::Transport)
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        Box::new(MultipathQueue::open(self))
    }
}

impl DeviceControl for MultipathDevice {
    fn characteristics(&self) -> Vec<(&'static str, String)> {
        let names: Vec<String> = self.slots.iter().map(|slot| slot.path.name()).collect();
        vec![("paths", names.join(" ")), ("iopolicy", self.config.policy.to_string())]
    }

    fn stats(&self) -> DeviceStats {
        let Counters { path_errors, resent, found_done, in_doubt, no_path } = &self.counters;
        let counts = [
            ("path_errors", path_errors),
            ("resent", resent),
            ("found_done", found_done),
            ("in_doubt", in_doubt),
            ("no_path", no_path),
        ];
        let counts = counts.map(|(name, counter)| (name, counter.load(Ordering::Relaxed)));
        DeviceStats { counts: counts.to_vec(), times: Vec::new() }
    }
}
