//! Listens, and starts a thread for each connection.
use super::connection::Connection;
use super::registry::Registry;
use crate::RealClock;
use crate::poll::{Frontend, Poller, Progress, WaitPolicy, WaitSet, Waker, serve};
use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use zonal_blk::{Channel, Clock, Nanos, Wake, WakeUp};
use zonal_nvme::controller::Subsystem;

/// How long nothing is accepted after an error.
const RETRY_INTERVAL: Nanos = Nanos(50_000_000);

/// Limits and settings of a server.
#[derive(Clone)]
pub struct ServerConfig {
    /// Host NQNs that may connect; empty for all.
    pub allowed_hosts: Vec<String>,
    /// Maximum number of connections: admin and I/O queues of all hosts.
    pub max_connections: usize,
    /// Maximum number of connections of one host NQN.
    pub max_host_connections: usize,
    /// I/O queues of one controller.
    pub io_queues: u16,
    /// How long a connection may take to Connect, and how long a host may read none of the data sent
    /// to it.
    pub peer_timeout: Duration,
    /// How long a host may take to authenticate, where it must.
    pub auth_timeout: Duration,
    /// How the threads wait.
    pub waiting: WaitPolicy,
    /// The clock, the same for all users of a device.
    pub clock: RealClock,
    /// Receives messages about connections.
    pub notify: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        ServerConfig {
            allowed_hosts: Vec::new(),
            max_connections: 256,
            max_host_connections: 128,
            io_queues: 32,
            peer_timeout: Duration::from_secs(10),
            auth_timeout: Duration::from_secs(30),
            waiting: WaitPolicy::default(),
            clock: RealClock::start(),
            notify: Arc::new(|_| ()),
        }
    }
}

/// Shared by all connections.
pub(super) struct Shared {
    pub config: ServerConfig,
    pub subsystem: Arc<Subsystem>,
    pub stopping: AtomicBool,
}

/// A listening target. Dropping it closes all connections and waits for the I/O in flight.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    registry: Arc<Registry>,
    acceptor: Option<JoinHandle<()>>,
    waker: Arc<Waker>,
}

impl Server {
    /// Serves a subsystem, and a discovery subsystem that lists it, on `address`; port 0 takes any
    /// free port.
    ///
    /// # Errors
    /// The address cannot be bound, or the system has no resources left.
    pub fn start(
        address: SocketAddr,
        subsystem: Arc<Subsystem>,
        config: ServerConfig,
    ) -> io::Result<Server> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let stopping = AtomicBool::new(false);
        let shared = Shared { config, subsystem, stopping };
        let (shared, registry) = (Arc::new(shared), Arc::new(Registry::default()));
        let poller = Poller::new(WaitPolicy::Sleep(Duration::ZERO))?;
        let waker = poller.waker();
        let acceptor = Acceptor {
            listener,
            shared: Arc::clone(&shared),
            registry: Arc::clone(&registry),
            threads: Vec::new(),
            retry: None,
        };
        let thread = thread::Builder::new().name("nvme-tcp".to_owned());
        let acceptor = Some(thread.spawn(move || acceptor.run(poller))?);
        Ok(Server { address, shared, registry, acceptor, waker })
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The number of connections.
    pub fn connections(&self) -> usize {
        self.registry.len()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(acceptor) = self.acceptor.take() {
            // A thread that panicked has said so.
            let _ = acceptor.join();
        }
    }
}

/// Accepts connections.
struct Acceptor {
    listener: TcpListener,
    shared: Arc<Shared>,
    registry: Arc<Registry>,
    threads: Vec<JoinHandle<()>>,
    /// When to accept again after an error.
    retry: Option<Nanos>,
}

impl Frontend for Acceptor {
    type Error = Infallible;

    fn poll(&mut self, clock: &RealClock) -> Result<Progress, Infallible> {
        if self.shared.stopping.load(Ordering::Acquire) {
            return Ok(Progress::Done);
        }
        let now = clock.now();
        if self.retry.is_some_and(|retry| now < retry) {
            return Ok(Progress::Idle);
        }
        self.retry = None;
        self.threads.retain(|thread| !thread.is_finished());
        let notify = &self.shared.config.notify;
        match self.listener.accept() {
            Ok((stream, peer)) => match start(stream, peer, &self.shared, &self.registry) {
                Ok(thread) => self.threads.push(thread),
                Err(error) => notify(&format!("{peer}: {error}")),
            },
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Progress::Idle),
            Err(error) => {
                // No descriptors left, or the peer is gone already: others may do better later.
                notify(&format!("cannot accept a connection: {error}"));
                self.retry = Some(now + RETRY_INTERVAL);
            }
        }
        Ok(Progress::Worked)
    }

    fn drain(&mut self, _now: Nanos) -> bool {
        true
    }

    fn for_each_channel(&mut self, _visit: &mut dyn FnMut(&mut Channel)) {}

    fn wait_fds(&mut self, set: &mut WaitSet) {
        if self.retry.is_none() {
            set.read(self.listener.as_raw_fd());
        }
    }

    fn next_event(&mut self, _now: Nanos) -> Wake {
        self.retry.map_or(Wake::Idle, Wake::At)
    }
}

impl Acceptor {
    fn run(mut self, mut poller: Poller) {
        let clock = self.shared.config.clock.clone();
        let Ok(()) = serve(&mut self, &clock, &mut poller);
        self.registry.close();
        for thread in self.threads {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

fn start(
    stream: TcpStream,
    peer: SocketAddr,
    shared: &Arc<Shared>,
    registry: &Arc<Registry>,
) -> io::Result<JoinHandle<()>> {
    let most = shared.config.max_connections;
    let registration = registry.register(stream.try_clone()?, most);
    let registration =
        registration.ok_or_else(|| io::Error::other(format!("more than {most} connections")))?;
    let poller = Poller::new(shared.config.waiting)?;
    let connection = Connection::new(stream, peer, Arc::clone(shared), registration)?;
    thread::Builder::new().name("nvme-tcp".to_owned()).spawn(move || connection.run(poller))
}
