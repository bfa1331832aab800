//! How devices are served: where, and what that needs of them.
use super::control::ControlOptions;
use super::ublk::UblkOptions;
use std::net::SocketAddr;
use std::path::PathBuf;
use zonal_backend::{Notices, OpenOptions, Stack, StackError, Unattached};
use zonal_blk::QueueOptions;
use zonal_frontend::nvme_tcp::ServerConfig;
use zonal_nvme::auth::{Group, Hash};
use zonal_os::poll::WaitPolicy;

/// How devices are opened and attached, and where they are served. The program, C and Python fill it, and
/// [`Server`](super::Server) decides what of a device each option needs.
#[derive(Clone, Debug, Default)]
pub struct ServeOptions {
    /// Seed of emulated devices, and of random faults.
    pub seed: u64,
    /// How block layers are attached; `iostats` and `watchable` are set as `control` needs.
    pub queue: QueueOptions,
    /// Receives notices about devices, and why writes and zone management fail.
    pub notices: Notices,
    /// The numbers of the devices as namespaces, ascending, from 1 to
    /// [`MAX_NAMESPACES`](zonal_nvme::controller::MAX_NAMESPACES); empty for those from 1 on.
    pub namespaces: Vec<u32>,
    /// Addresses of the NVMe/TCP target, each a path to the same subsystem; port 0 for any that is free.
    pub nvme_tcp: Vec<SocketAddr>,
    /// How the subsystem is served, over NVMe/TCP or to a virtual machine; its serial number is also that
    /// of a virtio device.
    pub nvme: NvmeOptions,
    /// The socket of an NVMe controller of a virtual machine.
    pub vfio_user: Option<PathBuf>,
    /// The socket of a virtio block device of a virtual machine, and its queues, from 1 to 256.
    pub vhost_user: Option<(PathBuf, u16)>,
    /// A block device of this machine.
    pub ublk: Option<UblkOptions>,
    /// Zones as files.
    pub zonefs: Option<ZonefsOptions>,
    /// How the devices are watched and changed.
    pub control: ControlOptions,
}

impl ServeOptions {
    /// Opens a device for any number of clients.
    ///
    /// # Errors
    /// As [`Stack::open`].
    pub fn open(&self, name: &str) -> Result<Stack<Unattached>, StackError> {
        let (seed, notices) = (self.seed, self.notices.clone());
        Stack::open_with(name, &OpenOptions { seed, channels: usize::MAX, notices })
    }

    /// Attaches a device with what the options need of it.
    ///
    /// # Errors
    /// As [`Stack::attach`].
    pub(super) fn attach(&self, mut device: Stack<Unattached>) -> Result<Stack, StackError> {
        let needs = self.control.needs();
        if needs.inject {
            device = device.inject(self.seed, Vec::new());
        }
        let (iostats, watchable) = (needs.iostats, needs.watchable);
        let stack = device.attach(QueueOptions { iostats, watchable, ..self.queue })?;
        stack.explain_failures(&self.notices);
        Ok(stack)
    }
}

/// How zones are offered as files.
#[derive(Clone, Debug)]
pub struct ZonefsOptions {
    /// The directory that they are mounted on.
    pub dir: PathBuf,
    /// zonefs' mount options, separated by commas.
    pub list: Option<String>,
    /// Threads that do I/O.
    pub threads: u16,
}

impl ZonefsOptions {
    /// Zones as files on a directory, without mount options.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        ZonefsOptions { dir: dir.into(), list: None, threads: 4 }
    }
}

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
