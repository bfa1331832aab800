//! The settings of a server, and what all of its connections share.
use super::opening::TargetTls;
use super::registry::Registry;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;
use zonal_nvme::ana::Port;
use zonal_nvme::controller::Subsystem;
use zonal_os::RealClock;
use zonal_os::poll::WaitPolicy;

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
pub(super) struct TargetShared {
    pub config: ServerConfig,
    pub subsystem: Arc<Subsystem>,
    pub port: Arc<Port>,
    /// The connections that have become queues.
    pub registry: Arc<Registry>,
    /// The number of those that have not.
    pub pending: AtomicUsize,
    pub stopping: AtomicBool,
}
