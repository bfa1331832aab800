//! Waiting requests in the order they came.
use super::{Key, Store};
use std::collections::VecDeque;

/// The order of arrival. Requests leave it by leaving the [`Store`]; what is left of them here is
/// skipped when it is met.
#[derive(Default)]
pub(in crate::sched) struct Fifo {
    /// Slot and sequence number.
    arrivals: VecDeque<(u32, u32)>,
}

impl Fifo {
    pub(in crate::sched) fn push(&mut self, key: Key) {
        self.arrivals.push_back((key.slot(), key.seq()));
    }

    /// The oldest request of the `live` ones that wait here.
    pub(in crate::sched) fn oldest(&mut self, store: &Store, live: usize) -> Option<Key> {
        self.forget_dead(store, live);
        while let Some(&(slot, seq)) = self.arrivals.front() {
            if let Some(key) = store.find(slot, seq) {
                return Some(key);
            }
            self.arrivals.pop_front();
        }
        None
    }

    /// The oldest request that `fits`.
    pub(in crate::sched) fn oldest_that(
        &self,
        store: &Store,
        mut fits: impl FnMut(Key) -> bool,
    ) -> Option<Key> {
        let live = self.arrivals.iter();
        live.filter_map(|&(slot, seq)| store.find(slot, seq)).find(|&key| fits(key))
    }

    /// A request that is never reached keeps all that came after it: drop the dead when they are
    /// the greater part.
    fn forget_dead(&mut self, store: &Store, live: usize) {
        if live == 0 {
            self.arrivals.clear();
        } else if self.arrivals.len() > 2 * live + 64 {
            self.arrivals.retain(|&(slot, seq)| store.find(slot, seq).is_some());
        }
    }
}
