//! NVMe/TCP on sockets: both ends of it.
//!
//! ```text
//!  zonal serve     Server   one thread for each connection: socket -> TargetConnection
//!                                 -> Controller or IoQueue -> the device's block layer
//!  a device        NvmeTcpDevice   one connection for each hardware queue: Request
//!                                 -> HostConnection -> socket, to this target or another
//! ```
//!
//! `zonal-nvme` knows what the bytes mean; here are the sockets, the threads and the clock.
mod address;
mod auth;
mod host;
mod socket;
mod target;

pub use address::{Address, AddressError, SCHEME, check_nqn};
pub use auth::{SecretsFileError, load_secrets};
pub use host::{AuthError, ConnectError, NvmeTcpDevice, open};
pub use socket::Waiting;
pub use target::{Server, ServerConfig};

/// Is told what happens, in words for people.
pub type Notify = std::sync::Arc<dyn Fn(&str) + Send + Sync>;
