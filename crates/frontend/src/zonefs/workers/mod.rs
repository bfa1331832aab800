//! The worker pool: threads that do the I/O of files, each with its own channel into the block layer.
//!
//! ```text
//!  submit(file, work) --+-- short, and nothing queued before it --> engine, on the caller's thread
//!                       +-- else --> inbox --> the worker's thread --> engine
//!  engine   plan -> bio -> channel -> completion -> reply
//! ```
//!
//! Invariants: each operation is replied to once. All operations of a file go through one worker and
//! begin there in the order of their submission; they do not wait for those of other files, unless
//! one of them has the worker to itself, or an open that opens a zone comes after a close that closes
//! another: the kernel does not wait for the reply to a close, and the zone's place among the open ones
//! is free when close(2) has returned.
mod engine;

use super::fs::{OpenMode, ZoneFs};
use super::tree::FileNo;
use engine::Engine;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use zonal_blk::{Buf, Channel, Clock, Nanos, Sleeper, Wake};
use zonal_os::RealClock;
use zonal_os::poll::{Frontend, Poller, Progress, WaitPolicy, WaitSet, serve};

/// Longer reads and writes, in bytes, are left to the worker's thread, so that several threads copy.
const SHORT: usize = 64 << 10;

/// An operation on a file.
#[derive(Debug)]
pub enum FileOp {
    /// Open it.
    Open {
        /// For writing.
        writes: bool,
    },
    /// Close it.
    Close {
        /// It was open for writing.
        wrote: bool,
    },
    /// Read it.
    Read {
        /// The first byte.
        offset: u64,
        /// The number of bytes, at most.
        len: usize,
        /// How it was opened.
        open_mode: OpenMode,
    },
    /// Write to it.
    Write {
        /// The first byte.
        offset: u64,
        /// The data.
        data: Buf,
        /// How it was opened.
        open_mode: OpenMode,
    },
    /// Make what was written durable.
    Sync,
    /// Truncate it.
    Truncate {
        /// The new size in bytes.
        size: u64,
    },
}

/// The result of a [`FileOp`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// Done.
    Done,
    /// The data that were read, fewer than requested at the end of the file.
    Data(&'a [u8]),
    /// The number of bytes written.
    Written(usize),
}

