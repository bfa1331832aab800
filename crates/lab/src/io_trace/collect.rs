//! Events in memory, up to a limit.
use super::HeadEntry;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use zonal_blk::{Bytes, Nanos, TraceEvent, TraceSink, TraceSource, Tracer};

/// Events for which a sink takes room at a time.
const CHUNK: u64 = 256;

/// Collects the events of a queue.
pub(super) struct Collector {
    budget: Arc<Budget>,
    sources: Mutex<Vec<(TraceSource, Events)>>,
}

/// The events of one source. Only its thread adds some while jobs run, so the lock is free then.
type Events = Arc<Mutex<Vec<TraceEvent>>>;

/// The memory that all sources share.
struct Budget {
    /// Events for which there is room.
    room: AtomicU64,
    /// When the first event was lost, in nanoseconds; `u64::MAX` if none was.
    full_at: AtomicU64,
}

impl Budget {
    /// Takes room for a chunk of events.
    fn take(&self) -> bool {
        let taken = self
            .room
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |room| room.checked_sub(CHUNK));
        taken.is_ok()
    }
}

struct Sink {
    budget: Arc<Budget>,
    events: Events,
    /// Events for which room was taken.
    room: u64,
}

impl TraceSink for Sink {
    fn event(&mut self, event: &TraceEvent) {
        if self.room == 0 {
            if !self.budget.take() {
                self.budget.full_at.fetch_min(event.at.0, Ordering::Relaxed);
                return;
            }
            self.room = CHUNK;
        }
        self.room -= 1;
        locked(&self.events).push(*event);
    }
}

impl Collector {
    pub(super) fn new(limit: Bytes) -> Self {
        let room = limit.0 / size_of::<TraceEvent>() as u64;
        let budget = Budget { room: AtomicU64::new(room), full_at: AtomicU64::new(u64::MAX) };
        Collector { budget: Arc::new(budget), sources: Mutex::default() }
    }

    /// All events so far, with their sources, each source's in order.
    pub(super) fn events(&self) -> Vec<(TraceSource, TraceEvent)> {
        let mut all = Vec::new();
        for (source, events) in locked(&self.sources).iter() {
            all.extend(locked(events).iter().map(|event| (*source, *event)));
        }
        all
    }

    /// When the first event was lost.
    pub(super) fn full_at(&self) -> Option<Nanos> {
        let at = self.budget.full_at.load(Ordering::Relaxed);
        (at != u64::MAX).then_some(Nanos(at))
    }
}

impl Tracer for Collector {
    fn open(&self, source: TraceSource) -> Box<dyn TraceSink> {
        let events = Events::default();
        locked(&self.sources).push((source, Arc::clone(&events)));
        Box::new(Sink { budget: Arc::clone(&self.budget), events, room: 0 })
    }
}

/// The activities of a disk's head, up to a limit.
pub(super) struct HeadLog {
    most: usize,
    entries: Mutex<Vec<HeadEntry>>,
}

impl HeadLog {
    pub(super) fn new(limit: Bytes) -> Self {
        let most = usize::try_from(limit.0).unwrap_or(usize::MAX) / size_of::<HeadEntry>();
        HeadLog { most, entries: Mutex::default() }
    }

    pub(super) fn add(&self, entry: &HeadEntry) {
        let mut entries = locked(&self.entries);
        if entries.len() < self.most {
            entries.push(*entry);
        }
    }

    pub(super) fn entries(&self) -> Vec<HeadEntry> {
        locked(&self.entries).clone()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread panics while it traces")
}
