//! WorkerPool: threads that do the I/O of files, each with its own channel into the block layer.
//!
//! ```text
//!  submit(file, work) --+-- nothing before it, and short --> engine: begun here and now
//!                       +-- else --> inbox --> the worker's thread --> engine
//!  engine   plan -> bio -> channel -> completion -> reply
//! ```
//!
//! Takes work for files; gives each a reply, once. Keeps true: all work of a file goes through one
//! worker, and begins there in the order in which it came; what the device has not done yet does not
//! keep other files' work from beginning.
mod engine;

use super::tree::FileNo;
use super::view::{OpenMode, View};
use crate::RealClock;
use engine::{Engine, Wait};
use rustix::io::Errno;
use rustix::thread::set_current_timer_slack;
use std::collections::VecDeque;
use std::io;
use std::num::NonZeroU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use zonal_blk::Buf;

/// Longer reads and writes are left to the worker's thread, so that several are copied at once.
const SHORT: usize = 64 << 10;

/// What is to be done with a file.
#[derive(Debug)]
pub enum FileOp {
    /// Open it.
    Open {
        /// To write to it.
        writes: bool,
    },
    /// Close it.
    Close {
        /// It was opened to write to it.
        wrote: bool,
    },
    /// Read it.
    Read {
        /// From here on.
        offset: u64,
        /// So many bytes at the most.
        len: usize,
        /// How it was opened.
        open_mode: OpenMode,
    },
    /// Write to it.
    Write {
        /// Here.
        offset: u64,
        /// This.
        data: Buf,
        /// How it was opened.
        open_mode: OpenMode,
    },
    /// Make what was written durable.
    Sync,
    /// Truncate it.
    Truncate {
        /// To this size.
        size: u64,
    },
}

/// What is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// It is done.
    Done,
    /// What was read; less than was asked for at the end of the file.
    Data(&'a [u8]),
    /// So many bytes were written.
    Written(usize),
}

/// Who is told how it ended.
type OnDone = Box<dyn FnOnce(Result<Reply<'_>, Errno>) + Send>;

struct Job {
    file: FileNo,
    work: FileOp,
    on_done: OnDone,
}

/// The workers of a view. Dropping them sees what was begun to its end.
pub struct WorkerPool {
    view: Arc<View>,
    clock: RealClock,
    workers: Vec<Arc<Worker>>,
    threads: Vec<JoinHandle<()>>,
}

struct Worker {
    /// The device's block size.
    block: u64,
    engine: Mutex<Engine>,
    inbox: Mutex<Inbox>,
    wake: Condvar,
}

#[derive(Default)]
struct Inbox {
    jobs: VecDeque<Job>,
    /// The engine has something to wait for.
    kicked: bool,
    stops: bool,
}

impl WorkerPool {
    /// So many workers for a view. `clock` is that of all who use the device.
    ///
    /// # Errors
    /// The device has too few hardware queues, or there can be no more threads.
    pub fn start(view: Arc<View>, clock: RealClock, count: usize) -> io::Result<Self> {
        let mut workers = WorkerPool { view, clock, workers: Vec::new(), threads: Vec::new() };
        for _ in 0..count {
            let channel = workers.view.queue().channel().map_err(io::Error::other)?;
            let worker = Arc::new(Worker {
                block: workers.view.queue().limits().lba_size.into(),
                engine: Mutex::new(Engine::new(Arc::clone(&workers.view), channel)),
                inbox: Mutex::default(),
                wake: Condvar::new(),
            });
            let (theirs, clock) = (Arc::clone(&worker), workers.clock.clone());
            let run = move || theirs.run(&clock);
            workers.workers.push(worker);
            workers.threads.push(thread::Builder::new().name("zonefs".to_owned()).spawn(run)?);
        }
        Ok(workers)
    }

    /// The view that they serve.
    pub fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// Has something done. `on_done` is called when it is done: before this returns, or by a worker's
    /// thread.
    pub fn submit(
        &self,
        file: FileNo,
        work: FileOp,
        on_done: impl FnOnce(Result<Reply<'_>, Errno>) + Send + 'static,
    ) {
        match work {
            // Nothing for a device.
            FileOp::Open { writes } if !self.view.opens_zones(file) => {
                on_done(self.view.open(file, writes).map(|_| Reply::Done));
            }
            FileOp::Close { wrote } if !self.view.opens_zones(file) => {
                self.view.close(file, wrote);
                on_done(Ok(Reply::Done));
            }
            work => {
                let worker = &self.workers[file.0 % self.workers.len()];
                worker.submit(&self.clock, Job { file, work, on_done: Box::new(on_done) });
            }
        }
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        for worker in &self.workers {
            worker.inbox().stops = true;
            worker.wake.notify_one();
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
            // Work is taken out of the inbox only by who has the engine.
            && self.inbox().jobs.is_empty()
        {
            engine.begin(clock, job);
            if engine.poll(clock) != Wait::Idle {
                drop(engine);
                self.inbox().kicked = true;
                self.wake.notify_one();
            }
            return;
        }
        self.inbox().jobs.push_back(job);
        self.wake.notify_one();
    }

    /// Whether work can be begun without waiting, and soon.
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

    fn run(&self, clock: &RealClock) {
        // Where it is refused, sleeps are longer.
        let _ = set_current_timer_slack(NonZeroU64::new(1000));
        loop {
            let wait = {
                let mut engine = self.engine();
                loop {
                    let Some(job) = self.inbox().jobs.pop_front() else { break };
                    engine.begin(clock, job);
                }
                engine.poll(clock)
            };
            if wait == Wait::Not {
                thread::yield_now();
                continue;
            }
            let inbox = self.inbox();
            let nothing = |inbox: &mut Inbox| inbox.jobs.is_empty() && !inbox.kicked;
            let mut inbox = match wait {
                Wait::Idle if inbox.stops && inbox.jobs.is_empty() => break,
                Wait::For(time) => {
                    let waited = self.wake.wait_timeout_while(inbox, time, |i| nothing(i));
                    waited.expect("inbox lock").0
                }
                _ => {
                    let waits = |inbox: &mut Inbox| nothing(inbox) && !inbox.stops;
                    self.wake.wait_while(inbox, waits).expect("inbox lock")
                }
            };
            inbox.kicked = false;
        }
        self.engine().finish(clock);
    }
}
