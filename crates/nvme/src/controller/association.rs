//! The state that the queues of one controller share. No I/O takes a lock here.
use super::ERROR_ENTRIES;
use super::async_events::AsyncEvents;
use crate::NvmeStatus;
use crate::ana::Port;
use crate::wire::Sqe;
use crate::wire::log::ErrorEntry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use zonal_blk::WakeUp;

/// A host's connection to a subsystem: a controller and its queues.
pub(super) struct Association {
    pub cntlid: u16,
    pub host_id: [u8; 16],
    pub hostnqn: String,
    /// Where its host has connected; `None` for a function, which has no other path.
    pub port: Option<Arc<Port>>,
    /// The controller is enabled: I/O queues can connect, and take commands.
    ready: AtomicBool,
    /// I/O queues granted to the host.
    granted: AtomicU16,
    /// Limit of `granted`.
    max_queues: AtomicU16,
    /// Counts controller resets and shutdowns, each of which ends the I/O queues.
    resets: AtomicU32,
    /// I/O queues that may still answer commands, those that a reset or shutdown has ended included.
    live_queues: AtomicUsize,
    /// An I/O queue has got a command since this was last asked.
    traffic: AtomicBool,
    /// Commands may have been answered whose data no shutdown has committed.
    uncommitted: AtomicBool,
    /// By identifier, what to wake when the queue has ended.
    queues: Mutex<BTreeMap<u16, Option<Arc<dyn WakeUp>>>>,
    async_events: Mutex<AsyncEvents>,
    /// Wakes the thread of the admin queue.
    waker: Mutex<Option<Arc<dyn WakeUp>>>,
    errors: Mutex<Errors>,
}

#[derive(Debug, Default)]
struct Errors {
    count: u64,
    newest_first: VecDeque<ErrorEntry>,
}

impl Association {
    pub fn new(cntlid: u16, host_id: [u8; 16], hostnqn: String, port: Option<Arc<Port>>) -> Self {
        Association {
            cntlid,
            host_id,
            hostnqn,
            port,
            ready: AtomicBool::new(false),
            granted: AtomicU16::new(super::MAX_IO_QUEUES),
            max_queues: AtomicU16::new(super::MAX_IO_QUEUES),
            resets: AtomicU32::new(0),
            live_queues: AtomicUsize::new(0),
            traffic: AtomicBool::new(false),
            uncommitted: AtomicBool::new(false),
            queues: Mutex::default(),
            async_events: Mutex::default(),
            waker: Mutex::default(),
            errors: Mutex::default(),
        }
    }

    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    pub fn set_ready(&self) {
        self.uncommitted.store(true, Ordering::Relaxed);
        self.ready.store(true, Ordering::Release);
    }

    /// An I/O queue has got a command.
    pub fn note_traffic(&self) {
        // All queues share the cache line: it is written once for each question.
        if !self.traffic.load(Ordering::Relaxed) {
            self.traffic.store(true, Ordering::Relaxed);
        }
    }

    /// Whether an I/O queue has got a command since the last call.
    pub fn take_traffic(&self) -> bool {
        self.traffic.swap(false, Ordering::Relaxed)
    }

    /// A shutdown is complete.
    pub fn set_committed(&self) {
        self.uncommitted.store(false, Ordering::Relaxed);
    }

    /// Whether a loss of power now is an unsafe shutdown.
    pub fn is_uncommitted(&self) -> bool {
        self.uncommitted.load(Ordering::Relaxed)
    }

    pub fn granted(&self) -> u16 {
        self.granted.load(Ordering::Relaxed)
    }

    /// Grants up to `queues` I/O queues.
    pub fn grant(&self, queues: u16) {
        self.granted.store(queues.min(self.max_queues.load(Ordering::Relaxed)), Ordering::Relaxed);
    }

    /// Grants at most `queues` from now on.
    pub fn limit_queues(&self, queues: u16) {
        self.max_queues.fetch_min(queues, Ordering::Relaxed);
        self.granted.fetch_min(queues, Ordering::Relaxed);
    }

