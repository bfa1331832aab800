//! The export to a virtual machine as a virtio block device.
use super::identity::Identity;
use super::{Export, NvmeOptions, ServeError, of_option};
use std::path::Path;
use zonal_backend::Stack;
use zonal_frontend::vhost_user::{Server, ServerConfig};
use zonal_os::RealClock;

/// A virtio device for a virtual machine.
pub struct VhostUser(Server);

impl Export for VhostUser {
    fn location(&self) -> String {
        format!("vhost-user {}", self.0.path().display())
    }
}

/// Starts a server at the socket `path`, for a device with this many queues.
///
/// # Errors
/// virtio has no such devices, or the socket cannot be made.
pub fn start(
    path: &Path,
    queues: u16,
    options: &NvmeOptions,
    device: &Stack,
    clock: &RealClock,
) -> Result<VhostUser, ServeError> {
    let Identity { serial, .. } = Identity::new(options, std::slice::from_ref(device))?;
    let config = ServerConfig { queues, serial, waiting: options.waiting(), clock: clock.clone() };
    let server = Server::start(path, &device.queue, config);
    server.map(VhostUser).map_err(of_option("vhost-user", Some(&path.display())))
}
