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
    /// Takes in a request that comes when `live` wait.
    pub(in crate::sched) fn push(&mut self, key: Key, store: &Store, live: usize) {
        self.compact(store, live);
        self.arrivals.push_back((key.slot(), key.seq()));
    }

    /// The oldest request of the `live` ones that wait here.
    pub(in crate::sched) fn oldest(&mut self, store: &Store, live: usize) -> Option<Key> {
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
    pub(in crate::sched) fn oldest_that(
        &mut self,
        store: &Store,
        live: usize,
        mut fits: impl FnMut(Key) -> bool,
    ) -> Option<Key> {
        self.compact(store, live);
        let waiting = self.arrivals.iter();
        waiting.filter_map(|&(slot, seq)| store.find(slot, seq)).find(|&key| fits(key))
    }

    /// A request that is never reached keeps all that came after it: drop the dead when they are
    /// the greater part.
    fn compact(&mut self, store: &Store, live: usize) {
        if live == 0 {
            self.arrivals.clear();
        } else if self.arrivals.len() > 2 * live + 64 {
            self.arrivals.retain(|&(slot, seq)| store.find(slot, seq).is_some());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bio::{Bio, Op};
    use crate::request::Request;
    use crate::units::{Sector, ZoneNo};

    fn request(sector: u64) -> Box<Request> {
        let mut request = Box::new(Request::empty());
        request.init(Bio::new(Op::Write, Sector(sector), 8, 0), 0, ZoneNo(0), None);
        request
    }

    /// Zone write locking asks for the oldest write of a free zone before each that it sends; as
    /// long as one waited, what had left was looked through again each time.
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
