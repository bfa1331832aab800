//! The listening socket, and the thread that has the client, the registers and the admin queue.
use super::memory::GuestMemory;
use super::messages::{Disconnect, Messages};
use super::session::{Device, Session, Shared};
use super::vectors::Vectors;
use super::worker::Worker;
use crate::RealClock;
use crate::poll::{Frontend, Poller, Progress, WaitPolicy, WaitSet, Waker, serve};
use crate::unix_socket::BoundSocket;
use std::convert::Infallible;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};
use std::thread::{self, JoinHandle};
use zonal_blk::{Channel, Clock, Nanos, Wake, WakeUp};
use zonal_nvme::controller::Subsystem;
use zonal_nvme::controller::pcie::{Function, IoWorker};

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// I/O queues of the controller.
    pub io_queues: u16,
    /// How the threads of the queues wait.
    pub waiting: WaitPolicy,
    /// The clock, the same for all users of a device.
    pub clock: RealClock,
}

/// A controller that a virtual machine can have. Dropping it ends that, waits for the I/O in flight, and
/// removes the socket.
pub struct Server {
    socket: Arc<BoundSocket>,
    stopping: Arc<AtomicBool>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Offers a controller of `subsystem` at the socket `path`, which only the user may open. A socket
    /// without a server is replaced.
    ///
    /// # Errors
    /// The path is in use, the socket cannot be created, or the system has no resources left.
    pub fn start(
        path: &Path,
        subsystem: &Arc<Subsystem>,
        config: ServerConfig,
    ) -> io::Result<Self> {
        let socket = Arc::new(BoundSocket::new(path)?);
        socket.listener.set_nonblocking(true)?;
        let function = Function::new(config.clock.now(), subsystem, config.io_queues);
        let function =
            function.ok_or_else(|| io::Error::other("the subsystem has too many controllers"))?;
        let poller = Poller::new(WaitPolicy::default())?;
        let waker = poller.waker();
        function.set_waker(Arc::clone(&waker) as _);
        let stopping = Arc::new(AtomicBool::new(false));
        let shared = Shared {
            memory: Arc::new(RwLock::new(GuestMemory::default())),
            vectors: Arc::new(Vectors::new(function.vectors())),
        };
        let serving = Serving {
            socket: Arc::clone(&socket),
            config,
            function,
            shared,
            session: None,
            next: None,
            workers: Vec::new(),
            waker: Arc::clone(&waker),
            stopping: Arc::clone(&stopping),
        };
        let thread = thread::Builder::new().name("vfio-user".to_owned());
        let thread = thread.spawn(move || serving.run(poller))?;
        Ok(Server { socket, stopping, waker, thread: Some(thread) })
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.socket.path
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// The thread of a server.
struct Serving {
    socket: Arc<BoundSocket>,
    config: ServerConfig,
    function: Function,
    shared: Shared,
    session: Option<Session>,
    /// A client that waits until I/O of the last one has ended.
    next: Option<UnixStream>,
    workers: Vec<JoinHandle<()>>,
    waker: Arc<Waker>,
    stopping: Arc<AtomicBool>,
}

impl Serving {
    fn run(mut self, mut poller: Poller) {
        let clock = self.config.clock.clone();
        let Ok(()) = serve(&mut self, &clock, &mut poller);
        for worker in self.workers {
            // A thread that panicked has said so.
            let _ = worker.join();
        }
    }

    /// Accepts a client, when I/O of the last one has ended. Returns whether there was one.
    fn accept(&mut self, now: Nanos) -> bool {
        if self.next.is_none() {
            // An error is that nobody is there, or has gone again.
            self.next = self.socket.listener.accept().ok().map(|(socket, _)| socket);
        }
        let Some(socket) = self.next.take() else { return false };
        // The last client may have gone before this one came.
        while self.session.is_some() && self.poll_session(now) {}
        if self.session.is_some() {
            tracing::warn!("vfio-user: a second client was turned away");
        } else if !self.function.is_quiescent() {
            self.next = Some(socket);
            return false;
        } else if socket.set_nonblocking(true).is_ok() {
            tracing::debug!("vfio-user: a client has connected");
            self.session = Some(self.session_on(socket));
        }
        true
    }

    fn session_on(&self, socket: UnixStream) -> Session {
        Session::new(Messages::new(socket), self.shared.clone())
    }

    fn disconnect(&mut self, now: Nanos, why: &Disconnect) {
        match why {
            Disconnect::Closed => tracing::debug!("vfio-user: {why}"),
            _ => tracing::warn!("vfio-user: the client was disconnected: {why}"),
        }
        self.leave(now);
    }

    /// Resets the function, and forgets the client and all it shared.
    fn leave(&mut self, now: Nanos) {
        self.session = None;
        self.function.reset(now);
        self.shared.memory.write().expect("memory lock").clear();
        self.shared.vectors.clear();
    }

    fn start_worker(&mut self, queue: IoWorker) {
        let name = format!("vfio-user-{}", queue.cqid());
        let (shared, server) = (self.shared.clone(), Arc::clone(&self.waker));
        let clock = self.config.clock.clone();
        let started = Poller::new(self.config.waiting).and_then(|poller| {
            let worker = Worker::new(queue, shared, server);
            thread::Builder::new().name(name).spawn(move || worker.run(&clock, poller))
        });
        match started {
            Ok(worker) => self.workers.push(worker),
            // The function has noticed that the queue is gone.
            Err(error) => tracing::warn!("vfio-user: cannot serve a queue: {error}"),
        }
    }

    fn poll_session(&mut self, now: Nanos) -> bool {
        let Some(session) = &mut self.session else { return false };
        let polled = session.poll(&mut Device { function: &mut self.function, now });
        polled.unwrap_or_else(|why| {
            self.disconnect(now, &why);
            true
        })
    }

    fn poll_function(&mut self, now: Nanos) -> bool {
        let memory = self.shared.memory.read().expect("memory lock");
        let (worked, interrupt) = self.function.poll(now, &*memory);
        drop(memory);
        if interrupt {
            self.shared.vectors.interrupt(0);
        }
        while let Some(queue) = self.function.take_worker() {
            self.start_worker(queue);
        }
        worked
    }
}

impl Frontend for Serving {
    type Error = Infallible;

    fn poll(&mut self, clock: &RealClock) -> Result<Progress, Infallible> {
        let now = clock.now();
        if self.stopping.load(Ordering::Acquire) {
            self.leave(now);
            return Ok(Progress::Done);
        }
        let mut worked = self.poll_session(now);
        worked |= self.accept(now);
        worked |= self.poll_function(now);
        self.workers.retain(|worker| !worker.is_finished());
        Ok(if worked { Progress::Worked } else { Progress::Idle })
    }

    fn drain(&mut self, _now: Nanos) -> bool {
        true
    }

    fn for_each_channel(&mut self, _visit: &mut dyn FnMut(&mut Channel)) {}

    fn wait_fds(&mut self, set: &mut WaitSet) {
        if let Some(session) = &self.session {
            if session.wants_input() {
                set.read(session.messages.fd());
            }
            if session.messages.has_unsent() {
                set.write(session.messages.fd());
            }
        }
        if self.next.is_none() {
            set.read(self.socket.listener.as_raw_fd());
        }
    }

    fn next_event(&mut self, _now: Nanos) -> Wake {
        Wake::Idle
    }
}
