//! Multipath: a device that is reached over several paths.
//!
//! A request is sent over one of the paths, and over another if that one fails. Invariants: every
//! request completes once; a write to a sequential zone is executed once and in the order of the
//! zone, whatever paths fail and return; no request waits for a path longer than
//! [`MultipathConfig::hold_timeout`].
//!
//! ```text
//!   start --> path     which of the paths in the best state          IoPolicy
//!         --> zones    writes of a zone in flight together share     ZoneTable
//!             |        one path; in a recovering zone they queue
//!             v
//!           path  . . . its transport fails: was the command executed?
//!             |                     |
//!             v                     v
//!           done        recovery    in the order of the zone, one at a time: a zone report
//!                                   over a live path answers                     Verdict
//! ```
//!
//! # A command whose completion was lost
//!
//! It is unknown whether the device executed it. What to do depends on what a second execution would
//! do:
//!
//! - Reads and flushes change nothing: they are resent immediately.
//! - **A write to a sequential zone** cannot be resent blindly: the second would miss the write
//!   pointer and fail, although the data are there. The zone report decides. If the write pointer is
//!   at or beyond the end of the write, it was executed, since there is no other writer. If it is at
//!   or below the start, the write was not executed and is resent. Anything between is an I/O error.
//! - **A zone append** has no address, so a second one would succeed too. It is resent only if the
//!   report proves that it was not executed: if the write pointer is where all known appends and
//!   writes have left it. Otherwise it fails with [`Status::Transport`], even if the write pointer
//!   advanced by exactly its length, since that does not tell where its data are.
//! - Zone management is idempotent, and writes elsewhere leave the same data: they are resent.
//!
//! # A command that may still execute
//!
//! A command that the host has given up may be in a buffer of the target and execute later. For a
//! write to a sequential zone that is harmless: the write pointer admits either the write or its
//! repetition, and a second report resolves the failure of the other. All other commands wait for
//! [`MultipathConfig::quiesce`] before they are resent, and so does zone management after a lost
//! write to the zone: a reset must not come between a write and its repetition. NVMe leaves that
//! time to host and controller (Base 2.1 section 9.6, communication loss handling; Command Quiesce
//! Time); Linux 6.12 does not wait.
//!
//! The device must have no other writer: zone reports would mislead otherwise.
mod limits;
mod path;
mod queue;
mod reconnect;
mod zones;

use crate::control::{DeviceControl, DeviceStats};
pub use limits::{LimitError, check_compatible};
use path::Slot;
pub use path::{IoPolicy, ParsePolicyError, Path, PathState};
use queue::{MultipathQueue, RecoveryQueue};
pub use reconnect::{Reconnect, ReconnectAction, ReconnectConfig};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use zonal_blk::{Device, HwQueue, Limits, Nanos, ReadBufs, Status, Zone, ZoneNo, ZrwaLimits};
use zones::ZoneTable;

/// Most paths of a device.
pub const MAX_PATHS: usize = 16;

/// How paths are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MultipathConfig {
    /// How the path of a command is chosen.
    pub policy: IoPolicy,
    /// How long a command waits for a path; `None` for ever.
    pub hold_timeout: Option<Nanos>,
    /// How long commands of a failed path may still execute.
    pub quiesce: Nanos,
}

/// Why paths do not form a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MultipathError {
    /// No paths, or too many.
    #[error("found {0} paths, expected 1 to {MAX_PATHS}")]
    Count(usize),
    /// They lead to different devices.
    #[error("path {path}: {source}")]
    Limits {
        /// The path that differs from the first.
        path: String,
        /// The difference.
        source: LimitError,
    },
    /// The zone report failed.
    #[error("zone report: {0}")]
    Report(Status),
}

/// Counters of path failures and their outcomes.
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
    recovery: Mutex<RecoveryQueue>,
    counters: Counters,
}

impl MultipathDevice {
    /// A device over `paths`, at least one of them usable. Its limits are the strictest of theirs.
    ///
    /// # Errors
    /// Why they do not form a device.
    pub fn new(
        paths: Vec<Arc<dyn Path>>,
        config: MultipathConfig,
    ) -> Result<Arc<Self>, MultipathError> {
        if !(1..=MAX_PATHS).contains(&paths.len()) {
            return Err(MultipathError::Count(paths.len()));
        }
        // What became of a lost write without order, no report of its zone can tell.
        let mut limits = Limits { zrwa: ZrwaLimits::NONE, ..paths[0].limits().clone() };
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
            recovery: Mutex::default(),
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

    fn recovery(&self) -> MutexGuard<'_, RecoveryQueue> {
        self.recovery.lock().expect("no thread panics with the recovery queue locked")
    }

    /// The paths' states, in order.
    pub fn states(&self) -> impl Iterator<Item = PathState> {
        self.slots.iter().map(|slot| slot.path.state())
    }
}

/// Whether a status reports a failure of the path rather than of the command.
fn is_path_error(status: Status) -> bool {
    matches!(status, Status::Transport | Status::Timeout)
}

impl Device for MultipathDevice {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Tries the paths that can be used, the best first, until one succeeds.
    fn report_zones(&self, first: ZoneNo, max: usize, zones: &mut Vec<Zone>) -> Result<(), Status> {
        let before = zones.len();
        for state in PathState::USABLE {
            for slot in self.slots.iter().filter(|slot| slot.path.state() == state) {
                match slot.path.report_zones(first, max, zones) {
                    Err(status) if is_path_error(status) => zones.truncate(before),
                    answer => return answer,
                }
            }
        }
        Err(Status::Transport)
    }

    /// The answer that all paths agree on.
    fn read_bufs(&self) -> ReadBufs {
        let first = self.slots[0].path.read_bufs();
        let agree = self.slots.iter().all(|slot| slot.path.read_bufs() == first);
        if agree { first } else { ReadBufs::Unknown }
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
