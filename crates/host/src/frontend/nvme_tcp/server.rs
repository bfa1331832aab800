//! Listens, and gives each connection a thread.
use super::connection::Connection;
use super::registry::Registry;
use crate::RealClock;
use crate::poll::socket::WaitPolicy;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use zonal_nvme::controller::Subsystem;

/// How often the listener looks whether it is to stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// What a server allows.
#[derive(Clone)]
pub struct ServerConfig {
    /// Host NQNs that may connect; empty for all.
    pub allowed_hosts: Vec<String>,
    /// Connections at once: admin and I/O queues of all hosts.
    pub max_connections: usize,
    /// Connections at once of one host NQN.
    pub max_host_connections: usize,
    /// I/O queues of one controller.
    pub io_queues: u16,
    /// How long a connection may take to become a queue, and how long a host may take none of what
    /// is sent to it.
    pub peer_timeout: Duration,
    /// How long a host may take to authenticate, where it has to.
    pub auth_timeout: Duration,
    /// How the threads wait.
    pub waiting: WaitPolicy,
    /// The time; all who use a device go by the same clock.
    pub clock: RealClock,
    /// Is told what happens to connections, in words for people.
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

/// What all connections share.
pub(super) struct Shared {
    pub config: ServerConfig,
    pub subsystem: Arc<Subsystem>,
    pub stopping: AtomicBool,
}

/// A target that listens. Dropping it ends it, after the I/O that its devices have begun.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    registry: Arc<Registry>,
    acceptor: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves a subsystem, and a discovery subsystem that tells of it, on `address`; port 0 for any
    /// that is free.
    ///
    /// # Errors
    /// The address cannot be listened on.
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
        let (theirs, places) = (Arc::clone(&shared), Arc::clone(&registry));
        let accept = move || accept(&listener, &theirs, &places);
        let acceptor = thread::Builder::new().name("nvme-tcp".to_owned()).spawn(accept)?;
        Ok(Server { address, shared, registry, acceptor: Some(acceptor) })
    }

    /// Where it listens.
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
        if let Some(acceptor) = self.acceptor.take() {
            // A thread that panicked has said so.
            let _ = acceptor.join();
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>, registry: &Arc<Registry>) {
    let look = Timespec { tv_sec: 0, tv_nsec: i64::from(STOP_CHECK_INTERVAL.subsec_nanos()) };
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    while !shared.stopping.load(Ordering::Acquire) {
        threads.retain(|thread| !thread.is_finished());
        let _ = poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&look));
        match listener.accept() {
            Ok((stream, peer)) => match begin(stream, peer, shared, registry) {
                Ok(thread) => threads.push(thread),
                Err(error) => (shared.config.notify)(&format!("{peer}: {error}")),
            },
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => {
                // No descriptors left, or the peer was gone already: others may do better later.
                (shared.config.notify)(&format!("cannot accept a connection: {error}"));
                thread::sleep(STOP_CHECK_INTERVAL);
            }
        }
    }
    registry.close();
    for thread in threads {
        let _ = thread.join();
    }
}

fn begin(
    stream: TcpStream,
    peer: SocketAddr,
    shared: &Arc<Shared>,
    registry: &Arc<Registry>,
) -> io::Result<JoinHandle<()>> {
    let most = shared.config.max_connections;
    let registration = registry.register(stream.try_clone()?, most);
    let registration =
        registration.ok_or_else(|| io::Error::other(format!("more than {most} connections")))?;
    let connection = Connection::new(stream, Arc::clone(shared), registration)?;
    thread::Builder::new().name("nvme-tcp".to_owned()).spawn(move || connection.run(peer))
}
