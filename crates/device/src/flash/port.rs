//! The hardware queues of a drive that is simulated by a queue of events. They share the drive under one
//! spin lock, which each call takes once and holds for a few hundred instructions. Most polls find that
//! no event is due and take no lock.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use zonal_blk::lock::SpinLock;
use zonal_blk::{HwQueue, Nanos, Request, Wake};

/// A drive, as its hardware queues call it under the lock.
pub(crate) trait Controller: Send + 'static {
    /// The completed commands.
    fn queues(&mut self) -> &mut Queues;

    /// Accepts a command from a hardware queue.
    fn start(&mut self, now: Nanos, queue: usize, request: Box<Request>);

    /// Processes all events up to `now`.
    fn advance(&mut self, now: Nanos);

    /// The time of the next event.
    fn next_event(&self) -> Option<Nanos>;

    /// The time before which no command completes unless others are started; `next` is that of the
    /// next event.
    fn next_completion(&mut self, next: Option<Nanos>) -> Option<Nanos>;
}

/// The commands that have completed, by hardware queue.
#[derive(Default)]
pub(crate) struct Queues(Vec<QueueState>);

#[derive(Default)]
struct QueueState {
    done: Vec<Box<Request>>,
    /// `done` is not empty.
    has_done: Arc<AtomicBool>,
}

impl Queues {
    /// Opens a hardware queue. Returns its number, and the flag that says whether any of its commands has
    /// completed, which the queue reads without the lock.
    fn open(&mut self) -> (usize, Arc<AtomicBool>) {
        let state = QueueState::default();
        let has_done = Arc::clone(&state.has_done);
        self.0.push(state);
        (self.0.len() - 1, has_done)
    }

    /// A command of a queue has completed.
    #[inline]
    pub(crate) fn complete(&mut self, queue: usize, request: Box<Request>) {
        let queue = &mut self.0[queue];
        queue.done.push(request);
        queue.has_done.store(true, Ordering::Release);
    }

    /// Moves the completed commands of a queue to `done`.
    #[inline]
    fn take(&mut self, queue: usize, done: &mut Vec<Box<Request>>) {
        let state = &mut self.0[queue];
        match state.done.pop() {
            Some(only) if state.done.is_empty() => done.push(only),
            Some(last) => {
                done.append(&mut state.done);
                done.push(last);
            }
            None => {}
        }
        state.has_done.store(false, Ordering::Relaxed);
    }
}

/// A drive under its lock, and the times at which it has to be called.
pub(crate) struct Port<C> {
    drive: SpinLock<C>,
    /// The time of the drive's next event, to be read without the lock; `u64::MAX` for none.
    next_event: AtomicU64,
    /// The time before which no command completes, likewise.
    next_completion: AtomicU64,
}

impl<C: Controller> Port<C> {
    pub(crate) fn new(drive: C) -> Arc<Self> {
        let [next_event, next_completion] = [u64::MAX; 2].map(AtomicU64::new);
        Arc::new(Port { drive: SpinLock::new(drive), next_event, next_completion })
    }

    /// Calls `f` with the drive locked, and publishes the time of the drive's next event.
    #[inline]
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut C) -> R) -> R {
        let mut drive = self.drive.lock();
        let result = f(&mut drive);
        let next = drive.next_event();
        let time = |at: Option<Nanos>| at.map_or(u64::MAX, |at| at.0);
        self.next_completion.store(time(drive.next_completion(next)), Ordering::Release);
        self.next_event.store(time(next), Ordering::Release);
        result
    }

    pub(crate) fn open_queue(self: &Arc<Self>) -> Box<dyn HwQueue> {
        let (number, has_done) = self.with(|drive| drive.queues().open());
        Box::new(Queue { port: Arc::clone(self), number, in_flight: 0, has_done })
    }
}

struct Queue<C> {
    port: Arc<Port<C>>,
    number: usize,
    /// Commands that were started and not returned.
    in_flight: usize,
    /// The drive has completed some of them.
    has_done: Arc<AtomicBool>,
}

impl<C: Controller> HwQueue for Queue<C> {
    fn start(&mut self, now: Nanos, request: Box<Request>) -> Result<(), Box<Request>> {
        self.in_flight += 1;
        self.port.with(|drive| drive.start(now, self.number, request));
        Ok(())
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Box<Request>>) {
        let is_due = now.0 >= self.port.next_event.load(Ordering::Acquire);
        if !is_due && !self.has_done.load(Ordering::Acquire) {
            return;
        }
        let before = done.len();
        self.port.with(|drive| {
            drive.advance(now);
            drive.queues().take(self.number, done);
        });
        self.in_flight -= done.len() - before;
    }

    /// Any event may complete one of the queue's commands.
    fn next_event(&self) -> Wake {
        self.wake_at(&self.port.next_event)
    }

    fn next_completion(&self) -> Wake {
        self.wake_at(&self.port.next_completion)
    }

    fn has_done(&mut self, now: Nanos) -> bool {
        if now.0 >= self.port.next_event.load(Ordering::Acquire) {
            self.port.with(|drive| drive.advance(now));
        }
        self.has_done.load(Ordering::Acquire)
    }
}

impl<C> Queue<C> {
    #[inline]
    fn wake_at(&self, next: &AtomicU64) -> Wake {
        // Read before the flag: an event that another queue processes sets the flag, and is the next
        // one until then.
        let next = next.load(Ordering::Acquire);
        match (self.in_flight, next) {
            _ if self.has_done.load(Ordering::Acquire) => Wake::Now,
            (0, _) | (_, u64::MAX) => Wake::Idle,
            (_, at) => Wake::At(Nanos(at)),
        }
    }
}
