//! The export to a virtual machine as a virtio block device.
use super::Export;
use super::ServeArgs;
use super::identity::Identity;
use anyhow::{Context, Result};
use std::path::Path;
use zonal_frontend::vhost_user::{Server, ServerConfig};
use zonal_lab::devices::AttachedDevice;
use zonal_os::RealClock;
use zonal_os::poll::WaitPolicy;

/// A virtio device for a virtual machine.
pub struct VhostUser(Server);

impl Export for VhostUser {
    fn location(&self) -> String {
        format!("vhost-user {}", self.0.path().display())
    }
}

/// Starts a server at the socket `path`.
///
/// # Errors
/// virtio has no such devices, or the socket cannot be made.
pub fn start(
    path: &Path,
    args: &ServeArgs,
    device: &AttachedDevice,
    clock: &RealClock,
) -> Result<VhostUser> {
    let Identity { serial, .. } = Identity::new(&args.nvme_tcp, std::slice::from_ref(device))?;
    let config = ServerConfig {
        queues: args.vhost_user.queues,
        serial,
        waiting: if args.nvme_tcp.poll { WaitPolicy::Yield } else { WaitPolicy::default() },
        clock: clock.clone(),
    };
    let server = Server::start(path, &device.queue, config);
    server.map(VhostUser).with_context(|| format!("--vhost-user {}", path.display()))
}
