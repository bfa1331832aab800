//! The table of waiting requests.
use super::Key;
use crate::request::Request;

#[derive(Default)]
struct Entry {
    request: Option<Box<Request>>,
    /// Tells a key to this request from one to an earlier request in the same place.
    seq: u32,
}

/// The waiting requests, each in a place of its own.
#[derive(Default)]
pub(in crate::sched) struct Store {
    entries: Vec<Entry>,
    free: Vec<u32>,
    next_seq: u32,
}

impl Store {
    pub(in crate::sched) fn insert(&mut self, request: Box<Request>) -> Key {
        let seq = self.next_seq;
        self.next_seq = seq.wrapping_add(1);
        let sector = request.sector().0;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry::default());
            u32::try_from(self.entries.len() - 1).expect("fewer than 2^32 requests wait")
        });
        self.entries[slot as usize] = Entry { request: Some(request), seq };
        Key::new(sector, seq, slot)
    }

    pub(in crate::sched) fn remove(&mut self, key: Key) -> Box<Request> {
        let entry = &mut self.entries[key.slot() as usize];
        debug_assert_eq!(entry.seq, key.seq(), "the key is of the request that waits");
        self.free.push(key.slot());
        entry.request.take().expect("a key leads to a request")
    }

    /// The request of a key that is in some order.
    pub(in crate::sched) fn get(&self, key: Key) -> &Request {
        let request = self.entries[key.slot() as usize].request.as_deref();
        request.expect("a key leads to a request")
    }

    /// The key of what waits in `slot`, if it is still the request of `seq`.
    pub(super) fn find(&self, slot: u32, seq: u32) -> Option<Key> {
        let entry = &self.entries[slot as usize];
        let request = entry.request.as_deref().filter(|_| entry.seq == seq)?;
        Some(Key::new(request.sector().0, seq, slot))
    }
}
