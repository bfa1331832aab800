//! A server: the thread that has the client, the registers and the admin queue, and those of I/O queues.
use super::super::guest::closer::ClientSocket;
use super::super::guest::server::{GuestEndpoint, RunningServer};
use super::endpoint::Endpoint;
use super::session::Session;
use super::worker::Worker;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use zonal_blk::{Channel, Clock, Nanos, Wake};
use zonal_nvme::controller::Subsystem;
use zonal_nvme::controller::pcie::IoWorker;
use zonal_os::RealClock;
use zonal_os::poll::{Poller, WaitPolicy, WaitSet, Waker};

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
pub struct Server(RunningServer);

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
        let endpoint = Endpoint::new(config.clock.now(), subsystem, config.io_queues);
        let endpoint =
            endpoint.ok_or_else(|| io::Error::other("the subsystem has too many controllers"))?;
        let poller = Poller::new(WaitPolicy::default())?;
        let (waker, clock) = (poller.waker(), config.clock.clone());
        endpoint.function.set_waker(Arc::clone(&waker) as _);
        let threads = Threads { endpoint, config, workers: Vec::new(), waker };
        Ok(Server(RunningServer::start(path, threads, &clock, poller)?))
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

/// A controller with a thread for each completion queue.
struct Threads {
    endpoint: Endpoint,
    config: ServerConfig,
    workers: Vec<JoinHandle<()>>,
    waker: Arc<Waker>,
}

impl Threads {
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

impl GuestEndpoint for Threads {
    const NAME: &'static str = "vfio-user";

    fn is_connected(&self) -> bool {
        self.endpoint.session.is_some()
    }

    fn is_quiescent(&mut self) -> bool {
        self.endpoint.function.is_quiescent()
    }

    fn connect(&mut self, socket: ClientSocket) {
        self.endpoint.connect(socket);
    }

    fn poll_session(&mut self, now: Nanos) -> bool {
        self.endpoint.poll_session(now)
    }

    fn poll(&mut self, now: Nanos) -> bool {
        let worked = self.endpoint.poll_function(now);
        while let Some(queue) = self.endpoint.take_worker() {
            self.start_worker(queue);
        }
        self.workers.retain(|worker| !worker.is_finished());
        worked
    }

    fn end(&mut self, now: Nanos) -> bool {
        self.endpoint.leave(now);
        // Workers wind down without this thread.
        self.endpoint.poll_function(now);
        self.endpoint.function.is_idle()
    }

    fn for_each_channel(&mut self, visit: &mut dyn FnMut(&mut Channel)) {
        self.endpoint.function.channels().for_each(visit);
    }

    fn join(self) {
        for worker in self.workers {
            // A thread that panicked has said so.
            let _ = worker.join();
        }
    }

    fn next_event(&mut self) -> Wake {
        let function = self.endpoint.function.next_event();
        self.endpoint.session.as_ref().map_or(Wake::Idle, Session::next_event).min(function)
    }

    fn wait_fds(&self, set: &mut WaitSet) {
        if let Some(session) = &self.endpoint.session {
            session.wait_fds(set);
        }
    }
}
