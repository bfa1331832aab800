//! Waiting requests, ordered by sector and by arrival.
//!
//! Finds the first waiting request at or after a sector, and the oldest. Requests live in
//! [`Store`]; the orders hold [`Key`]s. Nothing is allocated once the tables have grown to the
//! deepest queue.
//!
//! ```text
//!   insert --> Store[slot]                      the request itself
//!          --> Sorted.fresh  --sort when asked--> runs, each sorted, sizes falling by half
//!          --> Fifo                             (slot, seq), stale entries skipped when they are met
//! ```
//!
//! Inserting is three appends. Sorting waits for the first dispatch after it, so a batch is sorted
//! as a batch. Runs are merged as a binary counter counts, so that each key moves O(log n) times
//! and a search looks at O(log n) runs.
mod sorted;

use super::elevator::MergeLimit;
use crate::request::Request;
use crate::slab::Slab;
use crate::units::Nanos;
pub(super) use sorted::Sorted;
use std::collections::VecDeque;

/// A waiting request's place in the order of sectors: its sector, then its arrival, then its slot.
/// One integer, so that sorting does not branch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(u128);

impl Key {
    fn new(sector: u64, seq: u32, slot: u32) -> Self {
        Key(u128::from(sector) << 64 | u128::from(seq) << 32 | u128::from(slot))
    }

    /// Comes before all requests that begin at `sector` or later.
    fn floor(sector: u64) -> Self {
        Key(u128::from(sector) << 64)
    }

    #[allow(clippy::cast_possible_truncation)] // the sector is the upper half
    pub(super) fn sector(self) -> u64 {
        (self.0 >> 64) as u64
    }

    #[allow(clippy::cast_possible_truncation)] // the parts of the lower half
    fn seq(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[allow(clippy::cast_possible_truncation)] // the parts of the lower half
    fn slot(self) -> u32 {
        self.0 as u32
    }
}

struct Entry {
    request: Box<Request>,
    /// Distinguishes the keys of this request from those of an earlier one in the slot.
    seq: u32,
}

/// The waiting requests, each in a slot of its own.
#[derive(Default)]
pub(super) struct Store {
    entries: Slab<Entry>,
    next_seq: u32,
}

impl Store {
    pub(super) fn insert(&mut self, request: Box<Request>) -> Key {
        let seq = self.next_seq;
        self.next_seq = seq.wrapping_add(1);
        let sector = request.sector().0;
        let slot = self.entries.insert(Entry { request, seq });
        Key::new(sector, seq, u32::try_from(slot).expect("fewer than 2^32 requests wait"))
    }

    pub(super) fn remove(&mut self, key: Key) -> Box<Request> {
        let entry = self.entries.remove(key.slot() as usize).expect("a key leads to a request");
        debug_assert_eq!(entry.seq, key.seq(), "the key is of the request that waits");
        entry.request
    }

    /// The request of a key.
    pub(super) fn get(&self, key: Key) -> &Request {
        &self.entries[key.slot() as usize].request
    }

    /// The key of what waits in `slot`, if it is still the request of `seq`.
    fn find(&self, slot: u32, seq: u32) -> Option<Key> {
        let entry = self.entries.get(slot as usize).filter(|entry| entry.seq == seq)?;
        Some(Key::new(entry.request.sector().0, seq, slot))
    }
}

/// The order of arrival. Requests leave it by leaving the [`Store`]; the stale entries are skipped
/// when they are met.
#[derive(Default)]
pub(super) struct Fifo {
    /// Slot and sequence number.
    arrivals: VecDeque<(u32, u32)>,
}

impl Fifo {
    /// Adds a request after the `live` ones that wait.
    pub(super) fn push(&mut self, key: Key, store: &Store, live: usize) {
        self.compact(store, live);
        self.arrivals.push_back((key.slot(), key.seq()));
    }

    /// The oldest request of the `live` ones that wait here.
    pub(super) fn oldest(&mut self, store: &Store, live: usize) -> Option<Key> {
        if live == 0 {
            return None;
        }
        while let Some(&(slot, seq)) = self.arrivals.front() {
            if let Some(key) = store.find(slot, seq) {
                return Some(key);
            }
            self.arrivals.pop_front();
        }
        None
    }

    /// The oldest request that `fits`, of the `live` ones that wait here.
    pub(super) fn oldest_that(
        &mut self,
        store: &Store,
        live: usize,
        mut fits: impl FnMut(Key) -> bool,
    ) -> Option<Key> {
        self.compact(store, live);
        let waiting = self.arrivals.iter();
        waiting.filter_map(|&(slot, seq)| store.find(slot, seq)).find(|&key| fits(key))
    }

