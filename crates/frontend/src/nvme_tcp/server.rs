//! A listening target, its limits and settings.
use super::acceptor::Acceptor;
use super::opening::TargetTls;
use super::registry::{Limits, Registry};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use zonal_blk::WakeUp;
use zonal_nvme::ana::{AnaState, Port};
use zonal_nvme::controller::Subsystem;
use zonal_os::RealClock;
use zonal_os::poll::{Poller, WaitPolicy, Waker};

/// Limits and settings of a server.
#[derive(Clone)]
pub struct ServerConfig {
    /// Host NQNs that may connect; empty for all.
    pub allowed_hosts: Vec<String>,
    /// Maximum number of connections: admin and I/O queues of all hosts that have authenticated, where
    /// they must.
    pub max_connections: usize,
    /// Maximum number of these of one host NQN.
    pub max_host_connections: usize,
    /// Maximum number of connections that have not sent Connect. One more takes the place of another.
    pub max_pending: usize,
    /// Maximum number of connections of hosts that have not authenticated, and of discovery. One more
    /// takes the place of another.
    pub max_unauthenticated: usize,
    /// I/O queues of one controller.
    pub io_queues: u16,
    /// TLS, if the target has it.
    pub tls: Option<Arc<TargetTls>>,
    /// How long a connection may take to send ICReq, after the handshake with TLS.
    pub init_timeout: Duration,
    /// How long a connection may take for the handshake of TLS.
    pub handshake_timeout: Duration,
    /// How long a connection may take to Connect, and how long a host may read none of the data sent
    /// to it.
    pub peer_timeout: Duration,
    /// How long a host may take to authenticate, where it must.
    pub auth_timeout: Duration,
    /// How long a discovery controller without a Keep Alive Timer may get no command.
    pub discovery_timeout: Duration,
    /// How the threads wait.
    pub waiting: WaitPolicy,
    /// The clock, the same for all users of a device.
    pub clock: RealClock,
}

impl Default for ServerConfig {
    fn default() -> Self {
        ServerConfig {
            allowed_hosts: Vec::new(),
            max_connections: 256,
            max_host_connections: 128,
            max_pending: 64,
            max_unauthenticated: 32,
            io_queues: 32,
            tls: None,
            init_timeout: Duration::from_secs(5),
            handshake_timeout: Duration::from_secs(10),
            peer_timeout: Duration::from_secs(10),
            auth_timeout: Duration::from_secs(30),
            discovery_timeout: Duration::from_secs(30),
            waiting: WaitPolicy::default(),
            clock: RealClock::start(),
        }
    }
}

/// Shared by all connections.
pub(super) struct Shared {
    pub config: ServerConfig,
    pub subsystem: Arc<Subsystem>,
    pub port: Arc<Port>,
    /// The connections that have become queues.
    pub registry: Arc<Registry>,
    /// The number of those that have not.
    pub pending: AtomicUsize,
    pub stopping: AtomicBool,
}

/// A listening target. Dropping it closes all connections and waits for the I/O in flight.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
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
        let registry = Arc::new(Registry::new(Limits {
            hosts: config.max_connections,
            of_host: config.max_host_connections,
            unauthenticated: config.max_unauthenticated,
        }));
        let (pending, stopping) = (AtomicUsize::new(0), AtomicBool::new(false));
        let shared = Arc::new(Shared {
            config,
            subsystem,
            port: Arc::default(),
            registry,
            pending,
            stopping,
        });
        let poller = Poller::new(WaitPolicy::Sleep(Duration::ZERO))?;
        let waker = poller.waker();
        let acceptor = Acceptor::new(listener, Arc::clone(&shared));
        let thread = thread::Builder::new().name("nvme-tcp".to_owned());
        let acceptor = Some(thread.spawn(move || acceptor.run(poller))?);
        Ok(Server { address, shared, acceptor, waker })
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The path to the subsystem over this address.
    pub fn path(&self) -> Path {
        let (subsystem, port) = (Arc::clone(&self.shared.subsystem), Arc::clone(&self.shared.port));
        Path { address: self.address, subsystem, port }
    }

    /// The number of connections.
    pub fn connections(&self) -> usize {
        self.shared.pending.load(Ordering::Relaxed) + self.shared.registry.len()
    }
}

/// A path to a subsystem: an address, and the ANA state of the namespaces there.
#[derive(Clone)]
pub struct Path {
    address: SocketAddr,
    subsystem: Arc<Subsystem>,
    port: Arc<Port>,
}

impl Path {
    /// The address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The ANA state of the namespaces at the address.
    pub fn ana_state(&self) -> AnaState {
        self.port.state()
    }

    /// Changes it: [`Subsystem::set_ana_state`].
    pub fn set_ana_state(&self, state: AnaState) {
        self.subsystem.set_ana_state(&self.port, state);
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
