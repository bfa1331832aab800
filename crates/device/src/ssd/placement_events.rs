//! Events of flexible data placement: which are recorded, and the last ones.
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use zonal_blk::{PlacementEvent, PlacementEventType};

/// Events that are kept, of the host and of the device each: as many as the log page has.
const MAX_EVENTS: usize = 63;

/// The last events, and which are recorded.
#[derive(Debug, Default)]
pub(super) struct Events {
    log: VecDeque<PlacementEvent>,
    /// By type, all that happened, recorded or not.
    counts: BTreeMap<PlacementEventType, u64>,
    /// Types by placement handle.
    recorded: BTreeSet<(u16, PlacementEventType)>,
}

impl Events {
    pub(super) fn records(&self, handle: u16, kind: PlacementEventType) -> bool {
        self.recorded.contains(&(handle, kind))
    }

    pub(super) fn record(&mut self, handle: u16, kind: PlacementEventType, on: bool) {
        match on {
            true => self.recorded.insert((handle, kind)),
            false => self.recorded.remove(&(handle, kind)),
        };
    }

    /// How many events of a type there were, recorded or not.
    pub(super) fn count(&self, kind: PlacementEventType) -> u64 {
        self.counts.get(&kind).copied().unwrap_or(0)
    }

    /// An event, which is recorded if that is wanted.
    pub(super) fn add(&mut self, event: PlacementEvent) {
        *self.counts.entry(event.kind).or_default() += 1;
        if !self.records(event.handle, event.kind) {
            return;
        }
        let alike = |other: &PlacementEvent| other.kind.is_of_host() == event.kind.is_of_host();
        if self.log.iter().filter(|other| alike(other)).count() == MAX_EVENTS {
            let oldest = self.log.iter().position(alike).expect("there are some");
            self.log.remove(oldest);
        }
        self.log.push_back(event);
    }

    pub(super) fn all(&self) -> Vec<PlacementEvent> {
        self.log.iter().copied().collect()
    }
}
