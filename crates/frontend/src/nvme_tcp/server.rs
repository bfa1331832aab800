//! A listening target, its limits and settings.
use super::acceptor::Acceptor;
use super::config::{ServerConfig, TargetShared};
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
use zonal_os::poll::{Poller, WaitPolicy, Waker};

/// A listening target. Dropping it closes all connections and waits for the I/O in flight.
pub struct Server {
    address: SocketAddr,
    shared: Arc<TargetShared>,
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
        let shared = Arc::new(TargetShared {
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
