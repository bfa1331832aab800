//! Options of the exports that are an NVMe subsystem.
use std::path::PathBuf;
use zonal_frontend::nvme_tcp::ServerConfig;
use zonal_nvme::auth::{Group, Hash};
use zonal_os::poll::WaitPolicy;

/// How a subsystem is served.
#[derive(Clone, Debug)]
pub struct NvmeOptions {
    /// NVMe Qualified Name of the subsystem; `None` for one made from the UUIDs of images, else a random
    /// one.
    pub nqn: Option<String>,
    /// Serial number of the subsystem, and of a virtio device, up to 20 characters; `None` as for `nqn`.
    pub serial: Option<String>,
    /// UUIDs of the namespaces, one for each device; empty for those of images, else random ones.
    pub uuids: Vec<String>,
    /// NVMe Qualified Names of the hosts that may connect; empty for all.
    pub allowed_hosts: Vec<String>,
    /// The file of secrets of hosts, which must authenticate with DH-HMAC-CHAP.
    pub dhchap_secrets: Option<PathBuf>,
    /// Hash functions of authentication, the preferred first; empty for all.
    pub dhchap_hashes: Vec<Hash>,
    /// DH groups of authentication, the preferred first; empty for all.
    pub dhchap_groups: Vec<Group>,
    /// The file of pre-shared keys of hosts, which must use TLS.
    pub tls_psk: Option<PathBuf>,
    /// Hosts without a key may not connect without TLS.
    pub requires_tls: bool,
    /// Connections at the same time, of all hosts.
    pub max_connections: usize,
    /// Connections at the same time of one host NQN.
    pub max_host_connections: usize,
    /// I/O queues of a controller, from 1 to 128.
    pub io_queues: u16,
    /// Threads never sleep while hosts or virtual machines have I/O queues.
    pub poll: bool,
}

impl Default for NvmeOptions {
    fn default() -> Self {
        let ServerConfig { max_connections, max_host_connections, io_queues, .. } =
            ServerConfig::default();
        NvmeOptions {
            nqn: None,
            serial: None,
            uuids: Vec::new(),
            allowed_hosts: Vec::new(),
            dhchap_secrets: None,
            dhchap_hashes: Vec::new(),
            dhchap_groups: Vec::new(),
            tls_psk: None,
            requires_tls: true,
            max_connections,
            max_host_connections,
            io_queues,
            poll: false,
        }
    }
}

impl NvmeOptions {
    /// How threads wait.
    pub(super) fn waiting(&self) -> WaitPolicy {
        if self.poll { WaitPolicy::Yield } else { WaitPolicy::default() }
    }
}
