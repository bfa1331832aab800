//! The NVMe/TCP target: a listener, and a thread for each queue.
//!
//! ```text
//!  Server      a listening target, its limits and settings
//!  Acceptor    accepts connections and serves them until Connect, all in one thread
//!  Registry    the queues, within limits; closes the I/O queues of a host whose admin queue is gone
//!  Opening     the first byte of a connection, and TLS, where the target has it
//!  Connection  a socket <-> zonal_nvme::Session, which has the protocol and the commands
//! ```
//!
//! A host can affect only its own connection, and the cost of a connection is bounded.
mod acceptor;
mod config;
mod connection;
mod disconnect;
mod opening;
mod registry;
mod server;

pub use config::ServerConfig;
pub use opening::TargetTls;
pub use server::{Path, Server};