    /// A request that stays at the front keeps the stale entries after it: drop them when they are
    /// the greater part.
    fn compact(&mut self, store: &Store, live: usize) {
        if live == 0 {
            self.arrivals.clear();
        } else if self.arrivals.len() > 2 * live + 64 {
            self.arrivals.retain(|&(slot, seq)| store.find(slot, seq).is_some());
        }
    }
}

/// Both orders over the same requests.
#[derive(Default)]
pub(super) struct WaitQueue {
    sorted: Sorted,
    fifo: Fifo,
    len: usize,
}

/// A command to dispatch.
pub(super) struct TakenCommand {
    pub(super) request: Box<Request>,
    /// Requests merged after it.
    pub(super) merged: usize,
    /// First sector of the last of them.
    pub(super) last: u64,
}

impl WaitQueue {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn insert(&mut self, store: &mut Store, request: Box<Request>) {
        let key = store.insert(request);
        self.sorted.push(key);
        self.fifo.push(key, store, self.len);
        self.len += 1;
    }

    /// The order of sectors, to search.
    pub(super) fn sorted(&mut self) -> &mut Sorted {
        &mut self.sorted
    }

    /// Both orders, to search.
    pub(super) fn orders(&mut self) -> (&mut Sorted, &mut Fifo) {
        (&mut self.sorted, &mut self.fifo)
    }

    /// The oldest request.
    pub(super) fn oldest(&mut self, store: &Store) -> Option<Key> {
        self.fifo.oldest(store, self.len)
    }

    /// When the oldest request was queued.
    pub(super) fn oldest_queued_at(&mut self, store: &Store) -> Option<Nanos> {
        let key = self.oldest(store)?;
        Some(store.get(key).queued_at())
    }

    /// Removes a request, with the neighbours that can be merged with it into one command.
    pub(super) fn take(
        &mut self,
        store: &mut Store,
        key: Key,
        limit: MergeLimit,
        front_merges: bool,
    ) -> TakenCommand {
        let request = self.remove(store, key);
        let mut taken = TakenCommand { request, merged: 0, last: key.sector() };
        if limit.max_sectors > 0 && self.len > 0 {
            if front_merges {
                self.merge_front(store, limit, &mut taken);
            }
            self.merge_back(store, limit, &mut taken);
        }
        taken
    }

    fn merge_front(&mut self, store: &mut Store, limit: MergeLimit, taken: &mut TakenCommand) {
        while let Some(before) = self.sorted.before()
            && limit.reaches(before.sector(), taken.request.sector().0)
            && limit.joins(store.get(before), &taken.request)
        {
            let front = self.remove(store, before);
            let behind = std::mem::replace(&mut taken.request, front);
            taken.request.append(behind);
            taken.merged += 1;
        }
        if taken.merged > 0 {
            // Back to the last merged request, for those that follow it.
            self.sorted.at_or_after(taken.last);
        }
    }

    fn merge_back(&mut self, store: &mut Store, limit: MergeLimit, taken: &mut TakenCommand) {
        while let Some(behind) = self.sorted.head()
            && behind.sector() == taken.request.end().0
            && limit.joins(&taken.request, store.get(behind))
        {
            taken.last = behind.sector();
            let behind = self.remove(store, behind);
            taken.request.append(behind);
            taken.merged += 1;
        }
    }

    fn remove(&mut self, store: &mut Store, key: Key) -> Box<Request> {
        self.sorted.take(key);
        self.len -= 1;
        store.remove(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bio::Bio;
    use crate::op::Op;
    use crate::request::Request;
    use crate::units::{Sector, ZoneNo};

    fn request(sector: u64) -> Box<Request> {
        let mut request = Box::new(Request::empty());
        request.init(Bio::new(Op::Write, Sector(sector), 8, 0), 0, ZoneNo(0), None);
        request
    }

    /// Zone write locking asks for the oldest write of an unlocked zone before each dispatch; as
    /// long as one write waited, the stale entries were searched each time.
    #[test]
    fn requests_that_left_do_not_pile_up_behind_a_search() {
        let (mut store, mut fifo) = (Store::default(), Fifo::default());
        for sector in 0..10_000 {
            let key = store.insert(request(sector));
            fifo.push(key, &store, 1);
            let found = fifo.oldest_that(&store, 1, |key| key.sector() == sector);
            store.remove(found.expect("it waits")).take_bio();
        }
        assert!(fifo.arrivals.len() <= 128, "{} entries for no request", fifo.arrivals.len());
    }
}
