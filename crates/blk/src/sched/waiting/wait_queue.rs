//! Requests that wait in the order of their sectors and in the order of their arrival.
use super::{Fifo, Key, Sorted, Store};
use crate::request::Request;
use crate::sched::merge::MergeLimit;
use crate::units::Nanos;

/// Both orders over the same requests.
#[derive(Default)]
pub(in crate::sched) struct WaitQueue {
    sorted: Sorted,
    fifo: Fifo,
    len: usize,
}

/// A command taken from a line.
pub(in crate::sched) struct TakenCommand {
    pub(in crate::sched) request: Box<Request>,
    /// Requests that go out merged behind it.
    pub(in crate::sched) merged: usize,
    /// First sector of the last of them.
    pub(in crate::sched) last: u64,
}

impl WaitQueue {
    pub(in crate::sched) fn len(&self) -> usize {
        self.len
    }

    pub(in crate::sched) fn insert(&mut self, store: &mut Store, request: Box<Request>) {
        let key = store.insert(request);
        self.sorted.push(key);
        self.fifo.push(key, store, self.len);
        self.len += 1;
    }

    /// The order of sectors, to search.
    pub(in crate::sched) fn sorted(&mut self) -> &mut Sorted {
        &mut self.sorted
    }

    /// Both orders, to search.
    pub(in crate::sched) fn orders(&mut self) -> (&mut Sorted, &mut Fifo) {
        (&mut self.sorted, &mut self.fifo)
    }

    /// The request that came first.
    pub(in crate::sched) fn oldest(&mut self, store: &Store) -> Option<Key> {
        self.fifo.oldest(store, self.len)
    }

    /// When the request came that came first.
    pub(in crate::sched) fn oldest_queued_at(&mut self, store: &Store) -> Option<Nanos> {
        let key = self.oldest(store)?;
        Some(store.get(key).queued_at())
    }

    /// Takes a request out, with its neighbours that can go out in one command with it.
    pub(in crate::sched) fn take(
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
            // Back to the end of what is merged, for what follows it.
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
