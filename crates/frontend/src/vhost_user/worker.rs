//! The frontend of a ring, on a thread of its own.
use super::super::guest::eventfd::Eventfd;
use super::super::guest::memory::GuestMemory;
use super::chain::RingError;
use super::device::VirtioDevice;
use super::inflight::Inflight;
use super::request::{Decoded, Request, Requests};
use super::ring::Ring;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::mem::take;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::thread::{self, JoinHandle};
use zonal_blk::{
    Bio, BufPool, Channel, Clock, Completion, Nanos, Op, Sector, Slab, Status, WakeUp,
};
use zonal_os::RealClock;
use zonal_os::bus_error;
use zonal_os::poll::{Frontend, Poller, Progress, WaitPolicy, WaitSet, serve};

/// Chains that are taken in one poll.
const BATCH: usize = 64;
/// Bytes of data of the requests in flight of a ring; one request may have more.
const MAX_BYTES: usize = 64 << 20;

/// The `user_data` of the flush at the end, no slot of a request.
const FLUSH: u64 = u64::MAX;

/// Bytes of the buffers that a ring keeps for later requests.
const MAX_KEPT: usize = 16 << 20;

/// Whether a worker is to stop, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stop {
    /// Serve the ring.
    Not,
    /// Answer the requests in flight, commit what was answered, and end.
    Drain,
    /// End, without an access to the guest.
    Abandon,
}

/// State that a session and the worker of a ring share.
#[derive(Debug)]
pub struct RingControl {
    pub enabled: AtomicBool,
    stop: AtomicU8,
    kick: Mutex<Option<Arc<Eventfd>>>,
    pub call: Mutex<Option<Arc<Eventfd>>>,
    pub error: Mutex<Option<Arc<Eventfd>>>,
}

impl RingControl {
    pub fn new() -> Self {
        RingControl {
            enabled: AtomicBool::new(false),
            stop: AtomicU8::new(Stop::Not as u8),
            kick: Mutex::default(),
            call: Mutex::default(),
            error: Mutex::default(),
        }
    }

    /// A new worker begins.
    pub fn begin(&self) {
        self.stop.store(Stop::Not as u8, Ordering::Release);
    }

    /// Ends the worker. A client that has abandoned a ring does not come back to it.
    pub fn stop(&self, how: Stop) {
        self.stop.fetch_max(how as u8, Ordering::AcqRel);
    }

    fn stops(&self, how: Stop) -> bool {
        self.stop.load(Ordering::Acquire) == how as u8
    }

    pub fn set_kick(&self, kick: Option<Arc<Eventfd>>) {
        *self.kick.lock().expect("kick lock") = kick;
    }
}

fn signal(eventfd: &Mutex<Option<Arc<Eventfd>>>) {
    let eventfd = eventfd.lock().expect("eventfd lock").clone();
    if let Some(eventfd) = eventfd {
        eventfd.signal();
    }
}

/// Has a worker served by a thread of this name, or in steps. Fails if the system has no resources left.
pub type StartWorker = Box<dyn Fn(String, Worker) -> io::Result<RunningWorker> + Send + Sync>;

/// A worker that is being served.
pub struct RunningWorker {
    waker: Arc<dyn WakeUp>,
    end: Arc<WorkerEnd>,
    /// None if it is served in steps.
    thread: Option<JoinHandle<()>>,
}

/// The state that a worker leaves.
#[derive(Default)]
struct WorkerEnd {
    finished: AtomicBool,
    /// The index of the next chain.
    next_avail: AtomicU16,
    /// What was answered is durable.
    committed: AtomicBool,
}

impl RunningWorker {
    pub fn wake(&self) {
        self.waker.wake();
    }

    /// The index of the next chain, if the worker has finished.
    pub fn finished(&self) -> Option<u16> {
        // One that has panicked has finished, too.
        let finished = self.end.finished.load(Ordering::Acquire)
            || self.thread.as_ref().is_some_and(JoinHandle::is_finished);
        finished.then(|| self.end.next_avail.load(Ordering::Relaxed))
    }

