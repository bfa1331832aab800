//! The events traced, in memory, up to a limit that all of them share.
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use zonal_blk::{Bytes, Nanos, TraceEvent, TraceSink, TraceSource, Tracer};

/// Entries for which a log takes room at a time.
const CHUNK: usize = 256;

/// The memory that all logs of a trace share.
pub(super) struct Budget {
    /// Bytes that are left.
    room: AtomicU64,
    /// When the first entry was lost, in nanoseconds; `u64::MAX` if none was.
    full_at: AtomicU64,
}

impl Budget {
    pub(super) fn new(limit: Bytes) -> Self {
        Budget { room: AtomicU64::new(limit.0), full_at: AtomicU64::new(u64::MAX) }
    }

    /// Takes room for a chunk of entries of this size.
    fn take(&self, size: usize) -> bool {
        let bytes = (CHUNK * size) as u64;
        let take = |room: u64| room.checked_sub(bytes);
        self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    /// When the first entry was lost.
    pub(super) fn full_at(&self) -> Option<Nanos> {
        let at = self.full_at.load(Ordering::Relaxed);
        (at != u64::MAX).then_some(Nanos(at))
    }
}

/// Entries of one source. Only one thread adds some at a time, so the lock is free then.
pub(super) struct Log<T> {
    budget: Arc<Budget>,
    entries: Mutex<Vec<T>>,
}

impl<T: Copy> Log<T> {
    pub(super) fn new(budget: &Arc<Budget>) -> Self {
        Log { budget: Arc::clone(budget), entries: Mutex::default() }
    }

    /// Adds what happened at a time, if there is room.
    pub(super) fn add(&self, at: Nanos, entry: T) {
        let mut entries = locked(&self.entries);
        if entries.len().is_multiple_of(CHUNK) && !self.budget.take(size_of::<T>()) {
            self.budget.full_at.fetch_min(at.0, Ordering::Relaxed);
            return;
        }
        entries.push(entry);
    }

    pub(super) fn entries(&self) -> Vec<T> {
        locked(&self.entries).clone()
    }
}

/// Collects the events of a queue.
pub(super) struct Collector {
    budget: Arc<Budget>,
    sources: Mutex<Vec<(TraceSource, Arc<Log<TraceEvent>>)>>,
}

struct Sink(Arc<Log<TraceEvent>>);

impl TraceSink for Sink {
    fn event(&mut self, event: &TraceEvent) {
        self.0.add(event.at, *event);
    }
}

impl Collector {
    pub(super) fn new(budget: &Arc<Budget>) -> Self {
        Collector { budget: Arc::clone(budget), sources: Mutex::default() }
    }

    /// All events so far, with their sources, each source's in order.
    pub(super) fn events(&self) -> Vec<(TraceSource, TraceEvent)> {
        let mut all = Vec::new();
        for (source, log) in locked(&self.sources).iter() {
            all.extend(locked(&log.entries).iter().map(|event| (*source, *event)));
        }
        all
    }
}

impl Tracer for Collector {
    fn open(&self, source: TraceSource) -> Box<dyn TraceSink> {
        let log = Arc::new(Log::new(&self.budget));
        locked(&self.sources).push((source, Arc::clone(&log)));
        Box::new(Sink(log))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread panics while it traces")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_share_the_limit_and_say_when_the_first_entry_was_lost() {
        let budget = Arc::new(Budget::new(Bytes(2 * CHUNK as u64 * 8)));
        let (times, others) = (Log::<u64>::new(&budget), Log::<u64>::new(&budget));
        for at in 0..=CHUNK as u64 {
            times.add(Nanos(at), at);
        }
        assert_eq!((times.entries().len(), budget.full_at()), (CHUNK + 1, None));
        others.add(Nanos(1000), 0);
        others.add(Nanos(900), 0);
        assert_eq!((others.entries(), budget.full_at()), (vec![], Some(Nanos(900))));
    }
}
