//! Which path a command takes.
//!
//! Takes the paths, and which one the last command of the queue took; gives one that is live. The
//! names and what they mean are those of Linux (`iopolicy`; drivers/nvme/host/multipath.c, 6.12).
use super::{PathState, Slot};
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::Ordering;

/// Which of the live paths a command takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoPolicy {
    /// The nearest; of those that are equally near, the first. Paths over a network are all equally
    /// near, so here it is the first that is live, in the order in which they were named.
    #[default]
    Numa,
    /// Each in turn, for each hardware queue.
    RoundRobin,
    /// The one with the fewest commands in flight, of all hardware queues; the first of several.
    QueueDepth,
}

/// A name that is none of a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("found `{0}`, expected numa, round-robin or queue-depth")]
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

/// Paths, one bit for each.
pub(super) type PathSet = u16;

impl IoPolicy {
    /// The path of the next command, none of `avoid`; `None` if no other is live.
    #[inline]
    pub(super) fn choose(self, slots: &[Slot], last: usize, avoid: PathSet) -> Option<usize> {
        let usable =
            |&at: &usize| avoid & 1 << at == 0 && slots[at].path.state() == PathState::Live;
        match self {
            IoPolicy::Numa => (0..slots.len()).find(usable),
            IoPolicy::RoundRobin => (last + 1..slots.len()).chain(0..=last).find(usable),
            IoPolicy::QueueDepth => (0..slots.len())
                .filter(usable)
                .min_by_key(|&at| slots[at].active.load(Ordering::Relaxed)),
        }
    }
}