    /// Whether a worker that has finished has committed what it answered.
    pub fn has_committed(&self) -> bool {
        self.end.committed.load(Ordering::Relaxed)
    }

    /// Waits for the thread.
    pub fn join(self) {
        if let Some(thread) = self.thread {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// A ring and its requests.
pub struct Worker {
    ring: Ring,
    channel: Channel,
    device: Arc<VirtioDevice>,
    memory: Arc<RwLock<GuestMemory>>,
    features: u64,
    control: Arc<RingControl>,
    inflight: Option<Inflight>,
    /// Heads that the last server has not answered.
    repeated: VecDeque<u16>,
    /// By the `user_data` of their bios.
    requests: Slab<Request>,
    bufs: BufPool,
    /// Data of the requests in flight.
    bytes: usize,
    /// The guest has broken the ring: nothing is read of it any more.
    broken: bool,
    /// The flush at the end, once it was submitted; its status, once it has completed.
    flush: Option<Option<Status>>,
    /// The event that the thread waits for.
    kick: Option<Arc<Eventfd>>,
    /// Of the thread that has the client.
    server: Arc<dyn WakeUp>,
    /// Bios that are submitted together.
    bios: Vec<Bio>,
    /// Kept for its capacity.
    completions: Vec<Completion>,
}

/// The parts of a worker.
pub struct NewWorker {
    pub ring: Ring,
    pub channel: Channel,
    pub device: Arc<VirtioDevice>,
    pub memory: Arc<RwLock<GuestMemory>>,
    pub features: u64,
    pub control: Arc<RingControl>,
    pub inflight: Option<Inflight>,
    pub server: Arc<dyn WakeUp>,
}

impl Worker {
    /// A worker for a ring.
    ///
    /// # Errors
    /// The memory for requests in flight is gone.
    pub fn new(new: NewWorker) -> Result<Self, RingError> {
        let NewWorker { mut ring, channel, device, memory, features, control, inflight, server } =
            new;
        let mut inflight = inflight;
        let mut repeated = VecDeque::new();
        if let Some(inflight) = &mut inflight {
            repeated.extend(inflight.resume(ring.published())?);
            if !repeated.is_empty() {
                ring.resume(u16::try_from(repeated.len()).expect("no more than descriptors"));
            }
        }
        Ok(Worker {
            ring,
            channel,
            device,
            memory,
            features,
            control,
            inflight,
            repeated,
            requests: Slab::default(),
            bufs: BufPool::default(),
            bytes: 0,
            broken: false,
            flush: None,
            kick: None,
            server,
            bios: Vec::new(),
            completions: Vec::new(),
        })
    }

    /// Serves the ring on a thread of this name, until it is stopped.
    ///
    /// # Errors
    /// The system has no resources left.
    pub fn start(
        mut self,
        name: String,
        waiting: WaitPolicy,
        clock: &RealClock,
    ) -> io::Result<RunningWorker> {
        let mut poller = Poller::new(waiting)?;
        let (waker, clock, end) = (poller.waker(), clock.clone(), Arc::<WorkerEnd>::default());
        let ours = Arc::clone(&end);
        let thread = thread::Builder::new().name(name).spawn(move || {
            let Ok(()) = serve(&mut self, &clock, &mut poller);
            self.finish(&ours);
        })?;
        Ok(RunningWorker { waker, end, thread: Some(thread) })
    }

    /// The worker, to be served in steps.
    pub fn stepped(self) -> (RunningWorker, SteppedWorker) {
        let end = Arc::<WorkerEnd>::default();
        let ours = Arc::clone(&end);
        let running = RunningWorker { waker: Arc::new(|| {}), end, thread: None };
        (running, SteppedWorker { worker: self, end: ours, done: false })
    }

    fn finish(self, end: &WorkerEnd) {
        let Worker { ring, channel, server, flush, .. } = self;
        // The next worker may need its hardware queue.
        drop(channel);
        end.next_avail.store(ring.next_avail(), Ordering::Relaxed);
        end.committed.store(flush == Some(Some(Status::Ok)), Ordering::Relaxed);
        end.finished.store(true, Ordering::Release);
        server.wake();
    }

    fn in_flight(&self) -> usize {
        self.requests.len()
    }

    /// Whether chains are taken from the ring.
    fn is_serving(&self) -> bool {
        !self.broken
            && self.control.stops(Stop::Not)
            && self.control.enabled.load(Ordering::Acquire)
    }

    fn is_full(&self) -> bool {
        self.bytes >= MAX_BYTES
    }

    fn fail(&mut self, error: RingError) {
        tracing::warn!("vhost-user: a ring is not served any more: {error}");
        self.broken = true;
        self.repeated.clear();
        signal(&self.control.error);
    }

    fn complete(&mut self, now: Nanos, memory: &GuestMemory) -> bool {
        let mut completions = take(&mut self.completions);
        let worked = self.channel.poll(now, &mut completions) > 0;
        for completion in completions.drain(..) {
            if completion.user_data == FLUSH {
                self.flush = Some(Some(completion.status));
                continue;
            }
            let slot = usize::try_from(completion.user_data).expect("as it was submitted");
            let request = self.requests.remove(slot).expect("a bio is of a request");
            self.bytes -= request.bytes();
            if !self.broken {
                let requests = Requests { device: &self.device, features: self.features, memory };
                let done = requests.complete(&request, &completion);
                if let Err(error) = done.and_then(|len| self.push(memory, request.head, len)) {
                    self.fail(error);
                }
            }
            if let Some(buf) = completion.buf {
                self.bufs.put(buf, MAX_KEPT);
            }
        }
        self.completions = completions;
        worked
    }

    fn push(&mut self, memory: &GuestMemory, head: u16, len: u32) -> Result<(), RingError> {
        if let Some(inflight) = &mut self.inflight {
            inflight.push(head)?;
        }
        self.ring.push(memory, head, len)
    }

    /// Takes a chain, if there is one and room for it. Returns whether there was.
    fn fetch(&mut self, memory: &GuestMemory) -> Result<bool, RingError> {
        if self.is_full() {
            return Ok(false);
        }
        let head = if let Some(head) = self.repeated.pop_front() {
            head
        } else {
            let Some(head) = self.ring.pop(memory)? else { return Ok(false) };
            if let Some(inflight) = &mut self.inflight {
                inflight.take(head)?;
            }
            head
        };
        let chain = self.ring.chain(memory, head)?;
        let requests = Requests { device: &self.device, features: self.features, memory };
        match requests.decode(chain, &mut self.bufs)? {
            Decoded::Done(len) => self.push(memory, head, len)?,
            Decoded::Bio(request, bio) => {
                self.bytes += request.bytes();
                let slot = self.requests.insert(request);
                self.bios.push(Bio { user_data: slot as u64, ..bio });
            }
        }
        Ok(true)
    }

    /// Takes some chains, and submits their bios. Returns whether there was one.
    fn fetch_batch(&mut self, now: Nanos, memory: &GuestMemory) -> bool {
        let mut worked = false;
        for _ in 0..BATCH {
            match self.fetch(memory) {
                Ok(true) => worked = true,
                Ok(false) => break,
                Err(error) => {
                    self.fail(error);
                    break;
                }
            }
        }
        self.channel.submit_batch(now, &mut self.bios);
        worked
    }

    fn publish(&mut self, memory: &GuestMemory) -> Result<(), RingError> {
        if self.broken || !self.ring.has_unpublished() {
            return Ok(());
        }
        let interrupt = self.ring.publish(memory)?;
        if let Some(inflight) = &mut self.inflight {
            inflight.published(self.ring.published())?;
        }
        if interrupt {
            signal(&self.control.call);
        }
        Ok(())
    }

    /// Flushes the device at the end.
    fn commit(&mut self, now: Nanos) -> Progress {
        match self.flush {
            None => {
                self.channel.submit(now, Bio::new(Op::Flush, Sector(0), 0, FLUSH));
                self.flush = Some(None);
                Progress::Worked
            }
            Some(None) => Progress::Idle,
            Some(Some(_)) => Progress::Done,
        }
    }

    /// Does what there is to do.
    fn step(&mut self, now: Nanos) -> Progress {
        let memory = Arc::clone(&self.memory);
        // Held for the whole of a poll: memory that was taken back is not accessed any more.
        let memory = memory.read().expect("memory lock");
        if self.control.stops(Stop::Abandon) {
            return Progress::Done;
        }
        let mut worked = self.complete(now, &memory);
        if self.is_serving() {
            worked |= self.fetch_batch(now, &memory);
        }
        if let Err(error) = self.publish(&memory) {
            self.fail(error);
        }
        drop(memory);
        if bus_error::any_lost() {
            self.server.wake();
        }
        match worked {
            _ if self.control.stops(Stop::Drain) && self.in_flight() == 0 => self.commit(now),
            true => Progress::Worked,
            false => Progress::Idle,
        }
    }
}

impl Frontend for Worker {
    type Error = Infallible;

    fn poll(&mut self, clock: &RealClock) -> Result<Progress, Infallible> {
        Ok(self.step(clock.now()))
    }

    fn drain(&mut self, now: Nanos) -> bool {
        self.channel.drain();
        self.channel.submit_batch(now, &mut self.bios);
        self.channel.poll(now, &mut self.completions);
        self.completions.clear();
        self.channel.is_idle()
    }

    fn for_each_channel(&mut self, visit: &mut dyn FnMut(&mut Channel)) {
        visit(&mut self.channel);
    }

    fn wait_fds(&mut self, set: &mut WaitSet) {
        self.kick = None;
        if self.is_serving() && !self.is_full() {
            self.kick = self.control.kick.lock().expect("kick lock").clone();
            self.kick.iter().for_each(|kick| set.read(kick.fd()));
        }
    }

    fn prepare_to_sleep(&mut self) -> bool {
        if !self.is_serving() || self.is_full() {
            return true;
        }
        let memory = Arc::clone(&self.memory);
        let memory = memory.read().expect("memory lock");
        self.ring.want_kick(&memory).unwrap_or_else(|error| {
            self.fail(error);
            true
        })
    }

    fn awake(&mut self) {
        if let Some(kick) = self.kick.take() {
            kick.clear();
        }
        if !self.is_serving() {
            return;
        }
        let memory = Arc::clone(&self.memory);
        let memory = memory.read().expect("memory lock");
        if let Err(error) = self.ring.suppress_kicks(&memory) {
            self.fail(error);
        }
    }
}

/// A worker that is served in steps.
pub struct SteppedWorker {
    worker: Worker,
    end: Arc<WorkerEnd>,
    done: bool,
}

impl SteppedWorker {
    /// Does once what a thread does again and again. Returns the worker unless it has ended, and whether
    /// there was anything to do.
    pub fn step(mut self, now: Nanos) -> (Option<Self>, bool) {
        if !self.done {
            let progress = self.worker.step(now);
            self.done = progress == Progress::Done;
            if !self.done {
                return (Some(self), progress == Progress::Worked);
            }
        }
        if !self.worker.drain(now) {
            return (Some(self), false);
        }
        self.worker.finish(&self.end);
        (None, true)
    }

    /// As a thread does with nothing to do: it says from when on it wants a kick.
    pub fn sleep(&mut self) {
        if !self.done {
            self.worker.prepare_to_sleep();
            self.worker.awake();
        }
    }
}
