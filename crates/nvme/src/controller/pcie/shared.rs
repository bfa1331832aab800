//! The state that a function and its workers share: doorbells, messages, and queues that have ended.
use super::ring::SqRing;
use crate::controller::MAX_IO_QUEUES;
use crate::controller::association::Association;
use crate::controller::async_events::EventType;
use crate::controller::io::IoQueue;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use zonal_blk::WakeUp;

/// The doorbells of a queue identifier, as last written and checked.
#[derive(Debug, Default)]
pub(super) struct Doorbell {
    pub tail: AtomicU16,
    pub head: AtomicU16,
}

/// State that a function and its workers share.
pub(super) struct FunctionShared {
    pub association: Arc<Association>,
    /// By queue identifier.
    doorbells: Box<[Doorbell]>,
    /// A queue is not in guest memory: CSTS.CFS.
    fatal: AtomicBool,
    /// The queues that have ended, until the function takes note.
    ended: Mutex<Vec<Ended>>,
    waker: OnceLock<Arc<dyn WakeUp>>,
}

/// The report of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// A submission queue was deleted.
    Submission(u16),
    /// The worker of a completion queue has ended.
    Completion(u16),
}

impl FunctionShared {
    pub fn new(association: Arc<Association>) -> Arc<Self> {
        Arc::new(FunctionShared {
            association,
            doorbells: (0..=MAX_IO_QUEUES).map(|_| Doorbell::default()).collect(),
            fatal: AtomicBool::new(false),
            ended: Mutex::default(),
            waker: OnceLock::new(),
        })
    }

    /// The doorbells of a queue identifier up to [`MAX_IO_QUEUES`].
    pub fn doorbell(&self, qid: u16) -> &Doorbell {
        &self.doorbells[usize::from(qid)]
    }

    pub fn set_waker(&self, waker: Arc<dyn WakeUp>) {
        // A function has one thread.
        let _ = self.waker.set(waker);
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            waker.wake();
        }
    }

    pub fn set_fatal(&self, fatal: bool) {
        self.fatal.store(fatal, Ordering::Release);
    }

    pub fn is_fatal(&self) -> bool {
        self.fatal.load(Ordering::Acquire)
    }

    fn lock_ended(&self) -> MutexGuard<'_, Vec<Ended>> {
        self.ended.lock().expect("ended lock")
    }

    pub fn report(&self, ended: Ended) {
        self.lock_ended().push(ended);
        self.wake();
    }

    pub fn take_ended(&self) -> Vec<Ended> {
        std::mem::take(&mut *self.lock_ended())
    }

    /// Tells the host of a doorbell that it wrote wrongly.
    pub fn doorbell_error(&self, event: EventType) {
        self.association.raise(|events| events.doorbell_error(event));
    }
}

/// A new submission queue.
pub(super) struct SqSetup {
    pub qid: u16,
    pub ring: SqRing,
    pub io: IoQueue,
}

/// The work of a function for a worker.
pub(super) enum Mail {
    Add(Box<SqSetup>),
    /// To delete the submission queue.
    Delete(u16),
    /// Shadow doorbells and event indices.
    DoorbellBuffers([u64; 2]),
    /// The completion queue is deleted, and has no submission queues.
    End,
    /// The controller was reset: the worker touches guest memory no more.
    Abort,
}
