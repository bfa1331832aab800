//! The NVMe/TCP target: a listener, and a thread for each connection.
//!
//! ```text
//!  Server      accepts connections, up to a limit
//!  Registry    the connections; closes the I/O queues of a host whose admin queue is gone
//!  Connection  a socket <-> zonal_nvme::Session, which has the protocol and the commands
//! ```
//!
//! What a host does affects at most its own connection; what a connection costs is bounded.
mod connection;
mod registry;
mod server;

pub use server::{Server, ServerConfig};
