//! The listening socket, and the thread that has the client, the registers and the admin queue.
use super::endpoint::Endpoint;
use super::worker::Worker;
use crate::RealClock;
use crate::poll::{Frontend, Poller, Progress, WaitPolicy, WaitSet, Waker, serve};
use crate::unix_socket::BoundSocket;
use std::convert::Infallible;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use zonal_blk::{Channel, Clock, Nanos, Wake, WakeUp};
use zonal_nvme::controller::Subsystem;
use zonal_nvme::controller::pcie::IoWorker;

/// Messages that a client may have sent just before it went.
const MAX_LAST: usize = 1024;

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
        let endpoint = Endpoint::new(config.clock.now(), subsystem, config.io_queues);
        let endpoint =
            endpoint.ok_or_else(|| io::Error::other("the subsystem has too many controllers"))?;
        let poller = Poller::new(WaitPolicy::default())?;
        let waker = poller.waker();
        endpoint.function.set_waker(Arc::clone(&waker) as _);
        let stopping = Arc::new(AtomicBool::new(false));
        let serving = Serving {
            socket: Arc::clone(&socket),
            config,
            endpoint,
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
    endpoint: Endpoint,
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
        // The last client may have gone before this one came, and what it sent is still there.
        (0..MAX_LAST).any(|_| !self.endpoint.poll_session(now));
        if self.endpoint.session.is_some() {
            tracing::warn!("vfio-user: a second client was turned away");
        } else if !self.endpoint.function.is_quiescent() {
            self.next = Some(socket);
            return false;
        } else {
            self.endpoint.connect(socket);
        }
        true
    }

    fn start_worker(&mut self, queue: IoWorker) {
        let name = format!("vfio-user-{}", queue.cqid());
        let (shared, server) = (self.endpoint.shared.clone(), Arc::clone(&self.waker));
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
}

impl Frontend for Serving {
    type Error = Infallible;

    fn poll(&mut self, clock: &RealClock) -> Result<Progress, Infallible> {
        let now = clock.now();
        if self.stopping.load(Ordering::Acquire) {
            self.endpoint.leave(now);
            return Ok(Progress::Done);
        }
        let mut worked = self.endpoint.poll_session(now);
        worked |= self.accept(now);
        worked |= self.endpoint.poll_function(now);
        while let Some(queue) = self.endpoint.take_worker() {
            self.start_worker(queue);
        }
        self.workers.retain(|worker| !worker.is_finished());
        Ok(if worked { Progress::Worked } else { Progress::Idle })
    }

    fn drain(&mut self, _now: Nanos) -> bool {
        true
    }

    fn for_each_channel(&mut self, _visit: &mut dyn FnMut(&mut Channel)) {}

    fn wait_fds(&mut self, set: &mut WaitSet) {
        if let Some(session) = &self.endpoint.session {
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
