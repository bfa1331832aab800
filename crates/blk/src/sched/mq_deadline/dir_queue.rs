//! The waiting requests of one priority class and direction.
use super::ZoneLocks;
use crate::probe::mark;
use crate::request::Request;
use crate::sched::elevator::MergeLimit;
use crate::sched::waiting::{Key, Sorted, Store, WaitQueue};
use crate::units::{Nanos, Sector};

/// One elevator: requests in the order of sectors and in the order of arrival.
#[derive(Default)]
pub(super) struct DirQueue {
    requests: WaitQueue,
    /// The position of the elevator: the first sector of the bio that was dispatched last.
    latest_pos: u64,
}

impl DirQueue {
    pub(super) fn insert(&mut self, store: &mut Store, request: Box<Request>) {
        self.requests.insert(store, request);
    }

    /// The next request in ascending order of sectors.
    pub(super) fn next(&mut self, store: &Store, zones: Option<&ZoneLocks>) -> Option<Key> {
        if self.requests.len() == 0 {
            return None;
        }
        let key = self.requests.sorted().at_or_after(self.latest_pos)?;
        let Some(zones) = zones else {
            return Some(key);
        };
        let key = self.skip_locked(store, zones, key)?;
        Some(first_of_zone(self.requests.sorted(), zones, key))
    }

    /// The oldest request.
    pub(super) fn oldest(&mut self, store: &Store, zones: Option<&ZoneLocks>) -> Option<Key> {
        match zones {
            None => self.requests.oldest(store),
            Some(_) if self.requests.len() == 0 => None,
            Some(zones) => {
                let live = self.requests.len();
                let (sorted, fifo) = self.requests.orders();
                let key = fifo.oldest_that(store, live, |key| {
                    let first = first_of_zone(sorted, zones, key);
                    let held = zones.is_locked(Sector(key.sector()))
                        || zones.keep_streams() && follows_another(sorted, store, first);
                    !held
                })?;
                Some(first_of_zone(sorted, zones, key))
            }
        }
    }

    /// When the oldest request was queued.
    pub(super) fn oldest_queued_at(&mut self, store: &Store) -> Option<Nanos> {
        self.requests.oldest_queued_at(store)
    }

    /// Removes a request, with those that can be merged with it into one command. Returns the
    /// number of the latter.
    pub(super) fn take(
        &mut self,
        store: &mut Store,
        key: Key,
        limit: MergeLimit,
        front_merges: bool,
    ) -> (Box<Request>, usize) {
        let taken = self.requests.take(store, key, limit, front_merges);
        self.latest_pos = taken.last;
        (taken.request, taken.merged)
    }

    /// The first request from `key` on whose zone is free. On a rotating disk, requests that follow
    /// the writes of a locked zone without a gap are skipped too: they are one stream, and the head
    /// would have to go back for its beginning.
    fn skip_locked(&mut self, store: &Store, zones: &ZoneLocks, mut key: Key) -> Option<Key> {
        while zones.is_locked(Sector(key.sector())) {
            mark!(ZoneLockWaited if true);
            let mut from = zones.zone_end(Sector(key.sector())).0;
            if zones.keep_streams() {
                let mut end = store.get(key).end().0;
                while let Some(next) = self.requests.sorted().at_or_after(end)
                    && next.sector() == end
                {
                    end = store.get(next).end().0;
                }
                from = from.max(end);
            }
            key = self.requests.sorted().at_or_after(from)?;
        }
        Some(key)
    }
}

/// A sequential zone is written from its lowest waiting sector, whichever request was found.
fn first_of_zone(sorted: &mut Sorted, zones: &ZoneLocks, key: Key) -> Key {
    let sector = Sector(key.sector());
    if zones.is_sequential(sector) {
        let first = sorted.at_or_after(zones.zone_start(sector).0);
        first.expect("there is a request in the zone")
    } else {
        key
    }
}

/// Whether a request begins where the one before it ends.
fn follows_another(sorted: &mut Sorted, store: &Store, key: Key) -> bool {
    sorted.at_or_after(key.sector());
    let before = sorted.before();
    before.is_some_and(|before| store.get(before).end().0 == key.sector())
}
