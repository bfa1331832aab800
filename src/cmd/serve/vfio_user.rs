//! The export to a virtual machine.
use super::Export;
use super::ServeArgs;
use anyhow::{Context, Result};
use std::path::Path;
use std::sync::Arc;
use zonal_frontend::vfio_user::{Server, ServerConfig};
use zonal_nvme::controller::Subsystem;
use zonal_os::RealClock;
use zonal_os::poll::WaitPolicy;

/// A controller for a virtual machine.
pub struct VfioUser(Server);

impl Export for VfioUser {
    fn location(&self) -> String {
        format!("vfio-user {}", self.0.path().display())
    }
}

/// Starts a server at the socket `path`.
///
/// # Errors
/// The socket cannot be made.
pub fn start(
    path: &Path,
    args: &ServeArgs,
    subsystem: &Arc<Subsystem>,
    clock: &RealClock,
) -> Result<VfioUser> {
    let options = &args.nvme_tcp;
    let config = ServerConfig {
        io_queues: options.io_queues,
        waiting: if options.poll { WaitPolicy::Yield } else { WaitPolicy::default() },
        clock: clock.clone(),
    };
    let server = Server::start(path, subsystem, config);
    server.map(VfioUser).with_context(|| format!("--vfio-user {}", path.display()))
}
