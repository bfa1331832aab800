//! A server: the thread that has the client, and those of rings.
use super::super::guest::server::RunningServer;
use super::device::{DeviceError, VirtioDevice};
use super::endpoint::Endpoint;
use std::io;
use std::path::Path;
use std::sync::Arc;
use zonal_blk::Queue;
use zonal_os::RealClock;
use zonal_os::poll::{Poller, WaitPolicy};

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Virtqueues, each with a thread while the guest uses it: 1 to 256.
    pub queues: u16,
    /// The device's serial number in the guest: up to 20 characters of it.
    pub serial: String,
    /// How the threads of the queues wait.
    pub waiting: WaitPolicy,
    /// The clock, the same for all users of a device.
    pub clock: RealClock,
}

/// Why a device is not served.
#[derive(Debug, thiserror::Error)]
pub enum VhostUserError {
    /// The path is in use, the socket cannot be created, or the system has no resources left.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// virtio has no such devices.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// A device that a virtual machine can have. Dropping it ends that, answers the requests in flight, and
/// removes the socket.
pub struct Server(RunningServer);

impl Server {
    /// Offers the device behind `queue` at the socket `path`, which only the user may open. A socket
    /// without a server is replaced.
    ///
    /// # Errors
    /// See [`VhostUserError`].
    ///
    /// # Panics
    /// If the number of queues is 0 or more than 256.
    pub fn start(
        path: &Path,
        queue: &Arc<Queue>,
        config: ServerConfig,
    ) -> Result<Self, VhostUserError> {
        let ServerConfig { queues, serial, waiting, clock } = config;
        assert!((1..=256).contains(&queues), "{queues} queues");
        let device = VirtioDevice::new(queue, queues, &serial)?;
        let poller = Poller::new(WaitPolicy::default())?;
        let of_workers = clock.clone();
        let endpoint = Endpoint::new(
            device,
            poller.waker(),
            Box::new(move |name, worker| worker.start(name, waiting, &of_workers)),
        );
        Ok(Server(RunningServer::start(path, endpoint, &clock, poller)?))
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}
