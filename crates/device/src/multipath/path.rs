//! The paths of a device, and which of them a command takes. Names and meanings of policies are those of
//! Linux (`iopolicy`; drivers/nvme/host/multipath.c, 6.12).
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use zonal_blk::Device;

/// Whether commands can be sent over a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathState {
    /// They can.
    Live,
    /// They can, but should not while another path is live: there it is farther to the device (NVMe:
    /// ANA state non-optimized).
    NonOptimized,
    /// The transport is connected, and the device cannot be reached over it now (NVMe: ANA states
    /// inaccessible and change).
    Inaccessible,
    /// They cannot now, and may later.
    Connecting,
    /// They never will again.
    Gone,
}

impl PathState {
    /// The states in which commands can be sent, the best first.
    pub(super) const USABLE: [PathState; 2] = [PathState::Live, PathState::NonOptimized];

    /// Whether commands can be sent.
    #[inline]
    pub fn is_usable(self) -> bool {
        PathState::USABLE.contains(&self)
    }
}

/// A path to a device.
///
/// Its hardware queues survive the loss of the transport: commands in flight complete with
/// [`Status::Transport`](zonal_blk::Status::Transport) or
/// [`Status::Timeout`](zonal_blk::Status::Timeout) after the state has ceased to be usable, and commands
/// started while it is not connected are handed back without effect. One that is started while it is
/// inaccessible may fail with [`Status::Transport`](zonal_blk::Status::Transport).
pub trait Path: Device {
    /// The current state.
    fn state(&self) -> PathState;

    /// Its name in reports.
    fn name(&self) -> String;
}

/// A path and its counter. Every thread writes it, so it has its own cache line.
#[repr(align(64))]
pub(super) struct Slot {
    pub path: Arc<dyn Path>,
    /// Commands in flight, counted only for [`IoPolicy::QueueDepth`].
    pub active: AtomicU32,
}

/// How the path of a command is chosen: among the live ones, or if there are none among the others that
/// can be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoPolicy {
    /// The nearest. Network paths are all equally near, so here it is the first in the order given.
    #[default]
    Numa,
    /// In turn, per hardware queue.
    RoundRobin,
    /// The one with the fewest commands in flight over all hardware queues; the first if several.
    QueueDepth,
}

/// Not the name of a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("found `{0}`, expected numa, round-robin or queue-depth{hint}", hint = zonal_blk::did_you_mean(.0, ["numa", "round-robin", "queue-depth"]))]
pub struct ParsePolicyError(String);

impl FromStr for IoPolicy {
    type Err = ParsePolicyError;

    fn from_str(name: &str) -> Result<Self, ParsePolicyError> {
        match name {
            "numa" => Ok(IoPolicy::Numa),
            "round-robin" => Ok(IoPolicy::RoundRobin),
            "queue-depth" => Ok(IoPolicy::QueueDepth),
            _ => Err(ParsePolicyError(name.to_owned())),
        }
    }
}

impl fmt::Display for IoPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            IoPolicy::Numa => "numa",
            IoPolicy::RoundRobin => "round-robin",
            IoPolicy::QueueDepth => "queue-depth",
        })
    }
}

/// A set of paths, one bit each.
pub(super) type PathSet = u16;

impl IoPolicy {
    /// The path of the next command, not in `avoid`; `None` if no other can be used.
    #[inline]
    pub(super) fn choose(self, slots: &[Slot], last: usize, avoid: PathSet) -> Option<usize> {
        PathState::USABLE.into_iter().find_map(|state| self.among(slots, last, avoid, state))
    }

    /// The path of the next command among those in `state`.
    #[inline]
    fn among(self, slots: &[Slot], last: usize, avoid: PathSet, state: PathState) -> Option<usize> {
        let usable = |&at: &usize| avoid & 1 << at == 0 && slots[at].path.state() == state;
        match self {
            IoPolicy::Numa => (0..slots.len()).find(usable),
            IoPolicy::RoundRobin => (last + 1..slots.len()).chain(0..=last).find(usable),
            IoPolicy::QueueDepth => (0..slots.len())
                .filter(usable)
                .min_by_key(|&at| slots[at].active.load(Ordering::Relaxed)),
        }
    }
}