/// Called with the result.
type OnDone = Box<dyn FnOnce(Result<Reply<'_>, Errno>) + Send>;

struct Job {
    file: FileNo,
    work: FileOp,
    on_done: OnDone,
}

/// Opens of zones that wait for the closes before them.
#[derive(Default)]
struct Closing {
    /// Closes that were submitted and are not done.
    closes: usize,
    opens: Vec<(Arc<Worker>, Job)>,
}

impl Closing {
    fn forward_opens(&mut self) {
        for (worker, job) in self.opens.drain(..) {
            worker.wake(|inbox| inbox.jobs.push_back(job));
        }
    }
}

/// The workers of a file system. Dropping them completes the operations that were submitted.
pub struct WorkerPool {
    fs: Arc<ZoneFs>,
    clock: RealClock,
    workers: Vec<Arc<Worker>>,
    closing: Arc<Mutex<Closing>>,
    threads: Vec<JoinHandle<()>>,
}

struct Worker {
    /// The device's block size in bytes.
    block: u64,
    engine: Mutex<Engine>,
    inbox: Mutex<Inbox>,
    /// The worker's thread.
    sleeper: Sleeper,
}

#[derive(Default)]
struct Inbox {
    jobs: VecDeque<Job>,
    /// A caller's thread has left the engine with I/O in flight.
    kicked: bool,
    stopping: bool,
}

impl WorkerPool {
    /// Starts `count` workers for a file system. `clock` is the one of all exports of the device.
    ///
    /// # Errors
    /// The device has too few hardware queues, or the process no threads or file descriptors left.
    pub fn start(fs: Arc<ZoneFs>, clock: RealClock, count: usize) -> io::Result<Self> {
        let mut workers = WorkerPool {
            fs,
            clock,
            workers: Vec::new(),
            closing: Arc::default(),
            threads: Vec::new(),
        };
        for _ in 0..count {
            let channel = workers.fs.queue().channel().map_err(io::Error::other)?;
            let mut poller = Poller::new(WaitPolicy::Sleep(Duration::ZERO))?;
            let worker = Arc::new(Worker {
                block: workers.fs.queue().limits().lba_size.into(),
                engine: Mutex::new(Engine::new(Arc::clone(&workers.fs), channel)),
                inbox: Mutex::default(),
                sleeper: Sleeper::default(),
            });
            worker.sleeper.set_waker(poller.waker());
            let (served, clock) = (Arc::clone(&worker), workers.clock.clone());
            let run = move || {
                let mut thread = WorkerThread { worker: &served, blocked: false, stopping: false };
                let Ok(()) = serve(&mut thread, &clock, &mut poller);
            };
            workers.workers.push(worker);
            workers.threads.push(thread::Builder::new().name("zonefs".to_owned()).spawn(run)?);
        }
        Ok(workers)
    }

    /// The file system that they serve.
    pub fn fs(&self) -> &Arc<ZoneFs> {
        &self.fs
    }

    /// Submits an operation. `on_done` is called with its result, before this returns or by a worker's
    /// thread.
    pub fn submit(
        &self,
        file: FileNo,
        work: FileOp,
        on_done: impl FnOnce(Result<Reply<'_>, Errno>) + Send + 'static,
    ) {
        match work {
            // They need no I/O.
            FileOp::Open { writes } if !self.fs.opens_zones(file) => {
                on_done(self.fs.open(file, writes).map(|_| Reply::Done));
            }
            FileOp::Close { wrote } if !self.fs.opens_zones(file) => {
                self.fs.close(file, wrote);
                on_done(Ok(Reply::Done));
            }
            work => {
                let worker = &self.workers[file.0 % self.workers.len()];
                self.submit_in_order(worker, Job { file, work, on_done: Box::new(on_done) });
            }
        }
    }

    /// Submits a job; an open for writing waits for closes.
    fn submit_in_order(&self, worker: &Arc<Worker>, mut job: Job) {
        match job.work {
            FileOp::Open { writes: true } => {
                let mut closing = lock(&self.closing);
                if closing.closes > 0 {
                    closing.opens.push((Arc::clone(worker), job));
                    return;
                }
            }
            FileOp::Close { .. } => {
                lock(&self.closing).closes += 1;
                let closing = Arc::clone(&self.closing);
                let on_done = job.on_done;
                job.on_done = Box::new(move |ended| {
                    on_done(ended);
                    let mut closing = lock(&closing);
                    closing.closes -= 1;
                    if closing.closes == 0 {
                        closing.forward_opens();
                    }
                });
            }
            _ => {}
        }
        worker.submit(&self.clock, job);
    }
}

fn lock(closing: &Mutex<Closing>) -> MutexGuard<'_, Closing> {
    closing.lock().expect("no thread panics while it counts closes")
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        // A worker that stops takes no more jobs.
        lock(&self.closing).forward_opens();
        for worker in &self.workers {
            worker.wake(|inbox| inbox.stopping = true);
        }
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl Worker {
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().expect("inbox lock")
    }

    fn engine(&self) -> MutexGuard<'_, Engine> {
        self.engine.lock().expect("engine lock")
    }

    fn submit(&self, clock: &RealClock, job: Job) {
        if self.is_short(&job)
            && let Ok(mut engine) = self.engine.try_lock()
            && engine.may_begin()
            // Jobs are taken out of the inbox only by the thread that holds the engine.
            && self.inbox().jobs.is_empty()
        {
            engine.begin(clock.now(), job);
            engine.poll(clock.now());
            if engine.channel.next_event() != Wake::Idle {
                drop(engine);
                self.wake(|inbox| inbox.kicked = true);
            }
            return;
        }
        self.wake(|inbox| inbox.jobs.push_back(job));
    }

    /// Changes the inbox and wakes the worker's thread.
    fn wake(&self, change: impl FnOnce(&mut Inbox)) {
        change(&mut self.inbox());
        self.sleeper.wake();
    }

    /// Whether an operation can begin without waiting, and soon.
    fn is_short(&self, job: &Job) -> bool {
        match &job.work {
            FileOp::Read { len, .. } => *len <= SHORT,
            FileOp::Write { offset, data, .. } => {
                let end = *offset | data.len() as u64;
                data.len() <= SHORT && end.is_multiple_of(self.block)
            }
            FileOp::Sync => true,
            _ => false,
        }
    }
}

/// The frontend that a worker's thread serves.
struct WorkerThread<'a> {
    worker: &'a Worker,
    /// The inbox has to wait: an operation has the worker to itself.
    blocked: bool,
    /// Has been told to stop.
    stopping: bool,
}

impl Frontend for WorkerThread<'_> {
    type Error = Infallible;

    fn poll(&mut self, clock: &RealClock) -> Result<Progress, Infallible> {
        let mut engine = self.worker.engine();
        let mut worked = false;
        while engine.may_begin() {
            let Some(job) = self.worker.inbox().jobs.pop_front() else { break };
            engine.begin(clock.now(), job);
            worked = true;
        }
        worked |= engine.poll(clock.now()) > 0;
        self.blocked = !engine.may_begin();
        let inbox = self.worker.inbox();
        self.stopping = inbox.stopping;
        Ok(match worked {
            true => Progress::Worked,
            false if inbox.stopping && inbox.jobs.is_empty() && engine.is_idle() => Progress::Done,
            false => Progress::Idle,
        })
    }

    fn drain(&mut self, now: Nanos) -> bool {
        let mut engine = self.worker.engine();
        engine.channel.drain();
        engine.poll(now);
        engine.channel.is_idle()
    }

    fn for_each_channel(&mut self, visit: &mut dyn FnMut(&mut Channel)) {
        visit(&mut self.worker.engine().channel);
    }

    fn wait_fds(&mut self, _: &mut WaitSet) {}

    fn prepare_to_sleep(&mut self) -> bool {
        self.worker.sleeper.fall_asleep();
        let inbox = self.worker.inbox();
        let nothing_new = inbox.jobs.is_empty() || self.blocked;
        nothing_new && !inbox.kicked && inbox.stopping == self.stopping
    }

    fn awake(&mut self) {
        self.worker.sleeper.awake();
        self.worker.inbox().kicked = false;
    }
}