    fn queues(&self) -> MutexGuard<'_, BTreeMap<u16, Option<Arc<dyn WakeUp>>>> {
        self.queues.lock().expect("queues lock")
    }

    /// Whether any I/O queue is connected.
    pub fn has_queues(&self) -> bool {
        !self.queues().is_empty()
    }

    /// Whether there is an I/O queue with this identifier.
    pub fn has_queue(&self, qid: u16) -> bool {
        self.queues().contains_key(&qid)
    }

    /// Adds an I/O queue that was connected after `resets`. Returns false if there is one with this
    /// identifier, or has been another reset.
    pub fn open_queue(&self, qid: u16, resets: u32) -> bool {
        let mut queues = self.queues();
        let free = resets == self.resets() && !queues.contains_key(&qid);
        if free {
            queues.insert(qid, None);
            self.live_queues.fetch_add(1, Ordering::Relaxed);
        }
        free
    }

    /// Sets what to wake when the queue, connected after `resets`, has ended.
    pub fn set_queue_waker(&self, qid: u16, resets: u32, waker: Arc<dyn WakeUp>) {
        let mut queues = self.queues();
        if resets == self.resets() {
            queues.insert(qid, Some(waker));
        } else {
            waker.wake();
        }
    }

    /// Removes an I/O queue that was connected after `resets`, unless a reset has. Nothing is answered there
    /// any more.
    pub fn close_queue(&self, qid: u16, resets: u32) {
        let mut queues = self.queues();
        if resets == self.resets() {
            queues.remove(&qid);
        }
        drop(queues);
        // A shutdown may wait for the last one.
        if self.live_queues.fetch_sub(1, Ordering::Release) == 1 {
            self.wake();
        }
    }

    /// Whether any I/O queue may still answer commands.
    pub fn has_live_queues(&self) -> bool {
        self.live_queues.load(Ordering::Acquire) > 0
    }

    /// Changes under the lock of the queues.
    pub fn resets(&self) -> u32 {
        self.resets.load(Ordering::Acquire)
    }

    /// The controller is reset or shut down: takes no more commands, and ends the I/O queues (Base
    /// sections 3.6 and 3.7.2).
    pub fn stop(&self) {
        self.ready.store(false, Ordering::Release);
        let mut queues = self.queues();
        self.resets.fetch_add(1, Ordering::Release);
        for waker in std::mem::take(&mut *queues).into_values().flatten() {
            waker.wake();
        }
    }

    pub fn async_events(&self) -> MutexGuard<'_, AsyncEvents> {
        self.async_events.lock().expect("async_events lock")
    }

    pub fn set_waker(&self, waker: Arc<dyn WakeUp>) {
        *self.waker.lock().expect("waker lock") = Some(waker);
    }

    /// Records events, and wakes the thread that is to report them to the host.
    pub fn raise(&self, change: impl FnOnce(&mut AsyncEvents)) {
        change(&mut self.async_events());
        self.wake();
    }

    /// Wakes the thread of the admin queue.
    fn wake(&self) {
        if let Some(waker) = &*self.waker.lock().expect("waker lock") {
            waker.wake();
        }
    }

    /// Adds a failed command to the error log. Returns its status, which says that it is there.
    pub fn log_error(&self, qid: u16, sqe: &Sqe, status: NvmeStatus) -> NvmeStatus {
        let status = status.with_more();
        let mut errors = self.errors.lock().expect("errors lock");
        errors.count += 1;
        let mut entry = ErrorEntry::zeroed();
        entry.count = errors.count.into();
        entry.sqid = qid.into();
        entry.cid = sqe.cid;
        entry.status = (status.0 << 1).into();
        // No parameter is named (Base section 5.16.1.2).
        entry.location = u16::MAX.into();
        entry.nsid = sqe.nsid;
        entry.lba = if qid == 0 { 0 } else { sqe.slba() }.into();
        errors.newest_first.push_front(entry);
        errors.newest_first.truncate(ERROR_ENTRIES);
        status
    }

    /// The number of errors since the controller was created, and the latest of them.
    pub fn errors(&self) -> (u64, Vec<ErrorEntry>) {
        let errors = self.errors.lock().expect("errors lock");
        (errors.count, errors.newest_first.iter().copied().collect())
    }
}
