//! The export to a virtual machine.
use super::{Export, NvmeOptions, ServeError, of_option};
use std::path::Path;
use std::sync::Arc;
use zonal_frontend::vfio_user::{Server, ServerConfig};
use zonal_nvme::controller::Subsystem;
use zonal_os::RealClock;

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
    options: &NvmeOptions,
    subsystem: &Arc<Subsystem>,
    clock: &RealClock,
) -> Result<VfioUser, ServeError> {
    let config = ServerConfig {
        io_queues: options.io_queues,
        waiting: options.waiting(),
        clock: clock.clone(),
    };
    let server = Server::start(path, subsystem, config);
    server.map(VfioUser).map_err(of_option("vfio-user", Some(&path.display())))
}
