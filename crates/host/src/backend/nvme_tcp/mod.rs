//! The host: a device of the block layer that is a namespace somewhere else.
//!
//! ```text
//!  QueueConnection    a connection, one command at a time: set-up, keep alive, zone reports
//!  authenticate    who is who, if either side wants to know
//!  scan        admin queue: which namespace, what limits, how many queues
//!  queue       a connection, many commands at a time: a hardware queue
//!  device      a path: what the block layer sees, or the multipath device above
//!  link        whether the path has connections, and those that nobody uses
//!  keep_alive      keep alive, and connections that are made again
//!  paths       one device of several paths
//! ```
//!
//! Keeps true: a request ends, with an error if the connection is gone or its time is over; what
//! the target says is checked before it is believed.
mod address;
mod authenticate;
mod connections;
mod device;
mod keep_alive;
mod paths;
mod queue;
mod queue_connection;
mod scan;

pub use address::{Address, AddressError, SCHEME, check_nqn};
pub use authenticate::AuthError;
pub use device::NvmeTcpDevice;
pub use paths::open;
pub use queue_connection::ConnectError;
