//! The target: a listener, and a thread for each connection.
//!
//! ```text
//!  Server      accepts, up to a number of connections
//!  Registry    who is connected; ends the I/O queues of a host whose admin queue ended
//!  Connection  bytes -> commands -> block layer -> responses -> bytes
//! ```
//!
//! Keeps true: what a peer does ends its connection at the worst; what a connection makes this side
//! keep is bounded.
mod connection;
mod execute;
mod registry;
mod server;

pub use server::{Server, ServerConfig};
