//! The entry of a scheduler in the table of `scheduler.rs`.
use super::dispatcher::BypassPolicy;
use super::elevator::{Elevator, MergeLimit};
use super::zone_locks::ZoneLocks;
use crate::limits::Limits;

/// The options of a registered scheduler, which start it.
pub(super) trait Registered: Copy + Default {
    /// Whether the scheduler can hold back the writes of a zone that has one in flight.
    const LOCKS_ZONES: bool = false;

    /// The scheduler, in which nothing waits.
    fn start(self, setup: Setup<'_>) -> Started;
}

/// The queue that a scheduler is for.
pub(super) struct Setup<'a> {
    pub limits: &'a Limits,
    pub limit: MergeLimit,
    /// With these it keeps to one write per sequential zone.
    pub zones: Option<ZoneLocks>,
}

/// A scheduler that is to be used by a dispatcher.
pub(super) struct Started {
    pub elevator: Box<dyn Elevator>,
    /// Whether batches may be sorted before they reach the scheduler: its order is then that of sectors.
    pub sorts: bool,
    pub front_merges: bool,
    pub bypass: BypassPolicy,
}

impl Started {
    /// A scheduler that sorts and merges, and that no request bypasses.
    pub fn new(elevator: impl Elevator + 'static) -> Self {
        let bypass = BypassPolicy::default();
        Started { elevator: Box::new(elevator), sorts: true, front_merges: true, bypass }
    }
}
